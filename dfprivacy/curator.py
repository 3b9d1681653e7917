"""The measurement verbs: the only code that sees rows, noise and budget together.

A mechanism talks to a curator and never to the data. The curator shows it what is public, and measures. Each verb
does the same three things in the same order: work out the loss from public numbers, charge it to the account,
and only then read rows and add noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from dfprivacy import noise as noises
from dfprivacy.accounting import exact
from dfprivacy.errors import ArgumentError, NotProtected, PluginError, ReadError
from dfprivacy.features import Count, OneHot
from dfprivacy.frames import withheld
from dfprivacy.losses import Approximate, Gaussian, Laplace, Pure
from dfprivacy.progress import progress
from dfprivacy.release import Measurement, Noise
from dfprivacy.rows import BATCH_ROWS, IsIn, batches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from dfprivacy.features import RowFeatures
    from dfprivacy.frames import Frame
    from dfprivacy.losses import PrivacyLoss
    from dfprivacy.rows import Condition
    from dfprivacy.schema import Category, Column, Schema

__all__ = ["Curator"]

_FLUSH = 512  # batches whose float64 totals, each below 2^53, add up in int64


class Purse(Protocol):
    """What pays for one call."""

    epsilon: Fraction
    delta: Fraction

    def pay(self, losses: Sequence[PrivacyLoss], then: Sequence[PrivacyLoss]) -> None:
        """Charge losses, durably and all at once, or raise; `then` must fit afterwards too."""
        ...


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

    def sensitivity(self, features: RowFeatures, norm: int) -> float:
        """L1 or L2 sensitivity of the sum of row features before rounding; for a group, of all groups' sums."""
        radius = features.radius(norm)
        if not 0 <= radius < math.inf:  # NaN or a negative number would pass for a sum that needs no noise
            raise PluginError(
                f"The L{norm} radius of {features.describe()} is {radius!r}.",
                "A radius is finite and not negative.",
            )
        if self.schema.neighbors == "add_remove":
            return radius
        diameter = features.diameter(norm, self.public)
        if self.by is not None and not self.by.public:
            # A row that changes its group leaves one sum and enters another.
            return max(diameter, radius * (2.0 if norm == 1 else math.sqrt(2.0)))
        return max(diameter, radius) if self.private_selection else diameter

    def total(self, features: RowFeatures, k: int) -> list[int]:
        """Exact sum of the features over the view's rows, in steps of 2 to the minus k; `ReadError` if it fails."""
        frame = self.rows
        total, seen = withheld(lambda: self._added_up(frame, features, k))
        if self.schema.size not in {None, seen}:
            raise ReadError(
                f"The table was protected with {self.schema.size} rows and now has another number.",
                "Do not change a table after protecting it; protect the new one under a name of its own.",
            )
        return total

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


