"""Answers weighted by sampling weights: those of survey statistics, with intervals that cover the population."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import binom, norm
from statsmodels.api import GLM, WLS, add_constant, families

import dfprivacy as dp
from dfprivacy.inference.counts import arcsine_share
from dfprivacy.inference.counts import difference as apart_by
from dfprivacy.inference.engine import infer
from dfprivacy.inference.weighted import NoisyWeighted, difference, ratio, total
from dfprivacy.laws import NoiseLaw
from dfprivacy.testing import seeded_noise
from dfprivacy_inference.weighted import EffectiveCounts

NAMES = (f"weights {at}" for at in itertools.count())
RNG = np.random.default_rng(0)
POPULATION = 200_000
INCOME = np.clip(RNG.lognormal(10.3, 0.6, POPULATION), 0, 200_000)
SHARE = np.clip(0.01 * INCOME / np.median(INCOME), 0.004, 0.05)  # the rich are asked more often
SAID = {
    "bounds": {"income": (0, 200_000), "w": (0, 250)},
    "categories": {"rich": ["no", "yes"], "part": ["a", "b", "c"]},
}


def survey(seed=1):
    """Some 2,400 rows of the population, with the inverse of their chances as weights."""
    rng = np.random.default_rng(seed)
    asked = rng.random(POPULATION) < SHARE
    income = INCOME[asked]
    return pd.DataFrame(
        {
            "income": income,
            "w": 1 / SHARE[asked],
            "rich": np.where(income > 50_000, "yes", "no"),
            "part": np.array(["a", "b", "c"])[np.arange(POPULATION)[asked] % 3],
        }
    )


def protect(frame, **terms):
    """Protect it for as much as is asked."""
    return dp.protect(frame, next(NAMES), **{"epsilon": 10**6, "ledger": "memory:", **SAID, **terms})


def hajek(y, w):
    """A weighted mean and its design-based standard error, by the textbook."""
    mean = np.average(y, weights=w)
    return mean, np.sqrt((w**2 * (y - mean) ** 2).sum()) / w.sum()


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_a_mean_is_that_of_survey_statistics(neighbors):
    """With next to no noise the mean and its interval are Hájek's, of all rows, of groups, and of complete rows."""
    frame = survey()
    frame.loc[::7, "w"] = np.nan
    frame.loc[::11, "income"] = np.nan
    view, there = protect(frame, neighbors=neighbors), frame.dropna()

    found = view.mean("income", weights="w", epsilon=10**4)

    mean, error = hajek(there["income"], there["w"])
    assert mean == pytest.approx(found.value, rel=1e-5)
    assert 2 * 1.96 * error == pytest.approx(found.high - found.low, rel=0.01)
    assert found.count == pytest.approx(len(there), abs=1)
    assert (found.covers, found.weights) == ("limited population", "w")
    assert "for the population that 'w' stands for" in " ".join(str(found).split())
    groups = view.group_by("part").mean("income", weights="w", epsilon=10**4)
    for key, part in there.groupby("part"):
        assert hajek(part["income"], part["w"])[0] == pytest.approx(groups[key].value, rel=1e-4)


