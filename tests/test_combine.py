"""Arithmetic on releases: shared noise is drawn once, intervals cover, and what fails is refused."""

import dataclasses
import inspect
import json
import math
import operator

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dfprivacy as dp
from dfprivacy._call import combine as module
from dfprivacy._call.answered import answered_of
from dfprivacy._call.formula import drawn
from dfprivacy._call.intervals import ends_of
from dfprivacy._measure.redraw import Recorded, World
from dfprivacy.release import Release
from dfprivacy.testing.noise import seeded_noise

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


@pytest.fixture(autouse=True)
def _fewer_draws(monkeypatch):
    for each in (dp.combine, module.concluded):
        monkeypatch.setitem(inspect.unwrap(each).__kwdefaults__, "draws", 499)


@pytest.fixture(scope="module")
def view():
    return protect("combined", public=["g"])


@pytest.fixture(scope="module")
def two(view):
    return view.ttest("x", epsilon=1), view.ttest("y", epsilon=1)


def draws_of(release, f=float):
    return drawn(module.Node(f, (module._input(release),), ""), 20)


def test_what_is_shared_is_drawn_once(view, two):
    x, _ = two
    zero = x - x
    assert (zero.estimate, zero.low, zero.high, zero.noise_standard_error) == (0, 0, 0, 0)
    other = view.ttest("x", popmean=3, epsilon=1)  # another question, answered from the same measurement
    assert (draws_of(x) == draws_of(other)).all()
    apart = view.ttest("x", epsilon=1, fresh=True)
    assert (draws_of(x) != draws_of(apart)).all()


def test_nothing_is_paid_or_kept(view, two):
    spent, kept = view.budget.spent, len(view.releases)
    found = two[0] - two[1]
    assert (view.budget.spent, len(view.releases)) == (spent, kept)
    assert found.privacy.epsilon == 0
    assert all(record.reused for record in found.privacy.noise)
    assert str(found.privacy).startswith("NOT PRIVATE")  # for the noise of this test is seeded
    assert str(dataclasses.replace(found.privacy, private=True)).startswith("nothing more was paid")


def test_the_interval_is_that_of_the_noise_in_both(two):
    x, y = two
    found = x - y
    assert found.estimate == x.estimate - y.estimate
    noise = math.hypot(x.noise_standard_error, y.noise_standard_error)
    assert found.noise_standard_error == pytest.approx(noise, rel=0.2)
    # The noise of both is Laplace: 1.96 standard deviations, near enough.
    assert (found.high - found.low) / 2 == pytest.approx(1.95 * noise, rel=0.25)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (lambda x, y: x + y, lambda x, y: x + y),
        (lambda x, y: x / y, lambda x, y: x / y),
        (lambda x, _: 2 - x, lambda x, _: 2 - x),
        (lambda x, _: np.float64(2) * x, lambda x, _: 2 * x),
        (lambda x, _: -x, lambda x, _: -x),
        (lambda x, y: (x - y) / (x + y), lambda x, y: (x - y) / (x + y)),
    ],
)
def test_operators(two, written, value):
    found = written(*two)
    assert found.estimate == pytest.approx(value(*(each.estimate for each in two)), rel=1e-12)
    assert found.low < found.estimate < found.high


def test_it_says_what_it_is(two):
    found = two[0] - two[1]
    assert found.formula == "ttest('x') - ttest('y')"
    for said in ("95% interval", "the table's own", "499 draws", "the sampling of rows is not in it"):
        assert said in repr(found)
    for said in (found.formula, "95% low", "499 draws", "the sampling of rows is not in it"):
        assert said in found._repr_html_().replace("&#x27;", "'")
    row = found.to_frame().iloc[0]
    assert (row["estimate"], row["low"], row["covers"]) == (found.estimate, found.low, "limited table")
    assert Release.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert found == two[0] - two[1]  # the draws follow from what was released


def test_groups(view):
    groups = view.group_by("g").mean("x", epsilon=1)
    once = groups["a"] - groups["b"]
    again = dp.combine(lambda g: g["a"].value - g["b"].value, groups)
    assert (once.estimate, once.low, once.high) == (again.estimate, again.low, again.high)
    assert once.formula == "(mean('x') where g = a) - (mean('x') where g = b)"
    truth = DATA.groupby("g").x.mean()
    assert abs(once.estimate - (truth["a"] - truth["b"])) < 8 * once.noise_standard_error


