"""Questions that first spend a part of their epsilon on finding bounds of columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dfprivacy._call.explanation import PART, RELATIVE, bounds_finder
from dfprivacy._call.implied_answers import privacy_paid_before
from dfprivacy._call.question import Question, remember_question
from dfprivacy._table.declare import redeclared_schema
from dfprivacy.errors import ArgumentError, BudgetExceeded, DPError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfprivacy._call.explanation import Explanation
    from dfprivacy._call.payment import Target
    from dfprivacy._measure.curator import Planner
    from dfprivacy.mechanism import Mechanism
    from dfprivacy.release import Release
    from dfprivacy.schema import Column, Schema

__all__ = [
    "QuestionWithBoundsSearch",
    "columns_to_search",
    "declare_found_bounds",
    "mark_columns_for_search",
    "needs_bounds_search",
    "read_call",
    "widen_bounds",
]

_PRICE = {"epsilon", "delta", "fresh"}
_WIDEST = (-(2.0**31), 2.0**31)  # bounds that can be found lie within


def needs_bounds_search(mechanism: Mechanism, kwargs: Mapping[str, Any]) -> bool:
    """Return whether a call passes ``bounds="find"`` to a method that has no parameter `bounds`."""
    if "bounds" not in kwargs or "bounds" in mechanism.signature.parameters:
        return False
    if not isinstance(kwargs["bounds"], str) or kwargs["bounds"] != "find":
        raise ArgumentError(
            f'{mechanism.name}(): bounds= takes only "find".',
            "Declare other bounds first: view.declare(bounds={'age': (0, 120)}).",
        )
    return True


def mark_columns_for_search(schema: Schema, mechanism: Mechanism, given: Mapping[str, Any]) -> Schema:
    """Return a schema with bounds="find" for the numeric columns of a call and for all columns with bounds."""
    names = {name for name, column in schema.columns.items() if column.bounds and not column.categories}
    for parameter, kind in mechanism.columns.items():
        value = given[parameter]
        named = {each for each in (value if isinstance(value, list | tuple) else [value]) if isinstance(each, str)}
        if kind in ("numeric", ["numeric"]):
            names |= named
        elif kind == "columns":
            names |= {name for name in named if not getattr(schema.columns.get(name), "categories", None)}
    return redeclared_schema(schema, bounds=dict.fromkeys(names, "find"), categories=None, missing=None)


def widen_bounds(schema: Schema, bounds: tuple[float, float] = _WIDEST) -> Schema:
    """Return a schema with provisional bounds, by default ±2^31, for columns whose bounds are to be found."""
    wide = {
        name: replace(column, bounds=bounds) if column.find and column.bounds is None else column
        for name, column in schema.columns.items()
    }
    return replace(schema, columns=wide)


def columns_to_search(planner: Planner) -> list[str]:
    """Return the names of columns that a plan measures and whose bounds are to be found."""
    return sorted(column.name for column in planner.numbers if column.find)


def declare_found_bounds(schema: Schema, names: Sequence[str], found: Any) -> Schema:
    """Return a schema with found bounds, cut to the declared bounds and widened to include the fill values."""
    return replace(
        schema,
        columns={**schema.columns, **{name: _narrowed_column(schema.columns[name], found) for name in names}},
    )


def _narrowed_column(column: Column, found: Any) -> Column:
    pair = found.bounds.get(column.name)
    if pair is None and column.bounds == _WIDEST:
        raise ArgumentError(
            f"Bounds of {column.name!r} were not found.",
            f"Ask with a larger epsilon, or declare bounds={{{column.name!r}: (low, high)}}.",
        )
    fill = column.fill if column.filled else None
    known = replace(column, find=False, fill=fill)
    if pair is None:
        return known
    low, high = max(pair[0], column.low), min(pair[1], column.high)
    if fill is not None:
        low, high = min(low, fill), max(high, fill)
    return replace(known, bounds=(low, high), fill=fill, beyond=pair.beyond) if low < high else known


@dataclass(frozen=True)
class QuestionWithBoundsSearch(Question):
    """Question about columns whose bounds are found first, within the widest bounds or the declared ones.

    The bounds hold for all selected rows, whatever the groups.

    Attributes
    ----------
    explicit : bool
        Whether the call has ``bounds="find"``.
    """

    explicit: bool = False

    def ask(self) -> Release:
        """Find bounds of the measured columns, and return the answer computed with these bounds."""
        if not self._names_to_find or self.target.question_handler is not None:
            return super().ask()
        looked = self._search_question
        if self.epsilon > (most := self.target.payer.largest()) and not looked.is_in_ledger():
            what = f"{self.mechanism.name} asks for epsilon = {float(self.epsilon):g}"
            most_of = f"at most epsilon = {float(most):g} of {self.target.account.name!r} is left"
            raise BudgetExceeded(f"{what}, where {most_of}.", "Ask with a smaller epsilon.")
        found = looked.ask()
        try:
            question = self._question_within(found)
            release = question.ask()
        except DPError as error:
            paid = 0.0 if found.privacy is None else found.privacy.epsilon
            outcome = f"The search for bounds stays charged: epsilon {paid:g}."
            raise error.after(outcome) if paid else error from None
        one, other = release.privacy, found.privacy
        if one is None or other is None:
            raise TypeError
        if one.replayed != other.replayed:
            one, other = (privacy_paid_before(each) if each.replayed else each for each in (one, other))
        both = replace(one, epsilon=one.epsilon + other.epsilon, noise=(*other.noise, *one.noise))
        release = replace(release, privacy=both)
        remember_question(question, release)
        return release

    def is_in_ledger(self) -> bool:
        """Return whether the ledger has both the found bounds and the answer computed with them."""
        if not self._names_to_find:
            return super().is_in_ledger()
        found = self._search_question._kept_answer()  # noqa: SLF001 - a question as this
        return found is not None and self._question_within(found).is_in_ledger()

    def explain(self) -> Explanation:
        """Plan the bounds search and the measurements, within bounds that the ledger keeps, or else the widest."""
        if not self._names_to_find:
            return super().explain()
        self._refuse_empty_rest()
        looked = self._search_question.explain()
        found = self._search_question._kept_answer()  # noqa: SLF001 - a question as this
        within = self._question_within(found)
        planned = within.explain()
        known = within.target.table.schema.columns
        columns = [known[name] for name in self._names_to_find]
        epsilon = float(self._prices_of_parts[0])
        told = f"for {', '.join(self._names_to_find)}, over all selected rows, with epsilon {epsilon:g}"
        told = (
            f"{told}; expected errors are for the widest bounds" if found is None else "; ".join(map(str, columns))
        )

        def findings_without_bounds() -> dict[str, Any]:
            """Return a note on the bounds search, and planner findings that do not depend on unknown bounds."""
            whole, unknown = planned.findings, any(column.bounds == _WIDEST for column in columns)
            return {
                "bounds are found first": told,
                **{name: each for name, each in whole.items() if name == RELATIVE or not unknown},
            }

        return replace(
            planned,
            epsilon=float(self.epsilon),
            left=looked.left + planned.left,
            measurements=(*looked.measurements, *planned.measurements),
            find=findings_without_bounds,
        )

    @cached_property
    def _names_to_find(self) -> list[str]:
        """Names of columns that the mechanism measures and whose bounds are to be found."""
        wide = [column.name for column in self.target.table.schema.columns.values() if column.bounds == _WIDEST]
        try:
            self.check()
            names = columns_to_search(self._plan_table(self.target.table)[0])
        except (ArgumentError, SchemaError) as error:
            first = f"find bounds first, and declare them: view.declare(view.find_bounds({wide!r}, epsilon=...))."
            raise type(error)(error.what, f"{error.hint} Or {first}" if wide else error.hint) from None
        if self.explicit and not names:
            raise ArgumentError(
                f'bounds="find" needs a numeric column, and {self.mechanism.name}() was given none.',
                "Name a numeric column, or find and declare bounds first: "
                "view.declare(view.find_bounds(['age'], epsilon=...)).",
            )
        return names

    @property
    def _prices_of_parts(self) -> tuple[Fraction, Fraction]:
        return self.epsilon * PART, self.epsilon * (1 - PART)

    def _price_texts(self, *price: Fraction) -> list[str | None]:
        """Return epsilon and delta as text; the text of the call's own price if it is "rest"."""
        return [*self.words] if self.words[0] == "rest" else [*map(str, price)]

    @cached_property
    def _search_question(self) -> Question:
        mechanism = bounds_finder()
        given = mechanism.bind((self._names_to_find,), {})
        arguments = mechanism.resolve(self.target.table.schema, given)
        price = self._prices_of_parts[0], Fraction(0)
        return Question(self.target, mechanism, given, arguments, *price, self._price_texts(*price), self.fresh)

    def _question_within(self, found: Any) -> Question:
        """Return the question with found bounds declared; with the widest bounds if `found` is None."""
        table = self.target.table
        if found is not None:
            table = table.with_declarations(declare_found_bounds(table.schema, self._names_to_find, found).columns)
        arguments = self.mechanism.resolve(table.schema, self.given)
        price = self._prices_of_parts[1], self.delta
        target, words = replace(self.target, table=table), self._price_texts(*price)
        return Question(target, self.mechanism, self.given, arguments, *price, words, self.fresh, self.by)


