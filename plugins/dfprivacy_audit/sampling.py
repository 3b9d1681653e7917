"""Sampling audit: search for the event whose probabilities on two neighbouring tables differ most.

It knows nothing of how a method works. Many outputs are drawn on each of two neighbouring tables, through the view.
On one half of them an event is chosen, whatever it is: a threshold of a number or of a learned direction, a
category, NaN, a shape, an error and its text, a warning, or the pattern of a float's last bits. On the other half
Clopper and Pearson's bounds give the epsilon that this event proves, wrong with a probability of 1e-6 at most.

References
----------
.. [1] Ding, Wang, Wang, Zhang and Kifer (2018). Detecting violations of differential privacy. CCS.
.. [2] Mironov (2012). On significance of the least significant bits for differential privacy. CCS.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from dfprivacy_audit.cases import candidate_rows, tables
from dfprivacy_audit.harness import Harness, captured_messages, check_time_limit, neighboring, with_first_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from dfprivacy_audit.cases import Row

__all__ = ["ERROR", "Proof", "audit_by_sampling", "separation"]

ERROR = 1e-6
_SCREEN_OUTPUTS = 250  # outputs a table to find the pairs that look worst
_MAX_PAIRS = 6  # pairs that are looked at closely
_ROWS = 8  # rows in place of the first, a table
_SCREEN_ERROR = 0.05  # error of what only says where to look closer
_INTERIM_ERROR = ERROR / 2 / 1000  # of a proof on the way, for no more than a thousand pairs are looked at
_NUMBERS = 40  # numbers of an output that are looked at


@dataclass(frozen=True)
class Output:
    """Output of a call in a comparable form: the numbers of the release, and all other contents as text."""

    numbers: tuple[float, ...]
    text: str


@dataclass(frozen=True)
class Proof:
    """Statistical lower bound of the privacy loss, with the event that proves it.

    Attributes
    ----------
    epsilon : float
        A lower bound of the epsilon of the method, wrong with probability `ERROR` at most.
    event : str
        The event in words.
    pair : tuple
        The rows that differ.
    table : str
        The table they are in.
    samples : int
        Outputs on each side.
    """

    epsilon: float
    event: str
    pair: tuple[Row | None, Row | None]
    table: str
    samples: int


def audit_by_sampling(harness: Harness, samples: int = 30_000, enough: float = math.inf) -> Proof:
    """Search for the event that proves the largest privacy loss of a mechanism.

    Parameters
    ----------
    harness : Harness
        The mechanism and its case.
    samples : int
        Outputs to draw on each side of the pairs that look worst.
    enough : float
        An epsilon. A pair that proves more than that ends the search, be it of few outputs.

    Returns
    -------
    Proof
        What the best event of the best pair proves.
    """
    delta = float(harness.trace(tables(harness.case)["mixed"]).delta)
    pairs: Iterable[_Pair] = _screened_pairs(harness)
    for count, most in ((samples // 10, _MAX_PAIRS), (samples, 1)):
        ranked: list[tuple[float, _Pair]] = []
        for pair in pairs:
            ranked.append((pair.proof(delta, _SCREEN_ERROR).epsilon, pair))
            if ranked[-1][0] > enough and (early := pair.proof(delta, _INTERIM_ERROR)).epsilon > enough:
                return early
        worst = sorted(ranked, key=lambda each: -each[0])[:most]
        pairs = [pair.with_new_outputs(harness, count) for _, pair in worst]
    (last,) = pairs
    return last.proof(delta, ERROR / 2)


@dataclass(frozen=True)
class _Pair:
    """Pair of neighbouring tables, with samples of outputs on both."""

    table: str
    rows: tuple[Row | None, Row | None]
    one: Sequence[Output]
    other: Sequence[Output]

    def with_new_outputs(self, harness: Harness, samples: int) -> _Pair:
        """Return the pair of tables with newly drawn outputs."""
        rows = tables(harness.case)[self.table]
        one, other = ([*_outputs(harness, with_first_row(rows, row), samples)] for row in self.rows)
        return replace(self, one=one, other=other)

    def proof(self, delta: float, error: float) -> Proof:
        """Return a lower bound of epsilon, with the event that proves it."""
        epsilon, event = separation(self.one, self.other, delta, error)
        return Proof(epsilon, event, self.rows, self.table, len(self.one))


def _screened_pairs(harness: Harness) -> Iterator[_Pair]:
    """Yield pairs of neighbouring tables, with a few outputs on each table."""
    case = harness.case
    others = candidate_rows(case, count=2)
    rows_in_place: list[Row | None] = [*others[:: max(1, len(others) // _ROWS)]]
    rows_in_place += [None] if case.neighbors == "add_remove" else []
    for name, rows in tables(case).items():
        if harness.trace(rows).refused:
            continue
        members = [(row, [*_outputs(harness, with_first_row(rows, row), _SCREEN_OUTPUTS)]) for row in rows_in_place]
        pairs = neighboring(case, members)
        yield from (_Pair(name, (one, other), mine, its) for (one, mine), (other, its) in pairs)


def _outputs(harness: Harness, rows: Sequence[Row], count: int) -> Iterator[Output]:
    """Yield many outputs of the same call, each with new noise."""
    accounts = harness.recording_accounts([])
    views = harness.views(harness.frames(rows), accounts)
    question = None
    for _ in range(count):
        check_time_limit()
        with captured_messages() as messages:
            try:
                question = question or harness.question(views)
                question.ask()
                numbers, words = _flat_json({k: v for k, v in accounts[0].kept.items() if k != "privacy"})
            except Exception as error:  # noqa: BLE001 - whatever it says is an output
                numbers, words = [], [f"{type(error).__name__}: {error}"]
        yield Output(tuple(numbers[:_NUMBERS]), "\n".join([*words, *messages]))


def _flat_json(plain: Any) -> tuple[list[float], list[str]]:
    """Return the numbers in nested JSON values, and the remaining structure with all other values as text."""
    numbers: list[float] = []

    def walk(value: Any) -> Any:
        if isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool)):
            numbers.append(float(value))
            return None
        if isinstance(value, dict):
            return {key: walk(item) for key, item in value.items()}
        return [walk(item) for item in value] if isinstance(value, list) else repr(value)

    return numbers, [json.dumps(walk(plain))]


def separation(
    one: Sequence[Output], other: Sequence[Output], delta: float = 0.0, error: float = ERROR
) -> tuple[float, str]:
    """Select an event on one half of two samples, and compute a lower bound of epsilon from the other half.

    Parameters
    ----------
    one, other : sequence of Output
        Outputs on two neighbouring tables.
    delta : float
        The delta that was charged.
    error : float
        Probability that the proof is wrong.

    Returns
    -------
    float
        The epsilon proved; 0 if none is.
    str
        The event in words.
    """
    half = min(len(one), len(other)) // 2
    train, test = (one[:half], other[:half]), (one[half : 2 * half], other[half : 2 * half])
    best: tuple[float, str, Any] = (0.0, "none", None)
    for name, sides in _classifier_scores(train, test):
        for sign, swapped in itertools.product((1, -1), (0, 1)):
            (likely, rare), tested = ([sign * side[swapped], sign * side[1 - swapped]] for side in sides)
            cuts = np.unique(np.quantile(np.concatenate([likely, rare]), np.linspace(0, 1, 201)))
            often, seldom = (half - np.searchsorted(np.sort(side), cuts, side="left") for side in (likely, rare))
            proved = _proved_epsilon(often, seldom, half, delta, error)
            at = int(proved.argmax())
            if proved[at] > best[0]:
                what = f"{name} {'at least' if sign > 0 else 'at most'} {sign * cuts[at]:.6g}"
                best = float(proved[at]), what, [int((side >= cuts[at]).sum()) for side in tested]
    if best[2] is None:
        return 0.0, "none"
    often, seldom = (np.array([hits]) for hits in best[2])
    epsilon = _proved_epsilon(often, seldom, half, delta, error)[0]
    return max(0.0, float(epsilon)), best[1]


def _proved_epsilon(
    likely: NDArray[np.int64], rare: NDArray[np.int64], trials: int, delta: float, error: float
) -> NDArray[np.float64]:
    """Return the lower bound log((P - delta) / Q) of epsilon, with Clopper-Pearson bounds of P and Q."""
    least, most = _clopper_pearson(trials, error)
    with np.errstate(divide="ignore", invalid="ignore"):
        proved: NDArray[np.float64] = np.log(np.maximum(least[likely] - delta, 0.0) / most[rare])
    return proved


@lru_cache(maxsize=8)
def _clopper_pearson(trials: int, error: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lower and upper confidence bounds of a probability for 0, 1, ..., `trials` successes."""
    hits = np.arange(trials + 1)
    least = np.where(hits > 0, stats.beta.ppf(error / 2, np.maximum(hits, 1), trials - hits + 1), 0.0)
    most = np.where(hits < trials, stats.beta.ppf(1 - error / 2, hits + 1, np.maximum(trials - hits, 1)), 1.0)
    return least, most


