"""How fast and how large answers are, beside what people run without privacy, or with another library.

    python tests/benchmarks/speed.py speed                # 20 million rows
    python tests/benchmarks/speed.py peers_speed --rows 100000

Times are compared within one run only: the sides of a ratio take turns in one process, after a turn that does not
count, and the ratio is that of their medians, of the processor's seconds of all threads unless a table says
otherwise. An answer includes its charge, to a ledger in memory unless the table says durable. Memory is the highest
resident size that the kernel has seen in a process of its own, so this needs Linux. The exit status is 1 if a goal
is missed.
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from harness import Array, Row, Rows, Tables, met, peer, problem, protected

Work = Callable[[], object]
tables = Tables(__doc__)
NAMES = [f"x{i}" for i in range(6)]
DECLARED: dict[str, Any] = {
    "bounds": dict.fromkeys(NAMES, (0, 100)),
    "categories": {"group": list(range(100)), "arm": [0, 1]},
}
FRESH: dict[str, Any] = {"epsilon": 0.5, "fresh": True}
GOALS = ("what", "measured", "goal", "met")


def turns(*works: Callable[[], object], repeats: int, warm: int = 1) -> list[list[tuple[float, float]]]:
    """Seconds of the processor and on the clock that works took, which take turns; the first does not count."""
    took: list[list[tuple[float, float]]] = [[] for _ in works]
    for _ in range(repeats + warm):
        for work, own in zip(works, took, strict=True):
            start = time.process_time(), time.perf_counter()
            work()
            own.append((time.process_time() - start[0], time.perf_counter() - start[1]))
    return [own[warm:] for own in took]


def medians(*works: Callable[[], object], repeats: int, clock: bool = False) -> list[float]:
    """The median of each work's times, of the processor or on the clock."""
    return [statistics.median(each[clock] for each in own) for own in turns(*works, repeats=repeats)]


def judged(what: str, measured: float | None, goal: float, unit: str = "") -> Row:
    """A row of what was measured, its goal, and whether it is met."""
    if measured is None:
        return what, "not installed", f"≤ {goal:g}{unit}", "–"
    if measured > goal:
        problem(f"{what}: {measured:.3g}{unit}")
    return what, f"{measured:.3g}{unit}", f"≤ {goal:g}{unit}", met(measured <= goal)


def apart(function: Callable[..., Any], *given: Any, threads: int | None = None) -> Any:
    """Call a function of this file in a process of its own, which says what it returned."""
    code = (
        f"import json, sys; sys.path[:0] = [{str(Path(__file__).parent)!r}]; import speed; "
        f"print(json.dumps(speed.{function.__name__}(*json.loads(sys.argv[1]))))"
    )
    limits = {} if threads is None else dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    command = [sys.executable, "-c", code, json.dumps(given, default=str)]
    return json.loads(subprocess.check_output(command, env=os.environ | limits, text=True).splitlines()[-1])


