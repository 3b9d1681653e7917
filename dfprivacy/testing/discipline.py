"""The discipline of a mechanism: what it may do besides answering.

Every check is a function of an `Audit`. It returns a sentence on what it saw, or raises `Failed` or `Skipped`.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from dfprivacy._measure.curator import Curator
from dfprivacy._privacy import samplers as noise
from dfprivacy._privacy.filters import exact
from dfprivacy._privacy.losses import Gaussian
from dfprivacy._table.frames import adapt
from dfprivacy.errors import DPError
from dfprivacy.release import ConfidenceInterval, Release
from dfprivacy.testing.cases import candidates, distant, tables
from dfprivacy.testing.exact import Family, families, worst
from dfprivacy.testing.harness import ADDED, SPARSE, Harness, fixed_chance, ledger_accounts, listening, with_first
from dfprivacy.testing.insides import difference, insides
from dfprivacy.testing.sampler import goodness_of_fit, keys_fit, messages_fit
from dfprivacy.testing.sampling import audit_by_sampling
from dfprivacy.testing.search import statistics_of, worst_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from dfprivacy.mechanism import Mechanism
    from dfprivacy.testing.cases import Case, Row
    from dfprivacy.testing.exact import Loss
    from dfprivacy.testing.harness import Draw, Recording

__all__ = ["COVERS", "Audit", "Failed", "Skipped"]

_PVALUE = 1e-8
_REPEATS = 5
_STEPS = 60  # changes of a table in search of the worst
_OTHERS = 60  # draws of other noise, of which a decision comes out otherwise at least once
_SCALES = (0.7, 4.25)  # of noise that is looked at whatever a mechanism draws
_DRAWS = 20_000  # of these; a quarter of them of each scale that a mechanism draws
_LONG = 200  # rows of a table with large sums
_EARLIER = 2  # tables that are asked about before something is asked again
_CANARY = "CANARY-7f3a"
COVERS = tuple(f"{limited}{rows}" for limited in ("", "limited ") for rows in ("population", "table", "sample"))
"""What an interval may be of: population, table or secret sample, or the same of values limited to the bounds."""
_NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?", re.IGNORECASE)


class Failed(AssertionError):  # noqa: N818 - reads as the sentence it is
    """A mechanism does not pass a check; the text says what is wrong."""


class Skipped(Exception):  # noqa: N818
    """A check does not apply; the text says why."""


@dataclass(frozen=True)
class Audit:
    """One mechanism in one case, with what several checks need.

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
    """

    mechanism: Mechanism
    case: Case
    samples: int = 100_000
    others: Sequence[Case] = ()

    @cached_property
    def stage(self) -> Harness:
        """Where it performs."""
        return Harness(self.mechanism, self.case)

    @cached_property
    def rows(self) -> list[Row]:
        """A table of mixed rows."""
        return tables(self.case)["mixed"]

    @cached_property
    def first_run(self) -> Recording:
        """The first performance."""
        return self.stage.trace(self.rows)

    def answered(self) -> Recording:
        """Give the first performance; skip the check if it has no answer."""
        if self.first_run.release is None:
            raise Skipped("it does not answer")
        return self.first_run

    @cached_property
    def distant(self) -> list[tuple[str, list[Row], Recording]]:
        """Tables far from the first, by name, asked under the noisy sums of the first_run.

        They agree with it on what is public. Neighbour by neighbour the one becomes the other, so what follows
        from noise alone is the same on all of them; a threshold that no two neighbours pass shows here.
        """
        self.answered()
        return [
            (name, rows, self.stage.trace(rows, transcript=self.first_run.given))
            for name, rows in distant(self.case, self.rows).items()
        ]

    def far_apart(self) -> Iterator[tuple[str, Recording, Recording]]:
        """Give tables that are far apart under the same noisy sums: small ones, and some of many rows."""
        yield from ((name, self.first_run, trace) for name, _, trace in self.distant)
        rows = self.rows * -(-_LONG // len(self.rows))
        first = self.stage.trace(rows)
        for name, moved in list(distant(self.case, rows).items())[:_EARLIER]:
            yield f"{name}, {len(rows)} rows", first, self.stage.trace(moved, transcript=first.given)

    @cached_property
    def families(self) -> list[Family]:
        """Neighbouring tables, traced."""
        self.answered()
        return families(self.stage)

    @cached_property
    def loss(self) -> Loss:
        """The largest loss found."""
        losses = [worst(self.families)]
        if statistics_of(self.stage, self.rows)[1]:
            losses.append(worst_table(self.families, _STEPS))
        return max(losses, key=lambda loss: (loss.exceeds, loss.epsilon))


def answers(audit: Audit) -> str:
    """Catch a mechanism that fails on a plain table."""
    trace = audit.first_run
    if trace.release is None:
        raise Failed(f"it fails with {type(trace.error).__name__}: {trace.error}")
    return "answers"


def _closed_form(audit: Audit) -> None:
    audit.answered()
    if not audit.first_run.replayable:
        raise Skipped("it draws what is no noise added to values, whose loss has no closed form here")
    if not audit.first_run.charges:
        raise Skipped("it charges nothing")


def loss_within_charge(audit: Audit) -> str:
    """Catch too little noise: too small a sensitivity, rows counted twice, changes of group charged once."""
    _closed_form(audit)
    loss = audit.loss
    if loss.exceeds:
        raise Failed(
            f"two neighbouring tables ({loss.table}: {loss.pair[0]} against {loss.pair[1]}) are told apart by "
            f"epsilon {loss.epsilon:.6g}, and {loss.charge:.6g} was charged"
        )
    return f"loss {loss.epsilon:.6g} of {loss.charge:.6g} charged"


def charge_is_tight(audit: Audit) -> str:
    """Catch too much noise: budget that is charged and not used."""
    _closed_form(audit)
    used = audit.loss.tightness
    if used < audit.case.tightness:
        raise Failed(
            f"the worst pair of tables uses {used:.3f} of what is charged, less than {audit.case.tightness:g}: "
            "the noise is larger than it need be"
        )
    return f"tightness {used:.4f}"


def concludes_from_noise_alone(audit: Audit) -> str:
    """Catch anything exact in a release: counts, ranges, thresholds learned from the data, noise of its own."""
    if not audit.first_run.replayable:
        raise Skipped("it draws what is no noise added to values, and cannot be replayed")
    count = 0
    for family in audit.families:
        for (one, a), (other, b) in family.pairs():
            count += 1
            if a.stopped or b.stopped or a.outcome == b.outcome:
                continue
            for row, trace in ((one, a), (other, b)):
                if any(family.trace(row).outcome != trace.outcome for _ in range(_REPEATS)):
                    raise Skipped("it has a source of chance that cannot be replayed")
            raise Failed(
                f"given the same noisy sums it concludes differently on neighbouring tables ({family.table}: {one} "
                f"against {other}): {_difference(a.outcome, b.outcome)}"
            )
    for name, first, trace in audit.far_apart():
        if trace.outcome != first.outcome:
            if not _repeats(audit, audit.rows, audit.first_run):
                raise Skipped("it has a source of chance that cannot be replayed")
            raise Failed(
                f"given the same noisy sums it concludes differently on a table of {name}: "
                f"{_difference(first.outcome, trace.outcome)}"
            )
    return f"{count} pairs of neighbouring tables come out the same under the same noisy sums"


def _difference(a: str, b: str) -> str:
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return f"...{a[max(0, at - 40) : at + 40]!r} against ...{b[max(0, at - 40) : at + 40]!r}"


def noise_is_what_was_charged(audit: Audit) -> str:
    """Catch noise from elsewhere, of another scale than was charged, or used twice."""
    trace = audit.first_run
    if trace.opaque:
        raise Skipped("it draws what cannot be replayed")
    kinds = {kind: kind for kind in ADDED} | {SPARSE: "laplace"}
    drawn = Counter((kinds[draw.kind], draw.scale) for draw in trace.draws if draw.kind in kinds)
    paid = Counter((loss.kind, loss.scale) for loss in trace.charges if loss.kind in ADDED)  # type: ignore[union-attr]
    if "trespass" in trace.log and not trace.charges:
        raise Failed("it reads private rows and charges nothing")
    # A joint measurement is charged with a scale below all of its own, and all of its coordinates.
    least = min((scale for kind, scale in paid if kind == "gaussian"), default=math.inf)
    joint = {(kind, scale) for kind, scale in drawn.keys() - paid.keys() if kind == "gaussian" and scale > least}
    if missing := {noise for noise in paid.keys() - drawn.keys() if not (joint and noise[0] == "gaussian")}:
        raise Failed(f"noise was charged that was not drawn from the sampler in force: {sorted(missing)}")
    if free := drawn.keys() - paid.keys() - joint:
        raise Failed(f"noise was drawn that was not charged as such: {sorted(free)}")
    if audit.case.group_by:
        return f"{len(trace.draws)} draws for {len(trace.charges)} charges, by group"
    if any(drawn[noise] < paid[noise] for noise in paid.keys() & drawn.keys()):
        raise Failed("one noise serves for several charges")
    coordinates = sum(draw.sums.size for draw in trace.draws if draw.kind == "gaussian")
    if coordinates > sum(loss.dimension for loss in trace.charges if isinstance(loss, Gaussian)):
        raise Failed("more Gaussian noise was drawn than was charged")
    return f"{len(trace.draws)} draws for {len(trace.charges)} charges"


def outputs_do_not_tell(audit: Audit) -> str:
    """Catch noise of other kinds: any event that is likelier on a neighbouring table than epsilon allows."""
    audit.answered()
    for other in (noise_is_what_was_charged, concludes_from_noise_alone):
        try:
            other(audit)
        except Failed:
            raise Skipped(f"{other.__name__} has failed already") from None
        except Skipped:
            break
    else:
        raise Skipped("the exact audit says all: the release follows from noisy sums alone")
    price = float(exact(audit.case.epsilon))
    proof = audit_by_sampling(audit.stage, audit.samples, enough=price)
    if proof.epsilon > price:
        raise Failed(
            f"{proof.event} tells neighbouring tables apart ({proof.table}: {proof.pair[0]} against "
            f"{proof.pair[1]}) by epsilon {proof.epsilon:.3f} at least, and {price:.3f} was to be paid"
        )
    return f"the best event of {proof.samples} outputs a side proves epsilon {proof.epsilon:.3f} of {price:.3f}"


def noise_follows_its_law(audit: Audit) -> str:
    """Catch a sampler whose noise or messages do not follow their law."""
    drawn = {kind: sorted({d.scale for d in audit.first_run.draws if d.kind == kind}) for kind in sorted(ADDED)}
    laws = {(kind, each) for kind, of in drawn.items() if of for each in (of[0], of[len(of) // 2], of[-1])}
    for kind, scale in sorted(laws | {(kind, scale) for kind in ("laplace", "gaussian") for scale in _SCALES}):
        pvalue = _fit(noise.sampler(), kind, scale, _DRAWS if scale in _SCALES else _DRAWS // 4)
        if pvalue < _PVALUE:
            raise Failed(f"{kind} noise of scale {scale:g} does not follow its law: p = {pvalue:.2g}")
    arcs = {draw.law for draw in audit.first_run.draws if draw.kind == "arc"}
    for arc in arcs:
        pvalue = messages_fit(noise.sampler(), arc)
        if pvalue < _PVALUE:
            raise Failed(f"messages do not follow the law of {arc}: p = {pvalue:.2g}")
    domains = {(draw.scale, draw.law[2]) for draw in audit.first_run.draws if draw.kind == SPARSE}
    for scale, size in domains:
        pvalue = keys_fit(noise.sampler(), scale, size)
        if pvalue < _PVALUE:
            raise Failed(f"keys of a domain of {size} do not follow their law: p = {pvalue:.2g}")
    return f"{len(laws) + len(arcs) + len(domains) + 4} laws fit"


_fits: dict[tuple[str, str, float], float] = {}


def _fit(sampler: Any, kind: Any, scale: float, draws: int) -> float:
    key = (sampler.name, kind, scale)
    if key not in _fits:
        _fits[key] = goodness_of_fit(sampler, kind, scale, draws)
    return _fits[key]


def refuses_bad_prices(audit: Audit) -> str:
    """Catch an answer for an epsilon of zero, NaN, infinity or nothing."""
    log: list[str] = []
    views = audit.stage.views(audit.stage.frames(audit.rows, log), audit.stage.accounts_of(log))
    bad: list[Any] = [0, -1, math.nan, math.inf, "nothing", None, [1]]
    for epsilon in bad:
        try:
            with listening():
                audit.stage.question(views, epsilon=epsilon).ask()
        except DPError:
            pass
        else:
            raise Failed(f"it answers for epsilon={epsilon!r}")
    if log:
        raise Failed(f"a refused price led to {log}")
    return f"{len(bad)} prices refused, nothing charged or read"


def charges_before_reading(audit: Audit) -> str:
    """Catch rows read before they are paid for, and errors of an engine that are passed on."""
    trace = audit.first_run
    reads = [at for at, event in enumerate(trace.log) if event != "charge"]
    if reads and "charge" not in trace.log[: reads[0]]:
        raise Failed("private rows are read before anything is charged")
    broken = audit.stage.trace(audit.rows, fail=f"cannot read {_CANARY}")
    if reads and broken.error is None:
        raise Failed("a table that cannot be read has an answer")
    if reads and not isinstance(broken.error, DPError):
        raise Failed(f"a table that cannot be read leads to {type(broken.error).__name__}, which is no DPError")
    if reads and not broken.charges:
        raise Failed("a table that cannot be read leaves no charge")
    if _CANARY in _everything_said(broken.error):
        raise Failed("the error for a table that cannot be read quotes what the engine said of the data")
    return "charge first; a table that cannot be read leaves the charge, and an error without data"


def _everything_said(error: BaseException | None) -> str:
    errors = []
    while error is not None:
        errors.append(f"{type(error).__name__}: {error} {getattr(error, '__notes__', '')}")
        error = error.__cause__ or error.__context__
    return "\n".join(errors)


def reads_through_the_curator(audit: Audit) -> str:
    """Catch rows read behind the curator's back."""
    for family in audit.families:
        for _, trace in family.members:
            if "trespass" in trace.log:
                raise Failed("it reads private rows without asking a curator")
    return "rows are read by the curator's verbs alone"


