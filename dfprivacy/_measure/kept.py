"""Kept measurements: taken from the ledger in place of measuring, and left there for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfprivacy._ledger.measurements import MOST, digest
from dfprivacy._measure.description import Origins
from dfprivacy._privacy import samplers as noises

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy._ledger.accounts import Account, JointAccount
    from dfprivacy._ledger.measurements import KeptMeasurement, Measurement
    from dfprivacy._measure.steps import Part

__all__ = ["Kept"]


class Kept:
    """The measurements that an account keeps, as one call sees them.

    A mechanism that measures the same twice wants two draws of noise: in one call no kept measurement is taken
    twice, and none that the call has made itself, for those are kept when it ends.

    Parameters
    ----------
    account : Account or JointAccount
        Whose measurements they are.
    origins : mapping of str to str
        Distribution and version of each package with plugins.
    call : str
        The call's number, which tells its measurements from all others; empty for plans.
    fresh : bool
        Whether to measure anew what is kept.
    """

    def __init__(
        self, account: Account | JointAccount, origins: Mapping[str, str], call: str = "", *, fresh: bool
    ) -> None:
        self.call = call
        self.origins = Origins(origins)
        self.new: list[Measurement] = []
        self._account = account
        self.fresh = fresh
        self._known: dict[tuple[str, str], list[KeptMeasurement]] = {}
        self._taken: dict[int, NDArray[np.intp]] = {}

    @property
    def used(self) -> bool:
        """Whether measurements are kept at all."""
        return self._account.keeps_measurements

    def look(self, descriptions: Sequence[str]) -> None:
        """Look for what is kept of some descriptions, all at once."""
        keys = [digest(each) for each in descriptions]
        self._known |= self._account.measurements(keys, private=noises.sampler().private)

    def like(self, description: str, noise: str) -> list[KeptMeasurement]:
        """Return what was found of a description with a kind of noise, oldest first."""
        return [*self._known.get((digest(description), noise), ())]

    def best(self, known: Sequence[Part], wanted: KeptMeasurement) -> Part | None:
        """Choose the most accurate, and of these the newest, if it is at least as accurate as what is wanted.

        No coordinate of it was taken yet. Its steps are no coarser either: who counts on noise as good as
        continuous gets such. Scales and grids are public, so the choice tells of nothing else.
        """
        if self.fresh:
            return None
        good = [
            each
            for each in known
            if each.kept.grid >= wanted.grid
            and each.kept.spread <= wanted.spread
            and not np.isin(each.places, self._taken.get(each.kept.id, ())).any()
        ]
        return min(good, key=lambda each: (each.kept.spread, -each.kept.id), default=None)

    def take(self, part: Part) -> None:
        """Record that this call has taken these coordinates, so that it takes none of them twice."""
        before = self._taken.get(part.kept.id, part.places)
        self._taken[part.kept.id] = np.union1d(before, part.places)

    def steps(self, kept: KeptMeasurement) -> NDArray[np.int64]:
        """Read its noisy values."""
        return self._account.steps(kept)

    def add(self, measurement: Measurement) -> None:
        """Keep what was measured, when the call ends; but not what would fill the ledger."""
        if measurement.steps.size <= MOST:
            self.new.append(measurement)
