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


def _installed(home, *packages):
    """Install packages into a fresh environment, and give its Python."""
    venv.create(home, with_pip=True)
    python = home / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    done = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", *packages], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"pip could not install {packages}: {done.stderr.strip().splitlines()[-1:]}")
    return python


@pytest.fixture(scope="session")
def dp_accounting(tmp_path_factory):
    """The Python of a fresh environment with Google's dp-accounting."""
    return _installed(tmp_path_factory.mktemp("dp-accounting"), "dp-accounting>=0.6")


@pytest.fixture(scope="session")
def inference_peers(tmp_path_factory):
    """The Python of a fresh environment with lifelines and pingouin."""
    return _installed(tmp_path_factory.mktemp("inference-peers"), "lifelines>=0.30", "pingouin>=0.5.5")
