"""Linear and logistic regression of a private table, with confidence intervals that include the noise.

Mechanisms: ``view.ols``, ``view.logit``.
"""

from collections.abc import Callable

from dfprivacy import Mechanism, hookimpl
from dfprivacy_regression.cases import dfprivacy_conformance_cases  # noqa: F401 - a hook, found by its name
from dfprivacy_regression.linear import ols
from dfprivacy_regression.logistic import logit
from dfprivacy_regression.result import OLS, Logit, Regression

__all__ = ["OLS", "Logit", "Regression"]


@hookimpl
def dfprivacy_register_mechanisms(register: Callable[[Mechanism], None]) -> None:
    """Register linear and logistic regression."""
    register(ols)
    register(logit)
