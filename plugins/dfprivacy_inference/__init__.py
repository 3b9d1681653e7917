"""Everyday inference: rank tests, analysis of variance, proportions, survival.

Mechanisms: ``view.mannwhitneyu``, ``view.kruskal``, ``view.wilcoxon``, ``view.anova``, ``view.proportions``,
``view.mcnemar``, ``view.kaplan_meier``, ``view.survival_test``.
"""

from collections.abc import Callable

from dfprivacy import Mechanism, hookimpl
from dfprivacy_inference import planning as plan
from dfprivacy_inference.anova import Anova, anova, check_anova
from dfprivacy_inference.cases import dfprivacy_conformance_cases  # noqa: F401 - a hook, found by its name
from dfprivacy_inference.mcnemar import McNemar, check_mcnemar, mcnemar
from dfprivacy_inference.planning import differ, differences, flips, lives, shares, steps
from dfprivacy_inference.proportions import Proportions, check_proportions, proportions
from dfprivacy_inference.rank_results import KruskalWallis, MannWhitney, SurvivalTest, Wilcoxon
from dfprivacy_inference.ranks import check_k, check_survival, check_two, kruskal, mannwhitneyu, survival_test
from dfprivacy_inference.signed import check_pairs, wilcoxon
from dfprivacy_inference.survival import SurvivalCurves, check_curves, kaplan_meier

__all__ = [
    "Anova",
    "KruskalWallis",
    "MannWhitney",
    "McNemar",
    "Proportions",
    "SurvivalCurves",
    "SurvivalTest",
    "Wilcoxon",
    "anova",
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
    """Offer the methods."""
    register(mannwhitneyu.checks(check_two).plans(plan.finds("effect P(X > Y)", plan.apart)).assumes(steps))
    several = plan.finds("effect P(X > Y) of one group over all others")
    register(kruskal.checks(check_k).plans(several).assumes(steps))
    register(wilcoxon.checks(check_pairs).plans(plan.finds("P(d + d' > 0)", plan.measured)).assumes(differences))
    register(anova.checks(check_anova).plans(plan.expect_means).assumes(steps))
    register(proportions.checks(check_proportions).plans(plan.expect_shares).assumes(shares, differ))
    register(mcnemar.checks(check_mcnemar).plans(plan.expect_pairs).assumes(flips))
    register(kaplan_meier.checks(check_curves).plans(plan.expect_curves).assumes(lives))
    register(survival_test.checks(check_survival).plans(plan.finds("effect", plan.hazards)).assumes(lives))
