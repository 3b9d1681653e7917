"""The private view of a table: what is public about it, the account that pays, and the methods as one-liners."""

from __future__ import annotations

import difflib
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np

from dfprivacy._call.plan import Plan, Planned, planned
from dfprivacy._call.power import Power, power_of
from dfprivacy._call.question import Question, held
from dfprivacy._call.recalled import protected
from dfprivacy._call.refine import refined
from dfprivacy._call.target import Target, positive, slack
from dfprivacy._ledger.analysts import checked_name
from dfprivacy._ledger.budget import Budget, Releases
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._ledger.names import name_key
from dfprivacy._measure.evaluate import MEMORY, Table
from dfprivacy._plugins.loader import registry
from dfprivacy._table.conditions import Satisfies, condition
from dfprivacy._table.declare import declared, read_schema, read_size, read_unit
from dfprivacy._table.frames import adapt
from dfprivacy._table.frames.made_up import MadeUpFrame
from dfprivacy._table.people import BoundedFrame
from dfprivacy._table.per import read_aggregates
from dfprivacy._table.sample import SHARE_MAX
from dfprivacy.column import INSTEAD, ColumnView
from dfprivacy.errors import (
    ArgumentError,
    DPError,
    LedgerError,
    NotProtected,
    ReadError,
    SchemaError,
    quoted,
    trimmed,
)
from dfprivacy.markup import Grid, escaped
from dfprivacy.mechanism import refuse_data
from dfprivacy.release import Groups, Release
from dfprivacy.schema import OTHER, Discover, toml
from dfprivacy.schema.files import read_file

if TYPE_CHECKING:
    from dfprivacy._bundled import BundledGroups, BundledMethods
    from dfprivacy._call.combine import Combination
    from dfprivacy._call.explanation import Explanation
    from dfprivacy._ledger.accounts import Account
    from dfprivacy._table.conditions import Condition, Row
    from dfprivacy._table.frames import Frame
    from dfprivacy.mechanism import Mechanism
    from dfprivacy.schema import Category, Column, Schema, Unit
    from dfprivacy.schema.files import SchemaFile
else:
    BundledMethods = BundledGroups = object

__all__ = ["GroupedView", "PerPerson", "PrivateFrame", "power", "protect", "view_of"]

Price = str | int | float | Fraction
_USUAL: Mapping[str, Any] = {"delta": 0, "neighbors": "replace_one", "unit_missing": "omit", "public": ()}
# By the frame's id: the frame, its view, and what it takes to make the view again without its rows. Nothing here
# keeps a frame alive: a view does that for as long as somebody holds it.
_VIEWS: dict[int, tuple[weakref.ref[Any], weakref.ref[PrivateFrame], Target]] = {}


