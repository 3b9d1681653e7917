"""Levenberg-Marquardt searches, many at once, of which the hopeless are given up.

References
----------
.. [1] K. Madsen, H. B. Nielsen, O. Tingleff. Methods for non-linear least squares problems. DTU, 2004.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["AGREE", "levenberg_marquardt"]

AGREE = 0.3  # difference of f below which two optima are taken for the same


def levenberg_marquardt(
    objective: Callable[..., NDArray[np.float64]],
    model: Callable[..., tuple[NDArray[np.float64], NDArray[np.float64]]],
    p: NDArray[np.float64],
    centre: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    steps: int,
    tolerance: float,
    rank: int,
    target: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Minimise R sums of squares within bounds, each with its own damping, until none improves by the tolerance.

    A search is hopeless, and ends, if its last gain in all steps that are left would not bring it near the target,
    or near the search of this rank among the R.
    """
    p = np.clip(p, low, high)
    f = objective(p, centre)
    gradient, H = model(p, centre)
    damping, growth = np.full(len(p), 1e-2), np.full(len(p), 2.0)
    going = np.ones(len(p), dtype=bool)
    diagonal = np.arange(p.shape[1])
    for left in range(steps, 0, -1):
        on = np.flatnonzero(going)
        if not len(on):
            break
        g, h = gradient[on], H[on]
        held = ((p[on] <= low) & (g > 0)) | ((p[on] >= high) & (g < 0))
        g = np.where(held, 0.0, g)
        damped = np.where(held[:, :, None] | held[:, None, :], 0.0, h)
        damped[:, diagonal, diagonal] = h[:, diagonal, diagonal] * (1 + damping[on, None])
        trial = np.clip(p[on] - np.linalg.solve(damped, g[..., None])[..., 0], low, high)
        step = trial - p[on]
        promised = -(g * step).sum(axis=1) - 0.5 * np.einsum("ri,rij,rj->r", step, h, step)
        there = objective(trial, centre[on])
        gained = f[on] - there
        better = gained > 0
        won = on[better]
        hoped = np.maximum(promised[better], 1e-300)
        ratio = np.minimum(gained[better], hoped) / hoped
        damping[won] *= np.maximum(1 / 3, 1 - (2 * ratio - 1) ** 3)
        growth[won] = 2.0
        lost = on[~better]
        damping[lost] *= growth[lost]
        growth[lost] *= 2
        p[won], f[won] = trial[better], there[better]
        near = AGREE + min(target, float(np.sort(f)[:rank][-1]))
        hopeful = gained > np.maximum(tolerance * f[on], (f[on] - near) / left)
        going[on] = np.where(better, hopeful, damping[on] < 1e8)  # noqa: PLR2004
        again = won[going[won]]
        if len(again):
            gradient[again], H[again] = model(p[again], centre[again])
    return f, p
