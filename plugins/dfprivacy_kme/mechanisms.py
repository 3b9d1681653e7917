"""``view.kme_release``: publish a table as a kernel mean embedding."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np
from scipy.special import pdtrc

from dfprivacy import ArgumentError, NanPolicy, Range, mechanism
from dfprivacy.features import Count, Fourier, Given, Nystrom, ProductKernel, Stack, gaussian_frequencies, spread
from dfprivacy.schema import UNDECLARED
from dfprivacy_kme.classical import part_of_the_price
from dfprivacy_kme.embedding import Space, coded
from dfprivacy_kme.fitting import absolute, hull, shrunk
from dfprivacy_kme.release import KME, coarse, grid
from dfprivacy_kme.taylor import Taylor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy import Column, Curator, NoisyValue
    from dfprivacy.features import RowFeatures

__all__ = ["findings", "kme_release"]

Features: TypeAlias = Literal["auto", "subspace", "taylor", "fourier"]
Represent: TypeAlias = Literal["hull", "weights", "l1", "bayes"]
Calibration: TypeAlias = Literal["analytic", "classical"]

_POINTS, _POINTS_MAX = 256, 4096
_TAYLOR_COLUMNS, _TAYLOR_REACH, _TAYLOR_DEGREE = 3, 5.0, 40
_TAYLOR_FEATURES = 2000
_ALIKE = 1e-6  # distance of two rows, of √2 at most, below which no noise leaves anything to be seen
_SEEN = 0.9  # mean squared length of the features of rows within the bounds
_TOLD = 5.0  # standard deviations by which a noisy number of rows must exceed 0
_LOUD = 0.1  # noise in one coordinate, beside features of length 1, that leaves little to be seen


@dataclass(frozen=True)
class Measured:
    """A noisy mean feature, and what is public about it.

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
    features : Nystrom, Taylor or Fourier
        The map.
    kernel : ProductKernel
        What it is a map of.
    public : ndarray of shape (M, columns) or None
        The public sample.
    """

    beta: NDArray[np.float64]
    noise: float
    laplace: bool
    size: float
    count_noise: float | None
    rows: int
    features: Nystrom | Taylor | Fourier
    kernel: ProductKernel
    public: NDArray[np.float64] | None


@mechanism(columns={"columns": ["numeric"], "categories": ["category"]}, tables=["points"], delta=True)
def kme_release(
    curator: Curator,
    columns: Sequence[Column],
    *,
    categories: Sequence[Column] | None = None,
    lengthscale: float | Mapping[str, float] | None = None,
    gamma: Annotated[float, Range(0, exclusive="low")] | None = None,
    mismatch: float | Mapping[str, float] = 0.5,
    features: Features = "auto",
    points: Mapping[str, Sequence[Any]] | Any = None,
    n_points: Annotated[int, Range(1, _POINTS_MAX)] | None = None,
    represent: Represent = "hull",
    calibration: Calibration = "analytic",
    nan_policy: NanPolicy = "omit",
) -> Measured:
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
    features : {"auto", "subspace", "taylor", "fourier"}
        The feature map. ``"subspace"``: the span of kernels at public points (Algorithm 1 of the reference).
        ``"fourier"``: cosines and sines (its Algorithm 2). ``"taylor"``: an exact basis, for few columns and wide
        kernels; ``"auto"`` takes it there, and else the subspace.
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

    **Statistics.** The noise has length :math:`\sigma\sqrt F`; the projection to the hull removes most of it.

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
            "A kernel mean embedding is a mean, and the number of rows is private here.",
            'Protect the table with neighbors="replace_one", and select rows by public columns only.',
        )
    if rows < 1:
        raise ArgumentError("The table has no rows.", "There is nothing to publish.")
    named = (*columns, *(categories or ()))
    kernel = ProductKernel(named, _lengthscales(columns, lengthscale, gamma), mismatch)
    if kernel.distance() < _ALIKE:
        raise ArgumentError(
            f"To so wide a kernel all rows are alike: no two are further apart than {kernel.distance():.2g}.",
            "Give a lengthscale that is not so far above the width of the bounds.",
        )
    public = None if points is None else kernel.check(coded(named, points, "points"))
    psi = _features(curator, kernel, features, public, n_points, rows)
    if represent == "weights" and not isinstance(psi, Nystrom):
        raise ArgumentError('represent="weights" needs points that span the features.', 'Use features="subspace".')
    if represent == "bayes" and (public is None or len(public) < 2):  # noqa: PLR2004
        raise ArgumentError('represent="bayes" needs a public sample.', "Give at least two rows as points=.")
    return _measured(curator, psi, kernel, public, rows, calibration, nan_policy)


@kme_release.concludes
def _(measured: Measured, *, represent: Represent) -> KME:
    """Fit points to the noisy mean."""
    return _concluded(measured, represent)


def _measured(
    curator: Curator,
    psi: Nystrom | Taylor | Fourier,
    kernel: ProductKernel,
    public: NDArray[np.float64] | None,
    rows: int,
    calibration: Calibration,
    nan_policy: NanPolicy,
) -> Measured:
    """Measure the sum of the features, and the number of rows that it is of."""
    gaps = tuple(column for column in kernel.columns if not column.filled)
    if nan_policy == "raise":
        curator.refuse_missing(*gaps)
    noise: Literal["gaussian", "laplace"] = "gaussian" if curator.delta else "laplace"
    size, count_noise = float(rows), None

    def noisy(features: RowFeatures) -> NoisyValue:
        agreed = frozenset(column.name for column in features.columns if column.public)
        moves = features.sensitivity(curator.neighbors, 2, agreed)
        if calibration == "analytic" or not moves:
            return curator.sum(features, noise=noise)
        return curator.sum(features, noise=noise, share=part_of_the_price(curator.epsilon, curator.delta, moves))

    if nan_policy != "omit" or not gaps:
        total = noisy(psi)
    elif all(column.public for column in gaps):
        size, count_noise = float(curator.sum(Given(*gaps)).values[0]), 0.0
        if size < 1:
            raise ArgumentError("A value is missing in every row.", "There is nothing to publish.")
        total = noisy(Given(*gaps, of=psi))
    else:
        sums = noisy(Given(*gaps, of=Stack(psi, Count())))
        total, count = sums.parts
        size = float(count.values[0])
        count_noise = float(count.scales[0]) * (math.sqrt(2) if noise == "laplace" else 1.0)
    size = max(1.0, size)
    weights = np.broadcast_to(psi.weights, psi.shape)
    scale = float((total.scales * weights).max()) / size
    return Measured(
        beta=(total.values * weights).ravel() / size,
        noise=scale * (math.sqrt(2) if noise == "laplace" else 1.0),
        laplace=noise == "laplace",
        size=size,
        count_noise=count_noise,
        rows=rows,
        features=psi,
        kernel=kernel,
        public=public,
    )


def _lengthscales(
    columns: Sequence[Column], lengthscale: float | Mapping[str, float] | None, gamma: float | None
) -> float | Mapping[str, float]:
    if lengthscale is not None and gamma is not None:
        raise ArgumentError("lengthscale= and gamma= exclude each other.", "gamma is 1 / (2 lengthscale²).")
    if gamma is not None:
        return 1 / math.sqrt(2 * gamma)
    if lengthscale is not None:
        return lengthscale
    return {column.name: 2 * column.half * math.sqrt(len(columns) / 8) for column in columns}


def _features(
    curator: Curator,
    kernel: ProductKernel,
    features: Features,
    public: NDArray[np.float64] | None,
    n_points: int | None,
    size: int,
) -> Nystrom | Taylor | Fourier:
    """Choose the feature map by public numbers."""
    if public is not None and (n_points is not None or features in ("taylor", "fourier")):
        raise ArgumentError(
            "points= span the subspace: n_points= and other features have no use for them.",
            'Leave one out, or use features="subspace".',
        )
    halves = np.array([kernel.columns[i].half for i in kernel.numbers]) / kernel.lengthscales
    reach = float(halves @ halves)
    if features == "auto":
        few = not kernel.categories and len(halves) <= _TAYLOR_COLUMNS and reach < _TAYLOR_REACH
        features = "taylor" if few and public is None and n_points is None else "subspace"
    # What noise drowns is not worth a coordinate. For this, a rough sigma will do.
    rough = 2 * math.sqrt(math.log(1.25 / curator.delta) if curator.delta else 1.0) / (size * curator.epsilon)
    tolerance = min(max(0.01 * rough**2, 1e-10), 1e-3)
    if features == "subspace":
        anchors = spread(kernel.columns, n_points or _POINTS) if public is None else public
        return Nystrom(kernel, anchors, tolerance)
    if kernel.categories:
        raise ArgumentError(f"features={features!r} are of numbers only.", 'Use features="subspace".')
    if features == "fourier":
        m = n_points or min(1000, 125 * len(halves))
        return Fourier(kernel.columns, gaussian_frequencies(kernel.lengthscales, m))
    degree = next((n for n in range(1, _TAYLOR_DEGREE) if pdtrc(n, reach) <= tolerance), None)
    if degree is None or math.comb(degree + len(halves), degree) > _TAYLOR_FEATURES:
        raise ArgumentError(
            "The Taylor basis needs too many functions here.", 'Use features="subspace", or a wider kernel.'
        )
    return Taylor(kernel, degree)


def _concluded(measured: Measured, represent: Represent) -> KME:
    """Fit points to the noisy mean; post-processing."""
    psi, kernel, public = measured.features, measured.kernel, measured.public
    space, beta, sigma = Space.of(psi, kernel), measured.beta, measured.noise
    gap, fits = 1e-3 * sigma**2, sigma**2 * len(beta)  # what noise alone leaves of the distance, on average
    if represent == "weights":
        locations, w = space.anchors, space.map.T @ beta
    elif represent == "l1" and space.basis == "subspace":
        locations, w = space.anchors, absolute(space.features(space.anchors), beta, min(gap, 1e-3))
    elif represent == "l1":
        locations, w = hull(space.features, grid(space), beta, gap, kernel.columns, signed=True, fits=fits)
    else:
        candidates = grid(space) if public is None else np.vstack([public, grid(space)])
        target = beta
        if represent == "bayes" and public is not None:
            target = shrunk(space.features(public), beta, sigma)
        locations, w = hull(space.features, candidates, target, gap, kernel.columns, fits=fits)
    left = w @ space.features(locations) - beta
    omitted = measured.count_noise is not None
    return KME(
        space=space.plain(),
        locations=locations,
        weights=w,
        notes=_notes(measured, space),
        beta=beta,
        noise_standard_error=sigma,
        noise_kind="none" if sigma == 0 else "laplace" if measured.laplace else "gaussian",
        size=measured.size,
        missing=measured.rows - measured.size if omitted else None,
        missing_standard_error=measured.count_noise,
        represent=represent,
        defect=psi.defect if isinstance(psi, Nystrom) else 0.0,
        objective=float(left @ left),
    )


def _notes(measured: Measured, space: Space) -> tuple[str, ...]:
    notes = []
    if measured.size < _TOLD * (measured.count_noise or 0.0):
        notes.append(
            f"Complete rows are too few beside the noise in their number: this release tells nothing. {UNDECLARED}"
        )
    seen = float((space.features(grid(space)) ** 2).sum(axis=1).mean())
    if seen < _SEEN:
        notes.append(
            f"Of a row anywhere within the bounds the features see {seen:.0%} on average: "
            "a wider kernel or more points would see more."
        )
    if coarse(space):
        notes.append(
            "The bounds are many lengthscales wide: an interval is for functions that are smooth between the "
            "8,192 rows at which they are evaluated. A wider kernel, or narrower bounds, would need fewer."
        )
    if measured.noise >= _LOUD:
        notes.append(
            f"The noise in each feature, {measured.noise:.2g}, is not small beside the features' length 1: "
            f"{measured.size:.0f} rows at this price tell little."
        )
    if len(measured.beta) < 3:  # noqa: PLR2004
        notes.append(f"Features are few, {len(measured.beta)}: more points would tell more.")
    return tuple(notes)


def findings(curator: Curator, *_: Any, **__: Any) -> Mapping[str, Any]:
    """Say how far the noise moves the embedding, from public numbers only; for ``explain``."""
    size = curator.size
    if not curator.measured or not size:
        return {}
    noise = curator.measured[-1]
    sd = noise.scale * (math.sqrt(2) if "Laplace" in noise.kind else 1.0) / size
    return {"standard deviation that the noise gives a mean of a function of norm 1": f"{sd:.3g}"}
