"""How fast and how large: what a t-test costs beside what people run without privacy, or with another library.

    python tests/benchmarks/speed.py                              # 20 million rows
    python tests/benchmarks/speed.py --rows 100000 1000000        # one table each
    python tests/benchmarks/speed.py --check                      # and exit with status 1 if a goal is missed

Prints and keeps one Markdown table for each number of rows. Times are compared within one run only: the two sides
of a ratio take turns, in one process where they can, and the ratio is that of their medians. A t-test includes its
charge, to a ledger in memory unless the table says durable. Memory is the highest resident size the kernel has seen
in a process of its own, so this needs Linux. diffprivlib needs an old scikit-learn and gets an environment of its
own, once, in the user's cache folder; ``--peer-python`` names one that exists. The goals are meant for 20 million
rows.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from results import recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GROUPS = 2
BATCH = 1_000_000
ROWS = 20_000_000
PEER = ("diffprivlib==0.6.6", "scikit-learn<1.7")

PEER_SCRIPT = """
import json, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
from diffprivlib import tools
values = np.load(sys.argv[1])
times = []
for _ in range(int(sys.argv[2]) + 1):
    start = time.perf_counter()
    tools.mean(values, epsilon=0.5, bounds=(0.0, 100.0))
    tools.var(values, epsilon=0.5, bounds=(0.0, 100.0))
    times.append(time.perf_counter() - start)
print(json.dumps(times[1:]))
"""


# The table: five columns of numbers and one of groups.


def columns(rows: int) -> dict[str, np.ndarray]:
    """Return a table of six columns."""
    rng = np.random.default_rng(1)
    numbers = {name: np.empty(rows) for name in "xyzvw"}
    for values in numbers.values():
        for start in range(0, rows, BATCH):
            stop = min(rows, start + BATCH)
            values[start:stop] = rng.normal(50, 10, stop - start)
    return {**numbers, "group": rng.integers(0, GROUPS, rows)}


def view(frame: Any, ledger: str = "memory:") -> Any:
    """Protect a table."""
    import dfprivacy as dp

    terms: dict[str, Any] = {"epsilon": 10_000, "bounds": {"x": (0, 100)}, "categories": {"group": [0, 1]}}
    return dp.protect(frame, f"speed-{time.time_ns()}", **terms, ledger=ledger)


def seconds(*works: Callable[[], object], repeats: int) -> list[float]:
    """Return the median time of each of some works, which take turns after a turn that does not count."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(repeats + 1):
        for work, own in zip(works, times, strict=True):
            start = time.perf_counter()
            work()
            own.append(time.perf_counter() - start)
    return [statistics.median(own[1:]) for own in times]


def bare(batches: Iterator[Any]) -> np.ndarray:
    """Counts, sums and sums of squares by group: the least that a t-test needs, without clipping or exactness."""
    total = np.zeros((3, GROUPS))
    for batch in batches:
        x, group = batch.column("x").to_numpy(), batch.column("group").to_numpy()
        weights = (None, x, x * x)
        total += [np.bincount(group, weights=w, minlength=GROUPS) for w in weights]
    return total


# What is measured; each function runs in a process of its own and returns numbers.


def pandas_times(rows: int, repeats: int, folder: Path) -> list[float]:
    """A t-test on a pandas frame, and pandas' own moments by group."""
    import pandas as pd

    frame = pd.DataFrame(columns(rows))
    np.save(folder / "x.npy", frame["x"].to_numpy())
    private = view(frame)
    return seconds(
        lambda: private.ttest("x", by="group", epsilon=0.5, fresh=True),
        lambda: frame.groupby("group")["x"].agg(["mean", "var", "count"]),
        repeats=repeats,
    )


def polars_times(rows: int, repeats: int, folder: Path) -> list[float]:
    """A t-test on a Polars DataFrame, and a bare pass over the same memory."""
    import polars as pl

    frame = pl.DataFrame(columns(rows))
    frame.write_parquet(folder / "table.parquet", row_group_size=250_000)
    private = view(frame)
    table = frame.select("x", "group").to_arrow()
    return seconds(
        lambda: private.ttest("x", by="group", epsilon=0.5, fresh=True),
        lambda: bare(table.to_batches(max_chunksize=1 << 17)),
        repeats=repeats,
    )


