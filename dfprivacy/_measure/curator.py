"""The measurement verbs: the only code that sees rows, noise and budget together.

A mechanism talks to a curator and never to the data. The curator shows it what is public, and measures. Each verb
does the same three things in the same order: work out the loss from public numbers, charge it to the account,
and only then read rows and add noise.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast, overload

import numpy as np

from dfprivacy._ledger.measurements import KeptMeasurement, Measurement
from dfprivacy._measure.description import canonical_order, describe, describe_query
from dfprivacy._measure.evaluate import L2
from dfprivacy._measure.noisy import (
    Drawn,
    clamped,
    combined,
    discovered,
    measurement,
    moved,
    shown,
    surveyed,
    together,
)
from dfprivacy._measure.pricing import (
    FINE,
    NORMS,
    Decision,
    Grid,
    JointShare,
    Price,
    check_delta,
    grid_for,
    price_of,
    priced,
    sensitivity_of,
    steps_of,
)
from dfprivacy._measure.query import Query, copied
from dfprivacy._privacy import calibrate
from dfprivacy._privacy import samplers as noises
from dfprivacy._privacy.filters import exact
from dfprivacy._privacy.grid import exact_exponent
from dfprivacy._privacy.losses import Approximate, BoundedRange, Gaussian, Laplace, Pure
from dfprivacy._table.batch import BATCH_ROWS
from dfprivacy._table.domain import domain_of
from dfprivacy._table.sample import SampledFrame
from dfprivacy.errors import ArgumentError, LedgerError, PluginError
from dfprivacy.features import Count, Given, OneHot, RowFeatures
from dfprivacy.features.base import enforced
from dfprivacy.features.integers import integers
from dfprivacy.local import Arc, Messages
from dfprivacy.release import DiscoveredKeys, MeasurementRecord, NoisyValue
from dfprivacy.schema import Column, as_probability

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from dfprivacy._measure.description import Origins
    from dfprivacy._measure.evaluate import Table
    from dfprivacy._privacy.losses import PrivacyLoss
    from dfprivacy._table.batch import Batch
    from dfprivacy._table.domain import Domain
    from dfprivacy._table.keys import Key
    from dfprivacy.arguments import NanPolicy
    from dfprivacy.features.integers import Integers
    from dfprivacy.local import RowLabels
    from dfprivacy.release import Reveal, SurveyedColumn
    from dfprivacy.schema import Category
    from dfprivacy.statistics import OfPermutations, Statistic

__all__ = ["Curator", "Holder", "SparseVectorAnswers"]

T = TypeVar("T")
_ALL, _NOTHING = Fraction(1), Fraction(0)
_ROOM = 16  # the noise of a joint measurement can be a quarter of what was planned


class CallBudget(Protocol):
    """What pays for one call."""

    epsilon: Fraction
    delta: Fraction

    @property
    def basic_composition(self) -> bool:
        """Whether epsilons simply add up on the account."""
        ...

    def pay(self, losses: Sequence[PrivacyLoss], reserve: Sequence[PrivacyLoss]) -> None:
        """Charge losses, durably and all at once, or raise; `reserve` must fit afterwards too."""
        ...

    def spare(self, losses: Sequence[PrivacyLoss]) -> None:
        """Charge nothing, for what was measured and paid before."""
        ...


class KeptMeasurements(Protocol):
    """What was measured before, as one call may take it in place of measuring."""

    fresh: bool

    @property
    def used(self) -> bool:
        """Whether anything is kept at all."""
        ...

    @property
    def origins(self) -> Origins:
        """Distribution and version of each package with plugins."""
        ...

    def like(self, description: str, noise: str) -> list[KeptMeasurement]:
        """Find what is kept of a description with a kind of noise, and was not taken yet, oldest first."""
        ...

    def best(self, known: Sequence[KeptMeasurement], wanted: KeptMeasurement) -> KeptMeasurement | None:
        """Choose the most accurate, if it is at least as accurate as what is wanted, and need not be fresh."""
        ...

    def take(self, kept: KeptMeasurement) -> None:
        """Let this call take it no second time."""
        ...

    def steps(self, kept: KeptMeasurement) -> NDArray[np.int64]:
        """Read its noisy values."""
        ...

    def add(self, measurement: Measurement) -> None:
        """Keep what was measured, when the call ends."""
        ...


@dataclass(frozen=True)
class SparseVectorAnswers:
    """What a sparse vector says, as a mechanism receives it.

    Attributes
    ----------
    reached : ndarray of bool
        Whether each value reached its threshold; it ends where the last one allowed did.
    threshold_scale, value_scale : float
        Scale of the Laplace noise in the thresholds, drawn once for all, and in each value.
    noise : MeasurementRecord
        The same in words.
    """

    reached: NDArray[np.bool_]
    threshold_scale: float
    value_scale: float
    noise: MeasurementRecord


@dataclass
class Curator:
    """What a mechanism may know and ask.

    Attributes
    ----------
    measured : list of MeasurementRecord
        The measurements made so far.
    looked : bool
        Whether the columns were looked at, beyond those that the question names.
    """

    _table: Table
    _budget: CallBudget
    _kept: KeptMeasurements | None = None
    measured: list[MeasurementRecord] = field(default_factory=list, init=False)
    looked: bool = field(default=False, init=False)
    _left: Fraction = field(default=_ALL, init=False)
    _gaussian_only: bool = field(default=False, init=False)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("A curator is of one call, and is never copied.")

    def close(self) -> None:
        """Let nothing more be measured: the call has its answer."""
        self._left = _NOTHING

    @property
    def epsilon(self) -> float:
        """The epsilon of the whole call."""
        return float(self._budget.epsilon)

    @property
    def delta(self) -> float:
        """The delta of the whole call."""
        return float(self._budget.delta)

    @property
    def neighbors(self) -> Literal["replace_one", "add_remove"]:
        """The neighbouring relation."""
        return self._table.schema.neighbors

    @property
    def size(self) -> int | None:
        """Number of rows, None where it is private."""
        if not self._table.conditions:
            return self._table.schema.size
        return int(self.sum(Count()).values[0]) if self._table.agreed(()) else None

    @property
    def typical_size(self) -> int | None:
        """Rows of the table for each group of the call, None where their number is private.

        Of a view with conditions, rows are counted that its public ones select. It is the same for all groups, so
        what follows from it is: how a budget is shared, how fine a grid is. These must not differ from one group to
        another, or the groups cost more together than one.
        """
        rows = self._table.public_rows
        return None if rows is None else rows // math.prod(len(by.categories or (by,)) for by in self._table.by)

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns that have bounds or categories."""
        self.looked = True
        known = self._table.schema.columns.values()
        return tuple(column for column in known if column.bounds is not None or column.categories is not None)

    def sizes(
        self, by: Column, groups: tuple[Category, ...] | None = None, *, least: int = 0
    ) -> NDArray[np.float64] | None:
        """Rows in each group of a column, None where they are private.

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
        if not self._table.agreed([by]):
            return None
        counts = self.sum(OneHot(by, groups=groups)).values
        if counts.size and counts.min() < least:
            none = "No row is of any of them: declare categories as the values are."
            raise ArgumentError(
                f"A group of {by.name!r} has {counts.min():g} rows, and {least} are needed.",
                "Name groups that have more." if counts.any() else none,
            )
        return counts

    def public_values(self, column: Column) -> list[object]:
        """Values of a public column, as they are in the table: a key of its rows, for example.

        Parameters
        ----------
        column : Column
            A public column; it need have neither bounds nor categories.

        Returns
        -------
        list
            One Python value for each row, in order.

        Raises
        ------
        ArgumentError
            If the column is private, or which rows there are is.
        ReadError
            If the rows could not be read.
        """
        return self._table.public_values(column)

    def gaps(self, columns: Iterable[Column], nan_policy: NanPolicy) -> tuple[Column, ...]:
        """Say which columns a row must have a value in, for `~dfprivacy.features.Given`.

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
            return tuple(c for c in columns if not (c.filled or (self._table.agreed([c]) and self._complete(c))))
        self.refuse_missing(*columns)
        return ()

    def refuse_missing(self, *columns: Column) -> None:
        """Refuse rows in which a value of public columns is missing.

        Parameters
        ----------
        *columns : Column
            Public columns.

        Raises
        ------
        ArgumentError
            If a value is missing; or if a column is private, or which rows there are is: then whether there is one
            is nobody's to know.
        """
        for column in columns:
            if not self._table.agreed([column]):
                raise ArgumentError(
                    f"nan_policy='raise' would tell whether a private value is missing in {column.name!r}.",
                    "Use nan_policy='omit', or 'fill'.",
                )
            if not self._complete(column):
                raise ArgumentError(f"A value is missing in {column.name!r}.", "Use nan_policy='omit', or 'fill'.")

    def _complete(self, column: Column) -> bool:
        """Whether no value of a public column is missing."""
        return bool(self.size == self.sum(Given(column)).values[0])

    def settled(self, choice: T) -> T:
        """Say what was chosen from measurements, where the next measurement depends on it.

        Parameters
        ----------
        choice : object
            What was chosen, such as the middle about which the next sum is taken.

        Returns
        -------
        object
            The same. Where the noise of the measurements is drawn again (`dfprivacy.combine`), what was chosen when
            they were made: the next measurement was of that.
        """
        return choice

    def once(self, make: Callable[..., T], *arguments: Any) -> T:
        """Make something of public values: once for all groups of a call.

        Parameters
        ----------
        make : callable
            A function of the module, not one that is defined in the call, which would be another one each time.
        *arguments : object
            Its arguments, which can be hashed.

        Returns
        -------
        object
            What it returns, which nobody may write to. Groups that ask for the sum of the same object are answered
            soonest.
        """
        return self._table.made(make, arguments)

    def sum(
        self,
        features: RowFeatures,
        *,
        noise: Literal["laplace", "gaussian", "cube"] = "laplace",
        share: object = None,
        then: Literal["any", "gaussian"] = "any",
        pool: bool = False,
        grid: Literal["fine", "unit"] = "fine",
        reveal: Reveal | None = None,
    ) -> NoisyValue:
        """Measure the sum of row features over the rows, or take what was measured before.

        Parameters
        ----------
        features : RowFeatures
            What to sum. The sensitivity follows from its radius and diameter.
        noise : {"laplace", "gaussian", "cube"}
            Laplace noise for pure differential privacy; Gaussian noise needs a delta. Noise of the cube [1]_, for
            pure differential privacy where one row moves many coordinates by about as much: its scale takes the
            sensitivity in the norm of infinity.
        share : number or fraction, optional
            The part of the call's epsilon and delta to spend; default: all that is left of it.
        then : {"any", "gaussian"}
            What the call may measure afterwards. What that may cost must fit into the budget as well, and sums or
            statistics with Gaussian noise alone, paid one by one, fit far more often than anything else at the same
            epsilon and delta.
        pool : bool
            Take the mean of all measurements of the same that are kept, weighted by the inverse of the variance of
            their noise, with a new one if they are less accurate together than that would be.
        grid : {"fine", "unit"}
            How fine the steps of the noise are: so fine that Laplace noise is as good as continuous; or of the
            features' own unit where they have one, such as whole rows of counts, and where epsilons simply add up:
            elsewhere finer noise composes better. Noise on whole units has the smaller variance. Its law is another
            one, `NoisyValue.law`: who asks for "unit" must conclude from that.
        reveal : Reveal, optional
            Show a part of sums with Laplace noise, step by step, and draw noise for no others: what is shown first
            decides what is shown next. The price is that of all, and so is the privacy
            (docs/explanation/statistics.md).

        Returns
        -------
        NoisyValue
            Noisy sums. A sum that is the same on all neighbouring tables (over public columns only) comes
            exact and costs nothing. That of a `~dfprivacy.features.Stack` has ``parts``. What is kept in the ledger
            with noise of the same kind and at least the same accuracy is taken at no charge, once in a call; its
            record says when it was measured (docs/explanation/measurements.md).

        Raises
        ------
        ArgumentError
            If the arguments cannot be used; nothing was charged.
        BudgetExceeded
            If the account cannot pay; nothing was charged.
        ReadError
            If the rows could not be read; the charge stays.

        References
        ----------
        .. [1] Hardt and Talwar (2010). On the geometry of differential privacy. STOC.
        """
        if grid not in {"fine", "unit"}:
            raise ArgumentError(f"grid={grid!r} is unknown.", 'Use "fine" or "unit".')
        if pool and grid == "unit":
            raise PluginError("What is on units is not pooled: the mean of several has another law.")
        if reveal is not None and (noise != "laplace" or pool):
            raise PluginError("Sums with Laplace noise are shown in part, and not pooled.", "Leave out reveal=.")
        return self._noisy(features, noise, share, then, pool=pool, whole_units=grid == "unit", reveal=reveal)

    def jointly(self, *planned: tuple[RowFeatures, object]) -> list[Callable[[RowFeatures], NoisyValue]]:
        """Pay for several sums with Gaussian noise as for one, and measure them one after another.

        Parameters
        ----------
        *planned : tuple of (RowFeatures, number or fraction)
            Features like those to be summed, and their part of mu squared, the squared signal-to-noise ratio of
            one Gaussian mechanism at all that is left of the call's epsilon and delta. Parts add up to at most 1.

        Returns
        -------
        list of callable
            One for each part. Given features, it measures their sum, once. They may be chosen after seeing what
            came before, but have at most the radius and dimension of those planned. The noise is for their own
            sensitivity.

        Raises
        ------
        ArgumentError, BudgetExceeded
            As for `sum`; it is all charged here.

        Notes
        -----
        Gaussian mechanisms compose, adaptively, to one whose mu squared is the sum of theirs [1]_: two halves have
        1.41 times the noise of one, where two sums at half the epsilon each have twice. The proof is in
        docs/explanation/accounting.md.

        References
        ----------
        .. [1] Smith and Thakurta (2022). Fully adaptive composition for Gaussian DP. arXiv:2210.17520.
        """

        def once(features: RowFeatures, share: JointShare | None) -> Callable[[RowFeatures], NoisyValue]:
            unused = [features]
            return lambda chosen: self._joined(unused, share, chosen)

        self._table.present()  # a copy without rows must not pay
        planned = tuple((enforced(features), part) for features, part in planned)
        parts = [exact(part) for _, part in planned]
        if not parts or min(parts) <= 0 or sum(parts) > 1:
            raise PluginError("The parts of a joint measurement must be positive and add up to at most 1.")
        private = [not self._table.agreed(features.columns) for features, _ in planned]
        if len(set(private)) > 1:
            raise PluginError("A joint measurement is of private columns.", "What is public is free: use sum.")
        if not all(private):
            return [once(features, None) for features, _ in planned]
        epsilon, delta = self._share(None, gaussian=True)
        check_delta(delta)
        grids = [grid_for(self._table, Query.read(features), L2, epsilon) for features, _ in planned]
        needs = [Fraction(grid.squared) / part for grid, part in zip(grids, parts, strict=True)]
        dimension = sum(features.dimension for features, _ in planned)
        squared = math.ceil(min(needs) / _ROOM)
        scale = calibrate.gaussian_scale(squared, dimension, epsilon, delta)
        loss = Gaussian(squared, scale, dimension, epsilon, delta)
        self._budget.pay([loss], self._reserve(loss))
        return [
            once(features, JointShare(loss, part, grid.k))
            for (features, _), part, grid in zip(planned, parts, grids, strict=True)
        ]

    def measure(
        self,
        statistic: Statistic,
        *,
        noise: Literal["laplace", "gaussian", "cube"] = "laplace",
        share: object = None,
        then: Literal["any", "gaussian"] = "any",
        pool: bool = False,
    ) -> NoisyValue:
        """Measure a statistic whose global sensitivity is proved.

        Parameters
        ----------
        statistic : Statistic
            What to measure.
        noise : {"laplace", "gaussian", "cube"}
            As for `sum`; or noise of the cube [1]_, for pure differential privacy of values that all move by about
            the same: its scale takes the sensitivity in the norm of infinity.
        share, then, pool
            As for `sum`.

        Returns
        -------
        NoisyValue
            Its noisy value; exact, and free, if it looks at public columns only.

        Raises
        ------
        ArgumentError
            If the arguments cannot be used, or the sensitivity is infinite here; nothing was charged.
        BudgetExceeded
            If the account cannot pay; nothing was charged.
        ReadError
            If the rows could not be read; the charge stays.

        References
        ----------
        .. [1] Hardt and Talwar (2010). On the geometry of differential privacy. STOC.
        """
        return self._noisy(statistic, noise, share, then, pool=pool)

    def select(self, statistic: Statistic, *, top: int = 1, share: object = None) -> NDArray[np.intp]:
        """Select the coordinates of a statistic that are about the largest.

        Parameters
        ----------
        statistic : Statistic
            The scores; their sensitivity is that in the norm of infinity.
        top : int
            How many to select.
        share : number or fraction, optional
            As for `sum`.

        Returns
        -------
        ndarray of shape (top,)
            Positions in the flattened value, best first.

        Raises
        ------
        ArgumentError, BudgetExceeded, ReadError
            As for `measure`.

        Notes
        -----
        Permute-and-flip [1]_ where epsilons add up; else the exponential mechanism, whose loss has a bounded range
        and therefore composes better [2]_. Each of the `top` selections takes its part of the price.

        References
        ----------
        .. [1] McKenna and Sheldon (2020). Permute-and-flip. NeurIPS.
        .. [2] Dong, Durfee and Rogers (2020). Optimal differential privacy composition for exponential mechanisms.
           ICML.
        """
        if not 1 <= top <= statistic.dimension:
            raise ArgumentError(
                f"top={top} of {statistic.dimension} scores cannot be selected.",
                "Select one to all.",
            )
        flip = self._budget.basic_composition
        kind = "permute-and-flip" if flip else "exponential mechanism"
        plan = self._plan_decision(statistic, share, f"the top {top} of {statistic.describe()}", kind)
        scale = calibrate.laplace_scale(2 * top * plan.steps, plan.epsilon)
        each: type[Pure] = Pure if flip else BoundedRange

        def draw() -> NDArray[np.intp]:
            values = moved(self._table.value(plan.copy, plan.k))
            return np.array(noises.sampler().noisy_top_k(values, scale, top, flip=flip), dtype=np.intp)

        return self._perform(plan.at(scale), [each(plan.epsilon / top)] * top, draw, np.arange(top))

    def above_threshold(
        self,
        statistic: Statistic,
        thresholds: Callable[[float, float], float | NDArray[np.float64]],
        *,
        most: int,
        share: object = None,
    ) -> SparseVectorAnswers:
        """Tell for one coordinate of a statistic after the other whether it reaches its threshold.

        Parameters
        ----------
        statistic : Statistic
            The values; their sensitivity is that in the norm of infinity.
        thresholds : callable
            Given the scale of the Laplace noise that all thresholds share, and that of each value's own, both in
            the statistic's units, returns the thresholds: a number, or one for each coordinate.
        most : int
            After how many that reach it to stop. The price does not depend on how many do not.
        share : number or fraction, optional
            As for `sum`.

        Returns
        -------
        SparseVectorAnswers
            The answers.

        Raises
        ------
        ArgumentError, BudgetExceeded, ReadError
            As for `measure`.

        Notes
        -----
        The sparse vector technique with the split of [1]_: epsilon_1 to epsilon_2 as 1 to (2 most)^(2/3), noise
        of scale Delta / epsilon_1 once and 2 most Delta / epsilon_2 for each value. The proof shifts the first
        noise by the whole number Delta, so it holds for discrete noise and ties.

        References
        ----------
        .. [1] Lyu, Su and Li (2017). Understanding the sparse vector technique for differential privacy. VLDB.
        """
        if not 1 <= most <= statistic.dimension:
            raise ArgumentError(
                f"most={most} of {statistic.dimension} values cannot be reported.",
                "Allow one to all.",
            )
        what = f"which of {statistic.describe()} reach their thresholds"
        plan = self._plan_decision(statistic, share, what, "sparse vector")
        first = plan.epsilon * Fraction(1 / (1 + (2 * most) ** (2 / 3)))
        scales = (
            calibrate.laplace_scale(plan.steps, first),
            calibrate.laplace_scale(2 * most * plan.steps, plan.epsilon - first),
        )
        units = [math.ldexp(scale, -plan.k) for scale in scales]
        wanted = np.broadcast_to(np.asarray(thresholds(*units), dtype=np.float64).ravel(), statistic.dimension)
        if np.isnan(wanted).any():
            raise PluginError("A threshold is not a number.", "Thresholds follow from public numbers.")
        far = float(2**1000)  # beyond any value
        steps = [int(step) for step in np.rint(np.clip(np.ldexp(wanted, plan.k), -far, far))]

        def draw() -> NDArray[np.bool_]:
            values = integers(self._table.value(plan.copy, plan.k))
            gaps = clamped([value - step for value, step in zip(values, steps, strict=True)])
            return noises.sampler().sparse_vector(gaps, scales, most)

        record = plan.at(scales[1])
        reached = self._perform(record, [Pure(plan.epsilon)], draw, np.zeros(statistic.dimension, dtype=np.bool_))
        return SparseVectorAnswers(reached, units[0], units[1], record)

    @overload
    def permutation_test(self, statistic: OfPermutations, *, alpha: float, share: object = None) -> bool: ...
    @overload
    def permutation_test(self, statistic: OfPermutations, *, alpha: None = None, share: object = None) -> float: ...
    def permutation_test(
        self, statistic: OfPermutations, *, alpha: float | None = None, share: object = None
    ) -> bool | float:
        """Compare a statistic with its values on random rearrangements of the rows.

        Parameters
        ----------
        statistic : OfPermutations
            The values, that of the table as it is first. Large values speak against the null hypothesis.
        alpha : float, optional
            Level of a decision. Without it the p-value is released, which takes twice the noise.
        share : number or fraction, optional
            As for `sum`.

        Returns
        -------
        bool or float
            Whether the null hypothesis is rejected at level alpha; without alpha, the p-value.

        Raises
        ------
        ArgumentError, BudgetExceeded, ReadError
            As for `measure`.

        Notes
        -----
        Every value gets Laplace noise, and p is the place of the first among all B + 1, divided by B + 1. Under
        the null hypothesis they are exchangeable, so the level is exact. docs/explanation/statistics.md has the
        proofs: of the decision with noise of scale 2 Delta / epsilon [1]_, of the p-value with twice that.

        References
        ----------
        .. [1] Kim and Schrab (2023). Differentially private permutation tests. arXiv:2310.19043.
        """
        if alpha is not None:
            as_probability(alpha, "alpha")
        self._refuse_several("This compares the table with its rearrangements")
        what = "the p-value" if alpha is None else f"the decision at level {alpha:g}"
        plan = self._plan_decision(statistic, share, f"{what} of {statistic.describe()}", "permutation test")
        scale = calibrate.laplace_scale((4 if alpha is None else 2) * plan.steps, plan.epsilon)
        count = plan.copy.dimension

        def draw() -> bool | float:
            sampler = noises.sampler()
            values = moved(self._table.value(plan.copy, plan.k, sampler.generator()))
            if alpha is None:
                return sampler.permutation_rank(values, scale) / count
            return sampler.permutation_decision(values, scale, math.floor(exact(alpha) * count))

        blank: bool | float = 1.0 if alpha is None else False
        return self._perform(plan.at(scale), [Pure(plan.epsilon)], draw, blank)

    def discover(
        self,
        columns: Column | Sequence[Column],
        *,
        domain: Sequence[Category] | str | None = None,
        share: object = None,
    ) -> DiscoveredKeys:
        r"""Find the keys that enough rows hold, and about how many rows that is.

        Parameters
        ----------
        columns : Column or sequence of Column
            Where the keys are. They need have neither bounds nor categories. A key is a value of one column, or a
            tuple with one of each of several. Values are compared as categories are: numbers as float64, True and
            False as 1 and 0, bytes as the text they say. Missing values, dates and texts of more than 256
            characters are no keys. A column with categories is asked for those only.
        domain : list, range, or str, optional
            All keys that one column may hold, from knowledge outside the data, however many: a list, a range of
            whole numbers, or a pattern of texts such as ``"[A-Z][0-9]{2}"``, which has characters, sets of them,
            ``\d`` for a digit, and in braces how often each is there. What is none of them is no key.
        share : number or fraction, optional
            As for `sum`; without a domain it needs a delta.

        Returns
        -------
        DiscoveredKeys
            The keys whose noisy count reaches a threshold. Without a domain, a key that no row holds is never among
            them, and one that a single row holds with probability delta at most. With one, any may be: of those
            that no row holds 0.05 on average, at most. All keys, exact and free, if the columns are public.

        Raises
        ------
        ArgumentError, SchemaError
            If there is neither a delta nor a domain, or none that can be used; nothing was charged.
        BudgetExceeded, ReadError
            As for `measure`.

        Notes
        -----
        The counts of the keys that occur get discrete Laplace noise of scale 1 / epsilon, or 2 / epsilon where a
        row may change its key, and are shown from a threshold on [1]_; docs/explanation/statistics.md proves it.
        Memory holds each different key once.

        With a domain it is pure: what comes out has the law of noise on all keys of the domain, of which those
        that no row holds are drawn only where they reach the threshold [2]_. That follows from public numbers, and
        a person may have several rows.

        References
        ----------
        .. [1] Korolova, Kenthapadi, Mishra and Ntoulas (2009). Releasing search queries and clicks privately. WWW.
        .. [2] Cormode, Procopiuc, Srivastava and Tran (2012). Differentially private summaries for sparse data.
           ICDT.
        """
        several = tuple(columns) if isinstance(columns, list | tuple) else (columns,)
        single = not isinstance(columns, list | tuple)
        if not several:
            raise PluginError("discover() was given no column.", "Name those that hold the keys.")
        if domain is not None:
            if not single:
                raise PluginError("discover() was given a domain for several columns.", "A domain is of one.")
            return self._within_domain(several[0], domain_of(domain), share)
        self._refuse_several("This shows keys that nobody declared")
        self._refuse_held()
        self._table.present()  # a copy without rows must not pay
        if self._table.agreed(several):
            return discovered(self._table.keys(several), 1, None, single=single)
        epsilon, delta = self._share(share)
        if not delta > 0:
            raise ArgumentError(
                "Keys that nobody declared can only be shown with a delta above zero.",
                "Protect the table with a delta, declare the categories, or say which values there can be.",
            )
        moved = 1 if self.neighbors == "add_remove" else 2  # a row leaves one key for another
        scale = calibrate.laplace_scale(moved, epsilon)
        threshold = calibrate.discovery_threshold(scale, delta)
        names = ", ".join(column.name for column in several)
        record = _of_keys(f"{names}, shown from {threshold} on", scale, moved, epsilon, delta)

        def draw() -> dict[Key, int]:
            return noises.sampler().discover(self._table.keys(several), scale, threshold)

        nothing: dict[Key, int] = {}
        noisy = self._perform(record, [Approximate(epsilon, delta)], draw, nothing)
        return discovered(noisy, threshold, record, single=single)

    def _within_domain(self, column: Column, domain: Domain, share: object) -> DiscoveredKeys:
        """Find the keys of a known domain that enough rows hold."""
        self._refuse_held()
        self._table.present()  # a copy without rows must not pay
        if self._table.agreed([column]):
            exactly = domain.keyed(domain.placed(self._table.keys([column])))
            return discovered(exactly, 1, None, single=True, domain=domain.size)
        epsilon, _ = self._share(share)
        moved = (1 if self.neighbors == "add_remove" else 2) * self._table.rows_each
        scale = calibrate.laplace_scale(moved, epsilon)
        threshold = calibrate.sparse_threshold(scale, domain.size)
        what = f"{column.name} among {domain.size:,}, shown from {threshold:,} on"
        record = _of_keys(what, scale, moved, epsilon, Fraction(0))

        def draw() -> dict[int, int]:
            counts = domain.placed(self._table.keys([column]))
            return noises.sampler().sparse(counts, domain.size, scale, threshold)

        nothing: dict[int, int] = {}
        places = self._perform(record, [Laplace(moved, scale, epsilon)], draw, nothing)
        return discovered(domain.keyed(places), threshold, record, single=True, domain=domain.size)

    def survey(
        self, columns: Sequence[Column], edges: Sequence[float], *, share: object = None
    ) -> tuple[SurveyedColumn, ...]:
        """Find for each of many columns, in one release, which values and kinds of values enough rows hold.

        Parameters
        ----------
        columns : sequence of Column
            The columns, each once. What was declared of them is not used.
        edges : sequence of float
            Edges of intervals of numbers, and of dates as days since 1970-01-01, rising. What lies beyond is in the
            first or the last.
        share : number or fraction, optional
            As for `sum`; it needs a delta.

        Returns
        -------
        tuple of SurveyedColumn
            For each column the numbers of rows with a number, or a date, in each interval, with a text, with
            nothing that can be used, and with each value that can be a key of `discover`: those that reach a
            threshold. What no row holds is never among them.

        Raises
        ------
        ArgumentError
            If there is no delta, or it is not below epsilon; nothing was charged.
        BudgetExceeded, ReadError
            As for `measure`.

        Notes
        -----
        A row has one kind of value in each column and one value at most, so p columns move 4p counts by 1 where a
        row changes, 2p where it comes or goes. All counts of what occurs get discrete Gaussian noise, whose scale
        grows with the root of p only, and are shown from a threshold on [1]_; docs/explanation/statistics.md proves
        it.

        References
        ----------
        .. [1] Lebeda and Retschmeier (2025). The correlated Gaussian sparse histogram mechanism. FORC.
        """
        plain = tuple(Column(column.name, public=column.public) for column in columns)
        if not plain or len(set(plain)) < len(plain):
            raise PluginError("survey() takes columns, each once.", "Name those that are wanted.")
        ends = np.asarray(edges, dtype=np.float64)
        self._refuse_several("This shows values that nobody declared")
        self._refuse_held()
        self._table.present()  # a copy without rows must not pay
        epsilon, delta = self._share(share)
        if not delta > 0:
            raise ArgumentError(
                "Values that nobody declared can only be shown with a delta above zero.",
                "Protect the table with a delta, or declare bounds and categories.",
            )
        own = 2 * len(plain)
        moved = own if self.neighbors == "add_remove" else 2 * own
        scale, threshold = calibrate.gaussian_discovery(moved, own, epsilon, delta)
        grid = calibrate.SURVEY_GRID
        record = MeasurementRecord(
            what=f"how many rows hold each value and kind of {len(plain)} columns, shown from {threshold} on",
            kind="discrete Gaussian",
            scale=math.ldexp(scale, -grid),
            grid=grid,
            sensitivity=math.sqrt(moved),
            epsilon=float(epsilon),
            delta=float(delta),
        )

        def draw() -> dict[Key, int]:
            counts = {key: count << grid for key, count in self._table.survey(plain, ends).items()}
            return noises.sampler().survey(counts, scale, threshold << grid)

        nothing: dict[Key, int] = {}
        noisy = self._perform(record, [Approximate(epsilon, delta)], draw, nothing)
        return surveyed(noisy, len(plain), threshold, record)

    def randomize(
        self,
        maps: RowLabels | Sequence[RowLabels],
        *,
        reach: int = 0,
        turns: NDArray[np.intp] | None = None,
        share: object = None,
    ) -> Messages:
        """Ask every row for one randomised message: the local model.

        Parameters
        ----------
        maps : RowLabels or sequence of RowLabels
            What a row's message is about, a place among as many in each map.
        reach : int
            Places on either side of the true one that are as likely as it is itself.
        turns : ndarray of int of shape (n,), optional
            Which of the maps each row's message is about, drawn without looking at the rows; default: the first.
        share : number or fraction, optional
            The part of the call's epsilon to spend; default: all that is left of it.

        Returns
        -------
        Messages
            One place for each row. Each depends on its own row only, so all together cost what one costs.

        Raises
        ------
        ArgumentError
            If the number of rows is private, or the arguments cannot be used; nothing was charged.
        BudgetExceeded
            If the account cannot pay; nothing was charged.
        ReadError
            If the rows could not be read; the charge stays.
        """
        self._refuse_several("This asks every row for a message")
        self._table.present()  # a copy without rows must not pay
        several: list[RowLabels] = [*maps] if isinstance(maps, list | tuple) else [maps]  # type: ignore[list-item]
        copies = copied(several)
        size = self.size
        if size is None or self.neighbors != "replace_one":
            raise ArgumentError(
                "One message a row tells how many rows there are, which is private here.",
                "Use neighbors='replace_one', and conditions on public columns only.",
            )
        whose = np.zeros(size, dtype=np.intp) if turns is None else np.asarray(turns)
        in_turn = whose.shape == (size,) and whose.dtype.kind == "i"
        if not in_turn or (size and not 0 <= whose.min() <= whose.max() < len(several)):
            raise PluginError("turns= must give the number of a map for each row.", "Leave it out for one map.")
        if len({each.places for each in several}) != 1:
            raise PluginError("All maps must have the same number of places.", "Use one number for all.")
        epsilon, _ = self._share(share)
        arc = Arc.within(epsilon, places=several[0].places, reach=reach)
        record = MeasurementRecord(
            what=f"one message a row, {several[0].describe()}",
            kind=f"randomised response among {arc.places} places",
            scale=float(arc.reach),
            grid=0,
            sensitivity=1.0,
            epsilon=float(epsilon),
            delta=0.0,
        )

        def draw() -> NDArray[np.int64]:
            return noises.sampler().arc(self._table.labels(copies, whose), arc)

        blank = np.zeros(size, dtype=np.int64)
        return Messages(self._perform(record, [Pure(epsilon)], draw, blank), arc, record)

    def _refuse_several(self, what: str) -> None:
        """Refuse what is proved for one row of a table where a person may have several."""
        unit = self._table.schema.unit
        if unit is not None:
            raise ArgumentError(
                f"{what}, and the privacy of that is proved for one row, not for up to {unit.max_rows} rows of one "
                f"{unit.column!r}.",
                f"Ask a table with one row each: view.per({unit.column!r}).agg(...).",
            )

    def _refuse_held(self) -> None:
        """Refuse what is not declared of a sample that holds what is."""
        frame = self._table.frame
        if isinstance(frame, SampledFrame) and not frame.frame.settled:
            raise ArgumentError(
                "A sample of a query, a stream or a cluster holds declared columns, and this looks beyond.",
                "Ask it of the whole table.",
            )

    def _noisy(
        self,
        measurand: RowFeatures | Statistic,
        noise: str,
        share: object,
        then: str,
        *,
        pool: bool,
        whole_units: bool = False,
        reveal: Reveal | None = None,
    ) -> NoisyValue:
        if noise not in NORMS:
            raise ArgumentError(f"noise={noise!r} is unknown.", f"Use one of {tuple(NORMS)!r}.")
        if then not in {"any", "gaussian"}:
            raise PluginError(f"then={then!r} is unknown.", 'Use "any" or "gaussian".')
        self._table.present()  # a copy without rows must not pay
        query = self._table.read(measurand).revealing(reveal)
        if self._table.agreed(query.looks_at):
            features = query.of if isinstance(query.of, RowFeatures) else None
            k = exact_exponent(features.radius(L2), BATCH_ROWS) if features else FINE
            steps = self._table.value(query.copy(), k)
            return measurement(query, np.ldexp(np.array([float(step) for step in steps]), -k), None)
        self._table.refuse_large(query)
        cost = self._share(share, gaussian=noise == "gaussian")
        if noise == "gaussian":
            check_delta(cost[1])
            self._gaussian_only |= then == "gaussian"
        whole_units &= (
            self._budget.basic_composition
        )  # elsewhere noise on units may be charged more; losses.Laplace
        about = (noise, whole_units, reveal, *cost)
        price = self._table.once(
            query, about, lambda: price_of(self._table, query, noise, *cost, whole_units=whole_units)
        )
        return self._drawn(query, price, pool=pool)

    def _joined(self, unused: list[RowFeatures], share: JointShare | None, features: RowFeatures) -> NoisyValue:
        if not unused or not self._within(features, unused.pop(), share):
            raise PluginError(
                f"{features.describe()} was asked for twice, or has a larger radius or dimension than was planned.",
                "Plan one part for each, with the largest.",
            )
        if share is None:
            return self.sum(features)
        query = Query.read(features)
        grid = Grid(share.k, steps_of(self._table, query, L2, share.k, sensitivity_of(self._table, query, L2)))
        cost = share.loss.epsilon, share.loss.delta
        return self._drawn(query, priced(query, "gaussian", grid, share.scale(grid.squared), cost))

    def _within(self, features: RowFeatures, planned: RowFeatures, share: JointShare | None) -> bool:
        """Whether a share covers features; none covers those over public columns."""
        if share is None:
            return self._table.agreed(features.columns)
        features = enforced(features)
        return features.radius(L2) <= planned.radius(L2) and features.dimension <= planned.dimension

    def _drawn(self, query: Query, price: Price, *, pool: bool = False) -> NoisyValue:
        """Take what is kept, or pay and draw. What was paid jointly is neither kept nor taken."""
        kept = self._kept if self._kept and self._kept.used and price.losses else None
        text = self._described(query, kept.origins) if kept else None
        if kept is None or text is None:
            return combined([self._new(query, price)], query)
        wanted = KeptMeasurement(0, "", price.noise, price.scale, price.grid.k)
        known = (
            [] if kept.fresh and not pool else [e for e in kept.like(text, price.noise) if e.grid >= wanted.grid]
        )
        if pool and kept.best([together(known)] if known else [], wanted) is not None:
            self._budget.spare(price.losses)
            return combined([self._taken(query, each, price) for each in known], query)
        if not pool and (best := kept.best(known, wanted)) is not None:
            self._budget.spare(price.losses)
            return combined([self._taken(query, best, price)], query)
        new = self._new(query, price, text)
        return combined([new, *(self._taken(query, each, price) for each in known if pool)], query)

    def _order(self, query: Query) -> NDArray[np.intp] | None:
        """Find the order in which the values are kept."""
        return self._table.once(query, ("order",), lambda: canonical_order(query.of))

    def _described(self, query: Query, origins: Origins) -> str | None:
        """Describe a measurement; of all groups, what it is of is described once."""
        about = ("description", query.reveal)
        what = self._table.once(query, about, lambda: describe_query(query, origins))
        return describe(what, self._table, origins)

    def _new(self, query: Query, price: Price, text: str | None = None) -> Drawn:
        """Pay, read and draw."""
        k, scale, noise = price.grid.k, price.scale, price.noise
        # What groups ask was copied when it was read, and whichever of them reads rows copies it then.
        copy = query if query.written and noise != "cube" else self._copy(query)

        def draw() -> NDArray[np.int64]:
            sampler = noises.sampler()

            def add(values: Integers) -> NDArray[np.int64]:
                if query.reveal is not None:  # of all groups at once
                    every = clamped(values).reshape(-1, query.dimension)
                    return sampler.revealed(every, scale, _chooser(query, price)).ravel()
                return cast("NDArray[np.int64]", getattr(sampler, noise)(clamped(values), scale))

            if noise == "cube":  # one draw for all coordinates of a group
                noisy = add(self._table.value(copy, k))
            else:
                noisy = self._table.perturbed(copy, k, (noise, scale, query.reveal), add)
            if self._kept is not None and text is not None:
                order = self._order(query)
                kept = noisy if order is None else noisy[order]
                self._kept.add(Measurement(text, noise, scale, k, sampler.private, kept))
            return noisy

        blank = np.zeros(query.dimension, dtype=np.int64)
        return Drawn(price.record, self._perform(price.record, price.losses, draw, blank))

    def _taken(self, query: Query, kept: KeptMeasurement, price: Price) -> Drawn:
        """Take what is kept, at no charge and without a look at the rows."""
        record = replace(price.record, scale=kept.scale, grid=kept.grid, epsilon=0.0, delta=0.0, reused=kept.at)

        def recall() -> NDArray[np.int64]:
            steps = cast("KeptMeasurements", self._kept).steps(kept)
            if steps.shape != (query.dimension,):
                raise LedgerError("A measurement in the ledger is damaged.", "Ask with fresh=True.")
            order = self._order(query)
            if order is None:
                return steps
            noisy = np.empty_like(steps)
            noisy[order] = steps
            return noisy

        cast("KeptMeasurements", self._kept).take(kept)
        return Drawn(record, self._perform(record, (), recall, np.zeros(query.dimension, dtype=np.int64)))

    def _plan_decision(self, statistic: Statistic, share: object, what: str, kind: str) -> Decision:
        if self._table.by:
            self._refuse_several("This decides by group")
        self._table.present()
        query = self._table.read(statistic)
        if self._table.agreed(query.looks_at):
            raise ArgumentError(
                f"{statistic.describe()} looks at public columns only.", "Compute it without a privacy budget."
            )
        self._table.refuse_large(query)
        epsilon, _ = self._share(share)
        about = "decision", epsilon
        grid = self._table.once(query, about, lambda: grid_for(self._table, query, math.inf, epsilon))
        return Decision(what, kind, epsilon, grid.k, math.ceil(grid.steps), self._copy(query))

    def _copy(self, query: Query) -> Query:
        """Copy what is to see rows, before anything is paid."""
        return query.copy()

    def _perform(
        self,
        record: MeasurementRecord,
        losses: Sequence[PrivacyLoss],
        draw: Callable[[], T],
        blank: T,  # noqa: ARG002 - for those who only plan
    ) -> T:
        """Pay, and only then read and draw."""
        if losses:
            self._budget.pay(losses, self._reserve(losses[-1]))
        drawn = draw()
        self.measured.append(record)
        return drawn

    def _share(self, share: object, *, gaussian: bool = False) -> tuple[Fraction, Fraction]:
        """Take a part of the call's epsilon and delta."""
        everything = share is None and self._left is _ALL  # arithmetic of fractions takes longer than the rest
        part = self._left if share is None else exact(share)
        if not (everything or 0 < part <= self._left):
            raise PluginError(
                f"A measurement asked for the share {part} of its call, of which {self._left} is left.",
                "The shares of a call's measurements must be positive and add up to at most 1.",
            )
        if self._gaussian_only and not gaussian:
            raise PluginError(
                "After then='gaussian' a call measured with other noise, for which nothing is reserved.",
                "Leave out then=.",
            )
        if everything:
            self._left = _NOTHING
            return self._budget.epsilon, self._budget.delta
        self._left -= part
        return self._budget.epsilon * part, self._budget.delta * part

    def _reserve(self, loss: PrivacyLoss) -> list[PrivacyLoss]:
        """Give what the call may lose after a loss, at its worst; docs/explanation/accounting.md proves it."""
        if not self._left:
            return []
        epsilon, delta = self._budget.epsilon * self._left, self._budget.delta * self._left
        if self._gaussian_only and isinstance(loss, Gaussian):
            with suppress(ArgumentError):  # its grid is too coarse for so small a delta
                scale = calibrate.gaussian_scale(loss.squared_sensitivity, loss.dimension, epsilon, delta)
                return [Gaussian(loss.squared_sensitivity, scale, loss.dimension, epsilon, delta)]
        return [Approximate(epsilon, delta) if delta else Pure(epsilon)]


