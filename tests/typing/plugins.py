"""What type checkers see of writing a plugin. Checked, never run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_type

import numpy as np
from numpy.typing import NDArray

import dfprivacy as dp

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, kw_only=True, repr=False)
class Average(dp.Release):
    """A result."""

    estimate: float


@dp.mechanism(columns={"column": "numeric"})
def average(curator: dp.Curator, column: dp.Column) -> Average:
    """The mean of a bounded column."""
    measured = curator.sum(dp.features.Moments(column, degree=1))
    assert_type(measured, dp.NoisyValue)
    assert_type(measured.values, NDArray[np.float64])
    assert_type(curator.size, int | None)
    assert_type(curator.epsilon, float)
    return Average(estimate=column.mid + column.half * float(measured.values[0]) / (curator.size or 1))


assert_type(average, dp.Mechanism)
assert_type(dp.features.OneHot(dp.Column("arm")) * dp.features.Count(), dp.features.OneHot)


class Above(dp.features.RowFeatures):
    """Features of one's own."""

    shape = (1,)

    def rows(self, batch: Any) -> NDArray[np.bool_]:
        """Return the vectors of a batch."""
        above: NDArray[np.bool_] = (batch.values(self.columns[0]) > 0)[:, None]
        return above

    def radius(self, norm: float) -> float:
        """Largest norm of a vector."""
        return float(norm > 0)


class Plugin:
    """A plugin that is not installed."""

    @dp.hookimpl
    def dfprivacy_register_mechanisms(self, register: Callable[[dp.Mechanism], None]) -> None:
        """Offer mechanisms."""
        register(average)

    @dp.hookimpl
    def dfprivacy_released(self, release: dp.Release, account: str) -> None:
        """Hear of releases."""
        assert_type(release.result, dict[str, Any])
        assert_type(account, str)


dp.register(Plugin())
dp.mechanism(columns={"column": "number"})(average.function)  # type: ignore[dict-item]
dp.features.RowFeatures()  # type: ignore[abstract]
