"""Gaussian mixtures of a private table. Mechanisms: ``view.fourier_sketch``."""

from collections.abc import Callable

from dfprivacy import Mechanism, hookimpl
from dfprivacy_gmm.mixture import FourierSketch, GaussianMixture
from dfprivacy_gmm.unlabelled import fit_unlabelled, fourier_sketch

__all__ = ["FourierSketch", "GaussianMixture", "fit_unlabelled", "fourier_sketch"]


@hookimpl
def dfprivacy_register_mechanisms(register: Callable[[Mechanism], None]) -> None:
    """Offer the sketch."""
    register(fourier_sketch)
