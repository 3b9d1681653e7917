"""Progress bars: where a person is looking, after two seconds, and without private numbers."""

import os
import pty
import subprocess
import sys
import termios

import pytest

SLOW = """
import sys
import numpy as np, pandas as pd, dfprivacy as dp
from dfprivacy import progress
progress.DELAY_SECONDS = float(sys.argv[1])
frame = pd.DataFrame({"x": np.linspace(0, 1, 400_123)})
view = dp.protect(frame, "slow", epsilon=1, bounds={"x": (0, 1)}, neighbors=sys.argv[2], ledger="memory:")
view.where(lambda row: row["x"] > 0.5).ttest("x", popmean=0.5, epsilon=0.5)
"""


SEARCH = """
import sys
import numpy as np, pandas as pd, dfprivacy as dp
from dfprivacy import progress
progress.DELAY_SECONDS = float(sys.argv[1])
frame = pd.DataFrame(np.random.default_rng(1).uniform(-1, 1, (2000, 2)), columns=["x", "y"])
view = dp.protect(frame, "search", epsilon=1, delta=1e-6, bounds={"x": (-1, 1), "y": (-1, 1)}, ledger="memory:")
view.gmm_fit(["x", "y"], n_components=3, restarts=7, epsilon=1)
"""


@pytest.fixture
def on_a_terminal(forked):
    """What a script writes to the terminal that its standard error is."""

    def shown(*arguments, script=SLOW):
        leader, follower = pty.openpty()
        termios.tcsetwinsize(follower, (24, 80))
        forked(script, *arguments, terminal=follower)
        os.set_blocking(leader, False)
        try:
            return os.read(leader, 1 << 20).decode()
        except BlockingIOError:
            return ""
        finally:
            os.close(leader)
            os.close(follower)

    return shown


def test_a_long_pass_shows_how_far_it_is(on_a_terminal):
    """On a terminal a long pass over the rows shows the public number of rows."""
    shown = on_a_terminal("0", "replace_one")

    assert "reading rows" in shown
    assert "400k" in shown


def test_a_private_number_of_rows_is_not_shown(on_a_terminal):
    """Where the number of rows is private, the bar shows the time only."""
    shown = on_a_terminal("0", "add_remove")

    assert "reading rows" in shown
    assert "400" not in shown


def test_a_short_pass_shows_nothing(on_a_terminal):
    """What is over before the delay shows no bar."""
    assert on_a_terminal("1000", "replace_one") == ""


def test_a_long_search_for_a_mixture_shows_its_restarts(on_a_terminal):
    """A fit that lasts longer than the delay shows how many of its restarts are done."""
    shown = on_a_terminal("0", script=SEARCH)

    assert "fitting" in shown
    assert "/7.00 " in shown


def test_a_short_search_for_a_mixture_shows_nothing(on_a_terminal):
    """A fit that is over before the delay shows no bar."""
    assert on_a_terminal("1000", script=SEARCH) == ""


def test_nothing_is_written_to_a_file(forked):
    """Where standard error is no terminal, there is no bar."""
    done = forked(SLOW, "0", "replace_one")

    assert done.stderr == b""


# A worker dies while it holds the lock that tqdm shares among processes: whoever asks for it waits for good.
DEAD = """
import os, signal
import numpy as np, pandas as pd, dfprivacy as dp
from tqdm import tqdm
from dfprivacy import progress
progress.DELAY_SECONDS = 0
frame = pd.DataFrame({"x": np.linspace(0, 1, 400_123)})
view = dp.protect(frame, "dead", epsilon=1, bounds={"x": (0, 1)}, ledger="memory:")
lock = tqdm.get_lock()
if os.fork() == 0:
    lock.acquire()
    os.kill(os.getpid(), signal.SIGKILL)
os.wait()
paid = view.ttest("x", popmean=0.5, epsilon=1).privacy.epsilon
print(paid, lock is tqdm.get_lock(), [each.acquire(block=False) for each in lock.locks if each is lock.mp_lock])
"""


@pytest.mark.parametrize("seen", [True, False])
def test_no_bar_waits_for_another_process(seen, forked):
    """A question is answered, with a bar and without, while a dead process holds the lock of all bars of tqdm."""
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, 80))

    done = forked(DEAD, terminal=follower if seen else None)

    os.close(leader)
    os.close(follower)
    assert done.stdout == b"1.0 True [False]\n"


NOTEBOOK = """
import sys, types
import dfprivacy
assert "tqdm" not in sys.modules
sys.modules["ipykernel"] = types.ModuleType("ipykernel")
if len(sys.argv) > 1:  # as if no widgets were installed
    sys.modules["ipywidgets"] = sys.modules["IPython"] = None
from dfprivacy import progress
print(any(kind.__name__ == "tqdm_notebook" for kind in progress._bar_class().__mro__))
with progress.progress(10) as bar:
    bar.update(10)
"""


@pytest.mark.parametrize("widgets", [True, False])
def test_a_notebook_has_its_own_bar(widgets):
    """Where widgets are installed; elsewhere text, without a warning. Nothing is imported with the package."""
    if widgets:
        pytest.importorskip("ipywidgets")
    arguments = [] if widgets else ["none"]

    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", NOTEBOOK, *arguments], check=True, capture_output=True, text=True
    )

    assert run.stdout == f"{widgets}\n"
    assert run.stderr == ""


WAITS = """
import sys, time
from dfprivacy import progress
progress.DELAY_SECONDS = float(sys.argv[1])
with progress.waiting("waiting for the answer of the server"):
    time.sleep(1.3)
print("done")
"""


@pytest.mark.parametrize(("delay", "shown"), [("0", True), ("60", False)])
def test_what_is_waited_for_shows_the_time(on_a_terminal, delay, shown):
    """A question to a server has no steps that could be counted."""
    assert ("waiting for the answer of the server: 00:0" in on_a_terminal(delay, script=WAITS)) == shown
