"""Messages between two parties: their base class, files, and the matching of rows by keys."""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, Self, TypeAlias

import numpy as np
import scipy

from dfprivacy import ArgumentError, Column, Exact, Probability, Range, Release, arguments
from dfprivacy.wording import with_error
from dfprivacy_dcor.inference import SEEN, bounded_share
from dfprivacy_dcor.points import index_blocks
from dfprivacy_dcor.spaces import PAIRWISE_MAX, ROWS_MIN

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from dfprivacy import Curator
    from dfprivacy_dcor.points import Rows

__all__ = [
    "Estimate",
    "Keys",
    "Message",
    "check_rows",
    "checked_message",
    "distance_variance",
    "feature_covariances",
    "fingerprint",
    "keys_of",
    "load_message",
]

Keys: TypeAlias = Column | Sequence[str | int]
"""A public column, or the values themselves."""

_FORMAT = "dfprivacy distance message"
_VERSION = 1
_TYPES = ("dfprivacy_dcor.angles:DistanceMessage", "dfprivacy_dcor.paper:ProjectionMessage")


ALONE = (
    "not private: computed without noise from your own rows, so do not publish it; the other party's rows "
    "stay protected, as only their message was read"
)

_BATCH = 32  # permutations


class MessageBlock(Protocol):
    """Interface of a block of rows of a message, seen as points of a metric space."""

    @property
    def rows(self) -> NDArray[np.intp]:
        """Indices of the rows of the block."""

    @property
    def squares(self) -> NDArray[np.float64]:
        """Squared distance of each row's point from the mean point of the block."""

    def subset(self, mask: NDArray[np.bool_]) -> MessageBlock:
        """Return the block restricted to the rows that a mask of all rows selects."""

    def covariance(self, y: Rows) -> float:
        """Compute the squared distance covariance of the block with the points y of the same rows."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Estimate(Exact):
    """Distance correlation of own rows with another party's message, without noise: not private for own rows.

    It is no release. The other party's rows stay protected, as all of it follows from their message.

    Attributes
    ----------
    squared : float
        Squared distance correlation R², from 0 to 1; low on average by what the message's harmonics leave out.
    covariance : float
        Squared distance covariance without bias, perhaps below 0; the other party's columns scaled to a width of 1.
    pvalue : float
        Exact p-value of independence, by permutation.
    alpha : float
        Level of the test.
    rejected : bool
        Whether independence is rejected: whether the p-value is at most `alpha`.
    notes : tuple of str
        What to know before showing and trusting it.
    """

    squared: float
    covariance: float
    pvalue: float
    alpha: float
    rejected: bool
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        """Return the estimates as text, after a warning that only the owner may see them."""
        numbers = [f"{name}  {getattr(self, name):.6g}" for name in ("squared", "covariance", "pvalue")]
        decision = f"rejected  {self.rejected} at {self.alpha:g}"
        return "\n  ".join([f"{type(self).__name__}, {self.notes[0]}", *numbers, decision, *self.notes[1:]])


def read_numbers(y: Any) -> NDArray[np.float64]:
    """Return the table owner's numbers y as an array, after checking that none is missing."""
    try:
        numbers = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.zeros(())
    if numbers.ndim == 2 and numbers.shape[1] == 1:  # noqa: PLR2004
        numbers = numbers[:, 0]
    if numbers.ndim not in (1, 2) or not numbers.size:
        raise ArgumentError("y must be an array of numbers, one row or number for each row of the message.")
    if not np.isfinite(numbers).all():
        raise ArgumentError("y has missing or infinite numbers.", "Fill in missing values first.")
    if numbers.ndim == 2 and len(numbers) > PAIRWISE_MAX:  # noqa: PLR2004
        raise ArgumentError(
            f"y has {len(numbers)} rows, too many to compute all pairs of distances.",
            f"Use at most {PAIRWISE_MAX} rows.",
        )
    return numbers


