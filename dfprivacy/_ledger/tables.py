"""Database tables of a ledger, and functions that read their values and detect damage.

Numbers are exact text (``p/q``), times are ISO 8601 text in UTC. Every reader raises an ordinary error
(`ValueError`, `TypeError`, `KeyError` and their like) for what dfprivacy never writes;
`Ledger.reporting_damage` says so to people.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from dfprivacy._ledger.names import LENGTH
from dfprivacy._privacy.filters import Accountant, Spent
from dfprivacy.laws import NoiseLaw

if TYPE_CHECKING:  # SQLAlchemy takes a fifth of a second to import: it waits for the first ledger
    from numpy.typing import NDArray
    from sqlalchemy import Column, Dialect, MetaData, Row, Table

__all__ = [
    "KEY_BYTES",
    "MOST",
    "SCHEMA_VERSION",
    "DataTable",
    "KeptMeasurement",
    "Measurement",
    "Tables",
    "current_time",
    "measurement_row",
    "read_accountant",
    "read_fraction",
    "read_noisy_values",
    "read_relation",
    "read_spent",
    "read_text",
    "read_time",
    "sha256_of_text",
    "table_definitions",
    "tables",
    "write_relation",
    "write_time",
]

SCHEMA_VERSION = 5  # 1 had no measurements, 2 nothing about analysts, 3 no records, and 4 one table an account
KEY_BYTES = 32
_RELATIONS = ("replace_one", "add_remove")
_FRACTION = re.compile(r"[0-9]{1,4000}(/[0-9]{1,4000})?", re.ASCII)
_SUMS = {"basic": 2, "gdp": 1, "rdp": 1, "mix": 2}

MOST = 2**20
"""Largest number of noisy values in a measurement that the ledger keeps: 8 MB in one row."""

_STEP = np.dtype("<i8")


class Tables(NamedTuple):
    metadata: MetaData
    ledger: Table
    accounts: Table
    data_tables: Table
    charges: Table
    answers: Table
    measurements: Table
    askers: Table
    shares: Table
    records: Table


@functools.cache
def tables() -> Tables:
    """Return the definitions of a ledger's database tables."""
    from sqlalchemy import Column, ForeignKey, Index, Integer, LargeBinary, MetaData, String, Table, Text

    def texts(*names: str) -> list[Column[str]]:
        return [Column(name, Text, nullable=False) for name in names]

    def account_column() -> list[Column[Any]]:
        account = Column("account", String(LENGTH), ForeignKey("accounts.name"), nullable=False)
        return [Column("id", Integer, primary_key=True), account]

    def event_columns() -> list[Column[Any]]:
        return [*account_column(), *texts("call", "at", "mechanism")]

    metadata = MetaData()
    name = Column("name", String(LENGTH), primary_key=True)
    terms = texts("epsilon", "delta", "accounting", "neighbors", "public", "accountant", "opened")
    question = [Column("question", Text), Column("question_sha256", String(64))]
    description = [
        Column("description_sha256", String(64), nullable=False),
        *texts("description", "noise", "scale"),
    ]
    numbers = [Column(name, Integer, nullable=False) for name in ("grid", "private")]
    steps = Column("steps", LargeBinary, nullable=False)
    by_name, by_account, charged, of_all, answered, by_question, by_description, by_call, by_analyst = (
        Index("data_tables_by_name", "name", "edition", unique=True),
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
        Table("accounts", metadata, name, *terms, *texts("spent")),
        Table(
            "data_tables",
            metadata,
            *account_column(),
            Column("name", String(LENGTH), nullable=False),
            Column("edition", String(LENGTH), nullable=False),
            *texts("terms", "opened"),
            by_name,
        ),
        Table("charges", metadata, *event_columns(), *texts("loss", "epsilon", "delta"), by_account, charged),
        Table("answers", metadata, *event_columns(), *question, *texts("release"), by_question, of_all, answered),
        Table("measurements", metadata, *event_columns(), *description, *numbers, steps, by_description),
        Table("askers", metadata, *event_columns(), *texts("analyst"), Column("request", Text), by_call),
        Table(
            "shares", metadata, *account_column(), *texts("analyst", "opened", "accountant", "spent"), by_analyst
        ),
        Table(
            "records", metadata, Column("id", Integer, primary_key=True), *texts("at", "event", "subject", "value")
        ),
    )


def table_definitions(dialect: Dialect) -> list[str]:
    """Return the SQL statements that create all tables and indices of a ledger."""
    from sqlalchemy.schema import CreateIndex, CreateTable

    every = tables().metadata.sorted_tables
    made = [CreateTable(table) for table in every], [CreateIndex(each) for table in every for each in table.indexes]
    return [str(each.compile(dialect=dialect)) for kind in made for each in kind]


