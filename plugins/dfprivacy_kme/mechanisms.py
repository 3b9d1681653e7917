"""``view.kme_release`` publishes a kernel mean embedding, and ``view.kme_exponential`` a small synthetic table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np
import scipy

from dfprivacy import ArgumentError, NanPolicy, Range, mechanism
from dfprivacy.features import Count, Fourier, Given, Nystrom, ProductKernel, Stack, gaussian_frequencies, spread
from dfprivacy.schema import UNDECLARED
from dfprivacy.statistics import OfSums, gaussian_scale
from dfprivacy_kme.embedding import Space, encode_rows
from dfprivacy_kme.fitting import absolute, hull_projection, shrunk
from dfprivacy_kme.points import WeightedPoints
from dfprivacy_kme.release import KME, grid_rows, is_coarse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy import Column, Curator, NoisyValue
    from dfprivacy.features import RowFeatures

__all__ = [
    "Closeness",
    "classical_scale",
    "classical_share",
    "fit_release",
    "kme_exponential",
    "kme_release",
    "plan_release",
]

_REFERENCE_SENSITIVITY = 2.0  # by which the reference says that a row moves the sum
_MIN_PART = 1e-9  # part of a price
_MAX_CLASSICAL_EPSILON = 1.0  # epsilon for which the classical calibration is proved


def classical_scale(epsilon: float, delta: float) -> float:
    r"""Return the classical noise :math:`\sqrt{2 \ln(1.25/\delta)}/\varepsilon` for a sensitivity of 1.

    It is proved for an epsilon below 1 only, and too small for many above: see docs/papers/balog2018.md.
    """
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def classical_share(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the share (at most 1) of epsilon and delta whose analytic noise is the classical for sensitivity 2.

    Parameters
    ----------
    epsilon, delta : float
        The price.
    sensitivity : float
        How far one row moves the sum in L2, in truth.

    Returns
    -------
    float
        The part, of epsilon and of delta.

    Raises
    ------
    ArgumentError
        If the calibration is not proved there.
    """
    if not delta:
        raise ArgumentError('calibration="classical" needs Gaussian noise.', "Give a delta above 0.")
    if epsilon > _MAX_CLASSICAL_EPSILON:
        raise ArgumentError(
            f"The classical calibration is proved for an epsilon up to 1, not for epsilon={epsilon:g}.",
            'Use calibration="analytic", which is proved for every epsilon and adds less noise.',
        )
    noise = _REFERENCE_SENSITIVITY * classical_scale(epsilon, delta)

    def excess_noise(part: float) -> float:
        return sensitivity * gaussian_scale(part * epsilon, part * delta) - noise

    return 1.0 if excess_noise(1.0) >= 0 else float(scipy.optimize.brentq(excess_noise, _MIN_PART, 1.0, xtol=1e-15))


Features: TypeAlias = Literal["subspace", "fourier"]
Represent: TypeAlias = Literal["hull", "weights", "l1", "bayes"]
Calibration: TypeAlias = Literal["analytic", "classical"]

_POINTS, _POINTS_MAX = 256, 4096
_MIN_KERNEL_WIDTH = 1e-6  # distance of two rows, of √2 at most, below which no noise leaves anything to be seen
_MIN_CAPTURED = 0.9  # mean squared length of the features of rows within the bounds
_MIN_COUNT_SDS = 5.0  # standard deviations by which a noisy number of rows must exceed 0
_LARGE_NOISE = 0.1  # noise in one coordinate, beside features of length 1, that leaves little to be seen


@dataclass(frozen=True)
class MeasuredEmbedding:
    """Measurement of `kme_release`: the noisy mean feature, with public facts about it.

    Attributes
    ----------
    beta : ndarray of shape (F,)
        The mean, of complete rows.
    noise : float
        Standard deviation of the noise in each coordinate.
    laplace : bool
        Whether the noise is Laplace; if not, Gaussian.
    size : float
        Number of complete rows; noisy where that is private.
    count_noise : float or None
        Standard deviation of the noise in it; None where no row is left out.
    rows : int
        Number of all rows.
    space : Space
        The kernel and the map.
    public : ndarray of shape (M, columns) or None
        The public sample.
    defect : float
        How far the computed basis is from orthonormal.
    """

    beta: NDArray[np.float64]
    noise: float
    laplace: bool
    size: float
    count_noise: float | None
    rows: int
    space: Space
    public: NDArray[np.float64] | None = None
    defect: float = 0.0


