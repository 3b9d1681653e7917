"""A ledger file where threads ask, processes fork, and workers are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fractions import Fraction

import pytest

from dfprivacy._ledger.ledger import open_ledger
from dfprivacy.errors import BudgetExceeded

from .helpers import SCRIPT, added, integrity, opened, pay, sqlite

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
SECONDS = os.environ.get("DFPRIVACY_TEST_STRESS", "1")  # of each program of chance; see tox.ini


def interpreter(script, *arguments):
    """Run a script in an interpreter of its own, which ends as all do; what it prints."""
    # from Python 3.12 on, a fork of a process with threads is warned of
    warnings = ["-W", "error", "-W", "ignore::DeprecationWarning"]
    run = subprocess.run(
        [sys.executable, *warnings, "-c", SCRIPT + script, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=float(SECONDS) + 600,  # of a machine that does much else
    )
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


# Two workers at any time charge and then release, until each is killed. A worker is a fork of a process that
# has imported everything and charged once, so it charges from its first millisecond; it says so through a pipe.
KILLER = """
import gc

released, kills = sys.argv[2], int(sys.argv[3])
account = open_ledger(sys.argv[1]).account("survey")
pay(account, "1/1000", str(os.getpid()))
chance = random.Random(20_260_101)
gc.freeze()