def resident(field: str) -> float:
    """Memory of this process now ("VmRSS") or at most ("VmHWM"), in MB, as Linux tells it."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[field].split()[0]) / 1024


def peak_memory(work: Callable[[], object]) -> float:
    """What a work takes at most beyond what this process had before, in MB."""
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest size so far
    before = resident("VmRSS")
    work()
    return resident("VmHWM") - before


def data(rows: int) -> dict[str, Array]:
    """Six columns of numbers, and groups of two kinds."""
    rng, numbers = np.random.default_rng(1), {name: np.empty(rows) for name in NAMES}
    for values in numbers.values():
        for start in range(0, rows, 1_000_000):
            values[start : start + 1_000_000] = rng.normal(50, 10, len(values[start : start + 1_000_000]))
    return numbers | {name: rng.integers(0, len(of), rows) for name, of in DECLARED["categories"].items()}


def ttest(view: Any) -> Work:
    """Ask a t-test of two groups."""
    return lambda: view.ttest("x0", by="arm", **FRESH)


# A t-test; each side runs in a process of its own


def side(kind: str, rows: int, repeats: int, folder: str) -> list[float]:
    """Times of our work and of another, on the clock; or one number, of megabytes, milliseconds or seconds."""
    file, of = Path(folder) / "table.parquet", partial(medians, repeats=repeats, clock=True)
    if kind == "import":  # where pandas and Polars are already imported
        code = (
            "import pandas, polars; from time import perf_counter as t; s = t(); import dfprivacy; print(t() - s)"
        )
        runs = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(2 * repeats + 1)]
        return [statistics.median(runs[1:])]
    if kind == "polars":
        frame = pl.DataFrame(data(rows))
        frame.write_parquet(file, row_group_size=250_000)
        table = frame.select("x0", "arm").to_arrow()
        return of(ttest(protected(frame, **DECLARED)), lambda: by_group(table))
    if kind in {"parquet", "streaming"}:
        ask = ttest(protected(pl.scan_parquet(file), **DECLARED))
        if kind == "parquet":
            return of(ask, lambda: by_group(file))
        ask()
        return [resident("VmHWM")]
    if kind == "few":  # a new question of 10,000 rows, charged to a ledger file
        small, nulls = pd.DataFrame(data(10_000)), itertools.count(1)
        view = protected(small, **DECLARED, ledger=f"{folder}/ledger.sqlite")
        new = medians(
            lambda: view.ttest("x0", popmean=50 + next(nulls) / 1000, epsilon=0.5), repeats=20 * repeats, clock=True
        )
        return [1000 * new[0]]
    frame_ = pd.DataFrame(data(rows))
    view = protected(frame_, **DECLARED)
    if kind == "memory":
        return [peak_memory(ttest(view))]
    if kind == "pandas":
        np.save(Path(folder) / "x.npy", frame_["x0"].to_numpy())
        return of(ttest(view), lambda: frame_.groupby("arm")["x0"].agg(["mean", "var", "count"]))
    if kind == "explain":  # both look at the public number of rows, and the plan at no row
        return of(partial(view.explain, "ttest", "x0", by="arm", **FRESH), ttest(view))
    many, one = view.group_by("group"), view.where(group=7)
    return of(lambda: many.mean("x0", **FRESH), lambda: one.mean("x0", **FRESH))


DIFFPRIVLIB = """
import json, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
from diffprivlib import tools
values, times = np.load(sys.argv[1]), []
for _ in range(int(sys.argv[2]) + 1):
    start = time.perf_counter()
    tools.mean(values, epsilon=0.5, bounds=(0.0, 100.0))
    tools.var(values, epsilon=0.5, bounds=(0.0, 100.0))
    times.append(time.perf_counter() - start)
print(json.dumps(times[1:]))
"""


SPEED = (  # what is measured, the side that measures it, and the goal
    ('`ttest(by=)` on pandas / pandas\' own `groupby().agg(["mean", "var", "count"])`', "pandas", 0.5, ""),
    ("`ttest(by=)` on Polars / a bare NumPy pass over the same columns in memory", "polars", 2.0, ""),
    ("`ttest(by=)` streamed from Parquet / a bare pyarrow and NumPy pass", "parquet", 2.0, ""),
    ("`ttest(by=)` on pandas, two columns / diffprivlib's `mean` and `var` of one column", "diffprivlib", 0.05, ""),
    ("memory beyond a pandas frame", "memory", 150, " MB"),
    ("memory in all, streamed from Parquet", "streaming", 600, " MB"),
    ("one `ttest` of 10,000 rows after the first, with its durable charge", "few", 10, " ms"),
    ("`explain` of a `ttest(by=)` / the `ttest` itself", "explain", 0.05, ""),
    ("`mean` in each of 100 groups / `where` in one of them", "groups", 2.0, ""),
    ("`import dfprivacy` after pandas and Polars", "import", 0.3, " s"),
)


@tables.add(*GOALS)
def speed(rows: int = 20_000_000, repeats: int = 5) -> Rows:
    """A t-test of two groups, on the clock, everything included; the README's paragraph is of this table."""
    with tempfile.TemporaryDirectory() as folder:
        ours = 0.0
        for what, kind, goal, unit in SPEED:
            if kind != "diffprivlib":
                one, *other = apart(side, kind, rows, repeats, folder)
                ours = one if kind == "pandas" else ours
                yield judged(what, one / other[0] if other else one, goal, unit)
            elif python := peer("diffprivlib"):
                told = subprocess.check_output([python, "-c", DIFFPRIVLIB, f"{folder}/x.npy", str(repeats)])
                yield judged(what, ours / statistics.median(json.loads(told)), goal)
            else:
                yield judged(what, None, goal)


