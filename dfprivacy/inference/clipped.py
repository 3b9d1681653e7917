"""Shares of values that lay beyond the bounds of their column and were clipped, and notes on these shares."""

from __future__ import annotations

import itertools
import math
from dataclasses import astuple, dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy.laws import NoiseLaw
from dfprivacy.wording import clearly_some, list_text, number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from dfprivacy.measured import NoisyValue
    from dfprivacy.schema import Column

    Array = NDArray[np.float64]

__all__ = ["SHARE", "WEIGHT", "Clipped", "Share", "Sides", "shares_beyond_bounds"]

WEIGHT = 1 / 16
"""The weight of a row beyond the bounds beside moments, whose noise grows by a sixteenth."""

SHARE = Fraction(1, 32)
"""The part of a call's budget for the rows beyond bounds, where they are a measurement of their own."""

Share = tuple[float, float, float]
"""A part of the rows, and the ends of its 95 % interval."""
Sides = tuple[Share, Share]
"""The rows below the bounds, and those above."""

_CONFIDENCE = 0.95
_NAMED = 3
_STEPS = 2.0  # of a power of ten, at least, in half the width of the bounds


@dataclass(frozen=True)
class Clipped:
    """Noisy counts of rows with values below and above the bounds of a column, by group.

    Parameters
    ----------
    values : ndarray of shape (k, 2)
        Rows below and above the bounds, in each of k groups.
    law : NoiseLaw
        Law of the noise in each value.
    bounds : tuple of float
        The bounds of the column.
    rows : tuple of k float
        Rows with a value in each group, public or noisy.
    """

    values: Array
    law: NoiseLaw
    bounds: tuple[float, float]
    rows: tuple[float, ...]

    @classmethod
    def from_sums(cls, noisy: NoisyValue, bounds: tuple[float, float], rows: ArrayLike) -> Clipped:
        """Construct from noisy sums of `dfprivacy.features.Beyond`, of all rows or of each group.

        Parameters
        ----------
        noisy : NoisyValue
            The noisy numbers.
        bounds : tuple of float
            The bounds of the column.
        rows : array_like
            Rows with a value in each group.

        Returns
        -------
        Clipped
            Of all groups.
        """
        each = tuple(np.maximum(np.ravel(rows), 1.0).tolist())
        return cls(np.reshape(noisy.values, (-1, 2)), replace(noisy.law, step=0.0), bounds, each)

    @property
    def released(self) -> dict[str, Any]:
        """Noisy counts, the law of their noise and numbers of rows, as a dictionary that `from_release` reads."""
        return {"values": tuple(map(tuple, self.values.tolist())), "noise": astuple(self.law), "rows": self.rows}

    @classmethod
    def from_release(cls, plain: Mapping[str, Any], bounds: tuple[float, float]) -> Clipped:
        """Construct from the dictionary that `released` returns, and the bounds of the column."""
        return cls(np.array(plain["values"]), NoiseLaw(*plain["noise"]), bounds, tuple(plain["rows"]))

    @property
    def shares(self) -> tuple[Sides, ...]:
        """Shares of each group's rows below and above the bounds, with intervals that account for the noise."""
        reach = self.law.half_width(_CONFIDENCE)

        def share_with_interval(count: float, n: float) -> Share:
            low, high = (min(max((count + end) / n, 0.0), 1.0) for end in (-reach, reach))
            return min(max(count / n, 0.0), 1.0), low, high

        each = zip(self.values.tolist(), self.rows, strict=True)
        return tuple((share_with_interval(below, n), share_with_interval(above, n)) for (below, above), n in each)

    def notes(self, groups: Sequence[object] = (), *, of: str = "", moved: str = "") -> tuple[str, ...]:
        """Return notes on the shares of values that were clipped to the bounds, if they are clearly above 0.

        Parameters
        ----------
        groups : sequence, optional
            Names of the groups, where there are several.
        of : str
            The column, if the answer is of several.
        moved : {"mean", "sum", "coefficient", ""}
            A number in the answer that moves in proportion to what values exceed; or a coefficient, of which nobody
            knows by how much.

        Returns
        -------
        tuple of str
            A sentence for each side.
        """
        shares, error, told = self.shares, self.law.standard_deviation, []
        for side, (end, where) in enumerate(zip(self.bounds, ("below", "above"), strict=True)):
            some = [at for at, each in enumerate(self.values) if clearly_some(each[side], error)]
            if not some:
                continue
            some.sort(key=lambda at: -shares[at][side][0])
            own = [f" of {group}" for group in groups] or [""]
            parts = [f"{_share_as_text(shares[at][side])} of the rows{own[at]}" for at in some]
            what = (
                f"{f'{of}: ' if of else ''}{list_text(parts, _NAMED)} were {where} {number(end)}, and limited to it"
            )
            told.append(f"{what}: {self._describe_effect(side, '' if groups else moved)}.")
        return tuple(told)

    def _describe_effect(self, side: int, moved: str) -> str:
        """Describe the effect of clipping: for a mean or sum, its change if the clipped values were larger."""
        if moved == "coefficient":
            return "the coefficients are estimated from the clipped values"
        if not moved:
            return "how far beyond the bound these values lie was not measured"
        unit = 10.0 ** math.floor(math.log10((self.bounds[1] / 2 - self.bounds[0] / 2) / _STEPS))
        share, low, high = self.shares[0][side]
        times = self.rows[0] if moved == "sum" else 1.0
        much = number(unit * share * times, unit * (high - low) * times)
        where, does, of = ("above", "would add", "to") if side else ("below", "would take", "from")
        return f"each {number(unit)} that they lie {where} it on average {does} {much} {of} the {moved}"


def shares_beyond_bounds(
    beyond: Sequence[NoisyValue],
    columns: Sequence[Column],
    rows: ArrayLike,
    groups: Sequence[object] = (),
    *,
    moved: str = "",
) -> tuple[tuple[tuple[Sides, ...], ...], tuple[str, ...]]:
    """Return the shares of values beyond the bounds of several columns, and notes on these shares.

    Parameters
    ----------
    beyond : sequence of NoisyValue
        The noisy numbers of each column; none where they were not measured.
    columns : sequence of Column
        The columns.
    rows : array_like
        Rows in each group.
    groups, moved
        As for `Clipped.notes`.

    Returns
    -------
    shares : tuple
        Of each column as `Clipped.shares`.
    notes : tuple of str
        Sentences.
    """
    each = [
        Clipped.from_sums(of, (column.low, column.high), rows) for of, column in zip(beyond, columns, strict=False)
    ]
    told = [one.notes(groups, of=column.name, moved=moved) for one, column in zip(each, columns, strict=False)]
    return tuple(one.shares for one in each), tuple(itertools.chain(*told))


def _share_as_text(share: Share) -> str:
    """Return a share and its interval as text, in percent."""
    part, low, high = (100 * each for each in share)
    error = 2 * (high - low)
    return f"{number(part, error)}% ({number(low, error)}% to {number(high, error)}%)"