def spends_what_was_asked(audit: Audit) -> str:
    """Catch a call that costs more than was asked, says that it cost less, or spares one of two accounts."""
    epsilon, delta = exact(audit.case.epsilon), exact(audit.case.delta)
    for family in audit.families:
        for row, trace in family.members:
            if trace.second not in {None, trace.charges}:
                raise Failed(f"of two accounts, one is charged {trace.charges}, and the other {trace.second}")
            if trace.epsilon > epsilon or trace.delta > delta:
                raise Failed(
                    f"it charges epsilon {float(trace.epsilon):g}, delta {float(trace.delta):g} with {row}"
                )
            paid = trace.release.privacy if trace.release else None
            if paid and (paid.epsilon, paid.delta) != (float(trace.epsilon), float(trace.delta)):
                raise Failed(
                    f"it says that epsilon {paid.epsilon:g}, delta {paid.delta:g} was paid; the account says "
                    f"{float(trace.epsilon):g}, {float(trace.delta):g}"
                )
    return f"never more than epsilon {float(epsilon):g}" + (f", delta {float(delta):g}" if delta else "")


def cost_does_not_depend_on_data(audit: Audit) -> str:
    """Catch a price that tells of the data."""
    for family in audit.families:
        for (one, a), (other, b) in family.pairs():
            if a.charges != b.charges:
                raise Failed(f"neighbouring tables cost differently ({family.table}: {one} against {other})")
    return "all neighbouring tables cost the same"


