"""Regression of a private table, with intervals that hold the noise.

Mechanisms: ``view.ols``.
"""

from collections.abc import Callable

from dfprivacy import Mechanism, hookimpl
from dfprivacy_regression.cases import dfprivacy_conformance_cases  # noqa: F401 - a hook, found by its name
from dfprivacy_regression.explaining import findings
from dfprivacy_regression.mechanisms import ols
from dfprivacy_regression.result import OLS

__all__ = ["OLS"]


@hookimpl
def dfprivacy_register_mechanisms(register: Callable[[Mechanism], None]) -> None:
    """Offer the regressions."""
    register(ols.plans(findings))
