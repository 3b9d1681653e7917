"""The option ``pytest --dp-conformance``: audit every registered mechanism.

It stands outside of dfprivacy, so that a pytest that is not asked for it imports nothing of dfprivacy.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option ``--dp-conformance``."""
    parser.getgroup("dfprivacy").addoption(
        "--dp-conformance",
        action="store_true",
        help="add a test for each conformance check of each mechanism of the installed dfprivacy plugins",
    )


@pytest.hookimpl(tryfirst=True)  # before -k and -m choose among the items
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add a test for each check of each mechanism."""
    if config.getoption("--dp-conformance"):
        from dfprivacy_audit.pytest_plugin import conformance_items

        items += conformance_items(session)
