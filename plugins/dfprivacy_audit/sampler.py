"""Goodness-of-fit tests of a noise sampler for its discrete distributions.

Each noise is sorted into cells whose exact probabilities are known: parts of the law, and the lowest two bits.
Successive and neighbouring values are held against independence.

References
----------
.. [1] Canonne, Kamath and Steinke (2020). The discrete Gaussian for differential privacy. arXiv:2004.00010.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy._privacy.samplers import Sampler

__all__ = ["goodness_of_fit"]

_N_CELLS = 8
_SMALL = 2.0**12  # up to this scale probabilities are summed one by one


def goodness_of_fit(
    sampler: Sampler, kind: Literal["laplace", "gaussian", "cube"], scale: float, draws: int = 20_000
) -> float:
    """Test whether a sampler follows the exact probabilities of its discrete distribution.

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
    edges = _cell_edges(kind, scale)
    place = np.searchsorted(edges, noise - 0.5)
    each, bits = _probabilities(kind, scale, edges)
    cells = np.zeros((len(each), 4))
    np.add.at(cells, (place.ravel(), (noise % 4).ravel()), 1)
    return _bonferroni_pvalue(_pvalue(cells, bits), place, each)


def _bonferroni_pvalue(law: float, place: NDArray[np.intp], each: NDArray[np.float64]) -> float:
    """Return the Bonferroni p-value of tests of the distribution, of pairs in a draw, and of successive draws."""
    pairs, steps = np.zeros((len(each),) * 2), np.zeros((len(each),) * 2)
    np.add.at(pairs, (place[:, 0], place[:, 1]), 1)
    np.add.at(steps, (place[:-1, 0], place[1:, 0]), 1)
    joint = np.outer(each, each)
    return min(1.0, 3 * min(law, _pvalue(pairs, joint), _pvalue(steps, joint)))


def _cell_edges(kind: str, scale: float) -> NDArray[np.float64]:
    """Return the upper edges of cells with about equal probability under the discrete law."""
    law = stats.laplace(scale=scale) if kind == "laplace" else stats.norm(scale=scale)
    return np.unique(np.rint(law.ppf(np.arange(1, _N_CELLS) / _N_CELLS)))


def _probabilities(
    kind: str, scale: float, edges: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the probability of each cell, and of each value of the lowest two bits in each cell."""
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
    """Return the p-value of the chi-square test of fit; cells with few expected counts are merged."""
    expected = probabilities.ravel() / probabilities.sum() * counts.sum()
    seen, few = counts.ravel(), expected < 20  # noqa: PLR2004
    seen, expected = (np.append(part[~few], part[few].sum()) for part in (seen, expected))
    if expected[-1] < 1:  # a cell that hardly anything falls into proves nothing, unless much does
        if seen[-1] > 30:  # noqa: PLR2004
            return 0.0
        seen, expected = seen[:-1], expected[:-1] * seen[:-1].sum() / expected[:-1].sum()
    return float(stats.chisquare(seen, expected).pvalue)
