"""Released kernel mean embeddings: estimates from them, and two-sample tests between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import ndtri

from dfprivacy import ArgumentError, Release
from dfprivacy.features import spread
from dfprivacy.schema import as_number, as_probability
from dfprivacy.wording import number
from dfprivacy_kme.embedding import Space, decode_rows
from dfprivacy_kme.points import Expectation, Means, TwoSample, WeightedPoints

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy_kme.embedding import Space

__all__ = ["KME", "Expectation", "Sample", "grid_rows", "is_coarse", "null_distances", "pooled_population"]

_RIDGES = np.geomspace(1e-14, 1e4, 55)
_DRAWS, _DRAWS_SEED = 4999, 20_180_710  # public: it makes p-values reproducible
_SMALL, _UNEQUAL = 0.01, 10.0
_RARE_NOTE = (
    "One sample has more than ten times the rows of the other: if the samples differ in a few rows with rare "
    "values, a "
    "p-value below 1% may be too small. proportions() and chi2() count such rows."
)
_FEWEST, _MANY_ROWS, _MOST = 1 << 10, 1 << 12, 1 << 13  # public rows
_GRID_STRETCH = 1.06
_NO_DISTANCE = 1e-6  # squared, below which points have the noisy embedding
_ROUNDED = 0.005
_MIN_WEIGHT_SDS = 5  # of the noise's standard deviation, below which a conditional says little


@dataclass(frozen=True, kw_only=True, repr=False)
class KME(WeightedPoints):
    """Private kernel mean embedding: the noisy mean feature of the rows, and weighted points that represent it.

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
    noise_standard_error : float
        Standard deviation of the noise in each of its coordinates.
    noise_kind : {"gaussian", "laplace", "none"}
        The law of the noise.
    size : float
        Number of rows that it is the mean of; noisy where it is private which rows are complete.
    missing, missing_standard_error : float or None
        Rows left out because a value is missing, and the noise in their number and in `size`; None where nothing
        was left out by the policy.
    represent : str
        How the points were fitted.
    defect : float
        How far the computed basis is from orthonormal; it is charged.
    objective : float
        Squared distance of the points from the noisy embedding; F squared standard errors of it are noise.
    covers : {"limited table"}
        Intervals of means and expectations are for the table's own rows, limited to the bounds.
    notes : tuple of str
        What to know before trusting the numbers.
    """

    beta: NDArray[np.float64]
    noise_standard_error: float
    noise_kind: Literal["gaussian", "laplace", "none"]
    size: float
    missing: float | None = None
    missing_standard_error: float | None = None
    represent: str
    defect: float
    objective: float
    covers: str = "limited table"

    _shown = (
        *("size", "missing", "missing_standard_error", "support", "dimension", "noise_standard_error"),
        *("represent", "objective", "notes"),
    )

    def _sentence(self) -> str:
        """Write a sentence on what the points represent, and how accurately."""
        means = "weighted means of smooth functions approximate those of the rows"
        error = number(self.noise_standard_error, self.noise_standard_error)
        sure = f"standard error {error} of privacy noise, for a function of norm 1 in the kernel's space"
        total = float(self.weights.sum())
        signs = ", and some are negative" if (self.weights < 0).any() else ""
        weights = f" The weights sum to {total:.2f}{signs}." if signs or abs(total - 1) >= _ROUNDED else ""
        return f"{super()._sentence().removesuffix('.')}: {means} ({sure}).{weights}"

    def _rows(self) -> list[tuple[str, str]]:
        """Return the facts, with the objective in words unless it is 0 but for rounding."""
        rows = dict(super()._rows())
        rows["objective"] = f"{self.objective:.2g}: squared distance of the points from the noisy embedding"
        if self.objective < _NO_DISTANCE:
            del rows["objective"]
        return list(rows.items())

    @property
    def dimension(self) -> int:
        """Number of features F."""
        return len(self.beta)

    @property
    def embedding(self) -> tuple[NDArray[np.float64], float]:
        """Noisy mean feature of the rows, and the standard deviation of the noise in each of its coordinates."""
        return self.beta, self.noise_standard_error

    def deviation(self, rows: object) -> NDArray[np.float64]:
        """Return the standard deviation of the noise in the embedding's values at public rows.

        Parameters
        ----------
        rows : frame or mapping of str to sequence
            Public rows.

        Returns
        -------
        ndarray of shape (rows,)
            At most `noise_standard_error`, and √2 times that where the number of rows is noisy.
        """
        psi = self._feature_space.features(self._encoded_rows(rows))
        deviation: NDArray[np.float64] = np.hypot(
            self.noise_standard_error * np.linalg.norm(psi, axis=1), self._count_error * (psi @ self.beta)
        )
        return deviation

    @property
    def _count_error(self) -> float:
        """Standard deviation of the noise in the number of rows, relative to that number."""
        return (self.missing_standard_error or 0.0) / self.size

    def expectation(self, f: Callable[[dict[str, NDArray[Any]]], Any], *, confidence: float = 0.95) -> Expectation:
        r"""Estimate the mean of a function over the rows, with a confidence interval for the noise.

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
        public numbers only, the coverage is at least nominal. The first term is the largest over a grid with some
        four points to a lengthscale, so the interval is for rows between which f does not jump unseen. It is about
        the mean over the rows of the table; a population's has a sampling error besides.
        """
        confidence = as_probability(confidence, "confidence")
        at = grid_rows(self._feature_space)
        values, at_points = np.split(self._function_values(f, np.vstack([at, self.locations])), [len(at)])
        return self._estimate_mean(values, at_points, confidence)

    def mean(self, *, confidence: float = 0.95) -> Means:
        """Return the means of the numeric columns over the rows, with confidence intervals for the noise.

        Parameters
        ----------
        confidence : float
            Coverage of each interval, over the noise.

        Returns
        -------
        Means
            A dictionary of numbers by column, and their ``intervals``, those of `expectation`.

        Raises
        ------
        ArgumentError
            If some weights are negative: such points have no means.
        """
        confidence = as_probability(confidence, "confidence")
        _ = self._normalized_weights
        at = grid_rows(self._feature_space)
        return Means(
            {
                self._feature_space.columns[i].name: self._estimate_mean(at[:, i], self.locations[:, i], confidence)
                for i in self._numeric_columns
            },
            confidence,
        )

    @cached_property
    def _grid_features(self) -> tuple[NDArray[np.float64], ...]:
        """Features of the public rows that `grid_rows` returns, and their singular value decomposition."""
        psi = self._feature_space.features(grid_rows(self._feature_space))
        return psi, *np.linalg.svd(psi, full_matrices=False)

    def _estimate_mean(
        self, values: NDArray[np.float64], at_points: NDArray[np.float64], confidence: float
    ) -> Expectation:
        """Estimate the mean of a function over the rows, from its values on `grid_rows` and at the points."""
        centre = (float(values.min()) + float(values.max())) / 2
        psi, left, s, right = self._grid_features
        projected = left.T @ (values - centre)
        path = np.array([right.T @ (s / (s**2 + ridge) * projected) for ridge in _RIDGES] + [0 * self.beta])
        rest = np.abs(psi @ path.T + centre - values[:, None]).max(axis=0)
        # A number of rows that is off by a part moves a'β by that part: of a'ψ at most, of public rows.
        counted = np.abs(psi @ path.T).max(axis=0)
        noise = np.array([self._noise_bound(a, top, confidence) for a, top in zip(path, counted, strict=True)])
        best = int(np.argmin(rest + noise))  # chosen by public numbers: the points are not among them
        a, seen = path[best], self._feature_space.features(self.locations)
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

    def _function_values(
        self, f: Callable[[dict[str, NDArray[Any]]], Any], rows: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        by_column = {
            name: np.array(values) for name, values in decode_rows(self._feature_space.columns, rows).items()
        }
        values = np.asarray(f(by_column), dtype=np.float64)
        if values.shape != (len(rows),) or not np.isfinite(values).all():
            raise ArgumentError(
                f"f must return {len(rows)} finite numbers; it returned an array of shape {values.shape}.",
                'Return one number for each row: lambda rows: rows["age"] ** 2.',
            )
        return values

    def _noise_bound(self, a: NDArray[np.float64], counted: float, confidence: float) -> float:
        """Return a bound of the noise in a'β, exceeded with a probability of at most 1 - `confidence`."""
        errors = np.append(self.noise_standard_error * a, self._count_error * counted)
        if self.noise_kind != "laplace":
            return float(ndtri((1 + confidence) / 2)) * float(np.linalg.norm(errors))
        v = errors**2 / 2  # squared scales
        if not v.max() > 0:
            return 0.0
        s = np.linspace(0.01, 0.99, 99) / math.sqrt(v.max())
        bounds = (math.log(2 / (1 - confidence)) - np.log1p(-np.outer(s**2, v)).sum(axis=1)) / s
        return float(bounds.min())

    def mmd(self, other: object) -> float:
        """Estimate the squared MMD between the released rows and other rows, corrected for the noise.

        Parameters
        ----------
        other : frame, mapping of str to sequence, or KME
            Public rows, or a release with the same kernel.

        Returns
        -------
        float
            Unbiased over the noise, so it can be negative.
        """
        mine, others, _ = self._samples_in_common_space(other)
        difference = mine.embedding - others.embedding
        return float(difference @ difference) - mine.squared_noise - others.squared_noise

    def two_sample(self, other: object, *, alpha: float = 0.05) -> TwoSample:
        """Test whether other rows, or another release's rows, come from the same population.

        Parameters
        ----------
        other : frame, mapping of str to sequence, or KME
            Public rows, or a release with the same kernel. What the feature maps of two releases have in common
            is compared.
        alpha : float
            Level of the decision.

        Returns
        -------
        TwoSample
            Statistic, p-value and decision.

        Notes
        -----
        A parametric bootstrap: under the null hypothesis both samples are drawn from one population, for which both
        embeddings' points stand, each by how well it is known; then comes the noise. The level is nominal as far as
        these points stand for the population. Those of a sample that is far smaller than the other may have one or
        two rows with rare values, or none: a p-value below 1% says so.
        """
        alpha = as_probability(alpha, "alpha")
        mine, others, space = self._samples_in_common_space(other)
        difference = mine.embedding - others.embedding
        statistic = float(difference @ difference)
        rng = np.random.default_rng(_DRAWS_SEED)
        psi, share = pooled_population(mine, others, space)
        extreme = int(np.sum(null_distances(mine, others, psi, share, _DRAWS, rng) >= statistic))
        pvalue = (1 + extreme) / (1 + _DRAWS)
        sizes = mine.size, others.size
        doubtful = pvalue < _SMALL and max(sizes) > _UNEQUAL * min(sizes)
        return TwoSample(statistic, pvalue, alpha, pvalue <= alpha, (_RARE_NOTE,) if doubtful else ())

    def _samples_in_common_space(self, other: object) -> tuple[Sample, Sample, Space]:
        """Return this embedding, and another one or that of public rows, as samples in a common feature space."""
        space = self._feature_space
        if isinstance(other, KME):
            space, mine, others = space.common_subspace(other._feature_space)  # noqa: SLF001 - of our own kind
            return self._as_sample(mine), other._as_sample(others), space  # noqa: SLF001
        if isinstance(other, Release):
            raise ArgumentError(
                "Weighted points have no known noise, which a comparison needs.",
                "Compare with the release that the points came from.",
            )
        rows = self._encoded_rows(other)
        points, counts = np.unique(rows, axis=0, return_counts=True)  # equal rows are one point
        public = Sample(space.features(rows).mean(axis=0), float(len(rows)), points, counts / len(rows))
        return self._as_sample(np.eye(self.dimension)), public, space

    def _as_sample(self, to_common: NDArray[np.float64]) -> Sample:
        share = np.maximum(self.weights, 0)
        return Sample(
            embedding=to_common @ self.beta,
            size=self.size,
            rows=self.locations,
            share=share / max(float(share.sum()), 1e-300),
            noise=self.noise_standard_error,
            count_noise=self._count_error,
            laplace=self.noise_kind == "laplace",
        )

    def conditional(self, given: Mapping[str, Any]) -> WeightedPoints:
        """Return the distribution of the other columns given values of some columns, as weighted points.

        Parameters
        ----------
        given : mapping of str to value
            For some of the columns, a category, or an interval ``(low, high)`` of numbers.

        Returns
        -------
        WeightedPoints
            Of the other columns. It is what `sample` has among rows with these values. Its notes say if too little
            was there to tell from noise.

        Raises
        ------
        ArgumentError
            If `given` is no such mapping, or no point has these values.
        """
        columns = self._feature_space.columns
        names = [column.name for column in columns]
        if not isinstance(given, dict) or not set(given) < set(names) or not given:
            raise ArgumentError(
                f"given={given!r} must name some of the columns {names!r}, not all.",
                "For example given={'age': (40, 50)}.",
            )
        share = self._normalized_weights
        chosen = np.ones(len(share), dtype=np.bool_)
        for name, value in given.items():
            at = names.index(name)
            low, high = coded_interval(columns[at], value)
            chosen &= (self.locations[:, at] >= low) & (self.locations[:, at] <= high)
        mass = float(share[chosen].sum())
        if not mass > 0:
            raise ArgumentError(
                f"No point has the values given={given!r}.", "Use a wider interval, or a more frequent category."
            )
        notes: tuple[str, ...] = ()
        if mass < _MIN_WEIGHT_SDS * self.noise_standard_error:
            notes = ("The points with the given values have little weight: their distribution is mostly noise.",)
        kept = [i for i, name in enumerate(names) if name not in given]
        return self._with_columns(kept, self.locations[chosen], share[chosen] / mass, notes)


