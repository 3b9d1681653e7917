"""t-tests on noisy sums whose p-values know the noise.

Everything here is post-processing: pure functions of numbers that are already released. Units are those of
the scaled data y = (x - mid)/h in [-1, 1], with mid and h the middle and the half width of the public bounds.
A release of one group (`Group`) is S₁ = Σy and S₂ = Σy² with Laplace noise, and the group's size, which is
public or noisy. The parameter tested is the mean of the clamped data.

Two methods:

``"conv"``
    The reference is the law of the estimate for normal data (`NullLaw`): Student's t for what the rows leave
    open, convolved with the noise, and averaged over what the noise leaves open about the variance.
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

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from dfprivacy.errors import ArgumentError
from dfprivacy.schema import as_probability
from dfprivacy_ttest.group import Array, Group, Real, plain, side_by_side
from dfprivacy_ttest.law import NullLaw, TextbookLaw, null_law, solve_tail, textbook_law

__all__ = ["Alternative", "Method", "Result", "one_sample_t", "one_sample_z", "two_sample_t"]

Method = Literal["conv", "naive"]
Alternative = Literal["two-sided", "less", "greater"]

Law: TypeAlias = NullLaw | TextbookLaw
Hypothesis: TypeAlias = Callable[[Real], tuple[Law, Array]]
"""Gives the law of an estimate's distance from a hypothetical value if that is true, and the variances."""


@dataclass(frozen=True)
class Result:
    """A test on noisy sums, in y units.

    Attributes
    ----------
    statistic : float or ndarray
        (estimate - null) / standard_error.
    pvalue : float or ndarray
        The probability, if the null is true, of a statistic at least as extreme.
    df : float or ndarray
        Degrees of freedom of the variance; infinity for z-tests.
    estimate : float or ndarray
        The noisy mean, or first mean minus second.
    standard_error : float or ndarray
        Standard error of the estimate, from sampling and noise together. "naive": from sampling alone.
    noise_standard_error : float or ndarray
        The part of the standard error that is due to privacy.
    variances : tuple
        Variance of each group as used in the test.
    shape : float or ndarray
        How well the variance is known through the noise: the inverse of its squared relative error.
    groups : tuple of Group
        The releases.
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
    shape: Real
    groups: tuple[Group, ...]
    method: Method
    alternative: Alternative
    _hypothesis: Hypothesis = field(repr=False, compare=False)

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
            alternative. "conv": the hypotheses that the test would not reject. "naive": the textbook interval.

        Raises
        ------
        ArgumentError
            If `confidence` is not strictly between 0 and 1.
        """
        outside = 1 - as_probability(confidence, "confidence")
        sides = {"less": [1.0], "greater": [-1.0], "two-sided": [-1.0, 1.0]}[self.alternative]
        estimate = np.asarray(self.estimate)
        direction = np.reshape(sides, (-1, *[1] * estimate.ndim))
        ends = estimate + direction * self._reach(outside / len(sides), direction)
        low, high = (
            ends[sides.index(side)] if side in sides else np.full_like(ends[0], side * math.inf)
            for side in (-1.0, 1.0)
        )
        return plain(low), plain(high)

    def _reach(self, tail: float, direction: Array) -> Array:
        """Find how far a hypothesis may lie from the estimate before the test rejects it."""
        if self.method == "naive":
            law, _ = self._hypothesis(self.estimate)
            return law.distance(tail)

        def cdf(x: Array) -> Array:
            return self._hypothesis(self.estimate - direction * x)[0].cdf(x)

        return solve_tail(cdf, self.standard_error + 0 * direction, tail, tolerance=1e-11)


