"""Environments of their own for packages that cannot live beside this one."""

from __future__ import annotations

import subprocess

import pytest


def pytest_configure(config):
    config.addinivalue_line("markers", "oracle: makes an environment of its own, with packages from the network")


@pytest.fixture(scope="session")
def installed(environment, tmp_path_factory):
    """The Python of a fresh environment with some packages."""

    def install(*packages):
        try:
            return environment(tmp_path_factory.mktemp("peers"), *packages)
        except subprocess.CalledProcessError as failed:
            pytest.skip(f"uv could not install {packages}: {failed.stderr.strip().splitlines()[-1:]}")

    return install


@pytest.fixture(scope="session")
def dp_accounting(installed):
    """The Python of a fresh environment with Google's dp-accounting."""
    return installed("dp-accounting>=0.6")


@pytest.fixture(scope="session")
def inference_peers(installed):
    """The Python of a fresh environment with lifelines and pingouin."""
    return installed("lifelines>=0.30", "pingouin>=0.5.5")
