"""Run by the Python of another library's environment: questions in, noisy answers out, many of each.

    PYTHON tests/benchmarks/eda_peers.py LIBRARY QUESTIONS.json ANSWERS.json

A question has the statistic, the relation, epsilon, bounds, and the file of a column. The answer is a list of runs,
each a list of numbers, or null where the library has no such method. Imports nothing of dfprivacy.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from functools import cache, partial

import numpy as np

RUNS, FEWER_RUNS = 1000, 300
SECONDS, LEAST = 5.0, 20  # of a question, and answers that it has in any case


def opendp(question):  # noqa: C901 - one answer for each kind of question
    """OpenDP's Context API: chains of a query, of which the noise is drawn by OpenDP, often; or None."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "honest-but-curious")
    statistic, epsilon, public = question["statistic"], question["epsilon"], question["relation"] == "replace_one"
    x = load(question["file"])
    rows, distance = (len(x), 2) if public else (None, 1)

    def context():
        return dp.Context.compositor(
            data=x.tolist(),
            privacy_unit=dp.unit_of(contributions=distance),
            privacy_loss=dp.loss_of(epsilon=1e6),
            domain=dp.vector_domain(dp.atom_domain(T=float, nan=False), size=rows),
        )

    def laplace(query, exact):
        noise = dp.m.make_laplace(
            dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float), scale=query.param()
        )
        exact = np.atleast_1d(np.asarray(exact, dtype=float))
        return np.reshape(noise(np.tile(exact, RUNS).tolist()), (RUNS, exact.size))

    def clamped(epsilon):
        return context().query(epsilon=epsilon).clamp((question["low"], question["high"]))

    def count(epsilon):
        return laplace(context().query(epsilon=epsilon).count().laplace(), len(x))

    if statistic in {"histogram", "value_counts", "crosstab"}:
        cells = x.astype(int)
        integers = dp.vector_domain(dp.atom_domain(T=int), size=rows)
        counted = dp.Context.compositor(
            data=cells.tolist(),
            privacy_unit=dp.unit_of(contributions=distance),
            privacy_loss=dp.loss_of(epsilon=1e6),
            domain=integers,
        )
        names = list(range(question["cells"]))
        query = counted.query(epsilon=epsilon).count_by_categories(names, null_category=False).laplace()
        return laplace(query, np.bincount(cells, minlength=question["cells"]))
    if statistic in {"median", "quartiles"}:
        shares = [0.5] if statistic == "median" else [0.25, 0.5, 0.75]
        space = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=rows), dp.symmetric_distance()
        candidates, rng, found = np.array(question["candidates"]), np.random.default_rng(1), []
        below = np.searchsorted(np.sort(x), candidates, side="left")
        above = len(x) - np.searchsorted(np.sort(x), candidates, side="right")
        for share in shares:
            make = partial(dp.m.make_private_quantile, *space, dp.max_divergence(), candidates.tolist(), share)
            scale = dp.binary_search_param(make, d_in=distance, d_out=epsilon / len(shares))
            # Its choice takes 20 ms; the same law is drawn at once: the best of scores with exponential noise.
            scores = -np.abs((1 - share) * below - share * above)
            noisy = scores + scale * rng.exponential(size=(RUNS, len(scores)))
            found.append(candidates[noisy.argmax(axis=1)])
        return np.transpose(found)
    if statistic == "sum":
        return laplace(clamped(epsilon).sum().laplace(), x.sum())
    if statistic == "count":
        return None if public else count(epsilon)
    if statistic == "mean":
        if public:
            return laplace(clamped(epsilon).mean().laplace(), x.mean())
        sums = laplace(clamped(epsilon / 2).sum().laplace(), x.sum())
        return sums / np.maximum(count(epsilon / 2), 1)
    if statistic in {"var", "std"} and public:
        found = np.maximum(laplace(clamped(epsilon).variance().laplace(), x.var(ddof=1)), 0)
        return np.sqrt(found) if statistic == "std" else found
    return None


