"""The statements of every question, built once in a process: to build one takes longer than to run it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal

from dfprivacy._ledger.tables import tables

if TYPE_CHECKING:  # SQLAlchemy takes a fifth of a second to import: it waits for the first ledger
    from sqlalchemy import Dialect, Insert, Select, Table, Update

__all__ = [
    "account",
    "add",
    "add_asker",
    "answers",
    "measurements",
    "newest_answers",
    "newest_charges",
    "of",
    "schema",
    "set_spent",
    "steps",
]


@functools.lru_cache(maxsize=8)
def schema(dialect: Dialect) -> list[str]:
    """Write what makes all tables and their indices in a new ledger."""
    from sqlalchemy.schema import CreateIndex, CreateTable

    every = tables().metadata.sorted_tables
    made = [str(CreateTable(table).compile(dialect=dialect)) for table in every]
    found = [str(CreateIndex(index).compile(dialect=dialect)) for table in every for index in table.indexes]
    return [*made, *found]


@functools.cache
def account(*, lock: bool = False) -> Select[Any]:
    """Select the account of a name; with `lock`, a server lets nobody else write it meanwhile."""
    from sqlalchemy import bindparam

    table = tables().accounts
    query = table.select().where(table.c.name == bindparam("name"))
    return query.with_for_update() if lock else query


@functools.cache
def set_spent(kind: Literal["accounts", "shares"]) -> Update:
    """Write what is spent of an account of this name, or of a share of this number."""
    from sqlalchemy import bindparam

    table: Table = getattr(tables(), kind)
    (key,) = table.primary_key
    return table.update().where(key == bindparam("whose")).values(spent=bindparam("spent"))


@functools.cache
def add(kind: Literal["charges", "answers", "measurements", "shares", "records"]) -> Insert:
    """Add rows."""
    table: Table = getattr(tables(), kind)
    return table.insert()


@functools.cache
def of(kind: Literal["charges", "askers", "shares"]) -> Select[Any]:
    """Select what belongs to an account, oldest first."""
    from sqlalchemy import bindparam

    table: Table = getattr(tables(), kind)
    return table.select().where(table.c.account == bindparam("account")).order_by(table.c.id)


@functools.cache
def add_asker() -> Insert:
    """Add who makes a call to an account, unless it is there."""
    from sqlalchemy import bindparam, exists, select

    table = tables().askers
    values = {
        column.name: bindparam(column.name, type_=column.type) for column in table.c if not column.primary_key
    }
    there = exists().where(table.c.account == values["account"], table.c.call == values["call"])
    return table.insert().from_select([*values], select(*values.values()).where(~there))


@functools.cache
def newest_charges(most: int | None) -> Select[Any]:
    """Select the losses of the newest charges of an account."""
    from sqlalchemy import bindparam

    table = tables().charges
    query = table.select().where(table.c.account == bindparam("account"))
    return query.with_only_columns(table.c.loss, table.c.call).order_by(table.c.id.desc()).limit(most)


@functools.cache
def measurements() -> Select[Any]:
    """Select the measurements of one description, oldest first."""
    from sqlalchemy import bindparam

    table = tables().measurements
    columns = ("description_sha256", "noise", "id", "at", "scale", "grid", "call")
    query = table.select().with_only_columns(*(table.c[name] for name in columns)).order_by(table.c.id)
    query = query.where(table.c.account == bindparam("account"), table.c.private == bindparam("private"))
    return query.where(table.c.description_sha256 == bindparam("key"))


@functools.cache
def steps() -> Select[Any]:
    """Select the values of a measurement."""
    from sqlalchemy import bindparam

    table = tables().measurements
    query = table.select().with_only_columns(table.c.steps)
    return query.where(table.c.account == bindparam("account"), table.c.id == bindparam("number"))


@functools.cache
def answers(*, one: bool) -> Select[Any]:
    """Select all answers of an account, or those to one question, oldest first."""
    from sqlalchemy import bindparam

    table = tables().answers
    columns = (table.c.id, table.c.call, table.c.at, table.c.mechanism, table.c.question, table.c.release)
    query = table.select().with_only_columns(*columns).order_by(table.c.id)
    query = query.where(table.c.account == bindparam("account"))
    same = table.c.question_sha256 == bindparam("key"), table.c.question == bindparam("question")
    return query.where(*same) if one else query


@functools.cache
def newest_answers(mechanisms: tuple[str, ...], most: int) -> Select[Any]:
    """Select the newest answers of an account by some mechanisms, newest first."""
    from sqlalchemy import or_

    query, of = answers(one=False).order_by(None), tables().answers.c
    return query.where(or_(*(of.mechanism == each for each in mechanisms))).order_by(of.id.desc()).limit(most)
