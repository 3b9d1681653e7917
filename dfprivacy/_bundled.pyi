"""The bundled methods, for type checkers: at run time they come from the plugins. A test compares the two."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from dfprivacy.view import PrivateFrame
from dfprivacy_dcor import (
    DistanceCorrelation,
    DistanceMessage,
    IndependenceTest,
    ProjectionMessage,
    Screening,
    SharedCorrelation,
)
from dfprivacy_ttest import TTest

_Alternative: TypeAlias = Literal["two-sided", "less", "greater"]

class BundledMethods:
    def dcor(
        self,
        x: str | Sequence[str],
        y: str | Sequence[str],
        *,
        metric: Literal["euclidean", "l1", "projected", "discrete"] = "euclidean",
        method: Literal["release", "permutation"] = "release",
        confidence: float = 0.95,
        null: Literal["gamma", "chi2"] = "gamma",
        alpha: float | None = None,
        permutations: int = 999,
        directions: int = 50,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> DistanceCorrelation | IndependenceTest: ...
    def dcor_message(
        self,
        columns: str | Sequence[str],
        *,
        protocol: Literal["angle", "paper"] = "angle",
        harmonics: Sequence[int] | None = None,
        length: float = 1.0,
        blocks: int | None = None,
        split: bool = True,
        keys: Sequence[str | int] | None = None,
        seed: int = 0,
        epsilon: float | str | None = None,
        delta: float | str | None = None,
        fresh: bool = False,
    ) -> DistanceMessage | ProjectionMessage: ...
    def dcor_screen(
        self,
        target: str,
        features: Sequence[str] | None = None,
        *,
        top: int,
        estimate: bool = False,
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> Screening: ...
    def dcor_with(
        self,
        other: DistanceMessage | ProjectionMessage | PrivateFrame,
        columns: str | Sequence[str],
        *,
        asked: Mapping[str, Any] | None = None,
        protocol: Literal["angle", "paper"] | None = None,
        keys: Sequence[str | int] | None = None,
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> SharedCorrelation: ...
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
