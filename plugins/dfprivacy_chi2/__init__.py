"""Private tests of independence of categorical columns, for one contingency table or thousands of 2 x 2 tables.

Mechanisms: ``view.chi2``, ``view.chi2_unitcircle``, ``view.chi2_many``. Functions without data: `power`,
`sample_size`, `gamma_error`, `type_ii_bound`.
"""

from collections.abc import Callable

from dfprivacy import Mechanism, hookimpl
from dfprivacy_chi2.cases import dfprivacy_conformance_cases  # noqa: F401 - a hook, found by its name
from dfprivacy_chi2.many import Chi2Many, chi2_many
from dfprivacy_chi2.mechanisms import chi2, chi2_unitcircle
from dfprivacy_chi2.planning import gamma_error, power, sample_size, type_ii_bound
from dfprivacy_chi2.results import Chi2

__all__ = [
    "Chi2",
    "Chi2Many",
    "chi2",
    "chi2_many",
    "chi2_unitcircle",
    "gamma_error",
    "power",
    "sample_size",
    "type_ii_bound",
]


@hookimpl
def dfprivacy_register_mechanisms(register: Callable[[Mechanism], None]) -> None:
    """Register the tests of independence."""
    for method in (chi2, chi2_unitcircle, chi2_many):
        register(method)
