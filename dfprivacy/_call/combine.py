"""Combinations of releases: a number computed from them, with an interval from draws of their noise."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import operator as op
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy._json import plain_json
from dfprivacy.errors import ArgumentError, quoted, trimmed
from dfprivacy.laws import REDRAWS, NoiseLaw
from dfprivacy.plotting import axes, legend_below, text_color
from dfprivacy.release import Groups, Privacy, Release, arithmetic, main_number
from dfprivacy.schema import as_probability
from dfprivacy.schema.values import plain_number
from dfprivacy.wording import interval_text, noise_share, uncertainty
from dfprivacy.wording import number as written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = [
    "Combination",
    "combine",
    "finite_number",
    "main_value",
    "make_combination",
    "spread_of_draws",
    "values_under_draws",
]

_CHECKED = [0, REDRAWS // 3, REDRAWS - 1]  # draws for which a function of arrays must be that of numbers
_BIAS_MAX = 0.1  # how far the share of draws below the value may lie from a half: see `_refuse_biased`
_WITHIN_ONE = 0.6827  # of a normal law, within one standard deviation
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {"+": op.add, "-": op.sub, "*": op.mul}
_SAME_ROWS = (
    "Some answers are, or may be, about the same rows: the interval allows for any correlation, and is up to 1.41 "
    "times too wide for two answers."
)


@dataclass(frozen=True, kw_only=True, repr=False)
class Combination(Release):
    """Number computed from several releases, with an interval from draws of their noise.

    Attributes
    ----------
    estimate : float
        The value, from the answers as they were released.
    low, high : float
        Ends of its interval.
    confidence : float
        The interval's coverage.
    noise_standard_error : float
        Standard deviation of the value over draws of the noise; half the width of the middle 68% of them if one
        is not finite.
    sampling_standard_error : float or None
        Standard deviation that the sampling of rows adds, or a bound of it; None where it is not in the interval.
    covers : {"table", "population", "limited table", "limited population"}
        The quantity that the interval covers: the same number of the tables without noise, or that of a population
        of which the rows are a sample. Limited: a release is about values clipped to bounds.
    formula : str
        The function and the questions of the releases, as text.
    of : tuple of str
        The questions of the releases.
    notes : tuple of str
        Reservations about the number.
    """

    estimate: float
    low: float
    high: float
    confidence: float
    noise_standard_error: float
    sampling_standard_error: float | None
    covers: str | None
    formula: str
    of: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def _replicates(self) -> Mapping[str, Any]:
        """Return the estimate for each draw of the noise; raise an error for a combination read from JSON."""
        if "_draws" not in vars(self):
            raise ArgumentError(
                "This combination was read from JSON, which lacks the draws of its noise.",
                "Combine the releases that it was made from.",
            )
        return {"estimate": vars(self)["_draws"]}

    @property
    def _facts_in_frame(self) -> tuple[str, ...]:
        return (f"{100 * self.confidence:.4g}% CI",)

    def _tidy(self) -> list[dict[str, Any]]:
        errors = {"noise_standard_error": self.noise_standard_error, "low": self.low, "high": self.high}
        sampling = {"sampling_standard_error": self.sampling_standard_error}
        return [{"term": self.formula, "estimate": self.estimate, **sampling, **errors}]

    def _sentence(self) -> str:
        """Return the number and its interval as a sentence."""
        table = self._covers_tables
        total = math.hypot(self.noise_standard_error, self.sampling_standard_error or 0.0)
        part = 1.0 if table else noise_share(total, self.sampling_standard_error)
        whose = "these tables" if table else "the population"
        how = uncertainty(self.low, self.high, self.confidence, whose=whose, noise=part)
        return f"{self.formula} is {written(self.estimate, (self.high - self.low) / 4)}{how}."

    @property
    def _covers_tables(self) -> bool:
        return (self.covers or "").endswith("table")

    @property
    def _interval_ends(self) -> str:
        finite = math.isfinite(self.low) and math.isfinite(self.high)
        return f"{self.low:.6g} to {self.high:.6g}" if finite else interval_text(self.low, self.high)

    def plot(self, ax: Any = None) -> Any:
        """Plot the number and its confidence interval; an infinite end is plotted at a far finite value."""
        ax = axes(ax)
        far = 3 * max([abs(end - self.estimate) for end in (self.low, self.high) if math.isfinite(end)] or [1.0])
        low, high = np.clip([self.low, self.high], self.estimate - far, self.estimate + far)
        whose = "the table" if self._covers_tables else "the population"
        label = f"{self.confidence:.0%} interval, for {whose}"
        ax.plot([low, high], [0, 0], color="tab:orange", lw=3, label=label)
        ax.plot(self.estimate, 0, "o", color=text_color(ax), label="estimate")
        ax.set(yticks=[], xlabel=self.formula)
        legend_below(ax)
        return ax

    def _rows(self) -> list[tuple[str, str]]:
        table = self._covers_tables
        how = f"percentiles of {REDRAWS:,} draws of the noise"
        how += "; sampling error is not included" if table else " and of the sampling of rows"
        rows = [
            (self.formula, f"{self.estimate:.6g}"),
            (f"{100 * self.confidence:.4g}% CI", self._interval_ends),
            ("made from", how),
            ("noise_standard_error", f"{self.noise_standard_error:.3g}"),
        ]
        if self.sampling_standard_error is not None:
            rows.append(("sampling_standard_error", f"{self.sampling_standard_error:.3g}"))
        return [*rows, *(("note", each) for each in self.notes)]


@trimmed
def combine(
    f: Callable[..., float],
    /,
    *releases: Release,
    confidence: float = 0.95,
    covers: Literal["table", "population"] = "table",
) -> Combination:
    """Compute a number from several releases, with an interval from the noise in them.

    Parameters
    ----------
    f : callable
        Takes the releases, and returns one number: ``lambda t, u: t.estimate - u.estimate``. It is called with
        the releases, and then with stand-ins that hold their numbers under other draws of the noise.
    *releases : Release
        What methods of views returned, here or in another process, or other combinations. They may share
        measurements and rows.
    confidence : float
        Coverage of the interval, strictly between 0 and 1.
    covers : {"table", "population"}
        What the interval is for. ``"table"``: the same number of the tables without noise; how rows were sampled is
        not in it, whether or not releases are about the same rows. ``"population"``: that of a population of which
        the rows are a sample, for functions of estimates whose sampling error is known, as those of tests. Those
        about different rows by their conditions or groups are independent; where rows may be the same, any
        correlation is allowed for.

    Returns
    -------
    Combination
        ``estimate``, ``low`` and ``high``, and what they are.

    Raises
    ------
    ArgumentError
        If `f` returns no number; if the draws show that the value leans to one side, as maxima and sums of clipped
        counts do, so that no interval from them covers; or if the noise in a release cannot be drawn again.

    Notes
    -----
    **Privacy.** Post-processing: everything follows from what was released, and from public facts. Nothing is
    charged, and neither rows nor ledger are read.

    **Statistics.** A release holds its measurements T + Z, and the law of Z. The interval holds the middle part of
    f(T + Z - Z*) over draws Z* of that law [1]_. The draws of a measurement are the same in every release that
    stands on it, so a release less itself is 0. Where f rises and falls with every measurement at about the same
    rate, near what was measured, the interval covers as it says (docs/explanation/measurements.md has a proof, and
    measured coverage).

    References
    ----------
    .. [1] Efron (1987). Better bootstrap confidence intervals. JASA 82.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": [31, 45, 28, 52] * 5000, "bmi": [22, 31, 27, 24] * 5000})
    >>> view = dp.protect(df, "combined", epsilon=2, ledger="memory:", bounds={"age": (18, 90), "bmi": (10, 60)})
    >>> age = view.ttest("age", popmean=40, epsilon=1)
    >>> bmi = view.ttest("bmi", popmean=25, epsilon=1)
    >>> found = dp.combine(lambda a, b: a.estimate / b.estimate, age, bmi)
    >>> abs(found.estimate - 39 / 26) < 0.05, found.low < found.estimate < found.high
    (True, True)
    >>> zero = age - age
    >>> zero.estimate, zero.low, zero.high
    (0.0, 0.0, 0.0)
    """
    if not callable(f) or isinstance(f, Release):
        raise ArgumentError(
            f"The first argument of combine() must be a function, not {type(f).__name__}.",
            "For example dp.combine(lambda a, b: a.estimate / b.estimate, first, second).",
        )
    if not releases:
        raise ArgumentError(
            "combine() was given a function and no release.", "Pass releases: dp.combine(f, first, second)."
        )
    for each in releases:
        if not isinstance(each, Release):
            raise ArgumentError(
                f"combine() takes releases, not {type(each).__name__}.", "Write constants into the function."
            )
    name = getattr(f, "__name__", type(f).__name__)
    words = f"{'f' if name == '<lambda>' else name}({', '.join(map(_question_text, releases))})"
    return make_combination(f, releases, words, confidence=confidence, covers=covers)


def make_combination(
    f: Callable[..., Any],
    releases: Sequence[Release],
    words: str,
    *,
    values: Array | None = None,
    confidence: float = 0.95,
    covers: str = "table",
    privacy: Privacy | None = None,
    notes: tuple[str, ...] = (),
) -> Combination:
    """Compute a `Combination`: its estimate, its interval from draws of the noise, and its notes."""
    confidence = as_probability(confidence, "confidence")
    if not isinstance(covers, str) or covers not in {"table", "population"}:
        raise ArgumentError(f"covers{quoted(covers)} is unknown.", 'Use "table" or "population".')
    estimate = finite_number(f(*releases), "The value of the combining function")
    if finite_number(f(*releases), "The value of the combining function") != estimate:
        raise ArgumentError(
            "The function returned two different numbers for the same answers.",
            "Let its result depend on the answers alone, without random numbers.",
        )
    sampling = None
    if covers == "population":
        sampling, apart = _sampling_error(_sampling_shifts(f, releases))
        notes += () if apart else (_SAME_ROWS,)
    values = values_under_draws(f, releases) if values is None else values
    sampled = (
        values if sampling is None else values + sampling * np.random.default_rng(REDRAWS).normal(size=REDRAWS)
    )
    low, high = _percentiles(sampled, (1 - confidence) / 2)
    if math.isfinite(low) or math.isfinite(high):
        _refuse_biased(values, estimate)
    limited = any((each.covers or "").startswith("limited") for each in _single_releases(releases))
    made = Combination(
        estimate=estimate,
        low=low,
        high=high,
        confidence=confidence,
        noise_standard_error=spread_of_draws(values),
        sampling_standard_error=sampling,
        covers=f"limited {covers}" if limited else covers,
        formula=words,
        of=tuple(dict.fromkeys(name for each in releases for name in getattr(each, "of", (_question_text(each),)))),
        notes=(*notes, *_infinite_end_notes(values, low, high)),
        privacy=privacy or _privacy_of_combination(releases),
        library=releases[0].library,
    )
    vars(made).update(_draws=values, _derived_from=(f, releases))
    return made


@trimmed
def calculate_with(operator: str, first: Any, second: Any) -> Combination:
    """Add, subtract, multiply or divide two releases, or a release and a number."""
    values = [finite_number(each, "The number") for each in (first, second)]
    if operator == "/" and values[1] == 0:
        raise ArgumentError(
            "The divisor is 0.", "Compute a difference instead, or measure the divisor with a larger epsilon."
        )
    calculate = _OPERATORS.get(operator, partial(_divide_draws, sign=math.copysign(1.0, values[1])))
    pairs = [(each, value) for each, value in zip((first, second), values, strict=True)]
    releases = [each for each, _ in pairs if isinstance(each, Release)]

    def value_of(*given: Any) -> Any:
        rest = iter(given)
        return calculate(*(main_value(next(rest)) if isinstance(each, Release) else value for each, value in pairs))

    with np.errstate(all="ignore"):
        draws = calculate(*(_main_draws(each) if isinstance(each, Release) else value for each, value in pairs))
    words = f" {operator} ".join(_question_in_brackets(each) for each, _ in pairs)
    return make_combination(value_of, releases, words, values=np.broadcast_to(draws, REDRAWS))


def values_under_draws(f: Callable[..., Any], releases: Sequence[Release]) -> Array:
    """Compute the value of a function of releases under each draw of their noise; NaN if undefined, such as 0/0."""
    draws = [_draws_of(each) for each in _single_releases(releases)]
    values = np.full(REDRAWS, np.nan)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(TypeError, ValueError):  # where it takes numbers alone
            every = np.asarray(f(*_drawn_releases(releases, draws, slice(None))), dtype=np.float64)
            alone = [f(*_drawn_releases(releases, draws, at)) for at in _CHECKED]
            if every.shape == values.shape and np.allclose(every[_CHECKED], alone, 1e-9, 0, equal_nan=True):
                return every
        for at in range(REDRAWS):
            try:
                values[at] = _number_or_refusal(
                    f(*_drawn_releases(releases, draws, at)), "The value of the combining function"
                )
            except (ArithmeticError, ValueError) as error:
                if isinstance(error, ArgumentError) and not isinstance(error, NotFiniteError):
                    raise
            except TypeError as error:  # such as of None
                raise ArgumentError(
                    f"The function fails for answers with redrawn noise: {error}.",
                    "Use numbers that are computed from noisy sums; quantiles and categories are not.",
                ) from None
    return values


class _DrawnRelease:
    """Stand-in for a release, with its numbers under one draw of the noise, or under all draws."""

    def __init__(self, release: Release, draws: Mapping[str, Any], at: int | slice) -> None:
        self._release, self._draws, self._at = release, draws, at

    def __getattr__(self, name: str) -> Any:
        if name in self._draws:
            return _select_draws(self._draws[name], self._at)
        value = getattr(self._release, name)
        parts = value if isinstance(value, tuple) else (value,)
        if all(each is None or isinstance(each, str | bool) for each in parts):  # a setting
            return value
        raise ArgumentError(
            f"The function reads the attribute {name!r} of a {type(self._release).__name__}, whose noise cannot be "
            "drawn again.",
            f"Use one of the attributes {', '.join(self._draws)}.",
        )

    def __float__(self) -> float:
        return float(getattr(self, self._release._estimate))  # noqa: SLF001 - of our own kind

    def __getitem__(self, key: object) -> Any:
        kind: Any = type(self._release)
        return kind.__getitem__(self, key)


class _DrawnGroups:
    """Stand-in for the releases of all groups, with their numbers under one draw of the noise, or all draws."""

    def __init__(self, groups: Groups, releases: Sequence[_DrawnRelease]) -> None:
        self.by, self.groups, self.releases = groups.by, groups.groups, tuple(releases)

    def __getitem__(self, key: object) -> _DrawnRelease:
        return self.releases[self.groups.index(key)]

    def keys(self) -> tuple[Any, ...]:
        return self.groups

    def values(self) -> tuple[_DrawnRelease, ...]:
        return self.releases

    def items(self) -> list[tuple[Any, _DrawnRelease]]:
        return list(zip(self.groups, self.releases, strict=True))


def _single_releases(releases: Sequence[Release]) -> list[Release]:
    """Return the releases, with the release of each group in place of `Groups`."""
    parts = ([one for _, one in each.items()] if isinstance(each, Groups) else [each] for each in releases)
    return list(itertools.chain.from_iterable(parts))


def _drawn_releases(releases: Sequence[Release], draws: Sequence[Mapping[str, Any]], at: int | slice) -> list[Any]:
    """Return stand-ins for releases, with their numbers under one draw of the noise, or under all draws."""
    rest = iter(draws)
    return [
        _DrawnGroups(each, [_DrawnRelease(one, next(rest), at) for one in each.releases])
        if isinstance(each, Groups)
        else _DrawnRelease(each, next(rest), at)
        for each in releases
    ]


def _select_draws(value: Any, at: int | slice) -> Any:
    """Select one draw, or all, from a nested dictionary, tuple or array of draws."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {name: _select_draws(each, at) for name, each in value.items()}
    if isinstance(value, tuple):
        return tuple(_select_draws(each, at) for each in value)
    one = value[..., at]
    return float(one) if np.ndim(one) == 0 else one