def test_a_sum_is_that_of_survey_statistics():
    """Horvitz and Thompson's, with the variance of Poisson sampling."""
    frame = survey()
    z = frame["w"] * frame["income"]

    found = protect(frame).sum("income", weights="w", epsilon=10**4)

    assert z.sum() == pytest.approx(found.value, rel=1e-4)
    assert 2 * 1.96 * (z**2).sum() ** 0.5 == pytest.approx(found.high - found.low, rel=0.02)
    assert found.covers == "limited population"


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_counts_are_those_of_survey_statistics(neighbors):
    """Sums of weights by category and by combination, each with an interval for the population."""
    frame = survey()
    view, known = protect(frame, neighbors=neighbors), frame.groupby("part")["w"]

    counts = view.value_counts("part", weights="w", sort=False, epsilon=10**4)
    cells = view.crosstab("rich", "part", weights="w", epsilon=10**4)

    assert known.sum().tolist() == pytest.approx(counts.raw.tolist(), rel=1e-3)
    low, high = counts.intervals
    assert (2 * 1.96 * (known.agg(lambda w: (w**2).sum())) ** 0.5).tolist() == pytest.approx(high - low, rel=0.02)
    table = frame.pivot_table(index="rich", columns="part", values="w", aggfunc="sum")
    assert table.to_numpy() == pytest.approx(cells.raw, rel=0.01)
    squares = frame.assign(w=frame["w"] ** 2).pivot_table(index="rich", columns="part", values="w", aggfunc="sum")
    low, high = cells.intervals
    assert 2 * 1.96 * squares.to_numpy() ** 0.5 == pytest.approx(high - low, rel=0.02)
    assert view.crosstab("part", "rich", weights="w", epsilon=10**4).raw == pytest.approx(cells.raw.T)
    shares = view.value_counts("part", weights="w", normalize=True, epsilon=10**4)
    assert shares["b"] == pytest.approx(known.sum()["b"] / frame["w"].sum(), abs=1e-3)
    assert counts.covers == cells.covers == "population"
    assert "for the population that 'w' stands for" in " ".join(str(counts).split())
    twice = dp.combine(lambda found: 2 * found.raw[0], counts)
    assert float(twice) == pytest.approx(2 * counts.raw[0], rel=1e-3)


def test_shares_are_those_of_survey_statistics():
    """Weighted shares of groups, with sizes that give them their design-based errors."""
    frame = survey()
    view, hit = protect(frame), (frame["part"] == "b").astype(float)

    one = view.proportions("part", success="b", weights="w", epsilon=10**4)
    every = view.proportions("part", by="rich", success="b", weights="w", epsilon=10**4)

    share, error = hajek(hit, frame["w"])
    assert share == pytest.approx(one.shares[0], abs=1e-4)
    assert share * (1 - share) / error**2 == pytest.approx(one.sizes[0], rel=0.01)
    assert 2 * 1.96 * error == pytest.approx(one.highs[0] - one.lows[0], rel=0.02)
    for at, (_, group) in enumerate(frame.groupby("rich")):
        assert hajek(hit[group.index], group["w"])[0] == pytest.approx(every.shares[at], abs=1e-3)
    assert one.weights == every.weights == "w"
    assert "for the population that 'w' stands for" in " ".join(str(one).split())
    assert dp.Release.from_dict(every.to_dict()) == every


