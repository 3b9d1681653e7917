"""Harness that runs a mechanism in an audit, with replayed noise and recorded reads and charges.

Views, questions and curators are real; the table, the account and the noise write down everything. The decisive
prop is `Replay`, a sampler that gives the same noisy sums whatever the true ones are, and writes those down. Under
it everything right of a measurement must come out the same on every table, to the last bit; and the true sums
are what the closed form of the privacy loss is about.
"""

from __future__ import annotations

import copy
import functools
import io
import itertools
import json
import logging
import math
import random
import time
import uuid
import warnings
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar
from unittest import mock

import numpy as np

from dfprivacy._call.payment import Target
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._measure.curator import Curator
from dfprivacy._measure.evaluate import Table
from dfprivacy._privacy import response
from dfprivacy._privacy import samplers as noise
from dfprivacy._privacy.filters import Accountant, exact
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import ColumnsFrame, Frame, Read
from dfprivacy._table.frames.columns import read_column
from dfprivacy.errors import DPError
from dfprivacy.features import RowFeatures
from dfprivacy.local import RowLabels
from dfprivacy.schema.values import Dictionary, Raw
from dfprivacy.statistics import Statistic
from dfprivacy.testing import SeededSampler
from dfprivacy.view import GroupedView, PrivateFrame

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy._call.question import Question
    from dfprivacy._ledger.accounts import Account
    from dfprivacy._ledger.calls import KeptAnswer
    from dfprivacy._privacy.losses import PrivacyLoss
    from dfprivacy.mechanism import Mechanism
    from dfprivacy.release import Release
    from dfprivacy.schema import Schema
    from dfprivacy_audit.cases import Case, Row

__all__ = [
    "ADDED",
    "DECISIONS",
    "DISCOVERY",
    "SECONDS",
    "SPARSE",
    "SURVEY",
    "Draw",
    "EndOfRun",
    "Failed",
    "Harness",
    "Measurement",
    "MemoryFrame",
    "Recording",
    "RecordingAccount",
    "Replay",
    "Skipped",
]

ADDED = frozenset({"laplace", "gaussian", "cube"})
"""The kinds of noise that are added to values."""

DECISIONS = ("arc", "selection", "sparse vector", "rank", "test")
"""Kinds of draws whose loss is charged as a whole."""

DISCOVERY = "discovery"
"""The kind of draw that shows the keys that occur in enough rows, whose loss is charged with a delta."""

SPARSE = "sparse"
"""The kind that does so among all keys of a known domain, whose loss is that of Laplace noise on all of them."""

SURVEY = "survey"
"""The same with Gaussian noise, of several keys a row."""

T = TypeVar("T")

_VERBS = ("sum", "jointly", "measure", "select", "above_threshold", "permutation_test", "randomize")
_KINDS = (RowFeatures, Statistic, RowLabels)

SECONDS = 120
"""Seconds of CPU that a check may take."""


class Failed(AssertionError):  # noqa: N818 - reads as the sentence it is
    """Raised if a mechanism fails a check; the text gives the reason."""


class Skipped(Exception):  # noqa: N818
    """Raised if a check does not apply or takes too long; the text gives the reason."""


_ends: list[float] = []  # when the check that runs has to end


@contextmanager
def time_limit() -> Iterator[None]:
    """Set the time limit of the check that runs in this context; `check_time_limit` enforces it."""
    _ends.append(time.process_time() + SECONDS)
    try:
        yield
    finally:
        _ends.pop()


def check_time_limit() -> None:
    """Raise `Skipped` if the time limit of the check has passed; called before each run of a mechanism."""
    if _ends and time.process_time() > _ends[-1]:
        raise Skipped(f"not finished in {SECONDS} s")