def diffprivlib(question):
    """diffprivlib's tools; they change a row, but for its counts, where one comes or goes."""
    from diffprivlib import tools

    statistic, epsilon, public = question["statistic"], question["epsilon"], question["relation"] == "replace_one"
    x = load(question["file"])
    if statistic in {"histogram", "value_counts", "crosstab"}:
        cells, half = question["cells"], 2 if public else 1
        kept = {"epsilon": epsilon / half, "bins": cells, "range": (-0.5, cells - 0.5)}
        return often(lambda: tools.histogram(x, **kept)[0], FEWER_RUNS)
    if statistic == "count" and not public:
        # It takes the length of the array for public and cuts its noise off there, so half of an array is counted.
        half = np.repeat([1, 0], len(x))
        return np.array([[tools.count_nonzero(half, epsilon=epsilon)] for _ in range(RUNS)])
    if not public or statistic == "count":
        return None
    bounds = (question["low"], question["high"])
    if statistic == "quartiles":
        run = partial(tools.quantile, x, [0.25, 0.5, 0.75], epsilon=epsilon, bounds=bounds)
    else:
        run = partial(getattr(tools, statistic), x, epsilon=epsilon, bounds=bounds)
    try:
        return often(run, RUNS)
    except RuntimeError:  # where values are tied, it finds no candidate at times
        return None


def often(run, most):
    """Answers, as many as fit into some seconds."""
    found, start = [], time.perf_counter()
    while len(found) < most and (len(found) < LEAST or time.perf_counter() - start < SECONDS):
        found.append(np.atleast_1d(run()))
    return np.array(found)


_SQL = {"count": ("COUNT(*)", 1), "sum": ("SUM(x)", 1), "mean": ("AVG(x)", 2), "var": ("VAR(x)", 3)}
_SQL["std"] = ("STDDEV(x)", 3)


def smartnoise(question):
    """SmartNoise SQL; None where it refuses, as the variance of wide columns: "Noise scale is too large"."""
    try:
        return _smartnoise(question)
    except ValueError:
        return None


def _smartnoise(question):
    """A query grouped by run, of exact numbers that are the same in each; rows come and go."""
    import pandas as pd
    from snsql import Privacy, from_df

    statistic, epsilon = question["statistic"], question["epsilon"]
    if question["relation"] == "replace_one" or statistic in {"median", "quartiles"}:
        return None
    x = load(question["file"])
    table = {"row_privacy": True, "rows": len(x), "censor_dims": False, "clamp_counts": False}
    table |= {"r": {"type": "int"}}
    table["x"] = {"type": "float", "lower": question.get("low", 0.0), "upper": question.get("high", 1.0)}
    counted = statistic in {"histogram", "value_counts", "crosstab"}
    what, times = ("COUNT(*)", 1) if counted else _SQL[statistic]
    reader = from_df(
        pd.DataFrame({"r": [0, 1], "x": [0.0, 1.0]}),
        privacy=Privacy(epsilon=epsilon / times, delta=1e-9),
        metadata={"": {"t": {"t": table}}},
    )
    query = f"SELECT r, {what} FROM t.t GROUP BY r"  # noqa: S608 - our own words
    inner, _ = reader._rewrite_ast(reader.parse_query_string(query))
    names = reader._get_reader(inner)._execute_ast(inner)[0]
    if counted:
        cells = np.bincount(x.astype(int), minlength=question["cells"])
        runs = max(1, 1000 // len(cells))
        exact = [names, *((at, int(count)) for at, count in enumerate(np.tile(cells, runs).tolist()))]
        answers = reader.execute(query, pre_aggregated=exact)[1:]
        return np.reshape([answer[1] for answer in sorted(answers)], (runs, len(cells)))
    known = {"count": len(x), "sum": float(x.sum()), "square": float((x**2).sum())}
    columns = ["r" if name == "r" else part(name) for name in names]
    rows = [tuple(run if column == "r" else known[column] for column in columns) for run in range(FEWER_RUNS)]
    answers = reader.execute(query, pre_aggregated=[names, *rows])[1:]
    found = np.array([[math.nan if answer[1] is None else float(answer[1])] for answer in answers])
    return np.nan_to_num(found)  # the root of a negative variance


def part(name):
    """Which exact number a column of SmartNoise's inner query has."""
    return "sum" if name.startswith("sum_x") else "count" if name.startswith(("count", "keycount")) else "square"


@cache
def load(file):
    """Read a column."""
    return np.load(file)


def main():
    """Answer everything."""
    warnings.simplefilter("ignore")
    library, asked, kept = sys.argv[1:]
    answer = {"opendp": opendp, "diffprivlib": diffprivlib, "smartnoise": smartnoise}[library]
    with open(asked, encoding="utf-8") as file:  # noqa: PTH123 - of any version of Python
        questions = json.load(file)
    found = [answer(question) for question in questions]
    with open(kept, "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump([None if each is None else np.asarray(each, dtype=float).tolist() for each in found], file)


if __name__ == "__main__":
    main()
