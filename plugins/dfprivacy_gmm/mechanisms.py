"""Methods that measure moments and Fourier sketches, and fit Gaussian classes and mixtures to them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy import ArgumentError, NanPolicy, features, mechanism
from dfprivacy_gmm.classes import GaussianClasses, Positive
from dfprivacy_gmm.estimates import Method, Repair
from dfprivacy_gmm.fit import BATCHES, Components, Count, Restarts, component_counts, rows_needed
from dfprivacy_gmm.fourier import FourierSketch, GaussianMixture
from dfprivacy_gmm.joint import JointMoments
from dfprivacy_gmm.sketch import Shape, draw_frequencies, frequency_count, whitening_of
from dfprivacy_gmm.sums import (
    MeasuredSums,
    Queries,
    Sums,
    free_count_weight,
    measure_sums,
    missing_note,
    restricted_to_complete_rows,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfprivacy import Column, Curator

__all__ = [
    "check_gmm_fit",
    "check_moments",
    "fourier_sketch",
    "gmm_fit",
    "moments",
    "plan_fit",
]

_SHARES = ("0.1", "0.9")  # parts of mu squared for moments and sketch


@mechanism(columns={"columns": ["numeric"]}, delta=True)
def fourier_sketch(
    curator: Curator,
    columns: Sequence[Column],
    *,
    max_components: Components = 6,
    nan_policy: NanPolicy = "omit",
) -> FourierSketch:
    """Release a noisy characteristic function of columns, to which Gaussian mixtures can be fitted at no cost.

    Parameters
    ----------
    columns : list of str
        Columns with bounds.
    max_components : int
        The largest number of components that the frequencies should resolve.
    nan_policy : {"omit", "fill", "raise"}
        Rows with a missing value in one of the columns are left out, and not counted; or filled, as declared; or
        refused, where all columns are public.

    Returns
    -------
    FourierSketch
        Its ``fit(n_components=...)`` gives a mixture, as often as is wanted.

    Raises
    ------
    ArgumentError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** (ε, δ)-differential privacy for the account's neighbouring relation. Two sums are released with
    discrete Gaussian noise: first and second moments with a tenth of mu squared, which only choose the frequencies,
    and cosines and sines with the rest; together they are one Gaussian mechanism.

    References
    ----------
    .. [1] N. Keriven, A. Bourrier, R. Gribonval, P. Pérez. Sketching for large-scale learning of mixture models.
       Information and Inference 7 (2018).
    .. [2] A. Smith, A. Thakurta. Fully adaptive composition for Gaussian differential privacy. arXiv:2210.17520.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> rng = np.random.default_rng(1)
    >>> df = pd.DataFrame({"x": rng.normal(np.repeat([0.0, 5.0], 5000))})
    >>> view = dp.protect(df, "sketch-example", epsilon=1, delta=1e-6, ledger="memory:", bounds={"x": (-5, 10)})
    >>> sketch = view.fourier_sketch(["x"], max_components=3, epsilon=1)
    >>> np.sort(sketch.fit(2).means_[:, 0].round() + 0.0).tolist()
    [0.0, 5.0]
    """
    return _measure_sketch(curator, columns, max_components, nan_policy)


def _measure_sketch(curator: Curator, columns: Sequence[Column], K: int, nan_policy: NanPolicy) -> FourierSketch:
    """Measure moments, then the characteristic function at frequencies chosen from the noisy moments."""
    d = len(columns)
    names = tuple(column.name for column in columns)
    if not d or len(set(names)) < d:
        raise ArgumentError(f"columns={list(names)!r} must name at least one column, each once.")
    gaps = curator.gaps(columns, nan_policy)
    total = curator.size
    size = None if gaps else total
    half = np.array([column.half for column in columns])
    W = draw_frequencies(frequency_count(K, d), K, d, np.random.default_rng(0))
    radius = 1.0 if d == 1 else 0.75 * math.sqrt(d)
    count = size is None and (free_count_weight(curator, columns, None, radius) or True)
    planned = [features.Outer(columns, radius=radius, count=count), features.Fourier(columns, W / half)]
    planned = [restricted_to_complete_rows(gaps, each) for each in planned]
    first, second = curator.jointly(*zip(planned, _SHARES, strict=True))
    moments = first(planned[0])
    values, noise = np.atleast_2d(moments.values), np.atleast_1d(moments.scales)
    sums = Sums.from_outer(values, noise, None if size is None else np.array([float(size)]))
    white = whitening_of(sums)
    waves = features.Fourier(columns, W @ white.inverse_root / half)
    measured = second(restricted_to_complete_rows(gaps, waves))
    n = max(float(sums.sizes[0]), 3 * sums.size_sd, 10.0 if size is None else 1.0)
    missing = None if nan_policy != "omit" or total is None else float(total - sums.sizes[0])
    missing_noise = None if missing is None else sums.size_sd
    gone = missing_note(missing, missing_noise)
    cosines, sines = measured.values / n
    return FourierSketch(
        columns=names,
        bounds=np.array([[column.low, column.high] for column in columns]),
        frequencies=waves.frequencies * half,
        cosines=cosines,
        sines=sines,
        noise_standard_error=float(np.max(measured.scales)) / n,
        centre=white.centre,
        covariance=white.covariance,
        size=n,
        size_error=sums.size_sd / n,
        max_components=K,
        epsilon=curator.epsilon,
        missing=missing,
        missing_standard_error=missing_noise,
        notes=() if gone is None else (gone,),
    )


@mechanism(columns={"columns": ["numeric"], "label": "category"}, delta=True)
def gmm_fit(
    curator: Curator,
    columns: Sequence[Column],
    label: Column | None = None,
    *,
    n_components: Count | None = None,
    radius: Positive | None = None,
    queries: Queries = "jointly",
    nan_policy: NanPolicy = "omit",
) -> MeasuredSums | FourierSketch:
    """Fit a Gaussian to each class of a table (discriminant analysis), or a Gaussian mixture without labels.

    Parameters
    ----------
    columns : list of str
        Columns with bounds.
    label : str, optional
        A column with two or more categories, the classes. Rows of no category count nowhere.
    n_components : int or "auto", optional
        In place of a label: the number of components of a mixture; ``"auto"`` chooses among 1 to 6.
    radius : float, optional
        With a delta: rows longer than this, with all columns mapped to [-1, 1], are scaled down to it, which takes
        less noise and some bias; default: √d for d columns, which changes none.
    queries : {"jointly", "separately"}
        With a label: ``"jointly"``: all sums are one measurement, which finds far more. ``"separately"``: each sum
        is a query of its own, as in the reference, with Laplace noise and an equal part of ε; what is charged is
        the sum of these parts.
    nan_policy : {"omit", "fill", "raise"}
        Rows with a missing value in one of the columns are left out, and not counted; or filled, as declared; or
        refused, where all columns are public.
    covariance_type : {"full", "tied", "diag", "spherical"}
        Of a mixture: the shape of its covariances.
    restarts : int
        Of a mixture: most batches of starts. They cost time, and no privacy.
    method : {"lda", "qda"}
        One covariance for all classes, or one for each.
    repair : {"noise_aware", "shrink", "paper", "clip"}
        How a noisy matrix is made a covariance. ``"noise_aware"``: the nearest one, in standard deviations of the
        noise, that has no less variance in any direction than the noise could hide. ``"shrink"``: the same after
        what is off the diagonal has been shrunk by the share of it that is noise, which pulls correlations to 0.
        ``"clip"``: raise eigenvalues to almost 0. ``"paper"``: replace negative ones by `grid_minimum`, to which
        the search of the reference comes down.
    grid_minimum : float
        For ``"paper"``, in the columns' units squared.

    Returns
    -------
    GaussianClasses or GaussianMixture
        With a label a classifier: ``predict``, ``predict_proba``, ``score``, ``sample``. Without, a mixture with
        scikit-learn's names, and the sketch it was fitted to, which can be fitted again at no charge.

    Raises
    ------
    ArgumentError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** (ε, δ)-differential privacy for the account's neighbouring relation, by one measurement: of each
    class the count, the sums of y and those of y yᵀ, weighted so that they share one L2 sensitivity, 1.5 times the
    radius for a row more or less and √4.5 times for a row that changes, its label included. The noise is the
    discrete Gaussian, by its exact calibration. With a delta of 0: pure ε-differential privacy by discrete Laplace
    noise, which costs much more from five columns on. All else is post-processing.

    With ``queries="separately"`` and d columns there are q = d (d + 3)/2 queries, and one more where class sizes
    are private. For a row that changes, the sum of y over its class has the sensitivity 2, that of a square 1 and
    that of a product 2; for one that changes its class each has 2. Each query gets pure (ε/q)-differential privacy,
    and all together ε. (The reference gives ε to each, and takes ranges and class sizes from the data: q times as
    much, and more.)

    A mixture takes two sums with discrete Gaussian noise, which are one Gaussian mechanism together: moments, and
    cosines and sines (`fourier_sketch`). It needs a delta.

    **Statistics.** A mixture is outside of the engine of noisy sums: it is no function of the sums but the end of
    a search, which finds nine mixtures of ten from about 5000 K/ε rows on, K components 2.5 standard deviations
    apart in up to five columns.

    References
    ----------
    .. [1] X. Tong, B. Xi, M. Kantarcioglu, A. Inan. Gaussian mixture models for classification and hypothesis
       tests under differential privacy. DBSec 2017.
    .. [2] B. Balle, Y.-X. Wang. Improving the Gaussian mechanism for differential privacy: analytical calibration
       and optimal denoising. ICML 2018.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> rng = np.random.default_rng(1)
    >>> group = np.repeat(["ill", "well"], 5000)
    >>> df = pd.DataFrame({"x": rng.normal(group == "ill"), "y": rng.normal(size=10_000), "group": group})
    >>> view = dp.protect(df, "gmm-example", epsilon=1, delta=1e-6, ledger="memory:",
    ...                   bounds={"x": (-4, 5), "y": (-4, 4)}, categories={"group": ["ill", "well"]})
    >>> classes = view.gmm_fit(["x", "y"], "group", epsilon=0.5)
    >>> classes.predict([[3, 0], [-2, 0]]).tolist()
    ['ill', 'well']
    >>> mixture = view.gmm_fit(["x"], n_components=1, epsilon=0.5)
    >>> mixture.means_.round(1).tolist()
    [[0.5]]
    """
    if label is not None:
        return measure_sums(curator, columns, label, radius, nan_policy=nan_policy, queries=queries)
    return _measure_sketch(curator, columns, component_counts(n_components or 1)[-1], nan_policy)


@gmm_fit.concludes
def conclude_gmm_fit(
    measured: MeasuredSums | FourierSketch,
    columns: Sequence[Column],
    label: Any,  # one of both, as `check_gmm_fit` sees to
    *,
    n_components: Any,
    queries: Queries,
    covariance_type: Shape = "full",
    restarts: Restarts = BATCHES,
    method: Method = "lda",
    repair: Repair = "noise_aware",
    grid_minimum: Positive = 0.01,
) -> GaussianClasses | GaussianMixture:
    """Fit Gaussian classes to the noisy sums, or a Gaussian mixture to the noisy sketch."""
    if isinstance(measured, FourierSketch):
        return measured.fit(n_components, covariance_type=covariance_type, restarts=restarts)
    return GaussianClasses.from_measurement(
        measured, columns, label, queries, method=method, repair=repair, grid_minimum=grid_minimum
    )


def check_gmm_fit(
    columns: Sequence[Column],
    label: Column | None,
    n_components: int | Literal["auto"] | None,
    queries: Queries,
    **_: Any,
) -> None:
    """Check the arguments of `gmm_fit` before anything is charged."""
    if (label is None) == (n_components is None):
        raise ArgumentError(
            "gmm_fit() needs either label= or n_components=.",
            "label= names the column of classes; n_components= fits a mixture without labels.",
        )
    if label is None:
        if queries == "separately":
            raise ArgumentError("queries= is an option of a fit with label=.", "Omit queries=, or give label=.")
        return
    check_not_among(columns, label, "label")
    if len(label.categories or ()) < 2:  # noqa: PLR2004
        raise ArgumentError(
            f"The column label={label.name!r} has one category.", "Use a column with at least two categories."
        )


def check_not_among(columns: Sequence[Column], by: Column | None, parameter: str) -> None:
    """Check that the column of groups is not also one of the columns."""
    if by is not None and by.name in {column.name for column in columns}:
        raise ArgumentError(
            f"{parameter}={by.name!r} is also one of the columns.", f"Leave {by.name!r} out of columns=."
        )


def plan_fit(
    curator: Curator,
    columns: Sequence[Column],
    label: Column | None = None,
    *,
    n_components: int | Literal["auto"] | None = None,
    queries: Queries = "jointly",
    **_: Any,
) -> Mapping[str, Any]:
    """Return the expected accuracy of the fit for ``explain``, computed from public numbers."""
    if label is None:
        most = component_counts(n_components or 1)[-1]
        return {
            f"rows with which about 90% of mixtures of {most} components are found at a separation of "
            f"{separation:g} standard deviations": rows_needed(most, len(columns), curator.epsilon, separation)
            for separation in (2.5, 4.0)
        }
    d = len(columns)
    noise = curator.measured[-1 if queries == "jointly" else -(d * (d + 3) // 2)]  # of all sums, or of the first y
    sd = noise.scale * (math.sqrt(2) if "Laplace" in noise.kind else 1)
    size = curator.size
    classes = len(label.categories or ())
    if size is None:
        rows = math.ceil(sd / 0.01)
        return {"rows in a class at which the noise in its means is 1% of half the width of the bounds": rows}
    each = size / classes
    errors = {column.name: column.half * sd / each for column in columns}
    return {f"standard deviation of the noise in the means of classes of {each:.0f} rows": errors}


@mechanism(columns={"columns": ["numeric"], "by": "category"}, delta=True)
def moments(
    curator: Curator,
    columns: Sequence[Column],
    by: Column | None = None,
    *,
    radius: Positive | None = None,
    nan_policy: NanPolicy = "omit",
) -> MeasuredSums:
    """Release means, variances, covariances and correlations of columns.

    Parameters
    ----------
    columns : list of str
        Columns with bounds. The moments are those of their values as clipped to them.
    by : str, optional
        A column with categories: moments of each group.
    radius : float, optional
        With a delta: rows longer than this, with all columns mapped to [-1, 1], are scaled down to it, for less
        noise and some bias; default: √d for d columns, which changes none.
    nan_policy : {"omit", "fill", "raise"}
        Rows with a missing value in one of the columns are left out, and not counted; or filled, as declared; or
        refused, where all columns are public.

    Returns
    -------
    JointMoments
        Unbiased estimates with standard errors, and tables of them. Regression and principal components follow from
        them at no further cost.

    Raises
    ------
    ArgumentError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** (ε, δ)-differential privacy for the account's neighbouring relation, by one measurement of all sums
    with discrete Gaussian noise, as `gmm_fit`, and of the rows beyond the bounds of each column, of such a weight
    that the noise grows by a thirtieth at most; with a delta of 0, pure ε-differential privacy by discrete Laplace
    noise.

    References
    ----------
    .. [1] X. Tong, B. Xi, M. Kantarcioglu, A. Inan. Gaussian mixture models for classification and hypothesis
       tests under differential privacy. DBSec 2017.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> x = np.random.default_rng(1).normal(size=200_000)
    >>> df = pd.DataFrame({"x": x, "y": x + np.random.default_rng(2).normal(size=200_000)})
    >>> view = dp.protect(df, "moments-example", epsilon=1, delta=1e-6, ledger="memory:",
    ...                   bounds={"x": (-4, 4), "y": (-6, 6)})
    >>> found = view.moments(["x", "y"], epsilon=0.5)
    >>> bool(0.65 < found.correlations[0, 0, 1] < 0.75)
    True
    """
    return measure_sums(curator, columns, by, radius, nan_policy=nan_policy, limited=True)


@moments.concludes
def conclude_moments(measured: MeasuredSums, columns: Sequence[Column], *, by: Column | None) -> JointMoments:
    """Compute the moments from the noisy sums."""
    return JointMoments.from_measurement(measured, columns, by)


def check_moments(columns: Sequence[Column], by: Column | None, **_: Any) -> None:
    """Check the arguments of `moments` before anything is charged."""
    check_not_among(columns, by, "by")