class MemoryFrame(ColumnsFrame):
    """Table in memory with batches of any size, which logs each read and can raise an error at a read.

    Parameters
    ----------
    names : sequence of str
        Its columns.
    rows : sequence of dict
        Its rows.
    log : list of str
        Where it writes ``"read"`` whenever private columns are read.
    public : sequence of str or None
        Columns that anybody may read; None if not even their number of rows is public.
    batch : int, optional
        Rows in a batch, at most.
    fail : str, optional
        Text of an error to raise while private rows are read.
    """

    def __init__(
        self,
        names: Sequence[str],
        rows: Sequence[Row],
        log: list[str],
        *,
        public: Collection[str] | None = None,
        batch: int | None = None,
        fail: str = "",
    ) -> None:
        super().__init__({name: _objects([row[name] for row in rows]) for name in names})
        self._log, self._fail, self._batch = log, fail, batch
        self._public = None if public is None else frozenset(public)
        self._raw: dict[Read, Raw] = {}

    def identifier_kind(self, name: str) -> str:
        """Return "Python objects" for each column of the table, as any may identify people; else ""."""
        return "Python objects" if name in self.columns else ""

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Yield the rows in batches of at most `size`."""
        private = self._public is None or any(read.name not in self._public for read in reads)
        if private:
            self._log.append("read")
        for start in range(0, self.rows(), step := min(size, self._batch or size)):
            stop = min(start + step, self.rows())
            if private and self._fail and stop == self.rows():
                raise RuntimeError(self._fail)
            yield stop - start, {read: _sliced(self._column(read), start, stop) for read in reads}

    def _column(self, read: Read) -> Raw:
        if read not in self._raw:
            self._raw[read] = read_column(self._columns[read.name], read)
        return self._raw[read]


def _objects(values: Sequence[object]) -> NDArray[Any]:
    """Return the values as an array of objects."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _sliced(column: Raw, start: int, stop: int) -> Raw:
    if isinstance(column, Dictionary):
        return Dictionary(column.codes[start:stop].copy(), column.values)
    return column[start:stop].copy()


@cache
def _accountant(epsilon: str | float, delta: str | float) -> Accountant:
    return Accountant.open("basic", exact(epsilon), exact(delta))


class RecordingAccount:
    """Account for tests that accepts and records every charge, and never reuses an answer."""

    ledger = SimpleNamespace(where="nowhere")
    key = ""

    def __init__(self, case: Case, log: list[str], name: str = "audit") -> None:
        self.name = name
        # It pays whatever is asked; the accountant only says how much that is.
        self.accountant = _accountant(case.epsilon, case.delta)
        self.charges: list[PrivacyLoss] = []
        self.kept: dict[str, Any] = {}
        self._log = log

    def spent(self) -> Any:
        """Return the accountant's state without charges, whatever was charged."""
        return self.accountant.no_charges

    basic_composition = True
    keeps_measurements = False

    def largest(self, *kind: Any) -> Fraction:
        """Return the largest loss that the accountant allows if nothing was spent."""
        return self.accountant.largest(self.accountant.no_charges, *kind)

    def default_delta(self, epsilon: Fraction) -> Fraction:
        """Return the delta that the accountant takes by default."""
        return self.accountant.default_delta(epsilon)

    def charge(
        self,
        *losses: PrivacyLoss,
        call: str,  # noqa: ARG002
        mechanism: str,  # noqa: ARG002
        reserve: Sequence[PrivacyLoss] = (),  # noqa: ARG002
        also: Sequence[RecordingAccount] = (),
    ) -> int:
        """Record the privacy losses of a charge, also in further accounts; return the number of losses so far."""
        for till in (self, *also):
            till.charges += losses
        self._log.append("charge")
        return len(self.charges)

    def answer(self, *questions: str) -> KeptAnswer | None:  # noqa: ARG002
        """Return None: no answer is kept."""
        return None

    def measurements(self, key: str | None = None, *, private: bool) -> dict[Any, Any]:  # noqa: ARG002
        """Return an empty dictionary: no measurements are kept."""
        return {}

    def keep(self, *, release: dict[str, Any] | None, **_: Any) -> None:
        """Keep the release, and forget any earlier release."""
        self.kept = release or {}


