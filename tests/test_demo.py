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


RUN = "import sys; from dfprivacy.cli import main; sys.exit(main())"


def around(folder):
    """What surrounds a demo: its output is UTF-8, nobody sees its picture, and what it leaves is in a folder."""
    return {**os.environ, "PYTHONUTF8": "1", "MPLBACKEND": "Agg", "TMPDIR": str(folder)}


def demo(*arguments, folder):
    """Run the demo as a new user does, in a new interpreter."""
    command = [sys.executable, "-W", "error", "-c", RUN, "demo", *arguments]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, encoding="utf-8", env=around(folder)
    )


@pytest.fixture(scope="module")
def once_more(forking, needed):
    """Run the demo again where warnings are errors, too, but all is imported, or as if a library were not there."""
    forks = forking("pandas", "polars", "pyarrow", "matplotlib.figure", "statsmodels.datasets.fair", *needed)
    strictly = f"import tempfile, warnings; tempfile.tempdir = None; warnings.simplefilter('error'); {RUN}"

    def run(*arguments, folder, without=None):
        gone = f"for name in [*sys.modules]:\n if name.partition('.')[0] == {without!r}: sys.modules[name] = None\n"
        script = f"import sys\n{gone}{strictly}" if without else strictly
        done = forks(script, "demo", *arguments, environment=around(folder), status=1 if without else 0)
        done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
        return done

    return run


def test_the_demo_runs_with_a_throwaway_ledger(ledger, tmp_path):
    """A run asks from three kinds of frame, is refused at the end, and leaves nothing but a picture."""
    run = demo(folder=tmp_path)

    assert not ledger.exists()
    assert (0, "") == (run.returncode, run.stderr)
    texts = """6,366 rows|PrivateFrame 'fair-1978'|nothing was charged or read|── pandas|Quantiles:
        epsilon: 0.2 of 2 spent|── Polars DataFrame|TTest:|epsilon: 0.6 of 2 spent|── Polars LazyFrame|Chi2:
        epsilon: 1 of 2 spent|OLS|DistanceCorrelation:|epsilon: 1.6 of 2 spent|replayed at no charge
        BudgetExceeded: ttest asks for epsilon = 0.5|demo.png|── What is left"""
    places = [run.stdout.index(text.strip()) for line in texts.splitlines() for text in line.split("|")]
    assert sorted(places) == places
    assert run.stdout.rstrip().endswith("epsilon: 1.6 of 2 spent, 0.4 left")
    assert ["demo.png"] == [each.name for each in tmp_path.rglob("*") if each.is_file()]


@pytest.mark.pandas(False)
def test_a_kept_ledger_pays_once(tmp_path, once_more):
    """With a ledger of one's own the second run replays the answers of the first."""
    path = tmp_path / "demo.sqlite"

    kept = "--ledger", str(path), "--picture", str(tmp_path / "demo.png")
    first, second = (once_more(*kept, folder=tmp_path) for _ in range(2))

    entries = open_ledger(path).account("fair-1978").entries()
    assert (0, 0) == (first.returncode, second.returncode)
    assert 8 / 5 == float(sum(entry.epsilon for entry in entries))
    assert 1 == first.stdout.count("replayed at no charge")
    assert 6 == second.stdout.count("replayed at no charge")


@pytest.mark.pandas(False)
@pytest.mark.parametrize("library", ["statsmodels", "polars"])
def test_a_missing_library_is_named(library, tmp_path, once_more):
    """Without its libraries the demo says what to install, by exit code 1."""
    run = once_more("--picture", "none.png", folder=tmp_path, without=library)

    assert run.stdout == ""
    assert f"needs {library}" in run.stderr.lower().replace("the demo ", "")
    assert 'pip install "dfprivacy[demo]"' in run.stderr
