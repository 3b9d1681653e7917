"""Scores at an earlier estimate, which later stages of a regression measure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, final

import numpy as np

from dfprivacy import features

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy_regression.design import Design

    Numbers = NDArray[np.float64]

__all__ = ["LogisticScore", "Score", "coordinates", "pairs", "sigmoid"]

_STEPS = float(2**24)  # in 1: products of two whole numbers of steps, and sums of norm 1 of them, fit 53 bits


def coordinates(q: int, *, robust: bool) -> int:
    """Return the number of sums in a `Score` of q coefficients."""
    return 2 * q + 2 if robust else q + 2


def sigmoid(t: Numbers) -> Numbers:
    """Return 1 / (1 + exp(-t))."""
    probability: Numbers = 1 / (1 + np.exp(-np.clip(t, -30, 30)))
    return probability


class _Bounded(features.RowFeatures):
    """Features of which every coordinate is in [-1, 1]."""

    def radius(self, norm: float) -> float:
        """Largest norm of a vector: of one with every coordinate at an end of [-1, 1]."""
        d = self.dimension
        return 1.0 if norm == math.inf else float(d) if norm == 1 else math.nextafter(math.sqrt(d), math.inf)


@final
class Score(_Bounded):
    """Score of clipped residuals: x_j ψ/c, 2ψ²/c² - 1, 2w/top - 1, and for robust errors 2 u_j² ψ²/c² - 1.

    With e = y - xᵀb, ψ is e clipped to ±c, w = (|e| - c)₊ is the part beyond, at most top = 1 + |b|₁ - c, and
    u_j = a_jᵀx. Every coordinate is in [-1, 1].

    Parameters
    ----------
    design : Design
        The regression.
    b : ndarray of shape (q,)
        The first estimate.
    c : float
        Where residuals are clipped.
    tilt : ndarray of shape (q, q), optional
        The vectors a_j, each with an L1 norm of at most 1, so that u_j is in [-1, 1]. They, and x in u_j, are
        rounded to whole steps of 2^-24: then no sum is, and a product of matrices gives every row the same u_j
        among any others.
    """

    def __init__(self, design: Design, b: Numbers, c: float, tilt: Numbers | None = None) -> None:
        self.design = design
        self.columns = design.columns
        self.b, self.c = b, c
        self.top = max(1 + float(np.abs(b).sum()) - c, 1e-9)
        self.tilt = None if tilt is None else np.trunc(tilt * _STEPS)
        self.shape = (coordinates(design.width, robust=tilt is not None),)

    def rows(self, batch: features.Batch) -> Numbers:
        """Return the vectors of a batch. Sums over j are one by one, so that a row does not depend on others."""
        q, z = self.design.width, self.design.rows(batch)
        x, e = z[:-1], z[-1] - self.b[0]
        for b, xj in zip(self.b[1:], x, strict=True):
            e -= b * xj
        rows = np.empty((self.dimension, batch.size))
        np.clip(np.abs(e) - self.c, 0, self.top, out=rows[q + 1])
        rows[q + 1] /= self.top
        psi = np.clip(e, -self.c, self.c, out=e)
        psi /= self.c
        rows[0] = psi
        np.multiply(x, psi, out=rows[1:q])
        np.multiply(psi, psi, out=rows[q])
        if self.tilt is not None:
            x *= _STEPS
            u = np.matmul(self.tilt[:, 1:], np.rint(x, out=x), out=rows[q + 2 :])
            u += _STEPS * self.tilt[:, :1]
            u /= _STEPS**2
            u *= u
            u *= rows[q]
        rows[q:] *= 2
        rows[q:] -= 1
        return rows.T

    def expected(self, M: Numbers) -> Numbers:
        """Return the sums to be expected of rows with moments M of (1, x, y), of which no residual is beyond c."""
        v, n = np.append(self.b, -1.0), M[0, 0]
        squares = v @ M @ v / self.c**2
        sums = [*np.zeros(self.design.width), 2 * squares - n, -n]
        if self.tilt is not None:
            tilt = self.tilt / _STEPS
            sums += [2 * (u @ M[:-1, :-1] @ u) / n * squares - n for u in tilt]
        return np.array(sums)


@final
class LogisticScore(_Bounded):
    """Score x_j (y - σ(xᵀb)), or the information x_i x_j σ (1 - σ), each coordinate in [-1, 1].

    Each is divided by the largest value that it can have at b, as xᵀb is within |b_1| + … + |b_q-1| of b_0; t in
    [0, 1], which is never negative, enters as 2t - 1.

    Parameters
    ----------
    design : Design
        The regression.
    b : ndarray of shape (q,)
        The coefficients at which it is taken.
    information : bool
        Whether it is the information.

    Attributes
    ----------
    top : float
        What it is divided by. In a plan no slopes are known, and their sum is taken to be 1.
    """

    def __init__(self, design: Design, b: Numbers, *, information: bool) -> None:
        self.design = design
        self.columns = design.columns
        self.b = b
        self.pairs = pairs(design) if information else []
        self.shape = (len(self.pairs) or design.width,)
        reach = float(np.abs(b[1:]).sum()) or 1.0
        low, nearest, high = sigmoid(np.array([b[0] - reach, max(abs(b[0]) - reach, 0.0), b[0] + reach]))
        self.top = float(nearest * (1 - nearest) if information else max(high, 1 - low))

    def rows(self, batch: features.Batch) -> Numbers:
        """Return the vectors of a batch. Sums over j are one by one, so that a row does not depend on others."""
        z = self.design.rows(batch)
        x = np.vstack([np.ones(batch.size), z[:-1]])
        t = np.full(batch.size, self.b[0])
        for b, xj in zip(self.b[1:], x[1:], strict=True):
            t += b * xj
        share = sigmoid(t)
        rows = np.empty((self.dimension, batch.size))
        if not self.pairs:
            np.multiply(x, (z[-1] - share) / self.top, out=rows)
        weight = share * (1 - share) / self.top
        for at, (i, j, signed) in enumerate(self.pairs):
            product = x[i] * x[j] * weight
            rows[at] = product if signed else 2 * product - 1
        return np.clip(rows, -1, 1, out=rows).T  # a rounding may be beyond


def pairs(design: Design) -> list[tuple[int, int, bool]]:
    """Entries (i, j) of the information that are not known from others, and whether they may be negative."""
    q, dummies = design.width, {0, *design.dummies}
    return [
        (i, j, i != j and not {i, j} <= dummies)
        for i in range(q)
        for j in range(i, q)
        if not (i == j > len(design.numbers)) and not (i != j and design.alike(i, j))
    ]
