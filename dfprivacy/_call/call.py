"""Calls of methods: checks of their arguments, and the JSON text that identifies a call in the ledger."""

from __future__ import annotations

import itertools
import math
import reprlib
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dfprivacy import _words
from dfprivacy._call.payment import CallPayer, Target, is_rest_of_budget, total_epsilon
from dfprivacy._call.two_tables import columns_among, target_of_two_tables
from dfprivacy._json import plain_json
from dfprivacy._ledger.tables import sha256_of_text
from dfprivacy._privacy import samplers as noises
from dfprivacy._privacy.conversions import epsilon_on_sample
from dfprivacy.errors import ArgumentError, DPError, PluginError, ReadError, quoted
from dfprivacy.expressions import ComputedColumn
from dfprivacy.release import Groups, Release, Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dfprivacy._measure.evaluate import Table
    from dfprivacy.mechanism import Mechanism
    from dfprivacy.schema import Category, Column

__all__ = ["Call", "mechanism_failure", "name_mechanism_in_errors"]

_SHOWN_MAX = 60  # characters of an argument
_SHORT = reprlib.Repr()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = (
    _SHOWN_MAX  # items, of which each is a character
)
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 4 * _SHOWN_MAX
_TEXT_MAX = 1024  # characters of an argument that are kept as they are


@dataclass(frozen=True)
class Call:
    """Call of a method: its arguments, the rows that it reads, its groups and its price.

    Attributes
    ----------
    given, arguments : mapping
        The arguments as they were given, and with columns in place of their names.
    words : sequence of str or None
        Epsilon and delta as text, or "rest" in place of epsilon, as the call asked for them.
    by : tuple of Column
        The columns whose categories, or combinations of them, are asked one by one; none asks all rows at once.
    """

    target: Target
    mechanism: Mechanism
    given: Mapping[str, Any]
    arguments: Mapping[str, Any]
    epsilon: Fraction
    delta: Fraction
    words: Sequence[str | None]
    fresh: bool
    by: tuple[Column, ...] = ()

    @classmethod
    def read(
        cls,
        target: Target,
        mechanism: Mechanism,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        by: tuple[Column, ...] = (),
    ) -> Self:
        """Return the call of a method with these arguments, after checking them; nothing is charged."""
        rest = dict(kwargs)
        epsilon = rest.pop("epsilon", None)
        delta = rest.pop("delta", None) if mechanism.delta else None
        fresh = rest.pop("fresh", False)
        if not isinstance(fresh, bool):
            raise ArgumentError(
                f"fresh{quoted(fresh)} is neither True nor False.",
                "Use fresh=True to measure again, which is charged.",
            )
        given = mechanism.bind(args, rest)
        if target.table.sample is not None and "covers" not in rest and given.get("covers") == "table":
            given["covers"] = "population"  # whose interval has the sampling of rows in it, and holds for the table
        other = mechanism.second_view_parameter(given)
        if not other:
            arguments = mechanism.resolve(target.table.schema, given)
        elif by:
            raise ArgumentError(
                "A view with groups cannot be used in a question about two views.", "Use a view without group_by()."
            )
        else:
            target, given[other], arguments = target_of_two_tables(target, mechanism, given, other)
        price = target.price(epsilon, delta, takes_delta=mechanism.delta)
        # What "rest" was depends on what is left now; the same words must find the same answer.
        words = (
            ["rest", None if delta is None else str(price[1])] if is_rest_of_budget(epsilon) else [*map(str, price)]
        )
        return cls(target, mechanism, given, arguments, *price, words, fresh, by)

    @cached_property
    def question_texts(self) -> tuple[str, str] | None:
        """Two JSON texts that identify the question in the ledger: with its named columns, and with all columns."""
        return question_as_json(self)

    @cached_property
    def sentence(self) -> str:
        """Call as Python text without its price, followed by the group columns; long arguments are cut."""
        told, parameters = [], self.mechanism.signature.parameters
        for name, value in self.given.items():
            parameter = parameters[name]
            if parameter.kind is parameter.VAR_KEYWORD:
                told += [(each, _abbreviated(of)) for each, of in value.items()]
            elif (text := _abbreviated(value)) != _abbreviated(parameter.default):
                told.append(("" if parameter.kind is parameter.POSITIONAL_OR_KEYWORD else name, text))
        by = f" by {', '.join(column.name for column in self.by)}" if self.by else ""
        return _words.call_as_text(self.mechanism.name, told) + by

    @cached_property
    def named_columns(self) -> list[Column]:
        """Columns that the arguments name, followed by the columns that define the groups."""
        of_arguments = (columns_among(self.arguments[name]) for name in self.mechanism.columns)
        return [*(column for each in of_arguments for column in each), *self.by]

    @property
    def where(self) -> tuple[str, ...]:
        """Conditions on rows, and formulas of computed columns, as text; empty if there are none."""
        conditions = self.target.table.conditions
        columns = dict.fromkeys([*self.named_columns, *(column for each in conditions for column in each.columns)])
        formulas = (f"{each.name} := {each.formula.node}" for each in columns if isinstance(each, ComputedColumn))
        return (*map(str, conditions), *formulas)

    @property
    def spending(self) -> tuple[Fraction, Fraction]:
        """Epsilon and delta that measurements may spend; on a secret sample they exceed the price of the call."""
        if (sample := self.target.table.sample) is None:
            return self.epsilon, self.delta
        if not self.delta < sample.share:
            raise ArgumentError(
                f"delta = {float(self.delta):g} is not below the share {float(sample.share):g} of the sample.",
                "Ask with a smaller delta=, or take a larger sample: view.sample(0.2).",
            )
        return epsilon_on_sample(self.epsilon, sample.share), self.delta / sample.share

    @property
    def group_keys(self) -> list[tuple[Category, ...]]:
        """Keys of the groups, with a category for each column of `by`; one empty key if `by` is empty."""
        return [*itertools.product(*(column.categories or () for column in self.by))]

    def conclude_release(self, measured: Sequence[Any], call: CallPayer | None = None) -> Release:
        """Return the release computed from the noisy measurements of each group, or of all rows."""
        releases = tuple(self._conclude(each, call) for each in measured)
        if not self.by:
            return releases[0]
        names = tuple(column.name for column in self.by)
        several = len(names) > 1
        return Groups(
            by=names if several else names[0],
            groups=tuple(key if several else key[0] for key in self.group_keys),
            releases=releases,
        )

    def _conclude(self, measured: Any, call: CallPayer | None) -> Release:
        with name_mechanism_in_errors(self.mechanism, call):
            answer = self.mechanism.conclude(measured, self.arguments)
        release = answer if isinstance(answer, Release) else Value(value=answer)
        return release.with_counts_at_most(self.target.table.schema.size)


