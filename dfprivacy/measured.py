"""Results of measurements: noisy values, records of their noise, and the privacy that was paid."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from dfprivacy.laws import NoiseLaw
from dfprivacy.wording import significant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = [
    "ConfidenceInterval",
    "DiscoveredKeys",
    "MeasurementRecord",
    "NoisyValue",
    "Privacy",
    "Reveal",
    "SurveyedColumn",
]

_NORMS = {"Laplace": "L1", "Gaussian": "L2", "cube": "L∞"}  # of the sensitivity, by kind of noise


class ConfidenceInterval(NamedTuple):
    """Confidence interval with its ends, ``low`` and ``high``, named as in scipy."""

    low: float
    high: float


@dataclass(frozen=True)
class MeasurementRecord:
    """Record of one measurement: the measured quantity, its noise and its price.

    Attributes
    ----------
    what : str
        The measured quantity, in words.
    kind : str
        ``"discrete Laplace"``, ``"discrete Gaussian"`` or ``"K-norm (cube)"``; of decisions and messages the
        mechanism, such as ``"permute-and-flip"``.
    scale : float
        Its scale (b or sigma) in the units of the measured coordinates, weights included.
    grid : int
        The coordinates are integer multiples of 2 to the minus this.
    sensitivity : float
        L1 (Laplace), L2 (Gaussian) or L∞ (cube) sensitivity it was scaled to, in the same units, rounding included.
    epsilon, delta : float
        The price; 0 if the measurement was reused from the ledger.
    reused : str
        The time at which it was measured, ISO 8601 in UTC, if it was reused from the ledger; else empty.
    dimension : int
        Number of coordinates that noise of the cube was drawn for.
    """

    what: str
    kind: str
    scale: float
    grid: int
    sensitivity: float
    epsilon: float
    delta: float
    reused: str = ""
    dimension: int = 1

    @property
    def law(self) -> NoiseLaw:
        """Probability law of the noise in one coordinate."""
        step = math.ldexp(1.0, -self.grid)
        if "Gaussian" in self.kind:
            return NoiseLaw(self.scale, step, "Gaussian")
        return NoiseLaw(self.scale, step, "cube" if "cube" in self.kind else "Laplace", self.dimension)

    def __str__(self) -> str:
        scale, sensitivity = significant(self.scale, 4), significant(self.sensitivity, 4)
        norm = next((norm for law, norm in _NORMS.items() if law in self.kind), "")
        if norm:
            noise = "K-norm noise of the unit cube" if "cube" in self.kind else f"{self.kind} noise"
            how = f"with {noise} of scale {scale} ({norm} sensitivity {sensitivity})"
        elif self.kind.startswith("randomised response"):
            how = f"by {self.kind}, with a half-width of {scale}"
        else:
            how = f"by {self.kind} at scale {scale} (sensitivity {sensitivity})"
        sentence = f"{self.what}, {how}"
        return (
            f"{sentence}, measured on {_shorten_timestamp(self.reused)} and reused at no charge"
            if self.reused
            else sentence
        )


@dataclass(frozen=True)
class Privacy:
    """Privacy guarantee and price of a release, with the question and the measurements behind it.

    Attributes
    ----------
    epsilon, delta : float
        The price that was paid. It never exceeds the price of the question.
    neighbors : str
        The neighbouring relation that the guarantee is about.
    noise : tuple of MeasurementRecord
        Every measurement behind the release, in order.
    account : str
        The account that paid.
    table : str
        The table that was asked, with its edition; empty in answers of old versions of dfprivacy.
    mechanism : str
        The method, with the version of the distribution it comes from.
    at : str
        When it was released, ISO 8601 in UTC.
    sampler : str
        Where the randomness came from.
    private : bool
        False if a test-only sampler made the noise: then nothing is guaranteed.
    replayed : bool
        Whether this answer was kept in the ledger and cost nothing this time.
    unit : str
        The column that identifies people, if the guarantee is about all rows of one person; else empty.
    max_rows : int
        The largest number of rows of one person that the result counts.
    question : str
        The call as Python text, without its price, followed by the group columns.
    where : tuple of str
        The conditions on rows, in words; empty if all rows were asked.
    sample : str
        The secret sample that was asked, in words; empty if all rows were asked.
    found : tuple of str
        The columns whose bounds were found, not declared, with these bounds and the largest number of rows beyond.
    """

    epsilon: float
    delta: float
    neighbors: str
    noise: tuple[MeasurementRecord, ...]
    account: str
    mechanism: str
    at: str
    sampler: str
    private: bool = True
    replayed: bool = False
    unit: str = ""
    max_rows: int = 1
    question: str = ""
    where: tuple[str, ...] = ()
    sample: str = ""
    found: tuple[str, ...] = ()
    table: str = ""

    @property
    def title(self) -> str:
        """Title of the release: its question, rows and table; empty for answers of old versions of dfprivacy."""
        if not self.question:
            return ""
        rows = f", where {' and '.join(self.where)}" if self.where else ""
        table = self.table or self.account
        of = f"{self.sample} of {table!r}" if self.sample else repr(table)
        return f"{self.question} of {of}{rows}"

    @property
    def note(self) -> str:
        """Sentence on the secret sample that was asked; empty if all rows were asked."""
        of = f"“the table” means {self.sample}: its counts, sums and intervals are about the sample"
        return of if self.sample else ""

    @property
    def rows_note(self) -> str:
        """Sentence of warning if a person may have several rows, which are not independent; else empty."""
        if self.max_rows <= 1:
            return ""
        return (
            f"Up to {self.max_rows} rows of one {self.unit!r} are correlated, and standard errors, p-values and "
            "intervals for the population assume independent rows: they are too small. Ask "
            f"view.per({self.unit!r})."
        )

    @property
    def found_note(self) -> str:
        """Sentence on bounds that were found; empty if no bounds were found."""
        values = "Values beyond them count as the nearest bound."
        return f"Bounds were found, not declared: {'; '.join(self.found)}. {values}" if self.found else ""

    @property
    def guarantee(self) -> str:
        """Privacy guarantee in words."""
        if not self.private:
            return "NOT PRIVATE: the noise came from a test-only sampler"
        reused = [each for each in self.noise if each.reused]
        when = " and ".join(dict.fromkeys(_shorten_timestamp(each.reused) for each in reused))
        if reused and not self.epsilon:
            return f"at no charge: computed from measurements of {when}"
        if not (self.epsilon or self.delta or self.noise):
            return "free: computed from public facts"
        kind = f"{self.epsilon:g}-differential privacy"
        if self.delta:
            kind = f"({self.epsilon:g}, {self.delta:g})-differential privacy"
        relation = {
            "replace_one": "tables that differ in the content of one row",
            "add_remove": "tables that differ by one row, added or removed",
        }[self.neighbors]
        if self.unit:
            relation = {
                "replace_one": f"tables in which all rows of one {self.unit!r} are exchanged for those of another",
                "add_remove": f"tables that differ by all rows of one {self.unit!r}",
            }[self.neighbors]
        return f"{kind} for {relation}" + (f", in addition to measurements of {when}" if reused else "")

    def __str__(self) -> str:
        again = f", answered on {self.at} and replayed at no charge" if self.replayed else ""
        return f"{self.guarantee}{again}" + (f"; {self.note}" if self.note else "")


def _shorten_timestamp(at: str) -> str:
    """Return a timestamp without fractions of seconds and time zone."""
    return at.partition(".")[0].partition("+")[0]


@dataclass(frozen=True)
class DiscoveredKeys:
    """Keys whose noisy number of rows reaches a threshold, as `Curator.discover` returns them.

    Attributes
    ----------
    keys : tuple
        The keys, the largest noisy count first: texts and numbers, or tuples of them if several columns were named.
        True and False are 1 and 0.
    counts : ndarray of int
        The noisy number of rows of each key, which is biased upwards near the threshold.
    threshold : int
        The smallest noisy count of a key that is returned.
    scale : float
        The scale of the Laplace noise in each count; 0 where the keys are public.
    noise : MeasurementRecord or None
        The same in words; None where the keys are public.
    domain : int or None
        Number of possible keys, if a domain was declared: then a key may be returned though it occurs in no row.
    """

    keys: tuple[Any, ...]
    counts: NDArray[np.int64]
    threshold: int
    scale: float
    noise: MeasurementRecord | None
    domain: int | None = None

    @property
    def false(self) -> float:
        """Upper bound of the expected number of false positives: returned keys that occur in no row."""
        if self.domain is None or not self.scale:
            return 0.0
        return self.domain * math.exp(-self.threshold / self.scale) / (1 + math.exp(-1 / self.scale))


@dataclass(frozen=True)
class SurveyedColumn:
    """Values that ``curator.survey`` found in one column: those with a noisy number of rows above a threshold.

    Attributes
    ----------
    numbers, dates : dict of int to float
        Noisy numbers of rows with a number, or a date, by position of the interval.
    text, nothing : float
        Noisy numbers of rows with a text, and without any usable value; 0 if below the threshold.
    values : dict
        Noisy number of rows by value (text or number), the most frequent first.
    threshold : int
        The smallest noisy number of rows that is returned; numbers near it are biased upwards.
    scale : float
        The standard deviation of the Gaussian noise in each number.
    """

    numbers: Mapping[int, float]
    dates: Mapping[int, float]
    text: float
    nothing: float
    values: Mapping[Any, float]
    threshold: int
    scale: float


class Reveal(Protocol):
    """Rule that reveals noisy sums step by step: the revealed sums decide which sums are revealed next.

    `Curator.sum` draws noise for the revealed sums only. A rule is a frozen dataclass of public values, which
    are part of the description of a kept measurement.
    """

    def next(self, values: NDArray[np.float64], scales: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return a mask of the sums to reveal next.

        Parameters
        ----------
        values : ndarray of shape (groups, d)
            The noisy sums that are revealed so far, of each group of a call, divided by the weights; else NaN.
        scales : ndarray of shape (d,)
            Scale of the noise in each sum.

        Returns
        -------
        ndarray of bool of shape (groups, d)
            True for each sum to reveal. If all of these are revealed already, the rule ends.
        """
        ...

    def describe(self) -> str:
        """Return a description of the rule in words."""
        ...


