"""Methods of views: the mechanisms of all installed plugins; each call of a method becomes a question."""

from __future__ import annotations

import difflib
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self, overload

from dfprivacy._call.bounds import read_call
from dfprivacy._call.plan import Plan, PlannedQuestion, plan_questions
from dfprivacy._call.question import Question, answer_owner
from dfprivacy._plugins.loader import registry
from dfprivacy.column import DATAFRAME_HINTS, ColumnView
from dfprivacy.errors import ArgumentError, trimmed
from dfprivacy.mechanism import OWN
from dfprivacy.release import Groups

if TYPE_CHECKING:
    import weakref
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dfprivacy._call.explanation import Explanation
    from dfprivacy._call.payment import Target
    from dfprivacy._measure.evaluate import Table
    from dfprivacy.mechanism import Mechanism
    from dfprivacy.schema import Column

__all__ = ["VIEWS", "PluginMethods", "Price", "is_protected"]

Price = str | int | float | Fraction
# By the frame's id: the frame, its view, and what it takes to make the view again without its rows. Nothing here
# keeps a frame alive: a view does that for as long as somebody holds it.
VIEWS: dict[int, tuple[weakref.ref[Any], weakref.ref[PluginMethods], Target]] = {}


class PluginMethods:
    """Base class of views: the mechanisms of all installed plugins are its methods."""

    _target: Target
    _by: tuple[Column, ...] = ()

    @trimmed
    def explain(self, method: str, /, *args: Any, **kwargs: Any) -> Explanation:
        """Explain what a method would measure, with which noise and at what price, and how accurate it would be.

        No private column is read and nothing is charged.

        Parameters
        ----------
        method : str
            The method's name.
        *args, **kwargs
            Arguments of the method.

        Returns
        -------
        Explanation
            The plan.
        """
        mechanism = registry(method).mechanisms.get(method) if isinstance(method, str) else None
        if mechanism is None:
            name = method if isinstance(method, str) else type(method).__name__
            raise ArgumentError(f"There is no method {name!r}.", _suggest_method(name))
        return self._question(mechanism, args, kwargs).explain()

    @trimmed
    def plan(
        self, questions: Sequence[Any], /, *, epsilon: Price | None = None, error: float | None = None
    ) -> Plan:
        """Split an epsilon over questions so that their expected relative errors are equal.

        No private column is read and nothing is charged.

        Parameters
        ----------
        questions : list
            Each question is the name of a method, or a tuple of the name and its arguments, with keyword arguments
            in a dictionary at the end: ``[("mean", "age"), ("ttest", "bmi", {"by": "smoker"}), "describe"]``.
        epsilon : number or str, optional
            The epsilon to split.
        error : float, optional
            The relative error to reach, in place of `epsilon`.

        Returns
        -------
        Plan
            The price and the expected error of each question. ``plan.run()`` asks all questions.

        Raises
        ------
        ArgumentError, SchemaError
            If a question cannot be asked.

        Notes
        -----
        Expected errors follow from public numbers and from assumptions: a column's standard deviation is a sixth
        of its range (for a t-test a quarter), and a private number of rows is 10,000. The error is relative to a
        quantity that depends on the method: a standard deviation for a mean, an average cell for counts (with
        undeclared categories a tenth of the rows), the possible values for `nunique` (if undeclared, 10), a
        quarter of the rows for quantiles, 0.5 for shares, the outcome's standard deviation (for `logit` 1) over
        the regressor's for a coefficient. `explain` gives absolute errors.
        If noise may hide the answer, or the method's planner computes no error, the error is not known, and the
        question gets more of the epsilon. Answers and measurements in the ledger are not taken into account.

        Examples
        --------
        >>> import pandas as pd, dfprivacy as dp
        >>> df = pd.DataFrame({"age": [22, 31, 27, 40] * 1250})
        >>> view = dp.protect(df, "planned", epsilon=1, ledger="memory:", bounds={"age": (0, 100)})
        >>> view.plan([("mean", "age"), ("histogram", "age", {"bins": 10})], epsilon=0.5)
        A plan (nothing was charged or read):
          question                    epsilon  expected relative error
          mean('age')                0.120899                   0.0149
          histogram('age', bins=10)    0.3791                   0.0149
          all                        0.499999
          the account 'planned' can pay: the most it can pay at once is epsilon 1
        """
        sample = self._target.table.sample

        def explain_question(one: PlannedQuestion) -> Explanation:
            return self.explain(one.method, *one.args, **one.kwargs, epsilon=one.epsilon, fresh=True)

        return Plan(
            self._target.account.name,
            plan_questions(questions, epsilon, error, explain_question),
            float(self._target.account.largest()),
            "" if sample is None else sample.sampling_error_note,
            lambda one: getattr(self, one.method)(*one.args, **one.kwargs, epsilon=one.epsilon),
        )

    def _question(self, mechanism: Mechanism, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Question:
        self._refuse_tables(mechanism, args, kwargs)
        finds = "bounds" in kwargs or any(column.find for column in self._target.table.schema.columns.values())
        read = read_call if finds else Question.read
        return read(self._target, mechanism, args, kwargs, self._by)

    def _refuse_tables(self, mechanism: Mechanism, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        for value in (*args, *kwargs.values()):
            if is_protected(value):
                raise ArgumentError(
                    f"{mechanism.name}() was given a protected table as an argument, and arguments are public.",
                    "Name columns by strings, and pass public values only.",
                )

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):  # what Python and notebooks probe for
            raise AttributeError(name)
        known = registry(name.removesuffix(OWN)).mechanisms
        mechanism = known.get(name) or known.get(name.removesuffix(OWN))
        form = mechanism if mechanism is None or mechanism.name == name else mechanism.own
        if mechanism is None or form is None:
            if name in self:
                raise AttributeError(f"Take a column by its name in brackets: view[{name!r}].")
            raise AttributeError(f"There is no method {name!r}. {_suggest_method(name)}")

        @trimmed
        def method(*args: Any, **kwargs: Any) -> Any:
            if form is not mechanism:
                self._refuse_tables(mechanism, args, kwargs)
                return answer_owner(self._target, mechanism, args, kwargs, self._by)
            return self._question(mechanism, args, kwargs).ask()

        method.__name__ = method.__qualname__ = name
        method.__doc__ = form.doc
        signature = form.signature
        signature = signature.replace(return_annotation=Groups) if self._by else signature
        method.__signature__ = signature  # type: ignore[attr-defined]
        return method

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *registry().methods})

    # As of a table: names of columns, and one of them by its name.
    def __iter__(self) -> Iterator[str]:
        return iter(self._target.table.schema.names)

    def __contains__(self, name: object) -> bool:
        return name in self._target.table.schema.names

    @overload
    def __getitem__(self, name: str) -> ColumnView: ...
    @overload
    def __getitem__(self, name: list[str]) -> Self: ...
    @trimmed
    def __getitem__(self, name: str | list[str]) -> ColumnView | Self:
        table = self._target.table
        if not isinstance(name, list):
            return ColumnView(self, table.schema.named(name))
        return self._with_table(table.select(name), "select", name)

    def _with_table(self, table: Table, verb: str, given: object) -> Self:
        """Return a view of a derived table, and record the verb, such as ``where``, that derived it."""
        made = object.__new__(type(self))
        vars(made).update(vars(self), _target=self._target.with_step(table, verb, given))
        return made

    # A copy is the same view. A pickled one knows the account and its answers, but carries no rows: see Table.
    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


def is_protected(value: object) -> bool:
    """Return whether an object is a protected frame; the id alone is not trusted, as Python reuses ids."""
    known, *_ = VIEWS.get(id(value), (None,))
    return known is not None and known() is value


def _suggest_method(name: str) -> str:
    if name in DATAFRAME_HINTS:
        return DATAFRAME_HINTS[name]
    known = sorted(registry().mechanisms)
    near = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"The methods are {known!r}."
