"""A ledger file where threads ask, processes fork, and workers are killed."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from fractions import Fraction

import pytest

from dfprivacy._ledger.ledger import open_ledger

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
TERMS = {"delta": Fraction(0), "accounting": None, "neighbors": "replace_one", "public": ()}
SECONDS = os.environ.get("DFPRIVACY_TEST_STRESS", "2")  # of each program of chance; see tox.ini


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def python(forked):
    """What runs a script in a process of its own, and gives what it prints."""

    def run(script, *arguments, status=0):
        ended = forked(script, *map(str, arguments), strict=True, status=status)
        assert ended.stderr == b""
        return ended.stdout.decode()

    return run


def interpreter(script, *arguments):
    """Run a script in an interpreter of its own, which ends as all do; what it prints."""
    # from Python 3.12 on, a fork of a process with threads is warned of
    warnings = ["-W", "error", "-W", "ignore::DeprecationWarning"]
    run = subprocess.run(
        [sys.executable, *warnings, "-c", script, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=float(SECONDS) + 600,  # of a machine that does much else
    )
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


def integrity(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall()


CHARGE = """
import ctypes, os, sqlite3, sys, threading, time
from fractions import Fraction
from dfprivacy import _forks as forks
from dfprivacy.errors import LedgerError
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._privacy.losses import Pure

account = open_ledger(sys.argv[1]).account("fork")

def pay(who):
    try:
        account.charge(Pure(Fraction(1, 100)), call=who, mechanism="mean")
    except LedgerError as error:
        print(who, "cannot pay:", error, flush=True)
    else:
        print(who, "paid", flush=True)

def wait(child):
    assert os.waitpid(child, 0)[1] == 0
"""

WAITS = """
begun, committed = threading.Event(), False

def transact():
    global committed
    with account.ledger.transaction(write=True):
        begun.set()
        time.sleep(1)
    committed = True

threading.Thread(target=transact).start()
begun.wait()
child = os.fork()
if child == 0:
    print("committed:", committed, flush=True)
    pay("child")
    sys.exit()
wait(child)
pay("parent")
"""


def test_a_fork_waits_for_the_transactions_of_other_threads(python, path):
    """A child is made when no thread is in a transaction, and then pays as its parent does."""
    account = open_ledger(path).open_account("fork", epsilon=Fraction(1), **TERMS)

    printed = python(CHARGE + WAITS, path)

    assert printed == "committed: True\nchild paid\nparent paid\n"
    assert [entry.call for entry in account.entries()] == ["child", "parent"]


WITHIN = """
fork = os.fork if sys.argv[2] == "python" else ctypes.PyDLL(None).fork
try:
    with account.ledger.transaction(write=True) as connection:
        connection.exec_driver_sql("UPDATE accounts SET public = json_array('seven')")
        child = fork()
except LedgerError as error:
    print("child cannot commit:", error, flush=True)
if child == 0:
    pay("child")
    grandchild = os.fork()
    if grandchild == 0:
        pay("grandchild")
        sys.exit()
    wait(grandchild)
    sys.exit()
wait(child)
pay("parent")
"""


@pytest.mark.parametrize("by", ["python", "c"])
def test_who_was_forked_within_a_transaction_cannot_use_the_file(path, by):
    """A child made in the middle of a transaction is refused before any charge; the parent goes on undisturbed."""
    account = open_ledger(path).open_account("fork", epsilon=Fraction(1), **TERMS)

    printed = interpreter(CHARGE + WITHIN, path, by).splitlines()

    assert "The transaction belongs to the process" not in printed[0]
    assert printed[0].startswith("child cannot commit: The ledger")
    assert printed[1].startswith("child cannot pay: The ledger")
    assert "was forked from another in the middle of a transaction. Nothing was released or spent." in printed[1]
    assert printed[2].startswith("grandchild cannot pay: The ledger")
    assert printed[3:] == ["parent paid"]
    assert [entry.call for entry in account.entries()] == ["parent"]
    assert open_ledger(path).account("fork").public == ("seven",)
    assert integrity(path) == [("ok",)]


BETWEEN = """
for child in range(3):
    pay("parent")
    pid = ctypes.PyDLL(None).fork()
    if pid == 0:
        pay("child")
        os._exit(0)
    wait(pid)
