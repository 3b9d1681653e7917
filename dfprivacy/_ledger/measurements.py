"""Measurements that were paid for: noisy whole numbers, kept under a description of what they are of."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dfprivacy._ledger.tables import read_moment, read_text
from dfprivacy.laws import NoiseLaw

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy import Row

__all__ = ["MOST", "KeptMeasurement", "Measurement", "digest", "read_steps", "written"]

MOST = 2**20
"""Coordinates of a measurement that is kept, at most: 8 MB in one row, which whoever charges waits for."""

_STEP = np.dtype("<i8")


@dataclass(frozen=True)
class Measurement:
    """Noisy sums or values, on their grid.

    Attributes
    ----------
    description : str
        All that is public and that their law depends on beside the noise, as canonical JSON.
    noise : {"laplace", "gaussian", "cube"}
        The kind of noise.
    scale : float
        Its scale in steps of the grid.
    grid : int
        A step is 2 to the minus this.
    private : bool
        False if a test-only sampler made the noise.
    steps : ndarray of int64 of shape (d,)
        The noisy values, in steps, in the order of the description.
    """

    description: str
    noise: str
    scale: float
    grid: int
    private: bool
    steps: NDArray[np.int64]


@dataclass(frozen=True)
class KeptMeasurement:
    """A measurement in the ledger, before its values are read.

    Attributes
    ----------
    id : int
        Its number.
    at : str
        When it was kept, ISO 8601 in UTC.
    noise : {"laplace", "gaussian", "cube"}
        The kind of noise.
    steps_scale : float
        Scale of its noise in steps of its grid.
    grid : int
        A step is 2 to the minus this.
    call : str
        The call that measured it.
    """

    id: int
    at: str
    noise: str
    steps_scale: float
    grid: int
    call: str = ""

    @classmethod
    def read(cls, row: Row[Any]) -> Self:
        """Read a row; an ordinary error for what is never written."""
        scale = float.fromhex(row.scale)
        if not (math.isfinite(scale) and scale > 0 and scale.hex() == row.scale):
            raise ValueError
        at = read_moment(row.at).isoformat()
        return cls(int(row.id), at, row.noise, scale, int(row.grid), read_text(row.call))

    @property
    def scale(self) -> float:
        """Scale of its noise in the units of what was measured."""
        return math.ldexp(self.steps_scale, -self.grid)

    @property
    def spread(self) -> float:
        """Standard deviation of Laplace noise, scale of any other: what is compared between kept measurements."""
        if self.noise != "laplace":
            return self.scale
        return NoiseLaw(self.scale, math.ldexp(1.0, -self.grid)).standard_deviation


def digest(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def written(measurement: Measurement) -> dict[str, Any]:
    """Return the columns of a measurement."""
    return {
        "description": measurement.description,
        "description_sha256": digest(measurement.description),
        "noise": measurement.noise,
        "scale": float(measurement.scale).hex(),
        "grid": measurement.grid,
        "private": int(measurement.private),
        "steps": measurement.steps.astype(_STEP).tobytes(),
    }


def read_steps(value: bytes) -> NDArray[np.int64]:
    """Read the noisy values; an ordinary error for what is never written."""
    return np.frombuffer(value, dtype=_STEP).astype(np.int64)
