"""A curator whose noise is NumPy's: it sums a table once, and adds noise as often as it is asked.

For benchmarks only, of public tables: nothing is private here, nothing is charged, and noise is continuous, but on
whole units where asked for. Scales are those of the claimed sensitivities, under ``replace_one`` for a table
whose size is public, or ``add_remove``.
"""

from __future__ import annotations

import math
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dfprivacy import Column
from dfprivacy._measure.sums import _split_into_parts
from dfprivacy._table.batch import Batch, number
from dfprivacy.features import RowFeatures
from dfprivacy.laws import NoiseLaw
from dfprivacy.release import MeasurementRecord, NoisyValue

if TYPE_CHECKING:
    from collections.abc import Callable

    from eda_tables import Table

    from dfprivacy import Mechanism, Reveal


_FINE = 30  # bits of the sums behind the point
_LAST = 60  # and of their noise, which is continuous


class Simulated:
    """What a mechanism asks, answered from memory."""

    delta = 0.0

    def __init__(self, table: Table, relation: str, epsilon: float, rng: np.random.Generator) -> None:
        self.neighbors, self.epsilon, self.rng = relation, epsilon, rng
        rows = len(table.frame)
        self.size = self.typical_size = rows if relation == "replace_one" else None
        self.groups = 1
        self.named = {name: Column(name, bounds=ends, fill=sum(ends) / 2) for name, ends in table.bounds.items()}
        self.named |= {name: Column(name, categories=tuple(each)) for name, each in table.categories.items()}
        raw = {number(self.named[name]): table.frame[name].to_numpy(dtype=float) for name in table.bounds}
        self._batch, self._sums = Batch(rows, raw), {}
        for name, known in table.categories.items():
            codes = pd.Categorical(table.frame[name], known).codes.astype(np.intp)
            self._batch._encoded[self.named[name]] = np.where(codes < 0, len(known), codes)
        self.measured: list[MeasurementRecord] = []
        self._left = 1.0

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns."""
        return tuple(self.named.values())

    def ask(self, mechanism: Mechanism, **said: Any) -> Any:
        """Run both halves of a mechanism, with columns by name."""
        self._left = 1.0
        for parameter in mechanism.columns:
            if parameter in said:
                names = said[parameter]
                found = self.named[names] if isinstance(names, str) else tuple(self.named[name] for name in names)
                said[parameter] = found
        return mechanism(self, **said)

    def gaps(self, columns: Any, nan_policy: str) -> tuple[Column, ...]:
        """Say which columns may have gaps."""
        return tuple(columns) if nan_policy == "omit" else ()

    def sum(
        self,
        features: RowFeatures,
        *,
        noise: str = "laplace",
        share: Any = None,
        grid: str = "fine",
        reveal: Reveal | None = None,
    ) -> NoisyValue:
        """Add noise to the sums of features, and show those that a rule chooses."""
        unit = features.unit if grid == "unit" else None
        return self._noisy(features, self._exact(features), features.weights, noise, share, unit, reveal)

    def measure(self, statistic: Any, *, noise: str = "laplace", share: Any = None) -> NoisyValue:
        """Add noise to the value of a statistic of sums."""
        value = np.reshape(statistic.value(self._exact(statistic.features)), statistic.shape)
        return self._noisy(statistic, value, statistic.weights, noise, share)

    def once(self, make: Callable[..., Any], *arguments: Any) -> Any:
        """Make something of public values."""
        return make(*arguments)

    def settled(self, chosen: Any) -> Any:
        """Keep what was chosen between two measurements: nothing is drawn again here."""
        return chosen

    def select(self, statistic: Any, *, top: int = 1, share: Any = 1) -> np.ndarray:
        """Choose by the exponential mechanism."""
        scale = 2 * statistic.sensitivity(self.neighbors, math.inf, frozenset()) / (float(share) * self.epsilon)
        self.measured.append(self._record(scale))
        scores = np.ravel(statistic.value(self._exact(statistic.features)))
        return np.array([np.argmax(scores + self.rng.gumbel(scale=scale, size=scores.shape))])[:top]

    def _exact(self, features: RowFeatures) -> Any:
        key = pickle.dumps(features)
        if key not in self._sums:
            steps = [int(each) for each in features.total(self._batch, None, _FINE)]
            whole = np.ldexp(np.array(features.image(steps, _FINE), dtype=np.float64), -_FINE)
            self._sums[key] = whole.reshape(features.shape) / features.weights
        return self._sums[key]

    def _noisy(
        self,
        asked: Any,
        exact: Any,
        weights: Any,
        noise: str,
        share: Any,
        unit: float | None = None,
        reveal: Reveal | None = None,
    ) -> NoisyValue:
        part = self._left if share is None else float(share)
        self._left -= part
        norm = math.inf if noise == "cube" else 1
        scale = asked.sensitivity(self.neighbors, norm, frozenset()) / (part * self.epsilon)
        d = asked.dimension
        if noise == "cube":
            drawn = self.rng.gamma(d + 1, scale) * self.rng.uniform(-1, 1, d)
        else:
            drawn = NoiseLaw(scale, unit or 0.0).drawn(self.rng, d)
        scales = np.broadcast_to(scale / np.asarray(weights), asked.shape)
        values = exact + drawn.reshape(asked.shape) / weights
        if reveal is not None:
            values = _shown(values, scales, reveal)
        found = NoisyValue(values, scales, self._record(scale, unit, noise, d))
        return _split_into_parts(found, asked) if isinstance(asked, RowFeatures) else found

    def _record(
        self, scale: float, unit: float | None = None, kind: str = "", dimension: int = 1
    ) -> MeasurementRecord:
        grid = _LAST if unit is None else 1 - math.frexp(unit)[1]
        return MeasurementRecord(
            what="",
            kind=kind,
            scale=scale,
            grid=grid,
            sensitivity=0.0,
            epsilon=self.epsilon,
            delta=0.0,
            dimension=dimension,
        )


def _shown(values: np.ndarray, scales: np.ndarray, reveal: Reveal) -> np.ndarray:
    """Show of noisy sums those that a rule chooses, step by step."""
    known = np.full((1, values.size), math.nan)
    while (more := reveal.next(known, scales.ravel()) & np.isnan(known)).any():
        known[more] = values.reshape(1, -1)[more]
    return known.reshape(values.shape)