@dataclass(frozen=True)
class Draw:
    """Record of a draw of noise: the exact sums in multiples of the grid step, and the noise scale.

    Of a decision, also the loss for each step of difference, and whatever else the chances depend on: its law,
    which must be the same on all tables. Of keys that were looked for, those that the sums are of.
    """

    kind: str
    sums: NDArray[np.int64]
    scale: float
    loss: Fraction = Fraction(0)
    law: Any = None
    keys: tuple[Any, ...] = ()


class EndOfRun(BaseException):
    """Raised to end a run after its last measurement, without a conclusion."""


class Replay:
    """Sampler that replays recorded noisy sums, so that they do not depend on the true sums.

    Parameters
    ----------
    seed : int
        Seed of the pseudo-random noise that is added to the true sums after the end of the transcript.
    transcript : sequence of (str, answer), optional
        The noisy sums, and what else was answered, to give in order, each to a draw of its kind.
    until : int, optional
        Number of draws after which it raises `EndOfRun`; by default it never does.

    Attributes
    ----------
    draws : list of Draw
        The requested draws.
    given : list of (str, answer)
        The kind and the answer of each draw, which are the transcript for another table.
    opaque : bool
        Whether it was asked for anything else than it can replay.
    """

    name = "NOT PRIVATE: replayed noise for audits"
    private = False

    def __init__(
        self, seed: int = 1, transcript: Sequence[tuple[str, Any]] | None = None, until: int | None = None
    ) -> None:
        self.draws: list[Draw] = []
        self.given: list[tuple[str, Any]] = []
        self.opaque = False
        self._seed = seed
        self._transcript = transcript
        self._until = until

    @cached_property
    def _seeded(self) -> SeededSampler:
        return SeededSampler(self._seed)

    def laplace(self, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """Record a draw of Laplace noise, and return replayed noisy sums."""
        return self._noisy_sums("laplace", values, scale)

    def revealed(self, values: NDArray[np.int64], scale: float, choose: noise.Choose) -> NDArray[np.int64]:
        """Record a draw of Laplace noise for sums that are revealed stepwise, and return replayed noisy sums."""
        noisy = self.laplace(values, scale)
        return noise.reveal_step_by_step(values.shape, choose, lambda more: noisy[more])

    def gaussian(self, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """Record a draw of Gaussian noise, and return replayed noisy sums."""
        return self._noisy_sums("gaussian", values, scale)

    def cube(self, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """Record a draw of cube noise, and return replayed noisy sums."""
        return self._noisy_sums("cube", values, scale)

    def arc(self, labels: NDArray[np.int64], arc: response.Arc) -> NDArray[np.int64]:
        """Record a draw of randomized response, and return replayed messages, one for each row."""
        response.check_labels(labels, arc)
        draw = Draw("arc", labels.copy(), float(arc.reach), arc.epsilon, arc)
        return self._transcript_answer(draw, lambda: self._seeded.arc(labels, arc), labels.shape)

    def noisy_top_k(self, values: NDArray[np.int64], scale: float, k: int, *, flip: bool) -> list[int]:
        """Record a top-k selection, and return the replayed indices."""
        draw = Draw("selection", values.copy(), scale, 2 * k / Fraction(scale), (k, flip))
        return self._recorded_answer(draw, lambda: self._seeded.noisy_top_k(values, scale, k, flip=flip))

    def sparse_vector(self, gaps: NDArray[np.int64], scales: tuple[float, float], most: int) -> NDArray[np.bool_]:
        """Record comparisons with thresholds by the sparse vector technique, and return the replayed outcomes."""
        noise.check_noise_arguments(gaps, scales[0])
        loss = 1 / Fraction(scales[0]) + 2 * most / Fraction(scales[1])
        draw = Draw("sparse vector", gaps.copy(), scales[1], loss, (scales, most))
        return self._recorded_answer(draw, lambda: self._seeded.sparse_vector(gaps, scales, most))

    def permutation_rank(self, values: NDArray[np.int64], scale: float) -> int:
        """Record a draw of the noisy rank of a permutation test, and return the replayed rank."""
        draw = Draw("rank", values.copy(), scale, 4 / Fraction(scale))
        return self._recorded_answer(draw, lambda: self._seeded.permutation_rank(values, scale))

    def permutation_decision(self, values: NDArray[np.int64], scale: float, most: int) -> bool:
        """Record a draw of the decision of a permutation test, and return the replayed decision."""
        draw = Draw("test", values.copy(), scale, 2 / Fraction(scale), most)
        return self._recorded_answer(draw, lambda: self._seeded.permutation_decision(values, scale, most))

    def discover(self, counts: Mapping[Any, int], scale: float, threshold: int) -> dict[Any, int]:
        """Record a search for frequent keys with Laplace noise, and return replayed keys and counts."""
        draw = Draw(DISCOVERY, _key_counts(counts), scale, 1 / Fraction(scale), (scale, threshold), tuple(counts))
        return self._recorded_answer(draw, lambda: self._seeded.discover(counts, scale, threshold))

    def survey(self, counts: Mapping[Any, int], scale: float, threshold: int) -> dict[Any, int]:
        """Record a search for frequent keys with Gaussian noise, and return replayed keys and counts."""
        draw = Draw(SURVEY, _key_counts(counts), scale, law=threshold, keys=tuple(counts))
        return self._recorded_answer(draw, lambda: self._seeded.survey(counts, scale, threshold))

    def sparse_counts(self, counts: Mapping[int, int], size: int, scale: float, threshold: int) -> dict[int, int]:
        """Record a search for frequent keys of a known domain, and return replayed keys and counts."""
        law = scale, threshold, size
        draw = Draw(SPARSE, _key_counts(counts), scale, 1 / Fraction(scale), law, tuple(counts))
        return self._recorded_answer(draw, lambda: self._seeded.sparse_counts(counts, size, scale, threshold))

    def generator(self) -> np.random.Generator:
        """Return a random generator that is the same on all tables."""
        return np.random.default_rng(self._seed)

    def _noisy_sums(self, kind: str, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """Record a draw; return replayed noisy sums, else noise alone, or without a transcript sums with noise."""
        start = values if self._transcript is None else np.zeros_like(values)
        return self._recorded_answer(
            Draw(kind, values.copy(), scale), lambda: getattr(self._seeded, kind)(start, scale), values.shape
        )

    def _recorded_answer(self, draw: Draw, answer: Callable[[], T], shape: tuple[int, ...] | None = None) -> T:
        noise.check_noise_arguments(draw.sums, draw.scale)
        return self._transcript_answer(draw, answer, shape)

    def _transcript_answer(self, draw: Draw, answer: Callable[[], T], shape: tuple[int, ...] | None) -> T:
        """Record a draw; return the transcript's answer to it if kind and shape agree, else a new answer."""
        at = len(self.draws)
        self.draws.append(draw)
        transcript = self._transcript or ()
        told: tuple[str, Any] = transcript[at] if at < len(transcript) else ("", None)
        known = told[0] == draw.kind and shape in (None, np.shape(told[1]))
        given: T = copy.copy(told[1]) if known else answer()
        self.given.append((draw.kind, given))
        if len(self.given) == self._until:
            raise EndOfRun
        return given

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        drawer = getattr(noise.OpenDPSampler(), name)
        self.opaque = True
        return drawer


def _key_counts(counts: Mapping[Any, int]) -> NDArray[np.int64]:
    return np.array([*counts.values()], dtype=np.int64)


@dataclass(frozen=True)
class Recording:
    """Record of a run of a mechanism: its draws, charges, messages and outcome.

    Attributes
    ----------
    draws : tuple of Draw
        The noise it asked for.
    charges : tuple of PrivacyLoss
        What it paid.
    log : tuple of str
        Charges and reads, in order.
    release : Release or None
        What it released, None if it failed.
    error : BaseException or None
        How it failed.
    messages : tuple of str
        Its warnings, its log messages, and what it printed.
    given : tuple of (str, answer)
        The noisy sums it received, each with the kind of its draw.
    opaque : bool
        Whether it used noise that cannot be replayed.
    second : tuple of PrivacyLoss or None
        What the account of the second view paid, if there is one.
    """

    draws: tuple[Draw, ...]
    charges: tuple[PrivacyLoss, ...]
    log: tuple[str, ...]
    release: Release | None
    error: BaseException | None
    messages: tuple[str, ...]
    given: tuple[tuple[str, Any], ...] = field(repr=False)
    opaque: bool
    second: tuple[PrivacyLoss, ...] | None = None

    @property
    def refused(self) -> bool:
        """Whether the call was refused before anything was charged or read."""
        return isinstance(self.error, DPError) and not self.log

    @property
    def stopped(self) -> bool:
        """Whether the call was ended after its last draw, without a conclusion."""
        return isinstance(self.error, EndOfRun)

    @property
    def replayable(self) -> bool:
        """Whether all charges are for noise that can be replayed."""
        pure = any(draw.kind in DECISIONS for draw in self.draws)
        known = ADDED | ({"pure", "bounded range"} if pure else set())
        known |= {"approximate"} if any(draw.kind in {DISCOVERY, SURVEY} for draw in self.draws) else set()
        return not self.opaque and all(loss.kind in known for loss in self.charges)

    @property
    def epsilon(self) -> Fraction:
        """Sum of the charged epsilons."""
        return sum((loss.epsilon for loss in self.charges), Fraction(0))

    @property
    def delta(self) -> Fraction:
        """Sum of the charged deltas."""
        return sum((loss.delta for loss in self.charges), Fraction(0))

    @cached_property
    def outcome(self) -> str:
        """Result or error of the run and its messages, as a text with all digits of numbers."""
        if self.release is None:
            return "\n".join([f"{type(self.error).__name__}: {self.error}", *self.messages])
        plain = self.release.to_dict()
        plain["privacy"] = {k: v for k, v in plain["privacy"].items() if k not in {"at", "sampler"}}
        return "\n".join([json.dumps(plain), *self.messages])  # keys as they come: their order can be seen


@dataclass(frozen=True)
class Harness:
    """Harness that runs a mechanism in a case, with replayed noise and recorded charges."""

    mechanism: Mechanism
    case: Case

    def frame(self, rows: Sequence[Row], log: list[str] | None = None, **options: Any) -> MemoryFrame:
        """Return the rows as a table that logs reads."""
        public = self.case.public if self.case.neighbors == "replace_one" else None
        return MemoryFrame(self.case.columns, rows, [] if log is None else log, public=public, **options)

    def parts(self, rows: Sequence[Row]) -> list[list[Row]]:
        """Return the rows of each table of the case: one table, or two if the case has a second view."""
        other = self.case.other
        return [[row for row in rows if row[other] is second] for second in (False, True)] if other else [[*rows]]

    def frames(self, rows: Sequence[Row], log: list[str] | None = None, **options: Any) -> list[MemoryFrame]:
        """Return a table in memory, which logs reads, for each table of the case."""
        return [self.frame(part, log, **options) for part in self.parts(rows)]

    def recording_accounts(self, log: list[str]) -> list[RecordingAccount]:
        """Return a recording account for each table of the case; all write to one log."""
        return [
            RecordingAccount(self.case, log, name) for name in ("audit", *(["second"] if self.case.other else []))
        ]

    def views(self, frames: Sequence[Frame], accounts: Sequence[Any]) -> list[PrivateFrame | GroupedView]:
        """Return a view of each table, with the case's conditions and groups."""
        return [self.view(frame, account) for frame, account in zip(frames, accounts, strict=True)]

    def schema(self, frame: Frame, **promised: Any) -> Schema:
        """Return the schema with the declarations of the case, such as bounds and public columns."""
        case = self.case
        return read_schema(
            frame,
            bounds=case.bounds,
            categories=case.categories,
            public=tuple(case.public),
            missing=case.missing,
            neighbors=case.neighbors,
            **promised,
        )

    def view_of_all_rows(self, frame: Frame, account: Any) -> PrivateFrame:
        """Return a view of all rows, without the case's conditions and groups."""
        return PrivateFrame(Target(account, Table(frame, self.schema(frame))))

    def view(self, frame: Frame, account: Any) -> PrivateFrame | GroupedView:
        """Return the view on which the case calls the mechanism."""
        case, view = self.case, self.view_of_all_rows(frame, account)
        view = view.where(dict(case.where)) if case.where else view
        return view.group_by(*case.grouped) if case.grouped else view

    def question(self, views: Sequence[PrivateFrame | GroupedView], **changed: Any) -> Question:
        """Return the case's call of the mechanism as a question about one view or two, without asking it."""
        view, *second = views
        arguments = {**self.case.arguments, "epsilon": self.case.epsilon, "fresh": True}
        arguments |= {"delta": self.case.delta} if self.mechanism.delta else {}
        arguments |= {self.case.other: second[0]} if self.case.other else {}
        return view._question(self.mechanism, (), {**arguments, **changed})  # noqa: SLF001 - a view of our own

    def trace(
        self,
        rows: Sequence[Row],
        *,
        transcript: Sequence[tuple[str, Any]] | None = None,
        seed: int = 1,
        frames: Sequence[Frame] | None = None,
        until: int | None = None,
        **options: Any,
    ) -> Recording:
        """Return the record of a run with replayed noise and fixed random seeds.

        Parameters
        ----------
        rows : sequence of dict
            The table.
        transcript : sequence of (str, answer), optional
            The noisy sums to replay.
        seed : int
            Of the noise where there is no transcript.
        frames : sequence of Frame, optional
            The adapted frame of each table, to read in place of those in memory.
        until : int, optional
            Number of draws after which the performance ends: nothing is concluded from them.
        **options
            Of the `MemoryFrame`.

        Returns
        -------
        Recording
            What happened.
        """
        check_time_limit()
        log: list[str] = []
        recording_accounts, sampler = self.recording_accounts(log), Replay(seed, transcript, until)
        release, error = None, None
        with captured_messages() as messages, noise.use_sampler(sampler), fixed_random_seeds():
            try:
                tables = self.frames(rows, log, **options) if frames is None else frames
                release = self.question(self.views(tables, recording_accounts)).ask()
            except (Exception, EndOfRun) as raised:  # noqa: BLE001 - whatever it says is evidence
                error = raised
        return Recording(
            draws=tuple(sampler.draws),
            charges=tuple(recording_accounts[0].charges),
            log=tuple(log),
            release=release,
            error=error,
            messages=tuple(messages),
            given=tuple(sampler.given),
            opaque=sampler.opaque,
            second=tuple(recording_accounts[1].charges) if self.case.other else None,
        )

    def measure(self, rows: Sequence[Row], base: Recording) -> Recording:
        """Return the record of a run that ends after as many draws as another run had, without a result."""
        recording = self.trace(rows, transcript=base.given, until=len(base.given) or None)
        # What is paid after the last draw was not paid yet.
        late = recording.stopped and len(recording.charges) < len(base.charges)
        return replace(recording, charges=base.charges, second=base.second) if late else recording


def ledger_accounts(harness: Harness) -> list[Account]:
    """Open accounts in a new ledger in memory, with a budget large enough for a whole audit."""
    case = harness.case
    return [
        open_ledger("memory:").open_account(
            f"{till.name} {uuid.uuid4().hex}",
            epsilon=Fraction(10**6),
            delta=min(exact(case.delta) * 1000, Fraction(1, 2)),
            accounting="basic",
            neighbors=case.neighbors,
        )
        for till in harness.recording_accounts([])
    ]


@contextmanager
def captured_messages() -> Iterator[list[str]]:
    """Collect warnings, log messages and printed output as texts, in a list."""
    messages: list[str] = []
    printed = io.StringIO()
    root, ear = logging.getLogger(), _LogCapture(messages)
    level = root.level
    root.addHandler(ear)
    root.setLevel(logging.DEBUG)
    try:
        with redirect_stdout(printed), redirect_stderr(printed), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield messages
        messages += [f"{warning.category.__name__}: {warning.message}" for warning in caught]
        messages += printed.getvalue().splitlines()
    finally:
        root.setLevel(level)
        root.removeHandler(ear)


class _LogCapture(logging.Handler):
    """Log handler that appends messages to a list."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__()
        self._messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self._messages.append(record.getMessage())


@contextmanager
def fixed_random_seeds() -> Iterator[None]:
    """Fix the random seeds of Python and NumPy, also those of generators that a mechanism creates unseeded."""
    shared: Any = np.random  # whose stubs do not know all of it
    real, before, numpy_before = shared.default_rng, random.getstate(), shared.get_state()
    random.seed(0)
    shared.seed(0)
    shared.default_rng = lambda seed=None: real(0 if seed is None else seed)
    try:
        yield
    finally:
        shared.default_rng = real
        random.setstate(before)
        shared.set_state(numpy_before)


@dataclass(frozen=True)
class Measurement:
    """Record of one measurement: name of the curator's method, copies of features or statistics, and result."""

    verb: str
    things: tuple[Any, ...]
    answer: Any


@contextmanager
def recorded_measurements() -> Iterator[list[Measurement]]:
    """Record in a list the measurements that mechanisms request from curators."""
    measurements: list[Measurement] = []

    def record_calls(verb: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def recording_call(*args: Any, **kwargs: Any) -> Any:
            things = tuple(
                copy_of(each) for each in _flattened([*args, *kwargs.values()]) if isinstance(each, _KINDS)
            )
            answer = function(*args, **kwargs)
            if isinstance(answer, list):  # of jointly, by which nothing is measured yet
                return [record_calls(verb, one) for one in answer]
            measurements.append(Measurement(verb, things, answer))
            return answer

        return recording_call

    with ExitStack() as stack:
        for name in _VERBS:
            stack.enter_context(mock.patch.object(Curator, name, record_calls(name, getattr(Curator, name))))
        yield measurements


def _flattened(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for each in value:
            yield from _flattened(each)
    else:
        yield value


def copy_of(thing: Any) -> Any:
    """Return a copy of a feature, a statistic or labels, or the object itself if it cannot be copied."""
    try:
        return copy.deepcopy(thing)
    except Exception:  # noqa: BLE001 - whatever a plugin's object says to that
        return thing


def components(thing: Any) -> list[Any]:
    """Return a list of a feature, a statistic or labels, and of all such objects of which it is composed."""
    held = vars(thing).values() if hasattr(thing, "__dict__") else ()
    inner = [each for value in held for each in _flattened(value) if isinstance(each, _KINDS)]
    return [thing, *(part for each in inner for part in components(each))]


def with_first_row(rows: Sequence[Row], row: Row | None) -> list[Row]:
    """Return the rows of a table with the first row replaced or removed."""
    return [*([] if row is None else [row]), *rows[1:]]


def public_part(case: Case, row: Row | None) -> tuple[object, ...]:
    """Return the fields of a row on which neighbouring tables agree; none if rows are added or removed."""
    if row is None or case.neighbors == "add_remove":
        return ()
    return tuple("missing" if _is_missing_value(row[name]) else row[name] for name in case.unchangeable_fields)


def neighboring(
    case: Case, members: Sequence[tuple[Row | None, T]]
) -> Iterator[tuple[tuple[Row | None, T], tuple[Row | None, T]]]:
    """Yield pairs of neighbouring rows: a row and its absence, or two rows with the same public values."""
    of_class: dict[tuple[object, ...], list[tuple[Row | None, T]]] = {}
    for member in members:
        of_class.setdefault(public_part(case, member[0]), []).append(member)
    for each in of_class.values():
        pairs = itertools.combinations(sorted(each, key=lambda member: member[0] is not None), 2)
        yield from (pair for pair in pairs if case.neighbors == "replace_one" or pair[0][0] is None)


def _is_missing_value(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
