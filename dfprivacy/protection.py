"""Protection of tables: their declarations are checked, their account is opened, and their view is made."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy._call.payment import Target, parse_delta, positive_price
from dfprivacy._call.power import Power, power_of
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._ledger.names import checked_analyst, checked_edition, checked_name, name_key
from dfprivacy._ledger.tables import DataTable
from dfprivacy._measure.evaluate import MEMORY, Table
from dfprivacy._method_access import VIEWS, Price
from dfprivacy._table.declare import read_schema, read_size, read_unit
from dfprivacy._table.frames import ColumnsFrame, adapt
from dfprivacy.errors import ArgumentError, DPError, LedgerError, NotProtected, ReadError, quoted, trimmed
from dfprivacy.schema import Discover
from dfprivacy.schema.files import USUAL, read_file
from dfprivacy.view import PrivateFrame

if TYPE_CHECKING:
    from fractions import Fraction

    from dfprivacy.schema import Bounds, Category
    from dfprivacy.schema.files import SchemaFile

__all__ = ["power", "protect", "view_of"]

_OF_ACCOUNT = ("epsilon", "delta", "accounting", "neighbors")
_DEFAULTS: Mapping[str, Any] = {"delta": 0, "public": (), **USUAL}


@trimmed
def protect(
    df: object,
    name: str,
    *,
    epsilon: Price | None = None,
    delta: Price | None = None,
    account: str | None = None,
    edition: str | None = None,
    bounds: Mapping[str, Bounds] | None = None,
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
    """Protect a table: open its account, or use its existing one, and return its private view.

    Parameters
    ----------
    df : table of pandas, Polars, Arrow, DuckDB, Dask or Spark, or object with an Arrow C stream
        The table, one row for each person, unless `unit` says whose a row is.
    name : str
        The table's name. A name never gets a second budget.
    epsilon, delta : number or str
        The whole budget of the account, once and for all; delta is 0 unless given. Strings such as ``"1/3"`` are
        exact. An account that there is needs neither.
    account : str, optional
        Which people the table is about: tables of one account share its budget, because they hold the same people.
        Default: an account of the table's own, under its name.
    edition : str, optional
        Of a table that is collected again and again, which one this is: ``edition="2026-11"``. Answers are of one
        edition; the account is the same. A new edition comes after those that there are.
    bounds : mapping of str to pair or "find", optional
        Lowest and highest value each number may take, from knowledge outside the data; ``(0, 1)`` for True and
        False. ``"find"`` where nobody knows: each question that needs them finds bounds in the rows that are asked,
        with a quarter of its epsilon, and asks with the rest. Those that the ledger keeps cost nothing.
    categories : mapping of str to sequence, optional
        The values each categorical column may take, from knowledge outside the data; ``[False, True]`` for a
        column of booleans. Nothing is taken from the types of the columns: one value can change them.
        `dp.discover() <dfprivacy.discover>` for those that occur in enough rows, at a price, and ``"other"``. Of a
        huge known domain, counts need no declaration: ``view.value_counts(column, domain=...)``.
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
        Where a person may have several rows, the column that says whose a row is, of integers or text. What is
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
        needs more, at ten bytes a value, is refused: ask a `PrivateFrame.sample`.

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
        If the account, the table or the edition is known with other terms, or belongs to another account.
    LedgerError
        If the ledger cannot be used.

    Notes
    -----
    Everything released from all tables of one account is, together, (epsilon, delta)-differentially private for
    the neighbouring relation, however each question depends on earlier answers. Neighbouring data sets differ in
    one person, in all tables of the account: in all rows of that person where a table has a `unit`, and in one row
    where it has none.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": [31, 45, 28, 52], "smoker": ["yes", "no", "no", "yes"]})
    >>> view = dp.protect(df, "clinic", epsilon=1, bounds={"age": (18, 90)}, ledger="memory:")
    >>> view.budget.remaining
    Fraction(1, 1)
    """
    if not isinstance(name, str) or not name.strip():
        given = "empty" if isinstance(name, str) else f"of type {type(name).__name__}"
        raise ArgumentError(
            f"The table's name must be a string that is not empty; it is {given}.", "For example 'survey-2024'."
        )
    if not isinstance(ledger, str | os.PathLike | None):
        raise LedgerError(
            f"ledger= must be a path or the address of a database, not {type(ledger).__name__}.",
            "For example ledger='ledger.sqlite', or ledger='postgresql://user@host/database'.",
        )
    if not isinstance(accounting, str | None):
        raise ArgumentError(
            f"accounting= must be a string, not {type(accounting).__name__}.",
            'Use "basic", "rdp", "gdp" or "portfolio".',
        )
    terms: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "account": account,
        "edition": edition,
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
        raise ArgumentError(f"memory{quoted(memory)} is not a positive number of bytes.", "For example memory=2e9.")
    if schema is None:
        return _protect_table(df, name, terms, ledger, memory)
    file = read_file(schema)
    with file.name_file_in_errors():
        return _protect_table(df, name, file.with_arguments(name, terms), ledger, memory, file)


def _protect_table(
    df: object,
    name: str,
    terms: Mapping[str, Any],
    ledger: str | os.PathLike[str] | None,
    memory: float,
    file: SchemaFile | None = None,
) -> PrivateFrame:
    """Check the declarations of a table, open its account, and return its view."""
    given = {term: value for term, value in terms.items() if value is not None or term == "public"}
    payer = checked_name("account=", given["account"]) if "account" in given else name
    edition = checked_edition(given.get("edition"))
    terms = {**_DEFAULTS, **(_terms_of_account(payer, ledger) if "account" in given else {}), **given}
    if "epsilon" not in terms:
        raise ArgumentError(
            f"The account {payer!r} is new and needs a total budget.", "Pass the total epsilon, such as epsilon=1."
        )
    epsilon, delta = positive_price("epsilon", terms["epsilon"]), parse_delta("delta", terms["delta"])
    shares = _read_shares(terms.get("budgets"), epsilon)
    default = terms.get("default_epsilon")
    default = None if default is None else positive_price("default_epsilon", default)
    listed, wanted = _split_categories(terms.get("categories"))
    whose = read_unit(terms.get("unit"), terms.get("max_rows"), terms["unit_missing"])
    size = read_size(terms.get("size"), terms["neighbors"])
    if whose is not None and any(price.domain is None for price in wanted.values()):
        raise ArgumentError(
            f"dp.discover() without domain= is for tables with one row per person, and a {whose.column!r} may have "
            "several rows.",
            "Declare the categories, or all possible categories: dp.discover(domain=...).",
        )
    named = ("bounds", "public", "missing", "neighbors")
    declarations: dict[str, Any] = {argument: terms.get(argument) for argument in named}
    try:
        frame = adapt(df)
        if file is not None:
            file.refuse_missing_columns(frame.columns)
        schema = read_schema(frame, **declarations, categories=listed, unit=whose, size=size)
    except ReadError as error:  # nothing had been charged yet
        raise error.after(DPError.outcome) from None
    if file is not None:
        schema = replace(schema, words={**schema.words, **file.words})
    opened = open_ledger(ledger)
    entry = DataTable(
        payer,
        name,
        edition,
        None if whose is None else (whose.column, whose.max_rows, whose.missing),
        tuple(sorted(terms["public"])),
        schema.size if whose is None else schema.people,
    )
    known = opened.find_table(entry) is not None  # which refuses one of another account, or with other terms
    account = opened.open_account(
        payer,
        epsilon=epsilon,
        delta=delta,
        accounting=terms.get("accounting"),
        neighbors=schema.neighbors,
        shares=shares,
    )
    if not known:
        opened.add_table(entry)
        account = opened.account(payer)  # whose key may be new
    schema = replace(schema, table=entry.identity)
    table = Table(frame, schema, key=bytes.fromhex(account.key), memory=memory)
    view = PrivateFrame(Target(account, table, default))
    for column, price in wanted.items():
        if price.domain is None:
            view = view.declare(view.find_categories([column], epsilon=price.epsilon, delta=price.delta))
        else:
            view = view.declare(view.value_counts(column, domain=price.domain, epsilon=price.epsilon))
    return _register_view(df, view._target)  # noqa: SLF001 - its own


def _terms_of_account(name: str, ledger: str | os.PathLike[str] | None) -> dict[str, Any]:
    """Return the terms of an account, by argument of `protect`; an empty dictionary for a new account."""
    account = open_ledger(ledger).find_account(name)
    return {} if account is None else {term: getattr(account, term) for term in _OF_ACCOUNT}


@trimmed
def power(
    question: Any,
    /,
    *,
    n: int | Sequence[int],
    epsilon: Price | Sequence[Price],
    delta: Price = 0.0,
    bounds: Mapping[str, Bounds] | None = None,
    categories: Mapping[str, Sequence[Category]] | None = None,
    public: Sequence[str] = (),
    neighbors: Literal["replace_one", "add_remove"] = "replace_one",
    assume: Mapping[str, Any] | Callable[[Any, int], Mapping[str, Any]] | None = None,
    finder: str | Callable[[Any], bool] | None = None,
    runs: int = 200,
    seed: int = 0,
) -> Power:
    """Compute the power of a method, for an assumed effect, before there is a table.

    Parameters
    ----------
    question, n, epsilon, delta
        As for `PrivateFrame.power`.
    bounds, categories, public, neighbors
        Declarations of the columns of the table to come, as for `protect`.
    assume, finder, runs, seed
        As for `PrivateFrame.power`.

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
    said = [of for of in (bounds, categories, public) if isinstance(of, Mapping | list | tuple)]
    names = [*dict.fromkeys(name for of in said for name in of if isinstance(name, str))]
    frame = ColumnsFrame({name: np.zeros(1) for name in names} or {"": np.zeros(1)})
    schema = read_schema(
        frame, bounds=bounds, categories=categories, public=public, missing=None, neighbors=neighbors
    )
    return power_of(
        question, schema, n=n, epsilon=epsilon, delta=delta, assume=assume, finder=finder, runs=runs, seed=seed
    )


