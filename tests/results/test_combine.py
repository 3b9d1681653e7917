"""Arithmetic on releases: shared noise is drawn once, intervals cover, and what fails is refused."""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dfprivacy as dp
from dfprivacy._call.combine import _divide_draws, _percentiles, values_under_draws
from dfprivacy.inference.draws import noise_draws
from dfprivacy.laws import NoiseLaw
from dfprivacy.release import Release
from dfprivacy.testing import seeded_noise

N = 4000
_rng = np.random.default_rng(17)
_x = np.clip(_rng.normal(2, 1, N), -2.9, 6.9)
DATA = pd.DataFrame(
    {"x": _x, "y": np.clip(3 + 0.5 * _x + _rng.normal(0, 1, N), -2.9, 6.9), "g": ["a", "b"] * (N // 2)}
)


def protect(name, *, ledger="memory:", data=DATA, **options):
    told = {"epsilon": 1000, "bounds": {"x": (-3, 7), "y": (-3, 7)}, "categories": {"g": ["a", "b"]}, **options}
    return dp.protect(data, name, ledger=ledger, **told)


@pytest.fixture(autouse=True, scope="module")
def _seeded():
    with seeded_noise(17):
        yield


@pytest.fixture(scope="module")
def view():
    return protect("combined", public=["g"])


@pytest.fixture(scope="module")
def two(view):
    return view.ttest("x", epsilon=1), view.ttest("y", epsilon=1)


def draws_of(release):
    return values_under_draws(lambda r: r.estimate, [release])


def difference(groups):
    return dp.combine(lambda g: g["a"].value - g["b"].value, groups)


# ---- what is drawn ---------------------------------------------------------------------------------------


def test_what_is_shared_is_drawn_once(view, two):
    """A measurement has the same draws in every answer, in any order, and nobody else's."""
    x, y = two
    other = view.ttest("x", popmean=3, epsilon=1)  # another question, answered from the same measurement
    apart = view.ttest("x", epsilon=1, fresh=True)
    one = values_under_draws(lambda a, b: a.estimate - b.estimate, [x, y])

    assert (draws_of(x) == draws_of(other)).all()
    assert (draws_of(x) != draws_of(apart)).all()
    assert (one == values_under_draws(lambda b, a: a.estimate - b.estimate, [y, x])).all()


def test_nothing_is_paid_or_kept(view, two):
    """A combination is no release of the account; of draws whose noise is the one that is said."""
    x, y = two
    spent, kept = view.budget.spent, len(view.releases)
    found = x - y
    noise = math.hypot(x.noise_standard_error, y.noise_standard_error)

    assert (view.budget.spent, len(view.releases)) == (spent, kept)
    assert found.privacy.epsilon == 0
    assert all(record.reused for record in found.privacy.noise)
    assert str(found.privacy).startswith("NOT PRIVATE")  # for the noise of this test is seeded
    assert str(dataclasses.replace(found.privacy, private=True)).startswith("at no charge")
    assert found.noise_standard_error == pytest.approx(noise, rel=0.05)
    # The noise of both is Laplace: 1.96 standard deviations, near enough.
    assert (found.high - found.low) / 2 == pytest.approx(1.95 * noise, rel=0.1)


@pytest.mark.parametrize(("written", "value"), [
    (lambda x, y: x + y, lambda x, y: x + y), (lambda x, y: x / y, lambda x, y: x / y),
    (lambda x, _: 2 - x, lambda x, _: 2 - x), (lambda x, _: np.float64(2) * x, lambda x, _: 2 * x),
    (lambda x, _: x + Fraction(1, 3), lambda x, _: x + 1 / 3), (lambda x, _: -x, lambda x, _: -x),
    (lambda x, y: (x - y) / (x + y), lambda x, y: (x - y) / (x + y)),
])  # fmt: skip
def test_operators(two, written, value):
    """The estimate is calculated from the estimates, and lies within its interval."""
    found = written(*two)

    assert found.estimate == pytest.approx(value(*(each.estimate for each in two)), rel=1e-12)
    assert found.low < found.estimate < found.high


def test_it_says_what_it_is(two):
    """In its text, on its page, in its table, through JSON; asked again it is the same."""
    found = two[0] - two[1]
    row = found.to_frame().iloc[0]

    assert found.formula == "ttest('x') - ttest('y')"
    for said in ("95% CI", "this table", "4,096 draws", "sampling error is not included"):
        assert said in repr(found)
    for said in (found.formula, "95% low", "4,096 draws", "sampling error is not included"):
        assert said in found._repr_html_().replace("&#x27;", "'")
    assert (row["estimate"], row["low"], row["covers"]) == (found.estimate, found.low, "limited table")
    assert Release.from_json(found.to_json()) == found == two[0] - two[1]


def test_groups(view):
    """Of answers by group each is one, and all are a dictionary."""
    groups = view.group_by("g").mean("x", epsilon=1)
    once, again = groups["a"] - groups["b"], difference(groups)
    truth = DATA.groupby("g").x.mean()
    least = dp.combine(lambda means: float(dict(means)["b"]) - min(map(float, means.values())), groups)

    assert (once.estimate, once.low, once.high) == (again.estimate, again.low, again.high)
    assert once.formula == "(mean('x') where g = a) - (mean('x') where g = b)"
    assert abs(once.estimate - (truth["a"] - truth["b"])) < 8 * once.noise_standard_error
    assert least.estimate == max(0, -once.estimate)


def test_quantities_of_one_description():
    """Each of its numbers has the noise that it says; a median comes from a choice, which is not drawn again."""
    view = protect("described")
    d = view.describe(epsilon=20)
    at = d.statistics.index("mean")
    found = dp.combine(lambda d: d["mean", "x"] - d["mean", "y"], d)
    said = math.hypot(d.standard_errors[0][at], d.standard_errors[1][at])
    a = view.agg({"x": ["mean", "count"], "y": "median"}, epsilon=20)

    assert abs(found.estimate - (DATA.x.mean() - DATA.y.mean())) < 8 * said
    assert found.noise_standard_error == pytest.approx(said, rel=0.1)
    assert dp.combine(lambda a: a["x_mean"], a).noise_standard_error == pytest.approx(a.standard_errors[0], rel=0.1)
    with pytest.raises(dp.ArgumentError, match="redrawn noise"):
        dp.combine(lambda a: a["y_median"] - a["x_mean"], a)
    for fit in (view.ols("y ~ x", epsilon=20), view.logit("g ~ x", success="b", epsilon=20)):
        found = dp.combine(lambda fit: fit.params["x"], fit)
        assert found.noise_standard_error == pytest.approx(fit.noise_standard_errors["x"], rel=0.1)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("epsilon", [0.1, 20])
def test_draws_are_those_of_the_error_that_is_said(relation, epsilon):
    """Of sums in one step and in two, of all neighbouring relations; the interval is that of the answer itself."""
    data = DATA.assign(x=DATA["x"].where(DATA.index % 40 > 0))
    view = protect(f"{relation} {epsilon}", data=data, neighbors=relation)
    for name in ("mean", "var", "std", "sum", "count"):
        answer = getattr(view, name)("x", epsilon=epsilon, fresh=True)
        same, reach = answer * 1, (answer.high - answer.low) / 2

        assert same.noise_standard_error == pytest.approx(answer.noise_standard_error, rel=0.1, abs=1e-3), name
        assert (same.low, same.high) == pytest.approx((answer.low, answer.high), abs=0.15 * reach), name
    counts = view.value_counts("g", epsilon=1)
    whole = dp.combine(lambda c: c.raw[0] - c.raw[1], counts)
    assert all(each == round(each) for each in (whole.low, whole.high, whole.estimate))  # noise on whole rows


@pytest.mark.parametrize("kind", ["Laplace", "Gaussian", "cube"])
def test_redrawn_noise_has_the_law(kind):
    """Each measurement has draws of its own, always the same, of its kind and scales, independent where it is."""
    law = NoiseLaw(40.0, kind=kind, dimension=3)
    scales = np.array([40.0, 40.0, 80.0])
    noise = noise_draws(law, scales, "some measurement", draws=4096)

    assert (noise == noise_draws(law, scales, "some measurement", draws=4096)).all()
    assert (noise != noise_draws(law, scales, "another", draws=4096)).mean() > 0.99
    assert noise.std(axis=1) / law.standard_deviation == pytest.approx([1, 1, 2], rel=0.1)
    assert abs(np.corrcoef(noise)[0, 1]) < 0.1
    exact = {"cube": stats.gamma(3), "Laplace": stats.laplace(), "Gaussian": stats.norm()}[kind]
    drawn_by = np.abs(noise / scales[:, None]).max(axis=0) if kind == "cube" else noise[0] / 40
    assert stats.kstest(drawn_by, exact.cdf).pvalue > 1e-6


# ---- what intervals cover --------------------------------------------------------------------------------


def laws(rng, kind, shape):
    """Noise of scale 1: independent, or of the cube."""
    if kind != "cube":
        return rng.laplace(size=shape)
    return rng.gamma(shape[-1] + 1, 1, (*shape[:-1], 1)) * rng.uniform(-1, 1, shape)


def _coverage(truth, scales, f, kind, runs=500, draws=499):
    """How often the interval holds f of the truth: the construction of `concluded`, on arrays."""
    truth, scales = np.array(truth), np.array(scales)
    z = laws(np.random.default_rng(3), kind, (runs, draws + 1, len(truth)))
    seen = truth + z[:, :1] * scales
    values = f(np.moveaxis(seen - z[:, 1:] * scales, -1, 0))
    low, high = np.quantile(values, [0.025, 0.975], axis=1, method="weibull")
    return np.mean((low <= f(truth)) & (f(truth) <= high))


@pytest.mark.parametrize("kind", ["laplace", "cube"])
@pytest.mark.parametrize(("truth", "scales", "f"), [
    ([300.0, 260.0], [4.0, 4.0], lambda t: t[0] - t[1]), ([300.0, 200.0], [5.6, 5.6], lambda t: t[0] / t[1]),
    ([300.0, 40.0], [5.6, 5.6], lambda t: t[0] / t[1]),
    ([100.0, 50.0], [2.0, 4.0], lambda t: np.sqrt(np.maximum(t[1] / 1000 - (t[0] / 1000) ** 2, 0))),
])  # fmt: skip
def test_the_interval_covers(truth, scales, f, kind):
    """As often as it says, for smooth functions of sums."""
    assert 0.9 < _coverage(truth, scales, f, kind) < 0.995  # seeded


@pytest.mark.parametrize("kind", ["laplace", "cube", "clipped at 0"])
@pytest.mark.parametrize("divisor", [1.0, 15.0, 40.0])
def test_quotients_cover_however_near_to_0_the_divisor_is(divisor, kind):
    """By draws with the sign of the divisor; others are beyond both ends, and a draw of 0 beyond one."""
    rng, hits, runs = np.random.default_rng(3), 0, 200
    truth, least = np.array([300.0, divisor]), 0.0 if kind == "clipped at 0" else -math.inf
    for _ in range(runs):
        z = 5.6 * laws(rng, kind, (200, 2))
        seen, draws = truth + z[0], truth + z[0] - z[1:]
        seen[1], draws[:, 1] = max(seen[1], least), np.maximum(draws[:, 1], least)
        low, high = _percentiles(_divide_draws(*draws.T, math.copysign(1.0, seen[1])), 0.025)
        hits += low <= 300.0 / divisor <= high or seen[1] == 0  # which is refused

    assert hits / runs > 0.9  # seeded; .944 to .986 of 1,000


def test_a_quotient_whose_divisor_may_be_0_is_answered(two):
    """With an end open, or both, and a note that says so; JSON, tables, pages and pictures hold it."""
    x, y = two
    any_number = y / (x - round(x.estimate, 3))
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.normal(50, 10, 300).clip(0, 100), "y": rng.lognormal(2, 0.5, 300).clip(0, 100)})
    skewed = dp.protect(data, "skewed", epsilon=10, bounds={"x": (0, 100), "y": (0, 100)}, ledger="memory:")
    with seeded_noise(2):
        one_sided = skewed.mean("x", epsilon=1) / skewed.mean("y", epsilon=0.1)

    assert (-math.inf, math.inf) == (any_number.low, any_number.high)
    assert any_number.notes[-1].startswith("Uninformative: the value could be any number, because the")
    assert repr(any_number).startswith("Uninformative: ")
    assert 0 < one_sided.low < data["x"].mean() / data["y"].mean() < one_sided.high == math.inf
    assert one_sided.notes[-1].startswith("The interval has no upper end: the value is not finite in ")
    for text in (repr(one_sided), one_sided._repr_html_(), one_sided.to_markdown()):
        assert "or more" in text
    assert Release.from_json(one_sided.to_json()).high == math.inf
    assert not one_sided.to_frame().empty
    for each in (any_number, one_sided):
        each.plot()