def work(pipe):
    file = os.open(released, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(pipe, b"!")
    while True:
        entry = pay(account, "1/1000", str(os.getpid()))
        os.write(file, f"{entry} {os.getpid()}\\n".encode())
        os.fsync(file)

def start():
    read, write = os.pipe()
    worker = os.fork()
    if worker == 0:
        try:
            work(write)
        finally:
            os._exit(1)
    os.close(write)
    assert os.read(read, 1) == b"!"
    os.close(read)
    return worker

def enough():
    # on a busy machine many workers die before their first release
    with open(released) as file:
        return killed >= kills and len(file.readlines()) >= 50

workers = [start(), start()]
killed = 0
while workers:
    time.sleep(chance.uniform(0, 0.015))
    worker = workers.pop(chance.randrange(len(workers)))
    os.kill(worker, signal.SIGKILL)
    _, status = os.waitpid(worker, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
    killed += 1
    if not enough():
        workers.append(start())
print(killed)
"""


@pytest.mark.stress
def test_a_kill_gives_no_answer_away(path, tmp_path):
    """However often processes are killed, every answer that got out is charged, and the sums are right."""
    account, kills = opened(path, epsilon=Fraction(10**6)), round(20 * float(SECONDS))

    killed = int(interpreter(KILLER, path, tmp_path / "released", kills))  # lean, for it is forked as many times

    charged = {f"{entry.id} {entry.call}" for entry in account.entries()}
    lines = (tmp_path / "released").read_text().splitlines()
    assert killed >= kills
    assert len(lines) >= 50
    assert set() == set(lines) - charged
    assert len(lines) == len(set(lines))
    assert added(account) == account.spent()
    assert integrity(path) == [("ok",)]


AFTER = """
account = opened()
pay(account, "3/4")
os.kill(os.getpid(), signal.SIGKILL)
"""
WITHIN_THE_CHARGE = """
with opened().ledger.transaction(write=True) as connection:
    connection.exec_driver_sql("UPDATE accounts SET spent = 'half a charge'")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_crash_leaves_the_charge_or_nothing(python, path):
    """Killed before its commit, a process has charged nothing and holds nobody up; killed after it, it has paid."""
    account = opened(path)

    python(WITHIN_THE_CHARGE, path, status=-9)
    assert account.accountant.no_charges == account.spent()
    python(AFTER, path, status=-9)
    assert [Fraction(3, 4)] == [entry.epsilon for entry in account.entries()]
    assert account.answers() == []
    with pytest.raises(BudgetExceeded):
        pay(account, "1/2")
    pay(account, "1/4")


# ---- forks ------------------------------------------------------------------------------------------------

CHARGE = """
account = opened()

def tried(who):
    try:
        pay(account, "1/100", who)
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
        time.sleep(0.5)
    committed = True

threading.Thread(target=transact).start()
begun.wait()
child = os.fork()
if child == 0:
    print("committed:", committed, flush=True)
    tried("child")
    sys.exit()
wait(child)
for _ in range(2):
    tried("parent")
    child = ctypes.PyDLL(None).fork()
    if child == 0:
        tried("child of C")
        os._exit(0)
    wait(child)
"""


def test_a_fork_waits_for_the_transactions_of_other_threads(python, path):
    """A child is made when no thread is in one, and pays as its parent does; one that C code made is noticed."""
    printed = python(CHARGE + WAITS, path)

    assert printed == "committed: True\nchild paid\n" + "parent paid\nchild of C paid\n" * 2
    assert [entry.call for entry in opened(path).entries()] == ["child", *["parent", "child of C"] * 2]


WITHIN = """
fork = os.fork if sys.argv[2] == "python" else ctypes.PyDLL(None).fork
try:
    with account.ledger.transaction(write=True) as connection:
        connection.exec_driver_sql("UPDATE accounts SET public = json_array('seven')")
        child = fork()
except LedgerError as error:
    print("child cannot commit:", error, flush=True)
if child == 0:
    tried("child")
    grandchild = os.fork()
    if grandchild == 0:
        tried("grandchild")
        sys.exit()
    wait(grandchild)
    sys.exit()
wait(child)
tried("parent")
"""


@pytest.mark.parametrize("by", ["python", "c"])
def test_who_was_forked_within_a_transaction_cannot_use_the_file(path, by):
    """A child made in the middle of a transaction is refused before any charge; the parent goes on undisturbed."""
    printed = interpreter(CHARGE + WITHIN, path, by).splitlines()

    assert "The transaction belongs to the process" not in printed[0]
    assert printed[0].startswith("child cannot commit: The ledger")
    assert printed[1].startswith("child cannot pay: The ledger")
    assert "was forked from another in the middle of a transaction. Nothing was released or spent." in printed[1]
    assert printed[2].startswith("grandchild cannot pay: The ledger")
    assert printed[3:] == ["parent paid"]
    assert [entry.call for entry in open_ledger(path).account("survey").entries()] == ["parent"]
    assert sqlite(path, "SELECT public FROM accounts") == [('["seven"]',)]
    assert integrity(path) == [("ok",)]


LOCKS = """
from dfprivacy._plugins import loader as plugins
from dfprivacy._call import call
from dfprivacy._measure.tasks import _one_thread_blas

def hold(lock, held, done):
    with lock:
        held.set()
        done.wait(1)

def locks():
    cached = getattr(vars(call.Call)["question_texts"], "lock", None)
    return [plugins._lock, _one_thread_blas()._lock, *([cached] if cached else [])]

done = threading.Event()
for lock in locks():
    held = threading.Event()
    threading.Thread(target=hold, args=(lock, held, done)).start()
    held.wait()
if os.fork() == 0:
    for each in locks():
        with each:
            pass
    print("free", flush=True)
    os._exit(0)
os.wait()
"""


def test_no_lock_of_the_house_is_inherited_held(python):
    """A child can take every lock that a thread of its parent held."""
    assert python(LOCKS) == "free\n"


# ---- programs of chance -----------------------------------------------------------------------------------

ASKS = """
import json, multiprocessing
from concurrent.futures import ProcessPoolExecutor
import numpy as np, pandas as pd, dfprivacy as dp

where, log, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
chance = random.Random(20_260_102)
frame = pd.DataFrame({"x": np.linspace(0, 1, 2000)})
view = dp.protect(frame, "crowd", epsilon=1000, bounds={"x": (0, 1)}, ledger=where)
file = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

def ask():
    release = view.ttest("x", popmean=0.5, epsilon="1/1000", fresh=True)
    os.write(file, f"{release.estimate!r}\\n".encode())

def tried(who, wait):
    try:
        ask()
    except Exception as error:
        os.write(file, f"{who}: {error}\\n".encode())
    time.sleep(wait)

def keep_asking():
    while not over:
        tried("thread", chance.expovariate(50))

def start(times):
    child = os.fork()
    if child == 0:
        for _ in range(times):
            tried("child", 0)
        os._exit(0)
    return child

ask()
over, end = False, time.monotonic() + seconds
"""
# Threads ask while the process forks children that ask too.
CROWD = """
threads = [threading.Thread(target=keep_asking) for _ in range(2)]
for thread in threads:
    thread.start()
children, asked = set(), 0
while time.monotonic() < end or asked < 12:  # a busy machine gets to few in its time
    time.sleep(chance.expovariate(20))
    if len(children) < 6:
        asked += 3
        children.add(start(3))
    children -= {child for child in children if os.waitpid(child, os.WNOHANG)[0]}
over = True
for thread in threads:
    thread.join()
for child in children:
    os.waitpid(child, 0)
"""
# A thread answers requests while jobs run in pools of processes, forked as was the default until Python 3.14.
SERVICE = """
def job(_):
    for _ in range(3):
        ask()

server = threading.Thread(target=keep_asking)
server.start()
while True:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
        list(pool.map(job, range(2), timeout=600))
    if time.monotonic() > end:
        break
over = True
server.join()
"""


@pytest.mark.stress
@pytest.mark.parametrize("program", [CROWD, SERVICE], ids=["forks", "pools"])
def test_threads_and_forks_lose_no_charge(python, path, tmp_path, program):
    """Whatever was released to threads and to forked children is in the ledger, and nobody hangs or fails."""
    python(ASKS + program, path, tmp_path / "released", SECONDS)

    released = (tmp_path / "released").read_text().splitlines()
    account = open_ledger(path).account("crowd")
    kept = [json.dumps(answer.release["estimate"]) for answer in account.answers()]
    assert sorted(released) == sorted(kept)
    assert len(account.entries()) == len(kept) > 6
    assert integrity(path) == [("ok",)]


# Workers ask until they are killed at any moment; then one more asks, and must get its answer.
KILLED = """
workers = [start(10**6) for _ in range(4)]
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
def test_killed_workers_hang_nobody(python, path, tmp_path):
    """After workers were killed at any moment of a question, the next one is answered."""
    assert python(ASKS + KILLED, path, tmp_path / "released", SECONDS) == "0\n"
    assert not [line for line in (tmp_path / "released").read_text().splitlines() if "child" in line]
    assert integrity(path) == [("ok",)]


# ---- Polars' threads --------------------------------------------------------------------------------------

POLARS = """
import polars as pl
from dfprivacy.errors import ReadError
from dfprivacy._table.frames import adapt, polars

polars.PROBE_SECONDS = 600
frame = pl.DataFrame({"x": [0.0, 1.0], "y": [0.0, 1.0]})
if sys.argv[1] == "lazy":
    frame = frame.lazy()

def read(who):
    try:
        adapt(frame).check_readable()
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
    """A frame is refused, with nothing spent, in a fork of a process that had used Polars' threads; only there."""
    parent, child = python(POLARS, kind, "0.5", "used").splitlines()

    assert parent == "parent reads"
    assert child.startswith("child This process was forked from another that had used Polars")
    assert "Nothing was released or spent." in child
    assert python(POLARS, kind, "600", "unused") == "child reads\n"


PAYING = """
import polars as pl, dfprivacy as dp
from dfprivacy.errors import ReadError
from dfprivacy._table.frames import polars

polars.PROBE_SECONDS = 600
frame = pl.DataFrame({"x": [0.0, 1.0] * 50})
view = dp.protect(frame.lazy(), "polars", epsilon=10, bounds={"x": (0, 1)}, ledger=sys.argv[1])
view.ttest("x", popmean=0.5, epsilon=1)
if os.fork() == 0:
    polars.PROBE_SECONDS = 0.5
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