Sides = tuple["NDArray[np.float64]", "NDArray[np.float64]"]


def _classifier_scores(train: Any, test: Any) -> Iterator[tuple[str, tuple[Sides, Sides]]]:
    """Yield classifier scores, learned on the first half of two samples, for both halves of both samples."""
    sides = [*train, *test]
    yield _log_ratio_scores("the text", [[output.text for output in side] for side in sides])
    width = max((len(output.numbers) for side in sides for output in side), default=0)
    if not width:
        return
    padded = (math.nan,) * width
    columns = [np.array([(*output.numbers, *padded)[:width] for output in side]) for side in sides]
    yield _log_ratio_scores("which numbers are finite", [list(map(bytes, np.isfinite(c))) for c in columns])
    finite = [np.nan_to_num(c, nan=0.0, posinf=1e300, neginf=-1e300) for c in columns]
    for at in range(width):
        values = [c[:, at] for c in finite]
        if len(np.unique(np.concatenate(values)[:50])) == 1 and len(np.unique(np.concatenate(values))) == 1:
            continue
        yield f"number {at}", ((values[0], values[1]), (values[2], values[3]))
        yield _log_ratio_scores(f"the last bits of number {at}", [_bit_labels(v) for v in values])
    spread = [np.arcsinh(c) for c in finite]
    both = np.concatenate(spread[:2])
    centre, scale = np.median(both, axis=0), both.std(axis=0) + 1e-12
    scaled = [np.clip((c - centre) / scale, -10, 10) for c in spread]
    a, b = scaled[:2]
    within = np.atleast_2d(np.cov(np.concatenate([a - a.mean(0), b - b.mean(0)]).T)) + 1e-6 * np.eye(width)
    direction = np.linalg.solve(within, a.mean(0) - b.mean(0))
    along = [c @ direction for c in scaled]
    yield "a linear combination of the numbers", ((along[0], along[1]), (along[2], along[3]))


def _bit_labels(values: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Return a label for each float: half its exponent, and half the position of its lowest set bit."""
    mantissa, exponent = np.frexp(values)
    steps = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    lowest = np.where(steps == 0, 0, exponent - 53 + np.log2(np.maximum(steps & -steps, 1)).astype(np.int64))
    return list(zip((exponent // 2).tolist(), (lowest // 2).tolist(), strict=True))


def _log_ratio_scores(name: str, labels: Sequence[Sequence[Any]]) -> tuple[str, tuple[Sides, Sides]]:
    """Return scores of labels: log ratios of their frequencies on both tables, estimated on the first half."""
    first, second = Counter(labels[0]), Counter(labels[1])
    score = {label: math.log((first[label] + 0.5) / (second[label] + 0.5)) for label in {*first, *second}}
    a, b, c, d = (np.array([score.get(label, 0.0) for label in side]) for side in labels)
    return f"{name}: log-likelihood ratio", ((a, b), (c, d))