@trimmed
def protect(
    df: object,
    name: str,
    *,
    epsilon: Price | None = None,
    delta: Price | None = None,
    bounds: Mapping[str, tuple[Any, Any]] | None = None,
    categories: Mapping[str, Sequence[Category] | Discover] | None = None,
    public: Sequence[str] = (),
    neighbors: Literal["replace_one", "add_remove"] | None = None,
    accounting: Literal["basic", "rdp", "gdp", "portfolio"] | None = None,
    missing: Mapping[str, Any] | None = None,
    default_epsilon: Price | None = None,
    ledger: str | os.PathLike[str] | None = None,
    unit: str | None = None,
    max_rows: int | None = None,
    unit_missing: Literal["omit", "own"] | None = None,
    size: int | None = None,
    schema: str | os.PathLike[str] | None = None,
    budgets: Mapping[str, Price] | None = None,
    memory: float = MEMORY,
) -> PrivateFrame:
    """Protect a table: open its account, or find it again, and return its private view.

    Parameters
    ----------
    df : table of pandas, Polars, Arrow, DuckDB, Dask or Spark, or object with an Arrow C stream
        The table, one row for each person, unless `unit` says whose a row is.
    name : str
        The data set's name: its account in the ledger. A name never gets a second budget.
    epsilon, delta : number or str
        The whole budget, once and for all; delta is 0 unless given. Strings such as ``"1/3"`` are exact.
    bounds : mapping of str to pair, optional
        Lowest and highest value each number may take, from knowledge outside the data; ``(0, 1)`` for True and
        False.
    categories : mapping of str to sequence, optional
        The values each categorical column may take, from knowledge outside the data; ``[False, True]`` for a
        column of booleans. Nothing is taken from the types of the columns: one value can change them.
        `dp.discover() <dfprivacy.discover>` for those that enough rows hold, at a price, and ``"other"``. Of a huge
        known domain, counts need no declaration: ``view.value_counts(column, domain=...)``.
    public : sequence of str, optional
        Columns whose values are not protected, such as a study arm: neighbouring tables agree on them.
    neighbors : {"replace_one", "add_remove"}
        What is protected: the content of any one row (the default; the number of rows is public), or the presence
        of any one row (the number of rows is private).
    accounting : {"basic", "rdp", "gdp", "portfolio"}, optional
        How losses add up; default: basic without a delta, else portfolio.
    missing : mapping of str, optional
        What a missing value counts as: a number for columns with bounds (default: the midpoint), ``"other"`` for
        a category of that name (default: the row counts in no category).
    default_epsilon : number or str, optional
        What a method pays that is called without an epsilon.
    ledger : str or path, optional
        Where the accounts are kept: a SQLite file, a database URL, or ``"memory:"``; default: the environment
        variable ``DFPRIVACY_LEDGER``, else a file in the user's data directory.
    unit : str, optional
        Where a person may have several rows, the column that says whose a row is, of whole numbers or text. What is
        protected is then all rows of any one person, and the number of rows is private.
    max_rows : int, optional
        With `unit`: how many rows of one person count at most. Noise grows with it, and of a person with more rows
        some are left out, as by lot: the same for every question about the same columns, whatever the rows' order.
    unit_missing : {"omit", "own"}
        With `unit`: whether a row that names nobody is left out, the default, or is that of a person of its own.
    size : int, optional
        Under ``replace_one``: the number of rows, or with `unit` of people, where it is public and known. Rows are
        then not counted. It is held against the table whenever that is read.
    schema : str or path, optional
        A TOML file that says any of the above but the ledger, and what columns are called and measured in.
        Arguments may say more than the file, and nothing else than it does; which columns are public, the file
        alone says.
    budgets : mapping of str to number or str, optional
        The epsilon that each analyst may spend of the budget, with delta in proportion. Who has none then cannot
        ask. Analysts are named by the environment variable ``DFPRIVACY_ANALYST``, or else by the operating system.
    memory : float, optional
        How many bytes whole columns may take in this process, for methods that are of no sums; default: 2e9. What
        needs more, at nine bytes a value, is refused: ask a `PrivateFrame.sample`.

    Returns
    -------
    PrivateFrame
        The view.

    Raises
    ------
    SchemaError
        If bounds, categories or columns do not fit the table.
    ArgumentError
        If epsilon or delta cannot be used.
    AccountMismatch
        If the name is known with other terms.
    LedgerError
        If the ledger cannot be used.

    Notes
    -----
    Everything released from the view and from all views of the same name is, together, (epsilon, delta)-
    differentially private for the neighbouring relation, however each question depends on earlier answers.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": [31, 45, 28, 52], "smoker": ["yes", "no", "no", "yes"]})
    >>> view = dp.protect(df, "clinic", epsilon=1, bounds={"age": (18, 90)}, ledger="memory:")
    >>> view.budget.remaining
    Fraction(1, 1)
    """
    if not isinstance(name, str) or not name.strip():
        given = "an empty one" if isinstance(name, str) else f"a {type(name).__name__}"
        raise ArgumentError(f"The data set's name must be a string, not {given}.", "For example 'survey-2024'.")
    if not isinstance(ledger, str | os.PathLike | None):
        raise LedgerError(f"A {type(ledger).__name__} is no ledger.", "Name a file, or the address of a database.")
    if not isinstance(accounting, str | None):
        raise ArgumentError(f"A {type(accounting).__name__} is no accounting.", 'For example "portfolio".')
    terms: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "bounds": bounds,
        "categories": categories,
        "public": public,
        "neighbors": neighbors,
        "accounting": accounting,
        "missing": missing,
        "default_epsilon": default_epsilon,
        "unit": unit,
        "max_rows": max_rows,
        "unit_missing": unit_missing,
        "size": size,
        "budgets": budgets,
    }
    if isinstance(memory, bool) or not isinstance(memory, int | float) or not memory > 0:
        raise ArgumentError(f"memory{quoted(memory)} is no number of bytes.", "For example memory=2e9.")
    if schema is None:
        return _protected(df, name, terms, ledger, memory)
    file = read_file(schema)
    with file.erring():
        return _protected(df, name, file.with_arguments(name, terms), ledger, memory, file)


def _protected(
    df: object,
    name: str,
    terms: Mapping[str, Any],
    ledger: str | os.PathLike[str] | None,
    memory: float,
    file: SchemaFile | None = None,
) -> PrivateFrame:
    """Check what is said of a table, open its account, and make its view."""
    terms = {**_USUAL, **{term: value for term, value in terms.items() if value is not None or term == "public"}}
    if "epsilon" not in terms:
        raise ArgumentError(
            f"The data set {name!r} has no budget.", "Say what all answers may cost together: epsilon=1."
        )
    epsilon, delta = positive("epsilon", terms["epsilon"]), slack("delta", terms["delta"])
    shares = _shares(terms.get("budgets"), epsilon)
    default = terms.get("default_epsilon")
    default = None if default is None else positive("default_epsilon", default)
    listed, wanted = _listed(terms.get("categories"))
    whose = read_unit(terms.get("unit"), terms.get("max_rows"), terms["unit_missing"])
    size = read_size(terms.get("size"), terms["neighbors"])
    if whose is not None and any(price.domain is None for price in wanted.values()):
        raise ArgumentError(
            f"Categories are not discovered where a {whose.column!r} may have several rows.",
            "Declare the categories, or say which there can be: dp.discover(domain=...).",
        )
    named = ("bounds", "public", "missing", "neighbors")
    declarations: dict[str, Any] = {argument: terms.get(argument) for argument in named}
    try:
        frame = adapt(df)
        if file is not None:
            file.refuse_others(frame.columns)
        schema = read_schema(frame, **declarations, categories=listed, unit=whose, size=size)
    except ReadError as error:  # nothing had been charged yet
        raise error.after(DPError.outcome) from None
    if file is not None:
        schema = replace(schema, words=file.words)
    account = open_ledger(ledger).open_account(
        name,
        epsilon=epsilon,
        delta=delta,
        accounting=terms.get("accounting"),
        neighbors=schema.neighbors,
        public=tuple(sorted(terms["public"])),
        whose=None if whose is None else (whose.column, whose.max_rows, whose.missing),
        shares=shares,
    )
    table = Table(_bounded(frame, schema, account), schema, memory=memory)
    view = PrivateFrame(Target(account, table, default))
    protected(view._target)  # noqa: SLF001 - its own
    for column, price in wanted.items():
        if price.domain is None:
            view = view.declare(view.find_categories([column], epsilon=price.epsilon, delta=price.delta))
        else:
            view = view.declare(view.value_counts(column, domain=price.domain, epsilon=price.epsilon))
    return _remembered(df, view._target)  # noqa: SLF001 - its own