def test_a_test_is_that_of_survey_statistics():
    """A weighted mean, and a difference of two, with design-based errors and a p-value from them."""
    frame = survey()
    view = protect(frame)
    (a, of_a), (b, of_b) = (hajek(part["income"], part["w"]) for _, part in frame.groupby("rich"))

    one = view.ttest("income", popmean=35_000, weights="w", epsilon=10**4)
    two = view.ttest("income", by="rich", weights="w", epsilon=10**4)

    mean, error = hajek(frame["income"], frame["w"])
    assert (mean, error) == pytest.approx((one.estimate, one.standard_error), rel=1e-3)
    assert (a - b, np.hypot(of_a, of_b)) == pytest.approx((two.estimate, two.standard_error), rel=1e-3)
    assert two.rejected
    assert two.sizes == pytest.approx(
        frame.groupby("rich")["w"].agg(lambda w: w.sum() ** 2 / (w**2).sum()), rel=1e-3
    )
    assert one.pvalue == pytest.approx(2 * norm.sf(abs(mean - 35_000) / error), rel=0.01)
    assert one.confidence_interval(0.9).low == pytest.approx(mean - 1.645 * error, rel=1e-3)
    assert "for the population that 'w' stands for" in " ".join(str(two).split())
    assert float(two / 1000) == pytest.approx(two.estimate / 1000, rel=1e-3)
    for said in ({"equal_var": True}, {"queries": "separately"}, {"method": "naive"}):
        with pytest.raises(dp.ArgumentError, match="cannot be combined with equal_var"):
            view.ttest("income", by="rich", weights="w", epsilon=1, **said)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_a_regression_is_that_of_statsmodels(neighbors):
    """Weighted least squares, with sandwich errors: for the population's coefficients, which the rows' are not."""
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 10, 20_000)
    y = (20 + 3 * x + 0.35 * (x - 5) ** 2 + rng.normal(0, 3 + x)).clip(0, 100)
    frame = pd.DataFrame({"x": x, "y": y, "w": np.exp((50 - y) / 25)})
    view = protect(frame, bounds={"x": (0, 10), "y": (0, 100), "w": (0, 8)}, categories={}, neighbors=neighbors)

    fit = view.ols("y ~ x", weights="w", epsilon=1000)
    plain = view.ols("y ~ x", epsilon=1000)

    known = WLS(frame["y"], add_constant(frame["x"]), weights=frame["w"]).fit(cov_type="HC0")
    assert [*fit.params.values()] == pytest.approx(known.params.to_numpy(), rel=0.01)
    assert [*fit.bse.values()] == pytest.approx(known.bse.to_numpy(), rel=0.05)
    assert abs(plain.params["x"] - known.params["x"]) > 4 * known.bse["x"]
    assert fit.nobs == pytest.approx(len(frame), abs=1)
    assert (fit.weights, plain.weights) == ("w", None)
    assert "for the population that 'w' stands for" in " ".join(str(fit).split())
    with pytest.raises(dp.ArgumentError, match="as the weights"):
        view.ols("y ~ x + w", weights="w", epsilon=1)
    few = view.ols("y ~ x", weights="w", epsilon=0.01, fresh=True)
    assert few.low["x"] < known.params["x"] < few.high["x"]


ILL_X = np.random.default_rng(11).normal(size=POPULATION).clip(-3, 3)
ILL = np.random.default_rng(12).random(POPULATION) < expit(-2 + 0.8 * ILL_X + 0.2 * ILL_X * np.abs(ILL_X))
ILL_CHANCE = np.where(ILL, 4.0, 1.0) * np.exp(0.3 * ILL_X.clip(-1, 1))  # the ill are asked four times as often
ILL_SAID = {"bounds": {"x": (-3, 3), "w": (0, 1.35)}, "categories": {"ill": ["no", "yes"]}}


def cases_and_controls(n, seed):
    """Rows of a population of whom 16% are ill, chosen by that, with their weights."""
    at = np.random.default_rng(seed).choice(POPULATION, n, p=ILL_CHANCE / ILL_CHANCE.sum())
    return pd.DataFrame({"x": ILL_X[at], "ill": np.where(ILL[at], "yes", "no"), "w": 1 / ILL_CHANCE[at]})


def log_odds(frame):
    """The coefficients of weighted likelihood, and their design-based errors, by statsmodels."""
    x, y, v = add_constant(frame["x"]).to_numpy(), frame["ill"] == "yes", frame["w"].to_numpy()
    fit = GLM(y, x, family=families.Binomial(), freq_weights=v).fit()
    inverse = np.linalg.inv((x * (v * fit.mu * (1 - fit.mu))[:, None]).T @ x)
    meat = (x * ((v * (y - fit.mu)) ** 2).to_numpy()[:, None]).T @ x
    return fit.params.tolist(), np.sqrt(np.diag(inverse @ meat @ inverse)).tolist()


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_log_odds_are_those_of_statsmodels(neighbors):
    """Weighted likelihood with sandwich errors, of complete rows; the rows' own intercept is another."""
    frame = cases_and_controls(20_000, 3)
    frame.loc[::9, "w"] = np.nan
    view, there = protect(frame, neighbors=neighbors, **ILL_SAID), frame.dropna()

    fit = view.logit("ill ~ x", weights="w", epsilon=10**4)
    plain = view.logit("ill ~ x", epsilon=10**4)

    params, errors = log_odds(there)
    assert [*fit.params.values()] == pytest.approx(params, abs=0.005)
    assert [*fit.bse.values()] == pytest.approx(errors, rel=0.02)
    assert plain.params["Intercept"] - params[0] > 20 * errors[0]
    assert fit.nobs == pytest.approx(len(there), abs=1)
    assert (fit.weights, plain.weights) == ("w", None)
    assert "for the population that 'w' stands for" in " ".join(str(fit).split())
    assert dp.Release.from_dict(fit.to_dict()) == fit
    assert view.logit("ill ~ x", weights="w", confidence=0.9, epsilon=10**4).privacy.epsilon == 0