def test_where_the_draws_lean_the_interval_does_not_cover_and_is_refused():
    """A function that is larger of noisy numbers, as one of all that are above 0."""
    clipped = lambda t: np.maximum(t, 0).sum(axis=0)  # noqa: E731
    data = pd.DataFrame({"c": np.arange(100)})
    view = dp.protect(data, "sparse", epsilon=10, categories={"c": list(range(100))}, ledger="memory:")
    counts = view.value_counts("c", epsilon=0.5)

    assert _coverage([3.0] * 20, [2.0] * 20, clipped, "cube", runs=100) < 0.2
    with pytest.raises(dp.ArgumentError, match="biases the value"):
        dp.combine(lambda c: float(sum(each if each > 0 else 0.0 for each in c.raw)), counts)


def test_a_function_of_all_numbers_of_an_answer_is_one_of_each_draw():
    """A mean of all cells is taken in each draw, and not over the draws as well."""
    data = pd.DataFrame({"c": np.repeat(np.arange(4), [400, 300, 200, 100])})
    view = dp.protect(data, "cells", epsilon=10, categories={"c": list(range(4))}, ledger="memory:")
    counts = view.value_counts("c", epsilon=0.5)
    at_once = dp.combine(lambda c: c.raw[0] - c.raw.mean(), counts)
    one_by_one = dp.combine(lambda c: c.raw[0] - sum(c.raw) / 4, counts)
    share = dp.combine(lambda c: c.raw[0] / c.raw.sum(), counts)

    assert (at_once.low, at_once.high) == pytest.approx((one_by_one.low, one_by_one.high), rel=1e-12)
    assert abs(share.estimate - 0.4) < 3 * (share.high - share.low)