@trimmed
def power(
    question: Any,
    /,
    *,
    n: int | Sequence[int],
    epsilon: Price | Sequence[Price],
    delta: Price = 0.0,
    bounds: Mapping[str, tuple[Any, Any]] | None = None,
    categories: Mapping[str, Sequence[Category]] | None = None,
    public: Sequence[str] = (),
    neighbors: Literal["replace_one", "add_remove"] = "replace_one",
    assume: Mapping[str, Any] | Callable[[Any, int], Mapping[str, Any]] | None = None,
    found: str | Callable[[Any], bool] | None = None,
    runs: int = 200,
    seed: int = 0,
) -> Power:
    """Say how often a method would find what is assumed, before there is a table.

    Parameters
    ----------
    question, n, epsilon, delta
        As of `PrivateFrame.power`.
    bounds, categories, public, neighbors
        What the columns would be declared as, as for `protect`. There are no others.
    assume, found, runs, seed
        As of `PrivateFrame.power`.

    Returns
    -------
    Power
        A table, with ``plot()``.

    Raises
    ------
    ArgumentError, SchemaError
        If the question cannot be asked.

    Examples
    --------
    >>> import dfprivacy as dp
    >>> trial = dict(bounds={"weight": (40, 160)}, categories={"arm": ["drug", "placebo"]}, public=["arm"])
    >>> found = dp.power(("mannwhitneyu", "weight", {"by": "arm"}), n=[40, 400], epsilon=1,
    ...                  assume={"effect": 0.8, "spread": 15}, runs=100, **trial)
    >>> found.rows_for(0.8)
    {1.0: 400}
    """
    names = [*dict.fromkeys([*(bounds or {}), *(categories or {}), *(() if isinstance(public, str) else public)])]
    frame = MadeUpFrame({name: np.zeros(1) for name in names} or {"": np.zeros(1)})
    schema = read_schema(
        frame, bounds=bounds, categories=categories, public=public, missing=None, neighbors=neighbors
    )
    return power_of(
        question, schema, n=n, epsilon=epsilon, delta=delta, assume=assume, found=found, runs=runs, seed=seed
    )


def _bounded(frame: Frame, schema: Schema, account: Account) -> Frame:
    """Leave out the rows of a person that are too many, where a person may have several."""
    if schema.unit is None:
        return frame
    return BoundedFrame(frame, schema.unit, bytes.fromhex(account.key), tuple(schema.columns.values()))


def _shares(budgets: object, epsilon: Fraction) -> dict[str, Fraction]:
    """Read the parts of the budget that analysts have."""
    if budgets is None:
        return {}
    if not isinstance(budgets, Mapping):
        raise ArgumentError(f"A {type(budgets).__name__} is no share of a budget.", "For example {'ana': 0.5}.")
    shares = {checked_name(name): positive(f"budgets[{name!r}]", share) for name, share in budgets.items()}
    for name, share in shares.items():
        if share > epsilon:
            raise ArgumentError(f"budgets[{name!r}] is more than the whole budget.", "Give at most all of it.")
    if len({name_key(name) for name in shares}) < len(budgets):
        raise ArgumentError("Two analysts in budgets= look the same.", "Name each once.")
    return shares


def _listed(
    categories: Mapping[str, Sequence[Category] | Discover] | None,
) -> tuple[Mapping[str, Sequence[Category]] | None, dict[str, Discover]]:
    """Tell categories that are listed from those that are to be found."""
    if not isinstance(categories, Mapping):
        return categories, {}
    wanted = {name: each for name, each in categories.items() if isinstance(each, Discover)}
    return {name: each for name, each in categories.items() if not isinstance(each, Discover)}, wanted


def _remembered(df: object, target: Target) -> PrivateFrame:
    """Make the view that ``df.dp`` finds, for as long as this very object lives."""
    key, view = id(df), PrivateFrame(target)
    with suppress(TypeError):  # what cannot be referred to weakly is no frame with a ``dp``
        frame = weakref.ref(df, lambda _: _VIEWS.pop(key, None))
        _VIEWS[key] = frame, weakref.ref(view), replace(target, table=replace(target.table, frame=None))
    return view


def view_of(df: object) -> PrivateFrame:
    """Find the view of a protected frame.

    Raises
    ------
    NotProtected
        If this very object has none.
    """
    frame, known, target = _VIEWS.get(id(df), (None, None, None))
    if frame is None or known is None or target is None or frame() is not df:
        raise NotProtected(
            "This frame has no private view: it was never protected, or it was made from one that was.",
            "Protect it, df.dp.protect('name', epsilon=..., bounds={...}), or, for a part of a protected table, "
            "use its view: view.where(...), view.select(...), view.group_by(...), which share one budget.",
        )
    view = known()
    if view is None:  # nobody held it
        bounded = _bounded(adapt(df), target.table.schema, target.account)
        view = _remembered(df, replace(target, table=replace(target.table, frame=bounded)))
    return view


