"""Check the level of tests and the coverage of confidence intervals on synthetic tables.

The tables are those that a method's author makes for `dfprivacy.Mechanism.assumes`, without an effect, or of
independent columns. What a table's interval is to hold is what the method says of the same table at a price that
leaves no noise; what a population's is to hold, what it then says of many rows.
"""

from __future__ import annotations

import inspect
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import stats

from dfprivacy._privacy import samplers as noise
from dfprivacy._table.frames import ColumnsFrame
from dfprivacy.errors import DPError
from dfprivacy.release import ConfidenceInterval, Release
from dfprivacy.testing import SeededSampler
from dfprivacy_audit.harness import Failed, Harness, Skipped, captured_messages, check_time_limit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dfprivacy_audit.discipline import Audit

__all__ = ["keeps_level_and_coverage"]

COVERS = tuple(f"{limited}{rows}" for limited in ("", "limited ") for rows in ("population", "table", "sample"))
"""What an interval may be of: population, table or secret sample, or the same of values limited to the bounds."""

_LOOKS = 50, 100, 150, 200, 300, 400  # tables after which error rates are compared with their nominal values
_SHORT = 2  # looks, unless the audit is thorough
_MIN_TABLES = 40
_SECONDS = 15  # of CPU, after which no more tables are asked
_ROWS, _POPULATION = 400, 40_000
_LEVEL, _CONFIDENCE = 0.05, 0.95  # where an answer does not say
_MAX_BEYOND = 0.02  # of the rows; with more, a hypothesis about their mean no longer holds
_ERROR = 1e-6  # probability that a sound method fails, at any look
_EXCESS, _MISSED = 3, 1e-3  # a method errs less than so many times as often as it says, but for this probability
_NULL = {"effect": 0.0, "ratio": 1.0}  # what makers of rows call an effect, and what it is without one


class _Interval(NamedTuple):
    low: float
    high: float
    confidence: float
    covers: str | None


def keeps_level_and_coverage(audit: Audit) -> str:
    """Catch tests that reject too often, and intervals with too little coverage or without a stated coverage."""
    release = audit.answered().release
    known = _intervals(release)
    for name, each in known.items():
        if each.covers not in COVERS:
            raise Failed(f"{name} has covers={each.covers!r}, which is not one of {COVERS}")
    if audit.case.where or audit.case.grouped or audit.case.other:
        raise Skipped("cases with conditions, groups or a second table are not simulated")
    made = _Simulation(audit)
    if not known and not (made.null_arguments and _decision(audit, release)):
        raise Skipped("the release has no interval, and no p-value that can be tested on rows without an effect")
    try:
        return made.check_error_rates()
    except DPError as error:
        raise Skipped(f"no synthetic rows can be drawn: {error}") from error


