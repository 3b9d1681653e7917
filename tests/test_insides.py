"""What is inside an object is found wherever it is."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import functools
import struct
import types

import numpy as np
import pytest

from dfprivacy.testing.insides import difference, insides


class Slotted:
    """An object without a dictionary."""

    __slots__ = ("kept",)


class Hiding:
    """An object whose pickle holds more than its attributes."""

    def __init__(self, exact):
        self.__dict__["_pickled"] = functools.partial(float, exact)

    def __getstate__(self):
        return {"exact": self._pickled()}


class Tagged(float):
    """A number with an attribute."""


def slotted(exact):
    found = Slotted()
    found.kept = exact
    return found


def tagged(exact):
    found = Tagged(1.0)
    found.exact = exact
    return found


HIDDEN = {
    "slot": slotted,
    "attribute of a number": tagged,
    "closure": lambda exact: lambda: exact,
    "default": lambda exact: lambda kept=exact: kept,
    "attribute of a function": lambda exact: functools.wraps(types.SimpleNamespace(exact=exact))(lambda: None),
    "pickle": Hiding,
    "rest of an array": lambda exact: np.array([1.0, exact])[:1],
    "object in an array": lambda exact: np.array([tagged(exact)], dtype=object),
    "read-only mapping": lambda exact: types.MappingProxyType({"exact": exact}),
    "order of keys": lambda exact: dict.fromkeys(sorted("ab", reverse=exact > 1), 0),
    "bits of a NaN": lambda exact: struct.unpack(">d", bytes.fromhex(f"7ff80000000000{int(exact):02x}"))[0],
    "sign of zero": lambda exact: 0.0 if exact > 1 else -0.0,
}


@pytest.mark.parametrize("place", HIDDEN)
def test_what_is_hidden_is_found(place):
    """Two objects that differ in one hidden place differ inside, and equal ones do not."""
    make = HIDDEN[place]

    one, same, other = (insides(make(exact)) for exact in (1.0, 1.0, 2.0))

    assert None is difference(one, same)
    assert difference(one, other)


def test_objects_may_hold_themselves():
    """What holds itself is written down once."""
    itself = []
    itself.append(itself)

    assert {"it": "list 1 items", "it[0]": "the same as it"} == insides(itself)