class _Askable:
    """Something with the mechanisms of all installed plugins as methods."""

    _target: Target
    _by: tuple[Column, ...] = ()

    @trimmed
    def explain(self, method: str, /, *args: Any, **kwargs: Any) -> Explanation:
        """Say what a method would measure, with which noise and at what price, and what it could find out.

        No private column is read and nothing is charged.

        Parameters
        ----------
        method : str
            The method's name.
        *args, **kwargs
            What it would be called with.

        Returns
        -------
        Explanation
            The plan.
        """
        mechanisms = registry().mechanisms
        if not isinstance(method, str) or method not in mechanisms:
            name = method if isinstance(method, str) else type(method).__name__
            raise ArgumentError(f"There is no method {name!r}.", _near(name))
        return self._question(mechanisms[method], args, kwargs).explain()

    @trimmed
    def plan(
        self, questions: Sequence[Any], /, *, epsilon: Price | None = None, error: float | None = None
    ) -> Plan:
        """Split a budget over questions so that the relative errors to expect are equal.

        No private column is read and nothing is charged.

        Parameters
        ----------
        questions : list
            What is to be asked: the name of a method, or a tuple of it and its arguments, those by name in a
            dictionary at the end: ``[("mean", "age"), ("ttest", "bmi", {"by": "smoker"}), "describe"]``.
        epsilon : number or str, optional
            The budget to split.
        error : float, optional
            In place of it, the relative error that is wanted: what does it take?

        Returns
        -------
        Plan
            The price of each question and the error to expect. ``plan.run()`` asks them.

        Raises
        ------
        ArgumentError, SchemaError
            If a question cannot be asked.

        Notes
        -----
        Errors follow from public numbers and from what is typical: a column's standard deviation is taken to be a
        sixth of its range, a private number of rows to be 10,000. What the error is relative to depends on the
        method: a standard deviation for a mean, an average cell for counts, a quarter of the rows for quantiles.
        A method whose planner says none has that of a mean with the same noise. What is kept in the ledger already
        is not taken into account.

        Examples
        --------
        >>> import pandas as pd, dfprivacy as dp
        >>> df = pd.DataFrame({"age": [22, 31, 27, 40] * 1250})
        >>> view = dp.protect(df, "planned", epsilon=1, ledger="memory:", bounds={"age": (0, 100)})
        >>> view.plan([("mean", "age"), ("histogram", "age", {"bins": 10})], epsilon=0.5)
        A plan (nothing was charged or read):
          question                    epsilon  expected relative error
          mean('age')                0.115521                   0.0147
          histogram('age', bins=10)  0.384478                   0.0147
          all                        0.499999
          the account 'planned' can pay: the most it can pay at once is epsilon 1
        """
        size = self._target.table.schema.size

        def explained(one: Planned) -> Explanation:
            return self.explain(one.method, *one.args, **one.kwargs, epsilon=one.epsilon, fresh=True)

        return Plan(
            self._target.account.name,
            planned(questions, epsilon, error, explained, size),
            float(self._target.account.largest()),
            lambda one: getattr(self, one.method)(*one.args, **one.kwargs, epsilon=one.epsilon),
        )

    def _question(self, mechanism: Mechanism, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Question:
        self._refuse_tables(mechanism, args, kwargs)
        return Question.read(self._target, mechanism, args, kwargs, self._by)

    def _refuse_tables(self, mechanism: Mechanism, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        for value in (*args, *kwargs.values()):
            known, *_ = _VIEWS.get(id(value), (None,))
            if known is not None and known() is value:
                raise ArgumentError(
                    f"{mechanism.name}() was given a protected table as an argument.",
                    "Arguments are public: they are kept with the question, and shown.",
                )

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):  # what Python and notebooks probe for
            raise AttributeError(name)
        mechanism = registry().mechanisms.get(name)
        if mechanism is None:
            raise AttributeError(f"There is no method {name!r}. {_near(name)}")

        @trimmed
        def method(*args: Any, **kwargs: Any) -> Any:
            unpriced = kwargs.get("epsilon") is None and self._target.default_epsilon is None
            if unpriced and mechanism.holder is not None:
                self._refuse_tables(mechanism, args, kwargs)
                return held(self._target, mechanism, args, kwargs, self._by)
            return self._question(mechanism, args, kwargs).ask()

        method.__name__ = method.__qualname__ = name
        method.__doc__ = mechanism.doc
        signature = mechanism.signature
        signature = signature.replace(return_annotation=Groups) if self._by else signature
        method.__signature__ = signature  # type: ignore[attr-defined]
        return method

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *registry().mechanisms})

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
        return self._of(replace(table, schema=table.schema.select(name)))

    def _of(self, table: Table) -> Self:
        """Give the same view of another part of the table."""
        made = object.__new__(type(self))
        vars(made).update(vars(self), _target=replace(self._target, table=table))
        return made

    # A copy is the same view. A pickled one knows the account and its answers, but carries no rows: see Table.
    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


def _near(name: str) -> str:
    if name in INSTEAD:
        return INSTEAD[name]
    known = sorted(registry().mechanisms)
    near = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"The methods are {known!r}."


