"""Moments of groups: exact moments, noisy moments, and draws of exact moments given noisy ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import gammaincinv, ndtri

from dfprivacy.errors import ArgumentError
from dfprivacy.inference.clipped import Clipped, Sides
from dfprivacy.inference.draws import DRAWS, noise, noise_draws, points, quantile, sums_above, sums_of_two_releases
from dfprivacy.laws import NoiseLaw

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from dfprivacy.measured import NoisyValue
    from dfprivacy.schema import Column

    Array = NDArray[np.float64]

__all__ = ["Form", "Moments", "NoisyMoments", "laws_of"]

Form = Literal["known", "private", "beside", "apart"]

_LEAST = 1e-12  # a variance of y for data that are constant
_FEWEST = 2.0
_FLOOR = 5.0  # rows that a noisy size is taken to be at least, as an estimate
_DOUBTFUL = 5.0  # standard deviations: a noisy size should be as large as that to divide by


@dataclass(frozen=True)
class Moments:
    """Numbers of rows, means and variances of groups, in the units of the column.

    Parameters
    ----------
    n : ndarray
        Rows.
    total, squares : ndarray
        Sums of y and y², the column mapped from its bounds to [-1, 1].
    half, mid : float
        Half the width of the bounds, and their middle.
    """

    n: Array
    total: Array
    squares: Array
    half: float = 1.0
    mid: float = 0.0

    @cached_property
    def _standardized_mean(self) -> Array:
        return np.clip(self.total / self.n, -1.0, 1.0)

    @property
    def mean(self) -> Array:
        """Mean, clipped to the bounds."""
        return self.mid + self.half * self._standardized_mean

    @cached_property
    def variance(self) -> Array:
        """Variance with denominator n - 1, limited to the largest variance of values within the bounds."""
        most = np.maximum(1 - self._standardized_mean**2, _LEAST)
        return (
            self.half**2
            * np.clip(self.squares / self.n - self._standardized_mean**2, _LEAST, most)
            * self.n
            / (self.n - 1)
        )

    @property
    def sd(self) -> Array:
        """Standard deviation."""
        return np.sqrt(self.variance)

    def __getitem__(self, group: int) -> Moments:
        """Return the moments of one group."""
        of = {name: getattr(self, name)[..., group, :] for name in ("n", "total", "squares")}
        return replace(self, **of)


@dataclass(frozen=True)
class NoisyMoments:
    """Noisy sums of a number and its square, by group.

    Parameters
    ----------
    values : ndarray of shape (..., k, d)
        Of each of k groups the noisy sums.
    laws : sequence of d NoiseLaw
        The laws of the independent noise in them.
    rows : ndarray of shape (..., k), optional
        Public numbers of rows, those without a value among them.
    form : {"known", "private", "beside", "apart"}
        Sums of (y, y²) of a public number of rows; of (y, 1-y², y²); of (y, 1-y², 1), as
        ``Given(column, of=Moments(column, count="beside"))`` has them; or of (y, y², 1).
    bounds : tuple of float
        Bounds of the column.
    id : str
        What tells the measurement from all others.
    clipped : Clipped, optional
        How many rows of each group lay beyond the bounds.

    Raises
    ------
    ArgumentError
        If a public group has fewer than two rows.
    """

    values: Array
    laws: Sequence[NoiseLaw]
    rows: Array | None = None
    form: Form = "known"
    bounds: tuple[float, float] = (-1.0, 1.0)
    id: str = ""
    clipped: Clipped | None = None

    def __post_init__(self) -> None:
        if self.rows is not None and np.any(np.less(self.rows, _FEWEST)):
            raise ArgumentError("A group has fewer than two rows.", "Compare groups with at least two rows each.")

    @classmethod
    def from_sums(
        cls, noisy: NoisyValue, rows: Array | None, column: Column, *, apart: bool = False
    ) -> NoisyMoments:
        """Construct from the noisy sums of a measurement.

        Parameters
        ----------
        noisy : NoisyValue
            Sums of one group, of shape (d,), or of k, of shape (k, d); or a stack of them and of
            `dfprivacy.features.Beyond`.
        rows : ndarray of shape (k,), optional
            Public numbers of rows.
        column : Column
            Whose moments these are.
        apart : bool
            Whether the sums of y and y² and the rows were measured one by one.

        Returns
        -------
        NoisyMoments
            Of values of shape (k, d).
        """
        noisy, *beyond = noisy.parts or (noisy,)
        bounds = column.low, column.high
        values, laws = np.atleast_2d(noisy.values), laws_of(noisy)
        form: Form = "private" if rows is None else "beside"
        if len(laws) == 2:  # noqa: PLR2004 - sums of y and y²
            form = "known"
        elif apart:
            form = "apart"
        made = cls(values, laws, rows, form, bounds, noisy.id)
        return replace(made, clipped=Clipped.from_sums(beyond[0], bounds, made.size)) if beyond else made

    def __getitem__(self, group: int) -> NoisyMoments:
        """Return the noisy moments of one group."""
        at, d = slice(group, group + 1), self.values.shape[-1]
        name, _, written = self.id.partition("@")
        places = written.split(",") if written else list(map(str, range(self.values.size)))
        identity = f"{name}@{','.join(places[group * d : (group + 1) * d])}"
        rows = None if self.rows is None else self.rows[at]
        clipped = self.clipped and replace(self.clipped, values=self.clipped.values[at], rows=self.clipped.rows[at])
        return replace(self, values=self.values[at], rows=rows, id=identity, clipped=clipped)

    @property
    def released(self) -> dict[str, Any]:
        """Noisy sums and the laws of their noise, as a dictionary that `from_release` reads."""
        return {
            "form": self.form,
            "values": tuple(map(tuple, self.values.tolist())),
            "rows": None if self.rows is None else tuple(self.rows.tolist()),
            "noise": self.laws[0].kind,
            "scales": tuple(law.scale for law in self.laws),
            "id": self.id,
            "clipped": None if self.clipped is None else self.clipped.released,
        }

    @property
    def replicates(self) -> NoisyMoments:
        """Noisy sums minus random draws of their noise, one draw for each index of a new first axis."""
        scales = np.broadcast_to([law.scale for law in self.laws], self.values.shape)
        noise = noise_draws(self.laws[0], scales, self.id or str(self.released))
        return replace(self, values=np.moveaxis(self.values[..., None] - noise, -1, 0))

    @classmethod
    def from_release(cls, plain: Mapping[str, Any], bounds: tuple[float, float]) -> NoisyMoments:
        """Construct from the dictionary that `released` returns, and the bounds of the column."""
        laws = [NoiseLaw(scale, kind=plain["noise"]) for scale in plain["scales"]]
        rows = None if plain["rows"] is None else np.array(plain["rows"])
        beyond = plain.get("clipped")
        clipped = None if beyond is None else Clipped.from_release(beyond, bounds)
        return cls(np.array(plain["values"]), laws, rows, plain["form"], bounds, plain.get("id", ""), clipped)

    @property
    def shares(self) -> tuple[Sides, ...] | None:
        """Shares of the rows of each group below and above the bounds; None if they were not measured."""
        return None if self.clipped is None else self.clipped.shares

    def limits(self, groups: Sequence[object] = (), moved: str = "") -> tuple[str, ...]:
        """Return notes on the shares of values that were clipped to the bounds."""
        return () if self.clipped is None else self.clipped.notes(groups, moved=moved)

    def simulate(self, n: ArrayLike, mean: ArrayLike, sd: ArrayLike, tables: int) -> NoisyMoments:
        """Simulate noisy sums of random normal samples, with the same noise, for planning.

        Parameters
        ----------
        n, mean, sd : array_like of shape (k,)
            Rows, mean and standard deviation of each group.
        tables : int
            How many releases.

        Returns
        -------
        NoisyMoments
            Of values of shape (tables, k, d).
        """
        n, mean, sd = (np.asarray(each, dtype=np.float64)[:, None] for each in (n, mean, sd))
        groups, d = len(n), len(self.laws)
        u = points(groups * (2 + d), tables).reshape(2 + d, groups, tables)
        y = (mean - self.mid) / self.half + sd / self.half / np.sqrt(n) * ndtri(u[0])
        total, squares = n * y, (sd / self.half) ** 2 * 2 * gammaincinv((n - 1) / 2, u[1]) + n * y**2
        rest = {"known": (), "apart": (n,), "beside": (n,), "private": (squares,)}[self.form]
        second = squares if self.form in {"known", "apart"} else n - squares
        exact = np.stack(np.broadcast_arrays(total, second, *rest))
        noise = np.stack([quantile(law, at) for law, at in zip(self.laws, u[2:], strict=True)])
        rows = None if self.rows is None else n[:, 0]
        return replace(self, values=(exact + noise).transpose(2, 1, 0), rows=rows)

    @property
    def half(self) -> float:
        """Half the width of the bounds: the unit of the standardized values y."""
        return self.bounds[1] / 2 - self.bounds[0] / 2

    @property
    def mid(self) -> float:
        """Middle of the bounds, which is standardized to y = 0."""
        return self.bounds[0] / 2 + self.bounds[1] / 2

    @property
    def missing(self) -> tuple[float, float] | None:
        """Noisy number of rows without a value, in groups of public size, and its standard error; else None."""
        if self.rows is None or self.form == "known":
            return None
        lost = np.asarray(self.rows) - self.values[..., 2]
        return float(lost.sum()), math.sqrt(lost.size * self.laws[2].variance)

    @property
    def size_variance(self) -> float:
        """Variance of the noise in a group's number of rows; 0 if that number is public."""
        if self.form == "known":
            return 0.0
        return self.laws[2].variance + (self.laws[1].variance if self.form == "private" else 0.0)

    @property
    def size_is_doubtful(self) -> NDArray[np.bool_]:
        """Whether the number of rows of a group is too noisy to divide by."""
        least = max(_FLOOR, _DOUBTFUL * math.sqrt(self.size_variance)) if self.size_variance else 0.0
        return np.asarray((self.estimate.n[..., 0] <= least).any(axis=-1))

    @property
    def size(self) -> Array:
        """Number of rows of each group, public or noisy, shape (..., k)."""
        if self.form == "known":
            return np.asarray(self.rows, dtype=np.float64)
        second, third = self.values[..., 1], self.values[..., 2]
        return second + third if self.form == "private" else third

    @property
    def estimate(self) -> Moments:
        """Point estimates of the moments; a noisy number of rows below 5 is raised to 5."""
        n, second = self.size, self.values[..., 1]
        squares = {"private": n - second, "beside": n - second}.get(self.form, second)
        if self.form != "known":
            n = np.maximum(n, _FLOOR)
        n, total, squares = n[..., None], self.values[..., 0, None], squares[..., None]
        return Moments(n, total, squares, self.half, self.mid)

    def within(self, u: Array) -> Array:
        """Return quantiles of the total sum of squares within groups, given the noisy sums.

        Parameters
        ----------
        u : ndarray of shape (draws,)
            Probabilities.

        Returns
        -------
        ndarray of shape (..., draws)
            Quantiles of their sum, in squared units of the column, by the normal law, given that it is positive:
            the noise averages out over groups, and truncated in each it would not.
        """
        plain = self.estimate
        noisy = {"beside": [1, 2], "private": [2]}.get(self.form, [1])
        law = NoiseLaw(math.sqrt(plain.n.shape[-2] * sum(self.laws[at].variance for at in noisy)), kind="Gaussian")
        left = plain.squares - plain.total**2 / plain.n + self.laws[0].variance / plain.n
        return self.half**2 * sums_above(law, left.sum(axis=-2), np.array(_LEAST), u)

    def draws(self, draws: int = DRAWS) -> tuple[Moments, Array]:
        """Draw possible exact sums, given the noisy sums.

        Parameters
        ----------
        draws : int
            How many.

        Returns
        -------
        tuple of Moments and ndarray
            The moments, with the draws along the last axis, and their weights, of shape (draws,).

        Notes
        -----
        Noise is drawn in sequence: first that of the sum of y and of the rows, then that of the squares, given
        these and that the variance is positive. To leave out draws that cannot be halves the power off centre, to
        limit variances breaks the level of small groups, and to limit noisy numbers of rows to public ones breaks
        that of one-sided tests.
        """
        groups = self.values.shape[-2]
        free = {"known": [0], "private": [0, 1, 2]}.get(self.form, [0, 2])
        u = points(groups * (len(free) + 1), draws).reshape(groups, len(free) + 1, draws)
        drawn, weights = noise([self.laws[at] for at in free] * groups, u[:, :-1].reshape(-1, draws))
        drawn, last = drawn.reshape(groups, len(free), draws), u[:, -1]
        total, second, *third = np.moveaxis(self.values, -1, 0)[..., None]
        total = total - drawn[:, 0]
        if self.form == "known":
            n = np.asarray(self.rows, dtype=np.float64)[..., None]
        elif self.form == "private":
            n = np.maximum(second + third[0] - drawn[:, 1] - drawn[:, 2], _FEWEST)
        else:
            n = np.maximum(third[0] - drawn[:, 1], _FEWEST)
        least = n * np.minimum((total / n) ** 2, 1.0)
        match self.form:
            case "private":
                twice, laws = (third[0], n - second), (self.laws[2], self.laws[1])
                squares = sums_of_two_releases(twice, laws, least, last)
            case "beside":
                squares = n + sums_above(self.laws[1], -second, least - n, last)
            case _:
                squares = sums_above(self.laws[1], second, least, last)
        return Moments(n, total, squares, self.half, self.mid), weights


def laws_of(noisy: NoisyValue) -> list[NoiseLaw]:
    """Return the law of the noise in each sum of a group."""
    kind = "Laplace" if noisy.noise is None else noisy.noise.law.kind
    return [NoiseLaw(float(scale), kind=kind) for scale in np.atleast_2d(noisy.scales)[0]]