"""


def test_a_fork_that_tells_nobody_is_noticed(python, path):
    """A child that C code made between transactions pays as its parent does."""
    account = open_ledger(path).open_account("fork", epsilon=Fraction(1), **TERMS)

    printed = python(CHARGE + BETWEEN, path)

    assert printed == "parent paid\nchild paid\n" * 3
    assert len(account.entries()) == 6


LOCKS = """
import os, sys, threading
from functools import cached_property
from dfprivacy._plugins import loader as plugins
from dfprivacy._call import question
from dfprivacy._measure.tasks import _blas

def hold(lock, held, done):
    with lock:
        held.set()
        done.wait(1)

locks = [plugins._lock, _blas()._lock]
locks += [lock for lock in [getattr(vars(question.Question)["texts"], "lock", None)] if lock is not None]
done = threading.Event()
for lock in locks:
    held = threading.Event()
    threading.Thread(target=hold, args=(lock, held, done)).start()
    held.wait()
if os.fork() == 0:
    lock = getattr(vars(question.Question)["texts"], "lock", None)
    for each in [plugins._lock, _blas()._lock, *([lock] if lock else [])]:
        with each:
            pass
    print("free", flush=True)
    os._exit(0)
os.wait()
"""


def test_no_lock_of_the_house_is_inherited_held(python):
    """A child can take every lock that a thread of its parent held."""
    assert python(LOCKS) == "free\n"


# Threads ask while the process forks children that ask too. Every release that anybody got is written down.
CROWD = """
import os, random, sys, threading, time
import numpy as np, pandas as pd, dfprivacy as dp

where, log, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
chance = random.Random(20_260_102)
frame = pd.DataFrame({"x": np.linspace(0, 1, 2000)})
view = dp.protect(frame, "crowd", epsilon=1000, bounds={"x": (0, 1)}, ledger=where)
file = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

def ask():
    release = view.ttest("x", popmean=0.5, epsilon="1/1000", fresh=True)
    os.write(file, f"{release.estimate!r}\\n".encode())

def keep_asking():
    while not over:
        try:
            ask()
        except Exception as error:
            os.write(file, f"thread: {error}\\n".encode())
        time.sleep(chance.expovariate(50))

ask()
over = False
threads = [threading.Thread(target=keep_asking) for _ in range(2)]
for thread in threads:
    thread.start()
children, asked = set(), 0
end = time.monotonic() + seconds
while time.monotonic() < end or asked < 12:  # a busy machine gets to few in its time
    time.sleep(chance.expovariate(20))
    if len(children) < 6:
        asked += 3
        child = os.fork()
        if child == 0:
            try:
                for _ in range(3):
                    ask()
            except BaseException as error:
                os.write(file, f"child: {error}\\n".encode())
            os._exit(0)
        children.add(child)
    children -= {child for child in children if os.waitpid(child, os.WNOHANG)[0]}
over = True
for thread in threads:
    thread.join()
for child in children:
    os.waitpid(child, 0)
"""


@pytest.mark.stress
def test_threads_and_forks_lose_no_charge(python, path, tmp_path):
    """Whatever was released to threads and to forked children is in the ledger, and nobody hangs or fails."""
    python(CROWD, path, tmp_path / "released", SECONDS)

    released = (tmp_path / "released").read_text().splitlines()
    account = open_ledger(path).account("crowd")
    kept = sorted(repr(answer.release["estimate"]) for answer in account.answers())
    assert sorted(released) == kept
    assert len(account.entries()) == len(kept) > 10
    assert integrity(path) == [("ok",)]


# A thread answers requests while jobs run in pools of processes, forked as was the default until Python 3.14.
SERVICE = """
import json, multiprocessing, random, sys, threading, time
from concurrent.futures import ProcessPoolExecutor
import numpy as np, pandas as pd, dfprivacy as dp

where, seconds = sys.argv[1], float(sys.argv[2])
chance = random.Random(20_260_103)
frame = pd.DataFrame({"x": np.linspace(0, 1, 2000)})

def ask():
    view = dp.protect(frame, "service", epsilon=1000, bounds={"x": (0, 1)}, ledger=where)
    return view.ttest("x", popmean=0.5, epsilon="1/1000", fresh=True).estimate

def job(_):
    return [ask() for _ in range(3)]

def serve():
    while not over:
        seen.append(ask())
        time.sleep(chance.expovariate(10))

seen, over = [], False
server = threading.Thread(target=serve)
server.start()
end = time.monotonic() + seconds
while time.monotonic() < end:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
        for answers in pool.map(job, range(2), timeout=600):
            seen += answers
