"""The example plugin, installed and used as somebody who copies it would."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from statsmodels.datasets import fair

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PLUGIN = ROOT / "docs" / "example_plugin"
ASK = """
import json, sys

import pandas as pd

import dfprivacy as dp

df = pd.read_csv("survey.csv")
df.dp.protect("survey", epsilon=3, bounds={"age": (15, 60)}, categories={"rate_marriage": [1, 2, 3, 4, 5]})
sure = 1 - 1e-6
mode = df.dp.mode("rate_marriage", epsilon=1, confidence=sure)
median = df.dp.middle("age", bins=90, epsilon=1, confidence=sure)
plan = df.dp.explain("mode", "rate_marriage", epsilon=1)
print(json.dumps([mode.to_dict(), median.to_dict(), dict(plan.findings), "dfprivacy_typical" in sys.modules]))
"""


@pytest.fixture(scope="module")
def python(environment: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment with nothing in it but this checkout, the plugin, and what they ask for."""
    home = tmp_path_factory.mktemp("environment")
    return environment(home, str(ROOT), "--editable", f"{PLUGIN}[test]")


def run(python: Path, *arguments: str, folder: Path) -> str:
    """Run Python in a folder and return what it prints."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DFPRIVACY_", "PYTHON"))}
    done = subprocess.run(
        [python, *arguments],
        cwd=folder,
        env={**kept, "DFPRIVACY_LEDGER": "memory:", "PYTHONPYCACHEPREFIX": str(python.parent / "compiled")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


def test_methods_answer_on_a_real_table(python: Path, tmp_path: Path) -> None:
    """After pip install, the views have the plugin's methods, and these find what is true of a survey."""
    survey = fair.load_pandas().data
    survey.to_csv(tmp_path / "survey.csv", index=False)

    mode, median, plan, loaded = json.loads(run(python, "-c", ASK, folder=tmp_path))

    assert survey["rate_marriage"].mode()[0] == mode["mode"]
    assert {"$tuple": []} == mode["notes"]
    assert mode["gap"] > plan["smallest informative gap, in rows"]
    assert median["low"] <= survey["age"].median() <= median["high"]
    assert median["high"] - median["low"] < 10
    assert ["mode (dfprivacy-typical 0.1.0)", "middle (dfprivacy-typical 0.1.0)"] == [
        found["privacy"]["mechanism"] for found in (mode, median)
    ]
    assert loaded


def test_plugins_own_tests_pass(python: Path) -> None:
    """The plugin's tests and examples pass where it is installed."""
    printed = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder=PLUGIN)

    assert re.search(r"^\d+ passed", printed, re.MULTILINE)


def test_readme_runs(python: Path, tmp_path: Path) -> None:
    """The code in the plugin's README runs as it stands."""
    (code,) = re.findall(r"```python\n(.*?)```", (PLUGIN / "README.md").read_text(), re.DOTALL)

    printed = run(python, "-c", code + "\nprint(df.dp.mode('answer', epsilon=0.5).mode)", folder=tmp_path)

    assert "yes\n" == printed
