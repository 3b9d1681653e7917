"""Synthetic tables: how far they are from the private one, beside MST and AIM.

    python tests/benchmarks/synthetic.py synth_peers --resume FILE

MST and AIM are those of dpmm, which has them and their inference in NumPy; they run in an environment of its own.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from harness import DATA, Rows, Tables, parts, peer, problem, protected
from numpy.typing import NDArray

tables = Tables(__doc__)
EPSILONS, DELTA, BINS = (0.1, 1.0, 10.0), 1e-9, 32
LIMIT = 1200  # seconds of a run
NUMBERS = {"mdvis": (0, 80), "lncoins": (0, 5), "lpi": (0, 8), "fmde": (0, 9), "physlm": (0, 1), "disea": (0, 60)}
AFFAIRS = {"affairs": (0, 60)}
Labels = dict[str, list[Any]]


def coded(frame: pd.DataFrame, bounds: dict[str, tuple[int, int]], labels: Labels) -> pd.DataFrame:
    """Codes of categories, and of numbers by equal intervals between public bounds."""
    found = {}
    for name, known in labels.items():
        edges = np.linspace(*bounds[name], BINS + 1)[1:-1] if name in bounds else known[1:]
        found[name] = np.searchsorted(edges, frame[name], side="right")
    return pd.DataFrame(found)


def private() -> Iterator[tuple[str, pd.DataFrame, dict[str, tuple[int, int]], Labels]]:
    """Tables, the bounds of numbers, and the values of categories; what numbers become has as many as intervals."""
    import statsmodels.api as sm

    for name, data, bounds in (("affairs", "fair", AFFAIRS), ("health", "randhie", NUMBERS)):
        frame = getattr(sm.datasets, data).load_pandas().data
        labels = {x: [*range(BINS)] if x in bounds else np.unique(frame[x]).tolist() for x in frame}
        yield name, frame, bounds, labels
    if (DATA / "adult-domain.json").is_file():
        sizes = json.loads((DATA / "adult-domain.json").read_text(encoding="utf-8"))
        yield "census", pd.read_csv(DATA / "adult-coded.csv"), {}, {x: [*range(size)] for x, size in sizes.items()}


def distances(real: NDArray[Any], drawn: NDArray[Any], sizes: list[int]) -> list[float]:
    """Mean total variation over all tables of two columns, and of three."""
    means = []
    for columns in (2, 3):
        found = []
        for places in map(list, itertools.combinations(range(len(sizes)), columns)):
            shape = [sizes[at] for at in places]
            cells = [np.ravel_multi_index(tuple(rows[:, places].T), shape) for rows in (real, drawn)]
            _, cell = np.unique(np.concatenate(cells), return_inverse=True)
            one, other = (np.bincount(of, minlength=cell.max() + 1) / len(of) for of in np.split(cell, [len(real)]))
            found.append(np.abs(one - other).sum() / 2)
        means.append(float(np.mean(found)))
    return means


def of_peer(method: str, real: NDArray[Any], sizes: list[int], epsilon: float) -> list[float] | None:
    """Distances and seconds of another library; None if it takes too long or fails."""
    python = peer("dpmm")
    with tempfile.TemporaryDirectory() as folder:
        table, kept = Path(folder) / "codes.npz", Path(folder) / "synthetic.npz"
        np.savez(table, codes=real, sizes=sizes)
        script = [python or "python", Path(__file__).with_name("peers_synth.py")]
        asked = [*script, method, table, kept, str(epsilon), str(DELTA)]
        try:
            subprocess.run(asked, check=True, timeout=LIMIT, capture_output=True, text=True)
        except subprocess.CalledProcessError as error:
            problem(f"{method}: {error.stderr[-300:]}")
            return None
        except subprocess.TimeoutExpired:
            return None
        with np.load(kept) as found:
            return [*distances(real, found["codes"], sizes), *found["spent"].tolist()]


def ours(frame: pd.DataFrame, bounds: dict[str, tuple[int, int]], labels: Labels, epsilon: float) -> list[float]:
    """Distances and seconds of ours."""
    terms: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA}
    known = {name: each for name, each in labels.items() if name not in bounds}
    view = protected(frame[[*labels]], **terms, bounds=bounds, categories=known, neighbors="add_remove")
    began = time.process_time()
    drawn = view.synth(**terms).sample(len(frame))
    seconds = time.process_time() - began
    real, synthetic = (coded(each, bounds, labels).to_numpy() for each in (frame, drawn))
    return [*distances(real, synthetic, [*map(len, labels.values())]), seconds]


def shown(far: Any) -> str:
    """Two distances."""
    return "–" if far is None else f"{far[0]:.4f} / {far[1]:.4f}"


@tables.add("table", "rows", "columns", "ε", "MST", "AIM", "ours", "seconds of MST", "of AIM", "of ours")
def synth_peers(runs: int = 4) -> Rows:
    """Mean total variation over all tables of two / three columns from the private one, at delta 1e-9."""
    for (name, frame, bounds, labels), epsilon in itertools.product(private(), EPSILONS):
        codes, sizes = coded(frame, bounds, labels), [*map(len, labels.values())]
        asked = [(name, codes, {}, {x: [*range(len(each))] for x, each in labels.items()})]
        asked += [("health, numbers as they are", frame, bounds, labels)] * (name == "health")
        measures = {way: partial(of_peer, way, codes.to_numpy(), sizes, epsilon) for way in ("MST", "AIM")}
        theirs = [parts(f"{way} {name}, {epsilon:g}", measure) for way, measure in measures.items()]
        times = ["–" if each is None else f"{each[2]:.0f}" for each in theirs]
        for title, *of in asked:
            own = np.mean([ours(*of, epsilon) for _ in range(runs)], axis=0)
            what = title, f"{len(frame):,}", len(sizes), f"{epsilon:g}"
            yield *what, *map(shown, (*theirs, own)), *times, f"{own[2]:.1f}"


if __name__ == "__main__":
    tables.main()
