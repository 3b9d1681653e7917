"""The promise itself: how far apart neighbouring tables can be told from what is released about them.

The exact audit of the conformance kit asks a t-test by group, in parts and in groups: what it measures on two
neighbouring tables, over the scale of its noise, is the largest privacy loss that Laplace noise can have. The
released numbers are held against the law that they must have, discrete Laplace around the exact sums.

An audit that cannot fail shows nothing: each of them has to find the faults that are planted here.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dfprivacy as dp
from dfprivacy._measure.evaluate import Table
from dfprivacy._plugins.loader import registry
from dfprivacy._privacy import calibrate
from dfprivacy._privacy import samplers as noise
from dfprivacy._privacy.losses import Laplace
from dfprivacy.errors import ArgumentError
from dfprivacy.features import Moments, OneHot
from dfprivacy_audit import Case, Check
from dfprivacy_audit.discipline import Audit

NAMES = (f"privacy-{number}" for number in itertools.count())


@dp.mechanism(columns={"column": "numeric"})
def released_sums(curator, column):
    """Give the sums."""
    return curator.sum(Moments(column)).values.tolist()  # noqa: PD011 - a noisy sum


@pytest.fixture(scope="module", autouse=True)
def registered():
    """The sums are a method of every view."""
    dp.register_mechanism(released_sums)
    yield
    dp.unregister("released_sums")


# The exact audit.


def asked(by=None, where=None, group_by=None, neighbors="replace_one"):
    """Audit a t-test, which can be by a group, of a part, and in groups."""
    known = {"g": ["a", "b", "c"], "home": ["p", "q"], "arm": ["u", "v"], "era": ["old", "new"]}
    named = {by, *(where or ()), *(group_by or ())}
    case = Case(
        arguments={"column": "x", **({"by": by, "groups": known[by][:2]} if by else {"popmean": 0.0})},
        bounds={"x": (-3.0, 1.5)},
        categories={name: each for name, each in known.items() if name in named},
        public=[each for each in ("arm", "era") if each in named and neighbors == "replace_one"],
        where=where or {},
        group_by=group_by or [],
        neighbors=neighbors,
        epsilon="1/3",
    )
    return Audit(registry().mechanisms["ttest"], case, thorough=False)


WAYS = [
    {"by": "g", "where": {"era": "new"}},
    {"by": "arm", "where": {"home": "p"}},
    {"group_by": ["home"], "neighbors": "add_remove"},
]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_no_neighbouring_table_is_farther_than_the_charge(way):
    """The exact loss never exceeds the epsilon charged, and comes close."""
    loss = asked(**way).loss

    assert not loss.exceeds
    assert 0.9 < loss.tightness <= 1
    assert loss.charge <= 1 / 3


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


def scale_from_the_data(patch):
    right = Table.exact_sums

    def total(self, features, k):
        found = right(self, features, k)
        more = abs(int(found[0])) * 2.0**-k
        patch.setattr(calibrate, "laplace_scale", lambda steps, epsilon: 2 * steps / epsilon + more)
        return found

    patch.setattr(Table, "exact_sums", total)


EXACT_FAULTS = [
    (half_the_noise, {}),
    (half_the_noise, {"by": "g", "neighbors": "add_remove"}),
    (smaller_diameter, {"where": {"home": "p"}}),
    (smaller_radius, {"neighbors": "add_remove"}),
    (groups_never_change, {"by": "g"}),
    (selections_are_public, {"where": {"home": "p"}}),
    (a_change_touches_one_group, {"group_by": ["home"]}),
    (scale_from_the_data, {}),
]


@pytest.mark.parametrize(("fault", "way"), EXACT_FAULTS, ids=lambda one: getattr(one, "__name__", str(one)))
def test_the_exact_audit_finds_the_fault(fault, way, monkeypatch):
    """With the fault planted, neighbouring tables are farther apart than what is charged, or come out otherwise."""
    fault(monkeypatch)
    audit = asked(**way)
    checks = [Check(name, "", audit) for name in ("loss_within_charge", "concludes_from_noise_alone")]

    assert "failed" in {check.run().status for check in checks}


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


def test_too_little_noise_is_refused(monkeypatch):
    """A scale that does not carry its claim is refused before anything is charged."""
    right = calibrate.laplace_scale
    monkeypatch.setattr(calibrate, "laplace_scale", lambda *request: right(*request) * (1 - 1e-9))
    view = dp.protect(pd.DataFrame({"x": [0.5] * 9}), next(NAMES), epsilon=1, bounds={"x": (-1, 1)})

    with pytest.raises(ArgumentError, match="is not 1-differentially private"):
        view.ttest("x", epsilon=1)

    assert view.budget.spent == 0
