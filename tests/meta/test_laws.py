"""What the samplers of the house draw besides noise in numbers: messages of the local model, keys of a domain."""

from __future__ import annotations

import itertools
import math
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from scipy import stats

from dfprivacy._privacy import draws as sparse
from dfprivacy._privacy import samplers as noise
from dfprivacy._privacy.calibrate import sparse_threshold
from dfprivacy.local import Arc
from dfprivacy_audit.sampler import _N_CELLS, _pvalue, _smallest_pvalue

KEYS = 8.0, 1000  # scale of the noise, keys of the domain


def messages_fit(sampler, arc, draws=20_000):
    """Test a sampler against the exact probabilities of the messages of the local model."""
    label = arc.places // 3
    messages = sampler.arc(np.full((draws // 2, 2), label, dtype=np.int64), arc)
    offset = (messages - label + arc.reach) % arc.places  # on the arc below its length
    parts = [np.linspace(0, arc.length, _N_CELLS + 1), np.linspace(arc.length, arc.places, _N_CELLS + 1)[1:]]
    edges = np.unique(np.rint(np.concatenate(parts)).astype(np.int64))
    place = np.searchsorted(edges, offset, side="right") - 1
    weights = np.where(edges[:-1] < arc.length, float(arc.inside), float(arc.outside))
    each = np.diff(edges) * weights / arc.weight
    return _smallest_pvalue(
        _pvalue(np.bincount(place.ravel(), minlength=len(each)).astype(float), each), place, each
    )


def keys_fit(sampler, scale, size, draws=4_000):
    """Test a sampler against the exact probabilities of what it shows of a known domain."""
    held, threshold = size // 3, sparse_threshold(scale, size, 1.0)
    shown = [sampler.sparse({held: threshold}, size, scale, threshold) for _ in range(draws)]
    p = math.exp(-threshold / scale) / (1 + math.exp(-1 / scale))
    many = [len(each) - (held in each) for each in shown]
    added = [(place, noise) for each in shown for place, noise in each.items() if place != held]
    ends = [size * part // _N_CELLS for part in range(_N_CELLS + 1)]
    zeros = np.array([high - low - (low <= held < high) for low, high in itertools.pairwise(ends)], dtype=float)
    places = np.searchsorted(ends, [place for place, _ in added], side="right") - 1
    steps = np.unique(np.rint(scale * np.log(_N_CELLS / np.arange(_N_CELLS, 0, -1))))  # about equal cells
    beyond = np.exp(-steps / scale)
    above = np.searchsorted(steps, [noise - threshold for _, noise in added], side="right") - 1
    own = [each.get(held, threshold - 1) - threshold for each in shown]
    upper = beyond / (1 + math.exp(-1 / scale))
    pvalues = [
        _pvalue(np.bincount(np.minimum(many, 9), minlength=10).astype(float), _number(size - 1, p)),
        _pvalue(np.bincount(places, minlength=_N_CELLS).astype(float), zeros) if size > 1 else 1.0,
        _pvalue(np.bincount(above, minlength=len(steps)).astype(float), -np.diff(np.append(beyond, 0))),
        _pvalue(
            np.bincount(np.searchsorted(steps, own, side="right"), minlength=len(steps) + 1).astype(float),
            -np.diff([1.0, *upper, 0.0]),
        ),
    ]
    return min(1.0, len(pvalues) * min(pvalues))


def _number(trials, p):
    """Probability of 0 to 8 successes, and of more."""
    law = stats.binom(trials, p)
    return np.append(law.pmf(np.arange(9)), law.sf(8))


@pytest.mark.parametrize(
    "arc", [Arc(2, 0, 3, 1), Arc(16, 3, 7, 3), Arc.within(Fraction(1), places=1 << 16, reach=13115)]
)
def test_messages_of_the_house_fit(arc):
    """Messages follow their law at every number of places; those of another arc do not."""

    class Other(noise.OpenDPSampler):
        def arc(self, labels, asked):
            return super().arc(labels, replace(asked, outside=asked.outside // 2 or 2))

    assert messages_fit(noise.OpenDPSampler(), arc) > 1e-8
    assert messages_fit(Other(), arc) < 1e-8


@contextmanager
def zeros_never_shown():
    """Of a known domain, only keys that some row holds are shown."""
    with mock.patch.object(noise, "zeros_that_reach", return_value={}):
        yield


@contextmanager
def too_few_zeros():
    """The number of keys that no row holds is drawn with a probability that is a quarter too small."""
    exact = sparse.draw_number_reaching
    with mock.patch.object(sparse, "draw_number_reaching", lambda trials, *about: exact(trials * 3 // 4, *about)):
        yield


@contextmanager
def zeros_among_the_first():
    """Keys that no row holds are drawn from the first half of the domain."""

    class First(noise.OpenDPSampler):
        name = "places in the first half"

        def below(self, n):
            return super().below(n if n == 2**32 else (n + 1) // 2)

    with noise.use_sampler(First()):
        yield


@contextmanager
def zeros_at_the_threshold():
    """Keys that no row holds are shown with a count that only just reaches the threshold."""

    def barely(occupied, size, scale, threshold, sampler):
        return dict.fromkeys(exact(occupied, size, scale, threshold, sampler), threshold)

    exact = noise.zeros_that_reach
    with mock.patch.object(noise, "zeros_that_reach", barely):
        yield


@contextmanager
def honest_half_of_the_time():
    """Every other message is the truth."""

    class Half(noise.OpenDPSampler):
        name = "every other message is the truth"

        def arc(self, labels, arc):
            drawn = super().arc(labels, arc)
            drawn[::2] = labels[::2]
            return drawn

    with noise.use_sampler(Half()):
        yield


@pytest.mark.parametrize(("scale", "size"), [KEYS, (2.0, 10**9)])
def test_keys_of_the_house_fit(scale, size):
    """Which keys of a known domain are shown, and how often, follows their law."""
    assert keys_fit(noise.OpenDPSampler(), scale, size) > 1e-8


@pytest.mark.parametrize("fault", [zeros_never_shown, too_few_zeros, zeros_among_the_first, zeros_at_the_threshold])
def test_wrong_keys_do_not_fit(fault):
    """Too few zeros, in the wrong places, or with the wrong counts, are found."""
    with fault():
        assert keys_fit(noise.sampler(), *KEYS) < 1e-8


def test_messages_that_are_the_truth_do_not_fit():
    """Every other message without noise is found."""
    with honest_half_of_the_time():
        assert messages_fit(noise.sampler(), Arc.within(Fraction(1), places=16, reach=3)) < 1e-8
