"""Errors: what they say wherever they are raised."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import copy
import pickle

import pytest

from dfprivacy import errors

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.DPError)]
STANDS = "Nothing was released; what was charged stays charged."


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("copied", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy])  # noqa: S301
def test_an_error_keeps_its_outcome(kind, copied):
    """An error that comes out of another process still says what became of the budget."""
    error = kind("It failed.", "Try again.").after(STANDS)

    again = copied(error)
    assert kind is type(again)
    assert f"It failed. {STANDS} Try again." == str(again) == str(error)
    assert ("It failed.", "Try again.", STANDS) == (again.what, again.hint, again.outcome)