def explains_for_nothing(audit: Audit) -> str:
    """Catch an explanation that reads, charges, or shows an earlier sum."""
    log: list[str] = []
    views = audit.stage.views(audit.stage.frames(audit.rows, log), audit.stage.accounts_of(log))

    def explained() -> dict[str, str]:
        with listening() as messages, fixed_chance():
            explanation = audit.stage.question(views).explain()
        return insides([explanation, repr(explanation), explanation._repr_html_(), messages])

    try:
        kept = explained()
        for name, rows, _ in audit.distant[:1] if audit.first_run.release else []:
            audit.stage.trace(rows, transcript=audit.first_run.given)
            if where := difference(kept, explained()):
                raise Failed(f"after an answer on a table of {name} rows, explain says something else: {where}")
    except DPError as error:
        raise Failed(f"explain fails with {type(error).__name__}: {error}") from error
    if log:
        raise Failed(f"to explain led to {log}")
    return "explain reads and charges nothing, and says the same after answers on other tables"


def keeps_the_charge(audit: Audit) -> str:
    """Catch a refund after an error, and a question that is paid twice.

    Ask a real ledger, which does not forget.
    """
    accounts = ledger_accounts(audit.stage)

    def paid() -> list[Fraction]:
        return [sum((entry.epsilon for entry in account.entries()), Fraction(0)) for account in accounts]

    with listening(), contextlib.suppress(Exception):
        audit.stage.question(audit.stage.views(audit.stage.frames(audit.rows, fail="broken"), accounts)).ask()
    lost = paid()
    if audit.stage.trace(audit.rows, fail="broken").charges and not all(lost):
        raise Failed("after an error the charge is gone from the ledger")
    views = audit.stage.views(audit.stage.frames(audit.rows), accounts)
    with listening():
        first = audit.stage.question(views, fresh=False).ask()
        once = paid()
        again = audit.stage.question(views, fresh=False).ask()
    assert first.privacy is not None  # noqa: S101 - a release that leaves a view has a price
    for before, after in zip(lost, once, strict=True):
        if float(after - before) != first.privacy.epsilon:
            raise Failed(
                f"the ledger has {float(after - before):g} for an answer at epsilon {first.privacy.epsilon:g}"
            )
    if audit.case.where == {} and (paid() != once or _same(first) != _same(again)):
        raise Failed("the same question asked again is paid again, or answered otherwise")
    if any(account.spent() != _summed(account) for account in accounts):
        raise Failed("what the ledger says was spent is not the sum of its entries")
    return "charges stay after an error; the same question asked again costs nothing"


