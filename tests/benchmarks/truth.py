"""Every method on ten real tables: beside SciPy, statsmodels, lifelines and dcor, and what it says of itself.

    python tests/benchmarks/truth.py truth --runs 20

At ε = 100,000 each number is compared with that of the library in which its users know it. At ε = 1 are counted the
intervals that hold that number, the first sentences that state the estimate, and the answers whose p-value and
interval decide alike; and the error that `explain` expects is divided by the error.
It needs lifelines and dcor beside what the suite needs.
"""

from __future__ import annotations

import importlib
import math
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from harness import Rows, Tables, problem, protected
from scipy import stats

import dfprivacy as dp

Known = list[Mapping[str, float]]

warnings.filterwarnings("ignore", module="lifelines|statsmodels|dcor|formulaic")

HUGE, USUAL = 10**5, 1
LEVEL, SMALL = 0.05, 1e-9
NUMBERS = ("estimate", "value", "count")
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?")

tables = Tables(__doc__)


SOURCES = {  # the module that ships a table, its name there, and its columns x, y, b, c, t and e
    "randhie": ("statsmodels", "randhie", "disea mdvis idp lncoins"),
    "fair": ("statsmodels", "fair", "yrs_married affairs - occupation"),
    "anes96": ("statsmodels", "anes96", "age income vote PID"),
    "breast cancer": ("sklearn", "load_breast_cancer", "mean_of_radius mean_of_texture target -"),
    "diabetes": ("sklearn", "load_diabetes", "bmi target sex -"),
    "wine": ("sklearn", "load_wine", "alcohol proline - target"),
    "rossi": ("lifelines", "load_rossi", "age prio fin - week arrest"),
    "gbsg2": ("lifelines", "load_gbsg2", "age tsize horTh tgrade time cens"),
    "lung": ("lifelines", "load_lung", "age wt.loss sex - time status"),
    "democracies": ("lifelines", "load_dd", "start_year duration democracy un_continent_name duration observed"),
}
MADE: dict[str, dict[str, Callable[[pd.DataFrame], Any]]] = {  # groups that are no columns
    "fair": {"b": lambda d: d.affairs > 0},
    "breast cancer": {"c": lambda d: pd.cut(d["mean smoothness"], [0, 0.09, 0.105, 1]).cat.codes},
    "diabetes": {"c": lambda d: d.s4.clip(2, 5).round()},
    "wine": {"b": lambda d: d.hue > 1},
    "rossi": {"c": lambda d: 2 * d.race + d.wexp},
    "lung": {"c": lambda d: d["ph.ecog"].clip(0, 2)},
}


def shipped(source: str, name: str) -> pd.DataFrame:
    """A table that ships in a library."""
    if source == "statsmodels":
        return importlib.import_module(f"statsmodels.datasets.{name}").load_pandas().data
    if source == "lifelines":
        return getattr(importlib.import_module("lifelines.datasets"), name)()
    raw = {"scaled": False} if name == "load_diabetes" else {}
    return getattr(importlib.import_module("sklearn.datasets"), name)(as_frame=True, **raw).frame


def loaded() -> Iterator[tuple[str, pd.DataFrame]]:
    """Ten tables with numbers x and y, groups b (two) and c, and times t with events e where there are some."""
    for name, (source, there, columns) in SOURCES.items():
        raw = shipped(source, there)
        named = dict(zip("xybcte", columns.split(), strict=False))
        table = pd.DataFrame(
            {x: MADE[name][x](raw) if of == "-" else raw[of.replace("_of_", " ")] for x, of in named.items()}
        )
        if "e" in table:
            table["e"] = (table.e == table.e.max()).astype(int)
        for column in "bc":
            known = table[column].dropna()
            texts = known.map(lambda value: f"{value:g}" if isinstance(value, float) else str(value))
            table[column] = texts.reindex(table.index)
        yield name, table.astype({"x": float, "y": float})


