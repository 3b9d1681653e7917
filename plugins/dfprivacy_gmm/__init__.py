"""Gaussian classifiers, Gaussian mixtures, moments and Fourier sketches of a private table.

Mechanisms: ``view.gmm_fit``, ``view.moments``, ``view.fourier_sketch``. Without privacy, for public data:
`GaussianClassifier`.
"""

from collections.abc import Callable

from dfprivacy import Mechanism, hookimpl
from dfprivacy_gmm.cases import dfprivacy_conformance_cases  # noqa: F401 - a hook, found by its name
from dfprivacy_gmm.classes import GaussianClasses, GaussianClassifier
from dfprivacy_gmm.fourier import FourierSketch, GaussianMixture
from dfprivacy_gmm.joint import JointMoments
from dfprivacy_gmm.mechanisms import check_gmm_fit, check_moments, fourier_sketch, gmm_fit, moments, plan_fit

__all__ = [
    "FourierSketch",
    "GaussianClasses",
    "GaussianClassifier",
    "GaussianMixture",
    "JointMoments",
    "fourier_sketch",
    "gmm_fit",
    "moments",
]


@hookimpl
def dfprivacy_register_mechanisms(register: Callable[[Mechanism], None]) -> None:
    """Register the methods that fit Gaussian classes and mixtures, and release moments and Fourier sketches."""
    register(gmm_fit.checks(check_gmm_fit).plans(plan_fit))
    register(moments.checks(check_moments))
    register(fourier_sketch)