def _draws_of(release: Release) -> Mapping[str, Any]:
    """Return a release's numbers with redrawn noise, or only its estimate with noise of its standard error.

    That noise is taken to be Laplace noise, whose 95 % interval is wider than that of normal noise.
    """
    if release.privacy is not None and release.privacy.sample:
        raise ArgumentError(
            "The noise of an answer about a secret sample cannot be drawn again: its measurements are not kept.",
            "Combine answers about whole tables.",
        )
    name, kind = release._estimate, type(release)  # noqa: SLF001 - of our own kind
    value, error = getattr(release, name, None), getattr(release, "noise_standard_error", None)
    own = kind._replicates is not Release._replicates or not hasattr(release, "low")  # noqa: SLF001 - as above
    if own or not (isinstance(value, float) and isinstance(error, float) and math.isfinite(value + error)):
        return release._replicates()  # noqa: SLF001 - as above
    from dfprivacy.inference.draws import noise_draws  # which loads SciPy

    identity = plain_json(getattr(release, "released", None) or release.result)
    return {name: value - noise_draws(NoiseLaw(1.0), error / math.sqrt(2), identity)}


def _main_draws(release: Release) -> Array:
    return np.asarray(_draws_of(release)[release._estimate])  # noqa: SLF001 - of our own kind


