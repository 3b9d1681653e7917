"""Arithmetic on releases: any function of answers, with an interval from the recorded noise, drawn again."""

from __future__ import annotations

import datetime as dt
import math
import operator as op
import weakref
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy._call.answered import answered_of
from dfprivacy._call.formula import Leaf, Node, drawn, main, number
from dfprivacy._call.intervals import ends_of, refuse_choices, refuse_leaning, sampling_of
from dfprivacy._call.recalled import recall
from dfprivacy._measure.redraw import World
from dfprivacy.errors import ArgumentError, quoted, trimmed
from dfprivacy.plotting import axes, below, ink
from dfprivacy.release import Privacy, Release, arithmetic
from dfprivacy.schema import as_probability, as_whole
from dfprivacy.wording import between, noise_share, sure
from dfprivacy.wording import number as written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = ["Combination", "checked_input", "combine", "concluded", "refuse_undrawable", "weighted"]

_DRAWS = 999
_LEAST = 499  # draws: the share of them below the value is known to 2 %
_MOST = 100_000
_WITHIN_ONE = 0.6827  # of a normal law, within one standard deviation
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {"+": op.add, "-": op.sub, "*": op.mul}


@dataclass(frozen=True, kw_only=True, repr=False)
class Combination(Release):
    """A number that follows from several answers, with the interval that their noise leaves open.

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
        What the interval is for: the same number of the tables without noise, whatever they are samples of; or that
        of a population of which the rows are a sample. Limited: where a release is of values limited to bounds.
    formula : str
        What was combined, and how.
    of : tuple of str
        The questions that were answered.
    draws : int
        How many draws of the noise the interval is made from.
    notes : tuple of str
        What to know before trusting the number.
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
    draws: int
    notes: tuple[str, ...] = ()

    def __float__(self) -> float:
        return self.estimate

    @property
    def _repeated(self) -> tuple[str, ...]:
        return (f"{100 * self.confidence:.4g}% interval",)

    def _tidy(self) -> list[dict[str, Any]]:
        errors = {"noise_standard_error": self.noise_standard_error, "low": self.low, "high": self.high}
        sampling = {"sampling_standard_error": self.sampling_standard_error}
        return [{"term": self.formula, "estimate": self.estimate, **sampling, **errors}]

    def _sentence(self) -> str:
        """Say the number, and what follows of its interval."""
        table = self._of_tables
        total = math.hypot(self.noise_standard_error, self.sampling_standard_error or 0.0)
        part = 1.0 if table else noise_share(total, self.sampling_standard_error)
        whose = "the tables' own" if table else "the population"
        how = sure(self.low, self.high, self.confidence, whose=whose, noise=part)
        return f"{self.formula} is {written(self.estimate, (self.high - self.low) / 4)}{how}."

    @property
    def _of_tables(self) -> bool:
        return (self.covers or "").endswith("table")

    @property
    def _ends(self) -> str:
        finite = math.isfinite(self.low) and math.isfinite(self.high)
        return f"{self.low:.6g} to {self.high:.6g}" if finite else between(self.low, self.high)

    def plot(self, ax: Any = None) -> Any:
        """Draw the number and its interval; an end that it does not have is far away."""
        ax = axes(ax)
        far = 3 * max([abs(end - self.estimate) for end in (self.low, self.high) if math.isfinite(end)] or [1.0])
        low, high = np.clip([self.low, self.high], self.estimate - far, self.estimate + far)
        whose = "the table" if self._of_tables else "the population"
        label = f"{self.confidence:.0%} interval, for {whose}"
        ax.plot([low, high], [0, 0], color="tab:orange", lw=3, label=label)
        ax.plot(self.estimate, 0, "o", color=ink(ax), label="estimate")
        ax.set(yticks=[], xlabel=self.formula)
        below(ax)
        return ax

    def _rows(self) -> list[tuple[str, str]]:
        table = self._of_tables
        how = f"percentiles of {self.draws} draws of the recorded noise"
        how += "; the sampling of rows is not in it" if table else " and of the sampling of rows"
        rows = [
            (self.formula, f"{self.estimate:.6g}"),
            (f"{100 * self.confidence:.4g}% interval", self._ends),
            ("made from", how),
            ("noise_standard_error", f"{self.noise_standard_error:.3g}"),
        ]
        if self.sampling_standard_error is not None:
            rows.append(("sampling_standard_error", f"{self.sampling_standard_error:.3g}"))
        return [*rows, *(("note", each) for each in self.notes)]


_SAME_ROWS = (
    "Some of it is, or may be, about the same rows: the interval allows for any correlation, and is up to 1.41 "
    "times too wide for two."
)


_NODES: dict[int, tuple[weakref.ref[Combination], Node]] = {}


@trimmed
def combine(
    f: Callable[..., float],
    /,
    *releases: Release,
    confidence: float = 0.95,
    draws: int = _DRAWS,
    covers: Literal["table", "population"] = "table",
) -> Combination:
    """Compute a number from several releases of one ledger, with an interval that knows their noise.

    Parameters
    ----------
    f : callable
        Takes the releases, and returns one number: ``lambda t, u: t.estimate - u.estimate``. It is called with
        the releases, and then with what stands for them under other draws of the noise.
    *releases : Release
        What methods of views returned, or other combinations. They may share measurements and rows.
    confidence : float
        Coverage of the interval, strictly between 0 and 1.
    draws : int
        How often the noise is drawn again, from 499 to 100,000.
    covers : {"table", "population"}
        What the interval is for. ``"table"``: the same number of the tables without noise; how rows were sampled is
        not in it, whether or not releases are about the same rows. ``"population"``: that of a population of which
        the rows are a sample, for functions of the estimates of t-tests. Those about different rows by their
        conditions or groups are independent; where rows may be the same, any correlation is allowed for.

    Returns
    -------
    Combination
        ``estimate``, ``low`` and ``high``, and what they are.

    Raises
    ------
    ArgumentError
        If `f` returns no number; if it takes a maximum, or the draws show that the value leans to one side, as
        maxima and sums of clipped counts do, so that no interval from them covers; if the noise in a release cannot
        be drawn again; if they are of two ledgers; or if the ledger does not have the measurements any more.

    Notes
    -----
    **Privacy.** Post-processing: everything follows from what was released, and from public facts. Nothing is
    charged, and no private column is read.

    **Statistics.** The ledger keeps each measurement T + Z with the law of Z. The interval holds the middle part of
    f(T + Z - Z*) over draws Z* of that law [1]_. Each measurement is drawn once, whichever releases stand on it, so
    a release less itself is 0. Where f rises and falls with every measurement at about the same rate, near what was
    measured, the interval covers as it says (docs/explanation/measurements.md has a proof, and measured coverage).

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
            f"combine() takes a function first, not a {type(f).__name__}.",
            "For example dp.combine(lambda a, b: a.estimate / b.estimate, first, second).",
        )
    refuse_choices(f)
    if not releases:
        raise ArgumentError("combine() was given no release.", "Pass those that the function takes.")
    inputs = tuple(_input(each) for each in releases)
    name = getattr(f, "__name__", type(f).__name__)
    name = "f" if name == "<lambda>" else name
    node = Node(f, inputs, f"{name}({', '.join(each.words for each in inputs)})")
    estimate = number(f(*releases), "The function")
    return concluded(node, estimate, confidence=confidence, draws=draws, covers=covers)


