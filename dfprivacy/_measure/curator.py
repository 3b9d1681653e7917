"""Curators: their methods are the only code that reads rows, adds noise and charges the budget.

A mechanism talks to a curator and never to the data. The curator shows it what is public, and measures. Each verb
does the same three things in the same order: work out the loss from public numbers, charge it to the account,
and only then read rows and add noise.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dfprivacy._measure.decisions import SparseVectorAnswers
from dfprivacy._measure.discovery import KeyDiscovery
from dfprivacy._measure.joint import JointMeasurements
from dfprivacy._measure.query import copy_by_value
from dfprivacy._privacy import samplers as noises
from dfprivacy._privacy.losses import Pure
from dfprivacy.errors import ArgumentError, PluginError
from dfprivacy.features import Given, OneHot
from dfprivacy.local import Arc, Messages
from dfprivacy.release import MeasurementRecord
from dfprivacy.schema.values import plain_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy.arguments import NanPolicy
    from dfprivacy.local import RowLabels
    from dfprivacy.schema import Category, Column

__all__ = ["Curator", "Holder", "Planner", "SparseVectorAnswers"]

T = TypeVar("T")
_TYPICAL_ROWS = 10_000


class Curator(JointMeasurements, KeyDiscovery):
    """Interface of a mechanism to a table: public facts about it, and noisy measurements of its rows.

    Attributes
    ----------
    measured : list of MeasurementRecord
        The measurements made so far.
    looked : bool
        Whether the mechanism read `columns`, the list of all columns, beyond those that the question names.
    numbers : set of Column
        The columns whose numbers, limited to their bounds, were measured.
    scaled : bool
        Whether the noise of any measurement is scaled to such bounds.
    planned : object
        For a planner (`Mechanism.plans`): the measurement that the mechanism would make. Its scales and numbers of
        rows are those to come, its values are void. Else None.
    """

    planned: Any = None

    @property
    def groups(self) -> int:
        """Number of groups of the call; 1 for a call without groups."""
        return math.prod(len(by.categories or (by,)) for by in self._table.by)

    @property
    def typical_size(self) -> int | None:
        """Number of rows of the table divided by the number of groups; None if the number of rows is private.

        Of a view with conditions, rows are counted that its public ones select. It is the same for all groups, so
        what follows from it is: how a budget is shared, how fine a grid is. These must not differ from one group to
        another, or the groups cost more together than one.
        """
        rows = self._table.public_rows
        return None if rows is None else rows // self.groups

    @property
    def supposed_size(self) -> tuple[int, str]:
        """Number of rows that a planner (`Mechanism.plans`) assumes, and a sentence on the assumption.

        The sentence is empty if the number is public. A private group has an equal part of a public table, and a
        private table 10,000 rows.
        """
        if self.size is not None:
            return self.size, ""
        rows = _TYPICAL_ROWS if self.typical_size is None else self.typical_size
        return rows, f"there are {rows:,} rows"

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns that have bounds or categories."""
        self.looked = True
        known = self._table.schema.columns.values()
        return tuple(column for column in known if column.bounds is not None or column.categories is not None)

    def sizes(
        self, by: Column, groups: tuple[Category, ...] | None = None, *, least: int = 0
    ) -> NDArray[np.float64] | None:
        """Return the number of rows in each group of a column; None if the numbers are private.

        Parameters
        ----------
        by : Column
            A column with categories.
        groups : tuple, optional
            The categories to count; default: all.
        least : int
            How many rows each group must have where that is public.

        Returns
        -------
        ndarray of shape (groups,) or None
            The counts.

        Raises
        ------
        ArgumentError
            If a public group has fewer rows than `least`.
        """
        if not self._table.is_public([by]):
            return None
        counts = self.sum(OneHot(by, groups=groups)).values
        if counts.size and counts.min() < least:
            none = "No row has any of these categories: declare categories that equal the values."
            raise ArgumentError(
                f"A group of {by.name!r} has {counts.min():g} rows, and {least} are needed.",
                "Name groups with more rows in groups=." if counts.any() else none,
            )
        return counts

    def public_values(self, column: Column) -> list[object]:
        """Return the values of a public column, such as a key of the rows, as they are in the table.

        Parameters
        ----------
        column : Column
            A public column; it need have neither bounds nor categories.

        Returns
        -------
        list
            For each row, in order, a str, bool, int, float or date; None for what is missing or none of these.

        Raises
        ------
        ArgumentError
            If the column, or the selection of the rows, is private.
        ReadError
            If the rows could not be read.
        """
        return [plain_key(value) for value in self._table.public_values(column)]

    def gaps(self, columns: Iterable[Column], nan_policy: NanPolicy) -> tuple[Column, ...]:
        """Return the columns in which a missing value excludes a row, to pass to `~dfprivacy.features.Given`.

        Parameters
        ----------
        columns : iterable of Column
            The columns of a question, but not those of which a missing value contributes nothing anyway, as to
            `~dfprivacy.features.OneHot`.
        nan_policy : {"omit", "fill", "raise"}
            ``"omit"``: rows with a missing value are left out. ``"fill"``: they count with the fill value.
            ``"raise"``: there must be none, of public columns, or nothing is measured.

        Returns
        -------
        tuple of Column
            Those of ``"omit"``, but for columns of which somebody said what a missing value counts as, and for
            public ones in which none is missing. Empty for the other policies.

        Raises
        ------
        ArgumentError
            For ``"raise"``, as `refuse_missing`.
        """
        columns = tuple(columns)
        if nan_policy == "fill":
            return ()
        if nan_policy == "omit":
            return tuple(
                c
                for c in columns
                if not (c.filled or (self._table.is_public([c]) and self._has_no_missing_value(c)))
            )
        self.refuse_missing(*columns)
        return ()

    def refuse_missing(self, *columns: Column) -> None:
        """Raise an `ArgumentError` if a value of public columns is missing.

        Parameters
        ----------
        *columns : Column
            Public columns.

        Raises
        ------
        ArgumentError
            If a value is missing; or if a column, or the selection of the rows, is private: then the error would
            reveal whether a private value is missing.
        """
        for column in columns:
            if not self._table.is_public([column]):
                raise ArgumentError(
                    f"nan_policy='raise' would reveal whether a private value is missing in {column.name!r}.",
                    "Use nan_policy='omit', or 'fill'.",
                )
            if not self._has_no_missing_value(column):
                raise ArgumentError(f"A value is missing in {column.name!r}.", "Use nan_policy='omit', or 'fill'.")

    def _has_no_missing_value(self, column: Column) -> bool:
        """Return whether a public column has no missing value in the selected rows."""
        return bool(self.size == self.sum(Given(column)).values[0])

    def randomize(
        self,
        maps: RowLabels | Sequence[RowLabels],
        *,
        reach: int = 0,
        turns: NDArray[np.intp] | None = None,
        share: object = None,
    ) -> Messages:
        """Draw one randomised message for each row (local differential privacy).

        Parameters
        ----------
        maps : RowLabels or sequence of RowLabels
            Maps of a row to its label. All maps have the same number of labels.
        reach : int
            Number of labels on either side of the true one that are drawn with the same probability as it.
        turns : ndarray of int of shape (n,), optional
            Index of the map for each row, drawn without reading the rows; default: the first map.
        share : number or fraction, optional
            The part of the call's epsilon to spend; default: all that is left of it.

        Returns
        -------
        Messages
            One label for each row. Each depends on its own row only, so all together cost what one costs.

        Raises
        ------
        ArgumentError
            If the number of rows is private, or the arguments cannot be used; nothing was charged.
        BudgetExceeded
            If the account cannot pay; nothing was charged.
        ReadError
            If the rows could not be read; the charge stays.
        """
        self._require_single_rows("randomize() draws a message for every row")
        self._table.require_rows()  # a copy without rows must not pay
        several: list[RowLabels] = [*maps] if isinstance(maps, list | tuple) else [maps]  # type: ignore[list-item]
        copies = copy_by_value(several)
        self.numbers |= {column for each in several for column in each.columns if column.bounds is not None}
        size = self.size
        if size is None or self.neighbors != "replace_one":
            raise ArgumentError(
                "The number of messages would reveal the number of rows, which is private here.",
                "Use neighbors='replace_one', and conditions on public columns only.",
            )
        whose = np.zeros(size, dtype=np.intp) if turns is None else np.asarray(turns)
        in_turn = whose.shape == (size,) and whose.dtype.kind == "i"
        if not in_turn or (size and not 0 <= whose.min() <= whose.max() < len(several)):
            raise PluginError(
                f"turns= must be an array of {size} integers, the index of a map for each row.",
                "Leave out turns= if there is one map.",
            )
        if len({each.places for each in several}) != 1:
            raise PluginError("All maps must have the same number of labels.", "Give all maps the same `places`.")
        epsilon, _ = self._take_share(share)
        arc = Arc.within(epsilon, places=several[0].places, reach=reach)
        record = MeasurementRecord(
            what=f"one message a row, {several[0].describe()}",
            kind=f"randomised response among {arc.places:,} places",
            scale=float(arc.reach),
            grid=0,
            sensitivity=1.0,
            epsilon=float(epsilon),
            delta=0.0,
        )

        def draw_messages() -> NDArray[np.int64]:
            return noises.sampler().arc(self._table.labels(copies, whose), arc)

        blank = np.zeros(size, dtype=np.int64)
        return Messages(self._pay_and_draw(record, [Pure(epsilon)], draw_messages, blank), arc, record)


