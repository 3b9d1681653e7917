"""Every method on ten real tables: beside SciPy, statsmodels, lifelines and dcor, and what it says of itself.

    python tests/benchmarks/truth.py --runs 20

At ε = 100,000 each number is compared with that of the library in which its users know it. At ε = 1 are counted the
intervals that hold that number, the first sentences that state the estimate, and the answers whose p-value and
interval decide alike; and the error that `explain` expects is divided by the error.
It needs lifelines and dcor beside what the suite needs.
"""

from __future__ import annotations

import argparse
import itertools
import math
import re
import warnings
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dcor
import lifelines
import lifelines.datasets as clinical
import lifelines.statistics
import numpy as np
import pandas as pd
import sklearn.datasets as machine
import statsmodels.api as sm
import statsmodels.formula.api as smf
from results import recorded
from scipy import stats
from statsmodels.stats import oneway

import dfprivacy as dp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

warnings.filterwarnings("ignore", module="lifelines|statsmodels|dcor|formulaic")

HUGE, USUAL = 10**5, 1
LEVEL, SMALL = 0.05, 1e-9
NUMBERS = ("estimate", "value", "count")
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?")
names = map("truth {}".format, itertools.count())


def tables() -> Iterator[tuple[str, pd.DataFrame]]:
    """Ten tables with numbers x and y, groups b (two) and c, and times t with events e where there are some."""
    data = sm.datasets
    loaded: dict[str, tuple[Callable[[], pd.DataFrame], dict[str, Any]]] = {
        "randhie": (
            lambda: data.randhie.load_pandas().data,
            {"x": "disea", "y": "mdvis", "b": "idp", "c": "lncoins"},
        ),
        "fair": (
            lambda: data.fair.load_pandas().data,
            {"x": "yrs_married", "y": "affairs", "b": lambda d: d.affairs > 0, "c": "occupation"},
        ),
        "anes96": (lambda: data.anes96.load_pandas().data, {"x": "age", "y": "income", "b": "vote", "c": "PID"}),
        "breast cancer": (
            lambda: machine.load_breast_cancer(as_frame=True).frame,
            {
                "x": "mean radius",
                "y": "mean texture",
                "b": "target",
                "c": lambda d: pd.cut(d["mean smoothness"], [0, 0.09, 0.105, 1]).cat.codes,
            },
        ),
        "diabetes": (
            lambda: machine.load_diabetes(as_frame=True, scaled=False).frame,
            {"x": "bmi", "y": "target", "b": "sex", "c": lambda d: d.s4.clip(2, 5).round()},
        ),
        "wine": (
            lambda: machine.load_wine(as_frame=True).frame,
            {"x": "alcohol", "y": "proline", "b": lambda d: d.hue > 1, "c": "target"},
        ),
        "rossi": (
            clinical.load_rossi,
            {"x": "age", "y": "prio", "b": "fin", "c": lambda d: 2 * d.race + d.wexp, "t": "week", "e": "arrest"},
        ),
        "gbsg2": (
            clinical.load_gbsg2,
            {"x": "age", "y": "tsize", "b": "horTh", "c": "tgrade", "t": "time", "e": "cens"},
        ),
        "lung": (
            clinical.load_lung,
            {
                "x": "age",
                "y": "wt.loss",
                "b": "sex",
                "c": lambda d: d["ph.ecog"].clip(0, 2),
                "t": "time",
                "e": lambda d: d.status,
            },
        ),
        "democracies": (
            clinical.load_dd,
            {
                "x": "start_year",
                "y": "duration",
                "b": "democracy",
                "c": "un_continent_name",
                "t": "duration",
                "e": "observed",
            },
        ),
    }
    for name, (load, columns) in loaded.items():
        raw = load()
        table = pd.DataFrame({
            new: old(raw) if callable(old) else raw[old] for new, old in columns.items()
        })  # fmt: skip
        if "e" in table:
            table["e"] = (table.e == table.e.max()).astype(int)
        for column in "bc":
            gaps = table[column].isna()
            table[column] = table[column].map(
                lambda value: f"{value:g}" if isinstance(value, float) else str(value)
            )
            table[column] = table[column].mask(gaps)
        yield name, table.astype({"x": float, "y": float})


def protect(table: pd.DataFrame) -> dp.PrivateFrame:
    """A view of its own, with bounds that cut nothing."""
    numbers = [name for name in "xyt" if name in table]
    return dp.protect(
        table,
        next(names),
        epsilon=10**6,
        ledger="memory:",
        accounting="basic",
        bounds={
            name: (0.0 if name == "t" else math.floor(table[name].min()), math.ceil(table[name].max()))
            for name in numbers
        },
        categories={name: sorted(table[name].dropna().unique().tolist()) for name in "bce" if name in table},
    )