def _abbreviated(value: object) -> str:
    """Return an argument as Python text, cut at a maximum length."""
    text = f"a {type(value).__name__}" if isinstance(value, Release) else _SHORT.repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


def question_as_json(question: Call) -> tuple[str, str] | None:
    """Return a question as JSON with all public facts that could change its answer; None if it has no JSON form.

    Returns
    -------
    tuple of str, or None
        The question; and the same with all columns that are known, for a mechanism that looked at them.
    """
    table, mechanism, by, named = question.target.table, question.mechanism, question.by, question.named_columns
    names = [column.name for column in by]
    seen = {column.name: column.describe() for column in table.schema.columns.values()}
    if any(condition.describe() is None for condition in table.conditions):
        return None
    try:
        own: dict[str, Any] = {
            "mechanism": mechanism.name,
            "origin": mechanism.origin,
            "arguments": {
                name: _long_value_as_digest(_canonical_value(value)) for name, value in question.given.items()
            },
            "price": question.words,
            "group_by": names if len(names) > 1 else next(iter(names), None),
            "neighbors": table.schema.neighbors,
            "sampler": noises.sampler().name,
        }
        if table.parts:
            own["tables"] = [_describe_table(part, named) for part in table.parts]
        else:
            own |= _describe_table(table, named)
        return plain_json(own), plain_json({**own, "seen": seen} if seen else own)
    except (TypeError, OverflowError):
        return None


def _describe_table(table: Table, named: Sequence[Column]) -> dict[str, Any]:
    """Return public facts of a table as JSON values: conditions, columns, size, privacy unit and derivation."""
    unit, which, derived = table.schema.unit, table.schema.table, table.schema.derived
    selected = [column for condition in table.conditions for column in condition.columns]
    columns = {column.name: column.describe() for column in (*selected, *named)}
    otherwise = any(columns[column.name] != column.describe() for column in selected)  # they were declared then
    return {
        "where": [condition.describe() for condition in table.conditions],
        "columns": columns,
        **({"selected": [[column.name, column.describe()] for column in selected]} if otherwise else {}),
        "rows": table.schema.size,
        **(
            {}
            if unit is None
            else {"unit": [unit.column, unit.max_rows, unit.missing], "chosen": table.row_choice_columns}
        ),
        **({} if which is None else {"table": which}),
        **({} if derived is None else {"derived": derived}),
    }


def _canonical_value(value: Any) -> Any:
    """Convert equal arguments to one form: 30.0 to the integer 30, and a release to its digest."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, Fraction | Decimal) and math.isfinite(value):
        value = float(value) if Fraction(value) == float(value) else Fraction(value)
    if isinstance(value, Release):  # it may be as long as a table, and what was paid for it changes when replayed
        return {"sha256": sha256_of_text(plain_json({"type": type(value).__qualname__, **value.result}))}
    if isinstance(value, range):  # as long as it may be, it is three numbers
        return {"range": [value.start, value.stop, value.step]}
    if isinstance(value, list | tuple):
        items = [_canonical_value(item) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _long_value_as_digest(value: Any) -> Any:
    """Return a long value, such as a list with a key for each row, as its digest; a short value as it is."""
    text = plain_json(value)
    return {"sha256": sha256_of_text(text)} if len(text) > _TEXT_MAX else value


@contextmanager
def name_mechanism_in_errors(mechanism: Mechanism, call: CallPayer | None = None) -> Iterator[None]:
    """Convert unexpected errors in the block to a `PluginError`, and add the epsilon already charged."""
    try:
        yield
    except ReadError:  # says itself what became of the charge
        raise
    except DPError as error:
        if call is None or not call.charged:
            raise
        raise error.after(_outcome_of_call(call)) from error
    except Exception as error:
        if isinstance(error, Warning) and call is None:  # of a check or a plan, made an error by who asks
            raise
        raise mechanism_failure(mechanism, error, call) from error


def mechanism_failure(mechanism: Mechanism, error: Exception, call: CallPayer | None = None) -> PluginError:
    failure = PluginError(
        f"Mechanism {mechanism.name!r} ({mechanism.origin}) failed with {type(error).__name__}: {error}.",
        "Report this error to the authors of the mechanism.",
    )
    return failure.after(_outcome_of_call(call)) if call and call.charged else failure


def _outcome_of_call(call: CallPayer) -> str:
    epsilon = float(total_epsilon(call.charged))
    return f"Nothing was released; the call's measurements stay charged: epsilon {epsilon:g}."
