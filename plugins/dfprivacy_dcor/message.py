r"""One noisy angle a row: what one party sends so that another can measure nonlinear dependence.

On an interval of length L the distance is a Fourier series,
:math:`-|r| = c + \sum_{k\,\mathrm{odd}} \frac{4L}{(\pi k)^2} \cos(k \pi r / L)`, so the angle
:math:`k \pi x / L` of a row is all that the k-th part of a distance covariance needs of x. The row's message is
that angle, randomised in the local model. Its mean direction is the true one, shorter by a known factor, and the
noise of different rows is independent: whoever has the other variable estimates the k-th part of the squared
distance covariance without any bias. The first harmonic holds 81 % of the kernel, the first two 90 %; what is left
out is not negative, so an estimate errs on the side of independence.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ArgumentError, Release
from dfprivacy.local import Arc, RowLabels
from dfprivacy_dcor.estimate import estimated
from dfprivacy_dcor.spaces import sphere_constant

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy_dcor.estimate import Estimate

__all__ = ["PLACES", "Angles", "DistanceMessage", "Part", "best_reach", "checked", "load_message", "read_keys"]

PLACES = 1 << 16
_FORMAT = "dfprivacy distance message"
_VERSION = 1
_ROWS_MIN = 4


@dataclass(frozen=True)
class Part:
    """The rows of one block, and their features as public whole numbers.

    Attributes
    ----------
    rows : ndarray of int
        Which rows.
    centred : ndarray of int64 of shape (m, 2)
        Their features, minus the mean.
    unit : float
        What a squared norm of `centred` is multiplied by, so that squared distances of features are distances.
    """

    rows: NDArray[np.intp]
    centred: NDArray[np.int64]
    unit: float

    @property
    def reach(self) -> float:
        """Largest norm of a row's feature."""
        return math.sqrt(self.unit * float((self.centred.astype(np.float64) ** 2).sum(axis=1).max()))

    @property
    def mean(self) -> float:
        """Mean distance of two rows."""
        return 2 * self.unit * float((self.centred.astype(np.float64) ** 2).sum(axis=1).mean())


class Angles(RowLabels):
    r"""Angle of a row along a direction: place :math:`N k x / 2L` of N on the circle.

    Parameters
    ----------
    columns : tuple of Column
        Columns with bounds; each is scaled to a width of 1.
    direction : ndarray of shape (p,)
        What the row is projected on.
    harmonic : int
        k: how often the angle goes half around in a length L.
    length : float
        L, as a part of the width of the projection.
    """

    places = PLACES

    def __init__(
        self, columns: tuple[Column, ...], direction: NDArray[np.float64], harmonic: int, length: float
    ) -> None:
        self.columns = columns
        self.direction = direction
        self.turns = harmonic / (2 * length * float(np.abs(direction).sum()))

    def rows(self, batch: Any) -> NDArray[np.int64]:
        """Give the places of a batch of rows."""
        along = np.zeros(batch.size)
        for step, column in zip(self.direction, self.columns, strict=True):
            along += step * (batch.standardized(column) / 2 + 0.5)
        found: NDArray[np.int64] = np.rint(along * self.turns * PLACES).astype(np.int64) % PLACES
        return found

    def describe(self) -> str:
        """Name the map in words."""
        return f"the angle of {', '.join(column.name for column in self.columns)}"


def best_reach(epsilon: float, places: int = PLACES) -> int:
    """Find the arc whose messages are closest to the truth: it maximises `Arc.resultant`."""
    lengths = np.arange(1, places - 1, 2, dtype=np.float64)
    ratio = math.exp(min(epsilon, 40.0))
    resultant = (ratio - 1) * np.sin(np.pi * lengths / places) / (lengths * ratio + places - lengths)
    return int(resultant.argmax())