@mechanism(columns={"columns": ["numeric"], "categories": ["category"]}, tables=["points"], delta=True)
def kme_release(
    curator: Curator,
    columns: Sequence[Column],
    *,
    categories: Sequence[Column] | None = None,
    lengthscale: float | Mapping[str, float] | None = None,
    gamma: Annotated[float, Range(0, exclusive="low")] | None = None,
    mismatch: float | Mapping[str, float] = 0.5,
    features: Features = "subspace",
    points: Mapping[str, Sequence[Any]] | Any = None,
    n_points: Annotated[int, Range(1, _POINTS_MAX)] | None = None,
    represent: Represent = "hull",
    calibration: Calibration = "analytic",
    nan_policy: NanPolicy = "omit",
) -> MeasuredEmbedding:
    r"""Publish a table as a kernel mean embedding: weighted points, and the noisy mean feature behind them.

    Parameters
    ----------
    columns : list of str
        Columns with bounds. Rows are clipped to them.
    categories : list of str, optional
        Columns with categories that are published with them.
    lengthscale : float or dict of str to float, optional
        Lengthscale of the Gaussian kernel, in the column's units. Default: the width of each column's bounds times
        the square root of an eighth of the number of columns.
    gamma : float, optional
        The same for all columns as :math:`\exp(-\gamma |x - x'|^2)`.
    mismatch : float or dict of str to float
        What a different category leaves of the kernel, in [0, 1).
    features : {"subspace", "fourier"}
        The feature map. ``"subspace"``: the span of kernels at public points (Algorithm 1 of the reference).
        ``"fourier"``: cosines and sines (its Algorithm 2).
    points : frame or dict of str to list, optional
        A public sample, with each column: the subspace's points. Default: points that cover the bounds evenly.
    n_points : int, optional
        How many points, or frequencies, where none are given.
    represent : {"hull", "weights", "l1", "bayes"}
        How points are fitted. ``"hull"``: the closest distribution on points anywhere within the bounds.
        ``"weights"``: weights of either sign at the subspace's points, as in Algorithm 1. ``"l1"``: the same with
        absolute weights that add up to 1 at most (Theorem 11); of other features than the subspace's, at points
        anywhere within the bounds (the reduced set of Algorithm 2). ``"bayes"``: the embedding is first drawn
        towards that of `points`, which must be a sample of the same population; then as ``"hull"``.
    calibration : {"analytic", "classical"}
        ``"classical"``: as much Gaussian noise as the reference adds, at an epsilon up to 1. So much noise costs
        less than the price, and what is charged is what it costs. For comparisons; the default has half the noise.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows in which a value is missing. ``"omit"``: they are left out, and how many are left is
        measured with the features. ``"fill"``: the fill value of the column, counted as data. ``"raise"``: they are
        refused, of public columns.

    Returns
    -------
    KME
        ``points``, ``embedding``, ``expectation(f)``, ``mean()``, ``sample(n)``, ``mmd(other)`` and more.

    Raises
    ------
    ArgumentError
        If an argument cannot be used, or the number of rows is private; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** (ε, δ)-differential privacy where a row changes and the number of rows is public; pure ε if δ is 0.
    The sum of the rows' features is released with discrete Gaussian noise for its L2 sensitivity, at most √2 for a
    kernel in [0, 1] and 2 for Fourier features, and less over bounds that are narrow beside the kernel; with
    Laplace noise for the L1 sensitivity if δ is 0. Where rows with a missing value are left out, the number of the
    others is one more coordinate: a row that vanishes moves all by √2 at most, as far as rows are apart over wide
    bounds. The computed basis is orthonormal up to a defect that is
    bounded and charged. All else is post-processing.

    **Statistics.** The noise has length :math:`\sigma\sqrt F`; the projection to the hull removes more than half of
    it. That fit of points is no smooth function of the sums, so it is outside of the engine of noisy sums.

    References
    ----------
    .. [1] M. Balog, I. Tolstikhin, B. Schölkopf. Differentially private database release via kernel mean
       embeddings. ICML 2018.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": np.linspace(20, 60, 5000), "bmi": np.linspace(20, 35, 5000)})
    >>> view = dp.protect(df, "kme-example", epsilon=1, delta=1e-6, ledger="memory:",
    ...                   bounds={"age": (0, 100), "bmi": (10, 50)})
    >>> found = view.kme_release(["age", "bmi"], epsilon=1)
    >>> abs(found.mean()["age"] - 40) < 2
    True
    """
    rows = curator.size
    if rows is None:
        raise ArgumentError(
            "A kernel mean embedding needs a public number of rows, and the number is private here.",
            'Protect the table with neighbors="replace_one", and select rows by public columns only.',
        )
    if rows < 1:
        raise ArgumentError(
            "The table has no rows, so there is nothing to publish.", "Use a table with at least one row."
        )
    named = (*columns, *(categories or ()))
    kernel = ProductKernel(named, _lengthscales(columns, lengthscale, gamma), mismatch)
    if kernel.distance() < _MIN_KERNEL_WIDTH:
        raise ArgumentError(
            "With this lengthscale the kernel hardly tells rows apart: the largest kernel distance is "
            f"{kernel.distance():.2g}.",
            "Use a smaller lengthscale, nearer to the width of the bounds.",
        )
    public = None if points is None else kernel.check(encode_rows(named, points, "points"))
    psi = _feature_map(curator, kernel, features, represent, public, n_points)
    noise: Literal["gaussian", "laplace"] = "gaussian" if curator.delta else "laplace"
    wider = 1.0 if curator.delta else math.sqrt(2)  # the standard deviation of Laplace noise, in its scale

    def noisy(features: RowFeatures) -> NoisyValue:
        agreed = frozenset(column.name for column in features.columns if column.public)
        moves = features.sensitivity(curator.neighbors, 2, agreed)
        if calibration == "analytic" or not moves:
            return curator.sum(features, noise=noise)
        share = classical_share(curator.epsilon, curator.delta, moves)
        return curator.sum(features, noise=noise, share=share, then="gaussian")

    gaps, size, count_noise = _required_columns(curator, kernel, nan_policy), float(rows), None
    if not gaps:
        total = noisy(psi)
    elif all(column.public for column in gaps):
        size, count_noise = float(curator.sum(Given(*gaps)).values[0]), 0.0
        if size < 1:
            raise ArgumentError(
                "Every row has a missing value, so there is nothing to publish.", 'Use nan_policy="fill".'
            )
        total = noisy(Given(*gaps, of=psi))
    else:
        total, count = noisy(Given(*gaps, of=Stack(psi, Count()))).parts
        size, count_noise = max(1.0, float(count.values[0])), float(count.scales[0]) * wider
    weights = np.broadcast_to(psi.weights, psi.shape)
    return MeasuredEmbedding(
        beta=(total.values * weights).ravel() / size,
        noise=float((total.scales * weights).max()) / size * wider,
        laplace=noise == "laplace",
        size=size,
        count_noise=count_noise,
        rows=rows,
        space=Space.from_kernel(psi, kernel),
        public=public,
        defect=psi.defect if isinstance(psi, Nystrom) else 0.0,
    )