def concluded(
    node: Node,
    estimate: float,
    *,
    confidence: float = 0.95,
    draws: int = _DRAWS,
    covers: str = "table",
    privacy: Privacy | None = None,
    notes: tuple[str, ...] = (),
) -> Combination:
    """Draw the noise again, and give the interval."""
    confidence = as_probability(confidence, "confidence")
    draws = as_whole(draws, "draws", _LEAST, _MOST)
    if not isinstance(covers, str) or covers not in {"table", "population"}:
        raise ArgumentError(f"covers{quoted(covers)} is unknown.", 'Use "table" or "population".')
    leaves = list(dict.fromkeys(node.leaves()))
    _check_ledgers(leaves)
    for part in node.parts():
        part.check()
    if not math.isclose(node.value(World(None)), estimate, rel_tol=1e-9, abs_tol=1e-9):
        raise ArgumentError(
            "The function gives another number when it is called again with the same answers.",
            "It must be a function of them alone.",
        )
    sampling = None
    if covers == "population":
        sampling, apart = sampling_of(node)
        notes += () if apart else (_SAME_ROWS,)
    values = drawn(node, draws)
    limited = any((part.release.covers or "").startswith("limited") for part in node.parts())
    sampled = values if sampling is None else values + sampling * np.random.default_rng(draws).normal(size=draws)
    low, high = ends_of(sampled, (1 - confidence) / 2)
    if math.isfinite(low) or math.isfinite(high):
        refuse_leaning(values, estimate)
    made = Combination(
        estimate=estimate,
        low=low,
        high=high,
        confidence=confidence,
        noise_standard_error=_spread(values),
        sampling_standard_error=sampling,
        covers=f"limited {covers}" if limited else covers,
        formula=node.words,
        of=tuple(dict.fromkeys(leaf.words for leaf in leaves)),
        draws=draws,
        notes=(*notes, *_open(values, low, high)),
        privacy=privacy or _privacy(leaves),
        library=leaves[0].release.library,
    )
    place = id(made)

    def forget(_: object, known: dict[int, Any] = _NODES) -> None:  # which outlives the module's own name
        known.pop(place, None)

    _NODES[place] = weakref.ref(made, forget), node
    return made


