"""What a mechanism asks its curator, and how what it asks with behaves when it sees rows."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import math
import traceback
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from dfprivacy._measure.curator import Curator
from dfprivacy._privacy import samplers as noise
from dfprivacy.features import RowFeatures
from dfprivacy.local import RowLabels
from dfprivacy.statistics import OfPermutations, OfRows, OfSums, Statistic
from dfprivacy.testing.harness import listening
from dfprivacy.testing.insides import attributes, insides

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dfprivacy._table.batch import Batch

__all__ = ["Measurement", "against_the_rules", "copied", "declared", "evaluated", "failure", "overhearing", "parts"]

_VERBS = ("sum", "jointly", "measure", "select", "above_threshold", "permutation_test", "randomize")
_KINDS = (RowFeatures, Statistic, RowLabels)
_FREE_TO_WRITE = {"columns", "describe", "diameter", "radius", "reads", "rows", "shape", "unit", "weights"}
_HOUSE = ("dfprivacy.features.", "dfprivacy.statistics", "dfprivacy.local")
_PLACES = ("places",)  # of labels a number, of intervals a method
_NORMS: dict[Any, tuple[float, ...]] = {RowFeatures: (1, 2), Statistic: (1, 2, np.inf)}


@dataclass(frozen=True)
class Measurement:
    """One measurement.

    Attributes
    ----------
    verb : str
        The curator's method.
    things : tuple
        Copies of the features, statistics or labels, as they were before they saw a row.
    reads : int
        How often private columns were read for it.
    draws : int
        How often noise was drawn for it.
    answer : object
        What came out.
    """

    verb: str
    things: tuple[Any, ...]
    reads: int
    draws: int
    answer: Any


@contextmanager
def overhearing(log: list[str]) -> Iterator[list[Measurement]]:
    """Write down what curators are asked; `log` is that of the tables they read."""
    measurements: list[Measurement] = []

    def heard(verb: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def noting(*args: Any, **kwargs: Any) -> Any:
            drawn, read = getattr(noise.sampler(), "draws", []), log.count("read")
            before = len(drawn)
            given = _flat([*args, *kwargs.values()])
            things = tuple(copied(each) for each in given if isinstance(each, _KINDS))
            answer = function(*args, **kwargs)
            measurements.append(Measurement(verb, things, log.count("read") - read, len(drawn) - before, answer))
            return [heard(verb, one) for one in answer] if isinstance(answer, list) else answer  # of jointly

        return noting

    with contextlib.ExitStack() as stack:
        for name in _VERBS:
            stack.enter_context(mock.patch.object(Curator, name, heard(name, getattr(Curator, name))))
        yield measurements


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for each in value:
            yield from _flat(each)
    else:
        yield value


def copied(thing: Any) -> Any:
    """Copy a feature, a statistic or labels; what cannot be copied is given as it is."""
    try:
        return copy.deepcopy(thing)
    except Exception:  # noqa: BLE001 - whatever a plugin's object says to that
        return thing


def parts(thing: Any) -> list[Any]:
    """Give a feature, a statistic or labels, and all those that it is made of."""
    inner = [each for value in attributes(thing).values() for each in _flat(value) if isinstance(each, _KINDS)]
    return [thing, *(part for each in inner for part in parts(each))]


def against_the_rules(thing: Any) -> str | None:
    """Say which rule for features of third parties a feature breaks; None if none."""
    name = type(thing).__name__
    for method in attributes(thing):
        if inspect.isfunction(inspect.getattr_static(type(thing), method, None)):
            return f"an attribute {method!r} of a {name} stands in place of its method"
    if not isinstance(thing, RowFeatures):
        return None
    derived = {each for each in vars(RowFeatures) if not each.startswith("_")} - _FREE_TO_WRITE
    foreign = [cls for cls in type(thing).__mro__ if not cls.__module__.startswith((*_HOUSE, "builtins", "abc"))]
    for cls in foreign:
        if defined := sorted(derived & vars(cls).keys()):
            return f"{cls.__name__}, which a {name} is, defines {defined!r}, which RowFeatures derives"
    if foreign and (bundled := [c for c in type(thing).__mro__ if c.__module__.startswith(_HOUSE)][:-1]):
        return f"a {name} is a {bundled[0].__name__} with methods of its own, whose bounds need not hold for it"
    return None


def declared(thing: Any) -> dict[str, str]:
    """Ask for all that a feature, a statistic or labels declare."""
    declarations: dict[str, str] = {}
    for name in (*("columns", "shape", "weights", "error", "lipschitz"), *_PLACES * isinstance(thing, RowLabels)):
        declarations |= insides(getattr(thing, name, None), name)
    if hasattr(thing, "radius"):
        declarations |= insides([thing.radius(norm) for norm in (1, 2)], "radius()")
    for kind, norms in _NORMS.items():
        if isinstance(thing, kind):
            relations = [(relation, norm) for relation in ("replace_one", "add_remove") for norm in norms]
            declarations |= insides([thing.sensitivity(*each, frozenset()) for each in relations], "sensitivity()")
    return declarations


def evaluated(thing: Any, batch: Batch) -> list[str]:
    """Let a feature, a statistic or labels see rows; return what they say meanwhile."""
    with listening() as messages, np.errstate(all="ignore"), contextlib.suppress(Exception):
        _see(thing, batch)  # the core withholds errors, and so what they say
    return messages


def failure(thing: Any, batch: Batch) -> str | None:
    """Let a feature, a statistic or labels see rows; return the traceback if that fails, None if it does not."""
    try:
        with listening(), np.errstate(all="ignore"):
            seen = np.array(_see(thing, batch), dtype=float)
            shape = () if isinstance(thing, RowLabels) else tuple(thing.shape)
            seen.reshape(shape if isinstance(thing, Statistic) else (batch.size, math.prod(shape)))
    except Exception:  # noqa: BLE001 - whatever it is
        return traceback.format_exc()
    return None


def _see(thing: Any, batch: Batch) -> Any:
    if isinstance(thing, OfSums):
        vectors = np.asarray(thing.features.rows(batch), dtype=float).reshape(
            batch.size, math.prod(thing.features.shape)
        )
        sums = vectors.sum(axis=0).reshape(thing.features.shape)
        return thing.value(sums / np.broadcast_to(thing.features.weights, thing.features.shape))
    if isinstance(thing, OfPermutations):
        return thing.value(batch, np.random.default_rng(1))
    return thing.value(batch) if isinstance(thing, OfRows) else thing.rows(batch)