@kme_release.concludes
def _(measured: MeasuredEmbedding, *, represent: Represent) -> KME:
    """Compute the release by fitting weighted points to the noisy mean feature."""
    return fit_release(measured, represent)


def _required_columns(curator: Curator, kernel: ProductKernel, nan_policy: NanPolicy) -> tuple[Column, ...]:
    """Return the columns in which a row must have a value, by the policy for missing values."""
    gaps = tuple(column for column in kernel.columns if not column.filled)
    if nan_policy == "raise":
        curator.refuse_missing(*gaps)
    return gaps if nan_policy == "omit" else ()


def _lengthscales(
    columns: Sequence[Column], lengthscale: float | Mapping[str, float] | None, gamma: float | None
) -> float | Mapping[str, float]:
    if lengthscale is not None and gamma is not None:
        raise ArgumentError(
            "lengthscale= and gamma= exclude each other.",
            "Omit one of the two arguments: gamma is 1 / (2 lengthscale²).",
        )
    if gamma is not None:
        return 1 / math.sqrt(2 * gamma)
    if lengthscale is not None:
        return lengthscale
    return {column.name: 2 * column.half * math.sqrt(len(columns) / 8) for column in columns}


def _feature_map(
    curator: Curator,
    kernel: ProductKernel,
    features: Features,
    represent: Represent,
    public: NDArray[np.float64] | None,
    n_points: int | None,
) -> Nystrom | Fourier:
    """Choose the feature map of `kme_release` from public numbers."""
    if represent == "weights" and features != "subspace":
        raise ArgumentError('represent="weights" needs features spanned by points.', 'Use features="subspace".')
    if represent == "bayes" and (public is None or len(public) < 2):  # noqa: PLR2004
        raise ArgumentError('represent="bayes" needs a public sample.', "Give at least two rows as points=.")
    if public is not None and (n_points is not None or features == "fourier"):
        raise ArgumentError(
            'points= is for features="subspace" only, and cannot be combined with n_points=.',
            'Omit n_points=, and use features="subspace".',
        )
    # What noise drowns is not worth a coordinate. For this, a rough sigma will do.
    rough = (
        2
        * math.sqrt(math.log(1.25 / curator.delta) if curator.delta else 1.0)
        / ((curator.size or 1) * curator.epsilon)
    )
    tolerance = min(max(0.01 * rough**2, 1e-10), 1e-3)
    if features == "subspace":
        anchors = spread(kernel.columns, n_points or _POINTS) if public is None else public
        return Nystrom(kernel, anchors, tolerance)
    if kernel.categories:
        raise ArgumentError(f"features={features!r} needs numeric columns.", 'Use features="subspace".')
    m = n_points or min(1000, 125 * len(kernel.numbers))
    return Fourier(kernel.columns, gaussian_frequencies(kernel.lengthscales, m))