def parquet_times(rows: int, repeats: int, folder: Path) -> list[float]:
    """A t-test streamed from Parquet, and a bare pass over the same file."""
    import polars as pl
    from pyarrow import dataset

    private = view(pl.scan_parquet(folder / "table.parquet"))
    file = dataset.dataset(folder / "table.parquet")
    return seconds(
        lambda: private.ttest("x", by="group", epsilon=0.5, fresh=True),
        lambda: bare(file.to_batches(columns=["x", "group"])),
        repeats=repeats,
    )


def pandas_memory(rows: int, repeats: int, folder: Path) -> list[float]:
    """Memory that the first t-test on a pandas frame takes beyond the frame, in MB."""
    import pandas as pd

    frame = pd.DataFrame(columns(rows))
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest size so far
    before = _status("VmRSS")
    view(frame).ttest("x", by="group", epsilon=0.5)
    return [_status("VmHWM") - before]


def parquet_memory(rows: int, repeats: int, folder: Path) -> list[float]:
    """Memory of a whole process that runs a t-test streamed from Parquet, in MB."""
    import polars as pl

    view(pl.scan_parquet(folder / "table.parquet")).ttest("x", by="group", epsilon=0.5)
    return [_status("VmHWM")]


def small_times(rows: int, repeats: int, folder: Path) -> list[float]:
    """A t-test of 10,000 rows that is charged to a ledger file."""
    import pandas as pd

    private = view(pd.DataFrame(columns(10_000)), str(folder / "ledger.sqlite"))
    nulls = iter(np.linspace(49, 51, 1000))  # a new question every time, as a user asks it
    return seconds(lambda: private.ttest("x", popmean=float(next(nulls)), epsilon=0.5), repeats=20 * repeats)


def explain_times(rows: int, repeats: int, folder: Path) -> list[float]:
    """A plan of a t-test, and the t-test; both look at the public number of rows, and the plan at no row."""
    import pandas as pd

    private = view(pd.DataFrame(columns(rows)))
    return seconds(
        lambda: private.explain("ttest", "x", by="group", epsilon=0.5, fresh=True),
        lambda: private.ttest("x", by="group", epsilon=0.5, fresh=True),
        repeats=repeats,
    )


def group_times(rows: int, repeats: int, folder: Path) -> list[float]:
    """A count and sum in each of 100 groups, and in one of them."""
    import pandas as pd

    import dfprivacy as dp

    frame = pd.DataFrame({"x": columns(rows)["x"], "of": np.random.default_rng(2).integers(0, 100, rows)})
    terms: dict[str, Any] = {"epsilon": 10_000, "bounds": {"x": (0, 100)}, "categories": {"of": range(100)}}
    private = dp.protect(frame, f"speed-{time.time_ns()}", **terms, ledger="memory:")
    return seconds(
        lambda: private.group_by("of").mean("x", epsilon=0.5, fresh=True),
        lambda: private.where(of=7).mean("x", epsilon=0.5, fresh=True),
        repeats=repeats,
    )


def import_times(rows: int, repeats: int, folder: Path) -> list[float]:
    """``import dfprivacy`` where pandas and Polars are already imported."""
    script = (
        "import time, pandas, polars; t = time.perf_counter(); import dfprivacy; print(time.perf_counter() - t)"
    )
    command = [sys.executable, "-c", script]
    runs = [float(subprocess.check_output(command)) for _ in range(2 * repeats + 1)]
    return [statistics.median(runs[1:])]


def _status(field: str) -> float:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[field].split()[0]) / 1024


WORKERS = {
    work.__name__: work
    for work in (
        pandas_times,
        polars_times,
        parquet_times,
        pandas_memory,
        parquet_memory,
        small_times,
        explain_times,
        group_times,
        import_times,
    )
}


def run(worker: str, rows: int, repeats: int, folder: Path) -> list[float]:
    """Run one worker in a process of its own."""
    command = [sys.executable, __file__, "--worker", worker, "--folder", str(folder)]
    command += ["--rows", str(rows), "--repeats", str(repeats)]
    return list(map(float, json.loads(subprocess.check_output(command))))


