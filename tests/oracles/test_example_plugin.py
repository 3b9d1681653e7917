"""The example plugin, installed and used as somebody who copies it would."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from statsmodels.datasets import fair

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

pytestmark = pytest.mark.oracle

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "docs" / "example_plugin"
ALL = """
import json, sys

import pytest

folder, plugin, readme = sys.argv[1:]
tested = pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", plugin, plugin])

import pandas as pd

import dfprivacy as dp

df = pd.read_csv(f"{folder}/survey.csv")
df.dp.protect("fair", epsilon=3, bounds={"age": (15, 60)}, categories={"rate_marriage": [1, 2, 3, 4, 5]})
sure = 1 - 1e-6
mode = df.dp.mode("rate_marriage", epsilon=1, confidence=sure)
median = df.dp.middle("age", bins=90, epsilon=1, confidence=sure)
plan = df.dp.explain("mode", "rate_marriage", epsilon=1)
asked = mode.to_dict(), median.to_dict(), dict(plan.findings), "dfprivacy_typical" in sys.modules

copied = {}
exec(readme, copied)
shown = copied["df"].dp.mode("answer", epsilon=0.5).mode

print(json.dumps({"asked": asked, "shown": shown, "tested": tested}))
"""


@pytest.fixture(scope="module")
def python(environment: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment with nothing in it but this checkout, the plugin, and what they ask for."""
    home = tmp_path_factory.mktemp("environment")
    return environment(home, str(ROOT), "--editable", f"{PLUGIN}[test]")


@pytest.fixture(scope="module")
def survey() -> pd.DataFrame:
    """Load a survey of many rows."""
    return fair.load_pandas().data


@pytest.fixture(scope="module")
def found(
    python: Path, survey: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], str]:
    """Use the plugin in all ways in one process: another would import, even compile, all libraries again."""
    folder = tmp_path_factory.mktemp("used")
    survey.to_csv(folder / "survey.csv", index=False)
    (readme,) = re.findall(r"```python\n(.*?)```", (PLUGIN / "README.md").read_text(), re.DOTALL)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DFPRIVACY_", "PYTHON"))}
    done = subprocess.run(
        [python, "-c", ALL, folder, PLUGIN, readme],
        cwd=folder,
        env={**kept, "DFPRIVACY_LEDGER": "memory:", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stdout


def test_methods_answer_on_a_real_table(found: tuple[dict[str, Any], str], survey: pd.DataFrame) -> None:
    """After pip install, the views have the plugin's methods, and these find what is true of a survey."""
    mode, median, plan, loaded = found[0]["asked"]

    assert survey["rate_marriage"].mode()[0] == mode["mode"]
    assert {"$tuple": []} == mode["notes"]
    assert mode["gap"] > plan["smallest informative gap, in rows"]
    assert median["low"] <= survey["age"].median() <= median["high"]
    assert median["high"] - median["low"] < 10
    assert ["mode (dfprivacy-typical 0.1.0)", "middle (dfprivacy-typical 0.1.0)"] == [
        found["privacy"]["mechanism"] for found in (mode, median)
    ]
    assert loaded


def test_plugins_own_tests_pass(found: tuple[dict[str, Any], str]) -> None:
    """The plugin's tests and examples pass where it is installed."""
    told, printed = found

    assert 0 == told["tested"], printed
    assert re.search(r"^\d+ passed", printed, re.MULTILINE)


def test_readme_runs(found: tuple[dict[str, Any], str]) -> None:
    """The code in the plugin's README runs as it stands."""
    assert "yes" == found[0]["shown"]
