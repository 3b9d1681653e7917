"""Private t-tests and z-tests, their planning, and exact error rates of standard tests on noisy statistics.

Mechanisms: ``view.ttest``, ``view.ztest``. Functions without data: `exact_size`, `exact_power`, `power`,
`sample_size`, `minimum_detectable_effect`.
"""

from collections.abc import Callable

from dfprivacy import Mechanism, hookimpl
from dfprivacy_ttest.cases import dfprivacy_conformance_cases  # noqa: F401 - a hook, found by its name
from dfprivacy_ttest.exact import exact_power, exact_size
from dfprivacy_ttest.mechanisms import TTest, check_ttest, check_ztest, ttest, ztest
from dfprivacy_ttest.planning import draw_values, minimum_detectable_effect, plan_test, power, sample_size

__all__ = [
    "TTest",
    "exact_power",
    "exact_size",
    "minimum_detectable_effect",
    "power",
    "sample_size",
    "ttest",
    "ztest",
]


@hookimpl
def dfprivacy_register_mechanisms(register: Callable[[Mechanism], None]) -> None:
    """Register the t-test and the z-test."""
    register(ttest.checks(check_ttest).plans(plan_test).assumes(draw_values))
    register(ztest.checks(check_ztest).plans(plan_test).assumes(draw_values))
