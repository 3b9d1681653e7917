"""Inference for groups: rank tests, analysis of variance, proportions and survival analysis.

Mechanisms: ``view.mannwhitneyu``, ``view.kruskal``, ``view.wilcoxon``, ``view.anova``, ``view.proportions``,
``view.mcnemar``, ``view.kaplan_meier``, ``view.hazard_ratio``, ``view.survival_test``.
"""

from collections.abc import Callable

from dfprivacy import Mechanism, hookimpl
from dfprivacy_inference.anova import Anova, anova
from dfprivacy_inference.cases import dfprivacy_conformance_cases  # noqa: F401 - a hook, found by its name
from dfprivacy_inference.hazards import HazardRatio, hazard_ratio
from dfprivacy_inference.mcnemar import McNemar, mcnemar
from dfprivacy_inference.proportions import Proportions, proportions
from dfprivacy_inference.ranks import KruskalWallis, MannWhitney, SurvivalTest, kruskal, mannwhitneyu, survival_test
from dfprivacy_inference.signed import Wilcoxon, wilcoxon
from dfprivacy_inference.survival import SurvivalCurves, kaplan_meier

__all__ = [
    "Anova",
    "HazardRatio",
    "KruskalWallis",
    "MannWhitney",
    "McNemar",
    "Proportions",
    "SurvivalCurves",
    "SurvivalTest",
    "Wilcoxon",
    "anova",
    "hazard_ratio",
    "kaplan_meier",
    "kruskal",
    "mannwhitneyu",
    "mcnemar",
    "proportions",
    "survival_test",
    "wilcoxon",
]


@hookimpl
def dfprivacy_register_mechanisms(register: Callable[[Mechanism], None]) -> None:
    """Register rank tests, analysis of variance, and methods for proportions and survival analysis."""
    shares_and_survival = (proportions, mcnemar, kaplan_meier, hazard_ratio, survival_test)
    for method in (mannwhitneyu, kruskal, wilcoxon, anova, *shares_and_survival):
        register(method)
