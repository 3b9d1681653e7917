"""Goodness of fit of a sampler to the discrete laws it promises.

Each noise is sorted into cells whose exact probabilities are known: parts of the law, and the lowest two bits.
Successive and neighbouring values are held against independence.

References
----------
.. [1] Canonne, Kamath and Steinke (2020). The discrete Gaussian for differential privacy. arXiv:2004.00010.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import stats

from dfprivacy._privacy.calibrate import sparse_threshold

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy._privacy.samplers import Sampler
    from dfprivacy.local import Arc

__all__ = ["goodness_of_fit", "keys_fit", "messages_fit"]

_PARTS = 8
_SMALL = 2.0**12  # up to this scale probabilities are summed one by one


def goodness_of_fit(
    sampler: Sampler, kind: Literal["laplace", "gaussian", "cube"], scale: float, draws: int = 20_000
) -> float:
    """Test a sampler against the exact probabilities of its discrete law.

    Parameters
    ----------
    sampler : Sampler
        What draws the noise.
    kind : {"laplace", "gaussian", "cube"}
        Which noise. That of the cube is drawn for one value at a time, where its law is that of Laplace noise.
    scale : float
        Its scale, in grid steps.
    draws : int
        How many values to draw.

    Returns
    -------
    float
        The smallest of three p-values, times three: of the law with its lowest bits, of neighbouring values, and of
        successive draws.

    Examples
    --------
    >>> from dfprivacy._privacy.samplers import OpenDPSampler
    >>> goodness_of_fit(OpenDPSampler(), "laplace", 2.5) > 1e-7
    True
    """
    # Far from zero, so that a sampler that looks at the value it is to hide is found.
    offset = 2**40 + 3
    values = np.full((draws // 2, 2), offset, dtype=np.int64)
    if kind == "cube":
        noise = np.array([sampler.cube(one, scale) for one in values.reshape(-1, 1)]).reshape(values.shape) - offset
        kind = "laplace"
    else:
        noise = getattr(sampler, kind)(values, scale) - offset
    edges = _edges(kind, scale)
    place = np.searchsorted(edges, noise - 0.5)
    each, bits = _probabilities(kind, scale, edges)
    cells = np.zeros((len(each), 4))
    np.add.at(cells, (place.ravel(), (noise % 4).ravel()), 1)
    return _smallest(_pvalue(cells, bits), place, each)


def messages_fit(sampler: Sampler, arc: Arc, draws: int = 20_000) -> float:
    """Test a sampler against the exact probabilities of the messages of the local model.

    Parameters
    ----------
    sampler : Sampler
        What draws the messages.
    arc : Arc
        Their law.
    draws : int
        How many to draw.

    Returns
    -------
    float
        As for `goodness_of_fit`.
    """
    label = arc.places // 3
    messages = sampler.arc(np.full((draws // 2, 2), label, dtype=np.int64), arc)
    offset = (messages - label + arc.reach) % arc.places  # on the arc below its length
    parts = [np.linspace(0, arc.length, _PARTS + 1), np.linspace(arc.length, arc.places, _PARTS + 1)[1:]]
    edges = np.unique(np.rint(np.concatenate(parts)).astype(np.int64))
    place = np.searchsorted(edges, offset, side="right") - 1
    weights = np.where(edges[:-1] < arc.length, float(arc.inside), float(arc.outside))
    each = np.diff(edges) * weights / arc.weight
    return _smallest(_pvalue(np.bincount(place.ravel(), minlength=len(each)).astype(float), each), place, each)


def keys_fit(sampler: Sampler, scale: float, size: int, draws: int = 4_000) -> float:
    """Test a sampler against the exact probabilities of what it shows of a known domain.

    Parameters
    ----------
    sampler : Sampler
        What draws.
    scale : float
        Scale of the noise.
    size : int
        Number of keys. One of them is held by as many rows as the threshold, which is such that one of the others
        is shown on average.
    draws : int
        How many answers to draw.

    Returns
    -------
    float
        The smallest of four p-values, times four: of the number of keys that no row holds, of where in the domain
        they are, of their noise, and of that of the key that rows hold.

    Examples
    --------
    >>> from dfprivacy._privacy.samplers import OpenDPSampler
    >>> keys_fit(OpenDPSampler(), 2.0, 10**9) > 1e-7
    True
    """
    held, threshold = size // 3, sparse_threshold(scale, size, 1.0)
    shown = [sampler.sparse({held: threshold}, size, scale, threshold) for _ in range(draws)]
    p = math.exp(-threshold / scale) / (1 + math.exp(-1 / scale))
    many = [len(each) - (held in each) for each in shown]
    added = [(place, noise) for each in shown for place, noise in each.items() if place != held]
    ends = [size * part // _PARTS for part in range(_PARTS + 1)]
    zeros = np.array([high - low - (low <= held < high) for low, high in itertools.pairwise(ends)], dtype=float)
    places = np.searchsorted(ends, [place for place, _ in added], side="right") - 1
    steps = np.unique(np.rint(scale * np.log(_PARTS / np.arange(_PARTS, 0, -1))))  # about equal parts, from 0 on
    beyond = np.exp(-steps / scale)
    above = np.searchsorted(steps, [noise - threshold for _, noise in added], side="right") - 1
    own = [each.get(held, threshold - 1) - threshold for each in shown]
    upper = beyond / (1 + math.exp(-1 / scale))
    pvalues = [
        _pvalue(np.bincount(np.minimum(many, 9), minlength=10).astype(float), _number(size - 1, p)),
        _pvalue(np.bincount(places, minlength=_PARTS).astype(float), zeros) if size > 1 else 1.0,
        _pvalue(np.bincount(above, minlength=len(steps)).astype(float), -np.diff(np.append(beyond, 0))),
        _pvalue(
            np.bincount(np.searchsorted(steps, own, side="right"), minlength=len(steps) + 1).astype(float),
            -np.diff([1.0, *upper, 0.0]),
        ),
    ]
    return min(1.0, len(pvalues) * min(pvalues))


def _number(trials: int, p: float) -> NDArray[np.float64]:
    """Probability of 0 to 8 successes, and of more."""
    law = stats.binom(trials, p)
    return np.append(law.pmf(np.arange(9)), law.sf(8))


def _smallest(law: float, place: NDArray[np.intp], each: NDArray[np.float64]) -> float:
    """Three times the smallest p-value: of the law, of neighbouring values, and of successive draws."""
    pairs, steps = np.zeros((len(each),) * 2), np.zeros((len(each),) * 2)
    np.add.at(pairs, (place[:, 0], place[:, 1]), 1)
    np.add.at(steps, (place[:-1, 0], place[1:, 0]), 1)
    joint = np.outer(each, each)
    return min(1.0, 3 * min(law, _pvalue(pairs, joint), _pvalue(steps, joint)))


def _edges(kind: str, scale: float) -> NDArray[np.float64]:
    """Whole numbers that part the law into about equal parts: a cell ends with its edge."""
    law = stats.laplace(scale=scale) if kind == "laplace" else stats.norm(scale=scale)
    return np.unique(np.rint(law.ppf(np.arange(1, _PARTS) / _PARTS)))


def _probabilities(
    kind: str, scale: float, edges: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Probability of each cell, and of each cell with each value of the lowest two bits."""
    if scale > _SMALL:  # neighbouring probabilities differ by less than any test can see
        inner = (
            stats.dlaplace.cdf(edges, 1 / scale) if kind == "laplace" else stats.norm.cdf(edges + 0.5, scale=scale)
        )
        each = np.diff(np.concatenate([[0.0], inner, [1.0]]))
        return each, np.repeat(each[:, None] / 4, 4, axis=1)
    reach = math.ceil(scale * (50 if kind == "laplace" else 12)) + 4
    x = np.arange(-reach, reach + 1)
    weights = np.exp(-np.abs(x) / scale if kind == "laplace" else -(x**2) / (2 * scale**2))
    table = np.zeros((len(edges) + 1, 4))
    np.add.at(table, (np.searchsorted(edges, x - 0.5), x % 4), weights / weights.sum())
    return table.sum(axis=1), table


def _pvalue(counts: NDArray[np.float64], probabilities: NDArray[np.float64]) -> float:
    """P-value of chi-square; cells with few expected counts are taken together."""
    expected = probabilities.ravel() / probabilities.sum() * counts.sum()
    seen, few = counts.ravel(), expected < 20  # noqa: PLR2004
    seen, expected = (np.append(part[~few], part[few].sum()) for part in (seen, expected))
    if expected[-1] < 1:  # a cell that hardly anything falls into proves nothing, unless much does
        if seen[-1] > 30:  # noqa: PLR2004
            return 0.0
        seen, expected = seen[:-1], expected[:-1] * seen[:-1].sum() / expected[:-1].sum()
    return float(stats.chisquare(seen, expected).pvalue)