@trimmed
def calculated(operator: str, first: Any, second: Any) -> Combination:
    """Add, subtract, multiply or divide two releases, or a release and a number."""
    inputs = _operand(first), _operand(second)
    values = [main(each) if isinstance(each, Release) else number(each, "The number") for each in (first, second)]
    if operator == "/" and values[1] == 0:
        raise ArgumentError("The divisor is 0.", "Subtract, or measure the divisor more accurately.")
    calculate = _OPERATORS.get(operator, partial(_quotient, sign=math.copysign(1.0, values[1])))
    words = f" {operator} ".join(_bracketed(each) for each in inputs)
    return concluded(Node(lambda a, b: calculate(float(a), float(b)), inputs, words), float(calculate(*values)))


def checked_input(
    release: Release, of: Callable[..., float] | None
) -> tuple[Leaf, Callable[..., float] | None, int]:
    """Find which question a release answers, which number of it is meant, and how often it was measured."""
    leaf = _input(release)
    if isinstance(leaf, Leaf):
        if of is not None:
            refuse_choices(of)
        return leaf, of, 1
    if leaf.pools is None or of is not None:
        raise ArgumentError(
            "A combination is not measured: what it was made from is.",
            "Refine one of its releases, and combine again.",
        )
    return leaf.pools


def number_in(release: Release, of: Callable[..., float] | None) -> float:
    """Give the number that is meant, if the noise in it can be drawn again."""
    entered = _input(release)
    for part in dict.fromkeys(part for leaf in entered.leaves() for part in leaf.parts()):
        part.check()
    return main(release) if of is None or isinstance(entered, Node) else number(of(release), "The function")


def refuse_undrawable(release: Release, of: Callable[..., float] | None) -> None:
    """Refuse a number of a release if its noise cannot be drawn again, or draws of it lean to one side."""
    value, entered = number_in(release, of), _input(release)
    node = entered if isinstance(entered, Node) else Node(of or float, (entered,), entered.words)
    refuse_leaning(drawn(node, _LEAST), value)


def weighted(first: Release, second: Release, of: Callable[..., float] | None) -> tuple[Node, float]:
    """Give the mean of one number in two answers to a question, weighted by the inverse of its noise's variance."""
    leaf, _, times = checked_input(first, None if _combined(first) else of)
    f = of or float
    leaves = [_input(each) for each in (first, second)]
    nodes = [each if isinstance(each, Node) else Node(f, (each,), each.words) for each in leaves]
    values = [number_in(each, of) for each in (first, second)]
    variances = [_spread(drawn(node, _LEAST)) ** 2 for node in nodes]
    if not all(map(math.isfinite, variances)):
        raise ArgumentError("The number may be infinite in one of these answers.", "Take the other alone.")
    part = variances[1] / sum(variances) if sum(variances) > 0 else 0.5

    def pooled(a: Any, b: Any) -> float:
        return part * float(a) + (1 - part) * float(b)

    node = Node(pooled, tuple(nodes), f"{leaf.words}, pooled", (leaf, of, times + 1))
    return node, part * values[0] + (1 - part) * values[1]


