"""The promise itself: how far apart neighbouring tables can be told from what is released about them.

Three audits, from the inside out. The exact one needs no chance: a sampler that adds nothing writes down the sums
and scales that the noise is for, and the L1 distance of the sums of two neighbouring tables over the scale is the
largest privacy loss that Laplace noise can have. The second holds the released numbers against the law that they
must have, discrete Laplace around the exact sums. The third looks from the outside for an event of the p-value or
the statistic that is likelier on one table than epsilon allows.

An audit that cannot fail shows nothing: each of them has to find the faults that the last tests plant.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dfprivacy as dp
from dfprivacy._measure.evaluate import Table
from dfprivacy._privacy import calibrate
from dfprivacy._privacy import samplers as noise
from dfprivacy._privacy.losses import Laplace
from dfprivacy.errors import ArgumentError
from dfprivacy.features import Moments, OneHot
from dfprivacy.inference.engine import infer
from dfprivacy.inference.moments import NoisyMoments
from dfprivacy.laws import NoiseLaw
from dfprivacy.testing import seeded_noise
from dfprivacy_ttest.parameters import mean_parameter

NAMES = (f"privacy-{number}" for number in itertools.count())


# Tables. A standardized value y stands for x = MID + HALF * y; only the columns of PUBLIC can be public.

LOW, HIGH = -3.0, 1.5
MID, HALF = (LOW + HIGH) / 2, (HIGH - LOW) / 2
CATEGORIES = {
    "group": ["a", "b", "c"],
    "home": ["p", "q"],
    "arm": ["u", "v"],
    "site": ["s", "t"],
    "era": ["old", "new"],
}
PUBLIC = ("arm", "site", "era")


def row(y=0.0, group="a", home="p", w=0.8, public=("u", "s", "new")):
    return {"x": MID + HALF * y, "group": group, "home": home, "w": w, **dict(zip(PUBLIC, public, strict=True))}


# Three rows in every cell of the public columns, so that each public group can be tested.
CROWD = [
    row(y, group, home, w, public)
    for public in itertools.product(*(CATEGORIES[name] for name in PUBLIC))
    for y, group, home, w in [(0.3, "a", "p", 0.9), (-0.8, "b", "q", 0.1), (0.1, "b", "p", 0.7)]
]


def one_more():
    """Rows that another may take the place of: corners, gradients, missing values, extremes, moves, random ones."""
    rng = np.random.default_rng(20_240_501)
    near = [2.0**-power for power in (1, 8, 20, 32)]
    ys = [-1, -2 / 3, -1 / 3, 0, 1 / 3, 2 / 3, 1, *(1 - e for e in near), *(e - 1 for e in near)]
    ys += [-1 / 3 + e for e in near]
    rows = [row(y) for y in ys]
    rows += [row(y, group) for y in (-1, 1) for group in ("b", "c", None, "unheard of")]
    rows += [row(y, home=home) for y in (-1, 1) for home in ("q", None)]
    rows += [row(y, w=w) for y in (-1, 1) for w in (0.2, 0.5, math.nan, -math.inf, 7.0)]
    rows += [{**row(), "x": x} for x in (math.nan, math.inf, -math.inf, 1e300, -1e300, 5e-324)]
    rows += [row(y, public=public) for y in (-1, 1) for public in (("v", "s", "new"), ("u", "t", "old"))]
    rows += [
        row(y, rng.choice(["a", "b", "c"]), rng.choice(["p", "q"]), w)
        for y, w in rng.uniform((-1, 0), (1, 1), size=(6, 2))
    ]
    return rows


@dataclass(frozen=True)
class Case:
    """How a t-test is asked for."""

    neighbors: str = "replace_one"
    by: str | None = None
    where: str | None = None
    group_by: str | tuple[str, ...] = ()

    def view(self, rows, name, epsilon=10**6):
        view = dp.protect(
            pd.DataFrame(rows),
            name,
            epsilon=epsilon,
            bounds={"x": (LOW, HIGH), "w": (0, 1)},
            categories=CATEGORIES,
            public=PUBLIC if self.neighbors == "replace_one" else (),
            neighbors=self.neighbors,
            ledger="memory:",
        )
        if self.where == "w":
            view = view.where(w=(0.5, 1))
        elif self.where == "function":
            view = view.where(lambda row: row["w"] >= 0.5 and 1 / row["x"] < 2)  # fails for x = 0
        elif self.where:
            view = view.where({self.where: "new"})
        keys = (self.group_by,) if isinstance(self.group_by, str) else self.group_by
        return view.group_by(*keys) if keys else view

    @property
    def named(self):
        """The columns that the question names; only these are read, but by a function."""
        if self.where == "function":
            return tuple(CROWD[0])
        keys = (self.group_by,) if isinstance(self.group_by, str) else self.group_by
        return tuple(name for name in ("x", self.by, self.where, *keys) if name)

    def ask(self, rows, name, epsilon="1/3"):
        # "naive" makes the least of what is measured, so it is the fastest; the measurement is the same.
        about = {"popmean": 0} if self.by is None else {"by": self.by, "groups": CATEGORIES[self.by][:2]}
        return self.view(rows, name).ttest("x", **about, method="naive", epsilon=epsilon, fresh=True)


@dp.mechanism(columns={"column": "numeric", "by": "category"})
def audited_sums(curator, column, by):
    """Give the sums of two groups, and no rows beyond the bounds."""
    measured = curator.sum(OneHot(by, groups=by.categories[:2]) * Moments(column, count=True))
    return {"scales": measured.scales.tolist()}


@dp.mechanism(columns={"column": "numeric"})
def released_sums(curator, column):
    """Give the sums."""
    return curator.sum(Moments(column)).values.tolist()  # noqa: PD011 - a noisy sum


@dataclass(frozen=True)
class Plain(Case):
    """How these sums are asked for."""

    def ask(self, rows, name, epsilon="1/3"):
        return self.view(rows, name).audited_sums("x", "group", epsilon=epsilon, fresh=True)


@pytest.fixture(scope="module", autouse=True)
def registered():
    """The sums are a method of every view."""
    for each in (audited_sums, released_sums):
        dp.register_mechanism(each)
    yield
    for each in (audited_sums, released_sums):
        dp.unregister(each.name)


# By each pair of a way to group, to select and to compare; all three at once where all are private.
BY, WHERE, GROUP_BY = (None, "group", "arm"), (None, "w", "era"), ((), "home", "site")
CASES = [
    Case("replace_one", by, WHERE[j], GROUP_BY[(i + j) % 3]) for i, by in enumerate(BY) for j in range(len(WHERE))
]
CASES += [Case("replace_one", "group", "w", "home")]
CASES += [
    Case("add_remove", *how) for how in ((None, None, "home"), (None, "w"), ("group",), ("group", "w", "home"))
]
CASES += [Case(neighbors, where="function") for neighbors in ("replace_one", "add_remove")]
CASES += [Case(group_by=("site", "arm")), Case("add_remove", group_by=("group", "home")), Plain(by="group")]


# The exact audit.


class Recorder:
    """Adds nothing, and writes down the sums and the scale it was given."""

    name = "NOT PRIVATE: a recorder of exact sums"
    private = False

    def __init__(self):
        self.seen = []

    def laplace(self, values, scale):
        noise.check_noise_arguments(values, scale)
        self.seen.append((values.astype(object).ravel(), Fraction(scale)))
        return values


@dataclass(frozen=True)
class Seen:
    """What the noise of one call was for, and all that was released without noise."""

    sums: list
    scales: list
    public: object

    @classmethod
    def of(cls, case, rows, name):
        with noise.use_sampler(Recorder()) as recorder:
            release = case.ask(rows, name)
        parts = release.releases if isinstance(release, dp.Groups) else (release,)
        # Without noise, those that were counted and those that were missing are all rows, if these are public.
        sizes = [
            round(sum(part.sizes) + part.missing, 6) for part in parts if getattr(part, "missing", None) is not None
        ]
        sums, scales = zip(*recorder.seen, strict=True)
        return cls(sums, scales, (sizes, [noise.grid for noise in release.privacy.noise]))

    def loss(self, other):
        """The largest privacy loss between two tables: infinite if the noise or what is public tells them apart."""
        if self.scales != other.scales or self.public != other.public:
            return math.inf
        distances = (int(np.abs(mine - its).sum()) for mine, its in zip(self.sums, other.sums, strict=True))
        return sum(distance / scale for distance, scale in zip(distances, self.scales, strict=True))


def largest_loss(case, rows, enough=math.inf):
    """The largest loss between neighbouring tables: the crowd with one of the rows, or another, or none.

    Rows that agree in every column that the question names are the same to it, and one of them is asked about. The
    search ends at a loss above `enough`.
    """
    name = next(NAMES)
    without = Seen.of(case, CROWD, name) if case.neighbors == "add_remove" else None
    seen, by_public, largest = {}, {}, 0
    for one in rows:
        key = tuple(map(repr, map(one.get, case.named)))
        if key not in seen:
            seen[key] = Seen.of(case, [*CROWD, one], name)
        others = by_public.setdefault(tuple(one[column] for column in PUBLIC), {})
        neighbours = [without] if without else [seen[other] for other in others]
        largest = max([largest, *(seen[key].loss(other) for other in neighbours)])
        others[key] = None
        if largest > enough:
            break
    return largest


def charged(case):
    """What the account says it has paid for one such call."""
    name = next(NAMES)
    case.ask(CROWD, name)
    return Case(case.neighbors).view(CROWD, name).budget.spent


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_neighbouring_table_is_farther_than_the_charge(case):
    """The exact loss never exceeds the epsilon charged, and comes close; what is not named may change unseen."""
    paid = charged(case)
    other = dict(zip(("w", "group", "home", *PUBLIC), (math.nan, "c", None, "v", "t", "old"), strict=True))
    changed = [{**other, **{column: one[column] for column in case.named}} for one in CROWD]
    name = next(NAMES)

    loss = largest_loss(case, one_more())

    assert 0.9 * paid <= loss <= paid <= Fraction(1, 3)
    assert Seen.of(case, CROWD, name).loss(Seen.of(case, changed, name)) == 0


# The law of what is released.

CELLS = 300


def released_integers(calls):
    """Real releases of groups of the same two rows: the integers behind them, the exact sums, and the noise."""
    ys = [0.75, -0.3]
    table = pd.DataFrame({"y": ys * CELLS, "cell": np.repeat(np.arange(CELLS), 2)})
    known = {"bounds": {"y": (-1, 1)}, "categories": {"cell": range(CELLS)}, "public": ["cell"]}
    view = dp.protect(table, next(NAMES), epsilon=100, ledger="memory:", **known).group_by("cell")
    answers = [view.released_sums("y", epsilon=1, fresh=True) for _ in range(calls)]
    made = answers[0].privacy.noise[0]
    steps = np.array([release.value for answer in answers for release in answer.releases]) * 2.0**made.grid
    exact = [sum(round(y * 2**made.grid) for y in ys), sum(round(y * y / 2 * 2**made.grid) for y in ys)]
    return steps * [1, 0.5], exact, made


def strangeness(steps, exact, made):
    """P-value of chi-square against independent discrete Laplace noise of the scale that privacy asks for."""
    noise_steps = (steps - exact).astype(np.int64)
    scale = 2 * 2.0**made.grid / made.epsilon  # L1 sensitivity 2, in steps
    parts = 6
    # For so large a scale a quantile of the discrete law is one of the continuous law, rounded.
    inner = np.rint(stats.laplace(scale=scale).ppf(np.arange(1, parts) / parts))
    place = np.searchsorted(inner, noise_steps - 0.5)
    edges = np.concatenate([[0], discrete_laplace_cdf(inner, scale), [1]])
    low_bits = (noise_steps % 4).T
    counts = np.zeros((parts, parts, 4, 4))
    np.add.at(counts, (*place.T, *low_bits), 1)
    each = np.diff(edges)
    joint = stats.chisquare(counts.sum((2, 3)).ravel(), len(steps) * np.outer(each, each).ravel()).pvalue
    bits = stats.chisquare(counts.sum((0, 1)).ravel()).pvalue  # 16 is nothing beside the scale
    return min(joint, bits)


def discrete_laplace_cdf(x, scale):
    """P(X <= x) for whole x, where P(X = x) is proportional to exp(-abs(x) / scale)."""
    tail = np.exp(-np.where(x < 0, -x, x + 1) / scale) / (1 + np.exp(-1 / scale))
    return np.where(x < 0, tail, 1 - tail)


@pytest.mark.statistical
def test_what_is_released_follows_the_law():
    """The integers behind real releases are the exact sums plus independent discrete Laplace noise, bit by bit."""
    steps, exact, made = released_integers(calls=4)

    assert np.array_equal(steps, np.rint(steps))
    assert strangeness(steps, exact, made) > 1e-7


# The audit from outside.


@dataclass(frozen=True)
class Audit:
    """Two neighbouring tables that are as far apart as any, and how to test many noisy sums of them at once."""

    case: Case
    epsilon: float
    one: dict
    other: dict | None  # None: the row is not there
    runs: int = 50_000

    def outputs(self):
        """Statistics and p-values of many releases about each table: its sums, the noise, the plugin's conclusions.

        Both have the same draws of the noise: what is counted on each stands on its own, and neither bound of the
        loss asks that they be independent.
        """
        seen, released = [], []
        for row in (self.one, self.other):
            with noise.use_sampler(Recorder()) as recorder:
                about = CROWD[:24] if row is None else [*CROWD[:24], row]
                released.append(self.case.ask(about, next(NAMES), self.epsilon).privacy.noise[0])
            seen += recorder.seen
        (one, scale), (other, same) = seen
        assert (scale, released[0]) == (same, released[1])
        draws = noise.sampler().laplace(np.zeros((self.runs, one.size), dtype=np.int64), float(scale))
        for exact in (one, other):
            noisy = np.ldexp((draws + exact.astype(np.int64)).astype(float), -released[0].grid)
            yield self.conclude(noisy, released[0].scale)

    def conclude(self, noisy, scale):
        weights = np.array([1, 0.5, 1] if self.case.by is None else [1, 1, 0.5])
        size = len(CROWD[:24]) + 1 if self.case.by is None else None
        values = noisy.reshape(self.runs, -1, 5)[..., :3] / weights  # the last are of rows beyond
        rows = None if size is None else np.full((self.runs, 1), float(size))
        form = "private" if size is None else "beside"
        sums = NoisyMoments(values, [NoiseLaw(each) for each in scale / weights], rows, form)
        found = infer(sums, mean_parameter(values.shape[1]), 64)
        return {"statistic": found.estimate / found.standard_error, "pvalue": found.pvalue(0.0)}

    def epsilon_lower(self):
        """The privacy loss that the best event proves, wrong with a probability of one in a million at most."""
        mine, its = self.outputs()
        return max(separation(mine[output], its[output]) for output in mine)


def separation(mine, its, error=1e-6 / 2):
    """Choose an event on one half of two samples; give a lower bound of its privacy loss from the other half."""
    half = len(mine) // 2
    cuts = np.quantile(np.concatenate([mine[:half], its[:half]]), np.linspace(0.001, 0.999, 999))

    def counts(sample):  # of the events "at most" and "above" for each cut
        below = np.searchsorted(np.sort(sample), cuts, side="right")
        return np.concatenate([below, len(sample) - below])

    def proved(a, b, error):
        """log(P(A)/P(B)) at least, by Clopper and Pearson."""
        least = stats.beta.ppf(error, a, half - a + 1)
        most = stats.beta.ppf(1 - error, b + 1, half - b)
        return np.log(least / most)

    a, b = counts(mine[:half]), counts(its[:half])
    forth, back = (np.nan_to_num(proved(*order, error), nan=-np.inf) for order in ((a, b), (b, a)))
    chosen = max(forth.argmax(), back.argmax(), key=lambda event: max(forth[event], back[event]))
    order = (mine, its) if forth[chosen] >= back[chosen] else (its, mine)
    return proved(*(counts(sample[half:])[chosen] for sample in order), error / 2)


AUDITS = {
    "values": Audit(Case(), 1.0, row(1), row(-1)),
    "presence": Audit(Case("add_remove", by="group"), 1.0, row(1), None),
}


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("what", "least"), [pytest.param("values", 0.7, marks=pytest.mark.opendp), ("presence", 0.4)]
)
def test_no_event_betrays_a_row(what, least):
    """No event of statistic or p-value is likelier for another value, or without a row, than allowed."""
    found = AUDITS[what].epsilon_lower()

    assert least < found <= AUDITS[what].epsilon


# The faults that the audits have to find.


def half_the_noise(patch):
    right = calibrate.laplace_scale
    patch.setattr(calibrate, "laplace_scale", lambda *request: right(*request) / 2)
    patch.setattr(Laplace, "__post_init__", lambda _: None)


def smaller_diameter(patch):
    patch.setattr(Moments, "diameter", lambda *_: 2.0)


def smaller_radius(patch):
    patch.setattr(Moments, "radius", lambda *_: 1.0)


def groups_never_change(patch):
    patch.setattr(OneHot, "diameter", lambda self, *request: self.of.diameter(*request) if self.of else 1.0)


def selections_are_public(patch):
    patch.setattr(Table, "private_selection", False)


def a_change_touches_one_group(patch):
    right = Table.sensitivity
    patch.setattr(Table, "sensitivity", lambda self, *about: right(self._with(by=()), *about))


def rounding_is_free(patch):
    patch.setattr(Moments, "support", 0)


def scale_from_the_data(patch):
    right = Table.exact_sums

    def total(self, features, k):
        found = right(self, features, k)
        more = abs(int(found[0])) * 2.0**-k
        patch.setattr(calibrate, "laplace_scale", lambda steps, epsilon: 2 * steps / epsilon + more)
        return found

    patch.setattr(Table, "exact_sums", total)


EXACT_FAULTS = [
    (half_the_noise, Case()),
    (half_the_noise, Case("add_remove", by="group", group_by="home")),
    (smaller_diameter, Case(where="w")),
    (smaller_radius, Case("add_remove")),
    (groups_never_change, Case(by="group")),
    (selections_are_public, Case(where="w")),
    (a_change_touches_one_group, Case(group_by="home")),
    (a_change_touches_one_group, Case(group_by=("site", "home"))),
    (rounding_is_free, Plain(by="group")),
    (scale_from_the_data, Case()),
]


@pytest.mark.parametrize(("fault", "case"), EXACT_FAULTS, ids=lambda one: getattr(one, "__name__", str(one)))
def test_the_exact_audit_finds_the_fault(fault, case, monkeypatch):
    """With the fault planted, two neighbouring tables are farther apart than what is charged."""
    # Where the loss is largest it is flat, and only what rounding adds is left.
    close = np.arange(40) / 40 * 2.0**-20
    rows = [*one_more(), *(row(1 - distance, group) for distance in close for group in ("a", "b"))]
    fault(monkeypatch)
    paid = charged(case)

    assert largest_loss(case, rows, enough=paid) > paid


def same_draw_for_all(patch):
    right = noise.OpenDPSampler.laplace
    one = np.zeros(1, dtype=np.int64)
    patch.setattr(noise.OpenDPSampler, "laplace", lambda self, values, scale: values + right(self, one, scale))


def coarse_noise(patch):
    right = noise.OpenDPSampler.laplace

    def laplace(self, values, scale):
        return values + right(self, np.zeros_like(values), scale) // 4 * 4

    patch.setattr(noise.OpenDPSampler, "laplace", laplace)


@pytest.mark.opendp
@pytest.mark.parametrize("fault", [half_the_noise, same_draw_for_all, coarse_noise])
def test_the_law_does_not_survive_the_fault(fault, monkeypatch):
    """Noise of half the scale, the same for all sums, or in multiples of four steps, is not the law's."""
    fault(monkeypatch)

    assert strangeness(*released_integers(calls=2)) < 1e-7


def test_the_audit_from_outside_finds_half_the_noise(monkeypatch):
    """With half the noise an event proves that more was lost than epsilon, with a part of the runs already."""
    audit = replace(AUDITS["values"], runs=20_000)
    half_the_noise(monkeypatch)

    with seeded_noise(20_240_503):
        assert audit.epsilon_lower() > audit.epsilon


def test_too_little_noise_is_refused(monkeypatch):
    """A scale that does not carry its claim is refused before anything is charged."""
    right = calibrate.laplace_scale
    monkeypatch.setattr(calibrate, "laplace_scale", lambda *request: right(*request) * (1 - 1e-9))
    view = Case().view(CROWD, next(NAMES))

    with pytest.raises(ArgumentError, match="is not 1-differentially private"):
        view.ttest("x", epsilon=1)

    assert view.budget.spent == 0
