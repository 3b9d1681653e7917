"""Results of measurements: noisy values, records of their noise, and the privacy that was paid."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from dfprivacy.laws import NoiseLaw

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


class ConfidenceInterval(NamedTuple):
    """An interval, with scipy's names."""

    low: float
    high: float


@dataclass(frozen=True)
class MeasurementRecord:
    """Record of the noise in one measurement.

    Attributes
    ----------
    what : str
        What was measured.
    kind : str
        ``"discrete Laplace"``, ``"discrete Gaussian"`` or ``"K-norm (cube)"``.
    scale : float
        Its scale (b or sigma) in the units of the measured coordinates, weights included.
    grid : int
        The coordinates are integer multiples of 2 to the minus this.
    sensitivity : float
        L1 (Laplace), L2 (Gaussian) or L∞ (cube) sensitivity it was scaled to, in the same units, rounding included.
    epsilon, delta : float
        What it cost; 0 if it was kept in the ledger.
    reused : str
        When it was measured, if it was kept in the ledger: ISO 8601 in UTC. Else empty.
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
        sentence = (
            f"{self.kind} noise of scale {self.scale:.4g} on {self.what} (sensitivity {self.sensitivity:.4g})"
        )
        return f"{sentence}, measured on {_time(self.reused)} and reused at no charge" if self.reused else sentence


@dataclass(frozen=True)
class Privacy:
    """The privacy that was paid for a release.

    Attributes
    ----------
    epsilon, delta : float
        The price. It never exceeds what was asked.
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
        The column that says whose a row is, where the guarantee is about all rows of one person; else empty.
    max_rows : int
        How many rows of one person the result counts at most.
    question : str
        The call as it would be typed, without its price, and the columns by whose groups it was asked.
    where : tuple of str
        Which rows were asked, in words; empty where all were.
    sample : str
        The secret sample that was asked, in words; empty where no sample was drawn.
    found : tuple of str
        The columns whose bounds were found, not known, each with them and how many rows at most lie beyond.
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
        """Question, rows and table; empty for answers of old versions of dfprivacy."""
        if not self.question:
            return ""
        rows = f", where {' and '.join(self.where)}" if self.where else ""
        table = self.table or self.account
        of = f"{self.sample} of {table!r}" if self.sample else repr(table)
        return f"{self.question} of {of}{rows}"

    @property
    def note(self) -> str:
        """Sentence on the secret sample; empty if there is none."""
        of = f"“the table” means {self.sample}: its counts, sums and intervals are about the sample"
        return of if self.sample else ""

    @property
    def rows_note(self) -> str:
        """Sentence on answers that assume independent rows; empty if no person has several rows."""
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
        when = " and ".join(dict.fromkeys(_time(each.reused) for each in reused))
        if reused and not self.epsilon:
            return f"at no charge: computed from measurements of {when}"
        if not (self.epsilon or self.delta or self.noise):
            return "free: computed from public facts"
        kind = f"{self.epsilon:g}-differential privacy"
        if self.delta:
            kind = f"({self.epsilon:g}, {self.delta:g})-differential privacy"
        relation = {
            "replace_one": "tables that differ in the content of one row",
            "add_remove": "tables that differ by one row more or less",
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


def _time(at: str) -> str:
    """Shorten a time stamp to its second."""
    return at.partition(".")[0].partition("+")[0]


@dataclass(frozen=True)
class DiscoveredKeys:
    """Keys that enough rows have, as a mechanism receives them.

    Attributes
    ----------
    keys : tuple
        The keys, the largest noisy count first: texts and numbers, or tuples of them where several columns were
        named. True and False are 1 and 0.
    counts : ndarray of int
        The noisy number of rows that hold each. It is biased upwards near the threshold.
    threshold : int
        What a noisy count had to reach. Other keys, however many rows hold them, are not there.
    scale : float
        The scale of the Laplace noise in each count; 0 where the keys are public.
    noise : MeasurementRecord or None
        The same in words; None where the keys are public.
    domain : int or None
        How many keys there can be, where that is known: then any of them may be shown, though it occurs in no row.
    """

    keys: tuple[Any, ...]
    counts: NDArray[np.int64]
    threshold: int
    scale: float
    noise: MeasurementRecord | None
    domain: int | None = None

    @property
    def false(self) -> float:
        """Upper bound of the expected number of keys that are shown although no row has them."""
        if self.domain is None or not self.scale:
            return 0.0
        return self.domain * math.exp(-self.threshold / self.scale) / (1 + math.exp(-1 / self.scale))


@dataclass(frozen=True)
class SurveyedColumn:
    """Values that enough rows have in one column, with noisy numbers of rows, as a mechanism receives them.

    Attributes
    ----------
    numbers, dates : dict of int to float
        By interval, the rows with a number, or a date, in it.
    text, nothing : float
        The rows with a text, and those with nothing that can be used. 0 where it is not shown.
    values : dict
        By value, texts and numbers, the rows that hold it, the most frequent first.
    threshold : int
        What a number of rows had to reach. It is biased upwards near it.
    scale : float
        The standard deviation of the Gaussian noise in each.
    """

    numbers: Mapping[int, float]
    dates: Mapping[int, float]
    text: float
    nothing: float
    values: Mapping[Any, float]
    threshold: int
    scale: float


class Reveal(Protocol):
    """A rule that shows noisy sums step by step; the shown sums decide which sums are shown next.

    `Curator.sum` shows those and draws noise for no others. It is a frozen dataclass of public values, which are
    part of what the ledger keeps a measurement under.
    """

    def next(self, values: NDArray[np.float64], scales: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which sums are shown next.

        Parameters
        ----------
        values : ndarray of shape (groups, d)
            The noisy sums that were shown so far, of each group of a call, weights taken out; nan of all others.
        scales : ndarray of shape (d,)
            Scale of the noise in each.

        Returns
        -------
        ndarray of bool of shape (groups, d)
            Those that are, which may hold any that were. If all of them were, there are no more.
        """
        ...

    def describe(self) -> str:
        """Describe the rule in words."""
        ...


@dataclass(frozen=True)
class NoisyValue:
    """A noisy sum, as a mechanism receives it.

    Attributes
    ----------
    values : ndarray of the features' shape
        The noisy sums, weights taken out; nan where a `Reveal` did not show them.
    scales : ndarray of the features' shape
        The scale of the noise in each of them (b of the Laplace, sigma of the Gaussian); 0 where the sum is public.
    noise : MeasurementRecord or None
        The same in words; None where the sum is public.
    parts : tuple of NoisyValue
        Of a `~dfprivacy.features.Stack`: the sums of each feature, in its shape. Else empty.
    id : str
        What tells the measurement from all others, in every process. Empty where nothing is kept of it.
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