@dataclass(frozen=True)
class Case:
    """A question, and its answer by a library.

    Attributes
    ----------
    truth : callable
        Of a table, numbers by field of each row of the tidy answer, in order; a row may have none.
    null : float or None
        Value of the estimate of the null hypothesis, where an interval and a p-value decide it together.
    near : float
        Largest difference from the truth at ε = 100,000, relative to the number.
    """

    method: str
    asked: Callable[[pd.DataFrame], tuple[tuple[Any, ...], dict[str, Any]]]
    truth: Callable[[pd.DataFrame], list[Mapping[str, float]]]
    null: float | None = None
    near: float = 1e-3
    note: str = ""
    needs: str = "xybc"


def ask(*args: Any, **kwargs: Any) -> Callable[[pd.DataFrame], tuple[tuple[Any, ...], dict[str, Any]]]:
    """The same question of every table."""
    return lambda table: (args, kwargs)


def groups(table: pd.DataFrame, column: str, by: str) -> list[pd.Series]:
    """Values of each group, without rows in which one is missing."""
    whole = table[[column, by]].dropna()
    return [whole.loc[whole[by] == name, column] for name in sorted(whole[by].unique())]


def single(
    column: str, function: Callable[[pd.Series], float]
) -> Callable[[pd.DataFrame], list[Mapping[str, float]]]:
    """A number of one column."""
    return lambda table: [{"value": float(function(table[column].dropna()))}]


def welch(table: pd.DataFrame) -> list[Mapping[str, float]]:
    found = stats.ttest_ind(*groups(table, "x", "b"), equal_var=False)
    first, second = groups(table, "x", "b")
    return [{"estimate": first.mean() - second.mean(), "statistic": found.statistic, "pvalue": found.pvalue}]


def one_sample(table: pd.DataFrame) -> list[Mapping[str, float]]:
    x = table.x.dropna()
    found = stats.ttest_1samp(x, middle(table))
    return [{"estimate": x.mean(), "statistic": found.statistic, "pvalue": found.pvalue}]


def middle(table: pd.DataFrame) -> float:
    """A mean for a null hypothesis that is neither true nor far off."""
    return float(table.x.mean() + 2 * table.x.std() / math.sqrt(len(table)))


def z_test(table: pd.DataFrame) -> list[Mapping[str, float]]:
    x = table.x.dropna()
    z = (x.mean() - middle(table)) / (x.std() / math.sqrt(len(x)))
    return [{"estimate": x.mean(), "statistic": z, "pvalue": 2 * stats.norm.sf(abs(z))}]


def f_test(table: pd.DataFrame) -> list[Mapping[str, float]]:
    every = groups(table, "x", "c")
    found = oneway.anova_oneway(every, use_var="unequal", welch_correction=True)
    return [{"statistic": found.statistic, "pvalue": found.pvalue}, *({"estimate": each.mean()} for each in every)]


def rank_sum(table: pd.DataFrame) -> list[Mapping[str, float]]:
    first, second = groups(table, "x", "b")
    found = stats.mannwhitneyu(first, second, use_continuity=False, method="asymptotic")
    return [{"estimate": found.statistic / len(first) / len(second), "pvalue": found.pvalue}]


def h_test(table: pd.DataFrame) -> list[Mapping[str, float]]:
    found = stats.kruskal(*groups(table, "x", "b"))
    return [{"statistic": found.statistic, "pvalue": found.pvalue}]


def shares(table: pd.DataFrame) -> list[Mapping[str, float]]:
    b = table.b.dropna()
    return [{"estimate": float((b == b.max()).mean())}]


def tables_test(table: pd.DataFrame) -> list[Mapping[str, float]]:
    counts = pd.crosstab(table.b, table.c)
    found = stats.chi2_contingency(counts, correction=False)
    return [{"statistic": found.statistic, "pvalue": found.pvalue}]


def line(table: pd.DataFrame) -> list[Mapping[str, float]]:
    fit = smf.ols("y ~ x + C(b)", table).fit(cov_type="HC0")
    return [
        {"estimate": fit.params[name], "standard_error": fit.bse[name], "pvalue": fit.pvalues[name]}
        for name in ("Intercept", "x", fit.params.index[1])
    ]


def log_odds(table: pd.DataFrame) -> list[Mapping[str, float]]:
    whole = table[["x", "b"]].dropna()
    fit = sm.Logit((whole.b == whole.b.max()).astype(float), sm.add_constant(whole.x)).fit(disp=0)
    return [{"estimate": fit.params[name], "pvalue": fit.pvalues[name]} for name in ("const", "x")]


