"""t-tests on noisy sums whose p-values know the noise.

Everything here is post-processing: pure functions of numbers that are already released. Units are those of
the scaled data y = (x - mid)/h in [-1, 1], with mid and h the middle and the half width of the public bounds.
A release of one group (`Group`) is S₁ = Σy and S₂ = Σy² with Laplace noise, and the group's size, which is
public or noisy. The parameter tested is the mean of the clamped data.

Three methods:

``"conv"``
    The reference distribution of D = S₁/n - μ₀ is normal plus Laplace, with the noisy variance plugged into the
    normal part. For ε <= 1 that is safe: the noise of the variance moves the total null variance of D by less than
    0.71 ε of it, because the noise of S₁ dominates wherever that of S₂ is felt. With a larger budget and data that
    vary little between their bounds, the mean can be exact while the variance is still mostly noise; plugged in as
    it is, it would raise the level (to 7% at ε = 3, 12% at ε = 10, for a nominal 5%). There half the standard
    deviation of its noise is added to it: the test becomes conservative, and the result says so.
``"mc"``
    A parametric bootstrap of D over its total standard error, noise and the t-distribution's tails included. It
    plugs in the same variance. Its random numbers are seeded from the release, so that the same release always has
    the same p-value.
``"naive"``
    The textbook test on the noisy statistics, as analysed by Tong et al. (2017). Its level is not its nominal
    level: see `dfprivacy_ttest.exact`.

All functions broadcast over arrays of releases, and return Python floats when everything given is a scalar.

References
----------
X. Tong, B. Xi, M. Kantarcioglu, A. Inan. Gaussian mixture models for classification and hypothesis tests
under differential privacy. DBSec 2017, LNCS 10359, 123-141.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from dfprivacy.errors import ArgumentError
from dfprivacy.schema import as_probability
from dfprivacy_ttest.distributions import (
    normal_laplace_cdf,
    normal_laplace_quantile,
    normal_two_laplace_cdf,
    normal_two_laplace_quantile,
    solve_decreasing,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Alternative", "Group", "Method", "Result", "one_sample_t", "one_sample_z", "two_sample_t"]

Array: TypeAlias = NDArray[np.float64]
Real: TypeAlias = float | Array
Method = Literal["conv", "mc", "naive"]
Alternative = Literal["two-sided", "less", "greater"]

# In y units a variance is at most 1; below the floor the data would be constant for all practical purposes.
VARIANCE_FLOOR = 1e-4
VARIANCE_CAP = 1.0
SIZE_FLOOR = 5.0

_VARIANCE_NOISY = (
    "The noise is small for the mean but not for the variance, so the test is conservative: the data vary little "
    "between their bounds. Narrower bounds help."
)
_SIZE_FLOORED = "A noisy group size is below 5 and was replaced by 5: the group is too small for this budget."
_VARIANCE_FLOORED = (
    "Uninformative: a noisy variance is at its floor. The noise is too large for these data, or they hardly vary."
)
_VARIANCE_CAPPED = (
    "Uninformative: a noisy variance is at its cap. The noise is too large for these data, or they lie at the "
    "bounds."
)
_UNDEFINED = "Undefined: a noisy variance is not positive, so the naive statistic does not exist."


@dataclasses.dataclass(frozen=True)
class Group:
    """What is released about one group, in y units.

    Parameters
    ----------
    total : float or ndarray
        S₁, the noisy sum of y.
    squares : float or ndarray
        S₂, the noisy sum of y².
    size : float or ndarray
        The number of rows: n if it is public, else its noisy value n~.
    scale_total, scale_squares : float
        Scales of the Laplace noise of S₁ and S₂.
    size_variance : float
        Variance of n~; 0 if n is public. A private size is taken to be released in complementary coordinates,
        n~ = A + S₂ with A the noisy sum of 1 - y², so that the noise of S₂ is part of the noise of n~.

    Raises
    ------
    ArgumentError
        If a number is not finite, a scale is not positive, a public size is below 2, or `size_variance` is
        smaller than what the noise of S₂ contributes to it.
    """

    total: Real
    squares: Real
    size: Real
    scale_total: float
    scale_squares: float
    size_variance: float = 0.0

    def __post_init__(self) -> None:
        if not all(np.all(np.isfinite(getattr(self, field.name))) for field in dataclasses.fields(self)):
            raise ArgumentError("A released value is not finite.", "Release the sums again.")
        if not (self.scale_total > 0 and self.scale_squares > 0 and self.size_variance >= 0):
            raise ArgumentError(
                f"Laplace scales {self.scale_total} and {self.scale_squares} must be positive.",
                "Give the scales of the noise that was added.",
            )
        if 0 < self.size_variance < 2 * self.scale_squares**2:
            raise ArgumentError(
                "The variance of the noisy size is smaller than that of the noise of the squares.",
                "Release a private size as the noisy sum of 1 - y² plus the noisy sum of y².",
            )
        if self.size_variance == 0 and not np.all(np.asarray(self.size) >= 2):  # noqa: PLR2004
            raise ArgumentError("A group has fewer than two rows.", "A t-test needs two rows in every group.")

    @property
    def n(self) -> Array:
        """The size to compute with: a noisy one is floored at 5."""
        n = np.asarray(self.size, dtype=np.float64)
        return np.maximum(n, SIZE_FLOOR) if self.size_variance else n

    @property
    def mean(self) -> Array:
        """S₁/n."""
        return np.asarray(self.total / self.n)

    @property
    def divisor(self) -> Array:
        """What a sum of squared deviations is divided by: n - 1, or n~ for a noisy size."""
        return self.n if self.size_variance else self.n - 1

    @property
    def variance(self) -> Array:
        """The noisy variance, between floor and cap; 2b² takes the square of the noise out of S₁²."""
        return self._cautious((self.squares - (self.total**2 - 2 * self.scale_total**2) / self.n) / self.divisor)

    @property
    def naive_variance(self) -> Array:
        """The textbook variance of the noisy sums; NaN where it is not positive."""
        raw = np.asarray((self.squares - self.total**2 / self.n) / self.divisor)
        return np.where(raw > 0, raw, np.nan)

    def null_variance(self, mean: Real) -> Array:
        """Give the noisy variance about a hypothetical mean, between floor and cap."""
        return self._cautious((self.squares - 2 * mean * self.total + self.n * np.square(mean)) / self.n)

    def _cautious(self, variance: Real) -> Array:
        """Bring a noisy variance between floor and cap; one that is mostly noise gets half of the noise on top."""
        bounded = np.clip(variance, VARIANCE_FLOOR, VARIANCE_CAP)
        noise = self._variance_noise
        doubtful = (self.scale_total <= 1) & (noise > bounded / 4)
        return np.where(doubtful, np.minimum(bounded + noise / 2, VARIANCE_CAP), bounded)

    def size_noise(self, mean: Real) -> Array:
        """Variance that the noise of n~ gives to S₁/n~ when the mean (at most 1 in y units) is `mean`."""
        return np.asarray(np.clip(mean, -1.0, 1.0) ** 2 * self.size_variance / self.n**2)

    @property
    def noisy_variance_only(self) -> NDArray[np.bool_]:
        """Whether noise that hardly touches the mean (b <= 1) is much of the variance: see `_cautious`."""
        return np.asarray((self.scale_total <= 1) & (self._variance_noise > self.variance / 4.5))

    @property
    def _variance_noise(self) -> Array:
        """Standard deviation of the noise of the variance."""
        return np.asarray(math.sqrt(2) * self.scale_squares / self.n)

    @property
    def mean_scale(self) -> Array:
        """Scale of the Laplace noise of S₁/n."""
        return np.asarray(self.scale_total / self.n)


@dataclasses.dataclass(frozen=True)
class Result:
    """A test on noisy sums, in y units.

    Attributes
    ----------
    statistic : float or ndarray
        (estimate - null) / standard_error.
    pvalue : float or ndarray
        The probability, if the null is true, of a statistic at least as extreme.
    df : float or ndarray
        Degrees of freedom of the variance; infinity where the reference is normal ("conv", and z-tests).
    estimate : float or ndarray
        The noisy mean, or first mean minus second.
    standard_error : float or ndarray
        Standard error of the estimate, from sampling and noise together. "naive": from sampling alone.
    noise_standard_error : float or ndarray
        The part of the standard error that is due to privacy.
    variances : tuple
        Variance of each group as used in the test (for the one-sample t-test: about the hypothetical mean).
    warnings : tuple of str
        What to know before trusting the numbers. For arrays: what holds for at least one element.
    method, alternative : str
        As asked.
    """

    statistic: Real
    pvalue: Real
    df: Real
    estimate: Real
    standard_error: Real
    noise_standard_error: Real
    variances: tuple[Real, ...]
    warnings: tuple[str, ...]
    method: Method
    alternative: Alternative
    _distances: Callable[[float], tuple[Array, Array]] = dataclasses.field(repr=False, compare=False)

    def interval(self, confidence: float = 0.95) -> tuple[Real, Real]:
        """Give a confidence interval for the mean, or for the difference of means.

        Parameters
        ----------
        confidence : float
            Coverage, strictly between 0 and 1.

        Returns
        -------
        tuple
            Lower and upper end in y units, not cut at the bounds; one of them infinite for a one-sided
            alternative.

        Raises
        ------
        ArgumentError
            If `confidence` is not strictly between 0 and 1.

        Notes
        -----
        "conv": the hypotheses that the test would not reject. "mc": the estimate plus or minus a
        simulated quantile of the statistic; for one sample it is simulated at the estimate, so that interval
        and p-value can disagree near the edge. "naive": the textbook interval.
        """
        outside = 1 - as_probability(confidence, "confidence")
        below, above = self._distances(outside)
        low = np.full_like(below, -np.inf) if self.alternative == "less" else self.estimate - below
        high = np.full_like(above, np.inf) if self.alternative == "greater" else self.estimate + above
        return _plain(low), _plain(high)


def one_sample_z(
    group: Group,
    mean: Real = 0.0,
    *,
    sd: float,
    method: Method = "conv",
    alternative: Alternative = "two-sided",
    replicates: int = 999,
) -> Result:
    """Test the mean of one group whose standard deviation is known.

    Parameters
    ----------
    group : Group
        The release; its squares are not used.
    mean : float or ndarray
        Hypothetical mean in y units.
    sd : float
        Known standard deviation in y units.
    method : {"conv", "mc", "naive"}
        Reference distribution; "conv" is exact for normal data and public n.
    alternative : {"two-sided", "less", "greater"}
        Side of the hypothetical mean on which the true one is suspected.
    replicates : int
        Bootstrap replicates of "mc".

    Returns
    -------
    Result
        The test in y units.

    Raises
    ------
    ArgumentError
        If an argument cannot be used.

    Examples
    --------
    >>> result = one_sample_z(Group(20.0, 50.0, 400, scale_total=2.0, scale_squares=4.0), sd=0.5)
    >>> round(result.pvalue, 4)
    0.0544
    """
    if not 0 < sd < math.inf:
        raise ArgumentError(f"sd={sd} must be positive.", "Give the known standard deviation in y units.")
    return _one_sample(group, mean, sd, method=method, alternative=alternative, replicates=replicates)


def one_sample_t(
    group: Group,
    mean: Real = 0.0,
    *,
    method: Method = "conv",
    alternative: Alternative = "two-sided",
    replicates: int = 999,
) -> Result:
    """Test the mean of one group.

    Parameters
    ----------
    group : Group
        The release.
    mean : float or ndarray
        Hypothetical mean in y units.
    method : {"conv", "mc", "naive"}
        Reference distribution.
    alternative : {"two-sided", "less", "greater"}
        Side of the hypothetical mean on which the true one is suspected.
    replicates : int
        Bootstrap replicates of "mc".

    Returns
    -------
    Result
        The test in y units.

    Raises
    ------
    ArgumentError
        If an argument cannot be used.

    Notes
    -----
    The variance is the one about the hypothetical mean, v = (S₂ - 2μ₀S₁ + nμ₀²)/n, which needs no S₁² and so
    keeps the square of the noise out. With se = √(v/n), p = 2 GL(-|D|/se; se·n/b), GL the distribution
    function of `normal_laplace_cdf`.

    Examples
    --------
    >>> result = one_sample_t(Group(total=30.0, squares=40.0, size=400, scale_total=2.0, scale_squares=4.0))
    >>> f"{result.pvalue:.3g}"
    '4.43e-05'
    >>> tuple(round(end, 3) for end in result.interval(0.95))
    (0.042, 0.108)
    """
    return _one_sample(group, mean, None, method=method, alternative=alternative, replicates=replicates)


def two_sample_t(
    first: Group,
    second: Group,
    *,
    equal_variances: bool = False,
    method: Method = "conv",
    alternative: Alternative = "two-sided",
    replicates: int = 999,
) -> Result:
    """Test whether two groups have the same mean.

    Parameters
    ----------
    first, second : Group
        The releases.
    equal_variances : bool
        Pool the variances (Student) instead of keeping them apart (Welch). With unequal variances and sizes
        the pooled test does not keep its level, privately or not.
    method : {"conv", "mc", "naive"}
        Reference distribution.
    alternative : {"two-sided", "less", "greater"}
        Where the first mean is suspected relative to the second.
    replicates : int
        Bootstrap replicates of "mc".

    Returns
    -------
    Result
        The test in y units.

    Raises
    ------
    ArgumentError
        If an argument cannot be used.

    Examples
    --------
    >>> treated = Group(total=30.0, squares=40.0, size=400, scale_total=2.0, scale_squares=4.0)
    >>> control = Group(total=-10.0, squares=35.0, size=400, scale_total=2.0, scale_squares=4.0)
    >>> round(two_sample_t(treated, control).estimate, 3)
    0.1
    """
    _check(method, alternative, replicates)
    groups = first, second
    null = _two_sample_null(groups, method, equal_variances=equal_variances)
    estimate = first.mean - second.mean
    distances: Callable[[float], tuple[Array, Array]]
    extremes = None
    if method == "mc":
        simulated = _simulated(groups, _common_mean(groups), null.variances, replicates)
        law = _two_sample_null(simulated, method, equal_variances=equal_variances)
        extremes = _extremes((simulated[0].mean - simulated[1].mean) / law.standard_error, alternative)
        distances = functools.partial(_bootstrap_distances, extremes, null.standard_error)
    else:
        distances = functools.partial(_constant_distances, null, alternative)
    return Result(
        **_conclusion(null, estimate, alternative, extremes),
        estimate=_plain(estimate),
        warnings=_warnings(groups, null, method, known_sd=False),
        method=method,
        alternative=alternative,
        _distances=distances,
    )


def _one_sample(
    group: Group, mean: Real, sd: float | None, *, method: Method, alternative: Alternative, replicates: int
) -> Result:
    _check(method, alternative, replicates)
    if not np.all(np.isfinite(mean)):
        raise ArgumentError(f"The hypothetical mean {mean} is not finite.", "Give the mean to test against.")
    null = _one_sample_null(group, mean, sd, method)
    distances: Callable[[float], tuple[Array, Array]]
    extremes = None
    if method == "naive":
        distances = functools.partial(_constant_distances, null, alternative)
    elif method == "conv":
        distances = functools.partial(_inverted_distances, group, sd, alternative)
    else:
        extremes = _one_sample_extremes(
            group, mean, null.variances[0], sd, alternative=alternative, replicates=replicates
        )
        distances = functools.partial(_recentred_distances, group, sd, alternative, replicates)
    return Result(
        **_conclusion(null, group.mean - mean, alternative, extremes),
        estimate=_plain(group.mean),
        warnings=_warnings((group,), null, method, known_sd=sd is not None),
        method=method,
        alternative=alternative,
        _distances=distances,
    )


@dataclasses.dataclass(frozen=True)
class _Null:
    """The law of an estimate's distance from a hypothesis, if the hypothesis is true.

    A normal plus Laplace variables, or without these (the naive method) a t-variable times a standard error.
    """

    variances: tuple[Array, ...]
    normal_se: Array
    laplace_scales: tuple[Array, ...]
    noise_se: Array
    standard_error: Array
    df: Array

    def cdf(self, x: Array) -> Array:
        w = x / self.normal_se
        taus = [self.normal_se / scale for scale in self.laplace_scales]
        if not taus:
            return np.where(np.isinf(self.df), ndtr(w), stdtr(self.df, w))
        return normal_laplace_cdf(w, *taus) if len(taus) == 1 else normal_two_laplace_cdf(w, *taus)

    def distance(self, tail: float) -> Array:
        """Give the x that is exceeded with probability `tail`."""
        taus = [self.normal_se / scale for scale in self.laplace_scales]
        if not taus:
            return -self.normal_se * np.where(np.isinf(self.df), ndtri(tail), stdtrit(self.df, tail))
        quantile = normal_laplace_quantile if len(taus) == 1 else normal_two_laplace_quantile
        return -self.normal_se * quantile(tail, *taus)


def _one_sample_null(group: Group, mean: Real, sd: float | None, method: Method) -> _Null:
    if sd is not None:
        variance = np.asarray(sd**2)
    else:
        variance = group.naive_variance if method == "naive" else group.null_variance(mean)
    df = np.full_like(group.n, np.inf) if sd is not None else group.n - 1
    return _null((group,), (variance,), mean, df, method)


def _two_sample_null(groups: tuple[Group, ...], method: Method, *, equal_variances: bool) -> _Null:
    first, second = groups
    v1, v2 = (group.naive_variance if method == "naive" else group.variance for group in groups)
    df1, df2 = first.n - 1, second.n - 1
    if equal_variances:
        df = df1 + df2
        v1 = v2 = (df1 * v1 + df2 * v2) / df
    else:
        part1, part2 = v1 / first.n, v2 / second.n
        df = (part1 + part2) ** 2 / (part1**2 / df1 + part2**2 / df2)
    return _null(groups, (v1, v2), _common_mean(groups), df, method)


def _null(groups: tuple[Group, ...], variances: tuple[Array, ...], mean: Real, df: Array, method: Method) -> _Null:
    def total(terms: Iterable[Array]) -> Array:
        return functools.reduce(np.add, terms)

    scales = tuple(group.mean_scale for group in groups)
    sampling = total(v / group.n for v, group in zip(variances, groups, strict=True))
    size = total(group.size_noise(mean) for group in groups)
    noise = size + total(2 * scale**2 for scale in scales)
    if method == "naive":
        return _Null(variances, np.sqrt(sampling), (), np.sqrt(noise), np.sqrt(sampling), df)
    df = np.full_like(df, np.inf) if method == "conv" else df
    return _Null(variances, np.sqrt(sampling + size), scales, np.sqrt(noise), np.sqrt(sampling + noise), df)


def _common_mean(groups: tuple[Group, ...]) -> Array:
    first, second = groups
    return np.clip((first.total + second.total) / (first.n + second.n), -1.0, 1.0)


def _simulated(
    groups: tuple[Group, ...], mean: Real, variances: tuple[Array, ...], replicates: int
) -> tuple[Group, ...]:
    """Releases of normal samples with the same noise; replicates along a new first axis."""
    # Seeded by what is released: this is post-processing, and the same release has the same p-value.
    released = [np.asarray(value, dtype=np.float64).tobytes() for g in groups for value in dataclasses.astuple(g)]
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(b"".join(released)).digest()))

    def simulate(group: Group, variance: Array) -> Group:
        n = group.n
        shape = (replicates, *np.broadcast_shapes(np.shape(mean), variance.shape, n.shape))
        average = mean + np.sqrt(variance / n) * rng.standard_normal(shape)
        squares = variance * rng.chisquare(n - 1, shape) + n * average**2
        noise = rng.laplace(0.0, group.scale_squares, shape)
        size = n
        if group.size_variance:
            rest = math.sqrt(group.size_variance / 2 - group.scale_squares**2)
            size = n + noise + rng.laplace(0.0, rest, shape)
        total = n * average + rng.laplace(0.0, group.scale_total, shape)
        return dataclasses.replace(group, total=total, squares=squares + noise, size=size)

    return tuple(simulate(group, variance) for group, variance in zip(groups, variances, strict=True))


def _one_sample_extremes(
    group: Group, mean: Real, variance: Array, sd: float | None, *, alternative: Alternative, replicates: int
) -> Array:
    (simulated,) = _simulated((group,), mean, (variance,), replicates)
    null = _one_sample_null(simulated, mean, sd, "mc")
    return _extremes((simulated.mean - mean) / null.standard_error, alternative)


def _extremes(statistic: Array, alternative: Alternative) -> Array:
    """Turn the statistic so that large values speak for the alternative."""
    if alternative == "two-sided":
        return np.abs(statistic)
    return statistic if alternative == "greater" else -statistic


def _tail(outside: float, alternative: Alternative) -> float:
    return outside / 2 if alternative == "two-sided" else outside


def _constant_distances(null: _Null, alternative: Alternative, outside: float) -> tuple[Array, Array]:
    distance = null.distance(_tail(outside, alternative))
    return distance, distance


def _inverted_distances(
    group: Group, sd: float | None, alternative: Alternative, outside: float
) -> tuple[Array, Array]:
    """Find how far a hypothesis may lie below and above the estimate before the test rejects it.

    Its variance is the one about the hypothesis, so it grows with the distance, but never beyond its cap.
    """
    tail = _tail(outside, alternative)
    cap = np.asarray(VARIANCE_CAP if sd is None else sd**2)
    widest = _null((group,), (cap,), 1.0, group.n - 1, "conv").distance(tail)

    def edge(direction: float) -> Array:
        def beyond(distance: Array) -> Array:
            return _one_sample_null(group, group.mean + direction * distance, sd, "conv").cdf(-distance)

        return solve_decreasing(beyond, tail, np.maximum(widest, 0.0))

    return edge(-1.0), edge(1.0)


def _recentred_distances(
    group: Group, sd: float | None, alternative: Alternative, replicates: int, outside: float
) -> tuple[Array, Array]:
    mean = np.clip(group.mean, -1.0, 1.0)
    variance = group.variance if sd is None else np.asarray(sd**2)
    null = _null((group,), (variance,), mean, group.n - 1, "mc")
    extremes = _one_sample_extremes(group, mean, variance, sd, alternative=alternative, replicates=replicates)
    return _bootstrap_distances(extremes, null.standard_error, outside)


def _bootstrap_distances(extremes: Array, standard_error: Array, outside: float) -> tuple[Array, Array]:
    # p = (1 + #{T* >= T})/(B + 1) is at least `outside` up to the rank-th largest T*.
    rank = math.ceil(outside * (len(extremes) + 1) - 1 - 1e-9)
    largest = np.sort(extremes, axis=0)[-rank] if rank > 0 else np.full_like(extremes[0], np.inf)
    return largest * standard_error, largest * standard_error


def _conclusion(null: _Null, distance: Array, alternative: Alternative, extremes: Array | None) -> dict[str, Any]:
    """Give the fields of the result that follow from the law of the distance, or from its simulation."""
    statistic = distance / null.standard_error
    if extremes is not None:
        as_extreme = (extremes >= _extremes(statistic, alternative)).sum(axis=0)
        pvalue = (1 + as_extreme) / (1 + len(extremes))
    elif alternative == "two-sided":
        pvalue = 2 * null.cdf(-np.abs(distance))
    else:
        pvalue = null.cdf(distance if alternative == "less" else -distance)
    return {
        "statistic": _plain(statistic),
        "pvalue": _plain(pvalue),
        "df": _plain(null.df),
        "standard_error": _plain(null.standard_error),
        "noise_standard_error": _plain(null.noise_se),
        "variances": tuple(_plain(v) for v in null.variances),
    }


def _warnings(groups: tuple[Group, ...], null: _Null, method: Method, *, known_sd: bool) -> tuple[str, ...]:
    if method == "naive":
        return (_UNDEFINED,) if np.any(np.isnan(null.standard_error)) else ()
    found = {
        _SIZE_FLOORED: any(np.any(np.asarray(group.size) < SIZE_FLOOR) for group in groups if group.size_variance),
        _VARIANCE_NOISY: not known_sd and any(np.any(group.noisy_variance_only) for group in groups),
        _VARIANCE_FLOORED: not known_sd and any(np.any(g.variance <= VARIANCE_FLOOR) for g in groups),
        _VARIANCE_CAPPED: not known_sd and any(np.any(g.variance >= VARIANCE_CAP) for g in groups),
    }
    return tuple(warning for warning, holds in found.items() if holds)


def _plain(x: Array) -> Real:
    return float(x) if np.ndim(x) == 0 else np.asarray(x)


def _check(method: str, alternative: str, replicates: int) -> None:
    if method not in {"conv", "mc", "naive"}:
        raise ArgumentError(f"There is no method {method!r}.", "Use 'conv', 'mc' or 'naive'.")
    if alternative not in {"two-sided", "less", "greater"}:
        raise ArgumentError(f"There is no alternative {alternative!r}.", "Use 'two-sided', 'less' or 'greater'.")
    if replicates < 1:
        raise ArgumentError(f"replicates={replicates} must be positive.", "Use 999, for example.")