class PrivateFrame(_Askable, BundledMethods):
    """A table seen through a privacy budget.

    Its methods are the mechanisms of all installed plugins; each pays from the account and returns a release.
    ``view["age"]`` has those that ask about one column, ``view[["age", "income"]]`` is `select`, and ``filter`` and
    ``groupby`` are other names of `where` and `group_by`. A few methods have a form without an epsilon, for whoever
    holds the table, that returns none and says so.
    The view keeps no count of its own: the account lives in the ledger, under the data set's name.
    """

    def __init__(self, target: Target) -> None:
        self._target = target

    @property
    def name(self) -> str:
        """The data set's name."""
        return self._target.account.name

    @property
    def schema(self) -> Schema:
        """What is public about the table."""
        return self._target.table.schema

    @property
    def budget(self) -> Budget:
        """What was spent and what can still be asked."""
        return Budget(self._target.account)

    @property
    def releases(self) -> Releases:
        """Every answer the account has paid for, in every process."""
        return Releases(self._target.account)

    def to_toml(self) -> str:
        """Write a schema file: with ``schema="fair.toml"``, `protect` makes this view again.

        Returns
        -------
        str
            TOML: the account's name and terms, and all of the schema.

        Examples
        --------
        >>> import pandas as pd, dfprivacy as dp
        >>> df = pd.DataFrame({"age": [31, 45, 28, 52]})
        >>> view = dp.protect(df, "filed", epsilon="1/3", bounds={"age": (18, 90)}, ledger="memory:")
        >>> print(view.to_toml(), end="")
        name = "filed"
        epsilon = "1/3"
        accounting = "basic"
        neighbors = "replace_one"
        size = 4
        <BLANKLINE>
        [columns.age]
        bounds = [18, 90]
        """
        account, default = self._target.account, self._target.default_epsilon
        terms: dict[str, Any] = {"name": account.name, "epsilon": account.epsilon}
        terms |= {"delta": account.delta} if account.delta else {}
        terms |= {"accounting": account.accounting}
        terms |= {} if default is None else {"default_epsilon": default}
        shares = {share.analyst: share.epsilon for share in account.shares()}
        terms |= {"budgets": shares} if shares else {}
        return "\n".join(toml.table(terms)) + "\n" + self.schema.to_toml()

    @trimmed
    def where(
        self, predicate: Callable[[Row], bool] | Mapping[str, object] | None = None, /, **columns: object
    ) -> PrivateFrame:
        """Keep some rows. The part shares the account.

        Parameters
        ----------
        predicate : mapping or callable, optional
            Conditions by column name, for names that are no keywords; or a Python function of one row (a mapping
            of cleaned values), which is asked row by row and whose questions are never answered from the ledger.
        **columns : tuple, list or value
            ``age=(30, 40)``: numbers from 30 to 40. ``religious=[1, 2]``: one of these. ``religious=4``: this one.
            ``age=dp.present``: a value is there. ``age=dp.missing``: none is, or none that can be used.

        Returns
        -------
        PrivateFrame
            The view of the rows for which every condition holds. Unless all conditions are on public columns,
            how many there are is private.

        Raises
        ------
        SchemaError
            If a condition does not fit the table.
        """
        table = self._target.table
        conditions: list[Condition] = []
        if callable(predicate):
            conditions.append(Satisfies(tuple(table.schema.columns.values()), predicate))
        elif predicate is not None and not isinstance(predicate, Mapping):
            raise SchemaError(
                f"where() takes conditions by column or a function of a row, not a {type(predicate).__name__}.",
                "For example view.where(age=(30, 40)), or view.where(lambda row: row['age'] > 30).",
            )
        else:
            columns = {**(predicate or {}), **columns}
        for name, wanted in columns.items():
            refuse_data(f"where(): {name}", wanted)
        conditions += [condition(table.schema, name, wanted) for name, wanted in columns.items()]
        if not conditions:
            raise SchemaError("where() was given no condition.", "For example view.where(age=(30, 40)).")
        return self._of(replace(table, conditions=(*table.conditions, *conditions)))

    filter = where

    @trimmed
    def select(self, *columns: str) -> PrivateFrame:
        """Keep some columns. The part shares the account.

        Parameters
        ----------
        *columns : str
            Their names.

        Returns
        -------
        PrivateFrame
            The view of these columns.

        Raises
        ------
        SchemaError
            If a column is not there.
        """
        table = self._target.table
        return self._of(replace(table, schema=table.schema.select(columns)))

    @trimmed
    def power(
        self,
        question: Any,
        /,
        *,
        epsilon: Price | Sequence[Price],
        n: int | Sequence[int] | None = None,
        delta: Price = 0.0,
        assume: Mapping[str, Any] | Callable[[Any, int], Mapping[str, Any]] | None = None,
        found: str | Callable[[Any], bool] | None = None,
        runs: int = 200,
        seed: int = 0,
    ) -> Power:
        """Say how often a method would find what is assumed, for numbers of rows and prices.

        No column is read and nothing is charged: the method is asked of made-up tables, with what is declared of
        this one.

        Parameters
        ----------
        question : str or tuple
            What would be asked: the name of a method, or a tuple of it and its arguments, those by name in a
            dictionary at the end: ``("ttest", "bmi", {"by": "smoker"})``.
        epsilon : number, str or sequence
            Prices. A large one, such as 1e6, shows the method without privacy.
        n : int or sequence of int, optional
            Numbers of rows; default: that of the table, where it is public.
        delta : number or str, optional
            The delta of each call, for a method that takes one.
        assume : mapping or callable, optional
            What the made-up rows are like: numbers, such as ``{"effect": 0.5, "spread": 10}``, of those that the
            method takes, or a function of a NumPy generator and a number of rows that returns values by column.
        found : str or callable, optional
            Whether an answer finds it: the coefficient that has to differ from 0, or a function of the answer
            that is True or False. Default: what the method says, or ``rejected``.
        runs : int
            Made-up tables for each number of rows. Shares are within 1/sqrt(runs) of the truth in 19 of 20 cells.
        seed : int
            Of the made-up rows. The noise has none, so a second call differs a little.

        Returns
        -------
        Power
            A table, with ``plot()``, ``rows_for()`` and ``to_dict()``.

        Raises
        ------
        ArgumentError, SchemaError
            If the question cannot be asked.

        Notes
        -----
        Who plans with a table at hand must not look at it for what to assume: take the effect that would matter, and
        the spread from elsewhere.

        Examples
        --------
        >>> import pandas as pd, dfprivacy as dp
        >>> df = pd.DataFrame({"weight": [62, 71, 85, 90] * 100, "arm": ["drug", "placebo"] * 200})
        >>> view = dp.protect(df, "powerful", epsilon=1, ledger="memory:", bounds={"weight": (40, 160)},
        ...                   categories={"arm": ["drug", "placebo"]})
        >>> view.power(("mannwhitneyu", "weight", {"by": "arm"}), n=[50, 400], epsilon=[0.1, 1],
        ...            assume={"effect": 0.5})  # random
        Power of mannwhitneyu('weight', by='arm') (made-up rows; nothing was charged or read)
                        n=50  n=400
          epsilon 0.1   0.06   0.38
          epsilon 1     0.19   0.99
          assumed: normal groups, each above the next by the effect, in standard deviations: effect 0.5; 200 runs, each share within ± 0.07
        """  # noqa: E501 - what is printed
        table = self._target.table
        if table.conditions:
            raise ArgumentError(
                "power() asks about a whole table, and this view selects rows of one.",
                "Ask the view of the table, with n= rows.",
            )
        wanted = table.schema.size if n is None else n
        if wanted is None:
            raise ArgumentError("How many rows there are is private.", "Say for how many, n=[1000, 10000].")
        return power_of(
            question,
            table.schema,
            n=wanted,
            epsilon=epsilon,
            delta=delta,
            assume=assume,
            found=found,
            runs=runs,
            seed=seed,
        )

    @trimmed
    def declare(
        self,
        found: Release | None = None,
        /,
        *,
        bounds: Mapping[str, tuple[Any, Any]] | None = None,
        categories: Mapping[str, Sequence[Category]] | None = None,
        missing: Mapping[str, Any] | None = None,
    ) -> PrivateFrame:
        """Say more of some columns, or something else. The view shares the account.

        Parameters
        ----------
        found : Release, optional
            What was found out about columns: a release with a ``schema``, such as those of ``find_bounds``,
            ``find_categories`` and ``profile``.
        bounds, categories, missing : mapping, optional
            As for `protect`; they come before what was found.

        Returns
        -------
        PrivateFrame
            The same rows, with columns as they are declared now. Conditions of `where` stay as they were made.

        Raises
        ------
        ArgumentError
            If nothing was found, or nothing is said.
        SchemaError
            If it does not fit the table.
        """
        schema = {} if found is None else getattr(found, "schema", None)
        if not isinstance(schema, Mapping):
            raise ArgumentError(
                f"A {type(found).__name__} says nothing about columns.",
                "For example view.declare(view.find_bounds(['age'], epsilon=0.1)).",
            )
        declarations: dict[str, Any] = {}
        for name, each in (("bounds", bounds), ("categories", categories), ("missing", missing)):
            both = each is None or isinstance(each, Mapping)
            declarations[name] = {**schema.get(name, {}), **(each or {})} if both else each
        if not any(declarations.values()):
            raise ArgumentError(
                "declare() was told nothing.", "For example view.declare(bounds={'age': (0, 120)})."
            )
        table = self._target.table
        part = table.declaring(declared(table.schema, **declarations))
        return PrivateFrame(replace(self._target, table=part))

    @trimmed
    def refine(
        self,
        release: Release,
        of: Callable[..., float] | None = None,
        /,
        *,
        epsilon: Price | None = None,
        delta: Price | None = None,
    ) -> Combination:
        """Measure again what a release answers, and pool both answers.

        Parameters
        ----------
        release : Release
            An answer about this data set, or what `refine` made of one.
        of : callable, optional
            Which number of it is meant, ``lambda r: r.params["age"]``; default: its estimate.
        epsilon, delta : number or str, optional
            The privacy to pay, as of any method.

        Returns
        -------
        Combination
            The mean of both numbers, weighted by the inverse of the variance of their noise, with its interval.

        Raises
        ------
        ArgumentError
            If the release cannot be combined (see `dfprivacy.combine`), or is of another data set; nothing is
            charged.
        BudgetExceeded
            If the account cannot pay; nothing is charged.

        Notes
        -----
        **Privacy.** The question is asked again as any is, with ``fresh=True``: its price is charged before the
        data are read. To pool is post-processing.

        **Statistics.** Two measurements at half the epsilon each have, pooled, 1.41 times the noise of one at all
        of it. With Gaussian noise and an accounting that knows it, they have the same.

        Examples
        --------
        >>> import pandas as pd, dfprivacy as dp
        >>> df = pd.DataFrame({"age": [31, 45, 28, 52] * 5000})
        >>> view = dp.protect(df, "refined", epsilon=2, ledger="memory:", bounds={"age": (18, 90)})
        >>> first = view.mean("age", epsilon=0.5)
        >>> better = view.refine(first, epsilon=1)
        >>> better.noise_standard_error < first.noise_standard_error, view.budget.spent
        (True, Fraction(3, 2))
        """
        return refined(self._target, release, of, epsilon, delta)

    @trimmed
    def group_by(self, by: str | Sequence[str], *more: str) -> GroupedView:
        """Ask the same of every category of a column, or combination of several. The parts share the account.

        Parameters
        ----------
        by, *more : str
            Columns with categories, each once; or a list of them.

        Returns
        -------
        GroupedView
            A view whose methods answer for each group. A row is in one group only, so all groups together cost
            what one costs. Under ``replace_one`` a row may leave a group for another, unless all the columns are
            public: then two groups change, and the noise is that of ``add_remove`` at half the epsilon.

        Raises
        ------
        SchemaError
            If a column is not there, has no categories, or is named twice.
        """
        named = (*by, *more) if isinstance(by, list | tuple) else (by, *more)
        if not named:
            raise SchemaError("group_by() was given no column.", "For example view.group_by('sex').")
        columns = tuple(self.schema.categorical(name) for name in named)
        if len(set(columns)) < len(columns):
            names = ", ".join(repr(column.name) for column in columns)
            raise SchemaError(f"group_by({names}) names a column twice.", "Name each once.")
        return GroupedView(self._target, columns)

    groupby = group_by

    @trimmed
    def sample(self, share: Price) -> PrivateFrame:
        r"""Ask a secret sample of the people, another one for each question.

        Parameters
        ----------
        share : number or str
            The probability that any one person is in a sample, above 0 and below 1: ``0.1`` or ``"1/3"``.

        Returns
        -------
        PrivateFrame
            A view of which every question draws a sample of its own. It shares the account. Counts and sums are
            those of the sample; means, tests and all that is estimated are of the same population.

        Raises
        ------
        ArgumentError
            If the share cannot be used, or this is a sample already.

        Notes
        -----
        **Privacy.** ``epsilon`` is what the account pays, as everywhere. Since nobody knows who is in the sample, a
        question may spend more on it, :math:`\log(1 + (\exp\epsilon - 1) / q)`, and has less noise than a question
        of as many rows would have. It is charged as a whole when it first measures. Where the number of rows is
        public, q of it are drawn, and that number is public; else everybody is drawn by chance, with all rows of
        theirs. Nothing of a sample is kept, or taken for what was measured of the table, and no column is public
        there. docs/explanation/sampling.md has the proof.

        Where all rows can be read, their answers are better: a sample has less noise of its own, and more error of
        sampling. It is for methods of whole columns, whose time or memory all rows would exceed.

        Examples
        --------
        >>> import pandas as pd, dfprivacy as dp
        >>> df = pd.DataFrame({"age": [31, 45, 28, 52] * 5000})
        >>> view = dp.protect(df, "sampled", epsilon=1, ledger="memory:", bounds={"age": (18, 90)})
        >>> tenth = view.sample(0.1)
        >>> 38 < tenth.mean("age", epsilon=0.5).value < 40
        True
        >>> view.budget.spent
        Fraction(1, 2)
        """
        table = self._target.table
        part = positive("share", share)
        if not part < 1 or part.denominator >= SHARE_MAX:
            raise ArgumentError(
                f"share{quoted(share)} is no part of the people.", "Give a number below 1, such as 0.1 or '1/3'."
            )
        if table.sample is not None:
            raise ArgumentError("This is a sample already.", "Sample the table by the product of both shares.")
        size = table.schema.size
        if size is not None and part * size < 1:
            raise ArgumentError(f"share{quoted(share)} of {size} rows is none.", "Take a larger share.")
        return self._of(table.sampled(part))

    @trimmed
    def per(self, unit: str) -> PerPerson:
        """Make one row of the several rows of each person: ``view.per("patient_id").agg(bmi="mean")``.

        Parameters
        ----------
        unit : str
            The column that says whose a row is, as it was given to `protect`.

        Returns
        -------
        PerPerson
            What ``agg`` is asked of.

        Raises
        ------
        ArgumentError
            If the table was not protected with this unit, or its rows are selected by a Python function.
        """
        table = self._target.table
        whose = table.schema.unit
        if whose is None or unit != whose.column:
            known = f"with unit={whose.column!r}" if whose else "with one row each"
            raise ArgumentError(
                f"The rows are not protected as those of a {unit!r}, but {known}.",
                f"Protect the table with unit={unit!r} and max_rows=: then all rows of one are protected together.",
            )
        if table.sample is not None:
            raise ArgumentError(
                "A sample is drawn for each question, and per() makes one table for all of them.",
                f"Sample the people: view.per({unit!r}).agg(...).sample(...).",
            )
        if any(each.describe() is None for each in table.conditions):
            raise ArgumentError(
                "A Python function selects the rows, which cannot be written down.",
                "Ask per() first, and select people by the function: view.per(...).agg(...).where(function).",
            )
        return PerPerson(self._target, whose)

    def __repr__(self) -> str:
        lines = [*self._lines(), str(self._account())]
        return "\n".join([f"PrivateFrame {self.name!r}", *(f"  {line}" for line in lines)])

    def _account(self) -> Budget | str:
        try:
            return self.budget
        except LedgerError as error:  # what shows a view must not fail
            return f"budget unknown: {error.what}"

    def _repr_html_(self) -> str:
        schema = self.schema
        columns = [(name, _known(schema, name)) for name in schema.names]
        account = self._account()
        shown = f"<p>{escaped(account)}</p>" if isinstance(account, str) else account._repr_html_()
        facts = Grid((), self._facts()).html(f"PrivateFrame {self.name!r}")
        return facts + Grid(("column", "what is known of it"), columns).html("Columns") + shown

    def _facts(self) -> list[tuple[str, str]]:
        schema = self.schema
        size = "private" if schema.size is None else f"{schema.size}"
        whose = self._target.account.whose
        one = "" if whose is None else f" {whose[0]!r}"
        if schema.unit is not None:
            size += f", at most {schema.unit.max_rows} count of one{one}"
        elif whose is not None:
            size += f", one for each{one}"
        facts = [("rows", size), ("neighbors", schema.neighbors + (f" of all rows of one{one}" if one else ""))]
        facts += [("missing values", "are left out")]
        if (sample := self._target.table.sample) is not None:
            facts += [("of", f"{sample}, another one for each question")]
        return facts + [("where", str(c)) for c in self._target.table.conditions]

    def _lines(self) -> list[str]:
        (_, size), (_, neighbors), (_, missing), *where = self._facts()
        lines = [f"rows: {size}; neighbors: {neighbors}; missing values {missing}"]
        lines += [f"{name}: {_known(self.schema, name)}" for name in self.schema.names]
        return lines + [f"{name} {condition}" for name, condition in where]