class NotFiniteError(ArgumentError):
    """Error for a number that is infinite, NaN or None."""


def finite_number(value: Any, what: str) -> float:
    """Return a value as a finite float, or raise an `ArgumentError`."""
    read = _number_or_refusal(value, what)
    if math.isinf(read):
        raise NotFiniteError(f"{what} is {read}.", "Combine finite numbers.")
    return read


def _number_or_refusal(value: Any, what: str) -> float:
    if isinstance(value, Release):
        return main_value(value)
    if isinstance(value, _DrawnRelease):
        value = float(value)
    if value is None:  # such as a slope of regressors that cannot be told apart under this noise
        raise NotFiniteError(f"{what} is None, not a number.", "Use a number, such as release.estimate.")
    if isinstance(value, list | tuple | dict | set) or np.ndim(value):
        raise ArgumentError(f"{what} consists of several numbers.", "Combine releases to one number at a time.")
    if isinstance(value, bool | np.bool_ | str):
        raise ArgumentError(
            f"{what} is a {type(value).__name__}, not a number.", "Use a number, such as release.estimate."
        )
    read = plain_number(value.item() if isinstance(value, np.ndarray) else value)
    if math.isnan(read):
        raise NotFiniteError(f"{what} is {read}.", "Combine finite numbers.")
    return read