def test_groups_of_two_editions_may_be_the_same_people():
    """Groups of one table have no row in common; those of two editions may, and their errors add up."""
    rows = pd.DataFrame({"x": np.linspace(0, 1, 2000), "g": ["a", "b"] * 1000})
    terms = {"account": "combined editions", "epsilon": 10**5, "ledger": "memory:"}
    known = {"bounds": {"x": (0, 1)}, "categories": {"g": ["a", "b"]}}
    one, two = (dp.protect(rows, "both editions", edition=each, **terms, **known) for each in ("1", "2"))

    widths = []
    for other in (one, two):
        tests = [each.where(g=g).ttest("x", popmean=0.5, epsilon=1000) for each, g in ((one, "a"), (other, "b"))]
        found = dp.combine(lambda a, b: a.estimate - b.estimate, *tests, covers="population")
        widths.append(found.high - found.low)

    assert widths[1] / widths[0] == pytest.approx(2**0.5, rel=0.01)


def test_population(view, two):
    """Errors of sampling are those of independent rows, or add up where rows are the same."""

    def over(f, *releases):
        return dp.combine(f, *releases, covers="population")

    groups = view.group_by("g").ttest("x", epsilon=50)
    parts = DATA.groupby("g").x
    error, own = math.sqrt(sum(parts.var() / parts.size())), sum(each._sampling_error for each in two)
    found = over(lambda a, b: a.estimate - b.estimate, groups["a"], groups["b"])
    same = over(lambda x, y: x.estimate - y.estimate, *two)
    nested = over(lambda d: d.estimate / 2, two[0] - two[1])
    nothing = over(lambda x, y: x.estimate - y.estimate, two[0], two[0])

    assert found.sampling_standard_error == pytest.approx(error, rel=0.02)  # different rows: independent
    assert found.notes == ()
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * error, rel=0.2)
    assert same.sampling_standard_error == pytest.approx(own, rel=1e-6)  # whatever their correlation
    assert nested.sampling_standard_error == pytest.approx(own / 2, rel=1e-6)
    assert "same rows" in same.notes[0]
    assert nothing.sampling_standard_error == 0
    with pytest.raises(dp.ArgumentError, match="reads the attribute 'standard_error'"):
        over(lambda x: x.standard_error, two[0])
    with pytest.raises(dp.ArgumentError, match="is not known"):
        over(lambda m: m.value, view.mean("x", epsilon=1))