def _read_shares(budgets: object, epsilon: Fraction) -> dict[str, Fraction]:
    """Return the analysts' shares of the budget, by name, after checking them."""
    if budgets is None:
        return {}
    if not isinstance(budgets, Mapping):
        raise ArgumentError(
            f"budgets= must be a dictionary of shares by analyst, not {type(budgets).__name__}.",
            "For example {'ana': 0.5}.",
        )
    shares = {checked_analyst(name): positive_price(f"budgets[{name!r}]", share) for name, share in budgets.items()}
    for name, share in shares.items():
        if share > epsilon:
            raise ArgumentError(
                f"budgets[{name!r}] = {float(share):g} is more than the whole budget, {float(epsilon):g}.",
                "Set a smaller share.",
            )
    if len({name_key(name) for name in shares}) < len(budgets):
        raise ArgumentError("Two names of analysts in budgets= look the same.", "Name each analyst once.")
    return shares


def _split_categories(
    categories: Mapping[str, Sequence[Category] | Discover] | None,
) -> tuple[Mapping[str, Sequence[Category]] | None, dict[str, Discover]]:
    """Split categories into listed categories and categories to be discovered."""
    if not isinstance(categories, Mapping):
        return categories, {}
    wanted = {name: each for name, each in categories.items() if isinstance(each, Discover)}
    return {name: each for name, each in categories.items() if not isinstance(each, Discover)}, wanted


def _register_view(df: object, target: Target) -> PrivateFrame:
    """Make a view, and register it for ``df.dp`` until the frame is deleted."""
    key, view = id(df), PrivateFrame(target)
    with suppress(TypeError):  # what cannot be referred to weakly is no frame with a ``dp``
        frame = weakref.ref(df, lambda _: VIEWS.pop(key, None))
        VIEWS[key] = frame, weakref.ref(view), replace(target, table=target.table.with_weak_reference())
    return view


def view_of(df: object) -> PrivateFrame:
    """Return the view of a protected frame.

    Raises
    ------
    NotProtected
        If the frame object itself was not protected.
    """
    frame, known, target = VIEWS.get(id(df), (None, None, None))
    if frame is None or known is None or target is None or frame() is not df:
        raise NotProtected(
            "This frame has no private view: it was never protected, or it was made from one that was.",
            "Protect it, df.dp.protect('name', epsilon=..., bounds={...}), or, for a part of a protected table, "
            "use its view: view.where(...), view.select(...), view.group_by(...), which share one budget.",
        )
    view = known()
    if isinstance(view, PrivateFrame):
        return view
    return _register_view(df, replace(target, table=target.table.with_source_frame(adapt(df))))  # nobody held it
