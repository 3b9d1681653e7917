"""The bundled methods, for type checkers: at run time they come from the plugins. A test compares the two."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from dfprivacy_kme import KME
from dfprivacy_ttest import TTest

_Alternative: TypeAlias = Literal["two-sided", "less", "greater"]

class BundledMethods:
    def kme_release(
        self,
        columns: Sequence[str],
        *,
        categories: Sequence[str] | None = None,
        lengthscale: float | Mapping[str, float] | None = None,
        gamma: float | None = None,
        mismatch: float | Mapping[str, float] = 0.5,
        features: Literal["auto", "subspace", "taylor", "fourier"] = "auto",
        points: Mapping[str, Sequence[Any]] | None = None,
        n_points: int | None = None,
        represent: Literal["hull", "weights", "l1", "bayes"] = "hull",
        epsilon: float | str | None = None,
        delta: float | str | None = None,
        fresh: bool = False,
    ) -> KME: ...
    def ttest(
        self,
        column: str,
        *,
        popmean: float = 0.0,
        by: str | None = None,
        groups: Sequence[Any] | None = None,
        equal_var: bool = False,
        alternative: _Alternative = "two-sided",
        method: Literal["conv", "mc", "naive"] = "conv",
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> TTest: ...
    def ztest(
        self,
        column: str,
        *,
        popmean: float,
        sigma: float,
        alternative: _Alternative = "two-sided",
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> TTest: ...
