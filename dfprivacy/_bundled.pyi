"""The bundled methods, for type checkers: at run time they come from the plugins. A test compares the two."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, overload

from dfprivacy.view import PrivateFrame
from dfprivacy_chi2 import Chi2, Chi2Many
from dfprivacy_dcor import (
    DistanceCorrelation,
    DistanceMessage,
    Estimate,
    IndependenceTest,
    ProjectionMessage,
    Screening,
    SharedCorrelation,
)
from dfprivacy_eda import (
    Aggregates,
    ColumnStatistic,
    Correlations,
    Counts,
    Covariances,
    Crosstab,
    Description,
    FoundBounds,
    FoundCategories,
    Histogram,
    Profile,
    Quantiles,
    Report,
)
from dfprivacy_gmm import FourierSketch, GaussianClasses, GaussianMixture, JointMoments
from dfprivacy_kernel import KernelMessage, KernelTest
from dfprivacy_kme import KME
from dfprivacy_regression import OLS, Logit
from dfprivacy_ttest import TTest

_Alternative: TypeAlias = Literal["two-sided", "less", "greater"]

_KernelFeatures: TypeAlias = Literal["nystrom", "me", "scf"]
_Margin: TypeAlias = Literal["private", "public_rate", "invariant"]

class BundledMethods:
    def chi2(
        self,
        x: str,
        by: str,
        *,
        method: Literal[
            "auto", "calibrated", "signed", "table", "difference", "distance", "spread", "association"
        ] = "auto",
        groups: Sequence[Any] | None = None,
        rate: Any = None,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        alpha: float = 0.05,
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
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
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
        sensitivity: Literal["tight", "paper"] = "tight",
        nan_policy: Literal["fill", "raise"] = "fill",
        rate: Any = None,
        alpha: float = 0.05,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> Chi2: ...
    @overload
    def gmm_fit(
        self,
        columns: Sequence[str],
        label: str,
        *,
        n_components: None = None,
        covariance_type: Literal["spherical", "diag", "tied", "full"] = "full",
        restarts: int = 5,
        radius: float | None = None,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        method: Literal["lda", "qda", "auto"] = "lda",
        repair: Literal["noise_aware", "shrink", "paper", "clip"] = "noise_aware",
        grid_minimum: float = 0.01,
        epsilon: float | str | None = None,
        delta: float | str | None = None,
        fresh: bool = False,
    ) -> GaussianClasses: ...
    @overload
    def gmm_fit(
        self,
        columns: Sequence[str],
        label: None = None,
        *,
        n_components: int | Literal["auto"],
        covariance_type: Literal["spherical", "diag", "tied", "full"] = "full",
        restarts: int = 5,
        radius: float | None = None,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        method: Literal["lda", "qda", "auto"] = "lda",
        repair: Literal["noise_aware", "shrink", "paper", "clip"] = "noise_aware",
        grid_minimum: float = 0.01,
        epsilon: float | str | None = None,
        delta: float | str | None = None,
        fresh: bool = False,
    ) -> GaussianMixture: ...
    @overload
    def gmm_fit(
        self,
        columns: Sequence[str],
        label: str | None = None,
        *,
        n_components: int | Literal["auto"] | None = None,
        covariance_type: Literal["spherical", "diag", "tied", "full"] = "full",
        restarts: int = 5,
        radius: float | None = None,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        method: Literal["lda", "qda", "auto"] = "lda",
        repair: Literal["noise_aware", "shrink", "paper", "clip"] = "noise_aware",
        grid_minimum: float = 0.01,
        epsilon: float | str | None = None,
        delta: float | str | None = None,
        fresh: bool = False,
    ) -> GaussianClasses | GaussianMixture: ...
    def fourier_sketch(
        self,
        columns: Sequence[str],
        *,
        max_components: int = 6,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        epsilon: float | str | None = None,
        delta: float | str | None = None,
        fresh: bool = False,
    ) -> FourierSketch: ...
    def moments(
        self,
        columns: Sequence[str],
        *,
        by: str | None = None,
        radius: float | None = None,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        epsilon: float | str | None = None,
        delta: float | str | None = None,
        fresh: bool = False,
    ) -> JointMoments: ...
    def kernel_message(
        self,
        columns: Sequence[str],
        *,
        categories: Sequence[str] | None = None,
        features: _KernelFeatures = "me",
        lengthscale: float | None = None,
        mismatch: float = 0.5,
        locations: Sequence[Any] | None = None,
        n_locations: int = 5,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
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
        lengthscale: float | Sequence[float] | str | None = None,
        locations: Sequence[Any] | None = None,
        n_locations: int | None = None,
        n_permutations: int = 499,
        paired: bool = False,
        local: bool = False,
        categories: Sequence[str] | None = None,
        mismatch: float = 0.5,
        pvalue: bool = False,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
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
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        epsilon: float | str | None = None,
        delta: float | str | None = None,
        fresh: bool = False,
    ) -> KME: ...
    def dcor(
        self,
        x: str | Sequence[str],
        y: str | Sequence[str],
        *,
        metric: Literal["euclidean", "l1", "projected", "discrete"] = "euclidean",
        method: Literal["release", "permutation", "decision"] = "release",
        alpha: float = 0.05,
        permutations: int = 999,
        directions: int = 50,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        confidence: float = 0.95,
        null: Literal["moments", "chi2", "gamma"] = "moments",
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
        keys: str | Sequence[str | int] | None = None,
        seed: int = 0,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
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
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        confidence: float = 0.95,
        alpha: float = 0.05,
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
        keys: str | Sequence[str | int] | None = None,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        confidence: float = 0.95,
        permutations: int = 999,
        seed: int | None = None,
        alpha: float = 0.05,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> SharedCorrelation | Estimate: ...
    def ttest(
        self,
        column: str,
        *,
        by: str | None = None,
        groups: Sequence[Any] | None = None,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        popmean: float = 0.0,
        equal_var: bool = False,
        alternative: _Alternative = "two-sided",
        method: Literal["conv", "mc", "naive"] = "conv",
        alpha: float = 0.05,
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> TTest: ...
    def ztest(
        self,
        column: str,
        *,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        popmean: float,
        sigma: float,
        alternative: _Alternative = "two-sided",
        alpha: float = 0.05,
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> TTest: ...
    def mean(
        self,
        column: str,
        *,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        covers: Literal["table", "population"] = "table",
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> ColumnStatistic: ...
    def var(
        self,
        column: str,
        *,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> ColumnStatistic: ...
    def std(
        self,
        column: str,
        *,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> ColumnStatistic: ...
    def sum(
        self,
        column: str,
        *,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> ColumnStatistic: ...
    def count(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> ColumnStatistic: ...
    def missing(
        self,
        columns: str | Sequence[str],
        *,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> ColumnStatistic: ...
    def quantile(
        self,
        column: str,
        q: float | Sequence[float] = 0.5,
        *,
        step: float | None = None,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        covers: Literal["table", "population"] = "table",
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> ColumnStatistic | Quantiles: ...
    def median(
        self,
        column: str,
        *,
        step: float | None = None,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> ColumnStatistic: ...
    def histogram(
        self,
        column: str,
        bins: int | Sequence[float] = 10,
        *,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        normalize: bool = False,
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> Histogram: ...
    def value_counts(
        self,
        column: str,
        *,
        categories: Literal["declared", "discover"] = "declared",
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        normalize: bool = False,
        sort: bool = True,
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        delta: float | str | None = None,
        fresh: bool = False,
    ) -> Counts: ...
    def crosstab(
        self,
        a: str,
        b: str,
        *,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        normalize: Literal[False, True, "all", "index", "columns"] = False,
        margins: bool = False,
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> Crosstab: ...
    def describe(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        focus: Literal["moments", "quartiles", "categories"] | None = None,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> Description: ...
    def agg(
        self,
        aggregations: Mapping[str, Any] | None = None,
        *,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
        **named: Any,
    ) -> Aggregates: ...
    def corr(
        self,
        columns: Sequence[str] | None = None,
        *,
        recentre: bool = False,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> Correlations: ...
    def cov(
        self,
        columns: Sequence[str] | None = None,
        *,
        recentre: bool = False,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> Covariances: ...
    def nunique(
        self,
        column: str,
        *,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> ColumnStatistic: ...
    def report(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> Report: ...
    def find_bounds(
        self,
        columns: Sequence[str],
        *,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> FoundBounds: ...
    def find_categories(
        self,
        columns: Sequence[str],
        *,
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        delta: float | str | None = None,
        fresh: bool = False,
    ) -> FoundCategories: ...
    def profile(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        epsilon: float | str | None = None,
        delta: float | str | None = None,
        fresh: bool = False,
    ) -> Profile: ...
    def ols(
        self,
        y: str,
        x: str | Sequence[str] | None = None,
        *,
        robust: bool = True,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        alpha: float = 0.05,
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> OLS: ...
    def logit(
        self,
        y: str,
        x: str | Sequence[str] | None = None,
        *,
        success: str | float | bool | None = None,
        nan_policy: Literal["omit", "fill", "raise"] = "omit",
        alpha: float = 0.05,
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> Logit: ...
