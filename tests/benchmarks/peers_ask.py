"""Run by the Python of another library's environment: its own answers to everyday questions, one call for each.

    PYTHON tests/benchmarks/peers_ask.py LIBRARY COLUMNS.npz ANSWERS.json SECONDS

The table has a column x of numbers in [0, 100] and a column c of eight categories, in codes; that of
LIBRARY_regression has five columns x, and outcomes y and z. Answers are drawn as a user
draws them, by a call each, at epsilon 1, as many as fit into the seconds, from three to two hundred; the time
is the least of a call, with the table in memory: of the processor, or on the clock of Tumult, which runs in another
process. Imports nothing of dfprivacy.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import warnings
from functools import partial
from operator import itemgetter

import numpy as np

LOW, HIGH, BINS, CATEGORIES = 0.0, 100.0, 20, 8
QUARTILES = (0.25, 0.5, 0.75)
REGRESSORS, SPREAD, OUTCOME = (1, 3, 5), 3.0, 5.0
MOST, LEAST = 200, 3


def diffprivlib(x, c):
    """diffprivlib's tools; they change a row, but for its counts, where one comes or goes."""
    from diffprivlib import tools

    said = {"epsilon": 1.0, "bounds": (LOW, HIGH)}
    changed = {name: partial(getattr(tools, name), x, **said) for name in ("mean", "var", "std", "sum", "median")}
    changed["quartiles"] = lambda: tools.quantile(x, list(QUARTILES), **said)
    half = np.repeat([1, 0], len(x))  # it takes the length of the array for public, and cuts its noise off there
    come = {"count": lambda: tools.count_nonzero(half, epsilon=1.0)}
    for relation, asked, epsilon in (("replace_one", changed, 0.5), ("add_remove", come, 1.0)):
        counts = partial(tools.histogram, epsilon=epsilon)
        asked["histogram"] = lambda counts=counts: counts(x, bins=BINS, range=(LOW, HIGH))[0]
        ends = (-0.5, CATEGORIES - 0.5)
        asked["value_counts"] = lambda counts=counts, ends=ends: counts(c, bins=CATEGORIES, range=ends)[0]
        yield relation, asked