def edges(table: pd.DataFrame) -> list[float]:
    return np.linspace(0, math.ceil(table.t.max()), 201).tolist()


def curve(table: pd.DataFrame) -> list[Mapping[str, float]]:
    whole = table[["t", "e"]].dropna()
    fit = lifelines.KaplanMeierFitter().fit(whole.t, whole.e)
    return [{}, {}, *({"estimate": float(fit.predict(at))} for at in edges(table)[1:])]  # after median and mean


def log_rank(table: pd.DataFrame) -> list[Mapping[str, float]]:
    whole = table[["t", "e", "b"]].dropna()
    found = lifelines.statistics.multivariate_logrank_test(whole.t, whole.b, whole.e, weightings="wilcoxon")
    return [{"pvalue": float(found.p_value)}]


def distance(table: pd.DataFrame) -> list[Mapping[str, float]]:
    whole = table[["x", "y"]].dropna()
    return [{"estimate": float(dcor.distance_correlation(whole.x, whole.y))}]


def described(table: pd.DataFrame) -> list[Mapping[str, float]]:
    return [
        {"value": float(each)}
        for each in (table.x.notna().sum(), table.x.isna().sum(), table.x.mean(), table.x.std())
    ]


def pair(function: Callable[[pd.DataFrame], pd.DataFrame]) -> Callable[[pd.DataFrame], list[Mapping[str, float]]]:
    def both(table: pd.DataFrame) -> list[Mapping[str, float]]:
        matrix = function(table[["x", "y"]].dropna())
        return [{"value": float(matrix.iloc[at])} for at in ((0, 0), (0, 1), (1, 1))]

    return both


def counted(table: pd.DataFrame) -> list[Mapping[str, float]]:
    return [{"count": float(each)} for each in table.c.value_counts().sort_values(ascending=False, kind="stable")]


def crossed(table: pd.DataFrame) -> list[Mapping[str, float]]:
    return [{"count": float(each)} for each in pd.crosstab(table.b, table.c).to_numpy().ravel()]


CASES = [
    Case("mean", ask("x"), single("x", np.mean)),
    Case("sum", ask("x"), single("x", np.sum)),
    Case("var", ask("x"), single("x", pd.Series.var)),
    Case("std", ask("x"), single("x", pd.Series.std)),
    Case("median", ask("y"), single("y", lambda y: np.quantile(y, 0.5, method="inverted_cdf")), near=1e-2),
    Case("quantile", ask("x", 0.9), single("x", lambda x: np.quantile(x, 0.9, method="inverted_cdf")), near=1e-2),
    Case("count", ask("y"), single("y", len)),
    Case("missing", ask("y"), lambda table: [{"value": float(table.y.isna().sum())}]),
    Case("nunique", ask("c"), single("c", lambda c: c.nunique())),
    Case("value_counts", ask("c"), counted),
    Case("crosstab", ask("b", "c"), crossed),
    Case("describe", ask(["x"]), described),
    Case("corr", ask(["x", "y"]), pair(pd.DataFrame.corr)),
    Case("cov", ask(["x", "y"]), pair(pd.DataFrame.cov)),
    Case("ttest", lambda table: (("x",), {"popmean": middle(table)}), one_sample),
    Case("ttest", ask("x", by="b"), welch, null=0.0, note="by group"),
    Case("ztest", lambda table: (("x",), {"popmean": middle(table), "sigma": float(table.x.std())}), z_test),
    Case("anova", ask("x", "c"), f_test, near=0.1),
    Case("mannwhitneyu", ask("x", "b"), rank_sum, null=0.5),
    Case("kruskal", ask("x", "b"), h_test, near=5e-3),
    Case("proportions", lambda table: (("b",), {"success": table.b.dropna().max()}), shares),
    Case("chi2", ask("b", "c"), tables_test, near=2e-2),  # its law is that of 2,047 tables that were drawn
    Case("ols", ask("y ~ x + b"), line, null=0.0, near=5e-3),
    Case("logit", lambda table: (("b", "x"), {"success": table.b.dropna().max()}), log_odds, null=0.0, near=0.15),
    Case("kaplan_meier", lambda table: (("t", "e"), {"edges": edges(table)}), curve, near=0.1, needs="te"),
    Case("survival_test", ask("t", "e", "b"), log_rank, needs="te"),
    Case("dcor", ask("x", "y"), distance),
]


@dataclass
class Tally:
    """What was seen of one method."""

    tables: int = 0
    unsure: int = 0
    off: float = 0.0
    worst: str = ""
    held: list[bool] = field(default_factory=list)
    said: list[bool] = field(default_factory=list)
    alike: list[bool] = field(default_factory=list)
    forecast: list[float] = field(default_factory=list)