def test_quantities_of_one_description():
    d = protect("described").describe(epsilon=20)
    at = d.statistics.index("mean")
    difference = lambda d: d.values[0][at] - d.values[1][at]  # noqa: E731, PD011
    node = module.Node(difference, (module._input(d),), "")
    said = math.hypot(d.standard_errors[0][at], d.standard_errors[1][at])
    assert node.value(World(None)) == difference(d)
    assert abs(difference(d) - (DATA.x.mean() - DATA.y.mean())) < 8 * said
    assert drawn(node, 60).std() == pytest.approx(said, rel=0.5)  # 60 draws are within 0.15


def test_a_choice_between_two_measurements_stays_as_it_was():
    """A mean is measured about a first guess; the guess moves with its noise, and what it was about does not."""
    view = protect("settled")
    m = view.mean("x", epsilon=3)
    assert len(m.privacy.noise) == 2
    assert (m * 1).noise_standard_error == pytest.approx(m.noise_standard_error, rel=0.2)
    fit = view.ols("y ~ x", epsilon=20)
    assert len(fit.privacy.noise) == 2
    node = module.Node(lambda fit: fit.params["x"], (module._input(fit),), "")
    assert drawn(node, 60).std() == pytest.approx(fit.noise_standard_errors["x"], rel=0.5)


@pytest.mark.parametrize(
    ("kind", "scale"), [("laplace", 40.0), ("gaussian", 3.0), ("gaussian", 300.0), ("cube", 25.0)]
)
def test_redrawn_noise_has_the_recorded_law(kind, scale):
    steps = np.array([7, -3, 10**12])
    found = Recorded(("account", 3), kind, scale, None, steps)
    noise = np.array([steps - World(at).steps(found) for at in range(3000)])
    spread = {"laplace": math.sqrt(2), "gaussian": 1, "cube": math.sqrt(20 / 3)}[kind] * scale
    assert np.abs(noise.mean(axis=0)).max() < 6 * spread / math.sqrt(3000)
    assert np.abs(noise.std(axis=0) / spread - 1).max() < 0.15
    if kind == "cube":
        largest = np.abs(noise).max(axis=1) + np.random.default_rng(0).uniform(-0.5, 0.5, 3000)
        assert stats.kstest(largest, stats.gamma(3, scale=scale).cdf).pvalue > 1e-6
    else:
        law = stats.laplace(scale=scale) if kind == "laplace" else stats.norm(scale=scale)
        smooth = noise[:, 0] + np.random.default_rng(0).uniform(-0.5, 0.5, 3000)
        assert stats.kstest(smooth, law.cdf).pvalue > 1e-6
    assert abs(np.corrcoef(noise[:, 0], noise[:, 1])[0, 1]) < 0.12


def _coverage(truth, scales, f, kind, runs=500, draws=499):
    """How often the interval holds f of the truth: the construction of `concluded`, on arrays."""
    rng = np.random.default_rng(3)
    truth, scales = np.array(truth), np.array(scales)
    hits = 0
    for _ in range(runs):
        if kind == "cube":
            z = rng.gamma(len(truth) + 1, 1, (draws + 1, 1)) * rng.uniform(-1, 1, (draws + 1, len(truth)))
        else:
            z = rng.laplace(size=(draws + 1, len(truth)))
        seen = truth + z[0] * scales
        low, high = np.quantile(f((seen - z[1:] * scales).T), [0.025, 0.975], method="weibull")
        hits += low <= f(truth) <= high
    return hits / runs


@pytest.mark.parametrize("kind", ["laplace", "cube"])
@pytest.mark.parametrize(
    ("truth", "scales", "f"),
    [
        ([300.0, 260.0], [4.0, 4.0], lambda t: t[0] - t[1]),
        ([300.0, 200.0], [5.6, 5.6], lambda t: t[0] / t[1]),
        ([300.0, 40.0], [5.6, 5.6], lambda t: t[0] / t[1]),
        ([100.0, 50.0], [2.0, 4.0], lambda t: np.sqrt(np.maximum(t[1] / 1000 - (t[0] / 1000) ** 2, 0))),
    ],
)
def test_the_interval_covers(truth, scales, f, kind):
    assert 0.9 < _coverage(truth, scales, f, kind) < 0.995  # seeded