def one_sample_z(
    group: Group, mean: Real = 0.0, *, sd: float, method: Method = "conv", alternative: Alternative = "two-sided"
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
    method : {"conv", "naive"}
        Reference distribution; "conv" is exact for normal data and public n.
    alternative : {"two-sided", "less", "greater"}
        Side of the hypothetical mean on which the true one is suspected.

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
    >>> from dfprivacy_ttest.group import Group
    >>> result = one_sample_z(Group(20.0, 50.0, 400, scale_total=2.0, scale_squares=4.0), sd=0.5)
    >>> round(result.pvalue, 4)
    0.0544
    """
    if not 0 < sd < math.inf:
        raise ArgumentError(f"sd={sd} must be positive.", "Give the known standard deviation in y units.")
    return _one_sample(group, mean, sd, method, alternative)


def one_sample_t(
    group: Group, mean: Real = 0.0, *, method: Method = "conv", alternative: Alternative = "two-sided"
) -> Result:
    """Test the mean of one group.

    Parameters
    ----------
    group : Group
        The release.
    mean : float or ndarray
        Hypothetical mean in y units.
    method : {"conv", "naive"}
        Reference distribution.
    alternative : {"two-sided", "less", "greater"}
        Side of the hypothetical mean on which the true one is suspected.

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
    >>> from dfprivacy_ttest.group import Group
    >>> result = one_sample_t(Group(total=30.0, squares=140.0, size=400, scale_total=2.0, scale_squares=4.0))
    >>> f"{result.pvalue:.3f}"
    '0.014'
    >>> tuple(round(end, 2) for end in result.interval(0.95))
    (0.02, 0.13)
    """
    return _one_sample(group, mean, None, method, alternative)


def two_sample_t(
    first: Group,
    second: Group,
    *,
    equal_variances: bool = False,
    method: Method = "conv",
    alternative: Alternative = "two-sided",
) -> Result:
    """Test whether two groups have the same mean.

    Parameters
    ----------
    first, second : Group
        The releases.
    equal_variances : bool
        Pool the variances (Student) instead of keeping them apart (Welch). With unequal variances and sizes
        the pooled test does not keep its level, privately or not.
    method : {"conv", "naive"}
        Reference distribution.
    alternative : {"two-sided", "less", "greater"}
        Where the first mean is suspected relative to the second.

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
    >>> from dfprivacy_ttest.group import Group
    >>> treated = Group(total=30.0, squares=40.0, size=400, scale_total=2.0, scale_squares=4.0)
    >>> control = Group(total=-10.0, squares=35.0, size=400, scale_total=2.0, scale_squares=4.0)
    >>> round(two_sample_t(treated, control).estimate, 3)
    0.1
    """
    groups = first, second
    both = side_by_side(*groups)
    estimate = first.mean - second.mean

    def hypothesis(difference: Real) -> tuple[Law, Array]:
        means = _means(first, second, difference)
        if method == "naive":
            return textbook_law(groups, means, sd=None, pooled=equal_variances)
        distance = np.asarray(estimate - difference)
        return null_law(both, np.stack(means, axis=-1), distance, sd=None, pooled=equal_variances)

    return _result(groups, estimate, 0.0, hypothesis, method, alternative)


def _means(first: Group, second: Group, difference: Real) -> tuple[Array, Array]:
    """Give the most likely means of two groups that differ by so much."""
    n1, n2 = first.n, second.n
    mean = np.asarray((first.total + second.total - difference * n1) / (n1 + n2))
    return mean + difference, mean


def _one_sample(group: Group, mean: Real, sd: float | None, method: Method, alternative: Alternative) -> Result:
    if not np.all(np.isfinite(mean)):
        raise ArgumentError(f"The hypothetical mean {mean} is not finite.", "Give the mean to test against.")

    alone = side_by_side(group)

    def hypothesis(mean: Real) -> tuple[Law, Array]:
        if method == "naive":
            return textbook_law((group,), (mean,), sd=sd, pooled=False)
        return null_law(alone, np.asarray(mean)[..., None], group.mean - np.asarray(mean), sd=sd, pooled=False)

    return _result((group,), group.mean, mean, hypothesis, method, alternative)


def _result(
    groups: tuple[Group, ...],
    estimate: Array,
    null: Real,
    hypothesis: Hypothesis,
    method: Method,
    alternative: Alternative,
) -> Result:
    law, variances = hypothesis(null)
    distance = np.asarray(estimate - null)
    tail = law.cdf(-np.abs(distance))
    if alternative == "two-sided":
        pvalue = np.minimum(2 * tail, 1.0)
    else:
        pvalue = np.where((distance > 0) == (alternative == "greater"), tail, 1 - tail)
    return Result(
        statistic=plain(distance / law.standard_error),
        pvalue=plain(pvalue),
        df=plain(law.df),
        estimate=plain(estimate),
        standard_error=plain(law.standard_error),
        noise_standard_error=plain(law.noise_se),
        variances=tuple(plain(v) for v in np.moveaxis(variances, -1, 0)),
        shape=plain(law.shape),
        groups=groups,
        method=method,
        alternative=alternative,
        _hypothesis=hypothesis,
    )
