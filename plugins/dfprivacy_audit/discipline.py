"""Checks of a mechanism's behaviour: its privacy loss, conclusions, charges and explanations.

Every check is a function of an `Audit`. It returns a sentence on what it saw, or raises `Failed` or `Skipped`.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy._call.question import answer_owner
from dfprivacy._privacy import samplers as noise
from dfprivacy._privacy.filters import exact
from dfprivacy._table.frames import adapt
from dfprivacy.errors import ArgumentError, DPError
from dfprivacy.release import Release
from dfprivacy_audit.cases import candidate_rows, distant_tables, tables
from dfprivacy_audit.exact import Family, families, largest_loss, statistics_of, worst_loss, worst_table
from dfprivacy_audit.harness import (
    ADDED,
    Failed,
    Harness,
    Skipped,
    captured_messages,
    fixed_random_seeds,
    ledger_accounts,
)
from dfprivacy_audit.sampler import goodness_of_fit
from dfprivacy_audit.sampling import audit_by_sampling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from dfprivacy.mechanism import Mechanism
    from dfprivacy_audit.cases import Case, Row
    from dfprivacy_audit.exact import Loss
    from dfprivacy_audit.harness import Draw, Recording

__all__ = ["Audit"]

_PVALUE = 1e-8
_REPEATS = 5
_STEPS, _FEW_STEPS = 60, 8  # changes of a table in search of the worst
_SCALES = (0.7, 4.25)  # of noise that is looked at whatever a mechanism draws
_DRAWS = 20_000  # of these; a quarter of them of each scale that a mechanism draws
_LARGE_ROWS = 200  # rows of a table with large sums
_MAX_LARGE = 2  # tables of many rows, besides the first
_CANARY = "CANARY-7f3a"


@dataclass(frozen=True)
class Audit:
    """Audit of one mechanism in one case, with the tables and runs that several checks share.

    Attributes
    ----------
    mechanism : Mechanism
        What is audited.
    case : Case
        How it is called.
    samples : int
        Outputs on each side of a sampling audit.
    others : sequence of Case
        All cases in which the mechanism is audited.
    thorough : bool
        Whether many rows are tried in all tables, and each leads to a conclusion (not every second one), the worst
        tables are searched at length even if a short search finds that the charge is tight, a variant is tried
        on all tables (not on every third one), and up to 400 synthetic tables are drawn (not 100).
    """

    mechanism: Mechanism
    case: Case
    samples: int = 30_000
    others: Sequence[Case] = ()
    thorough: bool = True

    @cached_property
    def harness(self) -> Harness:
        """Harness that runs the mechanism on tables of the case."""
        return Harness(self.mechanism, self.case)

    @cached_property
    def rows(self) -> list[Row]:
        """Rows of an ordinary table, with random numbers and all categories."""
        return tables(self.case)["mixed"]

    @cached_property
    def first_run(self) -> Recording:
        """Record of the first run of the mechanism."""
        return self.harness.trace(self.rows)

    def answered(self) -> Recording:
        """Return the record of the first run; skip the check if the run gave no result."""
        if self.first_run.release is None:
            raise Skipped("it does not answer")
        return self.first_run

    @cached_property
    def distant_runs(self) -> list[tuple[str, list[Row], Recording]]:
        """Names, rows and runs of tables far from the first one, with the noisy sums of the first run replayed.

        They agree with it on what is public. Neighbour by neighbour the one becomes the other, so what follows
        from noise alone is the same on all of them; a threshold that no two neighbours pass shows here.
        """
        self.answered()
        return [
            (name, rows, self.harness.trace(rows, transcript=self.first_run.given))
            for name, rows in distant_tables(self.case, self.rows).items()
        ]

    @cached_property
    def distant_run_pairs(self) -> list[tuple[str, Recording, Recording]]:
        """Name and two runs of each pair of distant tables, with the same noisy sums; large tables come last."""
        rows = self.rows * -(-_LARGE_ROWS // len(self.rows))
        first = self.harness.trace(rows)
        return [(name, self.first_run, trace) for name, _, trace in self.distant_runs] + [
            (f"{name}, {len(rows)} rows", first, self.harness.trace(moved, transcript=first.given))
            for name, moved in list(distant_tables(self.case, rows).items())[:_MAX_LARGE]
        ]

    @cached_property
    def _families_or_skip(self) -> list[Family] | Skipped:
        try:
            return families(self.harness, thorough=self.thorough)
        except Skipped as late:
            return late

    @property
    def families(self) -> list[Family]:
        """Families of runs on neighbouring tables; the check is skipped if these runs took too long."""
        self.answered()
        if isinstance(self._families_or_skip, Skipped):
            raise self._families_or_skip
        return self._families_or_skip

    @cached_property
    def loss(self) -> Loss:
        """Largest privacy loss that the search over neighbouring tables found."""
        short: list[Callable[[Sequence[Family]], Loss]] = [
            partial(worst_loss, n_families=1, halvings=3, restarts=1)
        ]
        if statistics_of(self.harness, self.rows)[1]:
            short.append(partial(worst_table, steps=_FEW_STEPS, n_tables=2))
            long: list[Callable[[Sequence[Family]], Loss]] = [worst_loss, partial(worst_table, steps=_STEPS)]
        else:  # how far a row moves a sum depends on the row alone
            long = [partial(worst_loss, n_families=1)]
        if self.thorough:
            return largest_loss([search(self.families) for search in long])
        losses = [search(self.families) for search in short]
        for search in long:
            if largest_loss(losses).tightness < self.case.tightness:
                losses.append(search(self.families))
        found = largest_loss(losses)
        return replace(self, thorough=True).loss if found.tightness < self.case.tightness else found


def answers(audit: Audit) -> str:
    """Catch a mechanism that fails on an ordinary table, or returns NaN, rows, or a result that JSON changes."""
    trace = audit.first_run
    if trace.release is None:
        raise Failed(f"it fails with {type(trace.error).__name__}: {trace.error}")
    if audit.mechanism.own is not None and not audit.case.grouped:
        _check_owner_variant(audit, audit.mechanism.own)
    lengths = []
    for extra in (7, 11):
        rows = (audit.rows * 20)[: len(audit.rows) + extra]
        release = audit.harness.trace(rows).release
        if release is None:
            return "it returns a result on one table, but raises an error on a table with another number of rows"
        plain = release.to_dict()
        text = json.dumps(plain, allow_nan=False)
        if Release.from_dict(json.loads(text)).to_dict() != plain:
            raise Failed("the release differs after it is written as JSON and read again")
        if '"$float": "nan"' in text:
            raise Failed("the release holds NaN")
        sizes = {len(rows), *map(len, audit.harness.parts(rows))}
        lengths.append({path for path, length in _array_lengths(plain, "") if length in sizes})
    if (both := lengths[0] & lengths[1]) and not audit.mechanism.local:
        raise Failed(f"fields of the release have as many entries as the table has rows: {sorted(both)}")
    return "the release has no NaN, is unchanged by JSON, and has no field with an entry for each row"


def _check_owner_variant(audit: Audit, own: Any) -> None:
    """Check that the variant of the mechanism for the data's owner, without noise and epsilon, does not fail."""
    harness, known = audit.harness, own.signature.parameters
    asked = {name: value for name, value in audit.case.arguments.items() if name in known}
    (view, *_) = harness.views(harness.frames(audit.rows), harness.recording_accounts([]))
    try:
        with captured_messages():
            answer_owner(harness.question([view]).target, audit.mechanism, (), asked, ())
    except ArgumentError:  # it needs what the release does not
        return
    except DPError as error:
        raise Failed(f"{own.name} fails with {type(error).__name__}: {error}") from error