def test_log_odds_of_equal_weights_are_those_without():
    """The weights may be any part of their bound; errors are then the robust ones."""
    frame = cases_and_controls(20_000, 4).assign(w=1.0)
    view = protect(frame, **ILL_SAID)

    weighted, plain = (view.logit("ill ~ x", weights=weights, epsilon=10**4) for weights in ("w", None))

    assert [*plain.params.values()] == pytest.approx([*weighted.params.values()], abs=0.005)
    assert [*plain.bse.values()] == pytest.approx([*weighted.bse.values()], rel=0.05)
    assert [*weighted.bse.values()] == pytest.approx(log_odds(frame)[1], rel=0.02)


def test_weighted_log_odds_of_few_rows_tell_nothing():
    """Intervals without ends, and a note on the rows that they had needed, of weight."""
    with seeded_noise(1):
        few = protect(cases_and_controls(300, 6), **ILL_SAID).logit("ill ~ x", weights="w", epsilon=1)

    assert not few.informative
    assert few.low["x"] == -np.inf
    assert any("weighted relative to the largest weight, have the rarer outcome" in note for note in few.notes)


def test_weighted_log_odds_are_explained():
    """What is expected is what comes, within a half, of weights in the middle of their bounds; so is the power."""
    rng = np.random.default_rng(7)
    x = rng.normal(0, 1, 20_000).clip(-3, 3)
    ill = np.where(rng.random(20_000) < 0.5, "yes", "no")
    view = protect(pd.DataFrame({"x": x, "ill": ill, "w": 0.675}), **ILL_SAID)

    found = view.explain("logit", "ill ~ x", weights="w", epsilon=2).findings
    question = ("logit", "ill ~ x", {"weights": "w"})
    none, much = (view.power(question, n=6000, epsilon=2, assume={"effect": each}, runs=10) for each in (0, 1))
    with seeded_noise(2):
        fit = view.logit("ill ~ x", weights="w", epsilon=2)

    assert "weights are near 0.675" in found["assumed"]
    assert found["expected standard error of the coefficient of x"] == pytest.approx(fit.bse["x"], rel=0.5)
    assert none.shares[0][0] < 0.65 < much.shares[0][0]


@pytest.mark.statistical
@pytest.mark.parametrize(("n", "epsilon", "runs"), [(3000, 1, 20), (10_000, 4, 40)])
def test_intervals_of_log_odds_cover_the_population(n, epsilon, runs):
    """Of samples that are chosen by the outcome, for a model that is wrong; the rows' intercept is far off."""
    truths = log_odds(pd.DataFrame({"x": ILL_X, "ill": np.where(ILL, "yes", "no"), "w": 1.0}))[0]
    said, fits = {**ILL_SAID, "categories": {**ILL_SAID["categories"], "run": [*range(20)]}}, []

    with seeded_noise(8):
        for first in range(0, runs, 20):  # of one table each, as its groups
            frame = pd.concat([cases_and_controls(n, 100 + first + run).assign(run=run) for run in range(20)])
            view = protect(frame, public=["run"], **said)
            fits += view.group_by("run").logit("ill ~ x", weights="w", epsilon=epsilon).releases
        plain = view.where(run=0).logit("ill ~ x", epsilon=4)

    ends = np.array([[[*fit.low.values()], [*fit.high.values()]] for fit in fits])
    held = ((ends[:, 0] <= truths) & (truths <= ends[:, 1])).sum(axis=0)
    assert held.min() >= binom.ppf(1e-6, runs, 0.95)
    assert sum(fit.informative for fit in fits) > runs * (0.9 if n * epsilon > 3000 else 0)
    assert plain.low["Intercept"] > truths[0] + 0.5