def _same(release: Release) -> str:
    plain = release.to_dict()
    return json.dumps({name: value for name, value in plain.items() if name != "privacy"}, sort_keys=True)


def _summed(account: Any) -> Any:
    spent = account.accountant.nothing
    for entry in account.entries():
        spent = account.accountant.after(spent, entry.loss)
    return spent


def keeps_no_state(audit: Audit) -> str:
    """Catch measurements kept from one call for another."""
    first = audit.first_run
    for what, rows in (("another table", audit.rows[1:] + audit.rows[:1]), ("the same table", audit.rows)):
        later = audit.stage.trace(rows, transcript=first.given)
        if later.charges != first.charges or len(later.draws) != len(first.draws):
            raise Failed(f"a later call, on {what}, pays or draws otherwise than the first")
    if first.replayable and (where := _later(audit)) is not None:
        raise Failed(where)
    others = (audit.stage.trace(audit.rows, seed=seed).outcome for seed in range(7, 7 + _OTHERS))
    if first.draws and all(outcome == first.outcome for outcome in others):
        raise Failed("other noise leads to the same answer: it comes from an earlier call, or is no answer")
    return "later calls pay and draw like the first"


def _later(audit: Audit) -> str | None:
    """Tell how the answer on one table differs after answers on others, under the same noisy sums."""
    answers = {}
    for name, rows, _ in audit.distant[:_EARLIER] if audit.first_run.release else []:
        audit.stage.trace(rows, transcript=audit.first_run.given)
        answers[name] = audit.stage.trace(audit.rows, transcript=audit.first_run.given).outcome
    if len(set(answers.values())) < 2:  # noqa: PLR2004 - the same after all
        return None
    repeated = {audit.stage.trace(audit.rows, transcript=audit.first_run.given).outcome for _ in range(_REPEATS)}
    if len(repeated) > 1:
        return None  # chance of its own, or the earlier call was one on the same table
    return f"its answer depends on which table it was asked of before: {', '.join(answers)} lead to other answers"


