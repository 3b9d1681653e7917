"""The conduct of a mechanism: what it leaves behind, what its features remember, what can be seen of its release.

Every check is a function of an `Audit`, as those of `dfprivacy.testing.discipline` are. What they find is mostly no
fault of arithmetic but a way around the noise: by an attribute, a file, a module, a feature that remembers.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dfprivacy._call.question import held
from dfprivacy._privacy import samplers as noise
from dfprivacy.errors import PluginError
from dfprivacy.testing import diameters, overheard, world
from dfprivacy.testing.cases import candidates
from dfprivacy.testing.discipline import Audit, Failed, Skipped
from dfprivacy.testing.harness import Replay, fixed_chance, listening, with_first
from dfprivacy.testing.insides import difference, insides, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy.testing.cases import Row
    from dfprivacy.testing.overheard import Measurement

__all__: list[str] = []  # what each check catches is in `conformance.CHECKS`

_PICTURES = 1  # tables, besides the first, of which the release is drawn
_REPEATS = 30
_FAR = 3  # tables on which the release is looked at, besides the first
_ODD = 8  # rows that features are shown one by one


def shows_noise_alone(audit: Audit) -> str:
    """Catch hidden attributes, pictures, texts, the order of keys, or a pickle that tell what is exact."""
    first = audit.answered()
    if not first.replayable:
        raise Skipped("it draws what is no noise added to values, and cannot be replayed")
    seen = _seen(audit, audit.rows, pictures=True)
    for at, (name, rows, _) in enumerate(audit.distant[:_FAR]):
        other = _seen(audit, rows, pictures=at < _PICTURES)
        if not other:
            raise Failed(f"given the same noisy sums it does not answer on a table of {name}")
        for page in [page for page in seen if page in other]:
            if (where := difference(seen[page], other[page])) is None:
                continue
            if any(
                difference(before[page], _seen(audit, table, pictures=at < _PICTURES).get(page, {}))
                for _ in range(_REPEATS)
                for table, before in ((audit.rows, seen), (rows, other))
            ):
                raise Skipped("it has a source of chance that cannot be replayed")
            raise Failed(f"given the same noisy sums {page} shows something else on a table of {name}: {where}")
    return f"{', '.join(seen)} show the same under the same noisy sums"


def _seen(audit: Audit, rows: Sequence[Row], *, pictures: bool) -> dict[str, dict[str, str]]:
    """Ask, under the noisy sums of the first_run, and look at the release before anything else is asked."""
    release = audit.stage.trace(rows, transcript=audit.first_run.given).release
    with listening(), fixed_chance():
        return {} if release is None else shown(release, pictures=pictures)


def _measurements(audit: Audit) -> list[Measurement]:
    log: list[str] = []
    with overheard.overhearing(log) as measurements:
        trace = audit.stage.trace(
            audit.rows, transcript=audit.first_run.given, frames=audit.stage.frames(audit.rows, log)
        )
    if isinstance(trace.error, PluginError):
        raise Failed(f"the core refuses it: {trace.error}")
    return measurements


def _things(audit: Audit) -> list[Any]:
    """Give all features, statistics and labels that are measured, and what they are made of."""
    return [thing for each in _measurements(audit) for part in each.things for thing in overheard.parts(part)]


def noises_what_it_reads(audit: Audit) -> str:
    """Catch private rows read for nothing: a sensitivity of 0, bundled features changed."""
    measurements = _measurements(audit)
    for measurement in measurements:
        if measurement.reads and not measurement.draws:
            names = ", ".join(thing.describe() for thing in measurement.things)
            raise Failed(
                f"{measurement.verb} reads private rows for {names}, and gives what it finds without noise"
            )
    return f"noise in all that is private of {len(measurements)} measurements"


def features_keep_the_rules(audit: Audit) -> str:
    """Catch features that inherit from bundled ones, or define what the core derives, themselves or by a mix-in."""
    things = _things(audit)
    for thing in things:
        if (broken := overheard.against_the_rules(thing)) is not None:
            raise Failed(broken)
    return f"{len(things)} features, statistics and labels define what is theirs to define"


def diameters_hold(audit: Audit) -> str:
    """Catch a diameter of a feature's author's that two rows refute."""
    foreign = map(diameters.foreign, _things(audit))
    held = [features for features in foreign if getattr(features, "states_a_diameter", False)]
    if not held:
        raise Skipped("no feature states a diameter of its own")
    for features in held:
        if (apart := diameters.refuted(features, audit.stage)) is not None:
            public = f" and agree on {apart.public!r}" if apart.public else ""
            raise Failed(
                f"the vectors of two rows ({apart.rows[0]} and {apart.rows[1]}) are {apart.distance:.6g} apart in "
                f"L{apart.norm:g}{public}; {features.describe()} says {apart.diameter:.6g} at most"
            )
    return f"no two rows found that are further apart than {len(held)} features say"


def units_hold(audit: Audit) -> str:
    """Catch a feature whose rows are not of the whole units that it claims."""
    foreign = map(diameters.foreign, _things(audit))
    held = [features for features in foreign if features is not None and features.unit is not None]
    if not held:
        raise Skipped("no feature claims a unit of its own")
    for features in held:
        if (row := diameters.broken(features, audit.stage)) is not None:
            raise Failed(f"the vector of {row} is not of whole units; {features.describe()} says {features.unit:g}")
    return f"no row found that is not of whole units, as {len(held)} features say"


def features_remember_nothing(audit: Audit) -> str:
    """Catch features that keep the rows they see, warn of them, or then declare another radius, shape or weight."""
    things = [thing for each in _measurements(audit) for thing in each.things]
    tables = [audit.rows, audit.rows, *(rows for _, rows, _ in audit.distant), *_strange(audit)]
    stage = audit.stage
    subjects = [stage.question(stage.views(stage.frames(rows), stage.accounts_of([]))).target for rows in tables]
    for thing in things:
        kept: dict[str, str] = {}
        earlier: list[str] = []
        for at, target in enumerate(subjects):
            fresh = overheard.copied(thing)
            before = overheard.declared(fresh)
            words = overheard.evaluated(fresh, target.table.gathered(fresh.columns))
            if where := difference(before, overheard.declared(fresh)):
                raise Failed(f"after it has seen rows, {thing.describe()} declares otherwise than before: {where}")
            now = insides(fresh)
            if at > 1 and (where := difference(kept, now)):  # what is public may be kept, once
                raise Failed(f"{thing.describe()} keeps what it sees of the rows: {where}")
            if at > 1 and words != earlier:
                raise Failed(f"{thing.describe()} says something of the rows it sees: {(words or earlier)[0]!r}")
            kept, earlier = now, words
    return f"{len(things)} features, statistics and labels are the same after they have seen rows"


def features_never_fail(audit: Audit) -> str:
    """Catch features, statistics and labels that raise, or have another shape, on some rows, which count as 0."""
    things = _things(audit)
    stage = audit.stage
    tables = [audit.rows, *(rows for _, rows, _ in audit.distant), *_strange(audit)]
    for rows in tables:
        target = stage.question(stage.views(stage.frames(rows), stage.accounts_of([]))).target
        for thing in things:
            wrong = overheard.failure(overheard.copied(thing), target.table.gathered(thing.columns))
            if wrong is not None:
                raise Failed(f"{thing.describe()} fails on made-up rows, where it counts as zeros:\n{wrong}")
    return f"{len(things)} features, statistics and labels have a value on {len(tables)} tables"


def _strange(audit: Audit) -> list[list[Row]]:
    """Put odd rows in place of the first, which agree with it on what is public."""
    first, *_ = audit.rows
    public = {name: first[name] for name in audit.case.agreed}
    return [with_first(audit.rows, {**row, **public}) for row in candidates(audit.case, count=0)[:_ODD]]


def leaves_no_trace(audit: Audit) -> str:
    """Catch files, processes, connections, environment variables, seeds, and state kept in a module."""
    other = next((rows for name, rows, _ in audit.distant if name == "highest"), audit.rows)
    turns = [(audit.rows, 1), (audit.rows, 1), (other, 1), (audit.rows, 2)]
    first, again, moved, reseeded = (_left_behind(audit, rows, start) for rows, start in turns)
    for each in (first, again, moved, reseeded):
        if each.traces.events:
            raise Failed(f"it does something outside of the process: {each.traces.events[0]}")
    if again.traces.printed != moved.traces.printed:
        raise Failed("what it writes to the process's own output depends on the data")
    if any(one == other for one, other in zip(again.random_state, reseeded.random_state, strict=True)):
        raise Failed("it seeds the generator that random or numpy.random share, so that what others draw repeats")
    if again.random_state != moved.random_state:
        raise Failed("how much it draws from the generator that random or numpy.random share depends on the data")
    for one, another in ((again, moved), (moved, reseeded)):
        if where := difference(one.state, another.state):
            raise Failed(f"it keeps something in its own module from call to call: {where}")
    for place in again.everywhere | moved.everywhere:
        values = [each.everywhere.get(place) for each in (first, again, moved)]
        if values[0] == values[1] != values[2]:
            raise Failed(f"it leaves something that depends on the data in {'.'.join(place)}")
    return "no file, process, connection, variable, seed or state is left behind"


def own_form_keeps_nothing(audit: Audit) -> str:
    """Catch an exact form for the owner that keeps what a release could find."""
    mechanism, stage, states = audit.mechanism, audit.stage, []
    if mechanism.own is None:
        raise Skipped("it has no exact form for the table's owner")
    other = next((rows for name, rows, _ in audit.distant if name == "highest"), audit.rows)
    known = mechanism.own.signature.parameters
    arguments = {name: value for name, value in audit.case.arguments.items() if name in known}
    for rows in (audit.rows, audit.rows, other):
        target = stage.question(stage.views(stage.frames(rows), stage.accounts_of([]))).target
        with listening(), contextlib.suppress(Exception):
            held(target, mechanism, (), arguments, ())
        states.append(world.state(mechanism))
    if where := difference(*states[1:]):
        raise Failed(f"its form for the owner keeps what a release could find: {where}")
    return f"{mechanism.own.name} keeps nothing from call to call"


@dataclass(frozen=True)
class _Left:
    """What a call left behind."""

    traces: world.Traces
    random_state: tuple[object, object]
    state: dict[str, str]
    everywhere: dict[tuple[str, str], object]


def _left_behind(audit: Audit, rows: Sequence[Row], start: int) -> _Left:
    """Ask on a table, with the shared generators seeded, under the noisy sums of the first_run."""
    stage, sampler = audit.stage, Replay(1, audit.first_run.given)
    kept = world.kept_chance()
    with kept, listening(), noise.use(sampler), contextlib.suppress(Exception):
        world.seed(start)
        with world.watching() as traces:
            try:
                stage.question(stage.views(stage.frames(rows), stage.accounts_of([]))).ask()
            finally:
                after = world.random_state()
    shared = start == 1
    return _Left(traces, after, world.state(audit.mechanism), world.everywhere(audit.mechanism) if shared else {})
