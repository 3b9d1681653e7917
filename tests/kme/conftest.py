"""Embeddings to compare with: in an exact orthonormal basis of the Gaussian kernel's space."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from expansion import Expansion


@pytest.fixture(scope="session")
def expansion():
    """The basis, of a kernel and a degree."""
    return Expansion
