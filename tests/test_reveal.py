"""Noisy sums of which a part is shown, step by step: what it costs, what is kept, and what is never seen."""

# ruff: noqa: PD011 - measurements have values, too
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._privacy.samplers import OpenDPSampler
from dfprivacy.errors import PluginError
from dfprivacy.features import Bins
from dfprivacy.testing import seeded_noise
from dfprivacy_eda.tree import AdaptiveReveal

from .test_measurements import registered, view

EDGES = tuple(np.linspace(-3, 3, 13))


@dataclass(frozen=True)
class Beside:
    """Show every third number, and the neighbours of those that are above a threshold."""

    above: float

    def next(self, values, scales):
        """Look at what is known."""
        assert scales.shape == values.shape[1:]
        shown = np.zeros(values.shape, dtype=bool)
        shown[:, ::3] = True
        large = np.nan_to_num(values, nan=-np.inf) > self.above
        large[:, 1:] |= large[:, :-1].copy()
        return shown | (large & ~np.isnan(values[:, :1]))

    def describe(self):
        """Name it."""
        return f"shown beside what is above {self.above:g}"


def in_part(curator, column, above=20.0):
    """Counts of intervals, some of which are shown."""
    return curator.sum(Bins(column, EDGES), reveal=Beside(above)).values


def in_full(curator, column):
    """Counts of all of them."""
    return curator.sum(Bins(column, EDGES)).values


def test_a_part_is_of_all_noisy_sums_and_costs_what_they_cost():
    """What is shown is what would be shown of all, at their price; the others are nan."""
    with registered(in_full), seeded_noise(1):
        whole = view().mine("x", epsilon=1)
    with registered(in_part), seeded_noise(1):
        part = view().mine("x", epsilon=1)

    shown = ~np.isnan(part.value)
    assert 4 < shown.sum() < 12
    assert np.array_equal(whole.value[shown], part.value[shown])
    (all_noise,), (noise,) = whole.privacy.noise, part.privacy.noise
    assert (all_noise.scale, all_noise.epsilon) == (noise.scale, noise.epsilon)
    assert f"{all_noise.what}, shown beside what is above 20" == noise.what


def ranked(curator, column, q=0.5):
    """Counts of a tree, shown where a quantile may lie; all of them without one."""
    tree = Bins(column, EDGES, widths=(3, 1), weights=(1, 1))
    return curator.sum(tree, reveal=AdaptiveReveal(((4, 12),), (False,), ((q,),)) if q else None).values


def test_a_part_is_kept_as_that_part_alone():
    """The same rule is answered from the ledger, bit by bit; another rule, and all of them, are measured anew."""
    asked = view()
    with registered(ranked):
        first = asked.mine("x", epsilon=10)
        again = asked.mine("x", epsilon=5)
        others = [asked.mine("x", q=q, epsilon=10) for q in (0.9, 0)]

    assert np.isnan(first.value).any()
    assert np.array_equal(first.value, again.value, equal_nan=True)
    assert [each.privacy.epsilon for each in (first, again, *others)] == [10, 0, 10, 10]
    assert not np.isnan(others[-1].value).any()


def test_a_rule_that_cannot_be_written_down_is_never_taken():
    """A class that is not installed has no name by which the ledger would know it."""
    asked = view()
    with registered(in_part):
        prices = [asked.mine("x", epsilon=epsilon).privacy.epsilon for epsilon in (1, 0.5)]

    assert prices == [1, 0.5]


def test_parts_of_all_groups_are_drawn_step_by_step_at_once():
    """Each step is one draw for all groups, of those numbers that are shown and of no others."""
    sizes, draw = [], OpenDPSampler.laplace

    def counting(sampler, values, scale):
        sizes.append(values.size)
        return draw(sampler, values, scale)

    with registered(in_part), pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpenDPSampler, "laplace", counting)
        found = view().group_by("g").mine("x", epsilon=1)

    shown = sum(int((~np.isnan(each.value)).sum()) for each in found.releases)
    assert sizes[0] == 3 * 4
    assert sum(sizes) == shown < 36


@pytest.mark.parametrize("how", [{"noise": "cube"}, {"noise": "gaussian"}], ids=str)
def test_only_sums_with_laplace_noise_are_shown_in_part(how):
    """Noise of one draw for all coordinates is refused before anything is paid."""
    asked = view()

    def wrong(curator, column):
        return curator.sum(Bins(column, EDGES), reveal=Beside(1.0), **how).values

    with registered(wrong), pytest.raises(PluginError, match="Laplace noise are shown in part"):
        asked.mine("x", epsilon=1)

    assert asked.budget.spent == 0


@dataclass(frozen=True)
class Wrong(Beside):
    """A rule that answers in places, not in booleans."""

    def next(self, values, scales):
        """Forget the shape."""
        return np.arange(3)


def test_a_rule_says_of_each_number_whether_it_is_shown():
    """An answer of another shape or kind is an error of the plugin's author."""

    def wrong(curator, column):
        return curator.sum(Bins(column, EDGES), reveal=Wrong(1.0)).values

    with registered(wrong), pytest.raises(PluginError, match="whether it is shown"):
        view().mine("x", epsilon=1)


def test_what_is_public_is_shown():
    """Sums over public columns are exact and free, all of them."""
    with registered(in_part):
        found = view(public=["x"]).mine("x", epsilon=1)

    assert found.value.sum() == 400
    assert found.privacy.epsilon == 0


def test_describe_draws_what_the_quartiles_need():
    """By group, most of the nodes of the trees get no noise; every group has its quartiles all the same."""
    rng, sizes, draw = np.random.default_rng(1), [], OpenDPSampler.laplace
    rows = {"x": rng.gamma(2, 10, 40_000), "g": rng.integers(0, 4, 40_000)}
    asked = dp.protect(
        pd.DataFrame(rows), "quartiles of groups", epsilon=10, bounds={"x": (0, 100)},
        categories={"g": range(4)}, ledger="memory:",
    )  # fmt: skip

    def counting(sampler, values, scale):
        sizes.append(values.size)
        return draw(sampler, values, scale)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpenDPSampler, "laplace", counting)
        found = asked.group_by("g").describe(["x"], epsilon=5)

    truth = pd.DataFrame(rows).groupby("g")["x"].quantile([0.25, 0.5, 0.75])
    near = [found[key].loc[f"{round(100 * q)}%", "x"] for key, q in truth.index]
    assert truth.to_list() == pytest.approx(near, abs=0.5)
    assert sum(size for size in sizes if size > 4) < 4 * (16 + 256 + 1024) / 4
