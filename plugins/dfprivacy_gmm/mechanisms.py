"""Gaussian classes of a private table: ``view.gmm_fit``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from dfprivacy import ArgumentError, Range, features, mechanism
from dfprivacy_gmm.characteristic import Shape
from dfprivacy_gmm.classes import GaussianClasses
from dfprivacy_gmm.estimates import Method, Repair
from dfprivacy_gmm.fit import BATCHES
from dfprivacy_gmm.fourier import Components, check_components, rows_needed
from dfprivacy_gmm.mixture import GaussianMixture
from dfprivacy_gmm.unlabelled import fit_unlabelled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column, Curator

    Array = NDArray[np.float64]

__all__ = ["findings", "gmm_fit", "measure"]

_RADIUS = 0.6  # times the square root of d


@mechanism(columns={"columns": ["numeric"], "label": "category"}, delta=True)
def gmm_fit(
    curator: Curator,
    columns: Sequence[Column],
    label: Column | None = None,
    *,
    n_components: Components | Literal["auto"] | None = None,
    covariance_type: Shape = "full",
    restarts: Annotated[int, Range(1)] = BATCHES,
    method: Method = "lda",
    repair: Repair = "noise_aware",
    grid_minimum: Annotated[float, Range(0, exclusive="low")] = 0.01,
    radius: Annotated[float, Range(0, exclusive="low")] | None = None,
) -> GaussianClasses | GaussianMixture:
    """Fit a Gaussian to each class of a table (discriminant analysis), or a mixture where there are no labels.

    Parameters
    ----------
    columns : list of str
        Columns with bounds.
    label : str, optional
        A column with two or more categories, the classes. Rows of no category count nowhere.
    n_components : int or "auto", optional
        In place of a label: the number of components of a mixture; ``"auto"`` chooses among 1 to 6.
    covariance_type : {"full", "tied", "diag", "spherical"}
        Of a mixture: the shape of its covariances.
    restarts : int
        Of a mixture: most batches of starts. They cost time, and no privacy.
    method : {"lda", "qda", "auto"}
        One covariance for all classes, one for each, or one for each if they differ by more than the noise.
    repair : {"noise_aware", "paper", "clip"}
        How a noisy matrix is made a covariance. ``"noise_aware"``: shrink it and raise small eigenvalues, as far as
        the noise, which is known, calls for. ``"clip"``: raise them to almost 0. ``"paper"``: replace negative ones
        by `grid_minimum`, to which the search of the reference comes down.
    grid_minimum : float
        For ``"paper"``, in the columns' units squared.
    radius : float, optional
        With a delta: rows longer than this, with all columns mapped to [-1, 1], are scaled down to it; at most √d
        for d columns, which changes none, and is better where many values lie at an end of their bounds; default
        0.6 √d.

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

    A mixture takes two or three sums with discrete Gaussian noise, which are one Gaussian mechanism together:
    moments, cosines and sines (`fourier_sketch`), and from three columns on moments about the components of the
    first fit. It needs a delta.

    References
    ----------
    .. [1] X. Tong, B. Xi, M. Kantarcioglu, A. Inan. Gaussian mixture models for classification and hypothesis
       tests under differential privacy. DBSec 2017.
    .. [2] B. Balle, Y.-X. Wang. Improving the Gaussian mechanism for differential privacy: analytical calibration
       and optimal denoising. ICML 2018.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> chance = np.random.default_rng(1)
    >>> group = np.repeat(["ill", "well"], 5000)
    >>> df = pd.DataFrame({"x": chance.normal(group == "ill"), "y": chance.normal(size=10_000), "group": group})
    >>> view = dp.protect(df, "gmm-example", epsilon=1, delta=1e-6, ledger="memory:",
    ...                   bounds={"x": (-4, 5), "y": (-4, 4)}, categories={"group": ["ill", "well"]})
    >>> classes = view.gmm_fit(["x", "y"], "group", epsilon=0.5)
    >>> classes.predict([[3, 0], [-2, 0]]).tolist()
    ['ill', 'well']
    >>> mixture = view.gmm_fit(["x"], n_components=1, epsilon=0.5)
    >>> mixture.means_.round(1).tolist()
    [[0.5]]
    """
    if (label is None) == (n_components is None):
        raise ArgumentError(
            "Give either a label or n_components.",
            "label= names the classes of known rows; n_components= asks for a mixture without labels.",
        )
    if label is None:
        return fit_unlabelled(curator, columns, n_components or 0, covariance_type, restarts)
    if label.name in {column.name for column in columns}:
        raise ArgumentError(f"label={label.name!r} is among the columns.", "Leave it out of them.")
    classes = label.categories or ()
    if len(classes) < 2:  # noqa: PLR2004
        raise ArgumentError(f"{label.name!r} has one category.", "Classes are told apart: there must be two.")
    values, sd, sizes, radius = measure(curator, columns, label, radius, share=_RADIUS)
    counts = values[:, 0] if sizes is None else sizes
    blank = GaussianClasses(
        columns=tuple(column.name for column in columns),
        label=label.name,
        classes=classes,
        method="lda",
        repair=repair,
        grid_minimum=grid_minimum,
        radius=radius,
        sizes=counts,
        priors=counts,
        means=counts,
        covariances=counts,
        notes=(),
        released=values,
        noise_sd=sd,
        public_sizes=sizes is not None,
        bounds=tuple((column.low, column.high) for column in columns),
    )
    return blank._fitted(blank._sums, (method, repair, grid_minimum))  # noqa: SLF001 - of our own kind


def measure(
    curator: Curator, columns: Sequence[Column], by: Column | None, radius: float | None, *, share: float
) -> tuple[Array, Array, Array | None, float | None]:
    """Measure counts where they are private, sums and products, of all rows or by category.

    Parameters
    ----------
    curator : Curator
        Whom to ask: with a delta for Gaussian noise, without for Laplace noise.
    columns : sequence of Column
        What is multiplied.
    by : Column or None
        The groups.
    radius : float or None
        As asked.
    share : float
        Of the largest radius, where none is asked.

    Returns
    -------
    values : ndarray of shape (groups, coordinates)
        Noisy sums.
    sd : ndarray of shape (coordinates,)
        Standard deviations of the noise.
    sizes : ndarray of shape (groups,) or None
        Rows where they are public.
    radius : float or None
        As used; None with Laplace noise.
    """
    gaussian = curator.delta > 0
    if radius is not None:
        if not gaussian:
            raise ArgumentError(
                "radius= belongs to Gaussian noise, which needs a delta.", "Leave it out, or give a delta."
            )
    elif gaussian:
        radius = share * math.sqrt(len(columns))
    features.Outer(columns, radius=radius)  # what cannot be measured is refused before sizes are read
    if by is None:
        size = curator.size
        sizes = None if size is None else np.array([float(size)])
    else:
        sizes = curator.sizes(by)
    outer: features.RowFeatures = features.Outer(columns, radius=radius, count=sizes is None)
    if by is not None:
        outer = features.OneHot(by) * outer
    measured = curator.sum(outer, noise="gaussian" if gaussian else "laplace")
    values, scales = np.atleast_2d(measured.values), np.atleast_2d(measured.scales)
    return values, scales[0] * (1 if gaussian else math.sqrt(2)), sizes, radius


def findings(
    curator: Curator,
    columns: Sequence[Column],
    label: Column | None = None,
    *,
    n_components: int | Literal["auto"] | None = None,
    **_: Any,
) -> Mapping[str, Any]:
    """Say how exact the fit would be, from public numbers only; for ``explain``."""
    if label is None:
        most = check_components(n_components)[-1]
        return {
            f"rows from which about nine of ten mixtures of {most} components are found at a separation of "
            f"{separation:g} standard deviations": rows_needed(most, len(columns), curator.epsilon, separation)
            for separation in (2.5, 4.0)
        }
    noise = curator.measured[-1]
    sd = noise.scale * (math.sqrt(2) if "Laplace" in noise.kind else 1)
    size = curator.size
    classes = len(label.categories or ())
    if size is None:
        rows = math.ceil(sd / 0.01)
        return {"rows in a class from which the noise in its means is 1% of half the bounds": rows}
    each = size / classes
    found = {column.name: column.half * sd / each for column in columns}
    return {f"noise in the means of classes of {each:.0f} rows": found}
