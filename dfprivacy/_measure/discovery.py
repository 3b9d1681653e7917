"""Discovery of undeclared keys and values whose noisy number of rows reaches a threshold."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy._measure.steps import CallState
from dfprivacy._privacy import calibrate
from dfprivacy._privacy import samplers as noises
from dfprivacy._privacy.losses import Approximate, Laplace
from dfprivacy._table.domain import read_domain
from dfprivacy._table.keys import sort_keys
from dfprivacy._table.sample import SampledFrame
from dfprivacy.errors import ArgumentError, PluginError
from dfprivacy.release import DiscoveredKeys, MeasurementRecord, SurveyedColumn
from dfprivacy.schema.values import plain_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy._table.domain import Domain
    from dfprivacy._table.keys import Key
    from dfprivacy.schema import Category, Column

__all__ = ["KeyDiscovery"]


class KeyDiscovery(CallState):
    """Methods of a curator that find the keys and values whose noisy number of rows reaches a threshold."""

    def discover(
        self,
        columns: Column | Sequence[Column],
        *,
        domain: Sequence[Category] | str | None = None,
        share: object = None,
    ) -> DiscoveredKeys:
        r"""Find the keys (values, or tuples of values) whose noisy number of rows reaches a threshold.

        Parameters
        ----------
        columns : Column or sequence of Column
            Where the keys are. They need have neither bounds nor categories. A key is a value of one column, or a
            tuple with one of each of several. Values are compared as categories are: numbers as float64, True and
            False as 1 and 0, bytes as the text they say, a text that reads as a number as that number, and a date
            as its ISO text. Missing values and texts of more than 256 characters are no keys. A column with
            categories is asked for those only.
        domain : list, range, or str, optional
            All keys that one column may hold, from knowledge outside the data, however many: a list, a range of
            integers, or a pattern of texts such as ``"[A-Z][0-9]{2}"``, which has characters, sets of them,
            ``\d`` for a digit, and in braces how often each is there. What is none of them is no key.
        share : number or fraction, optional
            As for `sum`; without a domain it needs a delta.

        Returns
        -------
        DiscoveredKeys
            The keys with a noisy count of at least a threshold. Without a domain, a key that occurs in no row is
            never among them, and one that occurs in a single row is with probability delta at most. With a domain,
            at most 0.05 keys that occur in no row are, on average. All keys, exact and free, if the columns are
            public.

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
            raise PluginError("discover() was given no column.", "Name the columns that hold the keys.")
        if domain is not None:
            if not single:
                raise PluginError(
                    "discover() was given a domain for several columns.", "Name one column, or leave out domain=."
                )
            return self._discover_in_domain(several[0], read_domain(domain), share)
        self._require_single_rows("discover() shows undeclared keys")
        self._refuse_partial_sample()
        self._table.require_rows()  # a copy without rows must not pay
        if self._table.is_public(several):
            return _rank_keys(self._table.keys(several), 1, None, single=single)
        epsilon, delta = self._take_share(share)
        if not delta > 0:
            raise ArgumentError(
                "Undeclared keys can only be shown with a delta above zero.",
                "Protect the table with a delta, declare the categories, or give the possible values as domain=.",
            )
        moved = 1 if self.neighbors == "add_remove" else 2  # a row leaves one key for another
        scale = calibrate.laplace_scale(moved, epsilon)
        threshold = calibrate.discovery_threshold(scale, delta)
        names = ", ".join(column.name for column in several)
        record = _key_count_record(f"{names}, shown if at least {threshold}", scale, moved, epsilon, delta)

        def draw_noisy_counts() -> dict[Key, int]:
            return noises.sampler().discover(self._table.keys(several), scale, threshold)

        nothing: dict[Key, int] = {}
        noisy = self._pay_and_draw(record, [Approximate(epsilon, delta)], draw_noisy_counts, nothing)
        return _rank_keys(noisy, threshold, record, single=single)

    def _discover_in_domain(self, column: Column, domain: Domain, share: object) -> DiscoveredKeys:
        """Find the keys of a known domain whose noisy number of rows reaches a threshold."""
        self._refuse_partial_sample()
        self._table.require_rows()  # a copy without rows must not pay
        if self._table.is_public([column]):
            exactly = domain.counts_by_key(domain.counts_by_position(self._table.keys([column], as_written=True)))
            return _rank_keys(exactly, 1, None, single=True, domain=domain.size)
        epsilon, _ = self._take_share(share)
        moved = (1 if self.neighbors == "add_remove" else 2) * self._table.max_rows_per_person
        scale = calibrate.laplace_scale(moved, epsilon)
        threshold = calibrate.sparse_threshold(scale, domain.size)
        what = f"{column.name} in a domain of {domain.size:,}, shown if at least {threshold:,}"
        record = _key_count_record(what, scale, moved, epsilon, Fraction(0))

        def draw_noisy_counts() -> dict[int, int]:
            counts = domain.counts_by_position(self._table.keys([column], as_written=True))
            return noises.sampler().sparse_counts(counts, domain.size, scale, threshold)

        nothing: dict[int, int] = {}
        places = self._pay_and_draw(record, [Laplace(moved, scale, epsilon)], draw_noisy_counts, nothing)
        return _rank_keys(domain.counts_by_key(places), threshold, record, single=True, domain=domain.size)

    def survey(
        self, columns: Sequence[Column], edges: Sequence[float], *, share: object = None
    ) -> tuple[SurveyedColumn, ...]:
        """Find the values, and types of values, of many columns whose noisy number of rows reaches a threshold.

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
            threshold. What occurs in no row is never among them.

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
        plain = tuple(column.without_declarations() for column in columns)
        if not plain or len(set(plain)) < len(plain):
            raise PluginError("survey() was given no column, or a column twice.", "Name each column once.")
        ends = np.asarray(edges, dtype=np.float64)
        self._require_single_rows("survey() shows undeclared values")
        self._refuse_partial_sample()
        self._table.require_rows()  # a copy without rows must not pay
        epsilon, delta = self._take_share(share)
        if not delta > 0:
            raise ArgumentError(
                "Undeclared values can only be shown with a delta above zero.",
                "Protect the table with a delta, or declare bounds and categories.",
            )
        own = 2 * len(plain)
        moved = own if self.neighbors == "add_remove" else 2 * own
        scale, threshold = calibrate.gaussian_discovery(moved, own, epsilon, delta)
        grid = calibrate.SURVEY_GRID
        record = MeasurementRecord(
            what=f"the number of rows of each value or type of {len(plain)} columns, if at least {threshold}",
            kind="discrete Gaussian",
            scale=math.ldexp(scale, -grid),
            grid=grid,
            sensitivity=math.sqrt(moved),
            epsilon=float(epsilon),
            delta=float(delta),
        )

        def draw_noisy_counts() -> dict[Key, int]:
            counts = {key: count << grid for key, count in self._table.survey(plain, ends).items()}
            return noises.sampler().survey(counts, scale, threshold << grid)

        nothing: dict[Key, int] = {}
        noisy = self._pay_and_draw(record, [Approximate(epsilon, delta)], draw_noisy_counts, nothing)
        return _split_by_column(noisy, len(plain), threshold, record)

    def _refuse_partial_sample(self) -> None:
        """Refuse discovery on a sample that stores declared columns only."""
        frame = self._table.frame
        if isinstance(frame, SampledFrame) and not frame.frame.settled:
            raise ArgumentError(
                "A sample of a database, a stream or a cluster stores declared columns only, and this question "
                "reads other columns.",
                "Declare bounds= or categories= of these columns, or ask the view of the whole table.",
            )


def _key_count_record(what: str, scale: float, moved: int, epsilon: Fraction, delta: Fraction) -> MeasurementRecord:
    """Return the measurement record of counts of keys with Laplace noise."""
    return MeasurementRecord(
        what=f"the number of rows of each key of {what}",
        kind="discrete Laplace",
        scale=scale,
        grid=0,
        sensitivity=float(moved),
        epsilon=float(epsilon),
        delta=float(delta),
    )


def _rank_keys(
    counts: dict[Key, int],
    threshold: int,
    noise: MeasurementRecord | None,
    *,
    single: bool,
    domain: int | None = None,
) -> DiscoveredKeys:
    """Return keys sorted by noisy count, then by key, so that their order reveals nothing more."""
    ranked = sorted(sort_keys(counts).items(), key=lambda item: -item[1])
    return DiscoveredKeys(
        keys=tuple(plain_key(key[0] if single else key) for key, _ in ranked),
        counts=np.array([count for _, count in ranked], dtype=np.int64),
        threshold=threshold,
        scale=noise.scale if noise else 0.0,
        noise=noise,
        domain=domain,
    )


def _split_by_column(
    counts: dict[Key, int], columns: int, threshold: int, noise: MeasurementRecord
) -> tuple[SurveyedColumn, ...]:
    """Split noisy counts by column, and sort the values of each column by their counts."""
    rows = {key: math.ldexp(steps, -noise.grid) for key, steps in sort_keys(counts).items()}

    def counts_of_kind(place: int, kind: str) -> dict[Any, float]:
        return {plain_key(key[2]): count for key, count in rows.items() if key[:2] == (place, kind)}

    return tuple(
        SurveyedColumn(
            numbers=counts_of_kind(place, "number"),
            dates=counts_of_kind(place, "date"),
            text=counts_of_kind(place, "text").get(0, 0.0),
            nothing=counts_of_kind(place, "nothing").get(0, 0.0),
            values=dict(sorted(counts_of_kind(place, "value").items(), key=lambda item: -item[1])),
            threshold=threshold,
            scale=noise.scale,
        )
        for place in range(columns)
    )
