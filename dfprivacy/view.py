"""Private views of tables, and of their parts: rows, columns, groups, samples, and one row for each person."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from dfprivacy._call.payment import Target, positive_price
from dfprivacy._call.power import Power, power_of
from dfprivacy._call.refine import refine_release
from dfprivacy._method_access import PluginMethods, Price, is_protected
from dfprivacy._method_signature import check_public_argument
from dfprivacy._public_facts import PublicFacts
from dfprivacy._table.conditions import Satisfies, read_condition
from dfprivacy._table.declare import computed_columns, looked_up_columns, redeclared_schema
from dfprivacy._table.frames import adapt
from dfprivacy._table.joins import read_join
from dfprivacy._table.person_rows import read_aggregates
from dfprivacy._table.sample import SHARE_MAX
from dfprivacy._visible import visible
from dfprivacy.errors import ArgumentError, DPError, ReadError, SchemaError, quoted, trimmed
from dfprivacy.expressions import FOR_EXAMPLE
from dfprivacy.markup import escaped

if TYPE_CHECKING:
    from dfprivacy._bundled import BundledGroups, BundledMethods
    from dfprivacy._call.combine import Combination
    from dfprivacy._table.conditions import Condition, Row
    from dfprivacy.release import Release
    from dfprivacy.schema import Bounds, Category, Column, Unit
else:
    BundledMethods = BundledGroups = object

__all__ = ["GroupedView", "PerPerson", "PrivateFrame"]


class PrivateFrame(PluginMethods, PublicFacts, BundledMethods):
    """Private view of a table: its methods return differentially private releases, paid from a budget.

    Its methods are the mechanisms of all installed plugins; each pays from the account and returns a release.
    ``view["age"]`` has those that ask about one column, ``view[["age", "income"]]`` is `select`, and ``filter`` and
    ``groupby`` are other names of `where` and `group_by`. A method whose name ends in ``_own`` is exact and free,
    for the table's owner alone: it takes no epsilon and returns no release.
    The view keeps no count of its own: the account lives in the ledger, under the data set's name.
    """

    def __init__(self, target: Target) -> None:
        self._target = target

    @trimmed
    def where(
        self, predicate: Callable[[Row], bool] | Mapping[str, object] | None = None, /, **columns: object
    ) -> PrivateFrame:
        """Return a view of the rows that meet conditions. The new view shares the account.

        Parameters
        ----------
        predicate : mapping or callable, optional
            Conditions by column name, for names that are no keywords; or a Python function of one row (a mapping
            of cleaned values), which is asked row by row and whose questions are never answered from the ledger.
        **columns : tuple, list or value
            ``age=(30, 40)``: numbers from 30 to 40; ``(None, 40)``: up to 40. ``religious=[1, 2]``: one of these.
            ``religious=4``: this one.
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
                f"where() takes conditions by column or a function of a row, not {type(predicate).__name__}.",
                "For example view.where(age=(30, 40)), or view.where(lambda row: row['age'] > 30).",
            )
        else:
            columns = {**(predicate or {}), **columns}
        for name, wanted in columns.items():
            check_public_argument(f"where(): {name}", wanted)
        conditions += [read_condition(table.schema, name, wanted) for name, wanted in columns.items()]
        if not conditions:
            raise SchemaError("where() was given no condition.", "For example view.where(age=(30, 40)).")
        return self._with_table(table.where(*conditions), "where", conditions)

    filter = where

    @trimmed
    def select(self, *columns: str) -> PrivateFrame:
        """Return a view of some columns. The new view shares the account.

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
            If the table lacks a column.
        """
        return self._with_table(self._target.table.select(columns), "select", columns)

    @trimmed
    def with_columns(self, *, bounds: Mapping[str, Bounds] | None = None, **columns: Any) -> PrivateFrame:
        """Return a view with columns that are computed from others, row by row. The new view shares the account.

        Parameters
        ----------
        bounds : mapping, optional
            Bounds of some of the new columns, to which their values are limited; as for `protect`. Default: what
            they can be, which follows from the bounds of the columns that they are computed from.
        **columns : Expression
            The new columns by name, of `dfprivacy.col`: ``bmi=dp.col("weight") / dp.col("height") ** 2``. A later
            one may name an earlier one. As in pandas, ``lambda df: df["weight"] / df["height"] ** 2`` is an
            expression too: it is called once, and never with a row.

        Returns
        -------
        PrivateFrame
            The view with these columns. A new column is public where all its parts are. A row in which a part is
            missing, or whose value is no finite number, is missing.

        Raises
        ------
        ArgumentError, SchemaError
            If an expression does not fit the columns, a name is taken, or numbers have no bounds: where one may be
            divided by 0, and at the logarithm of 0.

        Notes
        -----
        **Privacy.** Nothing is read. A value follows from the values of its row alone, each limited to its own
        bounds, so every guarantee is that of a table that has the column.

        Examples
        --------
        >>> import pandas as pd, dfprivacy as dp
        >>> df = pd.DataFrame({"weight": [62, 71, 85, 90] * 500, "height": [1.61, 1.75, 1.82, 1.7] * 500})
        >>> view = dp.protect(df, "computed", epsilon=1, ledger="memory:",
        ...                   bounds={"weight": (40, 160), "height": (1.4, 2.1)})
        >>> view = view.with_columns(bmi=dp.col("weight") / dp.col("height") ** 2)
        >>> [round(end, 1) for end in view.schema.columns["bmi"].bounds]
        [9.1, 81.6]
        >>> 24 < view.mean("bmi", epsilon=0.5).value < 28
        True
        """
        if not columns:
            raise ArgumentError("with_columns() was given no column.", FOR_EXAMPLE)
        table = self._target.table
        made = computed_columns(table.schema, columns, bounds or {})
        return self._with_table(table.with_columns(made), "with_columns", made)

    assign = with_columns

    @trimmed
    def join(
        self,
        other: PrivateFrame,
        /,
        *,
        on: str,
        how: Literal["left", "inner"] = "left",
        max_rows: int | None = None,
    ) -> PrivateFrame:
        """Return a view joined with another table of the same people, on the column that identifies people.

        Parameters
        ----------
        other : PrivateFrame
            The view of the other table, which shares the account and selects no rows.
        on : str
            The column that names people in both tables: the `unit` of a table that has one. A table without one has
            one row a person, as it was declared, and ``on`` says which column of it names them. In both tables it
            is of integers, or in both of text.
        how : {"left", "inner"}
            Whether a row that meets no row of the other table is kept, with missing values. A row that names nobody
            is left out.
        max_rows : int, optional
            How many rows of one person count at most; default: the product of both tables' ``max_rows``.

        Returns
        -------
        PrivateFrame
            The view of the joined rows, with the columns of both as they are declared, which shares the account.
            Conditions and computed columns of this view stay, and computed columns of the other come along. An
            undeclared column whose name is also one of the other table is left out.

        Raises
        ------
        ArgumentError, SchemaError
            If the tables cannot be joined: of another account, on another column, held by another library, or with
            a declared column in common.

        Notes
        -----
        **Privacy.** A person's rows of the join are made of this person's rows in both tables, and of nothing else,
        and at most ``max_rows`` of them count. So it is a table of people with several rows, and every guarantee is
        that of `protect` with ``unit=on``: docs/howto/joins.md has the proof. Which rows count is chosen after the
        join, by the account's key.

        The tables are joined where they are: by DuckDB, Polars, Spark or Dask, lazily where the tables are lazy.

        Examples
        --------
        >>> import pandas as pd, dfprivacy as dp
        >>> visits = pd.DataFrame({"id": [1, 1, 2, 3] * 500, "cost": [90.0, 120, 40, 300] * 500})
        >>> visits["id"] += 3 * (visits.index // 4)
        >>> persons = pd.DataFrame({"id": range(1, 1501), "age": [34, 71, 52] * 500})
        >>> visits = dp.protect(visits, "ward visits", account="ward", epsilon=2, ledger="memory:",
        ...                     unit="id", max_rows=2, bounds={"cost": (0, 500)})
        >>> persons = dp.protect(persons, "ward persons", account="ward", ledger="memory:",
        ...                      bounds={"age": (18, 100)})
        >>> joined = visits.join(persons, on="id")
        >>> joined.schema.unit
        Unit(column='id', max_rows=2, missing='omit')
        >>> 90 < joined.where(age=(18, 40)).mean("cost", epsilon=1).value < 120
        True
        """
        if not isinstance(other, PrivateFrame):
            raise ArgumentError(
                f"join() takes the view of a protected table, not {type(other).__name__}.",
                "Pass a view, such as protect() returns. To add columns of a public table, use lookup().",
            )
        account, second = self._target.account, other._target.account
        if (account.name, account.ledger.where) != (second.name, second.ledger.where):
            raise ArgumentError(
                f"The tables belong to the accounts {account.name!r} and {second.name!r}, which need not be about "
                "the same people.",
                f"Protect both with account={account.name!r}, in one ledger.",
            )
        table, others = self._target.table, other._target.table
        with _note_no_charge():
            joined = table.join(others, read_join(table, others, on, how, max_rows, account.name))
        given = {"on": on, "how": how, "max_rows": max_rows}
        return self._with_table(joined, "join", (other._target, given))

    @trimmed
    def lookup(
        self,
        table: object,
        /,
        *,
        on: str,
        columns: Sequence[str] | None = None,
        missing: Mapping[str, Any] | None = None,
    ) -> PrivateFrame:
        """Return a view with columns of a public table, such as the region and the income of a postal code.

        Parameters
        ----------
        table : table of pandas, Polars, Arrow, DuckDB, Dask or Spark
            A table whose values anybody may know: it is read, its values are written into questions and shown, and
            it is protected from nobody. It has at most 100,000 rows, one for each value of ``on``.
        on : str
            A column with bounds or categories here, whose values are looked up in the public table's column of
            the same name. A value beyond the bounds counts as the bound.
        columns : sequence of str, optional
            Columns of the public table to add; default: all others.
        missing : mapping of str to value, optional
            Of some of them, what a row has whose value the public table lacks; default: it is missing.

        Returns
        -------
        PrivateFrame
            The same rows, with these columns, whose bounds and categories follow from the public values. A column
            of more than 200 different numbers has bounds only. A column is public where ``on`` is.

        Raises
        ------
        ArgumentError, SchemaError
            If a value of ``on`` has several rows in the public table, a column is not there, or a name is taken.

        Notes
        -----
        **Privacy.** No private column is read. What is looked up is a function of one row's value, as in
        `with_columns`: ``dp.col(on).map({...})``.

        Examples
        --------
        >>> import pandas as pd, dfprivacy as dp
        >>> df = pd.DataFrame({"zip": ["8001", "8002", "3011", "8001"] * 500})
        >>> zips = pd.DataFrame({"zip": ["3011", "8001", "8002"], "city": ["Bern", "Zurich", "Zurich"]})
        >>> view = dp.protect(df, "zips", epsilon=1, ledger="memory:", categories={"zip": ["3011", "8001", "8002"]})
        >>> view.lookup(zips, on="zip").schema.columns["city"].categories
        ('Bern', 'Zurich')
        """
        if isinstance(table, PrivateFrame) or is_protected(table):
            raise ArgumentError(
                "lookup() takes a public table, and the given table is protected.",
                "To join tables of the same people, use view.join(other, on=...).",
            )
        rows = self._target.table
        with _note_no_charge():
            made = looked_up_columns(rows.schema, adapt(table), on, columns, missing)
        return self._with_table(rows.with_columns(made), "with_columns", made)

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
        finder: str | Callable[[Any], bool] | None = None,
        runs: int = 200,
        seed: int = 0,
    ) -> Power:
        """Compute the power of a method, for an assumed effect, by number of rows and epsilon.

        No column is read and nothing is charged: the method is applied to synthetic tables, with the declarations of
        this table.

        Parameters
        ----------
        question : str or tuple
            The question: the name of a method, or a tuple of the name and its arguments, with keyword arguments in
            a dictionary at the end: ``("ttest", "bmi", {"by": "smoker"})``.
        epsilon : number, str or sequence
            Prices. A large one, such as 1e6, shows the method without privacy.
        n : int or sequence of int, optional
            Numbers of rows; default: that of the table, where it is public.
        delta : number or str, optional
            The delta of each call, for a method that takes one.
        assume : mapping or callable, optional
            Assumptions about the synthetic rows: numbers that the method's own function takes, such as
            ``{"effect": 0.5, "spread": 10}``, or a function of a NumPy generator and a number of rows that returns
            a dictionary of columns.
        finder : str or callable, optional
            Criterion for an answer that shows the effect: the coefficient that has to differ from 0, or a function
            of the answer that returns True or False. Default: the method's own criterion, or ``rejected``.
        runs : int
            Number of synthetic tables for each number of rows. A power is within 1/sqrt(runs) of the truth in 19 of
            20 cells.
        seed : int
            Seed of the synthetic rows. The noise has no seed, so a second call differs slightly.

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
        Do not take the assumed effect and spread from the table itself: assume the effect that would matter, and a
        spread from other sources.

        Examples
        --------
        >>> import pandas as pd, dfprivacy as dp
        >>> df = pd.DataFrame({"weight": [62, 71, 85, 90] * 100, "arm": ["drug", "placebo"] * 200})
        >>> view = dp.protect(df, "powerful", epsilon=1, ledger="memory:", bounds={"weight": (40, 160)},
        ...                   categories={"arm": ["drug", "placebo"]})
        >>> view.power(("mannwhitneyu", "weight", {"by": "arm"}), n=[50, 400], epsilon=[0.1, 1],
        ...            assume={"effect": 0.5}, runs=50)  # random
        Power of mannwhitneyu('weight', by='arm') (made-up rows; nothing was charged or read)
                       n=50  n=400
          epsilon 0.1  0.08   0.22
          epsilon 1    0.30   1.00
          assumed: normal groups whose means decrease by `effect` standard deviations from one group to the next: effect 0.5; 50 runs, each share within ± 0.14
        """  # noqa: E501 - what is printed
        table = self._target.table
        if table.conditions or table.sample is not None:
            raise ArgumentError(
                "power() is about a whole table, and this view selects or samples rows.",
                "Use the view of the whole table, and pass n=, the number of rows.",
            )
        wanted = table.schema.size if n is None else n
        if wanted is None:
            raise ArgumentError(
                "power() needs numbers of rows, and the number of rows of this table is private.",
                "Pass numbers of rows, such as n=[1000, 10000].",
            )
        return power_of(
            question,
            table.schema,
            n=wanted,
            epsilon=epsilon,
            delta=delta,
            assume=assume,
            finder=finder,
            runs=runs,
            seed=seed,
        )

    @trimmed
    def declare(
        self,
        release: Release | None = None,
        /,
        *,
        bounds: Mapping[str, Bounds] | None = None,
        categories: Mapping[str, Sequence[Category]] | None = None,
        missing: Mapping[str, Any] | None = None,
    ) -> PrivateFrame:
        """Return a view with new declarations about some columns. The new view shares the account.

        Parameters
        ----------
        release : Release, optional
            A release with found bounds or categories, such as those of ``find_bounds``, ``find_categories`` and
            ``profile``. Answers within found bounds have a note, and cover values limited to them.
        bounds, categories, missing : mapping, optional
            As for `protect`; they take precedence over the release. ``"find"``: each question finds bounds, within
            the declared ones.

        Returns
        -------
        PrivateFrame
            The same rows, with the new declarations. Conditions of `where` keep their declarations.

        Raises
        ------
        ArgumentError
            If the release has no bounds or categories, or nothing is declared.
        SchemaError
            If a declaration does not fit the table.
        """
        schema = {} if release is None else getattr(release, "schema", None)
        if not isinstance(schema, Mapping):
            raise ArgumentError(
                f"declare() takes a release with found bounds or categories, not {type(release).__name__}.",
                "For example view.declare(view.find_bounds(['age'], epsilon=0.1)).",
            )
        declarations: dict[str, Any] = {}
        for name, each in (("bounds", bounds), ("categories", categories), ("missing", missing)):
            both = each is None or isinstance(each, Mapping)
            declarations[name] = {**schema.get(name, {}), **(each or {})} if both else each
        if all(isinstance(each, Mapping) and not each for each in declarations.values()):
            raise ArgumentError(
                "declare() was given nothing to declare.", "For example view.declare(bounds={'age': (0, 120)})."
            )
        table = self._target.table
        part = table.with_declarations(redeclared_schema(table.schema, **declarations).columns)
        return PrivateFrame(self._target.with_step(part, "declare", declarations))

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
        """Ask the question of a release again, and pool one number of both answers, such as the estimate.

        Parameters
        ----------
        release : Release
            An answer about this table, or a result of `refine`.
        of : callable, optional
            Function that returns the number to pool, ``lambda r: r.params["age"]``; default: its estimate.
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
        return refine_release(self._target, release, of, epsilon, delta)

    @trimmed
    def group_by(self, by: str | Sequence[str], *more: str) -> GroupedView:
        """Return a view whose methods answer for each category of a column, or combination of categories.

        Parameters
        ----------
        by, *more : str
            Columns with categories, each once; or a list of them.

        Returns
        -------
        GroupedView
            A view whose methods answer for each group, and share the account. A row is in one group only, so all
            groups together cost what one costs. Under ``replace_one`` a row may leave a group for another, unless
            all the columns are public: then two groups change, and the noise is that of ``add_remove`` at half the
            epsilon.

        Raises
        ------
        SchemaError
            If the table lacks a column, or a column has no categories or is named twice.
        """
        named = (*by, *more) if isinstance(by, list | tuple) else (by, *more)
        if not named:
            raise SchemaError("group_by() was given no column.", "For example view.group_by('sex').")
        columns = tuple(self.schema.categorical(name) for name in named)
        if len(set(columns)) < len(columns):
            names = ", ".join(repr(column.name) for column in columns)
            raise SchemaError(f"group_by({names}) names a column twice.", "Name each column once.")
        return GroupedView(self._target, columns)

    groupby = group_by

    @trimmed
    def sample(self, share: Price) -> PrivateFrame:
        r"""Return a view that answers each question from a new secret sample of the people.

        Parameters
        ----------
        share : number or str
            The probability that any one person is in a sample, above 0 and below 1: ``0.1`` or ``"1/3"``.

        Returns
        -------
        PrivateFrame
            A view of which every question draws a sample of its own. It shares the account. Counts, sums and
            intervals for the sample's own number are of the rows that were drawn; tests and all that is estimated
            are of the same population, and so are the intervals of `mean` unless it is given ``covers=``.

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
        part = positive_price("share", share)
        if not part < 1 or part.denominator >= SHARE_MAX:
            raise ArgumentError(
                f"share{quoted(share)} is not between 0 and 1.", "Pass a number below 1, such as 0.1 or '1/3'."
            )
        if table.sample is not None:
            raise ArgumentError(
                "This view is a sample already.",
                "Sample the whole table instead, with the product of both shares.",
            )
        size = table.schema.size
        if size is not None and part * size < 1:
            raise ArgumentError(
                f"share{quoted(share)} of {size} rows is less than one row.",
                f"Pass a share of at least 1/{size}.",
            )
        return self._with_table(table.sampled(part), "sample", part)

    @trimmed
    def per(self, unit: str) -> PerPerson:
        """Aggregate the rows of each person to one row: ``view.per("patient_id").agg(bmi="mean")``.

        Parameters
        ----------
        unit : str
            The column that identifies people, the `unit` of `protect`.

        Returns
        -------
        PerPerson
            An object whose ``agg`` defines the columns of the new rows.

        Raises
        ------
        ArgumentError
            If the table was not protected with this unit, or its rows are selected by a Python function.
        """
        table = self._target.table
        whose = table.schema.unit
        if not isinstance(unit, str):
            raise SchemaError(f"A column is named by a string, not by {type(unit).__name__}.", "Pass its name.")
        if whose is None or unit != whose.column:
            known = f"with unit={whose.column!r}" if whose else "with one row each"
            raise ArgumentError(
                f"The table is protected {known}, not with unit={unit!r}.",
                f"Protect the table with unit={unit!r} and max_rows=, which protects a person's rows together.",
            )
        if table.sample is not None:
            raise ArgumentError(
                "A sample is drawn anew for each question, and per() makes one table for all questions.",
                f"Sample people after per(): view.per({unit!r}).agg(...).sample(...).",
            )
        if any(each.describe() is None for each in table.conditions):
            raise ArgumentError(
                "A Python function selects the rows, and functions cannot be stored.",
                "Use per() first, and select people by the function: view.per(...).agg(...).where(function).",
            )
        return PerPerson(self._target, whose)