def rows_stand_alone(audit: Audit) -> str:
    """Catch features that look at other rows or the place in a batch, or arithmetic that depends on the batch."""
    rng = np.random.default_rng(3)
    others = candidates(audit.case, count=40)
    public = {repr([row[name] for name in audit.case.agreed]) for row in audit.rows}
    others = [row for row in others if repr([row[name] for name in audit.case.agreed]) in public] or [*audit.rows]
    rows = [*audit.rows, *(others[int(i)] for i in rng.integers(len(others), size=300))]
    in_turn: list[bool] = []
    randomize = Curator.randomize

    def noting(curator: Curator, maps: Any, **how: Any) -> Any:
        in_turn.append(how.get("turns") is not None)
        return randomize(curator, maps, **how)

    with mock.patch.object(Curator, "randomize", noting):
        first = audit.stage.trace(rows)
    shuffled = [rows[int(i)] for i in rng.permutation(len(rows))]
    turns: Iterator[tuple[str, Sequence[Row], dict[str, Any]]] = iter(
        [
            ("asked again", rows, {}),
            ("in another order", shuffled, {}),
            ("in batches of one row", rows, {"batch": 1}),
            ("in batches of seven rows", rows, {"batch": 7}),
            ("in another order and batches of 64 rows", shuffled, {"batch": 64}),
        ]
    )
    for what, table, options in turns:
        if any(in_turn) and table is shuffled:
            continue  # which message is asked of a row follows from its place, drawn without a look at it
        other = audit.stage.trace(table, transcript=first.given, **options)
        if not _alike(first, other, local=audit.mechanism.local):
            raise Failed(f"the same rows {what} have other sums")
    return "rows in any order and any batches have the same sums, to the last bit"