@pytest.mark.parametrize("kind", ["laplace", "cube", "clipped at 0"])
@pytest.mark.parametrize("divisor", [1.0, 8.0, 15.0, 25.0, 40.0])
def test_quotients_cover_however_near_to_0_the_divisor_is(divisor, kind):
    """By draws with the sign of the divisor; others are beyond both ends, and a draw of 0 beyond one."""
    rng, hits, runs = np.random.default_rng(3), 0, 300
    truth, least = np.array([300.0, divisor]), 0.0 if kind == "clipped at 0" else -math.inf
    for _ in range(runs):
        cube = rng.gamma(3, 1, (500, 1)) * rng.uniform(-1, 1, (500, 2))
        z = 5.6 * (cube if kind == "cube" else rng.laplace(size=(500, 2)))
        seen, draws = truth + z[0], truth + z[0] - z[1:]
        seen[1], draws[:, 1] = max(seen[1], least), np.maximum(draws[:, 1], least)
        values = np.array([module._quotient(a, b, math.copysign(1.0, seen[1])) for a, b in draws.tolist()])
        low, high = ends_of(values, 0.025)
        hits += low <= 300.0 / divisor <= high or seen[1] == 0  # which is refused

    assert hits / runs > 0.9  # seeded; .944 to .986 of 1,000


def test_a_quotient_whose_divisor_may_be_0_is_answered(two):
    """With an end open, or both, and a note that says so; JSON, tables, pages and pictures hold it."""
    x, y = two
    any_number = y / (x - round(x.estimate, 3))
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.normal(50, 10, 300).clip(0, 100), "y": rng.lognormal(2, 0.5, 300).clip(0, 100)})
    skewed = dp.protect(data, "skewed", epsilon=10, bounds={"x": (0, 100), "y": (0, 100)}, ledger="memory:")
    one_sided = skewed.mean("x", epsilon=1) / skewed.mean("y", epsilon=0.15)

    assert (-math.inf, math.inf) == (any_number.low, any_number.high)
    assert any_number.notes[-1].startswith("Uninformative: the value could be any number, for in")
    assert repr(any_number).startswith("Uninformative: ")
    assert 0 < one_sided.low < data["x"].mean() / data["y"].mean() < one_sided.high == math.inf
    assert one_sided.notes[-1].startswith("The interval has no upper end: in ")
    for text in (repr(one_sided), one_sided._repr_html_(), one_sided.to_markdown()):
        assert "or more" in text
    assert Release.from_json(one_sided.to_json()).high == math.inf
    assert not one_sided.to_frame().empty
    for each in (any_number, one_sided):
        each.plot()


def test_where_the_draws_lean_the_interval_does_not_cover_and_is_refused():
    clipped = lambda t: np.maximum(t, 0).sum(axis=0)  # noqa: E731
    assert _coverage([3.0] * 20, [2.0] * 20, clipped, "cube", runs=100) < 0.2
    data = pd.DataFrame({"c": np.arange(100)})
    view = dp.protect(data, "sparse", epsilon=10, categories={"c": list(range(100))}, ledger="memory:")
    counts = view.value_counts("c", epsilon=0.5)
    with pytest.raises(dp.ArgumentError, match="to one side"):
        dp.combine(lambda c: float(sum(each if each > 0 else 0.0 for each in c.raw)), counts)