# ---- refined ---------------------------------------------------------------------------------------------


def test_refine():
    """Answers are pooled with the weight of their noise, at the price of what is new."""
    view = protect("refined", public=["g"])
    first = view.ttest("x", epsilon=1)
    better = view.refine(first, epsilon=1)
    best = view.refine(better, epsilon=2)
    one = (first * 1).noise_standard_error

    assert (view.budget.spent, better.privacy.epsilon) == (4, 1)
    assert better.noise_standard_error == pytest.approx(one / math.sqrt(2), rel=0.2)
    assert best.noise_standard_error == pytest.approx(one / math.sqrt(6), rel=0.2)
    assert "3 times" in best.notes[0]
    assert abs(best.estimate - DATA.x.mean()) < 8 * best.noise_standard_error
    groups = view.group_by("g").mean("x", epsilon=1)
    assert view.refine(groups, lambda g: g["a"].value, epsilon=3).privacy.epsilon == 3
    with pytest.raises(dp.ArgumentError, match="of the account 'refined'"):
        protect("another").refine(first, epsilon=1)


@pytest.mark.parametrize(("ask", "number", "words"), [
    (lambda v: v.ttest("x", epsilon=1) - 1, None, "."),
    (lambda v: v.group_by("g").mean("x", epsilon=1)["a"], None, "."),
    (lambda v: v.group_by("g").mean("x", epsilon=1), None, "."),
    (lambda v: v.median("x", epsilon=1), None, "cannot be drawn again"),  # a choice
    (lambda v: v.mean("x", epsilon=1),
     lambda answer: lambda r: abs(r.value - answer.value), "biases the value"),  # fresh noise moves it so
])  # fmt: skip
def test_what_cannot_be_pooled_is_refused_before_it_is_paid(ask, number, words):
    """What no one question can measure again, or what noise moves to one side."""
    view = protect("not pooled")
    answer = ask(view)
    with pytest.raises(dp.ArgumentError, match=words):
        view.refine(answer, *([number(answer)] if number else []), epsilon=1)

    assert view.budget.spent == 1