def _alike(a: Recording, b: Recording, *, local: bool) -> bool:
    """Tell whether two calls summed up the same, for noise of the same scale."""
    return len(a.draws) == len(b.draws) and all(
        np.array_equal(_unordered(mine, local=local), _unordered(its, local=local))
        and (mine.scale, mine.keys) == (its.scale, its.keys)
        for mine, its in zip(a.draws, b.draws, strict=True)
    )


def _unordered(draw: Draw, *, local: bool) -> NDArray[np.int64]:
    """Give what was noised, without the order of the rows."""
    if draw.kind in {"rank", "test"}:  # it rearranges the rows by their places
        return draw.sums[:0]
    return np.sort(draw.sums, axis=None) if local or draw.kind == "arc" else draw.sums


def same_on_every_engine(audit: Audit) -> str:
    """Catch other sums on pandas, Polars or a LazyFrame, and tables that are changed."""
    rows = [*audit.rows, *({**audit.rows[0], **row} for row in _plain_rows(audit.case))]
    parts = [{name: [row[name] for row in part] for name in audit.case.columns} for part in audit.stage.parts(rows)]
    first = audit.stage.trace(rows)
    done = []
    for engine, make in _engines().items():
        frames, before = ([make(columns) for columns in parts] for _ in range(2))
        trace = audit.stage.trace(rows, transcript=first.given, frames=[adapt(frame) for frame in frames])
        if trace.error is not None and first.error is None:
            raise Failed(f"on {engine} it fails with {type(trace.error).__name__}: {trace.error}")
        same = _alike(first, trace, local=audit.mechanism.local)
        if not same or (trace.outcome != first.outcome and _repeats(audit, rows, first)):
            raise Failed(f"on {engine} the sums are others than in memory")
        if not all(map(_unchanged, frames, before)):
            raise Failed(f"it changes the {engine} table it is asked about")
        done.append(engine)
    if not done:
        raise Skipped("neither pandas nor Polars is installed")
    return f"the same sums on {', '.join(done)}; tables unchanged"


