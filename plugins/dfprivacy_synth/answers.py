"""Means, shares, tests and regressions with confidence intervals, from noisy contingency tables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import ndtri

from dfprivacy import Release
from dfprivacy.inference.draws import DRAWS, points
from dfprivacy.inference.engine import Inference, infer
from dfprivacy.inference.groups import difference, mean
from dfprivacy.inference.moments import Moments
from dfprivacy.markup import Grid
from dfprivacy.plotting import forest
from dfprivacy.wording import noise_share, number, rows_phrase, uncertainty

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy_synth.coding import Coding

    Array = NDArray[np.float64]

__all__ = ["CellSums", "SynthAnswer", "counts", "difference_of_means", "means", "regression", "shares"]

_FEWEST = 2.0


@dataclass(frozen=True)
class CellSums:
    """Linear combinations of the noisy counts of a contingency table, with the covariance of their errors.

    Attributes
    ----------
    cells : ndarray of shape (c,)
        The noisy counts.
    noise : float
        The standard error of each.
    map : ndarray of shape (m, c)
        The sums, in terms of the cells.
    unknown : ndarray of shape (m, m)
        The covariance of the sums from what is not known of the numbers in a code.
    """

    cells: Array
    noise: float
    map: Array
    unknown: Array | float = 0.0

    @classmethod
    def from_codes(
        cls,
        cells: Array,
        noise: float,
        numbers: Mapping[int, Coding],
        build: Callable[[Mapping[int, Array]], Array],
    ) -> CellSums:
        """Construct linear combinations of counts in which each number is replaced by the mean of its code.

        These have errors; and the rows in a code that are of one group have another mean than all rows in it.

        Parameters
        ----------
        cells : ndarray of shape (codes of a column, ...)
            The noisy counts.
        noise : float
            The standard error of each.
        numbers : mapping of int to Coding
            The columns of numbers, by axis.
        build : callable
            Gives of the means of their codes, by axis, the map of the cells to the sums.
        """
        means = {axis: np.array(code.means) for axis, code in numbers.items()}
        map_, unknown = build(means), np.zeros((1, 1))
        for axis, code in numbers.items():
            for shift, together in ((np.array(code.errors), True), (code.group_mean_sds, False)):
                moved = (build({**means, axis: means[axis] + shift}) - map_) * cells.ravel()
                apart = np.moveaxis(moved.reshape(-1, *cells.shape), axis + 1, 1)
                if together:
                    by_code = apart.reshape(len(map_), len(shift), -1).sum(axis=2)
                    unknown = unknown + by_code @ by_code.T
                elif cells.size > len(shift):
                    unknown = unknown + moved @ moved.T
        return cls(cells.ravel(), noise, map_, unknown)

    @property
    def estimate(self) -> Array:
        """The linear combinations of the noisy counts, with a last axis of length 1."""
        return (self.map @ self.cells)[:, None]

    def draws(self, draws: int = DRAWS) -> tuple[Array, Array]:
        """Return draws of the noise-free linear combinations given the release, with equal weights."""
        covariance = self.noise**2 * self.map @ self.map.T + self.unknown
        values, vectors = np.linalg.eigh(covariance)
        used = values > 1e-12 * max(values.max(initial=0.0), 1e-300)
        root = vectors[:, used] * np.sqrt(values[used])
        drawn = root @ ndtri(points(int(used.sum()), draws)) if used.any() else 0.0
        return self.estimate - drawn, np.full(draws, 1 / draws)


@dataclass(frozen=True, kw_only=True, repr=False)
class SynthAnswer(Release):
    """Estimates from the noisy contingency tables of a synthetic table, with confidence intervals.

    ``to_frame()`` has a row for each term.

    Attributes
    ----------
    of : str
        Description of the question.
    terms : tuple of str
        Name of each estimate.
    estimates : ndarray of shape (terms,)
        The estimates.
    standard_errors, noise_standard_errors : ndarray of shape (terms,)
        The standard error of each, from sampling and noise together, and from the noise alone.
    low, high : ndarray of shape (terms,)
        Ends of the confidence intervals.
    pvalues : ndarray of shape (terms,) or None
        Of the hypotheses that the parameters are 0, noise included.
    confidence : float
        Coverage of each interval.
    n : float
        Rows in the measured table; noisy where their number is private.
    notes : tuple of str
        What to know before trusting the numbers.
    """

    of: str
    terms: tuple[str, ...]
    estimates: NDArray[np.float64]
    standard_errors: NDArray[np.float64]
    noise_standard_errors: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    pvalues: NDArray[np.float64] | None = None
    confidence: float
    n: float
    notes: tuple[str, ...] = ()
    covers: str | None = "population"

    _shown: ClassVar[tuple[str, ...]] = ("n", "notes")

    @property
    def estimate(self) -> float | None:
        """Estimate of an answer with a single term; None if the answer has several terms."""
        return float(self.estimates[0]) if len(self.terms) == 1 else None

    @property
    def pvalue(self) -> float | None:
        """P-value of an answer with a single term; None if it has several terms or no test."""
        return float(self.pvalues[0]) if self.pvalues is not None and len(self.terms) == 1 else None

    def __getitem__(self, term: str) -> float:
        return float(self.estimates[self.terms.index(term)])

    def _noise_parts(self) -> list[float | None]:
        sampling = np.sqrt(np.maximum(self.standard_errors**2 - self.noise_standard_errors**2, 0.0))
        return [noise_share(*each) for each in zip(self.standard_errors.tolist(), sampling.tolist(), strict=True)]

    def _sentence(self) -> str:
        """Write a sentence with the first estimate and its interval; for a regression, with the first slope."""
        at = int(self.terms[0] == "intercept" and len(self.terms) > 1)
        how = uncertainty(
            float(self.low[at]),
            float(self.high[at]),
            self.confidence,
            whose=rows_phrase(self.covers or ""),
            noise=self._noise_parts()[at],
            p=None if self.pvalues is None else float(self.pvalues[at]),
        )
        more = len(self.terms) - 1
        rest = f" {more:,} more {'is' if more == 1 else 'are'} in the table." if more else ""
        estimate = number(self.estimates[at], self.standard_errors[at])
        return f"{self.of} ({self.terms[at]}): {estimate}{how}.{rest}"

    def _tidy(self) -> list[dict[str, Any]]:
        named = {"estimate": self.estimates, "standard_error": self.standard_errors}
        named |= {"noise_standard_error": self.noise_standard_errors, "low": self.low, "high": self.high}
        named |= {} if self.pvalues is None else {"pvalue": self.pvalues}
        return [{"term": [*self.terms], **{name: of.tolist() for name, of in named.items()}}]

    def _grid(self) -> Grid:
        errors = self.standard_errors.tolist()
        ends = [
            f"{number(low, error)} to {number(high, error)}"
            for low, high, error in zip(self.low, self.high, errors, strict=True)
        ]
        rows = [
            (term, number(value, error), end)
            for term, value, error, end in zip(self.terms, self.estimates, errors, ends, strict=True)
        ]
        return Grid((self.of, "estimate", f"{100 * self.confidence:.4g}% CI"), rows)

    def plot(self, ax: Any = None) -> Any:
        """Draw each estimate with its confidence interval."""
        values = [*zip(self.estimates.tolist(), self.low.tolist(), self.high.tolist(), strict=True)]
        return forest([*self.terms], values, self.of, ax, confidence=self.confidence, noise=self._noise_parts())

    @classmethod
    def inferred(
        cls, of: str, terms: Sequence[str], found: Inference, confidence: float, *, tested: bool, **named: Any
    ) -> SynthAnswer:
        """Construct an answer from an inference with one parameter for each term."""
        low, high = found.interval(confidence)
        return cls(
            of=of,
            terms=tuple(terms),
            estimates=np.atleast_1d(found.estimate),
            standard_errors=np.atleast_1d(found.standard_error),
            noise_standard_errors=np.atleast_1d(found.noise_standard_error),
            low=np.atleast_1d(low),
            high=np.atleast_1d(high),
            pvalues=np.atleast_1d(found.pvalue()) if tested else None,
            confidence=confidence,
            **named,
        )


def counts(cells: Array, noise: float) -> Inference:
    """Infer the number of rows of the private table in each cell, without sampling error."""
    drawn = noise * ndtri(points(1, DRAWS))
    theta = cells[:, None] - drawn
    return Inference(cells, theta, np.zeros(theta.shape), np.full(theta.shape, np.inf), np.full(DRAWS, 1 / DRAWS))


@dataclass(frozen=True)
class _CellsAndRests:
    """Noisy counts, shape (categories, groups): of each cell, and of all other cells of the same group."""

    cells: Array
    noise: float

    @property
    def estimate(self) -> tuple[Array, Array]:
        """The noisy counts of each cell and of the other cells, with a last axis of length 1."""
        return self.cells[..., None], (self.cells.sum(axis=0) - self.cells)[..., None]

    def draws(self, draws: int = DRAWS) -> tuple[tuple[Array, Array], Array]:
        """Return draws of the noise-free counts given the release, with equal weights."""
        own, others = self.noise * ndtri(points(2, draws))
        inside, rest = self.estimate
        return (inside - own, rest - math.sqrt(len(self.cells) - 1) * others), np.full(draws, 1 / draws)


def shares(cells: Array, noise: float) -> Inference:
    """Infer the population's share of each category in each group, from noisy counts (categories, groups)."""

    def parameter(exact: tuple[Array, Array]) -> tuple[Array, Array, float]:
        inside, rest = exact
        total = np.maximum(inside + rest, _FEWEST)
        share = np.clip(inside / total, 0.0, 1.0)
        moved = (np.clip(inside, 0.0, total) + 1) / (total + 2)  # a share of 0 has an error too
        variance = moved * (1 - moved) / total
        return share.reshape(cells.size, -1), variance.reshape(cells.size, -1), np.inf

    return infer(_CellsAndRests(cells, noise), parameter)