def fit_release(measured: MeasuredEmbedding, represent: Represent) -> KME:
    """Return the result of `kme_release`: the noisy mean feature, and weighted points fitted to it."""
    space, beta, sigma, public = measured.space, measured.beta, measured.noise, measured.public
    gap, fits = 1e-3 * sigma**2, sigma**2 * len(beta)  # what noise alone leaves of the distance, on average
    if represent == "weights":
        locations, w = space.anchors, space.map.T @ beta
    elif represent == "l1" and space.basis == "subspace":
        locations, w = space.anchors, absolute(space.features(space.anchors), beta, min(gap, 1e-3))
    else:
        candidates = (
            grid_rows(space) if public is None or represent == "l1" else np.vstack([public, grid_rows(space)])
        )
        target = beta
        if represent == "bayes" and public is not None:
            target = shrunk(space.features(public), beta, sigma)
        signed = represent == "l1"
        locations, w = hull_projection(
            space.features, candidates, target, gap, space.columns, signed=signed, fits=fits
        )
    left = w @ space.features(locations) - beta
    return KME(
        space=space.as_json(),
        locations=locations,
        weights=w,
        notes=_notes(measured),
        beta=beta,
        noise_standard_error=sigma,
        noise_kind="none" if sigma == 0 else "laplace" if measured.laplace else "gaussian",
        size=measured.size,
        missing=None if measured.count_noise is None else measured.rows - measured.size,
        missing_standard_error=measured.count_noise,
        represent=represent,
        defect=measured.defect,
        objective=float(left @ left),
    )