def _repeats(audit: Audit, rows: Sequence[Row], first: Recording) -> bool:
    """Tell whether a call comes out the same again, under the same noisy sums."""
    again = (audit.stage.trace(rows, transcript=first.given) for _ in range(_REPEATS))
    return first.replayable and all(trace.outcome == first.outcome for trace in again)


def _plain_rows(case: Case) -> list[Row]:
    """Candidates in columns of one type, as every engine can hold them."""
    public = set(case.public)
    return [
        {name: value for name, value in row.items() if name not in public and not isinstance(value, np.generic)}
        for row in candidates(case, count=0)
    ]


def _engines() -> dict[str, Any]:
    engines: dict[str, Any] = {}
    with contextlib.suppress(ImportError):
        engines["pandas"] = importlib.import_module("pandas").DataFrame
    with contextlib.suppress(ImportError):
        polars = importlib.import_module("polars")
        engines["polars"] = lambda columns: polars.DataFrame(columns, strict=False)
        engines["polars lazy"] = lambda columns: polars.LazyFrame(columns, strict=False)
    return engines


def _unchanged(frame: Any, before: Any) -> bool:
    if hasattr(frame, "collect"):
        frame, before = frame.collect(), before.collect()
    return bool(frame.equals(before))


def release_is_plain(audit: Audit) -> str:
    """Catch a release with NaN, with rows in it, or that cannot be kept in the ledger."""
    lengths = []
    for extra in (7, 11):
        rows = (audit.rows * 20)[: len(audit.rows) + extra]
        release = audit.stage.trace(rows).release
        if release is None:
            raise Skipped("it does not answer for a table of another length")
        plain = release.to_dict()
        if Release.from_dict(json.loads(json.dumps(plain, allow_nan=False))).to_dict() != plain:
            raise Failed("the release does not survive JSON")
        if "nan" in _floats(plain):
            raise Failed("the release holds NaN")
        sizes = {len(rows), *map(len, audit.stage.parts(rows))}
        lengths.append({path for path, length in _lengths(plain, "") if length in sizes})
    if (both := lengths[0] & lengths[1]) and not audit.mechanism.local:
        raise Failed(f"the release holds something as long as the table: {sorted(both)}")
    return "finite or plainly infinite, survives JSON, nothing as long as the table"


def says_what_its_interval_covers(audit: Audit) -> str:
    """Catch an interval without a word on what it covers."""
    audit.answered()
    found = [each for each in _releases(audit.first_run.release) if _has_interval(each)]
    for each in found:
        if each.covers not in COVERS:
            raise Failed(
                f"a {type(each).__name__} has an interval and covers={each.covers!r}, which is none of {COVERS}"
            )
    if not found:
        raise Skipped("its release has no interval")
    return f"{len(found)} releases with an interval, of {', '.join(sorted({str(each.covers) for each in found}))}"


def _releases(value: Any) -> Iterator[Release]:
    """Give a release and all that it holds."""
    if isinstance(value, Release):
        yield value
        value = list(value.result.values())
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from _releases(each)


