"""The bundled methods, for type checkers only: at run time methods come from the plugins, and this is not imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from dfprivacy_ttest import TTest

_Alternative = Literal["two-sided", "less", "greater"]


class BundledMethods:
    """Signatures of the methods that come with the distribution; checked against the plugins by a test."""

    def ttest(
        self,
        column: str,
        *,
        popmean: float = 0.0,
        by: str | None = None,
        groups: Sequence[Any] | None = None,
        equal_var: bool = False,
        alternative: _Alternative = "two-sided",
        method: Literal["conv", "mc", "naive"] = "conv",
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> TTest: ...

    def ztest(
        self,
        column: str,
        *,
        popmean: float,
        sigma: float,
        alternative: _Alternative = "two-sided",
        confidence: float = 0.95,
        epsilon: float | str | None = None,
        fresh: bool = False,
    ) -> TTest: ...
