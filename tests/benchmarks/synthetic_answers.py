"""Answers from the measured tables of a synthetic table: how often their intervals cover.

python tests/benchmarks/synthetic_answers.py synth_coverage --runs 200 --resume FILE
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from harness import DATA, Array, Rows, Tables, parts, protected

from dfprivacy_synth.coding import Coding

tables = Tables(__doc__)
SIZES, EPSILONS, LEAST = (1000, 10_000, 100_000), (0.3, 1.0, 3.0), 20
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
    import dfprivacy as dp

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


@tables.add("95 % interval of", *(f"{n:,} rows, ε = {epsilon:g}" for n in SIZES for epsilon in EPSILONS))
def synth_coverage(runs: int = 200) -> Rows:
    """Coverage of intervals, of samples of a census of 48,842 rows, at delta 1e-6, where one row may change."""
    frame = census()
    cells = [(n, epsilon) for n in SIZES for epsilon in EPSILONS]
    found = [parts(f"{n}, {e:g}, {runs}", partial(covered, frame, n, e, runs)) for n, e in cells]
    for name in dict.fromkeys(name for each in found for name in each):
        cells = [each.get(name, (0.0, 0)) for each in found]
        yield name, *(f"{rate:.3f}" if often >= min(LEAST, runs) else "–" for rate, often in cells)


if __name__ == "__main__":
    tables.main()