@dataclass(frozen=True, kw_only=True, repr=False)
class DistanceMessage(Release):
    """One noisy angle a row, and the noisy distance deviation of all: what `dcor_with` needs of the other party.

    It may be kept, sent and used as often as one likes: all that is post-processing of what was paid for.

    Attributes
    ----------
    columns : tuple of str
        The columns that it is about.
    rows : int
        Number of rows n.
    angles : ndarray of int64 of shape (n,)
        The noisy place of each row on a circle of ``places``.
    turns : ndarray of int64 of shape (n,)
        Which of the directions and harmonics the row's angle is of; drawn without looking at the data.
    directions : ndarray of shape (blocks, p)
        Directions in which the columns, each scaled to a width of 1, are projected.
    harmonics : tuple of int
        Harmonic of each block.
    length : float
        Length L of the kernel, as a part of the width of a projection.
    places, reach, inside, outside : int
        How the angles were randomised; see ``dfprivacy.local.Arc``.
    deviation, deviation_scale : float
        Noisy distance deviation s_x, and the scale of its Laplace noise.
    keys : tuple or None
        The key of each row, if the caller gave keys.
    """

    columns: tuple[str, ...]
    rows: int
    angles: NDArray[np.int64]
    turns: NDArray[np.int64]
    directions: NDArray[np.float64]
    harmonics: tuple[int, ...]
    length: float
    places: int
    reach: int
    inside: int
    outside: int
    deviation: float
    deviation_scale: float
    keys: tuple[str | int, ...] | None

    _shown = ("columns", "rows", "harmonics", "deviation", "deviation_scale")

    @property
    def arc(self) -> Arc:
        """How the angles were randomised."""
        return Arc(self.places, self.reach, self.inside, self.outside)

    @property
    def spread(self) -> float:
        """The distance deviation, at least two scales of its noise."""
        return max(self.deviation, 2 * self.deviation_scale)

    def blocks(self) -> list[tuple[NDArray[np.intp], float]]:
        """Rows of each block of four and more, and the weight of its pseudo-distances in the whole.

        The pseudo-distance of two rows of a block is minus the weight times the product of their `features`.
        """
        sizes = np.bincount(self.turns, minlength=len(self.harmonics))
        p = len(self.columns)
        found = []
        for at, harmonic in enumerate(self.harmonics):
            if sizes[at] < _ROWS_MIN:
                continue
            alike = sum(int(size) for size, k in zip(sizes, self.harmonics, strict=True) if k == harmonic)
            width = float(np.abs(self.directions[at]).sum()) * sphere_constant(p)
            weight = 4 * self.length * width / (math.pi * harmonic) ** 2 * int(sizes[at]) / alike
            found.append((np.flatnonzero(self.turns == at), weight))
        return found

    def parts(self) -> list[Part]:
        """Features of each block as whole numbers, a function of the message alone."""
        angle = self.angles * (2 * math.pi / self.places)
        wave = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        found = []
        for rows, weight in self.blocks():
            m = len(rows)
            bits = 29 - m.bit_length()
            whole = np.rint(np.ldexp(wave[rows], bits)).astype(np.int64)
            unit = weight / 2 / (self.arc.resultant * m * 2.0**bits) ** 2
            found.append(Part(rows, m * whole - whole.sum(axis=0), unit))
        return found

    @property
    def features(self) -> NDArray[np.float64]:
        """Unbiased estimates of cosine and sine of the true angles, shape (n, 2)."""
        angle = self.angles * (2 * math.pi / self.places)
        return np.stack([np.cos(angle), np.sin(angle)], axis=1) / self.arc.resultant

    def aligned(self, keys: Any, rows: int) -> DistanceMessage:
        """Give the same message with its rows in the order of other keys.

        Parameters
        ----------
        keys : sequence or None
            The keys of the other table's rows; None if rows correspond by position.
        rows : int
            Number of the other table's rows.

        Returns
        -------
        DistanceMessage
            Row by row.

        Raises
        ------
        ArgumentError
            If rows do not correspond one to one. It does not say which.
        """
        if rows != self.rows:
            raise ArgumentError(
                f"The message is about {self.rows} rows, and the table has {rows}.",
                "Both parties need the same rows, aligned by position or by keys.",
            )
        if (keys is None) != (self.keys is None):
            raise ArgumentError(
                "Only one of message and table has keys.",
                "Give keys= to both parties, or to neither and align the rows by position.",
            )
        if keys is None or self.keys is None:
            return self
        place = {key: at for at, key in enumerate(self.keys)}
        order = [place.get(key) for key in read_keys(keys, rows)]
        if None in order:
            raise ArgumentError("The keys of message and table do not match one to one.", "Join the tables first.")
        there = np.array(order, dtype=np.intp)
        changed = {"angles": self.angles[there], "turns": self.turns[there], "keys": tuple(keys)}
        return DistanceMessage(**{**self.result, **changed, "privacy": self.privacy})

    def estimate(self, y: Any, *, keys: Any = None, permutations: int = 999, seed: int | None = None) -> Estimate:
        """Estimate dependence on numbers of one's own: a plain function of them, not private.

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

        Returns
        -------
        Estimate
            Squared distance correlation, and an exact p-value.

        Raises
        ------
        ArgumentError
            If the rows do not fit, or a number is missing.
        """
        return estimated(self, y, keys, permutations, seed)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the message to a file of JSON, to be read by `load_message`.

        Parameters
        ----------
        path : str or path
            The file.
        """
        content = json.dumps(self.to_dict(), allow_nan=False)
        digest = hashlib.sha256(content.encode()).hexdigest()
        envelope = {"format": _FORMAT, "version": _VERSION, "sha256": digest, "content": content}
        Path(path).write_text(json.dumps(envelope), encoding="utf-8")


def load_message(path: str | os.PathLike[str]) -> DistanceMessage:
    """Read a message that another party has saved.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    DistanceMessage
        The message.

    Raises
    ------
    ArgumentError
        If the file is no such message, of another version, cut short, or changed since it was saved. The checksum
        finds accidents; it does not prove who wrote the file.
    """
    again = "Ask for the file again."
    try:
        envelope = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ArgumentError("The message cannot be read: no such file, or it was cut short.", again) from None
    if not isinstance(envelope, dict) or envelope.get("format") != _FORMAT:
        raise ArgumentError("This file holds no message of dcor_message.", again)
    if envelope.get("version") != _VERSION:
        raise ArgumentError(
            f"The message is of version {envelope.get('version')!r}; this program reads version {_VERSION}.",
            "Let both parties install the same version.",
        )
    content = envelope.get("content")
    if not isinstance(content, str) or hashlib.sha256(content.encode()).hexdigest() != envelope.get("sha256"):
        raise ArgumentError("The message was changed after it was saved.", again)
    plain = json.loads(content)
    kind = f"{DistanceMessage.__module__}:{DistanceMessage.__qualname__}"
    if not isinstance(plain, dict) or plain.get("type") != kind:  # no other class is looked up for a stranger
        raise ArgumentError("This file holds no message of dcor_message.", again)
    found = Release.from_dict(plain)
    assert isinstance(found, DistanceMessage)  # noqa: S101 - its type was looked at
    return checked(found)


def checked(message: DistanceMessage) -> DistanceMessage:
    """Return a message in which everything fits together, or raise an `ArgumentError`."""
    try:
        n, blocks = message.rows, len(message.harmonics)
        whole = [message.angles, message.turns]
        fits = (
            all(part.shape == (n,) and part.dtype == np.int64 for part in whole)
            and n >= _ROWS_MIN
            and message.directions.shape == (blocks, len(message.columns))
            and bool(np.isfinite(message.directions).all() and np.abs(message.directions).sum(axis=1).min() > 0)
            and message.turns.min() >= 0
            and message.turns.max() < blocks
            and message.angles.min() >= 0
            and message.angles.max() < message.places
            and all(isinstance(k, int) and k > 0 for k in message.harmonics)
            and 0 < message.length < math.inf
            and 0 < message.arc.resultant <= 1
            and math.isfinite(message.deviation)
            and 0 < message.deviation_scale < math.inf
            and (message.keys is None or len(set(message.keys)) == n == len(message.keys))
        )
    except (AttributeError, TypeError, ValueError, ArithmeticError):
        fits = False
    if not fits:
        raise ArgumentError("The parts of this message do not fit together.", "Ask for the message again.")
    return message


def read_keys(keys: Any, rows: int) -> tuple[str | int, ...]:
    """Check the keys of a table's rows."""
    plain = isinstance(keys, list | tuple) and all(type(key) in (str, int) for key in keys)
    if not plain or len(keys) != rows or len(set(keys)) != rows:
        raise ArgumentError(
            f"keys= must be a list of {rows} strings or whole numbers, one for each row and all different.",
            "Keys are no secret: both parties know them.",
        )
    return tuple(keys)