def opendp(x, c):
    """OpenDP's Context API, and its quantiles among 1,025 candidates."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "honest-but-curious")
    values, codes, candidates = x.tolist(), c.tolist(), np.linspace(LOW, HIGH, 1025).tolist()
    for relation, rows, distance in (("replace_one", len(x), 2), ("add_remove", None, 1)):
        floats = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=rows)
        integers = dp.vector_domain(dp.atom_domain(T=int), size=rows)

        def query(data, domain, epsilon, distance=distance):
            loss = dp.loss_of(epsilon=1e9)
            context = dp.Context.compositor(
                data=data, privacy_unit=dp.unit_of(contributions=distance), privacy_loss=loss, domain=domain
            )
            return lambda: context.query(epsilon=epsilon)

        def counted(data, size, query=query, integers=integers):
            ask = query(data, integers, 1.0)
            return lambda: ask().count_by_categories(list(range(size)), null_category=False).laplace().release()

        def quantiles(shares, floats=floats, distance=distance):
            space = floats, dp.symmetric_distance(), dp.max_divergence()
            made = []
            for share in shares:
                make = partial(dp.m.make_private_quantile, *space, candidates, share)
                scale = dp.binary_search_param(make, d_in=distance, d_out=1 / len(shares))
                made.append(make(scale))
            return lambda: [each(values) for each in made]

        ask, half = query(values, floats, 1.0), query(values, floats, 0.5)
        asked = {
            "sum": lambda ask=ask: ask().clamp((LOW, HIGH)).sum().laplace().release(),
            "median": quantiles(QUARTILES[1:2]),
            "quartiles": quantiles(QUARTILES),
            "histogram": counted(np.minimum(x // (HIGH / BINS), BINS - 1).astype(int).tolist(), BINS),
            "value_counts": counted(codes, CATEGORIES),
        }
        if rows is None:
            asked["count"] = lambda ask=ask: ask().count().laplace().release()
            asked["mean"] = lambda half=half: (
                half().clamp((LOW, HIGH)).sum().laplace().release() / half().count().laplace().release()
            )
        else:
            asked["mean"] = lambda ask=ask: ask().clamp((LOW, HIGH)).mean().laplace().release()
            asked["var"] = lambda ask=ask: ask().clamp((LOW, HIGH)).variance().laplace().release()
            asked["std"] = lambda ask=asked["var"]: np.sqrt(max(ask(), 0))
        yield relation, asked


def smartnoise(x, c):
    """SmartNoise SQL on a pandas frame; rows come and go."""
    import pandas as pd
    from snsql import Privacy, from_df

    frame = pd.DataFrame({"x": x, "c": c, "b": np.minimum(x // (HIGH / BINS), BINS - 1).astype(int)})
    meta = {"row_privacy": True, "rows": len(x), "censor_dims": False, "clamp_counts": False}
    meta |= {"x": {"type": "float", "lower": LOW, "upper": HIGH}, "c": {"type": "int"}, "b": {"type": "int"}}

    def query(what, parts, by="", cells=CATEGORIES):
        privacy = Privacy(epsilon=1 / parts, delta=1e-9)
        reader = from_df(frame, privacy=privacy, metadata={"": {"t": {"t": meta}}})
        if by:
            text = f"SELECT {by}, {what} FROM t.t GROUP BY {by}"  # noqa: S608 - our own words

            def ask():
                found = {row[0]: float(row[1]) for row in reader.execute(text)[1:]}
                return [found.get(cell, 0.0) for cell in range(cells)]  # it leaves out those of few rows

            return ask
        return lambda: float(reader.execute(f"SELECT {what} FROM t.t")[1][0] or 0)  # noqa: S608

    asked = {
        "count": query("COUNT(*)", 1),
        "sum": query("SUM(x)", 1),
        "mean": query("AVG(x)", 2),
        "var": query("VAR(x)", 3),
        "std": query("STDDEV(x)", 3),
        "histogram": query("COUNT(*)", 1, "b", BINS),
        "value_counts": query("COUNT(*)", 1, "c"),
        "group means": query("AVG(x)", 2, "c"),
    }
    yield "add_remove", asked


def pipelinedp(x, c):
    """PipelineDP on its local backend: rows come and go, and each is of a person."""
    import pipeline_dp as pdp

    metrics, backend = pdp.Metrics, pdp.LocalBackend()
    bins = np.minimum(x // (HIGH / BINS), BINS - 1).astype(int)
    rows = list(zip(range(len(x)), c.tolist(), x.tolist(), bins.tolist(), strict=True))
    limits = {"max_partitions_contributed": 1, "max_contributions_per_partition": 1}
    limits |= {"min_value": LOW, "max_value": HIGH}

    def query(*asked, by=None, keys=1):
        def ask():
            accountant = pdp.NaiveBudgetAccountant(total_epsilon=1, total_delta=1e-9)
            engine = pdp.DPEngine(accountant, backend)
            params = pdp.AggregateParams(noise_kind=pdp.NoiseKind.LAPLACE, metrics=[*asked], **limits)
            key = (lambda _: 0) if by is None else itemgetter(by)
            extractors = pdp.DataExtractors(
                privacy_id_extractor=itemgetter(0), partition_extractor=key, value_extractor=itemgetter(2)
            )
            found = engine.aggregate(rows, params, extractors, public_partitions=list(range(keys)))
            accountant.compute_budgets()
            return [number for _, answer in sorted(found) for number in answer]

        return ask

    spread = query(metrics.VARIANCE)
    asked = {
        "count": query(metrics.COUNT),
        "sum": query(metrics.SUM),
        "mean": query(metrics.MEAN),
        "var": spread,
        "std": lambda: np.sqrt(np.maximum(spread(), 0)),
        "median": query(metrics.PERCENTILE(50)),
        "quartiles": query(*(metrics.PERCENTILE(100 * q) for q in QUARTILES)),
        "histogram": query(metrics.COUNT, by=3, keys=BINS),
        "value_counts": query(metrics.COUNT, by=1, keys=CATEGORIES),
        "group means": query(metrics.MEAN, by=1, keys=CATEGORIES),
    }
    yield "add_remove", asked


def tumult(x, c):
    """Tumult Analytics on a local Spark: rows come and go."""
    import pandas as pd
    from pyspark.sql import SparkSession
    from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, Session

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    bins = np.minimum(x // (HIGH / BINS), BINS - 1).astype(int)
    frame = spark.createDataFrame(pd.DataFrame({"x": x, "c": c.astype(int), "b": bins})).cache()
    budget = PureDPBudget(float("inf"))
    session = Session.from_dataframe(budget, "t", frame, protected_change=AddOneRow())
    of, keys = QueryBuilder("t"), KeySet.from_dict({"c": list(range(CATEGORIES))})
    cells = KeySet.from_dict({"b": list(range(BINS))})

    def query(*every, order="z"):
        def ask():
            found = [session.evaluate(made, PureDPBudget(1 / len(every))).toPandas() for made in every]
            return [number for each in found for number in each.sort_values(order).z]

        return ask

    asked = {
        "count": query(of.count(name="z")),
        "sum": query(of.sum("x", LOW, HIGH, name="z")),
        "mean": query(of.average("x", LOW, HIGH, name="z")),
        "var": query(of.variance("x", LOW, HIGH, name="z")),
        "std": query(of.stdev("x", LOW, HIGH, name="z")),
        "median": query(of.median("x", LOW, HIGH, name="z")),
        "quartiles": query(*(of.quantile("x", q, LOW, HIGH, name="z") for q in QUARTILES)),
        "histogram": query(of.groupby(cells).count(name="z"), order="b"),
        "value_counts": query(of.groupby(keys).count(name="z"), order="c"),
        "group means": query(of.groupby(keys).average("x", LOW, HIGH, name="z"), order="c"),
    }
    yield "add_remove", asked


def diffprivlib_regression(x, y, z):
    """diffprivlib's models; they change a row."""
    from diffprivlib.models import LinearRegression, LogisticRegression

    asked = {}
    for q in REGRESSORS:
        few, low, high = x[:, :q], [-SPREAD] * q, [SPREAD] * q
        made = partial(LinearRegression, epsilon=1.0, bounds_X=(low, high), bounds_y=(-OUTCOME, OUTCOME))
        asked[f"ols of {q}"] = lambda made=made, few=few: made().fit(few, y).coef_
        made = partial(LogisticRegression, epsilon=1.0, data_norm=SPREAD * q**0.5, max_iter=1000)
        asked[f"logit of {q}"] = lambda made=made, few=few: made().fit(few, z).coef_
    yield "replace_one", asked