def current_time() -> str:
    """Return the current time in UTC as ISO 8601 text, as the ledger stores it."""
    return write_time(datetime.now(UTC))


def write_time(moment: datetime) -> str:
    """Convert a time to ISO 8601 text in UTC, which sorts in the order of times."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def read_time(value: object) -> datetime:
    """Parse a time from ISO 8601 text with a time zone, or raise a `ValueError`."""
    moment = datetime.fromisoformat(read_text(value))
    if moment.tzinfo is None:
        raise ValueError
    return moment


def read_text(value: object, *choices: str) -> str:
    """Return a value if it is text, and one of `choices` if they are given, or raise a `ValueError`."""
    if not isinstance(value, str) or (choices and value not in choices):
        raise ValueError
    return value


def read_fraction(value: object) -> Fraction:
    """Parse a nonnegative number from text of the form ``p/q``, or raise a `ValueError`."""
    if not _FRACTION.fullmatch(read_text(value)):
        raise ValueError
    return Fraction(str(value))


def write_relation(neighbors: str, key: str) -> str:
    """Encode a neighbouring relation, and the key that chooses people's rows, as JSON text (schema 5)."""
    return json.dumps({"neighbors": neighbors, "key": key})


def read_relation(value: object) -> tuple[str, str]:
    """Parse a neighbouring relation and the key that chooses people's rows, also from a ledger of schema 4."""
    written = read_text(value)
    if written in _RELATIONS:  # of an account without a key
        return written, ""
    plain = json.loads(written)
    if plain.keys() == {"neighbors", "unit", "max_rows", "unit_missing", "key"}:
        _read_unit(plain)
    elif plain.keys() != {"neighbors", "key"}:
        raise ValueError
    if len(bytes.fromhex(read_text(plain["key"]))) < KEY_BYTES:
        raise ValueError
    return read_text(plain["neighbors"], *_RELATIONS), plain["key"]


def _read_unit(plain: dict[str, Any]) -> tuple[str, int, str]:
    """Parse the privacy unit: the people's column, rows per person, and the treatment of rows without a person."""
    whose = read_text(plain["unit"]), plain["max_rows"], read_text(plain["unit_missing"], "omit", "own")
    if type(whose[1]) is not int or whose[1] < 1:
        raise ValueError
    return whose


@dataclass(frozen=True)
class DataTable:
    """Protected table of an account, in one edition of its data.

    Attributes
    ----------
    account, name, edition : str
        The account that pays for it, its name, and its edition, which is empty if it has no editions.
    whose : tuple of (str, int, str) or None
        The privacy unit, if a person may have several rows: the column that identifies people, the largest number
        of rows of a person, and the treatment of rows without a person ("omit" or "own").
    public : tuple of str
        Its public columns.
    size : int or None
        The number of its rows, or of its people; None if it is private.
    """

    account: str
    name: str
    edition: str
    whose: tuple[str, int, str] | None
    public: tuple[str, ...]
    size: int | None

    @classmethod
    def read(cls, row: Row[Any]) -> Self:
        """Construct a table from a row of the ledger; raise an error, such as `ValueError`, if it is damaged."""
        plain = json.loads(row.terms)
        public, size = plain["public"], plain["size"]
        if not isinstance(public, list) or (size is not None and (type(size) is not int or size < 1)):
            raise ValueError
        whose = _read_unit(plain) if "unit" in plain else None
        names = read_text(row.account), read_text(row.name), read_text(row.edition)
        return cls(*names, whose, tuple(map(read_text, public)), size)

    @classmethod
    def read_from_account(cls, row: Row[Any]) -> list[Self]:
        """Return the one table of an account opened by schema 4 or older, or an empty list for newer accounts."""
        plain = {} if row.neighbors in _RELATIONS else json.loads(read_text(row.neighbors))
        if plain and "unit" not in plain:
            return []
        public = tuple(map(read_text, json.loads(row.public)))
        return [cls(row.name, row.name, "", _read_unit(plain) if plain else None, public, None)]

    def to_row(self) -> dict[str, Any]:
        """Return the values of the table's row in the ledger, by column."""
        whose = (
            {} if self.whose is None else dict(zip(("unit", "max_rows", "unit_missing"), self.whose, strict=True))
        )
        terms = json.dumps({**whose, "public": self.public, "size": self.size})
        names = {"account": self.account, "name": self.name, "edition": self.edition}
        return {**names, "terms": terms, "opened": current_time()}

    @property
    def identity(self) -> str | None:
        """Name and edition of the table as JSON; None for an account's own table without editions."""
        own = self.name == self.account and not self.edition
        return None if own else json.dumps([self.name, self.edition])

    def __str__(self) -> str:
        edition = f", edition {self.edition!r}" if self.edition else ""
        if self.whose is None:
            return f"{self.name!r}{edition}: one row for each person"
        column, max_rows, missing = self.whose
        return f"{self.name!r}{edition}: up to {max_rows} rows of one {column!r}, unit_missing={missing!r}"

    @property
    def terms_by_argument(self) -> dict[str, object]:
        """Terms under which the table is protected, as keyword arguments of `protect`."""
        column, max_rows, missing = self.whose or (None, None, "omit")
        return {"unit": column, "max_rows": max_rows, "unit_missing": missing, "public": list(self.public)}


