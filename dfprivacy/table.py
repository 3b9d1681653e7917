"""A protected table as the curator sees it: what can be computed of it, and how far one row can move that."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy.errors import NotProtected, PluginError, ReadError
from dfprivacy.features import RowFeatures
from dfprivacy.frames import withheld
from dfprivacy.noise import SUM_MAX
from dfprivacy.progress import progress
from dfprivacy.rows import IsIn, batches, gathered
from dfprivacy.statistics import OfSums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy.frames import Frame
    from dfprivacy.rows import Batch, Condition
    from dfprivacy.schema import Column, Schema
    from dfprivacy.statistics import Statistic

__all__ = ["PUBLIC", "Table"]

Relation = Literal["replace_one", "add_remove"]
L2 = 2
_FLUSH = 512  # batches whose float64 totals, each below 2^53, add up in int64
PUBLIC = 30
"""Exponent of the grid of sums that get no noise themselves."""


@dataclass(frozen=True)
class Table:
    """A protected table as the curator sees it: the frame, what is public about it, and a view's conditions.

    With `by`, the table is one group of that column, and the same is asked of the others.
    """

    frame: Frame | None
    schema: Schema
    conditions: tuple[Condition, ...] = ()
    by: Column | None = None

    def __reduce__(self) -> tuple[type[Table], tuple[None, Schema, tuple[Condition, ...], Column | None]]:
        # What is pickled or copied, a view, a call or whatever holds a table, carries no rows.
        return Table, (None, self.schema, self.conditions, self.by)

    def groups(self, by: Column) -> list[Table]:
        """Give the parts of the table by category."""
        parts = ((*self.conditions, IsIn(by, (key,))) for key in by.categories or ())
        return [replace(self, conditions=conditions, by=by) for conditions in parts]

    @property
    def rows(self) -> Frame:
        """The frame; `NotProtected` if this is a copy without one."""
        if self.frame is None:
            raise NotProtected(
                "This view came from a copy that carries no rows.",
                "Protect the table under the same name where the rows are.",
            )
        return self.frame

    @property
    def public(self) -> frozenset[str]:
        """The columns on which neighbouring tables agree."""
        return frozenset(name for name, column in self.schema.columns.items() if column.public)

    @property
    def private_selection(self) -> bool:
        """Whether which rows belong to the view is private."""
        return any(not condition.public for condition in self.conditions)

    def sensitivity(self, asked: RowFeatures | Statistic, norm: float) -> float:
        """Sensitivity in L1, L2 or the norm of infinity, before rounding; for a group, of all groups together."""
        added = _bound(asked, "add_remove", norm, self.public)
        if self.schema.neighbors == "add_remove":
            return added
        changed = _bound(asked, "replace_one", norm, self.public)
        if self.by is not None and not self.by.public:
            # A row that changes its group leaves one release and enters another.
            return max(changed, added * (math.sqrt(2.0) if norm == L2 else 2.0))
        return max(changed, added) if self.private_selection else changed

    def total(self, features: RowFeatures, k: int) -> list[int]:
        """Exact sum of the features over the view's rows, in steps of 2 to the minus k; `ReadError` if it fails."""
        frame = self.rows
        total, seen = withheld(lambda: self._added_up(frame, features, k))
        self._check_size(seen)
        return total

    def _check_size(self, seen: int) -> None:
        if self.schema.size not in {None, seen}:
            raise ReadError(
                f"The table was protected with {self.schema.size} rows and now has another number.",
                "Do not change a table after protecting it; protect the new one under a name of its own.",
            )

    def _added_up(self, frame: Frame, features: RowFeatures, k: int) -> tuple[list[int], int]:
        """Sum, and number of rows read."""
        total = [0] * features.summands
        pending = np.zeros(features.summands, dtype=np.int64)
        seen = 0
        # A warning of NumPy's would tell on a row.
        with np.errstate(all="ignore"), progress(self.schema.size) as bar:
            for count, (batch, mask) in enumerate(batches(frame, features.reads, self.conditions), start=1):
                seen += batch.size
                bar.update(batch.size)
                pending += features.total(batch, mask, k).astype(np.int64)
                if count % _FLUSH == 0:
                    total = [a + int(b) for a, b in zip(total, pending, strict=True)]
                    pending[:] = 0
        total = [a + int(b) for a, b in zip(total, pending, strict=True)]
        return features.image(total, k), seen

    def value(self, asked: RowFeatures | Statistic, k: int, *chance: np.random.Generator) -> list[int]:
        """Sum of features, or value of a statistic, in steps of 2 to the minus k; `ReadError` if it fails."""
        if isinstance(asked, RowFeatures):
            # Clamping is 1-Lipschitz, so it is safe; it is there for a private number of rows.
            return [max(-SUM_MAX, min(SUM_MAX, t)) for t in self.total(asked, k)]
        data: Any
        if isinstance(asked, OfSums):
            features = asked.features
            sums = [float(Fraction(t, 2**PUBLIC)) for t in self.total(features, PUBLIC)]
            data = np.reshape(sums, features.shape) / np.broadcast_to(features.weights, features.shape)
        else:
            frame = self.rows
            data, seen = withheld(lambda: self._gathered(frame, asked.columns))
            self._check_size(seen)
        steps = np.ldexp(withheld(lambda: _computed(asked, data, *chance)), k)
        steps[~np.isfinite(steps)] = 0  # an error would tell on the rows
        return [int(step) for step in np.rint(np.clip(steps, -float(SUM_MAX), float(SUM_MAX)))]

    def _gathered(self, frame: Frame, columns: Sequence[Column]) -> tuple[Batch, int]:
        """All selected rows as one batch, and number of rows read."""
        with np.errstate(all="ignore"), progress(self.schema.size) as bar:
            return gathered(frame, columns, self.conditions, bar.update)


def _bound(asked: RowFeatures | Statistic, relation: Relation, norm: float, public: frozenset[str]) -> float:
    bound = asked.sensitivity(relation, norm, public)
    # NaN or a negative number would pass for what needs no noise.
    if not bound >= 0 or (isinstance(asked, RowFeatures) and bound == math.inf):
        raise PluginError(
            f"The L{norm:g} sensitivity of {asked.describe()} under {relation} is {bound!r}.",
            "A sensitivity is finite and not negative.",
        )
    return bound


def _computed(statistic: Statistic, data: Any, *chance: np.random.Generator) -> NDArray[np.float64]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning would tell on the rows
        value = statistic.value(data, *chance)  # type: ignore[attr-defined]
    return np.array(value, dtype=np.float64).reshape(statistic.dimension)
