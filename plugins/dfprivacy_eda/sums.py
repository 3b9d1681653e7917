"""Noisy sums of a column (number of rows, sum, sum of squares), and the statistics computed from them."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaincinv

from dfprivacy import Column
from dfprivacy.inference.clipped import Clipped
from dfprivacy.inference.draws import discrete_quantile, noise_draws, points, quantile
from dfprivacy.inference.engine import infer
from dfprivacy.laws import REDRAWS, NoiseLaw

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dfprivacy.inference.engine import Parameter
    from dfprivacy.inference.moments import NoisyMoments
    from dfprivacy.release import NoisyValue

    Array = NDArray[np.float64]

__all__ = [
    "DRAWS",
    "ROWS",
    "SD",
    "STATISTICS",
    "Cell",
    "StatisticDraws",
    "Sums",
    "clamp_to_range",
    "draw_noise",
    "measurement_ids",
]

DRAWS = 8192
ROWS = ("count", "missing")  # between none and all
STATISTICS = ("count", "missing", "mean", "sum", "var", "std")
SD = 1 / 3  # of a column in units of half its bounds, as it is assumed: they are six standard deviations wide

Cell = tuple[Any, float | None, float | None, float | None, Any]
"""A number, or a text, its standard error, the ends of its interval, and what was released, where that is not
possible."""


@dataclass(frozen=True)
class StatisticDraws:
    """Statistics of a column under random draws of the noise, with the draws along the last axis.

    Parameters
    ----------
    count, first, second, missing : ndarray
        Rows with a value, the sums of y and y² of them, and rows without one.
    half, mid : float
        Half the width of the bounds of the column, and their middle.
    """

    count: Array
    first: Array
    second: Array
    missing: Array
    half: float
    mid: float

    @cached_property
    def scaled_mean(self) -> Array:
        """Mean of y, the values of the column scaled from its bounds to [-1, 1]."""
        return np.clip(self.first / np.maximum(self.count, 1), -1, 1)

    @property
    def mean(self) -> Array:
        """Mean of the column, in its units and within its bounds."""
        return self.mid + self.half * self.scaled_mean

    @property
    def sum(self) -> Array:
        """Sum of the values of the column."""
        return self.half * self.first + self.mid * self.count

    @property
    def _square(self) -> Array:
        n = np.maximum(self.count, 2)
        raw = self.second / n - self.scaled_mean**2
        # What was released below 0 is 0: draws reach as far above that as they do of what was released.
        raw = raw - np.minimum(np.median(raw, axis=-1, keepdims=True), 0)
        return np.asarray(np.clip(raw, 0, 1) * n / (n - 1))

    @property
    def var(self) -> Array:
        """Variance with the divisor n - 1, as in pandas."""
        return self._square * self.half**2

    @property
    def std(self) -> Array:
        """Standard deviation of the column, with the divisor n - 1."""
        return np.sqrt(self._square) * self.half


def _parameter(name: str) -> Parameter:
    """Return a parameter for `infer`: a function that computes a statistic from `StatisticDraws`."""
    return lambda drawn: (getattr(drawn, name), np.zeros(1), np.inf)


@dataclass(frozen=True)
class Sums:
    r"""Noisy sums of one column, whose values are scaled from the bounds to y in [-1, 1].

    Attributes
    ----------
    column : Column
        The column.
    values : ndarray of shape (d,)
        What was measured.
    laws : tuple of d NoiseLaw
        Of the noise in it: Laplace, or coordinates of one cube; of scale 0 where nothing was added.
    map : ndarray of shape (4, d)
        How the number of rows with a value, the sums of y and y², and the number of rows without one follow from
        what was measured; and `start`, of shape (4,), what is added to that.
    counted : bool
        Whether the rows without a value were counted.
    ids : tuple of d (str, int)
        For each the measurement that it is of (`dfprivacy.NoisyValue`), and its place in that.
    about : float or None
        v, if the sum of (y - m)² - v was measured in place of the sum of y², m being the mean of y.
    clipped : Clipped or None
        How many values lay beyond the bounds.
    """

    column: Column
    values: Array
    laws: tuple[NoiseLaw, ...]
    map: Array
    start: Array
    counted: bool
    ids: tuple[tuple[str, int], ...] = ()
    about: float | None = None
    clipped: Clipped | None = None

    def _statistics(self, values: Array) -> StatisticDraws:
        count, first, second, missing = self.start[:, None] + self.map @ values
        if self.about is not None:
            second = second + count * (self.about + np.clip(first / np.maximum(count, 1), -1, 1) ** 2)
        return StatisticDraws(count, first, second, missing, self.column.half, self.column.mid)

    @cached_property
    def estimate(self) -> StatisticDraws:
        """Statistics computed from the noisy sums, with a last axis of length 1."""
        return self._statistics(self.values[:, None])

    @cached_property
    def _noise_free(self) -> StatisticDraws:
        return self._statistics(self.values[:, None] - draw_noise(self.laws))

    def draws(self, draws: int = DRAWS) -> tuple[StatisticDraws, Array]:  # noqa: ARG002 - as many as all take
        """Draw statistics without noise that agree with the noisy sums; return them with equal weights."""
        noisy = any(law.scale for law in self.laws)
        return (self._noise_free, np.full(DRAWS, 1 / DRAWS)) if noisy else (self.estimate, np.ones(1))

    @property
    def released(self) -> dict[str, Any]:
        """The noisy sums as JSON values, from which `from_released` constructs them again."""
        noise = [(*astuple(law), *one) for law, one in zip(self.laws, self.ids, strict=True)]
        rows = tuple(map(tuple, self.map.tolist()))
        plain = {"values": tuple(self.values.tolist()), "noise": tuple(noise), "map": rows}
        beyond = None if self.clipped is None else self.clipped.released
        more = {"counted": self.counted, "about": self.about, "clipped": beyond}
        return {**plain, "start": tuple(self.start.tolist()), **more}

    @classmethod
    def from_released(cls, plain: Mapping[str, Any], column: Column) -> Sums:
        """Construct the noisy sums from the JSON values that `released` returns."""
        laws = tuple(NoiseLaw(*law) for *law, _, _ in plain["noise"])
        ids = tuple((name, place) for *_, name, place in plain["noise"])
        values, map_, start = (np.array(plain[name], dtype=np.float64) for name in ("values", "map", "start"))
        beyond = plain.get("clipped")
        clipped = None if beyond is None else Clipped.from_release(beyond, column.bounds or (-1.0, 1.0))
        return cls(column, values, laws, map_, start, plain["counted"], ids, plain["about"], clipped)

    @classmethod
    def from_moments(cls, moments: NoisyMoments, column: Column) -> Sums:
        """Construct the noisy sums from the moments of one group that a t test released."""
        ((*values,),), counted = moments.values, moments.rows is not None and moments.form != "known"
        maps = {
            "known": [[0, 0], [1, 0], [0, 1], [0, 0]],
            "private": [[0, 1, 1], [1, 0, 0], [0, 0, 1], [0, 0, 0]],
            "beside": [[0, 0, 1], [1, 0, 0], [0, -1, 1], [0, 0, -1]],
            "apart": [[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, -int(counted)]],
        }
        start, ids = np.zeros(4), tuple((moments.id, place) for place in range(len(values)))
        if moments.rows is not None:
            start[3 if counted else 0] = moments.rows[0]
        map_ = np.array(maps[moments.form], dtype=np.float64)
        return cls(column, np.array(values), tuple(moments.laws), map_, start, counted, ids, None, moments.clipped)

    def with_rows_beyond(self, noisy: NoisyValue, rows: float | None = None) -> Sums:
        """Return the sums with the noisy number of rows beyond the bounds of the column."""
        of = self.noisy_value("count") if rows is None else rows
        return replace(self, clipped=Clipped.from_sums(noisy, (self.column.low, self.column.high), of))

    @property
    def replicates(self) -> StatisticDraws:
        """The statistics recomputed under random draws of the noise, along the last axis."""
        values = np.repeat(self.values[:, None], REDRAWS, axis=1)
        for at, (law, (name, place)) in enumerate(zip(self.laws, self.ids, strict=True)):
            if law.scale:
                values[at] -= noise_draws(law, np.full(place + 1, law.scale), name)[place]
        return self._statistics(values)

    def noisy_value(self, name: str) -> float:
        """Return a statistic computed from the noisy sums."""
        return float(getattr(self.estimate, name)[0])

    @property
    def size(self) -> float:
        """Number of all rows; infinite if it is private."""
        of_all = self.map[0] + self.map[3]
        private = any(of_all * [law.scale for law in self.laws])
        return math.inf if private else float(of_all @ self.values + self.start[0] + self.start[3])

    def possible_range(self, name: str) -> tuple[float, float] | None:
        """Return the smallest and largest possible value of a statistic; None if they depend on private rows."""
        half, n = self.column.half, max(self.noisy_value("count"), 2.0)
        most = half * half * n / (n - 1)  # half of the rows at either bound
        ends = {"var": (0.0, most), "std": (0.0, math.sqrt(most))}
        return None if name in {*ROWS, "sum"} else ends.get(name, self.column.bounds)

    def is_wide(self, name: str, low: float, high: float) -> bool:
        """Return whether the interval of a statistic spans more than half of its possible range."""
        rows = self.noisy_value("count")
        known = bool(rows or self.map[0].any())
        ends = self.possible_range(name) or (self.column.low * max(rows, 1.0), self.column.high * max(rows, 1.0))
        return known and high - low > (ends[1] - ends[0]) / 2

    def _row_noise(self, name: str) -> list[tuple[float, NoiseLaw]]:
        """Return the coefficient and distribution of each noise term in a number of rows."""
        weights = np.abs(self.map[ROWS.index(name) * 3]).tolist()
        return [(times, law) for times, law in zip(weights, self.laws, strict=True) if times and law.scale]

    def error(self, name: str) -> float:
        """Return the standard error of a statistic due to privacy noise."""
        if name in ROWS:
            return math.sqrt(sum(times**2 * law.variance for times, law in self._row_noise(name)))
        return float(infer(self, _parameter(name)).noise_standard_error)

    def cell(self, name: str, confidence: float) -> Cell:
        """Return a noisy statistic, its standard error, and a confidence interval for the exact statistic.

        The interval is all that is possible where there may be no row with a value.
        """
        value, noise = self.noisy_value(name), self._row_noise(name) if name in ROWS else []
        if name in ROWS and len(noise) <= 1:  # of which the law is known
            reach = sum(times * law.half_width(confidence) for times, law in noise)
            return clamp_to_range(value, self.error(name), value - reach, value + reach, self.size)
        found = infer(self, _parameter(name))
        low, high = map(float, found.interval(confidence))
        if name in ROWS:
            return clamp_to_range(value, self.error(name), low, high, self.size)
        every = self.possible_range(name)
        if every and np.mean(self.draws()[0].count < 1) >= (1 - confidence) / 2:
            low, high = every
        return value, float(found.noise_standard_error), low, high, value

    @property
    def missing(self) -> tuple[float | None, float | None]:
        """Noisy number of rows without a value, and its standard error; both are None if it was not measured."""
        return (self.noisy_value("missing"), self.error("missing")) if self.counted else (None, None)

    def typical_sums(self, rows: float) -> Sums:
        """Return the sums of a typical table: mean in the middle of the bounds, sd a sixth of their width."""
        about, second = self.about, rows * SD**2
        if about is not None:  # a guess of the variance is off by its noise
            second = self.laws[1].standard_deviation if len(self.laws) > 1 else 0.0
            about = SD**2 - second / rows
        values = np.linalg.pinv(self.map) @ (np.array([rows, 0.0, second, 0.0]) - self.start)
        return replace(self, values=values, about=about)


@lru_cache(maxsize=8)  # the groups of a call have the same laws, but for those that their own first step gave
def draw_noise(laws: tuple[NoiseLaw, ...], draws: int = DRAWS) -> Array:
    """Draw noise from the given distributions, the same at each call, so that results can be repeated.

    Parameters
    ----------
    laws : tuple of NoiseLaw
        Laplace, or coordinates of one cube: its radius is that of a Gamma variable, and each is uniform within it.
    draws : int
        How many.

    Returns
    -------
    ndarray of shape (len(laws), draws)
        The noise.
    """
    *every, last = points(len(laws) + 1, draws)
    radii = {law.dimension: gammaincinv(law.dimension + 1, last) for law in laws if law.kind == "cube"}
    drawn = [
        law.scale * radii[law.dimension] * (2 * u - 1)
        if law.kind == "cube"
        else (discrete_quantile if law.step and law.scale else quantile)(law, u)
        for law, u in zip(laws, every, strict=True)
    ]
    return np.array(drawn).reshape(len(laws), draws)


def measurement_ids(noisy: NoisyValue) -> tuple[tuple[str, int], ...]:
    """Return, for each sum, the identifier of its measurement and its index there."""
    return tuple((noisy.id, place) for place in range(noisy.values.size))


def clamp_to_range(value: float, error: float, low: float, high: float, most: float) -> Cell:
    """Clamp a noisy number to the range from 0 to its largest possible value, and move its interval along.

    The interval reaches as far below and above the new number as it did of the old one, so it holds all that it
    held of what is possible, and never says that what is possible ends where the noise happened to end.

    Examples
    --------
    >>> clamp_to_range(-39.0, 15.0, -69.0, -9.0, 1000.0), clamp_to_range(990.0, 15.0, 960.0, 1020.0, 1000.0)
    ((0.0, 15.0, 0.0, 30.0, -39.0), (990.0, 15.0, 960.0, 1000.0, 990.0))
    """
    kept = min(max(value, 0.0), most)
    first, last = (min(max(end + kept - value, 0.0), most) for end in (low, high))
    return kept, error, first, last, value
