"""Private release of a table as a kernel mean embedding, or as a small synthetic table.

Mechanisms: ``view.kme_release``, whose result is a `KME`; marginals and conditionals of one are `WeightedPoints`.
``view.kme_exponential`` chooses a small synthetic table.
"""

from collections.abc import Callable

from dfprivacy import Mechanism, hookimpl
from dfprivacy_kme.cases import dfprivacy_conformance_cases  # noqa: F401 - a hook, found by its name
from dfprivacy_kme.fitting import absolute, shrunk, simplex
from dfprivacy_kme.mechanisms import kme_exponential, kme_release, plan_release
from dfprivacy_kme.points import Expectation, Means, TwoSample, WeightedPoints
from dfprivacy_kme.release import KME

__all__ = [
    "KME",
    "Expectation",
    "Means",
    "TwoSample",
    "WeightedPoints",
    "absolute",
    "kme_exponential",
    "kme_release",
    "shrunk",
    "simplex",
]


@hookimpl
def dfprivacy_register_mechanisms(register: Callable[[Mechanism], None]) -> None:
    """Register the release of an embedding, and the choice of a small synthetic table."""
    register(kme_release.plans(plan_release))
    register(kme_exponential)
