"""Means by column, and how well each is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Expectation", "Means"]


class Expectation(NamedTuple):
    """An expectation over the rows, and how well it is known.

    Attributes
    ----------
    value : float
        The estimate.
    low, high : float
        An interval for the mean over the rows.
    estimable : bool
        False if the interval is wider than half the function's range: then the release cannot tell.
    """

    value: float
    low: float
    high: float
    estimable: bool


class Means(dict[str, float]):
    """Means by column, a dictionary of numbers, with an interval of each.

    Attributes
    ----------
    intervals : dict of str to Expectation
        The same numbers, and between which the mean over the rows lies.
    confidence : float
        Least coverage of each interval, over the noise.
    """

    def __init__(self, intervals: Mapping[str, Expectation], confidence: float) -> None:
        super().__init__({name: each.value for name, each in intervals.items()})
        self.intervals = dict(intervals)
        self.confidence = confidence

    def __reduce__(self) -> tuple[type[Means], tuple[dict[str, Expectation], float]]:
        return Means, (self.intervals, self.confidence)

    def __repr__(self) -> str:
        listed = ", ".join(
            f"{name!r}: {each.value:.5g} ({each.low:.5g} to {each.high:.5g}"
            + ("" if each.estimable else ", which tells next to nothing")
            + ")"
            for name, each in self.intervals.items()
        )
        return f"{{{listed}}}, at a confidence of {self.confidence:.0%}"