@contextmanager
def _note_no_charge() -> Iterator[None]:
    """Convert a `ReadError` raised in the block to one whose outcome says that nothing was charged."""
    try:
        yield
    except ReadError as error:
        raise error.after(DPError.outcome) from None


class PerPerson:
    """People of a view, whose rows `agg` aggregates to one row for each person; see `PrivateFrame.per`."""

    def __init__(self, target: Target, unit: Unit) -> None:
        self._target = target
        self._unit = unit

    @trimmed
    def agg(self, aggregations: Mapping[str, Any] | None = None, /, **columns: Any) -> PrivateFrame:
        """Return a view with one row for each person, with columns aggregated from the person's rows.

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
            If an aggregation does not fit a column.

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
        asked = {**(aggregations or {}), **columns}
        made = table.per_person(read_aggregates(table.schema, self._unit, asked))
        return PrivateFrame(self._target.with_step(made, "per", [self._unit.column, asked]))

    def __repr__(self) -> str:
        rows = f"one row for each {self._unit.column!r}; agg() defines its columns"
        return f"{PrivateFrame(self._target)!r}\n  {rows}"


class GroupedView(PluginMethods, BundledGroups):
    """View whose methods answer for each group of rows; see `PrivateFrame.group_by`."""

    def __init__(self, target: Target, by: tuple[Column, ...]) -> None:
        self._target = target
        self._by = by

    def __repr__(self) -> str:
        by = visible(", ".join(column.name for column in self._by))
        return f"{PrivateFrame(self._target)!r}\n  grouped by {by}"

    def _repr_html_(self) -> str:
        by = ", ".join(column.name for column in self._by)
        return f"{PrivateFrame(self._target)._repr_html_()}<p>grouped by {escaped(by)}</p>"