def main_value(release: Any) -> float:
    """Return the main number of a release, such as its estimate, for arithmetic."""
    if isinstance(release, _DrawnRelease):
        return float(release)
    if isinstance(release, Groups):
        raise ArgumentError(
            "An answer by group has one number for each group.", "Choose a group: groups['a'] - groups['b']."
        )
    value, kind = main_number(release), type(release).__name__
    if value is None:
        raise ArgumentError(
            f"A {kind} has no single number to calculate with.",
            f"Select one of its numbers, such as {_number_selector_example(release)}: "
            "view.refine(release, number, epsilon=...), or dp.combine(number, release).",
        )
    return finite_number(float(value), f"The {release._estimate} of this {kind}")  # noqa: SLF001 - of our own kind


def _number_selector_example(release: Release) -> str:
    """Return an example, as Python text, of a function that selects one number of a release."""
    for name, field in _draws_of(release).items():
        value, place = field, ""
        while isinstance(value, Mapping | tuple) or np.ndim(value) > 1:
            key = next(iter(value)) if isinstance(value, Mapping) else 0
            value, place = value[key], f"{place}[{key!r}]"
        return f"number = lambda r: r.{name}{place}"
    return "number = lambda r: r.estimate"


def _refuse_biased(draws: Array, estimate: float) -> None:
    """Raise an error if far more or fewer than half of the draws lie below the value, as for a maximum.

    If the value is normal on some scale, and a share p of the draws lies below it, percentiles of 95 % cover with
    probability Φ(1.96 - 2z) - Φ(-1.96 - 2z), z being the normal quantile of p (Efron 1987): .92 where p is .4.
    """
    same = 1e-9 * max(abs(estimate), float(np.abs(draws[np.isfinite(draws)]).max(initial=0.0)))
    half = float(np.isnan(draws).mean()) / 2  # on which side these are is not known
    below = float((draws < estimate - same).mean()) + half
    upto = float((draws <= estimate + same).mean()) + half
    if below > 0.5 + _BIAS_MAX or upto < 0.5 - _BIAS_MAX:
        raise ArgumentError(
            f"Noise biases the value: {below:.0%} of redraws of the noise lower it, not about half, so an interval "
            "from the draws would not cover. Maxima, ranks and sums of counts cut off at 0 have such a bias.",
            "Combine raw counts, sums and means, before any choice, cut-off or square.",
        )