class PerPerson:
    """The people of a view, before it is said what each one's row has; see `PrivateFrame.per`."""

    def __init__(self, target: Target, unit: Unit) -> None:
        self._target = target
        self._unit = unit

    @trimmed
    def agg(self, aggregations: Mapping[str, Any] | None = None, /, **columns: Any) -> PrivateFrame:
        """Say what each person's row has.

        Parameters
        ----------
        aggregations : mapping, optional
            As the keyword arguments, for names that are no keywords.
        **columns : str or tuple
            ``bmi="mean"``: of the column of this name. ``worst=("bmi", "max")``: of another column.
            ``cost=("cost", "sum", (0, 5000))``: the sum, clamped to bounds. ``visits="count"``: how many rows
            count. One of ``"mean"``, ``"sum"``, ``"min"``, ``"max"``, ``"count"``, ``"first"``, ``"last"``; of
            categories the last three. Missing values are left out, unless it was declared what they count as.

        Returns
        -------
        PrivateFrame
            A protected view with one row for each person and bounds and categories that follow: those of the column
            for a mean, from 0 to ``max_rows`` for a count, of which a sum of so many is clamped to ``max_rows``
            times those of the column unless bounds are given. It shares the account. How many people there are is
            public only if `protect` was told, and the view has no condition.

        Raises
        ------
        SchemaError
            If something asked for cannot be had.

        Notes
        -----
        A row of it is a function of one person's rows alone, so tables that differ in all rows of one person become
        tables that differ in one row: docs/explanation/people.md.

        Examples
        --------
        >>> import pandas as pd, dfprivacy as dp
        >>> df = pd.DataFrame({"patient_id": [1, 1, 2, 3], "bmi": [21.0, 23.0, 30.0, 26.0]})
        >>> view = dp.protect(
        ...     df, "visits", epsilon=1, ledger="memory:", bounds={"bmi": (10, 60)}, unit="patient_id", max_rows=4
        ... )
        >>> view.per("patient_id").agg(bmi="mean", visits="count").schema.columns["visits"].bounds
        (0.0, 4.0)
        """
        table = self._target.table
        made = read_aggregates(table.schema, self._unit, {**(aggregations or {}), **columns})
        key = bytes.fromhex(self._target.account.key)
        return PrivateFrame(replace(self._target, table=table.per_person(self._unit, key, made)))

    def __repr__(self) -> str:
        return f"{PrivateFrame(self._target)!r}\n  one row for each {self._unit.column!r}, once agg() says of what"


