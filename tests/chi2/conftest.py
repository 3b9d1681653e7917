"""What the tests of chi2 share: noise that is always the same."""

import numpy as np
import pytest

from dfprivacy._privacy import samplers as noise


class Steady(noise.FromLaplace):
    """Noise of so many scales, always; it selects the first."""

    name = "NOT PRIVATE: always the same"
    private = False

    def __init__(self, scales):
        self.scales = scales

    def laplace(self, values, scale):
        noise.check_noise_arguments(values, scale)
        return values + np.int64(max(-(2.0**61), min(2.0**61, self.scales * scale)))

    gaussian = laplace

    def noisy_top_k(self, values, scale, k, *, flip):
        return list(range(k))

    def generator(self):
        return np.random.default_rng(0)


@pytest.fixture
def steady():
    """Noise of so many scales, always: ``with steady(3): ...``."""
    return lambda scales: noise.use_sampler(Steady(scales))