@dataclass(frozen=True)
class NoisyValue:
    """Noisy sums, or the noisy value of a statistic, as `Curator.sum` and `Curator.measure` return them.

    Attributes
    ----------
    values : ndarray of the features' shape
        The noisy sums, divided by the weights; NaN for sums that a `Reveal` did not reveal.
    scales : ndarray of the features' shape
        The scale of the noise in each of them (b of the Laplace, sigma of the Gaussian); 0 where the sum is public.
    noise : MeasurementRecord or None
        The same in words; None where the sum is public.
    parts : tuple of NoisyValue
        Of a `~dfprivacy.features.Stack`: the sums of each feature, in its shape. Else empty.
    id : str
        Unique id of the measurement in all processes; empty if it is not kept.
    """

    values: NDArray[np.float64]
    scales: NDArray[np.float64]
    noise: MeasurementRecord | None
    parts: tuple[NoisyValue, ...] = ()
    id: str = ""

    @property
    def law(self) -> NoiseLaw:
        """Probability law of the noise in the noisiest coordinate; of scale 0 if the sum is public."""
        scale = float(np.max(self.scales))
        if self.noise is None:
            return NoiseLaw(scale)
        law = self.noise.law
        return replace(law, scale=scale, step=law.step * (scale / self.noise.scale))