@pytest.mark.parametrize(
    "ask", [lambda v: v.histogram("x", bins=4, epsilon=5), lambda v: v.value_counts("g", epsilon=5)]
)
def test_refine_says_how_to_point_at_a_number(ask):
    """For an answer of many numbers: the function that the error names can be passed as it is."""
    view = protect("many numbers")
    first = ask(view)
    with pytest.raises(dp.ArgumentError, match="number = lambda r: ") as refused:
        view.refine(first, epsilon=5)
    number = eval(str(refused.value).partition("number = ")[2].partition(": view")[0])  # noqa: S307 - as a user would paste it

    assert view.budget.spent == 5
    assert math.isfinite(view.refine(first, number, epsilon=5).estimate)


# ---- from elsewhere, and refused -------------------------------------------------------------------------

_ELSEWHERE = """
import sys
import dfprivacy as dp
one, other, groups = (dp.Release.from_json(text) for text in sys.stdin.read().splitlines())
for found in (one - other, dp.combine(lambda g: g["a"].value - g["b"].value, groups)):
    print(repr((found.estimate, found.low, found.high)), end=" ")
"""


def test_answers_travel(forked):
    """Answers that went through JSON are combined elsewhere, with no table and no ledger, to the same numbers."""
    view = protect("travels", public=["g"])
    one, other = view.ttest("x", by="g", epsilon=1), view.where(g="a", x=(0, 3)).mean("y", epsilon=1)
    groups = view.group_by("g").mean("x", epsilon=2)
    here = [one - other, difference(groups)]
    sent = "\n".join(each.to_json() for each in (one, other, groups))
    there = forked(_ELSEWHERE, given=sent.encode()).stdout.decode()

    assert there.strip() == " ".join(repr((each.estimate, each.low, each.high)) for each in here)
    assert (draws_of(view.releases[0]) == draws_of(one)).all()
    with pytest.raises(dp.ArgumentError, match="read from JSON"):
        Release.from_json(here[0].to_json()) - 1