def _combined(release: Release) -> bool:
    return isinstance(_input(release), Node)


def _input(release: object) -> Leaf | Node:
    """Find what a release follows from."""
    if not isinstance(release, Release):
        raise ArgumentError(
            f"combine() takes releases, not a {type(release).__name__}.", "Put numbers into the function."
        )
    known = _NODES.get(id(release))
    if known is not None and known[0]() is release:
        return known[1]
    if isinstance(release, Combination):
        raise ArgumentError(
            "What this combination was made from is not known here.", "Combine the releases that it was made from."
        )
    if release.privacy is not None and release.privacy.sample:
        raise ArgumentError(
            "This is an answer about a secret sample, of which nothing is kept that could be drawn again.",
            "Combine answers about whole tables.",
        )
    answered = answered_of(release) or (answered_of(release) if recall(release) else None)
    if answered is None:
        raise ArgumentError(
            "What this release answers is not known here: it comes from elsewhere, its data set is not protected "
            "in this process, or it is one group of an answer.",
            "Protect the data set, or ask its question again through the view, at no charge; of an answer by "
            "group, pass all: dp.combine(lambda g: g['a'].estimate - g['b'].estimate, groups).",
        )
    return Leaf(release, *answered)


def _operand(value: Any) -> Leaf | Node | float:
    return _input(value) if isinstance(value, Release) else number(value, "The number")


def _bracketed(node: Leaf | Node | float) -> str:
    if isinstance(node, float):
        return f"{node:g}"
    return f"({node.words})" if isinstance(node, Node) or " where " in node.words else node.words


def _check_ledgers(leaves: Sequence[Leaf]) -> None:
    places = sorted({leaf.answered.ledger for leaf in leaves})
    if len(places) > 1:
        raise ArgumentError(
            f"These releases are of two ledgers, {places[0]} and {places[1]}.",
            "Whether they stand on the same measurements cannot be known then; protect both data sets with the "
            "same ledger=.",
        )


def _quotient(a: float, b: float, sign: float) -> float:
    """Divide; by 0, or by what has another sign than the divisor as it was released, as far as it is known."""
    if a and b == 0:
        return math.copysign(math.inf, a * sign)
    return a / b if b * sign > 0 else math.nan


def _spread(values: NDArray[np.float64]) -> float:
    if np.isfinite(values).all():
        return float(values.std())
    low, high = ends_of(values, (1 - _WITHIN_ONE) / 2)
    return (high - low) / 2


def _open(values: NDArray[np.float64], low: float, high: float) -> tuple[str, ...]:
    """Say which ends an interval does not have."""
    if math.isfinite(low) and math.isfinite(high):
        return ()
    why = f"in {np.count_nonzero(~np.isfinite(values))} of {values.size} draws of the noise it is no finite number"
    if math.isfinite(low) or math.isfinite(high):
        end = "upper" if math.isfinite(low) else "lower"
        return (f"The interval has no {end} end: {why}, as where a divisor is 0.",)
    more = "Measure more accurately: view.refine(release, epsilon=...)."
    return (f"Uninformative: the value could be any number, for {why}, as where a divisor is 0. {more}",)


def _privacy(leaves: Sequence[Leaf]) -> Privacy:
    """Say that nothing was paid, and what was paid before."""
    paid = [leaf.answered.release.privacy for leaf in leaves if leaf.answered.release.privacy is not None]
    noise = dict.fromkeys(
        replace(record, epsilon=0.0, delta=0.0)
        for leaf in leaves
        for part in leaf.parts()
        for record in part.records
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


arithmetic.append(calculated)
