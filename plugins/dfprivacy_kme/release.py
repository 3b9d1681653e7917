"""What is released: the noisy embedding, and the weighted points fitted to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy.special import ndtri

from dfprivacy import ArgumentError, Release
from dfprivacy.features import spread
from dfprivacy.schema import as_probability
from dfprivacy_kme.embedding import Space, coded, decoded
from dfprivacy_kme.points import TwoSample, WeightedPoints

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

__all__ = ["KME", "Expectation", "grid"]

_RIDGES = np.geomspace(1e-14, 1e4, 55)
_DRAWS, _DRAWS_SEED = 4999, 20_180_710  # public: it makes p-values reproducible
_MASSES = 5  # of the noise's standard deviation, below which a conditional says little


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


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class KME(WeightedPoints):
    """A private kernel mean embedding: a noisy mean feature, and weighted points that stand for it.

    Attributes
    ----------
    space : dict
        The kernel, its columns and the public feature map, as plain values.
    locations : ndarray of shape (m, columns)
        Numbers, and codes of categories.
    weights : ndarray of shape (m,)
        Their weights.
    beta : ndarray of shape (F,)
        The noisy mean of the rows' features.
    sigma : float
        Standard deviation of the noise in each of its coordinates.
    noise_kind : {"gaussian", "laplace", "none"}
        The law of the noise.
    size : int
        Number of rows.
    represent : str
        How the points were fitted.
    defect : float
        How far the computed basis is from orthonormal; it is charged.
    objective : float
        Squared distance of the points from the noisy embedding; F sigma² of it is noise.
    notes : tuple of str
        What to know before trusting the numbers.
    """

    beta: NDArray[np.float64]
    sigma: float
    noise_kind: Literal["gaussian", "laplace", "none"]
    size: int
    represent: str
    defect: float
    objective: float

    _shown = ("size", "support", "dimension", "sigma", "represent", "objective", "notes")

    @property
    def dimension(self) -> int:
        """Number of features F."""
        return len(self.beta)

    @property
    def embedding(self) -> tuple[NDArray[np.float64], float]:
        """The noisy mean feature and the standard deviation of its noise."""
        return self.beta, self.sigma

    def deviation(self, rows: object) -> NDArray[np.float64]:
        """Say how far the noise moves the value of the noisy embedding at public rows: its standard deviation.

        Parameters
        ----------
        rows : frame or mapping of str to sequence
            Public rows.

        Returns
        -------
        ndarray of shape (rows,)
            At most `sigma`.
        """
        found: NDArray[np.float64] = self.sigma * np.linalg.norm(self._space.features(self._read(rows)), axis=1)
        return found

    def expectation(self, f: Callable[[dict[str, NDArray[Any]]], Any], *, confidence: float = 0.95) -> Expectation:
        r"""Estimate the mean of a function over the rows, with an interval that holds.

        Parameters
        ----------
        f : callable
            Given arrays by column name, the function's values, one for each row.
        confidence : float
            Coverage of the interval, over the noise.

        Returns
        -------
        Expectation
            Value, interval, and whether the release can tell at all.

        Notes
        -----
        For any public vector a, :math:`|E f - a'\beta| \le \max_x |f(x) - a'\psi(x)| + |a'(\beta - \alpha)|`. a is
        the ridge solution that makes the sum of the first term and the noise's quantile least; as it is chosen by
        public numbers only, the coverage is at least nominal. The first term is the largest over a grid of some
        thousand points, so the interval is for rows between which f does not jump unseen. It is about the mean over
        the rows of the table; a population's has a sampling error besides.
        """
        confidence = as_probability(confidence, "confidence")
        at = grid(self._space)
        values, at_points = np.split(self._values(f, np.vstack([at, self.locations])), [len(at)])
        centre = (float(values.min()) + float(values.max())) / 2
        psi = self._space.features(at)
        left, s, right = np.linalg.svd(psi, full_matrices=False)
        projected = left.T @ (values - centre)
        path = np.array([right.T @ (s / (s**2 + ridge) * projected) for ridge in _RIDGES] + [0 * self.beta])
        rest = np.abs(psi @ path.T + centre - values[:, None]).max(axis=0)
        noise = np.array([self._quantile(a, confidence) for a in path])
        best = int(np.argmin(rest + noise))  # chosen by public numbers: the points are not among them
        a, seen = path[best], self._space.features(self.locations)
        half = max(float(rest[best]), float(np.abs(seen @ a + centre - at_points).max())) + float(noise[best])
        estimate = float(a @ self.beta) + centre
        low, high = min(values.min(), at_points.min()), max(values.max(), at_points.max())
        ends = float(np.clip(estimate - half, low, high)), float(np.clip(estimate + half, low, high))
        plugged = float(self.weights @ at_points)
        return Expectation(
            value=min(max(plugged, ends[0]), ends[1]),
            low=ends[0],
            high=ends[1],
            estimable=bool(ends[1] - ends[0] <= (high - low) / 2),
        )

    def _values(
        self, f: Callable[[dict[str, NDArray[Any]]], Any], rows: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        by_column = {name: np.array(values) for name, values in decoded(self._space.columns, rows).items()}
        values = np.asarray(f(by_column), dtype=np.float64)
        if values.shape != (len(rows),) or not np.isfinite(values).all():
            raise ArgumentError(
                f"f gave an array of shape {values.shape} for {len(rows)} rows, or values that are not finite.",
                'Give one finite number for each row: lambda rows: rows["age"] ** 2.',
            )
        return values

    def _quantile(self, a: NDArray[np.float64], confidence: float) -> float:
        """Bound on |a'noise| that holds with this probability; for Laplace noise, Chernoff's."""
        if self.noise_kind != "laplace":
            return float(ndtri((1 + confidence) / 2)) * self.sigma * float(np.linalg.norm(a))
        v = self.sigma**2 / 2 * a**2  # squared scales
        if not v.max() > 0:
            return 0.0
        s = np.linspace(0.01, 0.99, 99) / math.sqrt(v.max())
        bounds = (math.log(2 / (1 - confidence)) - np.log1p(-np.outer(s**2, v)).sum(axis=1)) / s
        return float(bounds.min())

    def mmd(self, other: object) -> float:
        """Squared distance of the embedding from that of other rows, or of another release; the noise is taken out.

        Parameters
        ----------
        other : frame, mapping of str to sequence, or KME
            Public rows, or a release with the same feature map.

        Returns
        -------
        float
            Unbiased over the noise, so it can be negative.
        """
        difference, noise, _ = self._against(other)
        return float(difference @ difference) - self.dimension * sum(sigma**2 for sigma, _ in noise)

    def two_sample(self, other: object) -> TwoSample:
        """Test whether other rows, or another release's, come from the same population.

        Parameters
        ----------
        other : frame, mapping of str to sequence, or KME
            Public rows, or a release with the same feature map.

        Returns
        -------
        TwoSample
            Statistic and p-value.

        Notes
        -----
        Under the null hypothesis the difference of the embeddings is normal with the covariance of the features,
        over the numbers of rows, plus the noise. The covariance is that of the public rows, or of the weighted
        points; the level is nominal as far as these stand for the population.
        """
        difference, noise, population = self._against(other)
        rng = np.random.default_rng(_DRAWS_SEED)
        _, s, right = np.linalg.svd(population, full_matrices=False)
        draws = (rng.standard_normal((_DRAWS, len(s))) * s) @ right
        for sigma, kind in noise:
            draw = rng.laplace if kind == "laplace" else rng.normal
            draws += draw(0.0, sigma / (math.sqrt(2) if kind == "laplace" else 1.0), size=draws.shape)
        statistic = float(difference @ difference)
        extreme = int(np.sum((draws**2).sum(axis=1) >= statistic))
        return TwoSample(statistic, (1 + extreme) / (1 + _DRAWS))

    def _against(self, other: object) -> tuple[NDArray[np.float64], list[tuple[float, str]], NDArray[np.float64]]:
        """Difference of embeddings, noises, and a square root of the sampling covariance of the difference."""
        if not isinstance(other, KME):
            if isinstance(other, Release):
                raise ArgumentError("These points have no noise law.", "Compare with the release they came from.")
            psi = self._space.features(self._read(other))
            root = (psi - psi.mean(axis=0)) / math.sqrt(len(psi))
            return (
                self.beta - psi.mean(axis=0),
                [(self.sigma, self.noise_kind)],
                root * math.sqrt(1 / self.size + 1 / len(psi)),
            )
        if self._space.kernel.describe() != other._space.kernel.describe() or not _same(self.space, other.space):  # noqa: SLF001
            raise ArgumentError(
                "The two releases have different feature maps.",
                "Release both with the same columns, kernel and points.",
            )
        share = np.maximum(self.weights, 0) / max(float(np.maximum(self.weights, 0).sum()), 1e-300)
        psi = self._space.features(self.locations)
        root = np.sqrt(share)[:, None] * (psi - share @ psi)
        return (
            self.beta - other.beta,
            [(self.sigma, self.noise_kind), (other.sigma, other.noise_kind)],
            root * math.sqrt(1 / self.size + 1 / other.size),
        )

    def conditional(self, given: Mapping[str, Any]) -> WeightedPoints:
        """Weight the points by how close they are to given values: the distribution of the other columns.

        Parameters
        ----------
        given : mapping of str to value
            One value for some of the columns.

        Returns
        -------
        WeightedPoints
            Of the other columns. Its notes say if too little was there to tell from noise.
        """
        columns = self._space.columns
        names = [column.name for column in columns]
        if not isinstance(given, dict) or not set(given) < set(names) or not given:
            raise ArgumentError(
                f"given={given!r} must name some of {names!r}, not all.", "For example given={'age': 40}."
            )
        fixed = [names.index(name) for name in given]
        part = self._restricted(fixed, self.weights, ())._space  # noqa: SLF001 - of our own kind
        row = coded(part.columns, {name: [value] for name, value in given.items()}, "given")
        masses = self._share * part.kernel(row, self.locations[:, fixed])[0]
        mass = float(masses.sum())
        notes: tuple[str, ...] = ()
        if mass < _MASSES * self.sigma:
            notes = ("Hardly any weight is near the given values: what is said of the others is noise.",)
        kept = [i for i in range(len(names)) if i not in fixed]
        weights = masses / mass if mass > 0 else self._share
        return self._restricted(kept, weights, notes)


def grid(space: Space) -> NDArray[np.float64]:
    """Public rows that cover the bounds and categories: 1024 up to three columns, else 4096."""
    return spread(space.columns, 1024 if len(space.columns) <= 3 else 4096)  # noqa: PLR2004


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in one)
