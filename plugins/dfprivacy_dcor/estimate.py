"""What a party learns for itself from another's message: an unbiased estimate, and an exact permutation test."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from dfprivacy import ArgumentError, Exact
from dfprivacy_dcor.points import blocks
from dfprivacy_dcor.spaces import PAIRWISE_MAX

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Estimate", "conclude", "of_features", "read_numbers"]

ALONE = (
    "not private: a function of one's own rows without noise, for their owner alone; the other "
    "party's rows stay protected, as all of it follows from their message"
)

_AT_ONCE = 32  # permutations


@dataclass(frozen=True, kw_only=True, repr=False)
class Estimate(Exact):
    """Not private: dependence of one's own rows, taken without noise, on another party's, for their owner alone.

    It is no release. The other party's rows stay protected, as all of it follows from their message.

    Attributes
    ----------
    squared : float
        Squared distance correlation R², from 0 to 1; low on average by what the message's harmonics leave out.
    covariance : float
        Squared distance covariance without bias, perhaps below 0; the other party's columns scaled to a width of 1.
    pvalue : float
        Exact p-value of independence, by permutation.
    alpha : float
        Level of the test.
    rejected : bool
        Whether independence is rejected: whether the p-value is at most `alpha`.
    notes : tuple of str
        What to know before showing and trusting it.
    """

    squared: float
    covariance: float
    pvalue: float
    alpha: float
    rejected: bool
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        """Say first whom it is for."""
        numbers = [f"{name}  {getattr(self, name):.6g}" for name in ("squared", "covariance", "pvalue")]
        decision = f"rejected  {self.rejected} at {self.alpha:g}"
        return "\n  ".join([f"{type(self).__name__}, {self.notes[0]}", *numbers, decision, *self.notes[1:]])


class _Numbers:
    """Some numbers and the distances between them, in increasing order."""

    def __init__(self, y: NDArray[np.float64]) -> None:
        self.gaps = np.diff(np.sort(y))
        m, ordered = len(y), np.sort(y)
        below = np.cumsum(ordered) - ordered
        self.sums = (2 * np.arange(m) - m) * ordered + ordered.sum() - 2 * below
        centred = ordered - ordered.mean()
        self.squares = 2 * m * float(centred @ centred)

    def form(self, f: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum of f_i f_j |y_i - y_j| over all pairs, for each of k features f of shape (m, 2, k)."""
        upto = np.cumsum(f, axis=0)
        products = (upto[:-1] * (upto[-1] - upto[:-1])).sum(axis=1)
        sums: NDArray[np.float64] = 2 * (self.gaps @ products)
        return sums


class _Points:
    """Some points and the distances between them, a block of rows at a time."""

    def __init__(self, y: NDArray[np.float64]) -> None:
        self.y = y
        rows = [scipy.spatial.distance.cdist(y[block], y) for block in blocks(len(y))]
        self.sums = np.concatenate([part.sum(axis=1) for part in rows])
        self.squares = float(sum((part * part).sum() for part in rows))

    def form(self, f: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum of f_i f_j |y_i - y_j| over all pairs, for each of k features f of shape (m, 2, k)."""
        flat = f.reshape(len(f), -1)
        total = np.zeros(flat.shape[1])
        for block in blocks(len(f)):
            total += (flat[block] * (scipy.spatial.distance.cdist(self.y[block], self.y) @ flat)).sum(axis=0)
        sums: NDArray[np.float64] = total.reshape(f.shape[1:]).sum(axis=0)
        return sums


def conclude(
    totals: NDArray[np.float64],
    y: NDArray[np.float64],
    *,
    spread: float,
    complete: float,
    informative: bool,
    alpha: float,
    notes: tuple[str, ...],
) -> Estimate:
    """Conclude from squared distance covariances with a message.

    Parameters
    ----------
    totals : ndarray of shape (permutations + 1,)
        That of the rows, and those of permutations of them.
    y : ndarray of shape (n,) or (n, q)
        One's own numbers.
    spread : float
        The other party's distance deviation, times its share of complete rows.
    complete : float
        That share.
    informative : bool
        Whether the deviation is told from 0.
    alpha : float
        Level of the test.
    notes : tuple of str
        What to know of the message.

    Returns
    -------
    Estimate
        What they say.
    """
    constant = bool((y == y[0]).all())  # then sums differ from 0 by rounding alone
    deviation = 0.0 if constant else complete * spread * math.sqrt(max(_variance(_distances(y), len(y)), 0.0))
    all_notes = [ALONE, *notes]
    if not informative:
        all_notes.append("uninformative: the noise hides how much the other party's columns vary")
    if deviation <= 0:
        all_notes.append("uninformative: these numbers are constant")
    pvalue = 1.0 if constant else float(np.mean(totals >= totals[0]))
    return Estimate(
        squared=min(max(float(totals[0]) / deviation, 0.0), 1.0) if deviation > 0 else 0.0,
        covariance=0.0 if constant else float(totals[0]) / complete**2,
        pvalue=pvalue,
        alpha=alpha,
        rejected=pvalue <= alpha,
        notes=tuple(all_notes),
    )


def read_numbers(y: Any) -> NDArray[np.float64]:
    """Read one's own numbers, all of them there."""
    try:
        numbers = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.zeros(())
    if numbers.ndim == 2 and numbers.shape[1] == 1:  # noqa: PLR2004
        numbers = numbers[:, 0]
    if numbers.ndim not in (1, 2) or not numbers.size:
        raise ArgumentError("y must be an array of numbers, one row or number for each row of the message.")
    if not np.isfinite(numbers).all():
        raise ArgumentError("A number is missing or infinite.", "Fill missing values in first.")
    if numbers.ndim == 2 and len(numbers) > PAIRWISE_MAX:  # noqa: PLR2004
        raise ArgumentError(f"All pairs of {len(numbers)} rows take too long.", f"At most {PAIRWISE_MAX} rows.")
    return numbers


def _distances(y: NDArray[np.float64]) -> _Numbers | _Points:
    return _Numbers(y) if y.ndim == 1 else _Points(y)


def _together(m: int, first: Any, second: Any, third: Any) -> Any:
    """Squared distance covariance without bias from the sums over pairs, of row sums, and of totals."""
    return first / (m * (m - 3)) - 2 * second / (m * (m - 2) * (m - 3)) + third / (m * (m - 1) * (m - 2) * (m - 3))


def _variance(y: _Numbers | _Points, m: int) -> float:
    total = float(y.sums.sum())
    return float(_together(m, y.squares, float(y.sums @ y.sums), total * total))


def of_features(
    f: NDArray[np.float64], y: NDArray[np.float64], permutations: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Squared distance covariance of the rows, and of their permutations; -f_i f_j is the distance of i and j."""
    m = len(f)
    if y.ndim == 1:
        f = f[np.argsort(y, kind="stable")]
    their = _distances(y)
    rows = (f * f).sum(axis=1) - f @ f.sum(axis=0)
    third = float(rows.sum() * their.sums.sum())
    totals = []
    for start in range(0, permutations + 1, _AT_ONCE):
        count = min(_AT_ONCE, permutations + 1 - start)
        places = np.stack([rng.permutation(m) for _ in range(count)], axis=1)
        if start == 0:
            places[:, 0] = np.arange(m)
        first = -their.form(np.moveaxis(f[places], 2, 1))
        totals.append(_together(m, first, their.sums @ rows[places], third))
    return np.concatenate(totals)