def _require_closed_form(audit: Audit) -> None:
    audit.answered()
    if not audit.first_run.replayable:
        raise Skipped("it draws noise in a way for which the audit has no closed form of the privacy loss")
    if not audit.first_run.charges:
        raise Skipped("it charges nothing")


def loss_within_charge(audit: Audit) -> str:
    """Catch too little noise: too small a sensitivity, rows counted twice, or a row in a new group counted once."""
    _require_closed_form(audit)
    loss = audit.loss
    if loss.exceeds:
        raise Failed(
            f"two neighbouring tables ({loss.table}: {loss.pair[0]} against {loss.pair[1]}) have a privacy loss of "
            f"{loss.epsilon:.6g}, but only {loss.charge:.6g} was charged"
        )
    return f"loss {loss.epsilon:.6g} of {loss.charge:.6g} charged"


def charge_is_tight(audit: Audit) -> str:
    """Catch too much noise: a part of the charged budget that no measurement uses."""
    _require_closed_form(audit)
    used = audit.loss.tightness
    if used < audit.case.tightness:
        raise Failed(
            f"the worst pair of tables uses {used:.3f} of the charge, less than {audit.case.tightness:g}: the "
            f"noise is larger than necessary"
        )
    return f"tightness {used:.4f}"


def concludes_from_noise_alone(audit: Audit) -> str:
    """Catch values without noise in a release, such as exact counts and ranges, and randomness of other sources."""
    if not audit.first_run.replayable:
        raise Skipped("it draws noise in a way that the audit cannot replay")
    count = 0
    for family in audit.families:
        for (one, a), (other, b) in family.pairs():
            count += 1
            if a.stopped or b.stopped or a.outcome == b.outcome:
                continue
            for row, trace in ((one, a), (other, b)):
                if any(family.trace(row).outcome != trace.outcome for _ in range(_REPEATS)):
                    raise Skipped("it uses randomness that cannot be replayed")
            raise Failed(
                f"given the same noisy sums its results differ on neighbouring tables ({family.table}: {one} "
                f"against {other}): {_outcome_difference(a.outcome, b.outcome)}"
            )
    for name, first, trace in audit.distant_run_pairs:
        if trace.outcome != first.outcome:
            if not _outcome_repeats(audit, audit.rows, audit.first_run):
                raise Skipped("it uses randomness that cannot be replayed")
            raise Failed(
                f"given the same noisy sums its result differs on a table of {name}: "
                f"{_outcome_difference(first.outcome, trace.outcome)}"
            )
    return f"{count} pairs of neighbouring tables have the same result, given the same noisy sums"