def test_equal_weights_change_nothing():
    """Where all weigh the same, the mean is that of the rows, and its interval is as wide but for the noise."""
    frame = survey().assign(w=100.0)
    view = protect(frame)

    weighted = view.mean("income", weights="w", epsilon=10**4)
    plain = view.mean("income", covers="population", epsilon=10**4)

    assert plain.value == pytest.approx(weighted.value, rel=1e-5)
    assert plain.high - plain.low == pytest.approx(weighted.high - weighted.low, rel=0.01)


def test_weights_that_are_shrunk_or_trimmed():
    """Bounds trim weights, which a note says; a computed column shrinks them. Both are other weights."""
    frame = survey()
    view = protect(frame, bounds={"income": (0, 200_000), "w": (0, 60)})

    trimmed = view.mean("income", weights="w", epsilon=10**4)
    shrunk = view.with_columns(s=dp.col("w") / 2 + 20).mean("income", weights="s", epsilon=10**4)

    w = frame["w"].clip(upper=60)
    assert np.average(frame["income"], weights=w) == pytest.approx(trimmed.value, rel=1e-4)
    assert np.average(frame["income"], weights=w / 2 + 20) == pytest.approx(shrunk.value, rel=1e-4)
    assert any("were above 60, and limited to it" in note for note in trimmed.notes)


@pytest.mark.parametrize("of", [{"w": 0.0}, {"w": np.nan}, {"income": np.nan}])
def test_nothing_to_weigh_is_uninformative(of):
    """Rows without weight tell nothing: the interval is all that is possible, and a note says so."""
    with seeded_noise(1):
        found = protect(survey().assign(**of)).mean("income", weights="w", epsilon=1)

    assert (found.low, found.high) == (0, 200_000)
    assert "Uninformative" in found.notes[-1]


REFUSED = [
    *((lambda view: view.mean("income", weights="w", epsilon=1), {"w": bounds}, words)
      for bounds, words in (((-1, 250), "not negative"), ((0, 1e200), "too large"), ((-3, 0), "some are above 0"))),
    *((lambda view, weights=weights: view.mean("income", weights=weights, epsilon=1), {}, words)
      for weights, words in (("income", "as the weights"), ("rich", "bounds is needed"), ("nowhere", "no column"))),
    *((lambda view, asked=asked, w=w: view.logit(asked, weights=w, epsilon=1), {}, words) for asked, w, words in (
        ("rich ~ w", "w", "as the weights"), ("rich ~ income", "rich", "bounds is needed"),
        ("rich ~ income", "nowhere", "no column"))),
    (lambda view: view.logit("rich ~ income", weights="w", epsilon=1), {"w": (-3, 3)}, "not negative"),
    (lambda view: view.value_counts("part", domain=["a", "b"], weights="w", epsilon=1), {},
     "weights= cannot be used"),
]  # fmt: skip


@pytest.mark.parametrize(("ask", "bounds", "words"), REFUSED)
def test_weights_that_are_refused(ask, bounds, words):
    """Before anything is charged."""
    view = protect(survey(), bounds={**SAID["bounds"], **bounds})

    with pytest.raises(dp.ArgumentError, match=words):
        ask(view)

    assert view.budget.spent == 0


def test_a_weighted_answer_tells_no_other():
    """An answer with weights is not that without them, nor the other way round; the same sums are free."""
    view = protect(survey())

    plain, weighted = view.mean("income", epsilon=1), view.mean("income", weights="w", epsilon=1)
    again, rest = view.mean("income", epsilon=0.9), view.sum("income", weights="w", epsilon=1)

    assert abs(plain.value - weighted.value) > 5000
    assert abs(again.value - plain.value) < 3000
    assert rest.privacy.epsilon == 0
    assert dp.Release.from_dict(weighted.to_dict()) == weighted
    assert float(weighted / 1000) == pytest.approx(weighted.value / 1000, rel=0.02)