class Planner(Curator):
    """Curator that reads no private data and charges nothing: it records the planned measurements.

    Its measurements are of an empty table and without noise, so what a mechanism concludes from them is void.
    """

    _dry = True

    @property
    def saved_epsilon(self) -> Fraction:
        """Epsilon that the plan need not pay, as the ledger keeps some of its measurements."""
        return self._runner.saved_epsilon


class Holder(Curator):
    """Curator for the owner of the table: it returns exact rows, and makes no private measurement.

    The form of a method for the owner alone (`Mechanism.holds`) receives one, for the time of its call.
    """

    def rows(self, *columns: Column) -> Batch:
        """Return the rows that the view selects, exact and cleaned.

        Parameters
        ----------
        *columns : Column
            Columns with bounds or categories.

        Returns
        -------
        Batch
            All rows in order.

        Raises
        ------
        ReadError
            If the rows could not be read.
        """
        if not self._left:
            raise PluginError(
                "rows() was called after the owner's call had ended.",
                "Call rows() inside the function given to holds().",
            )
        return self._table.selected_batch(columns, limited=False)

    def _take_share(self, share: object, *, gaussian: bool = False) -> tuple[Fraction, Fraction]:  # noqa: ARG002
        raise PluginError(
            "A function for the data owner (Mechanism.holds) cannot make a private measurement.",
            "Compute the answer from the exact rows that rows() returns.",
        )