def _sums_by_group(cells: Array, noise: float, code: Coding) -> CellSums:
    """Return each group's rows, sum and sum of squares of a numeric column, from counts (codes, groups)."""
    groups = np.eye(cells.shape[1])

    def build(means: Mapping[int, Array]) -> Array:
        each = np.stack([np.ones(len(means[0])), means[0], code.variances + means[0] ** 2])
        by_group: Array = np.einsum("mc,gh->gmch", each, groups).reshape(3 * len(groups), -1)
        return by_group

    return CellSums.from_codes(cells, noise, {0: code}, build)


def _moments(exact: Array, mid: float, half: float) -> Moments:
    n, total, squares = np.moveaxis(exact.reshape(-1, 3, exact.shape[-1]), 1, 0)
    return Moments(np.maximum(n, _FEWEST), total, squares, half, mid)


def means(cells: Array, noise: float, code: Coding) -> Inference:
    """Infer a numeric column's population mean in each group, from a table of counts (codes, groups)."""
    sums = _sums_by_group(cells, noise, code)
    return infer(sums, lambda exact: mean(_moments(exact, *code.middle_and_half)))


def difference_of_means(cells: Array, noise: float, code: Coding) -> Inference:
    """Infer the difference of two groups' population means, from a table of counts (codes, 2)."""
    sums = _sums_by_group(cells, noise, code)

    def parameter(exact: Array) -> tuple[Array, Array, Array]:
        both = _moments(exact, *code.middle_and_half)
        theta, variance, df = difference(both[0], both[1])
        return theta[None], variance[None], df[None]

    return infer(sums, parameter)