def opendp_regression(x, y, z):
    """OpenDP's line: Theil and Sen's, of one regressor."""
    import opendp.prelude as dp
    from opendp.extras.sklearn.linear_model import LinearRegression

    dp.enable_features("contrib", "honest-but-curious", "idealized-numerics")

    def made(scale):
        bounds = {"x_bounds": [(-SPREAD, SPREAD)], "y_bounds": (-OUTCOME, OUTCOME)}
        return LinearRegression(dp.max_divergence(), scale=scale, **bounds)

    for relation, distance in (("replace_one", 2), ("add_remove", 1)):
        line = made(made(1.0).measurement.map(distance))
        yield relation, {"ols of 1": lambda line=line: line.fit(x[:, :1], y).coef_}


def often(ask, seconds, clock=time.process_time):
    """Answers, as many as fit into some seconds, and the least time of one."""
    found, took, start = [], [], time.perf_counter()
    while len(found) < MOST and (len(found) < LEAST or time.perf_counter() - start < seconds):
        began = clock()
        found.append(np.ravel(ask()).astype(float).tolist())
        took.append(clock() - began)
    return found, min(took)


def main():
    """Answer everything."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    library, table, kept, seconds = sys.argv[1:]
    with np.load(table) as columns:
        every = globals()[library](**columns)
    found, clock = [], time.perf_counter if library == "tumult" else time.process_time
    for relation, asked in every:
        for task, ask in asked.items():
            try:
                found.append((relation, task, *often(ask, float(seconds), clock)))
            except Exception as error:  # noqa: BLE001 - of another library, and said
                print(f"{library}, {task}: {str(error)[-300:]}", file=sys.stderr)
    with open(kept, "w", encoding="utf-8") as file:  # noqa: PTH123 - of any version of Python
        json.dump(found, file)


if __name__ == "__main__":
    main()