def weighed(asked, of, *groups):
    """Exact sums of each group among those who are asked, of a value from 0 to 1."""
    v = 1 / SHARE[asked] / 250
    z = np.array([v * of[asked], v * (1 - of[asked])])
    exact = np.array([*z, *z**2, z[0] * z[1]])
    return [(exact * group[asked]).sum(axis=1) for group in groups]


def held(sums, parameter, truth):
    """How many of 300 intervals at 95 % hold the truth: it is among what a test would not reject."""
    return (infer(sums, parameter).pvalue(truth) >= 0.05).sum()


@pytest.mark.statistical
def test_intervals_cover_the_population():
    """Of 300 samples with noise, 95% cover the mean and the sum of the population; unweighted intervals never do.

    And a difference of means, a share in each group, and the difference of these. Fewer than 262 of 300 are a false
    alarm of 1e-6 at .945, what is covered of this skewed column without noise.
    """
    rng, of, runs = np.random.default_rng(5), (200_000.0, 0.0), 300
    one, rich = np.arange(POPULATION) % 2 == 0, INCOME > 40_000
    means, shares = ([values[each].mean() for each in (one, ~one)] for values in (INCOME, rich))
    samples = [rng.random(POPULATION) < SHARE for _ in range(runs)]
    whole, by, risks = (
        np.array([weighed(asked, values, *groups) for asked in samples])
        for values, groups in (
            (INCOME / 200_000, [one | ~one]),
            (INCOME / 200_000, [one, ~one]),
            (rich, [one, ~one]),
        )
    )
    for epsilon in (0.5, 4):
        laws = [NoiseLaw(each / epsilon, kind="cube", dimension=5) for each in (1, 1, 1, 1, 0.5)]
        noise = rng.gamma(6, size=(runs, 1, 1)) * rng.uniform(-1, 1, (runs, 1, 5)) * [law.scale for law in laws]
        sums = NoisyWeighted("w", 250.0, whole + noise, laws, 2, 2400, {})
        assert held(sums, lambda exact: ratio(exact[0], of, (1, 1)), INCOME.mean()) >= 262
        assert held(sums, lambda exact: total(exact[0], 250 * np.array(of)), INCOME.sum()) >= 262
        if epsilon == 0.5:  # less than of the noise of 2 in each coordinate that these might have
            assert infer(sums, lambda exact: ratio(exact[0], of, (1, 1))).standard_error.mean() < 2282

    for epsilon in (0.5, 4):  # with Laplace noise as two private groups have it
        scales = 3 / epsilon * np.array([1, 1, 2, 2, 1])
        apart, counts = (
            NoisyWeighted(
                "w", 250.0, exact + rng.laplace(0, scales, (runs, 2, 5)), [*map(NoiseLaw, scales)], 2, 2400, {}
            )
            for exact in (by, risks)
        )
        counts = EffectiveCounts(counts)
        assert held(apart, lambda exact: difference(exact[0], exact[1], of[::-1]), means[0] - means[1]) >= 262
        assert held(counts, lambda exact: apart_by(exact[0], exact[1]), shares[0] - shares[1]) >= 262
        for at, share in enumerate(shares):
            assert held(counts, lambda exact, at=at: arcsine_share(exact[at]), np.arcsin(share**0.5)) >= 262


def test_the_noise_is_the_smaller_of_two():
    """That of the cube for few sums; Laplace noise for many groups, and where rows come and go."""
    kinds = [
        protect(survey(), neighbors=neighbors).mean("income", weights="w", epsilon=1).privacy.noise[-1].kind
        for neighbors in ("replace_one", "add_remove")
    ]

    assert kinds == ["K-norm (cube)", "discrete Laplace"]
