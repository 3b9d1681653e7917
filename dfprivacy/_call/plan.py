"""Plans: a budget for several questions, split so that all answers are about equally accurate."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dfprivacy._call.explanation import RELATIVE, Explanation
from dfprivacy._call.payment import positive_price
from dfprivacy._method_signature import check_public_argument
from dfprivacy.errors import ArgumentError
from dfprivacy.markup import Grid

__all__ = [
    "Plan",
    "PlannedQuestion",
    "plan_questions",
    "question_as_text",
    "read_question",
    "split_epsilon",
]


_UNIT = Fraction(1, 10**6)  # of a price
_ROUNDS = 8
_UNKNOWN = 1.0  # an error that a planner cannot say is taken to be as large, to split a budget
_FREE = "(nothing was charged or read)"
_WIDTH = 116  # columns of text
_EXAMPLE = 'For example view.plan([("mean", "age"), ("ttest", "bmi", {"by": "smoker"})], epsilon=1).'


@dataclass(frozen=True)
class PlannedQuestion:
    """One question of a plan: the method, its arguments, its price, and the expected relative error.

    The error is infinite if the method's planner does not compute one.
    """

    method: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    epsilon: Fraction
    error: float

    @property
    def question(self) -> str:
        """Question as Python text."""
        return question_as_text(self.method, self.args, self.kwargs)

    @property
    def expected(self) -> str:
        """Expected relative error as text; "not known" if the planner computes none."""
        return f"{self.error:.3g}" if math.isfinite(self.error) else "not known"


@dataclass(frozen=True)
class Plan:
    """Plan of several questions: the price and the expected accuracy of each. Nothing was charged or read.

    Attributes
    ----------
    account : str
        The account that would pay.
    questions : tuple
        The questions in order, each with ``question``, ``epsilon`` and ``error``.
    largest : float
        The largest epsilon the account can still pay at once.
    sampling : str
        The sampling error that the expected errors leave out on a secret sample; else empty.
    """

    account: str
    questions: tuple[PlannedQuestion, ...]
    largest: float
    sampling: str
    _ask: Callable[[PlannedQuestion], Any]

    @property
    def epsilon(self) -> Fraction:
        """Total price of the questions of the plan."""
        return sum((each.epsilon for each in self.questions), Fraction(0))

    def run(self) -> tuple[Any, ...]:
        """Ask the questions, each at its price, and return the answers.

        Returns
        -------
        tuple of Release
            The answers in order.

        Raises
        ------
        BudgetExceeded
            If the account cannot pay for one; those before it are paid, and kept.
        """
        return tuple(self._ask(each) for each in self.questions)

    @property
    def _grid(self) -> Grid:
        rows = [(each.question, f"{float(each.epsilon):.6g}", each.expected) for each in self.questions]
        return Grid(("question", "epsilon", RELATIVE), [*rows, ("all", f"{float(self.epsilon):.6g}", "")])

    @property
    def _affordable_epsilon(self) -> str:
        afford = "can" if self.epsilon <= self.largest else "CANNOT"
        paid = f"the account {self.account!r} {afford} pay: the most it can pay at once is epsilon {self.largest:g}"
        return f"sampling: {self.sampling}\n  {paid}" if self.sampling else paid

    def __repr__(self) -> str:
        lines = self._grid.lines(_WIDTH)
        return "\n  ".join([f"A plan {_FREE}:", *lines, self._affordable_epsilon])

    def _repr_html_(self) -> str:
        return self._grid.html(f"A plan {_FREE}", self._affordable_epsilon)


def plan_questions(
    questions: object, epsilon: object, error: object, explain: Callable[[PlannedQuestion], Explanation]
) -> tuple[PlannedQuestion, ...]:
    """Split an epsilon over questions, or compute the epsilon that reaches a relative error, from public facts.

    Parameters
    ----------
    questions : sequence
        Each a method's name, or a tuple of the name, positional arguments, and a dictionary of keyword arguments.
    epsilon, error : object
        The epsilon to split, or the relative error to reach; one of them is None.
    explain : callable
        Function that explains a question: its measurements at its price.

    Returns
    -------
    tuple of PlannedQuestion
        The questions with their prices.
    """
    if not isinstance(questions, Sequence) or isinstance(questions, str) or not questions:
        raise ArgumentError("plan() takes a list of questions.", _EXAMPLE)
    if (epsilon is None) == (error is None):
        raise ArgumentError(
            "plan() needs either an epsilon to split or a relative error to reach.", "Give epsilon= or error=."
        )
    budget = positive_price("epsilon", epsilon) if error is None else positive_price("error", error)
    parsed = [read_question(question, "plan", _EXAMPLE) for question in questions]
    if error is None and budget < _UNIT * len(parsed):
        raise ArgumentError(
            f"epsilon={float(budget):g} is too little for {len(parsed)} questions.",
            f"Each question needs at least epsilon={float(_UNIT):g}.",
        )
    prices = [budget / len(parsed) if error is None else Fraction(1)] * len(parsed)

    def plan_at_prices(prices: Sequence[Fraction]) -> list[PlannedQuestion]:
        priced = [PlannedQuestion(*each, price, 0.0) for each, price in zip(parsed, prices, strict=True)]
        return [
            PlannedQuestion(one.method, one.args, one.kwargs, one.epsilon, _relative_error(explain(one)))
            for one in priced
        ]

    fitted = plan_at_prices(prices)
    for _ in range(_ROUNDS):
        # An error is about r / epsilon; r changes with epsilon where a method measures otherwise then.
        unknown = _UNKNOWN if error is None else 2 * float(budget)
        needs = [float(each.epsilon) * (each.error if math.isfinite(each.error) else unknown) for each in fitted]
        prices = (
            split_epsilon(needs, budget)
            if error is None
            else [_round_price_up(need / float(budget)) for need in needs]
        )
        if prices == [each.epsilon for each in fitted]:
            break
        fitted = plan_at_prices(prices)
    return tuple(fitted)


def split_epsilon(needs: Sequence[float], epsilon: Fraction) -> list[Fraction]:
    """Split epsilon into parts in proportion to `needs`, so that all errors (need / part) are about equal.

    Parts are at least 1e-6, are rounded down to multiples of it, and never add up to more than epsilon.

    Examples
    --------
    >>> [float(part) for part in split_epsilon([0.00169706, 0.00565685, 0.0209216], Fraction(1))]
    [0.060018, 0.200061, 0.739919]
    """
    free, total = _UNIT * sum(not need for need in needs), sum(needs)
    parts = [
        max(_UNIT, Fraction(math.floor((epsilon - free) * Fraction(need / total) / _UNIT)) * _UNIT)
        if need
        else _UNIT
        for need in needs
    ]
    parts[parts.index(max(parts))] -= max(sum(parts) - epsilon, Fraction(0))  # what was raised to 1e-6
    return parts


def _round_price_up(price: float) -> Fraction:
    return max(_UNIT, Fraction(math.ceil(price / float(_UNIT))) * _UNIT)


def read_question(question: object, caller: str, example: str) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """Split a question into method and arguments; errors name the function `caller` and give an example."""
    parts = (question,) if isinstance(question, str) else question
    if not isinstance(parts, list | tuple) or not parts or not isinstance(parts[0], str):
        raise ArgumentError(
            f"A question is a method's name, or a tuple of name and arguments, not {type(question).__name__}.",
            example,
        )
    method, *args = parts
    kwargs = args.pop() if args and isinstance(args[-1], Mapping) else {}
    for name, value in (*enumerate(args), *kwargs.items()):
        check_public_argument(f"{caller}(): argument {name!r} of {method}", value)
    if taken := sorted({"epsilon", "fresh"} & {*kwargs}):
        raise ArgumentError(
            f"{caller}() sets the argument {taken[0]}= of {method}() itself.",
            f"Leave {taken[0]}= out of the question.",
        )
    return method, tuple(args), dict(kwargs)


def question_as_text(method: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return a question as Python text, such as ``mean('age')``."""
    written = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
    return f"{method}({', '.join(written)})"


def _relative_error(explained: Explanation) -> float:
    """Return the relative error that a method's planner expects; infinity if it computes none."""
    error = explained.findings.get(RELATIVE, "not known" if explained.measurements else 0.0)
    return float(error) if isinstance(error, float | int) else math.inf