def test_population(view, two):
    groups = view.group_by("g").ttest("x", epsilon=50)
    found = dp.combine(lambda a, b: a.estimate - b.estimate, groups["a"], groups["b"], covers="population")
    parts = DATA.groupby("g").x
    error = math.sqrt(sum(parts.var() / parts.size()))
    assert found.sampling_standard_error == pytest.approx(error, rel=0.02)  # different rows: independent
    assert found.notes == ()
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * error, rel=0.2)
    same = dp.combine(lambda x, y: x.estimate - y.estimate, *two, covers="population")
    own = [each._sampling for each in two]
    assert same.sampling_standard_error == pytest.approx(sum(own), rel=1e-6)  # whatever their correlation
    assert "same rows" in same.notes[0]
    nothing = dp.combine(lambda x, y: x.estimate - y.estimate, two[0], two[0], covers="population")
    assert nothing.sampling_standard_error == 0
    with pytest.raises(dp.ArgumentError, match="estimate alone"):
        dp.combine(lambda x: x.standard_error, two[0], covers="population")
    with pytest.raises(dp.ArgumentError, match="is not known"):
        dp.combine(lambda m: m.value, view.mean("x", epsilon=1), covers="population")


@pytest.mark.parametrize(
    "ask",
    [
        lambda v: v.histogram("x", bins=4, epsilon=5),
        lambda v: v.value_counts("g", epsilon=5),
    ],
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


def test_what_cannot_be_pooled_is_refused_before_it_is_paid():
    """A choice, whose noise is not drawn again, and a value that fresh noise moves to one side."""
    view = protect("not pooled")
    chosen, mean = view.median("x", epsilon=1), view.mean("x", epsilon=1)
    with pytest.raises(dp.ArgumentError, match="cannot be drawn again"):
        view.refine(chosen, epsilon=1)
    with pytest.raises(dp.ArgumentError, match="to one side"):
        view.refine(mean, lambda r: abs(r.value - mean.value), epsilon=1)

    assert view.budget.spent == 2


def test_refine():
    view = protect("refined", public=["g"])
    first = view.ttest("x", epsilon=1)
    spent = view.budget.spent
    better = view.refine(first, epsilon=1)
    assert view.budget.spent == spent + 1
    assert better.privacy.epsilon == 1
    one = (first * 1).noise_standard_error
    assert better.noise_standard_error == pytest.approx(one / math.sqrt(2), rel=0.2)
    best = view.refine(better, epsilon=2)
    assert best.noise_standard_error == pytest.approx(one / math.sqrt(6), rel=0.2)
    assert "3 times" in best.notes[0]
    assert abs(best.estimate - DATA.x.mean()) < 8 * best.noise_standard_error
    groups = view.group_by("g").mean("x", epsilon=1)
    assert view.refine(groups, lambda g: g["a"].value, epsilon=3).privacy.epsilon == 3
    for bad in (first - 1, groups["a"], groups):
        before = view.budget.spent
        with pytest.raises(dp.ArgumentError):
            view.refine(bad, epsilon=1)
        assert view.budget.spent == before
    with pytest.raises(dp.ArgumentError, match="of the data set 'refined'"):
        protect("another").refine(first, epsilon=1)


def test_from_json(tmp_path):
    ledger = tmp_path / "ledger.sqlite"
    view = protect("from json", ledger=ledger, public=["g"])
    asked = [
        view.ttest("x", by="g", epsilon=1),
        view.where(g="a", x=(0, 3)).mean("y", epsilon=1),
        view.group_by("g").mean("x", epsilon=2),
        view.ttest("y", epsilon="rest"),
    ]
    loaded = [Release.from_dict(json.loads(json.dumps(each.to_dict()))) for each in asked]
    for release, again in zip(asked[:2], loaded[:2], strict=True):
        assert answered_of(again) is None
        assert (draws_of(release) == draws_of(again)).all()
    assert (draws_of(loaded[3]) == draws_of(asked[3])).all()
    difference = lambda g: g["a"].value - g["b"].value  # noqa: E731
    assert (draws_of(loaded[2], difference) == draws_of(asked[2], difference)).all()
    assert (draws_of(view.releases[0]) == draws_of(loaded[0])).all()
    from sqlalchemy import create_engine, text

    engine = create_engine(f"sqlite:///{ledger}")
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM measurements"))
    engine.dispose()
    lost = Release.from_dict(asked[1].to_dict())
    with pytest.raises(dp.ArgumentError, match="does not have the measurements any more"):
        lost - 1
    elsewhere = Release.from_dict({**asked[0].to_dict(), "estimate": 5.0})  # changed on its way
    with pytest.raises(dp.ArgumentError, match="not known here"):
        elsewhere - 1


def test_two_ledgers(tmp_path, two):
    other = protect("combined", ledger=tmp_path / "other.sqlite").ttest("x", epsilon=1)
    with pytest.raises(dp.ArgumentError, match="two ledgers"):
        two[0] - other


def test_two_data_sets_of_one_ledger(two):
    other = protect("neighbours").ttest("x", epsilon=1)
    found = two[0] - other
    assert found.low < found.estimate < found.high
    assert found.privacy.account == "combined and neighbours"


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda x: [x.estimate, 1], "several numbers"),
        (lambda x: np.array([x.estimate, 1]), "several numbers"),
        (lambda x: str(x.estimate), "no number"),
        (lambda _: None, "no number"),
        (lambda x: x.estimate > 0, "no number"),
        (lambda x: x.estimate * math.nan, "gave nan"),
        (lambda x: x.estimate * math.inf, "gave inf"),
        (lambda x: max(x.estimate, x.low), r"max\(\)"),
        (lambda x: np.maximum(x.estimate, x.low), r"maximum\(\)"),
        (lambda x: np.array([x.estimate, 1]).argmax(), r"argmax\(\)"),
        (lambda x: sum(min(each, 2) for each in [x.estimate]), r"min\(\)"),
        (lambda x: next(_numbers) + x.estimate, "another number"),
    ],
)
def test_functions_that_are_refused(two, f, words):
    with pytest.raises(dp.ArgumentError, match=words):
        dp.combine(f, two[0])


