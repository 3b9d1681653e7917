"""Embeddings to compare with: in an exact orthonormal basis of the Gaussian kernel's space."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import gammaln


class Expansion:
    """Features whose products are the kernel, but for what the degree leaves out."""

    def __init__(self, kernel, degree):
        self.kernel, d = kernel, len(kernel.columns)
        every = itertools.product(range(degree + 1), repeat=d)
        self.powers = np.array([powers for powers in every if sum(powers) <= degree])
        self.roots = np.exp(gammaln(np.arange(degree + 1) + 1) / 2)

    def features(self, rows):
        """Vectors of rows, shape (rows, F)."""
        vectors = np.ones((len(rows), len(self.powers)))
        for i, column in enumerate(np.asarray(rows, dtype=float).T):
            t = self.kernel.scaled(column, i)
            own = np.vander(t, len(self.roots), increasing=True) / self.roots * np.exp(-t * t / 2)[:, None]
            vectors *= own[:, self.powers[:, i]]
        return vectors


@pytest.fixture(scope="session")
def expansion():
    """The basis, of a kernel and a degree."""
    return Expansion
