"""Gaussian mixtures of private rows without labels: two or three Gaussian measurements, and much that is free."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy import ArgumentError, NanPolicy, features, mechanism
from dfprivacy_gmm.advice import Components
from dfprivacy_gmm.component_moments import MixtureMoments
from dfprivacy_gmm.fourier import FourierSketch
from dfprivacy_gmm.polish import Moments, polished
from dfprivacy_gmm.sketch import draw_frequencies, frequency_count, whitening
from dfprivacy_gmm.sums import Sums, complete_rows, free_count, left_out

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfprivacy import Column, Curator, NoisyValue
    from dfprivacy_gmm.characteristic import Shape
    from dfprivacy_gmm.fit import Fit
    from dfprivacy_gmm.fourier import GaussianMixture

__all__ = ["MeasuredMixture", "conclude_mixture", "fourier_sketch", "measure_mixture"]

_TWO = ("0.1", "0.9")  # parts of mu squared for moments and sketch
_THREE = ("0.1", "0.5", "0.4")  # and for the moments about the components, which pay from three columns on


@mechanism(columns={"columns": ["numeric"]}, delta=True)
def fourier_sketch(
    curator: Curator,
    columns: Sequence[Column],
    *,
    max_components: Components = 6,
    nan_policy: NanPolicy = "omit",
) -> FourierSketch:
    """Release a noisy characteristic function of some columns, to fit Gaussian mixtures to at no charge.

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
    return _measure(curator, columns, max_components, _TWO, nan_policy)[0]


@dataclass(frozen=True)
class MeasuredMixture:
    """What is measured of the rows, all that a mixture follows from.

    Attributes
    ----------
    sketch : FourierSketch
        The sketch.
    fit : pair of Fit and dict, or None
        What was fitted to it before the moments were measured, and its criteria; None in one or two columns.
    about : MixtureMoments or None
        About which components the moments are; None as well where the sketch is too noisy for any.
    moments : Moments or None
        The moments.
    """

    sketch: FourierSketch
    fit: tuple[Fit, dict[int, float]] | None = None
    about: MixtureMoments | None = None
    moments: Moments | None = None


def measure_mixture(
    curator: Curator,
    columns: Sequence[Column],
    counts: Sequence[int],
    shape: Shape,
    restarts: int,
    nan_policy: NanPolicy,
) -> MeasuredMixture:
    """Measure a sketch and, from three columns on, moments about the components of the fit to it.

    Parameters
    ----------
    curator : Curator
        Whom to ask.
    columns : sequence of Column
        The columns.
    counts : sequence of int
        Numbers of components to try.
    shape : {"spherical", "diag", "tied", "full"}
        Shape of the covariances.
    restarts : int
        Most batches of starts.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows with a missing value.

    Returns
    -------
    MeasuredMixture
        The noisy values.
    """
    d, K = len(columns), counts[-1]
    if d <= 2:  # noqa: PLR2004 - in one or two columns a better sketch is worth more
        return MeasuredMixture(_measure(curator, columns, K, _TWO, nan_policy)[0])
    sketch, third = _measure(curator, columns, K, _THREE, nan_policy)
    if not sketch.cosines.any():  # the plan of an empty table without noise: nothing to fit, but this is measured
        third(_anywhere(columns, K))
        return MeasuredMixture(sketch)
    fit, criteria = sketch.searched(counts, shape, restarts)
    if fit.unsearched is not None:
        return MeasuredMixture(sketch, (fit, criteria))
    about = MixtureMoments(columns, fit.weights, fit.means, fit.roots)
    measured = third(about)
    n = sketch.size
    moments = Moments(measured.values / n, np.square(measured.scales / n), n, sketch.size_error)
    return MeasuredMixture(sketch, (fit, criteria), about, moments)


def conclude_mixture(
    measured: MeasuredMixture, counts: Sequence[int], shape: Shape, restarts: int
) -> GaussianMixture:
    """Fit a mixture to a sketch, or improve the fit by the moments about its components.

    Parameters
    ----------
    measured : MeasuredMixture
        The noisy values.
    counts, shape, restarts
        As for `measure_mixture`.

    Returns
    -------
    GaussianMixture
        The mixture.
    """
    sketch = measured.sketch
    fit, criteria = measured.fit or sketch.searched(counts, shape, restarts)
    if measured.about is None or measured.moments is None:
        return sketch.conclude(fit, criteria)
    fit, covariance = polished(fit, sketch.sketch, measured.about, measured.moments, np.random.default_rng(2))
    return sketch.conclude(fit, criteria, covariance)


def _measure(
    curator: Curator, columns: Sequence[Column], K: int, shares: Sequence[str], nan_policy: NanPolicy
) -> tuple[FourierSketch, Callable[[features.RowFeatures], NoisyValue]]:
    """Measure moments and sketch; give what measures the moments about components, for a third share."""
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
    count = size is None and (free_count(curator, columns, None, radius) or True)
    planned = [features.Outer(columns, radius=radius, count=count), features.Fourier(columns, W / half)]
    planned = [complete_rows(gaps, each) for each in (*planned, _anywhere(columns, K))]
    first, second, *third = curator.jointly(*zip(planned, shares, strict=False))
    moments = first(planned[0])
    values, noise = np.atleast_2d(moments.values), np.atleast_1d(moments.scales)
    sums = Sums.named(values, noise, None if size is None else np.array([float(size)]))
    white = whitening(sums)
    waves = features.Fourier(columns, W @ white.inverse_root / half)
    measured = second(complete_rows(gaps, waves))
    n = max(float(sums.sizes[0]), 3 * sums.size_sd, 10.0 if size is None else 1.0)
    missing = None if nan_policy != "omit" or total is None else float(total - sums.sizes[0])
    missing_noise = None if missing is None else sums.size_sd
    gone = left_out(missing, missing_noise)
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
    ), lambda about: third[0](complete_rows(gaps, about))


def _anywhere(columns: Sequence[Column], K: int) -> MixtureMoments:
    """Give moments about K components that are nowhere in particular, for a plan."""
    d = len(columns)
    return MixtureMoments(columns, np.full(K, 1 / K), np.zeros((K, d)), np.repeat(np.eye(d)[None], K, axis=0))
