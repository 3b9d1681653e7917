"""The demo: the main job on a real survey, run as a new user runs it."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dfprivacy._ledger.ledger import open_ledger

pytestmark = pytest.mark.pandas

pytest.importorskip("statsmodels")


def demo(*arguments, blocked=None, folder=None):
    """Run the demo in a process of its own, as if a library were not installed."""
    script = f"import sys; sys.modules[{blocked!r}] = None; from dfprivacy.cli import main; sys.exit(main())"
    module = ["-c", script] if blocked else ["-c", "import sys; from dfprivacy.cli import main; sys.exit(main())"]
    return subprocess.run(
        [sys.executable, "-W", "error", *module, "demo", *arguments],
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONUTF8": "1", "MPLBACKEND": "Agg", **({"TMPDIR": str(folder)} if folder else {})},
    )


def test_the_demo_runs_twice_with_a_throwaway_ledger(ledger, tmp_path):
    """Two runs ask from three kinds of frame, are refused at the end, and leave nothing but a picture."""
    runs = [demo(folder=tmp_path) for _ in range(2)]

    assert not ledger.exists()
    for run in runs:
        assert (0, "") == (run.returncode, run.stderr)
        places = [
            run.stdout.index(text)
            for text in (
                "6,366 rows",
                "PrivateFrame 'fair-1978'",
                "nothing was charged or read",
                "── pandas",
                "Quantiles:",
                "spent 0.2 of epsilon 2",
                "── Polars DataFrame",
                "TTest:",
                "spent 0.6 of epsilon 2",
                "── Polars LazyFrame",
                "Chi2:",
                "spent 1 of epsilon 2",
                "OLS",
                "DistanceCorrelation:",
                "spent 1.6 of epsilon 2",
                "replayed at no charge",
                "BudgetExceeded: ttest asks for epsilon = 0.5",
                "demo.png",
                "── What is left",
            )
        ]
        assert sorted(places) == places
        assert run.stdout.rstrip().endswith("spent 1.6 of epsilon 2; the largest next Laplace release is ε = 0.4")
    assert len([*tmp_path.glob("dfprivacy-*/demo.png")]) == 2


@pytest.mark.pandas(False)
def test_a_kept_ledger_pays_once(tmp_path):
    """With a ledger of one's own the second run replays the answers of the first."""
    path = tmp_path / "demo.sqlite"

    kept = "--ledger", str(path), "--picture", str(tmp_path / "demo.png")
    first, second = demo(*kept), demo(*kept)

    entries = open_ledger(path).account("fair-1978").entries()
    assert (0, 0) == (first.returncode, second.returncode)
    assert 8 / 5 == float(sum(entry.epsilon for entry in entries))
    assert 1 == first.stdout.count("replayed at no charge")
    assert 6 == second.stdout.count("replayed at no charge")


@pytest.mark.pandas(False)
@pytest.mark.parametrize("library", ["statsmodels", "polars"])
def test_a_missing_library_is_named(library):
    """Without its libraries the demo says what to install, by exit code 1."""
    run = demo("--picture", "none.png", blocked=library)

    assert (1, "") == (run.returncode, run.stdout)
    assert f"needs {library}" in run.stderr.lower().replace("the demo ", "")
    assert 'pip install "dfprivacy[demo]"' in run.stderr