def view_of(table: pd.DataFrame) -> Any:
    """A view of its own, with bounds that cut nothing."""
    numbers = [name for name in "xyt" if name in table]
    ends = {name: (math.floor(table[name].min()), math.ceil(table[name].max())) for name in numbers}
    bounds = {name: (0.0, high) if name == "t" else (low, high) for name, (low, high) in ends.items()}
    categories = {name: sorted(table[name].dropna().unique().tolist()) for name in "bce" if name in table}
    return protected(table, bounds=bounds, categories=categories)


@dataclass(frozen=True)
class Case:
    """A question, and its answer by a library.

    Attributes
    ----------
    truth : callable
        Of a table, numbers by field of each row of the tidy answer, in order; a row may have none.
    given : callable, optional
        What is asked beside, and depends on the table.
    null : float or None
        Value of the estimate of the null hypothesis, where an interval and a p-value decide it together.
    near : float
        Largest difference from the truth at ε = 100,000, relative to the number.
    """

    method: str
    args: tuple[Any, ...]
    truth: Callable[[pd.DataFrame], Known]
    given: Callable[[pd.DataFrame], dict[str, Any]] = lambda _: {}
    null: float | None = None
    near: float = 1e-3
    note: str = ""
    needs: str = "xybc"

    @property
    def name(self) -> str:
        """The method, and how it is asked if it is asked twice."""
        return f"{self.method} {self.note}".strip()


def each(field: str, function: Callable[[pd.DataFrame], Any]) -> Callable[[pd.DataFrame], Known]:
    """A field of one row, or of several."""
    return lambda table: [{field: float(number)} for number in np.ravel(function(table))]


def groups(table: pd.DataFrame, column: str, by: str) -> list[pd.Series]:
    """Values of each group, without rows in which one is missing."""
    whole = table[[column, by]].dropna()
    return [whole.loc[whole[by] == name, column] for name in sorted(whole[by].unique())]


def single(column: str, function: Callable[[pd.Series], float]) -> Callable[[pd.DataFrame], Known]:
    """A number of one column."""
    return each("value", lambda table: function(table[column].dropna()))


def tested(found: Any, **estimate: float) -> Known:
    """What a test of SciPy or statsmodels found, beside an estimate."""
    return [{**estimate, "statistic": found.statistic, "pvalue": found.pvalue}]


def welch(table: pd.DataFrame) -> Known:
    first, second = groups(table, "x", "b")
    return tested(stats.ttest_ind(first, second, equal_var=False), estimate=first.mean() - second.mean())


def one_sample(table: pd.DataFrame) -> Known:
    x = table.x.dropna()
    return tested(stats.ttest_1samp(x, middle(table)), estimate=x.mean())


def middle(table: pd.DataFrame) -> float:
    """A mean for a null hypothesis that is neither true nor far off."""
    return float(table.x.mean() + 2 * table.x.std() / math.sqrt(len(table)))


def z_test(table: pd.DataFrame) -> Known:
    x = table.x.dropna()
    z = (x.mean() - middle(table)) / (x.std() / math.sqrt(len(x)))
    return [{"estimate": x.mean(), "statistic": z, "pvalue": 2 * stats.norm.sf(abs(z))}]


def f_test(table: pd.DataFrame) -> Known:
    from statsmodels.stats import oneway

    every = groups(table, "x", "c")
    found = oneway.anova_oneway(every, use_var="unequal", welch_correction=True)
    return [*tested(found), *({"estimate": each.mean()} for each in every)]


def rank_sum(table: pd.DataFrame) -> Known:
    first, second = groups(table, "x", "b")
    found = stats.mannwhitneyu(first, second, use_continuity=False, method="asymptotic")
    return [{"estimate": found.statistic / len(first) / len(second), "pvalue": found.pvalue}]


def contingency(table: pd.DataFrame) -> Known:
    return tested(stats.chi2_contingency(pd.crosstab(table.b, table.c), correction=False))