def _percentiles(draws: Array, tail: float) -> tuple[float, float]:
    """Return the draws at the lower and upper `tail` quantiles; NaN counts as -∞ in the lower, ∞ in the upper."""
    unknown = np.isnan(draws)
    low = np.quantile(np.where(unknown, -np.inf, draws), tail, method="lower")
    high = np.quantile(np.where(unknown, np.inf, draws), 1 - tail, method="higher")
    return float(low), float(high)


def _sampling_shifts(f: Callable[..., Any], releases: Sequence[Release]) -> list[tuple[Release, float]]:
    """Return each answer with the change of the combined value per sampling standard error of that answer.

    The function is taken to be linear in the estimates within their sampling errors.
    """
    members = _single_releases(releases)
    known = [_sampling_shifts_of(each) for each in members]

    def value_with_error(place: int, by: float) -> float:
        mains = [main_value(each) + by * (at == place) for at, each in enumerate(members)]
        draws = [{each._estimate: np.array([main_value])} for each, main_value in zip(members, mains, strict=True)]  # noqa: SLF001
        return finite_number(f(*_drawn_releases(releases, draws, 0)), "The value of the combining function")

    found = []
    for place, own in enumerate(known):
        size = sum(abs(shift) for _, shift in own) or 1.0
        slope = (value_with_error(place, size) - value_with_error(place, -size)) / (2 * size)
        found += [(leaf, slope * shift) for leaf, shift in own]
    return found


