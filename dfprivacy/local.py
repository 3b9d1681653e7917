r"""Local differential privacy: each row sends one randomised message, so no one is trusted with the rows.

A row is mapped to one of N places on a circle, and a randomised place is released. Places on the arc around the
true one are all equally likely, p to q times as likely as the others, for integers
:math:`p/q \le e^\varepsilon`.
So the chance of any message changes by at most that when its row does, exactly, and the whole release is
ε-differentially private for tables that differ in one row: no other message depends on it. An arc of one place is
randomised response among N answers [1]_; a wider one suits angles and whatever else has a direction.

References
----------
.. [1] Kairouz, Oh and Viswanath (2016). Extremal mechanisms for local differential privacy. JMLR 17.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from dfprivacy._privacy.response import Arc
from dfprivacy._table.batch import category, number
from dfprivacy._words import class_description

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy._table.frames import Read
    from dfprivacy.release import MeasurementRecord
    from dfprivacy.schema import Column

__all__ = ["Arc", "Messages", "RowLabels"]


class RowLabels(ABC):
    """Map from each row to one of N labels; a mechanism receives a randomised label for each row.

    A third party subclasses it, sets `columns` and `places`, and writes `rows`.

    Attributes
    ----------
    columns : tuple of Column
        The columns it reads.
    places : int
        Number of places N.
    description : str
        What it is, as users read it, with ``{columns}`` for the columns' names; default: the name of the class.

    Examples
    --------
    Whether a number is above a threshold:

    >>> class Above(RowLabels):
    ...     places = 2
    ...     def __init__(self, column, threshold):
    ...         self.columns = (column,)
    ...         self.threshold = threshold
    ...     def rows(self, batch):
    ...         return batch.values(self.columns[0]) > self.threshold
    """

    columns: tuple[Column, ...]
    places: int
    description: ClassVar[str] = ""

    @property
    def reads(self) -> Sequence[Read]:
        """Requests to read the columns: as numbers if they have bounds, else as categories."""
        return [number(c) if c.bounds is not None else category(c) for c in self.columns]

    @abstractmethod
    def rows(self, batch: Batch) -> NDArray[Any]:
        """Return the label of each row, from 0 to N - 1, shape (batch.size,): a pure function of the row."""

    def describe(self) -> str:
        """Return a description of the map for an explanation."""
        return class_description(type(self), [column.name for column in self.columns])


@dataclass(frozen=True)
class Messages:
    """Randomised labels, one for each row, as a mechanism receives them from ``curator.randomize``.

    Attributes
    ----------
    values : ndarray of int64 of shape (n,)
        The randomised labels, in the order of the rows.
    arc : Arc
        The randomised response that drew them.
    noise : MeasurementRecord
        The record of the noise in words.
    """

    values: NDArray[np.int64]
    arc: Arc
    noise: MeasurementRecord