def main() -> int:
    """Measure every case on every table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--only", help="a method")
    asked = parser.parse_args()
    tallies: dict[str, Tally] = defaultdict(Tally)
    for name, table in tables():
        for case in CASES:
            if asked.only in (None, case.method) and set(case.needs) <= set(table):
                measure(case, name, table, tallies[f"{case.method} {case.note}".strip()], asked.runs)
    failed = 0
    heads = (
        "method",
        "tables",
        "says it cannot",
        "off at ε 10⁵",
        "where",
        "held at ε 1",
        "said",
        "p and interval agree",
        "forecast / error",
    )
    with recorded("truth", *heads, keep=asked.only is None) as row:
        for name, seen in tallies.items():
            near = next(case.near for case in CASES if f"{case.method} {case.note}".strip() == name)
            failed += seen.off > near or not held(seen.held)
            ratio = f"{np.median(seen.forecast):.2f}" if seen.forecast else "–"
            row(
                name,
                seen.tables,
                seen.unsure,
                f"{seen.off:.1e}",
                seen.worst,
                *map(share, (seen.held, seen.said, seen.alike)),
                ratio,
            )
    print(f"\n{failed} methods are off, or do not cover.")
    return int(failed > 0)


def held(seen: list[bool]) -> bool:
    """Whether intervals hold as often as they say, but for five standard errors of so many."""
    return not seen or np.mean(seen) > 1 - LEVEL - 5 * math.sqrt(LEVEL * (1 - LEVEL) / len(seen))


def share(seen: list[bool]) -> str:
    return f"{np.mean(seen):.3f}" if seen else "–"


def measure(case: Case, name: str, table: pd.DataFrame, seen: Tally, runs: int) -> None:
    """Ask one question of one table, at both prices."""
    args, kwargs = case.asked(table)
    truth = case.truth(table)
    seen.tables += 1
    try:
        exact = getattr(protect(table), case.method)(*args, **kwargs, epsilon=HUGE)
    except dp.DPError as error:
        seen.off, seen.worst = math.inf, f"{name}: {error}"
        return
    if not getattr(exact, "converged", True):
        seen.unsure += 1
        return
    for told, known in zip(exact.records(), truth, strict=False):
        for what, value in known.items():
            off = abs(told[what] - value) / (1 if what == "pvalue" else max(abs(value), LEVEL))
            if off > seen.off:
                seen.off, seen.worst = off, f"{name}: {what} {told[what]:.5g} for {value:.5g}"
    view = protect(table)
    answers = [getattr(view, case.method)(*args, **kwargs, epsilon=USUAL, fresh=True) for _ in range(runs)]
    for answer in answers:
        judge(case, answer, truth, seen)
    explained = str(view.explain(case.method, *args, **kwargs, epsilon=USUAL))
    expected = re.search(r"expected standard error[^:]*: ([\d.e+-]+)", explained)
    if expected and len(truth) == 1:
        errors = [main_of(answer.records()[0]) - next(iter(truth[0].values())) for answer in answers]
        if (rms := float(np.sqrt(np.mean(np.square(errors))))) > 0:
            seen.forecast.append(float(expected[1]) / rms)


def judge(case: Case, answer: Any, truth: list[Mapping[str, float]], seen: Tally) -> None:
    """Hold an answer against the truth, and against itself."""
    rows = answer.records()
    for told, known in zip(rows, truth, strict=False):
        interval = (told.get("low"), told.get("high"))
        if None in interval or not known:
            continue
        (what, value), *_ = known.items()
        if what in NUMBERS:
            seen.held.append(interval[0] <= value + SMALL and value - SMALL <= interval[1])
        if case.null is not None and told.get("pvalue") is not None:
            seen.alike.append((told["pvalue"] <= LEVEL) != (interval[0] <= case.null <= interval[1]))
    number = main_of(rows[0])
    if len(truth) == 1 and not math.isnan(number):
        stated = NUMBER.findall(str(answer).split("\n\n")[0].replace(",", ""))
        seen.said.append(
            any(abs(abs(float(each)) - abs(number)) <= 0.51 * 10.0 ** -places(each) for each in stated)
        )


def main_of(row: Mapping[str, Any]) -> float:
    """Find the estimate in a row of a tidy answer."""
    return next((float(row[what]) for what in NUMBERS if row.get(what) is not None), math.nan)


def places(text: str) -> int:
    """Decimal places of a number that is written out."""
    return len(text.partition(".")[2].partition("e")[0])


if __name__ == "__main__":
    raise SystemExit(main())