_numbers = iter(range(10**6))


def test_refused(view, two):
    x, y = two
    for divisor in (x - x, 0):
        with pytest.raises(dp.ArgumentError, match="The divisor is 0"):
            y / divisor
    with pytest.raises(dp.ArgumentError, match="no one number"):
        view.histogram("x", bins=4, epsilon=1) - 1
    with pytest.raises(dp.ArgumentError, match="by group"):
        view.group_by("g").mean("x", epsilon=1) - 1
    with pytest.raises(dp.ArgumentError, match="noise of a choice"):
        view.median("x", epsilon=1) - 1
    with pytest.raises(dp.ArgumentError, match="takes a function"):
        dp.combine(x, y)
    with pytest.raises(dp.ArgumentError, match="no release"):
        dp.combine(lambda: 1.0)
    with pytest.raises(dp.ArgumentError, match="takes releases"):
        dp.combine(operator.sub, x, 3)
    with pytest.raises(dp.ArgumentError, match="draws"):
        dp.combine(operator.sub, x, y, draws=10)
    with pytest.raises(dp.ArgumentError, match="confidence"):
        dp.combine(operator.sub, x, y, confidence=1)
    for wrong in (True, "1", [1], None):
        with pytest.raises(TypeError):
            x - wrong


def test_mechanisms_that_cannot_be_drawn_again():
    @dp.mechanism(columns={"column": "numeric"})
    def onepiece(curator, column):
        """Give the sum."""
        return float(curator.sum(dp.features.Moments(column, degree=1)).values[0])  # noqa: PD011

    @dp.mechanism(columns={"column": "numeric"})
    def restless(curator, column):
        """Measure twice, the second time what the first suggests."""
        first = curator.sum(dp.features.Moments(column, degree=1), share=0.5).values[0]  # noqa: PD011
        bounded = dp.Column(column.name, (column.low, column.high + abs(float(first))))
        return curator.sum(dp.features.Moments(bounded, degree=1))

    @restless.concludes
    def _(measured):
        return float(measured.values[0])  # noqa: PD011

    for each, words in ((onepiece, "one piece"), (restless, "settled on")):
        dp.register_mechanism(each)
        try:
            view = protect(f"third {words}")
            with pytest.raises(dp.ArgumentError, match=words):
                getattr(view, each.name)("x", epsilon=1) - 1
        finally:
            dp.unregister(each.name)


def test_the_draws_are_those_of_the_seed(two):
    """The same combination has the same draws, in any order of its releases."""
    x, y = two
    node = module.Node(lambda a, b: a.estimate - b.estimate, (module._input(x), module._input(y)), "")
    back = module.Node(lambda b, a: a.estimate - b.estimate, (module._input(y), module._input(x)), "")
    assert (drawn(node, 20) == drawn(back, 20)).all()
