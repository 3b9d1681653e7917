"""Names that parameters and fields of releases had before."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy import mechanism, register_mechanism, unregister
from dfprivacy.release import Release, renamed


@dataclass(frozen=True, kw_only=True, repr=False)
class Width(Release):
    lengthscale: float

    bandwidth = renamed("lengthscale")


@mechanism(renamed={"bandwidth": "lengthscale"})
def kernel_width(curator, lengthscale: float = 1.0):
    """The width asked for, for nothing."""
    return Width(lengthscale=lengthscale)


@pytest.fixture(autouse=True)
def view():
    register_mechanism(kernel_width)
    yield dp.protect(pd.DataFrame({"x": [1.0, 2.0]}), "widths", epsilon=1, bounds={"x": (0, 3)}, ledger="memory:")
    unregister("kernel_width")


def test_an_old_parameter_warns_where_it_was_written(view):
    """The old name does what the new one does, and the warning points at the caller's line."""
    with pytest.warns(FutureWarning, match=r"kernel_width\(\): bandwidth is called lengthscale now") as heard:
        found = view.kernel_width(bandwidth=2.0, epsilon=0.1)

    assert found.lengthscale == 2.0
    assert heard[0].filename == __file__
    assert found.result == {"lengthscale": 2.0}
    assert next(iter(inspect.signature(view.kernel_width).parameters)) == "lengthscale"


def test_an_old_field_warns_where_it_was_read(view):
    """So does a field of a release; the class shows it is no field."""
    found = view.kernel_width(2.0, epsilon=0.1)

    with pytest.warns(FutureWarning, match=r"Width\.bandwidth is called lengthscale now") as heard:
        assert found.bandwidth == 2.0
    assert heard[0].filename == __file__
    assert isinstance(Width.bandwidth, renamed)


@pytest.mark.parametrize(
    ("old", "new"),
    [("Measurement", "NoisyValue"), ("Noise", "MeasurementRecord"), ("Above", "SparseVectorAnswers")],
)
def test_an_old_name_of_the_package_warns(old, new):
    """Whoever wrote `isinstance(x, dp.Measurement)` is told what it is called."""
    with pytest.warns(FutureWarning, match=rf"dfprivacy\.{old} is called {new} now") as heard:
        assert getattr(dp, old) is getattr(dp, new)
    assert heard[0].filename == __file__


def test_no_other_name_is_made_up():
    """A name that never was is an error, as in any module."""
    with pytest.raises(AttributeError, match="has no attribute 'Measurements'"):
        _ = dp.Measurements


def test_both_names_are_refused(view):
    """Who gives both gets an error before anything is paid."""
    with pytest.raises(dp.ArgumentError, match="unexpected keyword argument 'bandwidth'"):
        view.kernel_width(bandwidth=2.0, lengthscale=1.0, epsilon=0.1)
    assert view.budget.spent == 0


def test_a_new_name_must_be_there():
    """An author who names a parameter that is not there is told so."""
    with pytest.raises(dp.PluginError, match="has no parameter"):
        mechanism(name="wide", renamed={"old": "new"})(lambda curator, width=1.0: None)