@dataclass(frozen=True)
class _Simulation:
    """Simulation of a method on synthetic tables: runs at a moderate epsilon, and runs nearly without noise."""

    audit: Audit

    def _harness(self, epsilon: int) -> Harness:
        return Harness(self.audit.mechanism, replace(self.audit.case, epsilon=epsilon))

    @property
    def null_arguments(self) -> dict[str, float]:
        """Arguments with which synthetic rows follow the null hypothesis; empty if the method has none."""
        maker = self.audit.mechanism.maker
        own = () if maker is None else inspect.signature(maker).parameters
        return {name: value for name, value in _NULL.items() if name in own}

    def table(self, seed: int, rows: int) -> ColumnsFrame:
        """Return a synthetic table with the given number of rows."""
        mechanism, case, rng = self.audit.mechanism, self.audit.case, np.random.default_rng([seed, rows])
        schema = self.audit.harness.schema(self.audit.harness.frame(self.audit.rows))
        columns: dict[str, Any] = {name: each.draw(rng, rows) for name, each in schema.columns.items()}
        if mechanism.maker is not None:
            known = {"schema": schema, **mechanism.resolve(schema, mechanism.bind((), dict(case.arguments)))}
            own = inspect.signature(mechanism.maker).parameters
            every = any(each.kind is each.VAR_KEYWORD for each in own.values())
            passed = {name: value for name, value in known.items() if every or name in own}
            made = dict(mechanism.maker(rng, rows, **passed, **self.null_arguments))
            columns |= made
            for name in sorted(made.keys() & case.bounds.keys() - case.categories.keys()):
                low, high = case.bounds[name]
                if np.mean((made[name] < low) | (made[name] > high)) > _MAX_BEYOND:
                    raise Skipped(f"too many synthetic rows lie beyond the bounds of {name!r}")
        return ColumnsFrame({name: _array(values) for name, values in columns.items()})

    def check_error_rates(self) -> str:
        """Run the method on many synthetic tables, and compare the error rates with their nominal values."""
        moderate, noiseless = self._harness(1), self._harness(10**4)
        population = None
        covered: defaultdict[tuple[str, float], list[bool]] = defaultdict(list)
        small: list[tuple[bool, float]] = []
        tables = 0
        start = time.process_time()
        looks = _LOOKS if self.audit.thorough else _LOOKS[:_SHORT]
        for run in range(looks[-1]):
            if time.process_time() - start > _SECONDS or (run in _LOOKS and _rates_are_sound(small, covered)):
                break
            table, tables = self.table(run, _ROWS), run + 1
            if (release := _seeded_answer(moderate, table, run)) is None:
                continue
            if self.null_arguments and (decision := _decision(self.audit, release)):
                small.append(decision)
            found = _intervals(release)
            if any(_covers_population(each) for each in found.values()) and population is None:
                population = _intervals(_seeded_answer(noiseless, self.table(run, _POPULATION), run))
            own = (
                {}
                if all(map(_covers_population, found.values()))
                else _intervals(_seeded_answer(noiseless, table, run))
            )
            for name, each in found.items():
                truth = ((population or {}) if _covers_population(each) else own).get(name)
                if truth is not None and np.isfinite([*truth[:2]]).all() and not np.isnan([*each[:2]]).any():
                    covered[name, each.confidence].append(_contains_truth(each, truth))
        return _check_rates(small, covered, tables)


def _covers_population(interval: _Interval) -> bool:
    """Return whether an interval covers a parameter of the population, rather than a statistic of the table."""
    return (interval.covers or "").endswith("population")


def _error_counts(
    small: list[tuple[bool, float]], covered: dict[tuple[str, float], list[bool]]
) -> Iterator[tuple[int, int, float, str]]:
    """Yield, for each test and interval, the number of errors and of tables, the nominal rate and a text."""
    if small:
        times, level = sum(yes for yes, _ in small), small[0][1]
        said = f"the test rejects at level {level:g} in {times} of {len(small)} synthetic tables without an effect"
        yield times, len(small), level, said
    for (name, confidence), holds in covered.items():
        of = f"{sum(holds)} of {len(holds)} synthetic tables; nominal coverage {confidence:g}"
        yield len(holds) - sum(holds), len(holds), 1 - confidence, f"{name} contains the true value in {of}"


def _rates_are_sound(small: list[tuple[bool, float]], covered: dict[tuple[str, float], list[bool]]) -> bool:
    """Return whether no error rate can be far above its nominal value; raise `Failed` if one clearly is."""
    rates = list(_error_counts(small, covered))
    for errors, tables, rate, said in rates:
        if stats.binom.sf(errors - 1, tables, rate) < _ERROR / len(_LOOKS) / (1 + len(covered)):
            raise Failed(said)
    return bool(rates) and all(
        tables >= _MIN_TABLES and stats.binom.cdf(errors, tables, min(_EXCESS * rate, 1)) < _MISSED
        for errors, tables, rate, _ in rates
    )