def _distance_sums(y: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Compute the sum of the distances from each row to all others, and the sum of all squared distances."""
    m = len(y)
    if y.ndim == 1:
        sums = (2 * np.arange(m) - m) * y + y.sum() - 2 * (np.cumsum(y) - y)
        return sums, 2 * m * float(np.square(y - y.mean()).sum())
    rows = [scipy.spatial.distance.cdist(y[block], y) for block in index_blocks(m)]
    return np.concatenate([part.sum(axis=1) for part in rows]), float(sum((part * part).sum() for part in rows))


def _quadratic_form(f: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
    """Compute the sum of f_i f_j |y_i - y_j| over pairs of rows, for each of k features f of shape (m, 2, k)."""
    if y.ndim == 1:
        upto = np.cumsum(f, axis=0)
        return 2 * (np.diff(y) @ (upto[:-1] * (upto[-1] - upto[:-1])).sum(axis=1))
    flat = f.reshape(len(f), -1)
    parts = [flat[block] * (scipy.spatial.distance.cdist(y[block], y) @ flat) for block in index_blocks(len(f))]
    return sum(part.sum(axis=0) for part in parts).reshape(f.shape[1:]).sum(axis=0)


def _unbiased_covariance(m: int, first: Any, second: Any, third: Any) -> Any:
    """Combine sums of products of distances into the unbiased squared distance covariance of m rows."""
    return first / (m * (m - 3)) - 2 * second / (m * (m - 2) * (m - 3)) + third / (m * (m - 1) * (m - 2) * (m - 3))


def distance_variance(y: NDArray[np.float64]) -> float:
    """Compute the unbiased squared distance variance of the numbers y."""
    sums, squares = _distance_sums(np.sort(y) if y.ndim == 1 else y)
    return float(_unbiased_covariance(len(y), squares, sums @ sums, sums.sum() ** 2))


def feature_covariances(
    f: NDArray[np.float64], y: NDArray[np.float64], permutations: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Compute squared distance covariances of pseudo-distances -f_i·f_j with y and with permutations of y."""
    m = len(f)
    if y.ndim == 1:
        order = np.argsort(y, kind="stable")
        f, y = f[order], y[order]
    sums, _ = _distance_sums(y)
    rows = (f * f).sum(axis=1) - f @ f.sum(axis=0)
    third = float(rows.sum() * sums.sum())
    totals = []
    for start in range(0, permutations + 1, _BATCH):
        count = min(_BATCH, permutations + 1 - start)
        places = np.stack([rng.permutation(m) for _ in range(count)], axis=1)
        if start == 0:
            places[:, 0] = np.arange(m)
        first = -_quadratic_form(np.moveaxis(f[places], 2, 1), y)
        totals.append(_unbiased_covariance(m, first, sums @ rows[places], third))
    return np.concatenate(totals)


@dataclass(frozen=True, kw_only=True, repr=False)
class Message(Release, ABC):
    """Base class of messages: noisy features of each row, and a noisy distance standard deviation.

    It may be kept, sent and used as often as one likes: all that is post-processing of what was paid for.

    Attributes
    ----------
    columns : tuple of str
        The columns that it is about.
    rows : int
        Number of rows n.
    turns : ndarray of int64 of shape (n,)
        The block of each row; drawn without looking at the data.
    directions : ndarray of shape (blocks, p)
        Directions in which the columns, each scaled to a width of 1, are projected.
    deviation, deviation_scale : float
        Noisy distance standard deviation s_x times the share of complete rows, and the scale of its Laplace noise.
    complete, complete_scale : float or None
        Noisy share of complete rows, and the scale of its Laplace noise; None where all rows count.
    keys : tuple or None
        The key of each row, if the caller gave keys.
    """

    columns: tuple[str, ...]
    rows: int
    turns: NDArray[np.int64]
    directions: NDArray[np.float64]
    deviation: float
    deviation_scale: float
    keys: tuple[str | int, ...] | None
    complete: float | None = None
    complete_scale: float | None = None

    _shown = ("columns", "rows", "complete", "deviation", "deviation_scale")
    _row_fields: ClassVar[tuple[str, ...]] = ("turns",)
    protocol: ClassVar[str]
    notes: ClassVar[tuple[str, ...]] = ()

    def _sentence(self) -> str:
        """Return a sentence on which columns the message holds and what the message is for."""
        about = f"{self.rows:,} rows of {self._label(*self.columns)}"
        return f"A message to another party about {about}, the input of that party's dcor_with()."

    def _rows(self) -> list[tuple[str, str]]:
        """Return the facts, with the noisy numbers in words."""
        rows = dict(super()._rows())
        deviation = with_error(self.deviation, math.sqrt(2) * self.deviation_scale)
        rows["deviation"] = f"{deviation}: noisy distance standard deviation, of columns scaled to a width of 1"
        rows["deviation_scale"] = f"{self.deviation_scale:.2g}: scale of its Laplace noise"
        if self.complete is not None and self.complete_scale is not None:
            complete = with_error(self.complete, math.sqrt(2) * self.complete_scale)
            rows["complete"] = f"{complete}: noisy share of rows without missing values"
        return list(rows.items())

    @property
    def spread(self) -> float:
        """Noisy distance standard deviation (times the share of complete rows), at least twice its noise scale."""
        return max(self.deviation, 2 * self.deviation_scale)

    @property
    def informative(self) -> bool:
        """Whether the noisy distance standard deviation is at least four times its noise scale."""
        return self.deviation >= SEEN * self.deviation_scale

    @property
    def share(self) -> float:
        """Noisy share of complete rows, raised to at least twice its noise scale and at least 4/n."""
        if self.complete is None or self.complete_scale is None:
            return 1.0
        return bounded_share(self.complete, self.complete_scale, self.rows)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Notes on the noise of the message and on incomplete rows."""
        remarks = list(self.notes)
        if self.complete is not None and 1 - self.complete > SEEN * (self.complete_scale or 0.0):
            remarks.append(
                f"about {1 - self.complete:.1%} of the message's rows have missing values, and carry no information"
            )
        return tuple(remarks)

    @abstractmethod
    def parts(self) -> Sequence[MessageBlock]:
        """Return the blocks of rows; their squared distance covariances with y add up to the message's."""

    @abstractmethod
    def covariances(
        self, y: NDArray[np.float64], permutations: int, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Compute unbiased squared distance covariances of the rows with numbers y and with permutations of y."""

    @abstractmethod
    def is_consistent(self) -> bool:
        """Return whether the fields of the message's protocol have valid types, shapes and ranges."""

    def align(self, keys: Any, rows: int) -> Self:
        """Return the message with its rows in the order of another table's keys.

        Parameters
        ----------
        keys : sequence or None
            The keys of the other table's rows; None if rows correspond by position.
        rows : int
            Number of the other table's rows.

        Returns
        -------
        Message
            Row by row.

        Raises
        ------
        ArgumentError
            If rows do not correspond one to one: how many do not, for keys are public, and not which.
        """
        check_rows(self.rows, rows, self.keys, keys)
        if keys is None or self.keys is None:
            return self
        place = {key: at for at, key in enumerate(self.keys)}
        order = [place.get(key) for key in checked_keys(keys, rows)]
        if None in order:
            lacking = order.count(None)
            raise ArgumentError(
                f"{lacking} of the {rows} keys of this table are not among the keys of the message.",
                "Protect only the rows whose keys are in both tables, and ask the other party for a new message.",
            )
        return self.subset(np.array(order, dtype=np.intp))

    def subset(self, rows: NDArray[np.intp]) -> Self:
        """Return the message for the given rows only, in the given order."""
        changed = {name: getattr(self, name)[rows] for name in self._row_fields}
        keys = None if self.keys is None else tuple(self.keys[row] for row in rows)
        return type(self)(**{
            **self.result, **changed, "keys": keys, "rows": len(rows), "privacy": self.privacy
        })  # fmt: skip

    def estimate(
        self,
        y: Any,
        *,
        keys: Any = None,
        permutations: int = 999,
        seed: int | None = None,
        alpha: float = 0.05,
    ) -> Estimate:
        """Estimate the distance correlation of own numbers y with the message, without noise that protects y.

        Parameters
        ----------
        y : array of shape (n,) or (n, q)
            The other party's own numbers, complete. The result depends on them without any noise: who computes it
            keeps it, and asks `dcor_with` for one that may be shown.
        keys : sequence, optional
            The key of each row, if the message has keys.
        permutations : int
            How many, for the p-value.
        seed : int, optional
            Of the permutations.
        alpha : float
            Level of the test.

        Returns
        -------
        Estimate
            Squared distance correlation, and an exact p-value.

        Raises
        ------
        ArgumentError
            If the rows do not fit, or a number is missing.
        """
        numbers = read_numbers(y)
        constant = bool((numbers == numbers[0]).all())  # then sums differ from 0 by rounding alone
        permutations = arguments.checked(permutations, Annotated[int, Range(1)], "permutations")
        alpha = arguments.checked(alpha, Probability, "alpha")
        message = self.align(keys, len(numbers))
        totals = message.covariances(numbers, permutations, np.random.default_rng(seed))
        varies = 0.0 if constant else math.sqrt(max(distance_variance(numbers), 0.0))
        deviation = message.share * message.spread * varies
        notes = [ALONE, *message.remarks]
        if not message.informative:
            notes.append("uninformative: the noise hides the variation of the other party's columns")
        if deviation <= 0:
            notes.append("uninformative: the numbers y are constant")
        pvalue = 1.0 if constant else float(np.mean(totals >= totals[0]))
        return Estimate(
            squared=min(max(float(totals[0]) / deviation, 0.0), 1.0) if deviation > 0 else 0.0,
            covariance=0.0 if constant else float(totals[0]) / message.share**2,
            pvalue=pvalue,
            alpha=alpha,
            rejected=pvalue <= alpha,
            notes=tuple(notes),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the message to a JSON file, from which `load_message` reads it.

        Parameters
        ----------
        path : str or path
            The file.
        """
        content = json.dumps(self.to_dict(), allow_nan=False)
        digest = hashlib.sha256(content.encode()).hexdigest()
        envelope = {"format": _FORMAT, "version": _VERSION, "sha256": digest, "content": content}
        Path(path).write_text(json.dumps(envelope), encoding="utf-8")


def load_message(path: str | os.PathLike[str]) -> Message:
    """Load a message from a JSON file that another party saved.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    DistanceMessage or ProjectionMessage
        The message.

    Raises
    ------
    ArgumentError
        If the file is no such message, of another version, cut short, or changed since it was saved. The checksum
        finds accidents; it does not prove who wrote the file.
    """
    again = "Ask the other party for the file again."
    try:
        envelope = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ArgumentError(
            "The message cannot be read: the file does not exist, or it is incomplete.", again
        ) from None
    if not isinstance(envelope, dict) or envelope.get("format") != _FORMAT:
        raise ArgumentError("This file does not contain a message of dcor_message().", again)
    if envelope.get("version") != _VERSION:
        raise ArgumentError(
            f"The message is of version {envelope.get('version')!r}; this program reads version {_VERSION}.",
            "Let both parties install the same version of dfprivacy.",
        )
    content = envelope.get("content")
    if not isinstance(content, str) or hashlib.sha256(content.encode()).hexdigest() != envelope.get("sha256"):
        raise ArgumentError("The message was changed after it was saved.", again)
    plain = json.loads(content)
    if not isinstance(plain, dict) or plain.get("type") not in _TYPES:  # no other class is looked up for a stranger
        raise ArgumentError("This file does not contain a message of dcor_message().", again)
    return checked_message(Release.from_dict(plain))


def checked_message(message: object) -> Message:
    """Return a message; raise an error if it is not one, or if a field has an invalid type, shape or value."""
    if not isinstance(message, Message):
        raise ArgumentError(
            f"other= must be a message or a view, not a {type(message).__name__}.",
            "Use the message from dcor_message() or load_message(), or another view.",
        )
    try:
        n, p = message.rows, len(message.columns)
        by_row = [getattr(message, name) for name in message._row_fields]  # noqa: SLF001 - of this module
        fits = (
            n >= ROWS_MIN
            and all(len(part) == n for part in by_row)
            and message.turns.dtype == np.int64
            and message.turns.shape == (n,)
            and message.directions.ndim == 2  # noqa: PLR2004
            and message.directions.shape[1] == p > 0
            and bool(np.isfinite(message.directions).all() and np.abs(message.directions).sum(axis=1).min() > 0)
            and 0 <= message.turns.min() <= message.turns.max() < len(message.directions)
            and math.isfinite(message.deviation)
            and 0 < message.deviation_scale < math.inf
            and 0 < message.share <= 1
            and (message.keys is None or len(set(message.keys)) == n == len(message.keys))
            and message.is_consistent()
        )
    except (AttributeError, TypeError, ValueError, ArithmeticError):
        fits = False
    if not fits:
        raise ArgumentError(
            "A field of this message has an invalid type, shape or value.",
            "Ask the other party for the message again.",
        )
    return message


def check_rows(theirs: int, ours: int, their_keys: object, our_keys: object) -> None:
    """Check that a message and a table have equal numbers of rows, and that both or neither have keys."""
    if theirs != ours:
        raise ArgumentError(
            f"The other party's message is about {theirs} rows, and this table has {ours}.",
            "Use a message and a table with the same rows, in the same order or with keys.",
        )
    if (their_keys is None) != (our_keys is None):
        raise ArgumentError(
            "Only one of the message and the table has keys.",
            "Give keys= to both calls (for a view as other=: asked={'keys': ...}), or to neither.",
        )


def checked_keys(keys: Any, rows: int) -> tuple[str | int, ...]:
    """Return the keys of a table's rows; raise an error unless they are different strings or integers."""
    plain = isinstance(keys, list | tuple) and all(type(key) in (str, int) for key in keys)
    if not plain or len(keys) != rows or len(set(keys)) != rows:
        raise ArgumentError(
            f"keys= must be {rows} strings or integers, one for each row and all different.",
            "Name a public column with unique values, or list the keys. Both parties know the keys.",
        )
    return tuple(keys)


def fingerprint(keys: Sequence[str | int]) -> str:
    """Return a hash of the keys that does not depend on their order."""
    return hashlib.sha256("\n".join(sorted(map(repr, keys))).encode()).hexdigest()


def keys_of(curator: Curator, keys: Keys | None, rows: int) -> tuple[str | int, ...] | None:
    """Return the keys of a table's rows, read from a public column or given as values."""
    if keys is None:
        return None
    return checked_keys(curator.public_values(keys) if isinstance(keys, Column) else keys, rows)