over = True
server.join()
print(json.dumps(seen))
"""


@pytest.mark.stress
def test_a_service_with_pools_of_processes_loses_no_charge(python, path):
    """What a thread and the workers of forked pools were told is in the ledger."""
    seen = json.loads(python(SERVICE, path, SECONDS))

    account = open_ledger(path).account("service")
    assert sorted(seen) == sorted(answer.release["estimate"] for answer in account.answers())
    assert len(seen) == len(account.entries())
    assert integrity(path) == [("ok",)]


# Workers ask until they are killed at any moment; then one more asks, and must get its answer.
KILLED = """
import os, random, signal, sys, time
import numpy as np, pandas as pd, dfprivacy as dp

where, seconds = sys.argv[1], float(sys.argv[2])
chance = random.Random(20_260_104)
frame = pd.DataFrame({"x": np.linspace(0, 1, 2000)})
view = dp.protect(frame, "killed", epsilon=1000, bounds={"x": (0, 1)}, ledger=where)

def ask():
    view.ttest("x", popmean=0.5, epsilon="1/1000", fresh=True)

def start(times):
    child = os.fork()
    if child == 0:
        for _ in range(times):
            ask()
        os._exit(0)
    return child

ask()
workers = [start(10**6) for _ in range(4)]
end = time.monotonic() + seconds
while time.monotonic() < end:
    time.sleep(chance.uniform(0.01, 0.1))
    worker = workers.pop(chance.randrange(4))
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
    workers.append(start(10**6))
for worker in workers:
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
print(os.waitpid(start(1), 0)[1])
"""


@pytest.mark.stress
def test_killed_workers_hang_nobody(python, path):
    """After workers were killed at any moment of a question, the next one is answered."""
    assert python(KILLED, path, SECONDS) == "0\n"
    assert integrity(path) == [("ok",)]


POLARS = """
import os, sys
import polars as pl
from dfprivacy.errors import ReadError
from dfprivacy._table.frames import adapt, polars

polars.PROBE_SECONDS = 600
frame = pl.DataFrame({"x": [0.0, 1.0], "y": [0.0, 1.0]})
if sys.argv[1] == "lazy":
    frame = frame.lazy()

def read(who):
    try:
        adapt(frame).ready()
    except ReadError as error:
        print(who, error, flush=True)
    else:
        print(who, "reads", flush=True)

if sys.argv[3] == "used":
    read("parent")
if os.fork() == 0:
    polars.PROBE_SECONDS = float(sys.argv[2])
    read("child")
    os._exit(0)
os.wait()
"""


@pytest.mark.parametrize("kind", ["eager", "lazy"])
def test_polars_is_refused_where_its_threads_are_lost(python, kind):
    """A frame is refused, with nothing spent, in a fork of a process that had used Polars' threads."""
    parent, child = python(POLARS, kind, "1", "used").splitlines()

    assert parent == "parent reads"
    assert child.startswith("child This process was forked from another that had used Polars")
    assert "Nothing was released or spent." in child


@pytest.mark.parametrize("kind", ["eager", "lazy"])
def test_polars_reads_in_a_fork_that_was_first(python, kind):
    """A frame can be read in a fork of a process that had not used Polars' threads."""
    assert python(POLARS, kind, "600", "unused") == "child reads\n"


PAYING = """
import os, sys
import polars as pl, dfprivacy as dp
from dfprivacy.errors import ReadError
from dfprivacy._table.frames import polars

polars.PROBE_SECONDS = 600
frame = pl.DataFrame({"x": [0.0, 1.0] * 50})
view = dp.protect(frame.lazy(), "polars", epsilon=10, bounds={"x": (0, 1)}, ledger=sys.argv[1])
view.ttest("x", popmean=0.5, epsilon=1)
if os.fork() == 0:
    polars.PROBE_SECONDS = 1
    print(view.ttest("x", popmean=0.5, epsilon=1).privacy.replayed, flush=True)
    try:
        view.ttest("x", popmean=0.5, epsilon=2)
    except ReadError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
"""


def test_a_forked_frame_is_refused_before_it_pays(python, path):
    """In a fork that lost Polars' threads a new question is refused and charged nothing; a kept one is answered."""
    replayed, refused = python(PAYING, path).splitlines()

    assert replayed == "True"
    assert "Nothing was released or spent." in refused
    assert [entry.epsilon for entry in open_ledger(path).account("polars").entries()] == [1]