def test_two_ledgers_and_two_data_sets(tmp_path, two):
    """Of the same rows measured apart, and of other rows."""
    apart = two[0] - protect("combined", ledger=tmp_path / "other.sqlite").ttest("x", epsilon=1)
    other = two[0] - protect("neighbours").ttest("x", epsilon=1)

    assert apart.low < 0 < apart.high
    assert other.low < other.estimate < other.high
    assert other.privacy.account == "combined and neighbours"


_numbers = itertools.count()
REFUSED = [
    (lambda v, x, y, f=f: dp.combine(f, x), words)
    for f, words in [
        (lambda x: [x.estimate, 1], "several numbers"),
        (lambda x: np.array([x.estimate, 1]), "several numbers"),
        (lambda x: str(x.estimate), "not a number"),
        (lambda _: None, "not a number"),
        (lambda x: x.estimate > 0, "not a number"),
        (lambda x: x.estimate * math.nan, "is nan"),
        (lambda x: x.estimate * math.inf, "is inf"),
        (lambda x: max(x.estimate, x.low), "reads the attribute 'low'"),
        (lambda x: next(_numbers) + x.estimate, "two different numbers"),
    ]
] + [
    (lambda v, x, y: y / (x - x), "The divisor is 0"),
    (lambda v, x, y: y / 0, "The divisor is 0"),
    (lambda v, x, y: v.histogram("x", bins=4, epsilon=1) - 1, "no single number"),
    (lambda v, x, y: v.group_by("g").mean("x", epsilon=1) - 1, "by group"),
    (lambda v, x, y: v.median("x", epsilon=1) - 1, "cannot be drawn again"),
    (lambda v, x, y: dp.combine(x, y), "must be a function"),
    (lambda v, x, y: dp.combine(lambda: 1.0), "no release"),
    (lambda v, x, y: dp.combine(operator.sub, x, 3), "takes releases"),
    (lambda v, x, y: dp.combine(operator.sub, x, y, confidence=1), "confidence"),
    *((lambda v, x, y, wrong=wrong: x - wrong, "unsupported") for wrong in (True, "1", [1], None)),
]


@pytest.mark.parametrize(("ask", "words"), REFUSED)
def test_what_is_refused(view, two, ask, words):
    """Functions that give no single number, or look at what is not drawn; answers that are no numbers."""
    with pytest.raises((dp.ArgumentError, TypeError), match=words):
        ask(view, *two)


def test_a_class_says_how_it_is_drawn_again():
    """A mechanism whose release does not say so is refused; one of a function of moments need not say it."""

    @dp.mechanism(columns={"column": "numeric"})
    def once(curator, column):
        """Give the sum."""
        return float(curator.sum(dp.features.Moments(column, degree=1)).values[0])  # noqa: PD011

    @dp.statistic()
    def spread(moments):
        """Estimate the standard deviation."""
        return moments.sd, moments.variance / moments.n / 2

    for each in (once, spread):
        dp.register_mechanism(each)
    try:
        view = protect("third")
        with pytest.raises(dp.ArgumentError, match="Value cannot be drawn again"):
            view.once("x", epsilon=1) - 1
        answer = view.spread("x", epsilon=1)
        assert (2 * answer).noise_standard_error == pytest.approx(2 * answer.noise_standard_error, rel=0.1)
    finally:
        for each in (once, spread):
            dp.unregister(each.name)