def _sampling_shifts_of(release: Release) -> list[tuple[Release, float]]:
    if isinstance(release, Combination):
        release._replicates()  # noqa: SLF001 - which refuses one from JSON
        return _sampling_shifts(*vars(release)["_derived_from"])
    if release._sampling_error is None:  # noqa: SLF001 - of our own kind
        raise ArgumentError(
            f"The sampling error of {_question_text(release)} is not known.",
            'Combine answers that have one, such as those of tests, or use covers="table", which leaves it out.',
        )
    return [(release, release._sampling_error)]  # noqa: SLF001 - as above


def _sampling_error(shifts: Sequence[tuple[Release, float]]) -> tuple[float, bool]:
    """Return an upper bound of the sampling standard error, and whether it is exact (all rows disjoint)."""
    squared, apart = 0.0, True
    for (one, a), (other, b) in itertools.product(shifts, repeat=2):
        if one is other or (one == other and _row_conditions(one) == _row_conditions(other)):
            squared += a * b
        elif not _about_disjoint_rows(one, other):
            squared, apart = squared + abs(a * b), False
    return math.sqrt(max(squared, 0.0)), apart


def _row_conditions(release: Release) -> tuple[str, ...]:
    privacy = release.privacy
    return () if privacy is None else (privacy.account, privacy.table, *privacy.where)


