"""A ledger's file, and scripts in processes of their own."""

from __future__ import annotations

import pytest

from .helpers import SCRIPT, opened


@pytest.fixture
def path(tmp_path):
    """A file where there is no ledger yet."""
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def account(path):
    """An account of a ledger in a file."""
    return opened(path)


@pytest.fixture
def python(forked):
    """What runs a script in a process of its own, and gives what it prints."""

    def run(script, *arguments, status=0):
        ended = forked(SCRIPT + script, *map(str, arguments), strict=True, status=status)
        assert ended.stderr == b""
        return ended.stdout.decode()

    return run
