"""Pytest items that run conformance checks, for ``pytest --dp-conformance``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dfprivacy.errors import ArgumentError
from dfprivacy_audit.harness import Failed
from dfprivacy_audit.report import all_checks

if TYPE_CHECKING:
    from dfprivacy_audit.conformance import Check

__all__ = ["conformance_items"]


class CheckItem(pytest.Item):
    """Pytest item that runs one check of one mechanism in one case."""

    def __init__(self, *, check: Check, **about: Any) -> None:
        super().__init__(**about)
        self.check = check

    def runtest(self) -> None:
        """Run the check; raise an exception if it fails, is skipped, or is expected to fail."""
        outcome = self.check.run()
        if outcome.status == "failed":
            raise Failed(outcome.detail)
        if outcome.status == "expected":
            pytest.xfail(outcome.detail)
        if outcome.status == "skipped":
            pytest.skip(outcome.detail)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the text of a failure, with the faults that the check catches."""
        if isinstance(excinfo.value, Failed):
            return f"{self.check}\n{excinfo.value}\nThe check catches {self.check.catches}."
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Return the location and name of the check, for pytest's report."""
        return self.path, None, self.name


def conformance_items(session: pytest.Session) -> list[pytest.Item]:
    """Return a pytest item for each check of each mechanism.

    Parameters
    ----------
    session : pytest.Session
        The session.

    Returns
    -------
    list of pytest.Item
        The items.

    Raises
    ------
    pytest.UsageError
        If a mechanism has no cases.
    """
    try:
        checks = all_checks()
    except ArgumentError as error:
        raise pytest.UsageError(str(error)) from None
    return [CheckItem.from_parent(session, name=f"dp-conformance::{check}", check=check) for check in checks]
