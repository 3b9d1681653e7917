"""Exploratory analysis of a private table: what people type first on any dataframe.

Mechanisms: ``view.mean``, ``var``, ``std``, ``sum``, ``count``, ``missing``.
"""

from collections.abc import Callable

from dfprivacy import Mechanism, hookimpl
from dfprivacy_eda import moments
from dfprivacy_eda.cases import dfprivacy_conformance_cases  # noqa: F401 - a hook, found by its name
from dfprivacy_eda.results import ColumnStatistic

__all__ = ["ColumnStatistic"]


@hookimpl
def dfprivacy_register_mechanisms(register: Callable[[Mechanism], None]) -> None:
    """Offer the methods."""
    for each in (moments.mean, moments.var, moments.std, moments.total, moments.count, moments.missing):
        register(each)