def line(table: pd.DataFrame) -> Known:
    import statsmodels.formula.api as smf

    fit = smf.ols("y ~ x + C(b)", table).fit(cov_type="HC0")
    return [
        {"estimate": fit.params[name], "standard_error": fit.bse[name], "pvalue": fit.pvalues[name]}
        for name in ("Intercept", "x", fit.params.index[1])
    ]


def log_odds(table: pd.DataFrame) -> Known:
    import statsmodels.api as sm

    whole = table[["x", "b"]].dropna()
    fit = sm.Logit((whole.b == whole.b.max()).astype(float), sm.add_constant(whole.x)).fit(disp=0)
    return [{"estimate": fit.params[name], "pvalue": fit.pvalues[name]} for name in ("const", "x")]


def edges(table: pd.DataFrame) -> list[float]:
    return np.linspace(0, math.ceil(table.t.max()), 201).tolist()


def curve(table: pd.DataFrame) -> Known:
    import lifelines

    whole = table[["t", "e"]].dropna()
    fit = lifelines.KaplanMeierFitter().fit(whole.t, whole.e)
    return [{}, {}, *({"estimate": float(fit.predict(at))} for at in edges(table)[1:])]  # after median and mean


def log_rank(table: pd.DataFrame) -> Known:
    from lifelines.statistics import multivariate_logrank_test

    whole = table[["t", "e", "b"]].dropna()
    found = multivariate_logrank_test(whole.t, whole.b, whole.e, weightings="wilcoxon")
    return [{"pvalue": float(found.p_value)}]


def distance(table: pd.DataFrame) -> float:
    import dcor

    return dcor.distance_correlation(*table[["x", "y"]].dropna().to_numpy().T)


def pair(function: Callable[[pd.DataFrame], pd.DataFrame]) -> Callable[[pd.DataFrame], Known]:
    """The entries of a matrix of x and y, each once."""
    return each("value", lambda table: function(table[["x", "y"]].dropna()).to_numpy()[[0, 0, 1], [0, 1, 1]])


def largest(table: pd.DataFrame) -> dict[str, Any]:
    return {"success": table.b.dropna().max()}