def read_accountant(value: str) -> Accountant:
    """Parse the privacy filters of an account from JSON text, or raise a `ValueError`."""
    plain = json.loads(value)
    accountant = Accountant.from_dict(plain)
    sums = {member.name: len(member.caps) for member in accountant.members}
    complete = sums and sums.items() <= _SUMS.items() and len(sums) == len(accountant.members)
    if not complete or accountant.to_dict() != plain or min(min(member.caps) for member in accountant.members) < 0:
        raise ValueError
    return accountant


def read_spent(value: str, accountant: Accountant) -> Spent:
    """Parse a spent total, one sum for each cap of an account's filters, or raise a `ValueError`."""
    plain = json.loads(value)
    spent = Spent.from_list(plain)
    same = spent.to_list() == plain and len(spent.counts) == len(accountant.no_charges.counts)
    if not same or any(count is not None and count < 0 for count in spent.counts):
        raise ValueError
    return spent


@dataclass(frozen=True)
class Measurement:
    """Measurement to store in the ledger: noisy sums or values, as multiples of a grid step.

    Attributes
    ----------
    description : str
        All public facts that determine the exact values, as canonical JSON.
    noise : {"laplace", "gaussian", "cube"}
        The kind of noise.
    scale : float
        Its scale in steps of the grid.
    grid : int
        A step is 2 to the minus this.
    private : bool
        False if a test-only sampler made the noise.
    steps : ndarray of int64 of shape (d,)
        The noisy values, in steps, in the order of the description.
    """

    description: str
    noise: str
    scale: float
    grid: int
    private: bool
    steps: NDArray[np.int64]


@dataclass(frozen=True)
class KeptMeasurement:
    """Measurement that the ledger keeps, without its values.

    Attributes
    ----------
    id : int
        Its number.
    at : str
        When it was kept, ISO 8601 in UTC.
    noise : {"laplace", "gaussian", "cube"}
        The kind of noise.
    steps_scale : float
        Scale of its noise in steps of its grid.
    grid : int
        A step is 2 to the minus this.
    call : str
        The call that measured it.
    """

    id: int
    at: str
    noise: str
    steps_scale: float
    grid: int
    call: str = ""

    @classmethod
    def read(cls, row: Row[Any]) -> Self:
        """Construct a measurement from a row of the ledger; raise an error, such as `ValueError`, if damaged."""
        scale = float.fromhex(row.scale)
        if not (math.isfinite(scale) and scale > 0 and scale.hex() == row.scale):
            raise ValueError
        at = read_time(row.at).isoformat()
        return cls(int(row.id), at, row.noise, scale, int(row.grid), read_text(row.call))

    @property
    def scale(self) -> float:
        """Scale of the noise, in the units of the values."""
        return math.ldexp(self.steps_scale, -self.grid)

    @property
    def noise_size(self) -> float:
        """Size of the noise, to compare kept measurements: standard deviation of Laplace noise, else the scale."""
        if self.noise != "laplace":
            return self.scale
        return NoiseLaw(self.scale, math.ldexp(1.0, -self.grid)).standard_deviation


def sha256_of_text(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def measurement_row(measurement: Measurement) -> dict[str, Any]:
    """Return the values of a measurement's row in the ledger, by column."""
    return {
        "description": measurement.description,
        "description_sha256": sha256_of_text(measurement.description),
        "noise": measurement.noise,
        "scale": float(measurement.scale).hex(),
        "grid": measurement.grid,
        "private": int(measurement.private),
        "steps": measurement.steps.astype(_STEP).tobytes(),
    }


def read_noisy_values(value: bytes) -> NDArray[np.int64]:
    """Convert bytes of the ledger to noisy values; raise a `ValueError` if they are damaged."""
    return np.frombuffer(value, dtype=_STEP).astype(np.int64)