def peer_times(python: Path | None, repeats: int, folder: Path) -> float | None:
    """Median time of diffprivlib's mean and variance of one column; None, and a note, if it cannot be installed."""
    python = python or peer_environment()
    if python is None:
        return None
    command = [str(python), "-c", PEER_SCRIPT, str(folder / "x.npy"), str(repeats)]
    return float(statistics.median(json.loads(subprocess.check_output(command))))


def peer_environment() -> Path | None:
    """Return the Python of an environment with diffprivlib, made if it is not there."""
    import platformdirs

    home = Path(platformdirs.user_cache_dir("dfprivacy")) / "benchmarks" / "diffprivlib"
    python, ready = home / "bin" / "python", home / "ready"
    if not ready.exists():
        venv.create(home, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "--quiet", *PEER]
        installed = subprocess.run(install, capture_output=True, text=True, check=False)
        if installed.returncode:
            print(f"pip could not install diffprivlib: {installed.stderr.strip()}", file=sys.stderr)
            return None
        ready.touch()
    return python


def table(rows: int, repeats: int, peer_python: Path | None) -> list[tuple[str, str, str, bool | None]]:
    """Measure everything: what, measured, goal, and whether it is met."""
    found: list[tuple[str, str, str, bool | None]] = []

    def add(what: str, measured: float | None, goal: float, unit: str = "") -> None:
        shown = "not installed" if measured is None else f"{measured:.3g}{unit}"
        found.append((what, shown, f"≤ {goal:g}{unit}", None if measured is None else measured <= goal))

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def one(worker: str) -> float:
            (number,) = run(worker, rows, repeats, folder)
            return number

        def ratio(worker: str) -> float:
            ours, theirs = run(worker, rows, repeats, folder)
            return ours / theirs

        ours, theirs = run("pandas_times", rows, repeats, folder)
        add('`ttest(by=)` on pandas / pandas\' own `groupby().agg(["mean", "var", "count"])`', ours / theirs, 0.5)
        peers = peer_times(peer_python, repeats, folder)
        beside = None if peers is None else ours / peers
        add(
            "`ttest(by=)` on Polars / a bare NumPy pass over the same columns in memory", ratio("polars_times"), 2.0
        )
        add("`ttest(by=)` streamed from Parquet / a bare pyarrow and NumPy pass", ratio("parquet_times"), 2.0)
        add("`ttest(by=)` on pandas, two columns / diffprivlib's `mean` and `var` of one column", beside, 0.05)
        add("memory beyond a pandas frame", one("pandas_memory"), 150, " MB")
        add("memory in all, streamed from Parquet", one("parquet_memory"), 600, " MB")
        add(
            "one `ttest` of 10,000 rows after the first, with its durable charge",
            1000 * one("small_times"),
            10,
            " ms",
        )
        add("`explain` of a `ttest(by=)` / the `ttest` itself", ratio("explain_times"), 0.05)
        add("`mean` in each of 100 groups / `where` in one of them", ratio("group_times"), 2.0)
        add("`import dfprivacy` after pandas and Polars", one("import_times"), 0.3, " s")
    return found


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[ROWS], help="rows of each table")
    parser.add_argument("--repeats", type=int, default=3, help="turns of which the median counts (default: 3)")
    parser.add_argument("--peer-python", type=Path, help="the Python of an environment with diffprivlib")
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a goal is missed")
    parser.add_argument("--worker", choices=WORKERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        print(json.dumps(WORKERS[asked.worker](asked.rows[0], asked.repeats, asked.folder)))
        return 0

    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "pandas", "polars", "pyarrow", "opendp"))
    print(f"Python {platform.python_version()}, {packages}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}.")
    missed = False
    for rows in asked.rows:
        print(f"\n{rows:,} rows, medians of {asked.repeats}:\n")
        name = "speed" if rows == ROWS else f"speed_{rows}"
        with recorded(name, "what", "measured", "goal", "met") as row:
            for what, measured, goal, met in table(rows, asked.repeats, asked.peer_python):
                row(what, measured, goal, "–" if met is None else "yes" if met else "**no**")
                missed |= met is False
    return int(missed and asked.check)


if __name__ == "__main__":
    sys.exit(main())
