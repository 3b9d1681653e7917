"""The tables of a ledger. Numbers are exact text (``p/q``), times are ISO 8601 text in UTC."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # SQLAlchemy takes a fifth of a second to import: it waits for the first ledger
    from sqlalchemy import Column, MetaData, Table

__all__ = ["NAME_LENGTH", "SCHEMA_VERSION", "Tables", "tables"]

SCHEMA_VERSION = 4  # 1 had no measurements, 2 nothing about analysts, and 3 no records
NAME_LENGTH = 200


class Tables(NamedTuple):
    metadata: MetaData
    ledger: Table
    accounts: Table
    charges: Table
    answers: Table
    measurements: Table
    askers: Table
    shares: Table
    records: Table


@functools.cache
def tables() -> Tables:
    """Return the tables. Numbers are exact text (``p/q``), times are ISO 8601 text in UTC."""
    from sqlalchemy import Column, ForeignKey, Index, Integer, LargeBinary, MetaData, String, Table, Text

    def text(*names: str) -> list[Column[str]]:
        return [Column(name, Text, nullable=False) for name in names]

    def event() -> list[Column[Any]]:
        account = Column("account", String(NAME_LENGTH), ForeignKey("accounts.name"), nullable=False)
        return [Column("id", Integer, primary_key=True), account, *text("call", "at", "mechanism")]

    metadata = MetaData()
    name = Column("name", String(NAME_LENGTH), primary_key=True)
    terms = text("epsilon", "delta", "accounting", "neighbors", "public", "accountant", "opened")
    question = [Column("question", Text), Column("question_sha256", String(64))]
    description = [Column("description_sha256", String(64), nullable=False), *text("description", "noise", "scale")]
    numbers = [Column(name, Integer, nullable=False) for name in ("grid", "private")]
    steps = Column("steps", LargeBinary, nullable=False)
    number = Column("id", Integer, primary_key=True)
    whose = Column("account", String(NAME_LENGTH), ForeignKey("accounts.name"), nullable=False)
    by_account, charged, of_account, answered, by_question, by_description, by_call, by_analyst = (
        Index("charges_of", "account"),
        Index("charges_for", "account", "call"),
        Index("answers_of", "account"),
        Index("answers_for", "account", "call"),
        Index("answers_to", "account", "question_sha256"),
        Index("measurements_of", "account", "description_sha256"),
        Index("askers_of", "account", "call"),
        Index("shares_of", "account", "analyst", unique=True),
    )
    return Tables(
        metadata,
        Table("ledger", metadata, Column("schema_version", Integer, nullable=False)),
        Table("accounts", metadata, name, *terms, *text("spent")),
        Table("charges", metadata, *event(), *text("loss", "epsilon", "delta"), by_account, charged),
        Table("answers", metadata, *event(), *question, *text("release"), by_question, of_account, answered),
        Table("measurements", metadata, *event(), *description, *numbers, steps, by_description),
        Table("askers", metadata, *event(), *text("analyst"), Column("request", Text), by_call),
        Table("shares", metadata, number, whose, *text("analyst", "opened", "accountant", "spent"), by_analyst),
        Table(
            "records", metadata, Column("id", Integer, primary_key=True), *text("at", "event", "subject", "value")
        ),
    )
