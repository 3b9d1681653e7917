"""The bundled methods, for type checkers: at run time they come from the plugins. A test compares the two."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from dfprivacy.view import PrivateFrame
from dfprivacy_chi2 import Chi2, Chi2Many
from dfprivacy_kernel import KernelMessage, KernelTest
from dfprivacy_kme import KME
from dfprivacy_ttest import TTest

_Alternative: TypeAlias = Literal["two-sided", "less", "greater"]

_Margin: TypeAlias = Literal["private", "public_rate", "invariant"]
_KernelFeatures: TypeAlias = Literal["nystrom", "me", "scf"]

class BundledMethods:
    def chi2(
        self,
        x: str,
        by: str,
        *,
        method: Literal["auto", "difference", "calibrated", "distance"] = "auto",
        groups: Sequence[Any] | None = None,
        rate: Any = None,
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> Chi2: ...
    def chi2_many(
        self,
        xs: Sequence[str],
        by: str,
        *,
        method: Literal["svt", "select"] = "svt",
        max_rejections: int = 1,
        alpha: float = 0.05,
        groups: Sequence[Any] | None = None,
        rate: Any = None,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> Chi2Many: ...
    def chi2_unitcircle(
        self,
        x: str,
        by: str,
        *,
        groups: Sequence[Any] | None = None,
        tau: float | None = None,
        margin: _Margin = "private",
        rate: float | tuple[float, float] | None = None,
        sensitivity: Literal["tight", "paper"] = "tight",
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> Chi2: ...
    def kernel_message(
        self,
        columns: Sequence[str],
        *,
        categories: Sequence[str] | None = None,
        features: _KernelFeatures = "me",
        bandwidth: float | None = None,
        mismatch: float = 0.5,
        locations: Sequence[Any] | None = None,
        n_locations: int = 5,
        epsilon: float | str | None = None,
        delta: float | str | None = None,
        fresh: bool = False,
    ) -> KernelMessage: ...
    def kernel_two_sample(
        self,
        columns: Sequence[str],
        *,
        by: str | None = None,
        groups: Sequence[Any] | None = None,
        other: PrivateFrame | None = None,
        method: Literal["mmd", "permutation", "moments", "whitened"] = "mmd",
        features: _KernelFeatures | None = None,
        alpha: float = 0.05,
        bandwidth: float | Sequence[float] | str | None = None,
        locations: Sequence[Any] | None = None,
        n_locations: int | None = None,
        n_permutations: int = 499,
        paired: bool = False,
        local: bool = False,
        categories: Sequence[str] | None = None,
        mismatch: float = 0.5,
        pvalue: bool = False,
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        delta: float | str | None = None,
        fresh: bool = False,
    ) -> KernelTest: ...
    def kme_release(
        self,
        columns: Sequence[str],
        *,
        categories: Sequence[str] | None = None,
        lengthscale: float | Mapping[str, float] | None = None,
        gamma: float | None = None,
        mismatch: float | Mapping[str, float] = 0.5,
        features: Literal["auto", "subspace", "taylor", "fourier"] = "auto",
        points: Any = None,
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