CASES = [
    Case("mean", ("x",), single("x", np.mean)),
    Case("sum", ("x",), single("x", np.sum)),
    Case("var", ("x",), single("x", pd.Series.var)),
    Case("std", ("x",), single("x", pd.Series.std)),
    Case("median", ("y",), single("y", lambda y: np.quantile(y, 0.5, method="inverted_cdf")), near=1e-2),
    Case("quantile", ("x", 0.9), single("x", lambda x: np.quantile(x, 0.9, method="inverted_cdf")), near=1e-2),
    Case("count", ("y",), single("y", len)),
    Case("missing", ("y",), each("value", lambda d: d.y.isna().sum())),
    Case("nunique", ("c",), single("c", lambda c: c.nunique())),
    Case("value_counts", ("c",), each("count", lambda d: sorted(d.c.value_counts(), reverse=True))),
    Case("crosstab", ("b", "c"), each("count", lambda d: pd.crosstab(d.b, d.c))),
    Case("describe", (["x"],), each("value", lambda d: (d.x.count(), d.x.isna().sum(), d.x.mean(), d.x.std()))),
    Case("corr", (["x", "y"],), pair(pd.DataFrame.corr)),
    Case("cov", (["x", "y"],), pair(pd.DataFrame.cov)),
    Case("ttest", ("x",), one_sample, lambda d: {"popmean": middle(d)}),
    Case("ttest", ("x", "b"), welch, null=0.0, note="by group"),
    Case("ztest", ("x",), z_test, lambda d: {"popmean": middle(d), "sigma": float(d.x.std())}),
    Case("anova", ("x", "c"), f_test, near=0.1),
    Case("mannwhitneyu", ("x", "b"), rank_sum, null=0.5),
    Case("kruskal", ("x", "b"), lambda d: tested(stats.kruskal(*groups(d, "x", "b"))), near=5e-3),
    Case("proportions", ("b",), each("estimate", lambda d: (d.b.dropna() == d.b.dropna().max()).mean()), largest),
    Case("chi2", ("b", "c"), contingency, near=2e-2),  # its law is that of 2,047 tables that were drawn
    Case("ols", ("y ~ x + b",), line, null=0.0, near=5e-3),
    Case("logit", ("b", "x"), log_odds, largest, null=0.0, near=0.15),
    Case("kaplan_meier", ("t", "e"), curve, lambda d: {"edges": edges(d)}, near=0.1, needs="te"),
    Case("survival_test", ("t", "e", "b"), log_rank, needs="te"),
    Case("dcor", ("x", "y"), each("estimate", distance)),
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


@tables.add(
    *("method", "tables", "says it cannot", "off at ε 10⁵", "where", "held at ε 1", "said"),
    *("p and interval agree", "forecast / error"),
)
def truth(runs: int = 20) -> Rows:
    """Every method on ten real tables, beside what its users know it from."""
    tallies: dict[str, Tally] = defaultdict(Tally)
    for name, table in loaded():
        for case in CASES:
            if set(case.needs) <= set(table):
                measure(case, name, table, tallies[case.name], runs)
    nearness = {case.name: case.near for case in CASES}
    for name, seen in tallies.items():
        if seen.off > nearness[name] or not held(seen.held):
            problem(f"{name} is off by {seen.off:.1e}, or does not cover")
        ratio = f"{np.median(seen.forecast):.2f}" if seen.forecast else "–"
        shares = (f"{np.mean(each):.3f}" if each else "–" for each in (seen.held, seen.said, seen.alike))
        yield name, seen.tables, seen.unsure, f"{seen.off:.1e}", seen.worst, *shares, ratio


def held(seen: list[bool]) -> bool:
    """Whether intervals hold as often as they say, but for five standard errors of so many."""
    return not seen or np.mean(seen) > 1 - LEVEL - 5 * math.sqrt(LEVEL * (1 - LEVEL) / len(seen))


def measure(case: Case, name: str, table: pd.DataFrame, seen: Tally, runs: int) -> None:
    """Ask one question of one table, at both prices."""
    args, kwargs = case.args, case.given(table)
    truth = case.truth(table)
    seen.tables += 1
    try:
        exact = getattr(view_of(table), case.method)(*args, **kwargs, epsilon=HUGE)
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
    view = view_of(table)
    answers = [getattr(view, case.method)(*args, **kwargs, epsilon=USUAL, fresh=True) for _ in range(runs)]
    for answer in answers:
        judge(case, answer, truth, seen)
    found = view.explain(case.method, *args, **kwargs, epsilon=USUAL).findings
    named = [value for name, value in found.items() if name.startswith("expected standard error")]
    expected = [value for value in named if isinstance(value, float)]
    if expected and len(truth) == 1:
        errors = [main_of(answer.records()[0]) - next(iter(truth[0].values())) for answer in answers]
        if (rms := float(np.sqrt(np.mean(np.square(errors))))) > 0:
            seen.forecast.append(expected[0] / rms)


def judge(case: Case, answer: Any, truth: Known, seen: Tally) -> None:
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
        near = (abs(abs(float(text)) - abs(number)) <= 0.51 * 10.0 ** -places(text) for text in stated)
        seen.said.append(any(near))


def main_of(row: Mapping[str, Any]) -> float:
    """Find the estimate in a row of a tidy answer."""
    return next((float(row[what]) for what in NUMBERS if row.get(what) is not None), math.nan)


def places(text: str) -> int:
    """Decimal places of a number that is written out."""
    return len(text.partition(".")[2].partition("e")[0])


if __name__ == "__main__":
    tables.main()