def _notes(measured: MeasuredEmbedding) -> tuple[str, ...]:
    notes, space = [], measured.space
    if measured.size < _MIN_COUNT_SDS * (measured.count_noise or 0.0):
        notes.append(
            f"Complete rows are too few for the noise in their number: the release is unreliable. {UNDECLARED}"
        )
    seen = float((space.features(grid_rows(space)) ** 2).sum(axis=1).mean())
    if seen < _MIN_CAPTURED:
        notes.append(
            f"The features capture {seen:.0%} of a row's squared length on average over the bounds. "
            "Use a larger lengthscale or more points to capture more."
        )
    if is_coarse(space):
        notes.append(
            "The bounds are many lengthscales wide: intervals are valid for functions that are smooth between the "
            "8,192 rows at which they are evaluated. A wider kernel, or narrower bounds, would need fewer."
        )
    if measured.noise >= _LARGE_NOISE:
        notes.append(
            f"The noise in each feature, {measured.noise:.2g}, is large compared with the length 1 of a feature "
            f"vector: {measured.size:.0f} rows are few at this epsilon."
        )
    if len(measured.beta) < 3:  # noqa: PLR2004
        notes.append(f"The release has only {len(measured.beta)} features: use more points for more features.")
    return tuple(notes)


def plan_release(curator: Curator, *_: Any, **__: Any) -> Mapping[str, Any]:
    """Return the standard deviation of the noise in the embedding, from public numbers; for ``explain``."""
    size = curator.size
    if not size:
        return {}
    noise = curator.measured[-1]
    sd = noise.scale * (math.sqrt(2) if "Laplace" in noise.kind else 1.0) / size
    return {"standard deviation of the noise in the mean of a function of RKHS norm 1": sd}


_CHOSEN_POINTS, _CHOSEN_ROWS = 12, 3
_TABLES_MAX = 1 << 14
_ROUNDING = 2.0**-50
_ROWS_MAX = 2.0**32  # for which the rounding is charged
_INTERVAL_MISS = 0.05