def coded_interval(column: Column, value: object) -> tuple[float, float]:
    """Return the interval of numbers or of category codes that a condition on one column selects."""
    if column.bounds is None:
        code = float(column.code(value))
        return code, code
    if not isinstance(value, tuple | list) or len(value) != 2:  # noqa: PLR2004
        raise ArgumentError(
            f"given={{{column.name!r}: {value!r}}}: a numeric column needs an interval.",
            f"Give an interval, {{{column.name!r}: (low, high)}}.",
        )
    low, high = (as_number(end, column.name) for end in value)
    return low, high


def grid_rows(space: Space) -> NDArray[np.float64]:
    """Return a grid of public rows over all bounds and categories, with about four rows per lengthscale."""
    fewest = _FEWEST if len(space.columns) <= 3 else _MANY_ROWS  # noqa: PLR2004
    rows = spread(space.columns, min(max(rows_needed(space, 4), fewest), _MOST)).copy()
    for at, column in enumerate(space.columns):
        if column.bounds is not None:  # some lie on the bounds, where a function is seen least
            middle = column.low / 2 + column.high / 2
            rows[:, at] = np.clip(middle + _GRID_STRETCH * (rows[:, at] - middle), *column.bounds)
    return rows


def rows_needed(space: Space, to_lengthscale: int) -> int:
    """Return the number of rows of a grid with `to_lengthscale` rows per lengthscale."""
    kernel = space.kernel
    halves = np.array([kernel.columns[i].half for i in kernel.numbers])
    return math.prod(math.ceil(2 * to_lengthscale * wide) for wide in (halves / kernel.lengthscales).tolist())