def _about_disjoint_rows(first: Release, second: Release) -> bool:
    """Return whether two answers are about disjoint rows of one table, according to their conditions."""
    one, two = first.privacy, second.privacy
    if one is None or two is None or (one.account, one.table) != (two.account, two.table):
        return False
    if max(one.max_rows, two.max_rows) > 1:
        return False
    chosen, other = (
        dict(each.split(" = ", 1) for each in of.where if " = " in each and " := " not in each) for of in (one, two)
    )
    return any(other.get(column, category) != category for column, category in chosen.items())


def _question_text(release: Release) -> str:
    """Return the question of a release as Python text, with the conditions on its rows."""
    if isinstance(release, Combination):
        return f"({release.formula})"
    if release.privacy is None or not release.privacy.question:
        return type(release).__name__
    where = " and ".join(release.privacy.where)
    return release.privacy.question + (f" where {where}" if where else "")


def _question_in_brackets(release: Release | float) -> str:
    if not isinstance(release, Release):
        return f"{float(release):g}"  # a Fraction has no format of its own before Python 3.12
    words = _question_text(release)
    return f"({words})" if " where " in words and not isinstance(release, Combination) else words


def _divide_draws(a: Any, b: Any, sign: float) -> Any:
    """Divide draws; NaN where the divisor's sign differs from its released value, infinite where it is 0."""
    with np.errstate(all="ignore"):
        known = np.where(np.multiply(b, sign) > 0, np.divide(a, b), np.nan)
        return np.where((np.equal(b, 0)) & (np.not_equal(a, 0)), np.copysign(np.inf, np.multiply(a, sign)), known)


def spread_of_draws(values: Array) -> float:
    """Return the standard deviation of draws; half the width of their middle 68% if any draw is not finite."""
    if np.isfinite(values).all():
        return float(values.std())
    low, high = _percentiles(values, (1 - _WITHIN_ONE) / 2)
    return (high - low) / 2


def _infinite_end_notes(values: Array, low: float, high: float) -> tuple[str, ...]:
    """Return a note on an infinite end of an interval, or an empty tuple if both ends are finite."""
    if math.isfinite(low) and math.isfinite(high):
        return ()
    why = f"the value is not finite in {np.count_nonzero(~np.isfinite(values))} of {values.size} draws of the noise"
    if math.isfinite(low) or math.isfinite(high):
        end = "upper" if math.isfinite(low) else "lower"
        return (f"The interval has no {end} end: {why}, as after division by 0.",)
    more = "Measure more accurately: view.refine(release, epsilon=...)."
    return (f"Uninformative: the value could be any number, because {why}, as after division by 0. {more}",)


def _privacy_of_combination(releases: Sequence[Release]) -> Privacy:
    """Return the privacy record of a combination: epsilon and delta of 0, and the noise of its releases."""
    paid = [each.privacy for each in releases if each.privacy is not None]
    if not paid:
        raise ArgumentError(
            "These releases have no privacy record (release.privacy is None).",
            "Combine releases that methods of a view returned.",
        )
    noise = dict.fromkeys(
        replace(record, epsilon=0.0, delta=0.0, reused=record.reused or each.at)
        for each in paid
        for record in each.noise
    )
    return Privacy(
        epsilon=0.0,
        delta=0.0,
        neighbors=paid[0].neighbors,
        noise=tuple(noise),
        account=" and ".join(dict.fromkeys(each.account for each in paid)),
        mechanism=f"combine (dfprivacy {version('dfprivacy')})",
        at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        sampler=paid[0].sampler,
        private=all(each.private for each in paid),
    )


arithmetic.append(calculate_with)
