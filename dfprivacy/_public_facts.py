"""Public facts about a view: the table's name, its schema and its account, and their display."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dfprivacy._ledger.budget import Budget, Releases
from dfprivacy._visible import visible
from dfprivacy.errors import LedgerError
from dfprivacy.expressions import ComputedColumn
from dfprivacy.markup import Grid, escaped
from dfprivacy.schema import OTHER, toml

if TYPE_CHECKING:
    from dfprivacy._call.payment import Target
    from dfprivacy.schema import Schema

__all__ = ["PublicFacts"]


class PublicFacts:
    """Base class of views with public facts: the table's name and schema, its account, and their display."""

    _target: Target

    @property
    def name(self) -> str:
        """Name of the table, with its edition if it has one."""
        return self._target.name

    @property
    def account(self) -> str:
        """Name of the account that pays for this table, and for all other tables of the account."""
        return self._target.account.name

    @property
    def editions(self) -> list[str]:
        """Editions of the table in the ledger, oldest first; an empty text stands for rows without an edition."""
        return [each.edition for each in self._target.account.tables() if each.name == self._table_and_edition[0]]

    @property
    def _table_and_edition(self) -> tuple[str, str]:
        """Name and edition of the table; the edition is empty for a join, or if the table has none."""
        table = self.schema.table
        known = None if table is None else json.loads(table)
        if isinstance(known, list):
            return known[0], known[1]
        return self._target.name, ""

    @property
    def schema(self) -> Schema:
        """Schema of the table: its columns with their declared bounds and categories, and its public sizes."""
        return self._target.table.schema

    @property
    def budget(self) -> Budget:
        """Budget of the account: the total, the part spent and the part left."""
        return Budget(self._target.account)

    @property
    def releases(self) -> Releases:
        """Every answer that the account has paid for, in any process."""
        frame = self._target.table.frame
        return Releases(self._target.account, library="pandas" if frame is None else frame.library)

    def to_toml(self) -> str:
        """Return the text of a schema file, with which `protect` makes this view again: ``schema="fair.toml"``.

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
        name, edition = self._table_and_edition
        terms: dict[str, Any] = {"name": name}
        terms |= {"account": account.name} if name != account.name else {}
        terms |= {"edition": edition} if edition else {}
        terms |= {"epsilon": account.epsilon}
        terms |= {"delta": account.delta} if account.delta else {}
        terms |= {"accounting": account.accounting}
        terms |= {} if default is None else {"default_epsilon": default}
        shares = {share.analyst: share.epsilon for share in account.shares()}
        terms |= {"budgets": shares} if shares else {}
        return "\n".join(toml.table(terms)) + "\n" + self.schema.to_toml()

    def __repr__(self) -> str:
        lines = [*self._lines(), str(self._account())]
        return "\n".join([f"PrivateFrame {self.name!r}", *(f"  {visible(line)}" for line in lines)])

    def _account(self) -> Budget | str:
        try:
            return self.budget
        except LedgerError as error:  # what shows a view must not fail
            return f"budget unknown: {error.what}"
        except AttributeError:  # of a request
            return "budget: in the ledger of the table's custodian"

    def _repr_html_(self) -> str:
        schema = self.schema
        columns = [(name, _declaration_as_text(schema, name)) for name in schema.names]
        account = self._account()
        shown = f"<p>{escaped(account)}</p>" if isinstance(account, str) else account._repr_html_()
        facts = Grid((), self._facts()).html(f"PrivateFrame {self.name!r}")
        return facts + Grid(("column", "public facts"), columns).html("Columns") + shown

    def _facts(self) -> list[tuple[str, str]]:
        schema = self.schema
        size = "private" if schema.size is None else f"{schema.size}"
        one = f" {schema.person!r}" if schema.person else ""
        if schema.unit is not None:
            size += f", of which at most {schema.unit.max_rows} of each{one} count"
        elif one:
            size += f", one for each{one}"
        differ = {
            "replace_one": f"all rows of one{one} change" if one else "a row's content changes",
            "add_remove": f"{f'all rows of one{one} are' if one else 'a row is'} added or removed",
        }
        facts = [("number of rows", size), ("neighbors", f"{schema.neighbors} ({differ[schema.neighbors]})")]
        facts += [("missing values", "are left out")]
        facts += [] if self.account == self.name else [("account", self.account)]
        if self._table_and_edition[1] and schema.size is None and schema.people is None:
            facts += [("edition", "changes of its rows are not detected")]
        if (sample := self._target.table.sample) is not None:
            facts += [("of", f"{sample}, drawn anew for each question")]
        return facts + [("where", str(c)) for c in self._target.table.conditions]

    def _lines(self) -> list[str]:
        (_, size), (_, neighbors), (_, missing), *where = self._facts()
        lines = [f"number of rows: {size}; neighbors: {neighbors}; missing values {missing}"]
        lines += [f"{name}: {_declaration_as_text(self.schema, name)}" for name in self.schema.names]
        return lines + [f"{name} {condition}" for name, condition in where]


def _declaration_as_text(schema: Schema, name: str) -> str:
    column, words = schema.columns.get(name), str(schema.words.get(name, ""))
    if column is None and schema.unit is not None and name == schema.unit.column:
        return (f"{words}; " if words else "") + "identifies people, and cannot be used in questions"
    if column is None:
        return (f"{words}; " if words else "") + "not declared, so no method can use it"
    known = [f"{column.formula.node}"] if isinstance(column, ComputedColumn) else []
    known += [f"from {column.low:g} to {column.high:g}"] if column.bounds else []
    known += ["these bounds were found"] if column.beyond is not None else []
    known += ["each question finds bounds"] if column.find else []
    known += [f"one of {list(column.categories)!r}"] if column.categories else []
    if column.filled:
        known.append(f"missing counts as {OTHER if column.other else f'{column.fill:g}'}")
    known = [words, *known] if words else known
    return ("; ".join(known) or "as it is") + (" (public)" if column.public else "")