class Closeness(OfSums):
    r"""Scores of candidate tables: negative distances :math:`-\|\sum_n \psi(x_n) - N \bar\psi_R\|` from the data.

    ψ is the kernel's feature, projected to the span of the points that R is made of, and N the number of complete
    rows. A row that changes moves each score by the distance of two features at most; one that comes, goes, or
    loses a value by that of a feature from a mean of features, which is no more.
    """

    def __init__(self, psi: Nystrom, points: NDArray[np.float64], size: int, gaps: Sequence[Column]) -> None:
        self.psi, self.gaps = psi, tuple(gaps)
        counted = Stack(psi, Count())
        self.features = Given(*gaps, of=counted) if gaps else counted
        self.columns = self.features.columns
        self.places = np.array(list(combinations_with_replacement(range(len(points)), size)))
        self.means = psi.features(points)[self.places].mean(axis=1)
        self.shape = (len(self.places),)
        self.error = _ROWS_MAX * _ROUNDING * (psi.dimension + size)

    def value(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the score of each candidate table."""
        total, rows = np.ravel(sums)[:-1], np.ravel(sums)[-1]
        scores: NDArray[np.float64] = -np.linalg.norm(total - rows * self.means, axis=1)
        return scores

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:
        """Return the sensitivity of the vector of scores: the largest change by one row, in the given norm."""
        stays = relation == "replace_one" and all(column.name in public for column in self.gaps)
        farthest = self.psi.diameter(2, public if stays else frozenset())
        farthest += math.sqrt(self.psi.dimension) * self.psi.error if farthest else 0.0
        return farthest * (1.0 if norm == math.inf else self.dimension ** (1 / norm))

    def describe(self) -> str:
        """Return a description of the statistic."""
        return f"the closeness of {self.dimension} synthetic tables ({self.psi.kernel.describe()})"


@mechanism(columns={"columns": ["numeric"], "categories": ["category"]}, tables=["points"])
def kme_exponential(
    curator: Curator,
    columns: Sequence[Column],
    *,
    categories: Sequence[Column] | None = None,
    lengthscale: float | Mapping[str, float] | None = None,
    mismatch: float | Mapping[str, float] = 0.5,
    points: Mapping[str, Sequence[Any]] | Any = None,
    n_points: Annotated[int, Range(1, 4096)] | None = None,
    n_rows: Annotated[int, Range(1, 12)] = _CHOSEN_ROWS,
    nan_policy: NanPolicy = "omit",
) -> WeightedPoints:
    r"""Select a small synthetic table with an embedding close to the private one, by the exponential mechanism.

    Parameters
    ----------
    columns : list of str
        Columns with bounds. Rows are clipped to them.
    categories : list of str, optional
        Columns with categories that are published with them.
    lengthscale : float or dict of str to float, optional
        As for `kme_release`.
    mismatch : float or dict of str to float
        What a different category leaves of the kernel, in [0, 1).
    points : frame or dict of str to list, optional
        Public rows that a synthetic table may have, each any number of times. Default: points that cover the
        bounds evenly.
    n_points : int, optional
        How many points, where none are given; default: 12.
    n_rows : int
        Rows of the synthetic table.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows in which a value is missing, see `kme_release`. To leave them out costs nothing here.

    Returns
    -------
    WeightedPoints
        The synthetic table, its different rows by their shares.

    Raises
    ------
    ArgumentError
        If an argument cannot be used, or there are more than 16,384 synthetic tables; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy, for any neighbouring relation, and also where the number of rows is
    private. All synthetic tables are scored, and one is drawn exactly: by permute-and-flip, which is never worse
    than the exponential mechanism of the reference, or by that where it composes better.

    **Statistics.** The distance of the choice from the table's embedding is above the least there is by more than
    :math:`2\Delta \ln(20\,T)/(\varepsilon N)` in 5% of cases at most, of T tables, with Δ at most √2,
    and somewhat more for rounding where the number of rows is private. A dozen points and three rows are a coarse
    picture: `kme_release` is far closer at the same price, unless ε N is small.

    References
    ----------
    .. [1] M. Balog, I. Tolstikhin, B. Schölkopf. Differentially private database release via kernel mean
       embeddings. ICML 2018. Section 3.4.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> view = dp.protect(pd.DataFrame({"age": np.linspace(60, 80, 5000)}), "kme-exponential-example", epsilon=1,
    ...                   ledger="memory:", bounds={"age": (0, 100)})
    >>> synthetic = view.kme_exponential(["age"], points={"age": [10, 30, 50, 70, 90]}, n_rows=2, epsilon=1)
    >>> synthetic.mean()
    {'age': 70.0}
    """
    named = (*columns, *(categories or ()))
    kernel = ProductKernel(named, _lengthscales(columns, lengthscale, None), mismatch)
    if points is not None and n_points is not None:
        raise ArgumentError("points= and n_points= exclude each other.", "Omit one of the two arguments.")
    rows = (
        spread(kernel.columns, n_points or _CHOSEN_POINTS)
        if points is None
        else kernel.check(encode_rows(named, points, "points"))
    )
    rows = np.unique(rows, axis=0)
    tables = math.comb(len(rows) + n_rows - 1, n_rows)
    if tables > _TABLES_MAX:
        raise ArgumentError(
            f"{len(rows)} points give {tables:,} candidate tables of {n_rows} rows, too many to score.",
            f"Use fewer points or rows, for at most {_TABLES_MAX:,} tables, or use kme_release().",
        )
    gaps, psi = _required_columns(curator, kernel, nan_policy), Nystrom(kernel, rows)
    scores = Closeness(psi, rows, n_rows, gaps)
    (best,) = curator.select(scores)
    notes: tuple[str, ...] = ()
    if not gaps and curator.size:
        reach = scores.sensitivity(curator.neighbors, math.inf, frozenset())
        more = 2 * reach * math.log(tables / _INTERVAL_MISS) / (curator.epsilon * curator.size)
        closest = f"no other of the {tables:,} candidate tables is closer to the embedding by more than {more:.2g}"
        notes = (f"With probability 95%, {closest}.",)
    places, times = np.unique(scores.places[best], return_counts=True)
    return WeightedPoints(
        space=Space.from_kernel(psi, kernel).as_json(),
        locations=rows[places],
        weights=times / n_rows,
        notes=notes,
    )