@dataclass
class Curator:
    """What a mechanism may know and ask.

    Attributes
    ----------
    measured : list of Noise
        The measurements made so far.
    """

    _table: Table
    _purse: Purse
    measured: list[Noise] = field(default_factory=list, init=False)
    _left: Fraction = field(default=Fraction(1), init=False)

    @property
    def epsilon(self) -> float:
        """The epsilon of the whole call."""
        return float(self._purse.epsilon)

    @property
    def delta(self) -> float:
        """The delta of the whole call."""
        return float(self._purse.delta)

    @property
    def neighbors(self) -> Literal["replace_one", "add_remove"]:
        """The neighbouring relation."""
        return self._table.schema.neighbors

    @property
    def size(self) -> int | None:
        """Number of rows, None where it is private."""
        if not self._table.conditions:
            return self._table.schema.size
        return None if self._private(Count()) else int(self.sum(Count()).values[0])

    def sizes(self, by: Column, groups: tuple[Category, ...] | None = None) -> NDArray[np.float64] | None:
        """Rows in each group of a column, None where they are private.

        Parameters
        ----------
        by : Column
            A column with categories.
        groups : tuple, optional
            The categories to count; default: all.

        Returns
        -------
        ndarray of shape (groups,) or None
            The counts.
        """
        counts = OneHot(by, groups)
        return None if self._private(counts) else self.sum(counts).values

    def sum(
        self,
        features: RowFeatures,
        *,
        noise: Literal["laplace", "gaussian"] = "laplace",
        share: object = None,
    ) -> Measurement:
        """Measure the sum of row features over the rows.

        Parameters
        ----------
        features : RowFeatures
            What to sum. The sensitivity follows from its radius and diameter.
        noise : {"laplace", "gaussian"}
            Laplace noise for pure differential privacy; Gaussian noise needs a delta.
        share : number or fraction, optional
            The part of the call's epsilon and delta to spend; default: all that is left of it.

        Returns
        -------
        Measurement
            Noisy sums. A sum that is the same on all neighbouring tables (over public columns only) comes
            exact and costs nothing.

        Raises
        ------
        ArgumentError
            If the arguments cannot be used; nothing was charged.
        BudgetExceeded
            If the account cannot pay; nothing was charged.
        ReadError
            If the rows could not be read; the charge stays.
        """
        if noise not in {"laplace", "gaussian"}:
            raise ArgumentError(f"noise={noise!r} is unknown.", 'Use "laplace" or "gaussian".')
        _ = self._table.rows  # a copy without rows must not pay
        if not self._private(features):
            return self._public_sum(features)
        plan = self._plan(features, noise, share)
        self._purse.pay([plan.loss], self._rest())
        return self._release(features, plan)

    def _private(self, features: RowFeatures) -> bool:
        return self._table.sensitivity(features, 1) > 0

    def _plan(self, features: RowFeatures, noise: str, share: object) -> _Plan:
        epsilon, delta = self._take(share)
        gaussian = noise == "gaussian"
        if gaussian and not delta > 0:
            raise ArgumentError(
                "Gaussian noise needs a delta above zero.",
                "Protect the table with a delta, or ask for a method with Laplace noise.",
            )
        norm = 2 if gaussian else 1
        sensitivity = self._table.sensitivity(features, norm)
        size = self._table.schema.size
        k = noises.grid_exponent(
            radius=features.radius(2),
            batch_rows=BATCH_ROWS,
            rows_max=noises.ROWS_MAX if size is None else size,
            noise=sensitivity / float(epsilon),
        )
        # Rounding moves a coordinate by half a step, so the difference of two rows by at most one step in each
        # of `support` coordinates (two rows that differ in which ones: half a step in twice as many). One step
        # more covers the rounding of the radius and diameter themselves.
        slack = features.support if norm == 1 else math.sqrt(features.support)
        steps = Fraction(sensitivity) * 2**k + Fraction(slack) + 1
        if gaussian:
            squared = math.ceil(steps * steps)
            scale = noises.gaussian_scale(squared, features.dimension, epsilon, delta)
            loss: PrivacyLoss = Gaussian(squared, scale, features.dimension, epsilon, delta)
        else:
            whole = math.ceil(steps)
            scale = noises.laplace_scale(whole, epsilon)
            loss = Laplace(whole, scale, epsilon)
        return _Plan(
            k,
            scale,
            loss,
            Noise(
                what=f"the sum of {features.describe()}",
                kind=f"discrete {noise.capitalize()}",
                scale=math.ldexp(scale, -k),
                grid=k,
                sensitivity=math.ldexp(float(steps), -k),
                epsilon=float(epsilon),
                delta=float(delta) if gaussian else 0.0,
            ),
        )

    def _take(self, share: object) -> tuple[Fraction, Fraction]:
        part = self._left if share is None else exact(share)
        if not 0 < part <= self._left:
            raise PluginError(
                f"A measurement asked for the share {part} of its call, of which {self._left} is left.",
                "The shares of a call's measurements must be positive and add up to at most 1.",
            )
        self._left -= part
        return self._purse.epsilon * part, self._purse.delta * part

    def _rest(self) -> list[PrivacyLoss]:
        """Give what the call may still measure after this, at its worst."""
        if not self._left:
            return []
        epsilon, delta = self._purse.epsilon * self._left, self._purse.delta * self._left
        return [Approximate(epsilon, delta) if delta else Pure(epsilon)]

    def _release(self, features: RowFeatures, plan: _Plan) -> Measurement:
        sampler = noises.sampler()
        total = self._table.total(features, plan.k)
        # Clamping is 1-Lipschitz in each coordinate, so it is safe; it is there for a private number of rows.
        clamped = np.array([max(-noises.SUM_MAX, min(noises.SUM_MAX, t)) for t in total], dtype=np.int64)
        draw: Callable[[NDArray[np.int64], float], NDArray[np.int64]] = (
            sampler.gaussian if isinstance(plan.loss, Gaussian) else sampler.laplace
        )
        noisy = draw(clamped, plan.scale)
        self.measured.append(plan.noise)
        return _measurement(features, np.ldexp(noisy.astype(np.float64), -plan.k), plan.noise)

    def _public_sum(self, features: RowFeatures) -> Measurement:
        k = 30
        total = self._table.total(features, k)
        values = np.array([float(Fraction(t, 2**k)) for t in total])
        return _measurement(features, values, None)


@dataclass(frozen=True)
class _Plan:
    """One measurement, from public numbers only: grid, scale in steps, loss."""

    k: int
    scale: float
    loss: PrivacyLoss
    noise: Noise


def _measurement(features: RowFeatures, values: NDArray[np.float64], noise: Noise | None) -> Measurement:
    weights = np.broadcast_to(np.asarray(features.weights, dtype=np.float64), features.shape)
    scale = noise.scale if noise else 0.0
    return Measurement(values.reshape(features.shape) / weights, scale / weights, noise)


class Planner(Curator):
    """A curator that reads nothing and charges nothing: it records what would be measured.

    Its measurements are of an empty table and without noise, so what a mechanism concludes from them is void.
    """

    def _release(self, features: RowFeatures, plan: _Plan) -> Measurement:
        self.measured.append(plan.noise)
        return _measurement(features, np.zeros(features.dimension), plan.noise)