def _has_interval(release: Release) -> bool:
    ends = (release.result.get("low"), release.result.get("high"))
    return None not in ends or any(isinstance(value, ConfidenceInterval) for value in release.result.values())


def _floats(plain: Any) -> Iterator[str] | list[str]:
    if isinstance(plain, dict):
        if "$float" in plain:
            return [str(plain["$float"])]
        return [text for value in plain.values() for text in _floats(value)]
    return [text for value in plain for text in _floats(value)] if isinstance(plain, list) else []


def _lengths(plain: Any, path: str) -> Iterator[tuple[str, int]]:
    if isinstance(plain, dict):
        yield path, len(plain)
        for name, value in plain.items():
            yield from _lengths(value, f"{path}.{name}")
    elif isinstance(plain, list):
        yield path, len(plain)
        for at, value in enumerate(plain):
            yield from _lengths(value, f"{path}[{at}]" if at < 100 else path)  # noqa: PLR2004


def says_no_value(audit: Audit) -> str:
    """Catch errors, warnings, logs and output that quote a value of the data.

    Plant values that are found again wherever they turn up.
    """
    planted, numbers = _canaries(audit)
    odd = {
        "canaries": planted,
        "one row": planted[:1],
        "one row among plain ones": with_first(audit.rows, planted[0]),
        "extreme": [{**row, **dict.fromkeys(audit.case.bounds, 1.2345678e250)} for row in planted],
        "missing": [{**row, **dict.fromkeys(audit.case.columns)} for row in planted],
    }
    for name, rows in odd.items():
        for fail in ("", f"{_CANARY} {numbers[0]}"):
            trace = audit.stage.trace(rows, fail=fail)
            shown = "" if trace.release is None else f"{trace.release!r}\n{trace.release._repr_html_()}"
            everything = "\n".join([trace.outcome, _everything_said(trace.error), shown])
            if _CANARY in everything or any(_is(numbers, text) for text in _NUMBER.findall(everything)):
                raise Failed(
                    f"what it says of a table of {name} quotes a value of the data: {_quote(everything, numbers)}"
                )
    return "no release, error, warning, log message or output holds a value of the data"


def _canaries(audit: Audit) -> tuple[list[Row], list[float]]:
    rows, numbers = [], [1.2345678e250]
    for at, row in enumerate(audit.rows[:12]):
        planted = dict(row)
        for name, (low, high) in audit.case.bounds.items():
            value = float(f"{low + (high - low) * (0.1371931 + 0.0719377 * at):.7g}")
            planted[name] = value
            numbers.append(value)
        for name in audit.case.categories:
            if name not in audit.case.public and at % 3 == 0 and isinstance(row[name], str):
                planted[name] = _CANARY
        rows.append(planted)
    return rows, numbers


def _is(numbers: Sequence[float], text: str) -> bool:
    digits = re.sub(r"e.*|[-.]", "", text, flags=re.IGNORECASE).lstrip("0")
    return len(digits) >= 6 and any(math.isclose(float(text), number, rel_tol=1e-6) for number in numbers)  # noqa: PLR2004


def _quote(text: str, numbers: Sequence[float]) -> str:
    quoted = next((t for t in _NUMBER.findall(text) if _is(numbers, t)), _CANARY)
    at = text.find(quoted)
    return repr(text[max(0, at - 60) : at + 40])


def is_documented(audit: Audit) -> str:
    """Catch a docstring without a guarantee or a reference."""
    doc = audit.mechanism.doc
    if not re.search(r"differential(ly)?\W+priva|[εe]psilon\W+DP\b|ε-DP", doc, re.IGNORECASE):
        raise Failed("the docstring does not say what privacy it guarantees")
    if not re.search(r"References\n-+|arXiv|doi", doc):
        raise Failed("the docstring has no reference")
    return "the docstring states the guarantee and a reference"