class GroupedView(_Askable, BundledGroups):
    """A view that answers for each category of a column, or of several; see `PrivateFrame.group_by`."""

    def __init__(self, target: Target, by: tuple[Column, ...]) -> None:
        self._target = target
        self._by = by

    def __repr__(self) -> str:
        return f"{PrivateFrame(self._target)!r}\n  grouped by {', '.join(column.name for column in self._by)}"

    def _repr_html_(self) -> str:
        by = ", ".join(column.name for column in self._by)
        return f"{PrivateFrame(self._target)._repr_html_()}<p>grouped by {escaped(by)}</p>"


def _known(schema: Schema, name: str) -> str:
    column, words = schema.columns.get(name), str(schema.words.get(name, ""))
    if column is None and schema.unit is not None and name == schema.unit.column:
        return (f"{words}; " if words else "") + "says whose a row is, and is in no question"
    if column is None:
        return (f"{words}; " if words else "") + "nothing is known, so no method can use it"
    known = [f"from {column.low:g} to {column.high:g}"] if column.bounds else []
    known += [f"one of {list(column.categories)!r}"] if column.categories else []
    if column.filled:
        known.append(f"missing counts as {OTHER if column.other else f'{column.fill:g}'}")
    known = [words, *known] if words else known
    return ("; ".join(known) or "as it is") + (" (public)" if column.public else "")
