"""Write `dfprivacy/_bundled.pyi`, which tells type checkers and editors the bundled methods.

Hatch does so when it builds a wheel or installs a checkout. ``python hatch_build.py`` does it where all that
dfprivacy needs is installed.
"""

from __future__ import annotations

import importlib
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # called by hand
    BuildHookInterface = object

if TYPE_CHECKING:
    from dfprivacy import Mechanism

ROOT = Path(__file__).parent
STUB = "dfprivacy/_bundled.pyi"


class BundledStub(BuildHookInterface):
    """Put the stub into the wheel, and into the checkout, although git ignores it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - Hatch calls it
        """Write it before the files are collected."""
        write()
        build_data["artifacts"].append(STUB)


def write() -> None:
    """Ask each bundled plugin for its methods, as the loader does of what is installed."""
    sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]
    from dfprivacy._plugins.stubs import write_stub

    offered: list[Mechanism] = []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for module in project["entry-points"]["dfprivacy"].values():
        importlib.import_module(module).dfprivacy_register_mechanisms(offered.append)
    (ROOT / STUB).write_text(write_stub(offered), encoding="utf-8")


if __name__ == "__main__":
    write()
