"""How fast questions about people with several rows are, beside the same question of rows and what engines do.

    python tests/benchmarks/people_speed.py                    # 2 million rows of 200,000 people
    python tests/benchmarks/people_speed.py --check            # and exit with status 1 if it takes too long

Everybody has ten rows on average, of which eight count, so rows of most people are chosen. All that a line compares
takes turns in one process, and its ratios are those of the medians of processor times. Every turn protects the
table anew: its first question finds out who is there and chooses the rows, later ones do not.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from results import recorded

import dfprivacy as dp

if TYPE_CHECKING:
    from collections.abc import Callable

MOST = 8
AGGREGATES = {"x": "mean", "n": "count", "most": ("x", "max")}
WINDOW, LATER, PER = 2.5, 5.0, 4.0


def table(rows: int, people: int, named: str) -> pd.DataFrame:
    """Visits of people."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"pid": rng.integers(0, people, rows), "x": rng.uniform(0, 8, rows)})
    frame["g"] = rng.integers(0, 2, rows)
    if named == "scattered numbers":
        frame["pid"] = rng.integers(0, 2**62, people)[frame["pid"]]
    if named == "texts":
        frame["pid"] = "patient " + frame["pid"].astype(str)
    return frame


def protected(frame: Any, **terms: Any) -> Any:
    """A view that can pay for everything."""
    return dp.protect(
        frame,
        f"people-speed-{time.time_ns()}",
        epsilon=1e6,
        bounds={"x": (0, 8)},
        categories={"g": [0, 1]},
        ledger="memory:",
        **terms,
    )


def clipped(frame: Any) -> object:
    """The engine's own sum of a column within its bounds."""
    if isinstance(frame, pd.DataFrame):
        return frame["x"].clip(0, 8).sum()
    if isinstance(frame, pa.Table):
        return pl.from_arrow(frame)["x"].clip(0, 8).sum()
    return frame.lazy().select(pl.col("x").clip(0, 8).sum()).collect(engine="streaming")


def bounded(frame: Any) -> object:
    """The engine's own sum of the first rows of everybody."""
    if isinstance(frame, pd.DataFrame):
        return frame["x"].clip(0, 8)[frame.groupby("pid").cumcount() < MOST].sum()
    lazy = pl.from_arrow(frame).lazy() if isinstance(frame, pa.Table) else frame.lazy()
    first = pl.int_range(pl.len()).of_frame("pid") < MOST
    return lazy.filter(first).select(pl.col("x").clip(0, 8).sum()).collect()


def grouped(frame: Any) -> object:
    """The engine's own aggregates of everybody."""
    if isinstance(frame, pd.DataFrame):
        return frame.groupby("pid").agg(x=("x", "mean"), n=("x", "size"), most=("x", "max"))
    if isinstance(frame, pa.Table):
        return frame.group_by("pid").aggregate([("x", "mean"), ("x", "count"), ("x", "max")])
    columns = [pl.col("x").mean(), pl.len().alias("n"), pl.col("x").max().alias("most")]
    return frame.lazy().group_by("pid").agg(columns).collect(engine="streaming")


def took(work: Callable[[], object]) -> float:
    """Processor time."""
    start = time.process_time()
    work()
    return time.process_time() - start


def ratios(frame: Any, repeats: int, most: int = MOST) -> list[float]:
    """Medians of the turns after the first, as the columns say."""
    turns = []
    for _ in range(repeats + 1):
        rows, people, other = protected(frame), *(protected(frame, unit="pid", max_rows=most) for _ in range(2))
        rows.count(epsilon=1)  # reads nothing of the columns
        turns.append([
            took(lambda view=rows: view.sum("x", epsilon=1)),
            took(lambda: clipped(frame)),
            took(lambda: bounded(frame)),
            took(lambda: grouped(frame)),
            took(lambda view=people: view.sum("x", epsilon=1)),
            took(lambda view=people: view.sum("x", epsilon=2)),
            took(lambda view=other: view.per("pid").agg(AGGREGATES).sum("x", epsilon=1)),
        ])  # fmt: skip
    same, plain, window, groups, first, later, per = (
        statistics.median(each) for each in zip(*turns[1:], strict=True)
    )
    return [later / same, later / plain, first / same, first / plain, first / window, per / groups]


def main() -> None:
    """Measure every engine and kind of name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--people", type=int, default=200_000)
    parser.add_argument("--most", type=int, default=MOST, help="50: nobody has more rows than count")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--named", nargs="*", default=["numbers", "texts"], help="or: scattered numbers")
    parser.add_argument("--check", action="store_true", help="fail where something takes longer than it may")
    args = parser.parse_args()
    engines: dict[str, Callable[[pd.DataFrame], Any]] = {
        "pandas": lambda frame: frame,
        "Polars": pl.from_pandas,
        "Polars, lazy": lambda frame: pl.from_pandas(frame).lazy(),
        "Arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    }
    columns = (
        "table", "people are named by", "later question / of rows", "/ engine's sum", "first question / of rows",
        "/ engine's sum", "/ engine's sum of the first rows", "`per` / engine's groups",
    )  # fmt: skip
    late = []
    with recorded("people_speed", *columns, keep=(args.rows, args.most) == (2_000_000, MOST)) as row:
        for named in args.named:
            frame = table(args.rows, args.people, named)
            for engine, make in engines.items():
                if named == "texts" and engine == "Arrow":
                    continue
                found = ratios(make(frame), args.repeats, args.most)
                row(engine, named, *(f"{each:.1f}" for each in found))
                lazy = engine == "Polars, lazy"  # which chooses anew in every pass
                if found[4] > WINDOW or (found[0] > LATER and not lazy) or found[5] > PER:
                    late.append((engine, named))
    if args.check and late:
        sys.exit(f"too slow: {late}")


if __name__ == "__main__":
    main()
