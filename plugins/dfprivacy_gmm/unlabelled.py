"""Gaussian mixtures of private rows without labels: three Gaussian measurements, and much that is free."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfprivacy import ArgumentError, features, mechanism
from dfprivacy_gmm.component_moments import MixtureMoments
from dfprivacy_gmm.fit import BATCHES
from dfprivacy_gmm.fourier import Components, FourierSketch, check_components
from dfprivacy_gmm.polish import Moments, polished
from dfprivacy_gmm.sketch import draw_frequencies, frequency_count, whitening

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfprivacy import Column, Curator, NoisyValue
    from dfprivacy_gmm.characteristic import Shape
    from dfprivacy_gmm.mixture import GaussianMixture
    from dfprivacy_gmm.sketch import Whitening

__all__ = ["fit_unlabelled", "fourier_sketch"]

_TWO = ("0.1", "0.9")  # parts of mu squared for moments and sketch
_THREE = ("0.1", "0.5", "0.4")  # and for the moments about the components, which pay from three columns on


@mechanism(columns={"columns": ["numeric"]}, delta=True)
def fourier_sketch(curator: Curator, columns: Sequence[Column], *, max_components: Components = 6) -> FourierSketch:
    """Release a noisy characteristic function of some columns, to fit Gaussian mixtures to at no charge.

    Parameters
    ----------
    columns : list of str
        Columns with bounds.
    max_components : int
        The largest number of components that the frequencies should resolve.

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
    >>> chance = np.random.default_rng(1)
    >>> df = pd.DataFrame({"x": chance.normal(np.repeat([0.0, 5.0], 5000))})
    >>> view = dp.protect(df, "sketch-example", epsilon=1, delta=1e-6, ledger="memory:", bounds={"x": (-5, 10)})
    >>> sketch = view.fourier_sketch(["x"], max_components=3, epsilon=1)
    >>> np.sort(sketch.fit(2).means_[:, 0].round() + 0.0).tolist()
    [0.0, 5.0]
    """
    return _measure(curator, columns, max_components, _TWO)[0]


def fit_unlabelled(
    curator: Curator,
    columns: Sequence[Column],
    n_components: int | Literal["auto"],
    covariance_type: Shape = "full",
    restarts: int = BATCHES,
) -> GaussianMixture:
    """Fit a Gaussian mixture to rows without labels."""
    counts = check_components(n_components)
    polish = len(columns) > 2  # noqa: PLR2004 - in one or two columns a better sketch is worth more
    sketch, rest = _measure(curator, columns, counts[-1], _THREE if polish else _TWO)
    fit, criteria = sketch.searched(n_components, covariance_type, restarts)
    if not rest:
        return sketch.conclude(fit, criteria)
    about = MixtureMoments(columns, fit.weights, fit.means, fit.roots)
    measured = rest[0](about)
    moments = Moments(
        measured.values / sketch.size, np.square(measured.scales / sketch.size), sketch.size, sketch.size_error
    )
    fit, covariance = polished(fit, sketch.sketch, about, moments, np.random.default_rng(2))
    return sketch.conclude(fit, criteria, covariance)


def _measure(
    curator: Curator, columns: Sequence[Column], K: int, shares: Sequence[str]
) -> tuple[FourierSketch, list[Callable[[features.RowFeatures], NoisyValue]]]:
    """Measure moments and sketch; give what is left to measure, if there is a third share."""
    d = len(columns)
    names = tuple(column.name for column in columns)
    if not d or len(set(names)) < d:
        raise ArgumentError(f"columns={list(names)!r} must name at least one column, each once.")
    size = curator.size
    half = np.array([column.half for column in columns])
    W = draw_frequencies(frequency_count(K, d), K, d, np.random.default_rng(0))
    radius = 1.0 if d == 1 else 0.75 * math.sqrt(d)
    outer = features.Outer(columns, radius=radius, count=size is None)
    plain = features.Fourier(columns, W / half)
    anywhere = MixtureMoments(columns, np.full(K, 1 / K), np.zeros((K, d)), np.repeat(np.eye(d)[None], K, axis=0))
    first, second, *rest = curator.jointly(*zip((outer, plain, anywhere), shares, strict=False))
    n, error, white = _unit(first(outer), d, size)
    waves = features.Fourier(columns, W @ white.inverse_root / half)
    measured = second(waves)
    cosines, sines = measured.values / n
    return FourierSketch(
        columns=names,
        bounds=np.array([[column.low, column.high] for column in columns]),
        frequencies=waves.frequencies * half,
        cosines=cosines,
        sines=sines,
        noise=float(np.max(measured.scales)) / n,
        centre=white.centre,
        covariance=white.covariance,
        size=n,
        size_error=error,
        max_components=K,
        epsilon=curator.epsilon,
    ), list(rest)


def _unit(measured: NoisyValue, d: int, size: int | None) -> tuple[float, float, Whitening]:
    """Give the number of rows, its relative error, and the whitening, from noisy moments."""
    values, scales = np.atleast_1d(measured.values), np.atleast_1d(measured.scales)
    n, error = float(size or 1), 0.0
    if size is None:
        n = max(float(values[0]), 3 * float(scales[0]), 10.0)
        error = float(scales[0]) / n
        values, scales = values[1:], scales[1:]
    products = np.zeros((d, d))
    products[np.triu_indices(d)] = values[d:] / n
    products += np.triu(products, 1).T
    return n, error, whitening(values[:d] / n, products, float(scales[d:].min()) / n)
