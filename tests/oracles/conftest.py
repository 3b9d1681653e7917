"""Environments of their own for libraries that cannot live beside this one."""

from __future__ import annotations

import subprocess
import sys
import venv

import pytest


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "oracle: compares with another library, which is installed from the network (a minute)"
    )


@pytest.fixture(scope="session")
def dp_accounting(tmp_path_factory):
    """The Python of a fresh environment with Google's dp-accounting."""
    home = tmp_path_factory.mktemp("dp-accounting")
    venv.create(home, with_pip=True)
    python = home / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    installed = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "dp-accounting>=0.6"],
        capture_output=True,
        text=True,
        check=False,
    )
    if installed.returncode:
        pytest.skip(f"pip could not install dp-accounting: {installed.stderr.strip().splitlines()[-1:]}")
    return python