def is_coarse(space: Space) -> bool:
    """Return whether the grid of `grid_rows` has fewer than two rows per lengthscale."""
    return rows_needed(space, 2) > _MOST


_BLOCK = 1 << 22  # numbers drawn at a time
_POINTS = 2000  # of a population, up to which samples are drawn point by point


@dataclass(frozen=True)
class Sample:
    """One of the two samples of a test: its mean embedding, the noise in it, and its number of rows.

    Attributes
    ----------
    embedding : ndarray of shape (F,)
        The mean feature, perhaps with noise.
    size : float
        Number of rows.
    rows, share : ndarray of shape (m, columns) and (m,)
        Points that stand for the rows, and the share of each.
    noise : float
        Standard deviation of the noise in each coordinate.
    count_noise : float
        Standard deviation of the noise in the number of rows, relative to it.
    laplace : bool
        Whether the noise is Laplace; if not, Gaussian.
    """

    embedding: NDArray[np.float64]
    size: float
    rows: NDArray[np.float64]
    share: NDArray[np.float64]
    noise: float = 0.0
    count_noise: float = 0.0
    laplace: bool = False

    @property
    def squared_noise(self) -> float:
        """Expected squared norm of the noise in the embedding."""
        squared = float(self.embedding @ self.embedding)
        return len(self.embedding) * self.noise**2 + self.count_noise**2 * squared