# Explanations

EXPLAINED: dict[str, tuple[Any, ...]] = {
    "ttest, one sample": ("ttest", {"popmean": 20}, "x"),
    "ttest, two groups": ("ttest", {"by": "arm"}, "x"),
    "ttest, public groups": ("ttest", {"by": "site"}, "x"),
    "mean": ("mean", {}, "x"),
    "describe": ("describe", {}, ["x"]),
    "chi2": ("chi2", {}, "ill", "arm"),
    "chi2_many": ("chi2_many", {}, ["ill", "arm"], "site"),
    "kernel_two_sample": ("kernel_two_sample", {"by": "arm"}, ["x", "y"]),
    "dcor": ("dcor", {}, "x", "y"),
    "ols": ("ols", {}, "y ~ x + z"),
}


@tables.add(
    *("what", "rows", "answer", "first answer", "explain fresh", "first", "of the answer"),
    *("explain what may be kept", "first of these", "of the answer too", "on the clock", "goal", "met"),
)
def explain_speed(repeats: int = 3, pause: float = 2.1) -> Rows:
    """`explain` beside the answer, in a ledger file; ten of each, at new prices, after a pause.

    The first of ten finds the processor's caches full of other things, and the first explanation the ledger written
    since it was read. A fresh question is not looked for in it; the other is, in the account of another data set.
    """
    prices = (0.5 + each / 10**6 for each in itertools.count())
    groups = {"arm": ["drug", "placebo"], "ill": ["no", "yes"], "site": ["a", "b"]}

    def ten(work: Callable[..., object]) -> list[tuple[float, float]]:
        time.sleep(pause)
        return turns(lambda: work(epsilon=next(prices)), repeats=10, warm=0)[0]

    for (name, (method, about, *args)), rows in itertools.product(EXPLAINED.items(), (10_000, 1_000_000)):
        rng = np.random.default_rng(1)
        numbers = {x: rng.normal(50, 10, rows) for x in "xyz"}
        frame = pd.DataFrame(numbers | {x: rng.choice(each, rows) for x, each in groups.items()})
        with tempfile.TemporaryDirectory() as folder:
            terms = {"bounds": dict.fromkeys("xyz", (0, 100)), "categories": groups, "public": ["site"]}
            terms["ledger"] = Path(folder, "ledger.sqlite")
            asked, kept = protected(frame, **terms), protected(frame.copy(), **terms)
            getattr(kept, method)(*args, **about, epsilon=2)
            took: dict[str, list[list[tuple[float, float]]]] = {"answer": [], "fresh": [], "looked": []}
            for _, (kind, view) in itertools.product(range(repeats), (("fresh", asked), ("looked", kept))):
                took["answer"].append(ten(partial(getattr(asked, method), *args, **about, fresh=True)))
                explain = partial(view.explain, method, *args, **about, fresh=kind == "fresh")
                took[kind].append(ten(explain))
        all_ten = {kind: 1000 * np.median(np.concatenate(own), axis=0) for kind, own in took.items()}
        firsts = {kind: 1000 * statistics.median(turn[0][0] for turn in own) for kind, own in took.items()}
        (answer, clock), (fresh, quick), (looked, slow) = all_ten.values()
        within = max(fresh, looked) / answer <= 0.05 and max(quick, slow) / clock <= 0.05
        if not within:
            problem(f"explain {name}, {rows:,}: {max(fresh, looked) / answer:.1%}")
        shown = [f"`{name}`", f"{rows:,}", f"{answer:.1f} ms", f"{firsts['answer']:.1f} ms"]
        for kind, took_ in (("fresh", fresh), ("looked", looked)):
            shown += [f"{took_:.2f} ms", f"{firsts[kind]:.2f} ms", f"{took_ / answer:.1%}"]
        yield *shown, f"{quick / clock:.1%}, {slow / clock:.1%}", "≤ 5%", met(within)


# Ranks and regression