def _check_rates(small: list[tuple[bool, float]], covered: dict[tuple[str, float], list[bool]], tables: int) -> str:
    """Return a summary of the error rates; raise `Failed` if one is significantly above its nominal value."""
    counts = [len(small), *map(len, covered.values())]
    if max(counts) < _MIN_TABLES:
        raise Skipped(f"too few informative answers: {max(counts)} of {tables} synthetic tables")
    _rates_are_sound(small, covered)
    words = (
        [f"the test at level {small[0][1]:g} rejects in a share of {np.mean([yes for yes, _ in small]):.3f}"]
        if small
        else []
    )
    least = min(covered.values(), key=np.mean, default=None)
    words += [f"the lowest coverage of an interval is {np.mean(least):.3f}"] if least else []
    return f"in {tables} synthetic tables, {'; '.join(words)}"


def _contains_truth(interval: _Interval, truth: _Interval) -> bool:
    """Return whether an interval contains the middle of a nearly noise-free one or, for a table, overlaps it."""
    middle, half = (truth.low + truth.high) / 2, (truth.high - truth.low) / 2
    slack = 0.0 if _covers_population(interval) else half
    return bool(interval.low - slack <= middle <= interval.high + slack)


def _seeded_answer(harness: Harness, table: ColumnsFrame, seed: int) -> Release | None:
    """Return the method's release for a table, with seeded noise; None if the method raises an error."""
    check_time_limit()
    with captured_messages(), noise.use_sampler(SeededSampler(seed)):
        try:
            return harness.question(harness.views([table], harness.recording_accounts([]))).ask()
        except DPError:
            return None


def _array(values: Any) -> Any:
    return values if isinstance(values, np.ndarray) else np.array(values, dtype=object)


def _decision(audit: Audit, release: Any) -> tuple[bool, float] | None:
    """Return whether the test in a release rejects, and its level; None if the release has no test."""
    if isinstance(pvalue := getattr(release, "pvalue", None), float):
        return pvalue <= _LEVEL, _LEVEL
    try:
        found = audit.mechanism.finder(release) if audit.mechanism.finder else release.rejected
    except (AttributeError, KeyError, TypeError):
        return None
    level = getattr(release, "alpha", 1 - getattr(release, "confidence", _CONFIDENCE))
    return (bool(found), level) if isinstance(found, bool | np.bool_) else None


def _intervals(value: Any) -> dict[str, _Interval]:
    """Return the confidence intervals of a release and of the releases nested in it, by name."""
    return {
        f"{name} of {type(each).__name__} {at}": interval
        for at, each in enumerate(_releases(value))
        for name, interval in _own_intervals(each)
    }


def _releases(value: Any) -> Iterator[Release]:
    """Yield all releases in a nested value, which may be a release itself."""
    if isinstance(value, Release):
        yield value
        value = list(value.result.values())
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from _releases(each)


def _own_intervals(release: Release) -> Iterator[tuple[str, _Interval]]:
    result = release.result
    confidence = result.get("confidence")
    about = confidence if isinstance(confidence, float) else _CONFIDENCE, release.covers
    spans = [*_number_ranges([*result.values()])]
    if {"low", "high"} <= result.keys():
        spans += map(ConfidenceInterval, _numbers(result["low"]), _numbers(result["high"]))
    elif callable(ends := getattr(release, "confidence_interval", None)):
        with suppress(DPError):  # some say that there is none
            spans += _number_ranges(ends())
    yield from ((f"interval {at}", _Interval(*span, *about)) for at, span in enumerate(spans))


def _numbers(value: Any) -> list[float]:
    """Return all numbers in a nested value, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple | np.ndarray):
        return [number for each in value for number in _numbers(each)]
    return [float(value)] if isinstance(value, int | float | np.number) else []


def _number_ranges(value: Any) -> Iterator[ConfidenceInterval]:
    if isinstance(value, ConfidenceInterval):
        yield value
    elif isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _number_ranges(each)