def pooled_population(one: Sample, other: Sample, space: Space) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return features of points that represent the pooled population of two samples, and their shares.

    Each sample counts by the inverse of the variance of its embedding, noise included: as one population would best
    be estimated.
    """
    psis = [space.features(each.rows) for each in (one, other)]
    means = [each.share @ psi for each, psi in zip((one, other), psis, strict=True)]
    traces = [
        float(each.share @ (psi**2).sum(axis=1)) - float(mean @ mean)
        for each, psi, mean in zip((one, other), psis, means, strict=True)
    ]
    rows = one.size + other.size
    spread = max(1e-12, (one.size * traces[0] + other.size * traces[1]) / rows)
    variances = [spread / each.size + each.squared_noise for each in (one, other)]
    weight = variances[1] / sum(variances)
    return np.vstack(psis), np.concatenate([weight * one.share, (1 - weight) * other.share])


def null_distances(
    one: Sample,
    other: Sample,
    psi: NDArray[np.float64],
    share: NDArray[np.float64],
    draws: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Draw squared distances between noisy embeddings of two samples from the same population."""
    centred = psi - share @ psi
    many = len(share) > _POINTS  # then means of rows are as good as normal
    root = np.linalg.qr(np.sqrt(share)[:, None] * centred, mode="r") if many else centred
    height = max(1, _BLOCK // len(share))
    distances = np.empty(draws)
    for start in range(0, draws, height):
        count = min(height, draws - start)
        difference = np.zeros((count, psi.shape[1]))
        for each, sign in ((one, 1), (other, -1)):
            size = max(1, round(each.size))
            if many:
                difference += rng.standard_normal((count, len(root))) @ root / math.sqrt(size)
            else:
                difference += sign * (rng.multinomial(size, share, size=count) / size - share) @ centred
            difference += _draw_noise(each, share @ psi, count, rng)
        distances[start : start + count] = (difference**2).sum(axis=1)
    return distances


def _draw_noise(
    sample: Sample, mean: NDArray[np.float64], count: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draw the noise in an embedding: of its coordinates, and of the number of rows."""
    draw = rng.laplace if sample.laplace else rng.normal
    unit = 1 / math.sqrt(2) if sample.laplace else 1.0
    noise: NDArray[np.float64] = np.zeros((count, len(mean)))
    if sample.noise:
        noise += draw(0.0, sample.noise * unit, size=noise.shape)
    if sample.count_noise:
        noise += draw(0.0, sample.count_noise * unit, size=(count, 1)) * mean
    return noise