def _chooser(query: Query, price: Price) -> Callable[[NDArray[np.int64]], NDArray[np.bool_]]:
    """Let a rule choose among noisy sums in steps, of which it sees those that are shown."""
    weights = np.broadcast_to(np.asarray(query.of.weights, dtype=np.float64), query.shape).ravel()
    reveal = cast("Reveal", query.reveal)

    def choose(steps: NDArray[np.int64]) -> NDArray[np.bool_]:
        chosen = np.asarray(reveal.next(shown(steps, price.grid.k) / weights, price.record.scale / weights))
        if chosen.shape != steps.shape or chosen.dtype != np.bool_:
            raise PluginError(
                f"{type(reveal).__name__}.next() must say of each number whether it is shown.",
                "Return an array of bool of the shape of its first argument.",
            )
        return chosen

    return choose


def _of_keys(what: str, scale: float, moved: int, epsilon: Fraction, delta: Fraction) -> MeasurementRecord:
    """Say in words how keys were counted."""
    return MeasurementRecord(
        what=f"how many rows hold each key of {what}",
        kind="discrete Laplace",
        scale=scale,
        grid=0,
        sensitivity=float(moved),
        epsilon=float(epsilon),
        delta=float(delta),
    )


class Planner(Curator):
    """A curator that reads nothing and charges nothing: it records what would be measured.

    Its measurements are of an empty table and without noise, so what a mechanism concludes from them is void.
    """

    def _copy(self, query: Query) -> Query:
        return query  # sees no rows

    def _described(self, query: Query, origins: Origins) -> str | None:
        fresh = self._kept is not None and self._kept.fresh
        return None if fresh else super()._described(query, origins)  # nothing is taken, and nothing kept

    def _perform(
        self,
        record: MeasurementRecord,
        losses: Sequence[PrivacyLoss],  # noqa: ARG002 - it is for nothing
        draw: Callable[[], T],  # noqa: ARG002
        blank: T,
    ) -> T:
        self.measured.append(record)
        return blank


class Holder(Curator):
    """A curator for whoever holds the table: it shows rows as they are, and measures nothing private.

    The form of a method that takes no epsilon (`Mechanism.holds`) receives one.
    """

    def rows(self, *columns: Column) -> Batch:
        """Show rows, exactly: cleaned, and only those that the view selects.

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
        return self._table.gathered(columns, limited=False)

    def _share(self, share: object, *, gaussian: bool = False) -> tuple[Fraction, Fraction]:  # noqa: ARG002
        raise PluginError("Without an epsilon nothing private is measured.", "Compute it from rows().")