def _outcome_difference(a: str, b: str) -> str:
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return f"...{a[max(0, at - 40) : at + 40]!r} against ...{b[max(0, at - 40) : at + 40]!r}"


def outputs_do_not_tell(audit: Audit) -> str:
    """Catch events in outputs that are likelier on a neighbouring table than epsilon allows, by sampling."""
    audit.answered()
    try:
        concludes_from_noise_alone(audit)
    except Failed:
        raise Skipped("concludes_from_noise_alone has failed already") from None
    except Skipped:  # it cannot be replayed
        pass
    else:
        raise Skipped("the exact audit suffices: the release follows from noisy sums alone")
    price = float(exact(audit.case.epsilon))
    proof = audit_by_sampling(audit.harness, audit.samples, enough=price)
    if proof.epsilon > price:
        raise Failed(
            f"the event {proof.event!r} proves that neighbouring tables ({proof.table}: {proof.pair[0]} against "
            f"{proof.pair[1]}) differ by epsilon {proof.epsilon:.3f} at least, but the call has {price:.3f}"
        )
    return f"{proof.samples} outputs on each table prove at least epsilon {proof.epsilon:.3f} of {price:.3f}"


def noise_follows_its_law(audit: Audit) -> str:
    """Catch a sampler with noise that does not follow its stated distribution."""
    drawn = {kind: sorted({d.scale for d in audit.first_run.draws if d.kind == kind}) for kind in sorted(ADDED)}
    laws = {(kind, each) for kind, of in drawn.items() if of for each in (of[0], of[len(of) // 2], of[-1])}
    for kind, scale in sorted(laws | {(kind, scale) for kind in ("laplace", "gaussian") for scale in _SCALES}):
        pvalue = _fit_pvalue(noise.sampler().name, kind, scale)
        if pvalue < _PVALUE:
            raise Failed(f"{kind} noise of scale {scale:g} does not follow its distribution: p = {pvalue:.2g}")
    return f"the noise follows its distribution at {len(laws) + 2 * len(_SCALES)} scales"


@cache
def _fit_pvalue(_: str, kind: Any, scale: float) -> float:
    """Return the p-value of the fit of the active sampler to its distribution, cached by the sampler's name."""
    return goodness_of_fit(noise.sampler(), kind, scale, _DRAWS if scale in _SCALES else _DRAWS // 4)


def charges_first_and_for_good(audit: Audit) -> str:
    """Catch rows read before the charge, a charge that is not as stated or depends on the data, and refunds."""
    trace = audit.first_run
    reads = [at for at, event in enumerate(trace.log) if event != "charge"]
    if reads and "charge" not in trace.log[: reads[0]]:
        raise Failed("private rows are read before anything is charged")
    broken = audit.harness.trace(audit.rows, fail=f"cannot read {_CANARY}")
    if reads and not isinstance(broken.error, DPError):
        raise Failed(f"if a table cannot be read, {type(broken.error).__name__} is raised, which is not a DPError")
    if reads and not broken.charges:
        raise Failed("the charge is missing after a table could not be read")
    if _CANARY in _explanation_texts(broken.error):
        raise Failed("the error for a table that cannot be read quotes the engine's message about the data")
    epsilon, delta = exact(audit.case.epsilon), exact(audit.case.delta)
    for family in audit.families:
        for row, member in family.members:
            _check_price(member, row, epsilon, delta)
        for (one, a), (other, b) in family.pairs():
            if a.charges != b.charges:
                raise Failed(f"the charges for neighbouring tables differ ({family.table}: {one} against {other})")
    _check_ledger(audit, broken)
    return f"charged before reading and never refunded: at most epsilon {float(epsilon):g}" + (
        f", delta {float(delta):g}" if delta else ""
    )


def _check_price(trace: Recording, row: Row | None, epsilon: Fraction, delta: Fraction) -> None:
    if trace.second not in {None, trace.charges}:
        raise Failed(f"the same call charges one account {trace.charges}, and the other account {trace.second}")
    if trace.epsilon > epsilon or trace.delta > delta:
        raise Failed(
            f"with the first row {row} it charges epsilon {float(trace.epsilon):g}, delta {float(trace.delta):g}, "
            f"but the call has epsilon {float(epsilon):g}, delta {float(delta):g}"
        )
    paid = trace.release.privacy if trace.release else None
    if paid and (paid.epsilon, paid.delta) != (float(trace.epsilon), float(trace.delta)):
        raise Failed(
            f"the release states epsilon {paid.epsilon:g}, delta {paid.delta:g}; the account was charged "
            f"{float(trace.epsilon):g}, {float(trace.delta):g}"
        )


def _check_ledger(audit: Audit, broken: Recording) -> None:
    """Check that a real ledger records the charges of successful, failing and repeated calls."""
    accounts = ledger_accounts(audit.harness)

    def paid() -> list[Fraction]:
        return [sum((entry.epsilon for entry in account.entries()), Fraction(0)) for account in accounts]

    with captured_messages(), contextlib.suppress(Exception):
        audit.harness.question(audit.harness.views(audit.harness.frames(audit.rows, fail="broken"), accounts)).ask()
    lost = paid()
    if broken.charges and not all(lost):
        raise Failed("after an error the charge is missing from the ledger")
    views = audit.harness.views(audit.harness.frames(audit.rows), accounts)
    with captured_messages():
        first = audit.harness.question(views, fresh=False).ask()
        once = paid()
        again = audit.harness.question(views, fresh=False).ask()
    assert first.privacy is not None  # noqa: S101 - a release that leaves a view has a price
    for before, after in zip(lost, once, strict=True):
        if float(after - before) != first.privacy.epsilon:
            raise Failed(
                f"the ledger charged {float(after - before):g} for an answer at epsilon {first.privacy.epsilon:g}"
            )
    if audit.case.where == {} and (paid() != once or first != again):
        raise Failed("a repeated question is charged again, or answered differently")


def _explanation_texts(error: BaseException | None) -> str:
    errors = []
    while error is not None:
        errors.append(f"{type(error).__name__}: {error} {getattr(error, '__notes__', '')}")
        error = error.__cause__ or error.__context__
    return "\n".join(errors)


def explains_for_nothing(audit: Audit) -> str:
    """Catch an explanation that reads rows, charges the budget, or depends on an earlier answer."""
    log: list[str] = []
    views = audit.harness.views(audit.harness.frames(audit.rows, log), audit.harness.recording_accounts(log))

    def explained() -> list[str]:
        with captured_messages() as messages, fixed_random_seeds():
            explanation = audit.harness.question(views).explain()
        return [repr(explanation), explanation._repr_html_(), *messages]

    try:
        before = explained()
        for name, rows, _ in audit.distant_runs[:1] if audit.first_run.release else []:
            audit.harness.trace(rows, transcript=audit.first_run.given)
            if (after := explained()) != before:
                what = _outcome_difference("\n".join(before), "\n".join(after))
                raise Failed(f"explain() differs after an answer on another table ({name}): {what}")
    except DPError as error:
        raise Failed(f"explain() fails with {type(error).__name__}: {error}") from error
    if log:
        raise Failed(f"explain() charges or reads private rows: {log}")
    return "explain() reads no rows, charges nothing, and does not depend on earlier answers"


def same_on_every_frame(audit: Audit) -> str:
    """Catch sums that depend on the order of rows, on batches or on the library, and modified input tables."""
    rng, local = np.random.default_rng(3), audit.mechanism.local
    public = {repr([row[name] for name in audit.case.unchangeable_fields]) for row in audit.rows}
    others = [
        row
        for row in candidate_rows(audit.case, count=40)
        if repr([row[name] for name in audit.case.unchangeable_fields]) in public
    ] or audit.rows
    rows = [*audit.rows, *(others[int(i)] for i in rng.integers(len(others), size=300))]
    first = audit.harness.trace(rows)
    turns = [("once more", rows, 0), ("in batches of one row", rows, 1), ("in batches of seven rows", rows, 7)]
    if not local:  # else which message is asked of a row may follow from its place, drawn without a look at it
        shuffled = [rows[int(i)] for i in rng.permutation(len(rows))]
        turns += [("in another order", shuffled, 0), ("in another order and in batches of 64 rows", shuffled, 64)]
    for what, table, batch in turns:
        other = audit.harness.trace(table, transcript=first.given, batch=batch or None)
        if not _same_sums(first, other, local=local):
            raise Failed(f"the sums differ if the same rows are read {what}")
    order = "" if local else " and in any order of the rows"
    return f"the sums are the same in batches of any size{order}{_check_libraries(audit)}; the tables are unchanged"


def _check_libraries(audit: Audit) -> str:
    """Check that the sums of a table are the same in all installed dataframe libraries."""
    plain = [
        {
            name: value
            for name, value in row.items()
            if name not in audit.case.public and not isinstance(value, np.generic)
        }
        for row in candidate_rows(audit.case, count=0)
    ]
    rows = [*audit.rows, *({**audit.rows[0], **row} for row in plain)]
    parts = [
        {name: [row[name] for row in part] for name in audit.case.columns} for part in audit.harness.parts(rows)
    ]
    first, done = audit.harness.trace(rows), ""
    for library, terms in {"pandas": {}, "polars": {"strict": False}}.items():
        if importlib.util.find_spec(library) is None:
            continue
        make = importlib.import_module(library).DataFrame
        frames, before = ([make(columns, **terms) for columns in parts] for _ in range(2))
        trace = audit.harness.trace(rows, transcript=first.given, frames=[adapt(frame) for frame in frames])
        if trace.error is not None and first.error is None:
            raise Failed(f"with {library}, it raises {type(trace.error).__name__}: {trace.error}")
        same = _same_sums(first, trace, local=audit.mechanism.local)
        if not same or (trace.outcome != first.outcome and _outcome_repeats(audit, rows, first)):
            raise Failed(f"with {library}, the sums differ from those of the same rows in memory")
        if not all(frame.equals(old) for frame, old in zip(frames, before, strict=True)):
            raise Failed(f"it modifies the {library} table")
        done += f", with {library}"
    return done


def _same_sums(a: Recording, b: Recording, *, local: bool) -> bool:
    """Return whether two calls computed the same sums, with noise of the same scale."""
    return len(a.draws) == len(b.draws) and all(
        np.array_equal(_sums_in_any_order(mine, local=local), _sums_in_any_order(its, local=local))
        and (mine.scale, mine.keys) == (its.scale, its.keys)
        for mine, its in zip(a.draws, b.draws, strict=True)
    )


def _sums_in_any_order(draw: Draw, *, local: bool) -> NDArray[np.int64]:
    """Return the sums of a draw without what the order of rows changes: sorted, or none, for values by row."""
    if draw.kind in {"rank", "test"}:  # it rearranges the rows by their places
        return draw.sums[:0]
    return np.sort(draw.sums, axis=None) if local or draw.kind == "arc" else draw.sums


def _outcome_repeats(audit: Audit, rows: Sequence[Row], first: Recording) -> bool:
    """Return whether repeated runs with the same noisy sums all have the same outcome."""
    again = (audit.harness.trace(rows, transcript=first.given) for _ in range(_REPEATS))
    return first.replayable and all(trace.outcome == first.outcome for trace in again)


def _array_lengths(plain: Any, path: str) -> Iterator[tuple[str, int]]:
    if isinstance(plain, dict):
        yield path, len(plain)
        for name, value in plain.items():
            yield from _array_lengths(value, f"{path}.{name}")
    elif isinstance(plain, list):
        yield path, len(plain)
        for at, value in enumerate(plain):
            yield from _array_lengths(value, f"{path}[{at}]" if at < 100 else path)  # noqa: PLR2004


def is_documented(audit: Audit) -> str:
    """Catch a docstring without a privacy guarantee or without a reference."""
    doc = audit.mechanism.doc
    if not re.search(r"differential(ly)?\W+priva|[εe]psilon\W+DP\b|ε-DP", doc, re.IGNORECASE):
        raise Failed("the docstring does not state the privacy guarantee")
    if not re.search(r"References\n-+|arXiv|doi", doc):
        raise Failed("the docstring has no reference")
    return "the docstring states the guarantee and a reference"