def read_call(
    target: Target,
    mechanism: Mechanism,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    by: tuple[Column, ...] = (),
) -> Question:
    """Return the question of a call: a `QuestionWithBoundsSearch` if bounds of columns have to be found first.

    Parameters
    ----------
    target, mechanism, args, kwargs, by
        As for `Question.read`; there may be ``bounds="find"``.

    Returns
    -------
    Question
        The question; one about two tables keeps the bounds as they are.

    Raises
    ------
    ArgumentError, SchemaError
        If the call cannot be answered. It is checked with wide bounds while nothing is paid; if none are found, a
        quarter of the epsilon is spent.
    """
    find, schema = needs_bounds_search(mechanism, kwargs), target.table.schema
    if not find and not any(column.find for column in schema.columns.values()):
        return Question.read(target, mechanism, args, kwargs, by)
    kwargs = {name: each for name, each in kwargs.items() if not (find and name == "bounds")}
    given = mechanism.bind(tuple(args), {name: each for name, each in kwargs.items() if name not in _PRICE})
    two = mechanism.second_view_parameter(given)
    if two and find:
        raise ArgumentError(
            'bounds="find" is for questions about one table, and this question is about two.',
            "Find bounds with find_bounds(), and declare them in both views: view.declare(found).",
        )
    if two:
        return Question.read(target, mechanism, args, kwargs, by)
    wide = widen_bounds(mark_columns_for_search(schema, mechanism, given) if find else schema)
    target = replace(target, table=target.table.with_declarations(wide.columns))
    return replace(QuestionWithBoundsSearch.read(target, mechanism, args, kwargs, by), explicit=find)
