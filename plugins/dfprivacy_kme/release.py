"""What is released: weighted points, and the noisy embedding that they stand for."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.special import ndtri

from dfprivacy import ArgumentError, Release
from dfprivacy.features import spread
from dfprivacy.plotting import axes
from dfprivacy.schema import as_probability
from dfprivacy_kme.embedding import Space, coded, decoded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["KME", "Expectation", "TwoSample", "WeightedPoints", "grid"]

_RIDGES = np.concatenate([np.geomspace(1e-14, 1e4, 55)])
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


class TwoSample(NamedTuple):
    """A kernel two-sample test.

    Attributes
    ----------
    statistic : float
        Squared distance of the two embeddings.
    pvalue : float
        By simulation of the null distribution, the noise included.
    """

    statistic: float
    pvalue: float


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class WeightedPoints(Release):
    """Points with weights, without a noisy embedding: what a marginal or a conditional of a release is.

    Attributes
    ----------
    space : dict
        The kernel and its columns, as plain values.
    locations : ndarray of shape (m, columns)
        Numbers, and codes of categories.
    weights : ndarray of shape (m,)
        Their weights.
    notes : tuple of str
        What to know before trusting the numbers.
    """

    space: Mapping[str, Any]
    locations: NDArray[np.float64]
    weights: NDArray[np.float64]
    notes: tuple[str, ...]

    _shown: ClassVar[tuple[str, ...]] = ("support", "notes")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.to_dict() | {"privacy": None} == other.to_dict() | {"privacy": None}

    def __hash__(self) -> int:
        return hash(self.weights.tobytes())

    @cached_property
    def _space(self) -> Space:
        return Space.read(self.space)

    @property
    def support(self) -> int:
        """Number of points."""
        return len(self.weights)

    @property
    def points(self) -> Any:
        """Points and, last, their ``weight``: a frame of the library that holds the table."""
        columns = decoded(self._space.columns, self.locations)
        name = "weight"
        while name in columns:
            name += "_"
        return self._table({**columns, name: self.weights.tolist()})

    def evaluate(self, rows: object) -> NDArray[np.float64]:
        """Evaluate the embedding as a function: a smoothed density.

        Parameters
        ----------
        rows : frame or mapping of str to sequence
            Public rows.

        Returns
        -------
        ndarray of shape (rows,)
            The weighted sum of the kernel with each point.
        """
        values: NDArray[np.float64] = self._space.kernel(self._read(rows), self.locations) @ self.weights
        return values

    def _read(self, rows: object) -> NDArray[np.float64]:
        return coded(self._space.columns, rows, "rows")

    @cached_property
    def _numbers(self) -> list[int]:
        return [i for i, column in enumerate(self._space.columns) if column.bounds is not None]

    def mean(self) -> dict[str, float]:
        """Means of the numeric columns.

        Returns
        -------
        dict of str to float
            By column.
        """
        return {self._space.columns[i].name: float(self._share @ self.locations[:, i]) for i in self._numbers}

    @property
    def _share(self) -> NDArray[np.float64]:
        """Weights that are not negative and add up to 1, or an error."""
        if (self.weights < 0).any() or self.weights.sum() <= 0:
            raise ArgumentError(
                "Some weights are negative, so these points are no distribution.",
                'Ask for represent="hull".',
            )
        share: NDArray[np.float64] = self.weights / self.weights.sum()
        return share

    def cov(self) -> NDArray[np.float64]:
        """Covariances of the numeric columns.

        Returns
        -------
        ndarray of shape (d, d)
            In the order of the columns.
        """
        numbers = self.locations[:, self._numbers]
        centred = numbers - self._share @ numbers
        found: NDArray[np.float64] = (centred * self._share[:, None]).T @ centred
        return found

    def sample(self, n: int, *, seed: int | None = None) -> Any:
        """Draw rows from the points, by systematic resampling: synthetic data.

        Parameters
        ----------
        n : int
            How many.
        seed : int, optional
            For rows that can be drawn again. It protects nothing, nor needs to.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            As `points`, without weights.
        """
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ArgumentError(f"n={n!r} is not a whole number from 1.", "Say how many rows to draw.")
        rng = np.random.default_rng(seed)
        at = np.searchsorted(np.cumsum(self._share), (np.arange(n) + rng.random()) / n)
        drawn = self.locations[rng.permutation(np.minimum(at, self.support - 1))]
        return self._table(decoded(self._space.columns, drawn))

    def marginal(self, columns: Sequence[str]) -> WeightedPoints:
        """Drop all columns but some.

        Parameters
        ----------
        columns : list of str
            The columns to keep.

        Returns
        -------
        WeightedPoints
            The same weights at the points without the other columns. It has no noisy embedding of its own.
        """
        known = [column.name for column in self._space.columns]
        if isinstance(columns, str) or not columns or not set(columns) <= set(known):
            raise ArgumentError(f"columns={columns!r} are not among {known!r}.", "Give a list of some of them.")
        return self._restricted([known.index(name) for name in columns], self.weights, ())

    def _restricted(self, kept: list[int], weights: NDArray[np.float64], notes: tuple[str, ...]) -> WeightedPoints:
        return WeightedPoints(
            space={
                **self.space,
                "columns": [self.space["columns"][i] for i in kept],
                "anchors": np.zeros((0, 0)),
                "map": np.zeros((0, 0)),
            },
            locations=self.locations[:, kept],
            weights=weights,
            notes=notes,
            privacy=self.privacy,
            library=self.library,
        )

    def two_sample(self, other: object) -> TwoSample:  # noqa: ARG002
        """Refuse: without the law of the noise, a test would find it significant.

        Parameters
        ----------
        other : mapping or KME
            The other sample.
        """
        raise ArgumentError(
            "Weighted points alone do not say how noisy they are.",
            "Test with the release that they came from.",
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw the points, areas by weight; the distribution function where there is one column.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        ax = axes(ax)
        names = [column.name for column in self._space.columns]
        if len(names) == 1:
            order = np.argsort(self.locations[:, 0])
            ax.step(self.locations[order, 0], np.cumsum(self.weights[order]), where="post")
            ax.set(xlabel=names[0], ylabel="share of rows up to here")
            return ax
        x, y = (self._numbers + [i for i in range(len(names)) if i not in self._numbers])[:2]
        size = 400 * np.abs(self.weights) / max(np.abs(self.weights).max(), 1e-300)
        colours = np.where(self.weights < 0, "tab:red", "tab:blue")
        ax.scatter(self.locations[:, x], self.locations[:, y], s=size, c=colours, alpha=0.5)
        ax.set(xlabel=names[x], ylabel=names[y], title="red: negative weight" if (self.weights < 0).any() else "")
        return ax

    def save(self, path: str | Path) -> None:
        """Write everything to a file, as JSON that any program can read.

        Parameters
        ----------
        path : str or Path
            The file.
        """
        Path(path).write_text(json.dumps(self.to_dict(), allow_nan=False), encoding="utf-8")

    @staticmethod
    def load(path: str | Path) -> WeightedPoints:
        """Read what `save` wrote.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        WeightedPoints or KME
            The same release.
        """
        try:
            found: Release | None = Release.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
        except (ValueError, AttributeError):
            found = None
        if not isinstance(found, WeightedPoints):
            raise ArgumentError(f"{str(path)!r} is not a saved embedding.", "Give the file that save() wrote.")
        return found


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
