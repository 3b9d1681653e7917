"""How fast distance covariances are, beside the dcor package; and what noise for a message costs.

    python tests/benchmarks/dcor_speed.py               # one column at 100,000 and 1,000,000 rows, ten at 10,000
    python tests/benchmarks/dcor_speed.py --check       # and exit with status 1 if a goal is missed

Prints a Markdown table. The sides of a ratio take turns, after a turn that does not count (dcor compiles in it);
the ratio is that of their medians. dcor gets an environment of its own, once, in the user's cache folder;
``--peer-python`` names one that exists.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import venv
from importlib.metadata import version
from pathlib import Path

import numpy as np
from results import recorded

SECONDS = 3.0  # for a message
PEER = ("dcor==0.7",)
PEER_SCRIPT = """
import json, sys, time
import dcor, numpy as np
for line in sys.stdin:
    seed, n, p, method = json.loads(line)
    chance = np.random.default_rng(seed)
    x = chance.random((n, p) if p > 1 else n)
    y = np.abs(2 * x - 1)
    start = time.perf_counter()
    found = dcor.distance_covariance_sqr(x, y, method=method)
    print(json.dumps([time.perf_counter() - start, float(found)]), flush=True)
"""


class Peer:
    """The dcor package in a process of its own."""

    def __init__(self, python: Path) -> None:
        command = [str(python), "-c", PEER_SCRIPT]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def time(self, seed: int, n: int, p: int, method: str) -> tuple[float, float]:
        """Seconds and value of a squared distance covariance."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([seed, n, p, method]) + "\n")
        self._process.stdin.flush()
        seconds, found = json.loads(self._process.stdout.readline())
        return seconds, found

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def ours(seed: int, n: int, p: int) -> tuple[float, float]:
    """Seconds and value of our squared distance covariance, exact sums and grid included."""
    from dfprivacy_dcor.points import Line, Lines, Points, grid_bits, on_grid, squared_covariance

    rng = np.random.default_rng(seed)
    x = rng.random((n, p) if p > 1 else n)
    y = np.abs(2 * x - 1)
    start = time.perf_counter()
    if p > 1:
        found = squared_covariance(Points(x), Points(y))
    else:
        bits = grid_bits(n)
        one, other = (Lines((Line(on_grid(values, bits), bits),), (1.0,)) for values in (x, y))
        found = squared_covariance(one, other)
    return time.perf_counter() - start, found


def compare(peer: Peer, n: int, p: int, method: str, repeats: int) -> tuple[float, float]:
    """Median times of both sides, which take turns; their values must agree."""
    times: tuple[list[float], list[float]] = ([], [])
    for seed in range(repeats + 1):
        (mine, found), (theirs, expected) = ours(seed, n, p), peer.time(seed, n, p, method)
        if abs(found - expected) > 1e-6 * expected:  # our grid of 2^-21 at a million rows
            raise SystemExit(f"n = {n}, p = {p}: {found!r} is not {expected!r}")
        times[0].append(mine)
        times[1].append(theirs)
    return statistics.median(times[0][1:]), statistics.median(times[1][1:])


def message_seconds(n: int, repeats: int) -> float:
    """Median time of drawing a randomised angle for each row from the operating system's secure source."""
    from fractions import Fraction

    from dfprivacy._privacy.samplers import OpenDPSampler
    from dfprivacy.local import Arc
    from dfprivacy_dcor.angles import PLACES, best_half_width

    arc = Arc.within(Fraction(1), places=PLACES, reach=best_half_width(1.0))
    places = np.random.default_rng(1).integers(PLACES, size=n)
    found = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        OpenDPSampler().arc(places, arc)
        found.append(time.perf_counter() - start)
    return statistics.median(found[1:])


def whole_message_seconds(n: int, repeats: int) -> float:
    """Median time of `dcor_message` as people call it."""
    import pandas as pd

    import dfprivacy as dp

    frame = pd.DataFrame({"x": np.random.default_rng(1).random(n)})
    view = dp.protect(frame, "speed", epsilon=1000, bounds={"x": (0, 1)}, ledger="memory:")
    found = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        view.dcor_message("x", epsilon=1, fresh=True)
        found.append(time.perf_counter() - start)
    return statistics.median(found[1:])


def peer_environment() -> Path:
    """Return the Python of an environment with dcor, made if it is not there."""
    import platformdirs

    home = Path(platformdirs.user_cache_dir("dfprivacy")) / "benchmarks" / "dcor"
    python, ready = home / "bin" / "python", home / "ready"
    if not ready.exists():
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PEER], check=True)
        ready.touch()
    return python


def met(measured: float, goal: float) -> str:
    """Say whether a goal is met."""
    return "yes" if measured <= goal else "**no**"


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="turns of which the median counts (default: 5)")
    parser.add_argument("--peer-python", type=Path, help="the Python of an environment with dcor")
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a goal is missed")
    asked = parser.parse_args()
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "opendp"))
    print(
        f"Python {platform.python_version()}, {packages}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}.\n"
    )
    peer, missed = Peer(asked.peer_python or peer_environment()), False

    cases: list[tuple[str, int, int, str, float, int]] = [
        ("one column, n = 100,000, against `auto`", 100_000, 1, "auto", 1.2, asked.repeats),
        ("one column, n = 100,000, against `mergesort`", 100_000, 1, "mergesort", 1.2, asked.repeats),
        ("one column, n = 1,000,000, against `auto`", 1_000_000, 1, "auto", 1.2, asked.repeats),
        ("one column, n = 1,000,000, against `mergesort`", 1_000_000, 1, "mergesort", 1.2, asked.repeats),
        ("ten columns a side, n = 10,000, against `naive`", 10_000, 10, "naive", 0.5, min(asked.repeats, 2)),
    ]
    with recorded("dcor_speed", "what", "ours", "dcor", "ratio", "goal", "met") as row:
        for what, n, p, method, goal, repeats in cases:
            mine, theirs = compare(peer, n, p, method, repeats)
            ratio = mine / theirs
            missed |= ratio > goal
            row(what, f"{mine:.3g} s", f"{theirs:.3g} s", f"{ratio:.2f}", f"≤ {goal:g}", met(ratio, goal))
        peer.close()
        for what, measured in (
            ("noise for a message of 100,000 rows", message_seconds(100_000, asked.repeats)),
            ("that message in all, ε = 1", whole_message_seconds(100_000, asked.repeats)),
        ):
            missed |= measured > SECONDS
            row(what, f"{measured:.3g} s", "", "", f"≤ {SECONDS:g} s", met(measured, SECONDS))
    return int(missed and asked.check)


if __name__ == "__main__":
    sys.exit(main())
