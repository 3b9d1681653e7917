"""Gaussian classes of a private table, and its second moments.

Mechanisms: ``view.gmm_fit``, ``view.moments``. Without privacy, for public data: `GaussianClassifier`.
"""

from collections.abc import Callable

from dfprivacy import Mechanism, hookimpl
from dfprivacy_gmm.cases import dfprivacy_conformance_cases  # noqa: F401 - a hook, found by its name
from dfprivacy_gmm.classes import GaussianClasses
from dfprivacy_gmm.gaussians import GaussianClassifier
from dfprivacy_gmm.joint import JointMoments, moments
from dfprivacy_gmm.mechanisms import findings, gmm_fit

__all__ = ["GaussianClasses", "GaussianClassifier", "JointMoments", "gmm_fit", "moments"]


@hookimpl
def dfprivacy_register_mechanisms(register: Callable[[Mechanism], None]) -> None:
    """Offer the classes and the moments."""
    register(gmm_fit.plans(findings))
    register(moments)