def regression(
    cells: Array,
    noise: float,
    numbers: Mapping[int, Coding],
    columns: Callable[[Mapping[int, Array]], Sequence[Array]],
    scales: Sequence[tuple[float, float]],
) -> Inference:
    """Infer the least-squares coefficients of the first column on an intercept and the other columns.

    The sums of all products of up to four columns give the coefficients and, with the residuals, their variance
    under unequal variances.

    Parameters
    ----------
    cells : ndarray of shape (codes of the first, ...)
        The noisy counts.
    noise : float
        The standard error of each.
    numbers : mapping of int to Coding
        The columns of numbers, by axis.
    columns : callable
        Gives of the means of their codes, by axis, the values of the columns in each cell, each from -1 to 1.
    scales : sequence of tuple of float
        What each column counts from, and its unit.

    Returns
    -------
    Inference
        Of the intercept and the coefficients.
    """

    def design(means: Mapping[int, Array]) -> Array:
        response, *others = (of.ravel() for of in columns(means))
        return np.column_stack([np.ones(cells.size), *others, response])

    k = design({axis: np.array(code.means) for axis, code in numbers.items()}).shape[1]
    index = [*itertools.combinations_with_replacement(range(k), 4)]
    place: dict[tuple[int, ...], int] = {four: at for at, four in enumerate(index)}
    full = np.array([place[tuple(sorted(four))] for four in itertools.product(range(k), repeat=4)]).reshape([k] * 4)

    def build(means: Mapping[int, Array]) -> Array:
        z = design(means)
        return np.stack([z[:, list(four)].prod(axis=1) for four in index])

    sums = CellSums.from_codes(cells, noise, numbers, build)
    (first, unit), *others = scales
    back = np.diag([1.0, *(1 / half for _, half in others)])
    back[0, 1:] = [-mid / half for mid, half in others]
    found = infer(sums, partial(_least_squares, full=full, back=unit * back))
    start = first * (np.arange(k - 1) == 0)
    return replace(found, estimate=found.estimate + start, theta=found.theta + start[:, None])


def _least_squares(exact: Array, *, full: NDArray[np.intp], back: Array) -> tuple[Array, Array, float]:
    """Compute coefficients and robust variances from sums of fourfold products, and rescale both by `back`."""
    p = len(back)
    fourth = np.moveaxis(exact[full], -1, 0)  # draws first
    second = fourth[:, 0, 0]
    inverse = np.linalg.pinv(second[:, :p, :p], hermitian=True)
    beta = np.einsum("dij,dj->di", inverse, second[:, :p, p])
    residual = np.concatenate([-beta, np.ones((len(beta), 1))], axis=1)
    meat = np.einsum("dijkl,dk,dl->dij", fourth[:, :p, :p], residual, residual, optimize=True)
    root = back @ inverse
    variance = np.einsum("dij,djk,dik->di", root, meat, root, optimize=True)
    n = np.maximum(second[:, 0, 0], p + 1.0)
    return back @ beta.T, np.maximum(variance * (n / (n - p))[:, None], 0.0).T, np.inf