@tables.add("what", "ours, s", "theirs, s", "times")
def peers_speed(rows: int = 1_000_000, repeats: int = 3) -> Rows:
    """Ranks and a regression of ten columns, beside scipy's and NumPy's on one core: the least times."""
    from scipy import stats

    rng, names = np.random.default_rng(79), [f"x{j}" for j in range(10)]
    x, group, wide = rng.normal(size=rows), rng.integers(0, 2, rows), rng.normal(size=(rows, 10)).clip(-4, 4)
    y, X = wide @ np.full(10, 0.1) + rng.normal(size=rows), np.column_stack([np.ones(rows), wide])
    df = pd.DataFrame({"x": x, "g": group, **dict(zip(names, wide.T, strict=True)), "y": y})
    bounds = {"x": (-6, 6), "y": (-8, 8), **dict.fromkeys(names, (-4, 4))}
    view = protected(df, bounds=bounds, categories={"g": [0, 1]})
    ranks = (
        partial(view.mannwhitneyu, "x", by="g", **FRESH),
        lambda: stats.mannwhitneyu(x[group == 0], x[group == 1]),
    )
    line = partial(view.ols, "y", names, **FRESH), partial(np.linalg.lstsq, X, y, rcond=None)
    asked = {"mannwhitneyu, 1e6 rows; scipy": ranks, "ols, 1e6 rows, 10 regressors; numpy.linalg.lstsq": line}
    for what, (ours, theirs) in asked.items():
        mine, other = (min(own)[0] for own in turns(ours, theirs, repeats=repeats))
        yield what, f"{mine:.2f}", f"{other:.2f}", f"{mine / other:.2f}"


# Files, beside a bare pass of pyarrow and NumPy that checks, clips, rounds and charges nothing


def by_group(source: Any) -> Array:
    """The number of rows of groups, and sums and squares of one column of a file or a table: what a test needs."""
    table, total, at_once = isinstance(source, pa.Table), np.zeros((3, 2)), 1 << 17
    names = ["x0", "arm"]
    whole = source.to_batches(at_once) if table else ds.dataset(source).to_batches(names, batch_size=at_once)
    for batch in whole:
        x, group = (batch.column(name).to_numpy(zero_copy_only=False) for name in names)
        total += [np.bincount(group, weights, minlength=2) for weights in (None, x, x * x)]
    return total


def asked_of_files(folder: str) -> list[float]:
    """Protect a folder of Parquet files, and ask a t-test and second moments; and the memory of all, in MB."""
    terms = {"epsilon": 100, "delta": "1/1000", "bounds": dict.fromkeys(NAMES, (0, 100))}
    took = []
    for source in (pd.DataFrame({name: [1.0, 2.0] for name in NAMES}), None):  # imports, first calls
        views: list[Any] = []
        opened = ds.dataset(folder) if source is None else source
        works = (
            lambda opened=opened, views=views: views.append(protected(opened, **terms)),
            lambda views=views: views[0].ttest("x0", popmean=50, epsilon=1),
            lambda views=views: views[0].moments(NAMES, epsilon=1, delta=1e-6),
        )
        took = [own[0][0] for own in turns(*works, repeats=1, warm=0)]
    return [*took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]


@tables.add("rows", "protect, s", "t-test, s", "ns a row", "second moments, s", "ns a row", "peak, MB")
def engines_scale(most: int = 10**8) -> Rows:
    """How time and memory grow with a folder of Parquet files, from 10⁵ rows on."""
    for rows in (size for size in (10**5, 10**6, 10**7, 10**8) if size <= most):
        n = min(2_500_000, rows)
        with tempfile.TemporaryDirectory() as folder:
            for file in range(rows // n):
                rng = np.random.default_rng([1, file])
                small = [rng.integers(0, 101, n, dtype=np.int8) for _ in range(3)]
                floats = [rng.random(n, dtype=np.float32) * np.float32(100) for _ in range(3)]
                table = pa.table(dict(zip(NAMES, [*small, *floats], strict=True)))
                pq.write_table(table, f"{folder}/{file}.parquet", row_group_size=250_000)
            protect, test, moments, peak = apart(asked_of_files, folder, threads=1)
        shown = [cell for took in (test, moments) for cell in (f"{took:.2f}", f"{took / rows * 1e9:.0f}")]
        yield f"{rows:,}", f"{protect:.2f}", *shown, f"{peak:.0f}"


if __name__ == "__main__":
    tables.main()
