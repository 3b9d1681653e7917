"""Synthetic tables: how far they are from the private one, beside MST and AIM; and intervals of their answers.

    python tests/benchmarks/synthetic.py synth_peers --resume FILE

MST and AIM are those of dpmm, which has them and their inference in NumPy; they run in an environment of its own.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from harness import DATA, Array, Rows, Tables, parts, peer, problem, protected
from numpy.typing import NDArray

import dfprivacy as dp
from dfprivacy_synth.coding import Coding

tables = Tables(__doc__)
EPSILONS, DELTA, BINS = (0.1, 1.0, 10.0), 1e-9, 32
LIMIT = 1200  # seconds of a run
NUMBERS = {"mdvis": (0, 80), "lncoins": (0, 5), "lpi": (0, 8), "fmde": (0, 9), "physlm": (0, 1), "disea": (0, 60)}
AFFAIRS = {"affairs": (0, 60)}
Labels = dict[str, list[Any]]


def coded(frame: pd.DataFrame, bounds: dict[str, tuple[int, int]], labels: Labels) -> pd.DataFrame:
    """Codes of categories, and of numbers by equal intervals between public bounds."""
    found = {}
    for name, known in labels.items():
        edges = np.linspace(*bounds[name], BINS + 1)[1:-1] if name in bounds else known[1:]
        found[name] = np.searchsorted(edges, frame[name], side="right")
    return pd.DataFrame(found)


def private() -> Iterator[tuple[str, pd.DataFrame, dict[str, tuple[int, int]], Labels]]:
    """Tables, the bounds of numbers, and the values of categories; what numbers become has as many as intervals."""
    import statsmodels.api as sm

    for name, data, bounds in (("affairs", "fair", AFFAIRS), ("health", "randhie", NUMBERS)):
        frame = getattr(sm.datasets, data).load_pandas().data
        labels = {x: [*range(BINS)] if x in bounds else np.unique(frame[x]).tolist() for x in frame}
        yield name, frame, bounds, labels
    if (DATA / "adult-domain.json").is_file():
        sizes = json.loads((DATA / "adult-domain.json").read_text(encoding="utf-8"))
        yield "census", pd.read_csv(DATA / "adult-coded.csv"), {}, {x: [*range(size)] for x, size in sizes.items()}


def distances(real: NDArray[Any], drawn: NDArray[Any], sizes: list[int]) -> list[float]:
    """Mean total variation over all tables of two columns, and of three."""
    means = []
    for columns in (2, 3):
        found = []
        for places in map(list, itertools.combinations(range(len(sizes)), columns)):
            shape = [sizes[at] for at in places]
            cells = [np.ravel_multi_index(tuple(rows[:, places].T), shape) for rows in (real, drawn)]
            _, cell = np.unique(np.concatenate(cells), return_inverse=True)
            one, other = (np.bincount(of, minlength=cell.max() + 1) / len(of) for of in np.split(cell, [len(real)]))
            found.append(np.abs(one - other).sum() / 2)
        means.append(float(np.mean(found)))
    return means


def of_peer(method: str, real: NDArray[Any], sizes: list[int], epsilon: float) -> list[float] | None:
    """Distances and seconds of another library; None if it takes too long or fails."""
    python = peer("dpmm")
    with tempfile.TemporaryDirectory() as folder:
        table, kept = Path(folder) / "codes.npz", Path(folder) / "synthetic.npz"
        np.savez(table, codes=real, sizes=sizes)
        script = [python or "python", Path(__file__).with_name("peers_synth.py")]
        asked = [*script, method, table, kept, str(epsilon), str(DELTA)]
        try:
            subprocess.run(asked, check=True, timeout=LIMIT, capture_output=True, text=True)
        except subprocess.CalledProcessError as error:
            problem(f"{method}: {error.stderr[-300:]}")
            return None
        except subprocess.TimeoutExpired:
            return None
        with np.load(kept) as found:
            return [*distances(real, found["codes"], sizes), *found["spent"].tolist()]


def ours(frame: pd.DataFrame, bounds: dict[str, tuple[int, int]], labels: Labels, epsilon: float) -> list[float]:
    """Distances and seconds of ours."""
    terms: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA}
    known = {name: each for name, each in labels.items() if name not in bounds}
    view = protected(frame[[*labels]], **terms, bounds=bounds, categories=known, neighbors="add_remove")
    began = time.process_time()
    drawn = view.synth(**terms).sample(len(frame))
    seconds = time.process_time() - began
    real, synthetic = (coded(each, bounds, labels).to_numpy() for each in (frame, drawn))
    return [*distances(real, synthetic, [*map(len, labels.values())]), seconds]


def shown(far: Any) -> str:
    """Two distances."""
    return "–" if far is None else f"{far[0]:.4f} / {far[1]:.4f}"


@tables.add("table", "rows", "columns", "ε", "MST", "AIM", "ours", "seconds of MST", "of AIM", "of ours")
def synth_peers(runs: int = 4) -> Rows:
    """Mean total variation over all tables of two / three columns from the private one, at delta 1e-9."""
    for (name, frame, bounds, labels), epsilon in itertools.product(private(), EPSILONS):
        codes, sizes = coded(frame, bounds, labels), [*map(len, labels.values())]
        asked = [(name, codes, {}, {x: [*range(len(each))] for x, each in labels.items()})]
        asked += [("health, numbers as they are", frame, bounds, labels)] * (name == "health")
        measures = {way: partial(of_peer, way, codes.to_numpy(), sizes, epsilon) for way in ("MST", "AIM")}
        theirs = [parts(f"{way} {name}, {epsilon:g}", measure) for way, measure in measures.items()]
        times = ["–" if each is None else f"{each[2]:.0f}" for each in theirs]
        for title, *of in asked:
            own = np.mean([ours(*of, epsilon) for _ in range(runs)], axis=0)
            what = title, f"{len(frame):,}", len(sizes), f"{epsilon:g}"
            yield *what, *map(shown, (*theirs, own)), *times, f"{own[2]:.1f}"


# Answers from measured tables

SIZES, PRICES, LEAST = (1000, 10_000, 100_000), (0.3, 1.0, 3.0), 20
BOUNDS = {"age": (15, 100), "hours": (0, 100)}
LEVELS = {"sex": ["female", "male"], "income": ["low", "high"]}
LEVELS |= {"race": ["white", "asian", "native", "other", "black"]}
LEVELS |= {"school": ["less", "high school", "some college", "degree"]}
LEVELS |= {"status": ["married", "divorced", "never", "other"]}
MEANS = [(x, by) for by in (None, "income") for x in BOUNDS]
SHARES = [("income", None), ("status", None), ("race", None), ("income", "sex"), ("income", "status")]
SHARES += [("income", "school")]
COUNTS = [("sex", "income"), ("race", "income"), ("school", "income")]
SLOPES = ["age ~ income", "hours ~ income", "income ~ age", "income ~ sex", "income ~ school"]


def census() -> pd.DataFrame:
    """Seven columns of the census of 1994, with few categories."""
    codes = pd.read_csv(DATA / "adult-coded.csv")
    coarse = {"sex": codes["sex"], "income": codes["income>50K"], "race": codes["race"]}
    coarse["school"] = np.searchsorted([8, 9, 12], codes["education-num"], side="right")
    coarse["status"] = codes["marital-status"].clip(upper=3)
    known = {name: np.array(LEVELS[name])[of] for name, of in coarse.items()}
    return pd.DataFrame({"age": codes["age"] + 17.0, "hours": codes["hours-per-week"] + 1.0, **known})


def as_told(frame: pd.DataFrame, synthetic: Any) -> pd.DataFrame:
    """What answers are of: numbers within the limits of a synthetic table, categories as it tells them apart."""
    found = {}
    for code in map(Coding.from_plain, synthetic.codings):
        x = frame[code.name]
        if code.numeric:
            low, *_, high = code.values
            found[code.name] = x.clip(low, high)
        else:
            names = {value: str(code.labels[of]) for value, of in zip(code.values, code.of, strict=True)}
            found[code.name] = pd.Categorical(x.map(names), [str(of) for of in code.labels if of is not None])
    return pd.DataFrame(found)


def counts(of: pd.DataFrame, x: str, by: str | None) -> Array:
    """Rows of each category, in each of another."""
    return np.asarray(of[x].value_counts(sort=False) if by is None else pd.crosstab(of[x], of[by], dropna=False))


def shares(of: pd.DataFrame, x: str, by: str | None) -> Array:
    """Shares of categories, in each of another."""
    return counts(of, x, by) / counts(of, x, by).sum(axis=0)


def means(of: pd.DataFrame, x: str, by: str | None) -> Array:
    """Means in each category."""
    return np.asarray(of[x].mean() if by is None else of.groupby(by, observed=False)[x].mean())


def slopes(of: pd.DataFrame, formula: str) -> Array:
    """Coefficients of least squares, without the intercept."""
    response, *regressors = formula.replace(" ", "").replace("~", "+").split("+")
    y, x = (pd.get_dummies(of[names], drop_first=True, dtype=float) for names in ([response], regressors))
    return np.linalg.lstsq(x.assign(one=1.0), y.to_numpy(), rcond=None)[0].ravel()[:-1]


def questions(synthetic: Any, people: pd.DataFrame, rows: pd.DataFrame) -> Iterator[tuple[str, Any, Any]]:
    """Questions, how they are answered, and what the truth is."""

    def by(kind: str, x: str, of: str | None) -> str:
        return f"{kind} of {x}" + f" by {of}" * bool(of)

    for each in MEANS:
        yield by("mean", *each), partial(synthetic.mean, *each), partial(means, people, *each)
    for x in BOUNDS:
        apart = partial(synthetic.ttest, x, "income")
        yield f"difference of {x}", apart, lambda x=x: -np.diff(means(people, x, "income"))
    for each in SHARES:
        yield by("share", *each), partial(synthetic.proportions, *each), partial(shares, people, *each)
    for each in COUNTS:
        yield by("rows", *each), partial(synthetic.crosstab, *each), partial(counts, rows, *each)
    for formula in SLOPES:
        yield formula, partial(synthetic.ols, formula), partial(slopes, people, formula)
    for one, other in ((x for x in names if x != "income") for names in synthetic.measured if len(names) == 3):
        formula = f"income ~ {one} + {other}"
        kind = "a number and another" if {one, other} & {*BOUNDS} else "two of categories"
        yield f"income ~ {kind}", partial(synthetic.ols, formula), partial(slopes, people, formula)


def covered(frame: pd.DataFrame, n: int, epsilon: float, runs: int) -> dict[str, list[float]]:
    """How often intervals hold the truth, and in how many runs they were known, for each question."""
    hits, terms = defaultdict[str, list[float]](list), {"epsilon": epsilon, "delta": 1e-6}
    rng = np.random.default_rng(1)
    for _ in range(runs):
        drawn = frame.sample(n, replace=True, random_state=int(rng.integers(2**31)), ignore_index=True)
        view = protected(drawn, **terms, bounds=BOUNDS, categories=LEVELS, neighbors="replace_one")
        synthetic = view.synth(target="income", **terms)
        for name, ask, truth in questions(synthetic, as_told(frame, synthetic), as_told(drawn, synthetic)):
            try:
                answer = ask()
            except dp.ArgumentError:  # not known
                continue
            exact = np.ravel(truth())
            if exact.size:  # a category that is one code has no slope
                low, high = (ends[len(ends) - exact.size :] for ends in (answer.low, answer.high))
                hits[name].append(float(np.mean((low <= exact) & (exact <= high))))
    return {name: [float(np.mean(each)), len(each)] for name, each in hits.items()}


@tables.add("95 % interval of", *(f"{n:,} rows, ε = {epsilon:g}" for n in SIZES for epsilon in PRICES))
def synth_coverage(runs: int = 200) -> Rows:
    """Coverage of intervals, of samples of a census of 48,842 rows, at delta 1e-6, where one row may change."""
    frame = census()
    cells = [(n, epsilon) for n in SIZES for epsilon in PRICES]
    found = [parts(f"{n}, {e:g}, {runs}", partial(covered, frame, n, e, runs)) for n, e in cells]
    for name in dict.fromkeys(name for each in found for name in each):
        cells = [each.get(name, (0.0, 0)) for each in found]
        yield name, *(f"{rate:.3f}" if often >= min(LEAST, runs) else "–" for rate, often in cells)


if __name__ == "__main__":
    tables.main()
