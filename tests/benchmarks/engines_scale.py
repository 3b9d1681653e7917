"""How time and memory grow with a folder of Parquet files, from a hundred thousand rows to a hundred million.

    python tests/benchmarks/engines_scale.py                       # 1e5 to 1e8 rows of six columns
    python tests/benchmarks/engines_scale.py --rows 100000 1000000
    python tests/benchmarks/engines_scale.py --picture             # draw docs/pictures/scale.svg from what is kept

Files have 2.5 million rows, 38 MB each. Each size is read by a process of its own, which protects the folder as a
``pyarrow.dataset.Dataset`` and asks twice: a t-test of one column, and all second moments of six. Between them it
asks a question that is interrupted as by Ctrl-C in the middle of a pass, and fails unless the charge is kept and
nothing is answered. Times are the processor's seconds of all threads, BLAS on one; memory is the highest resident
size of that process, libraries included, so this needs Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from results import read, recorded

NAMES = [f"x{i}" for i in range(6)]
FILE_ROWS = 2_500_000
PICTURE = Path(__file__).parents[2] / "docs/pictures/scale.svg"


def written(folder: Path, rows: int) -> None:
    """Write files of three columns of small whole numbers and three of float32."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    n = min(FILE_ROWS, rows)
    for file in range(rows // n):
        rng = np.random.default_rng([1, file])
        small = [rng.integers(0, 101, n, dtype=np.int8) for _ in range(3)]
        floats = [rng.random(n, dtype=np.float32) * np.float32(100) for _ in range(3)]
        table = pa.table(dict(zip(NAMES, [*small, *floats], strict=True)))
        pq.write_table(table, folder / f"{file}.parquet", row_group_size=250_000)


def interrupted(view: Any) -> None:
    """Ask a question, and press Ctrl-C once rows are read."""
    spent, answered = view.budget.spent, len(view.releases)
    signal.setitimer(signal.ITIMER_PROF, 0.1)
    try:
        view.moments(NAMES[:5], epsilon=1, delta=1e-6)
    except KeyboardInterrupt:
        assert view.budget.spent > spent
        assert len(view.releases) == answered
    else:
        assert view.schema.size < FILE_ROWS
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def asked(folder: str) -> dict[str, float]:
    """Ask twice, and say what it took."""
    import pyarrow.dataset as ds

    import dfprivacy as dp

    bounds = dict.fromkeys(NAMES, (0, 100))
    terms = {"epsilon": 100, "delta": "1/1000", "accounting": "basic", "ledger": "memory:"}
    small = {"x0": [0.0, 1.0], **{name: [1.0, 2.0] for name in NAMES[1:]}}
    import pandas as pd

    warm = dp.protect(pd.DataFrame(small), "warm", bounds=bounds, **terms)
    warm.ttest("x0", popmean=50, epsilon=1)
    warm.moments(NAMES, epsilon=1, delta=1e-6)
    started = time.process_time()
    view = dp.protect(ds.dataset(folder), "scale", bounds=bounds, **terms)
    protected = time.process_time()
    view.ttest("x0", popmean=50, epsilon=1)
    first = time.process_time()
    signal.signal(signal.SIGPROF, signal.default_int_handler)
    interrupted(view)
    after = time.process_time()
    view.moments(NAMES, epsilon=1, delta=1e-6)
    second = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"protect": protected - started, "ttest": first - protected, "moments": second - after, "peak": peak}


def measured(rows: int) -> dict[str, float]:
    """Write a folder, and ask it from a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        written(Path(folder), rows)
        command = [sys.executable, __file__, "--ask", folder]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        answer = subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout
        return json.loads(answer.splitlines()[-1])


def drawn() -> None:
    """Draw the times of what is kept."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "dfprivacy", "font.family": "sans-serif"}
    from matplotlib import pyplot as plt

    rows = [[float(cell.replace(",", "")) for cell in row] for row in read("engines_scale")["rows"]]
    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for at, label in ((2, "t-test of one column"), (4, "second moments of six")):
        axes.plot([row[0] for row in rows], [row[at] for row in rows], marker="o", label=label)
    axes.set(xscale="log", yscale="log", xlabel="rows", ylabel="processor's seconds")
    axes.legend(frameon=False)
    figure.savefig(PICTURE, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10**5, 10**6, 10**7, 10**8])
    parser.add_argument("--ask", help=argparse.SUPPRESS)
    parser.add_argument("--picture", action="store_true")
    options = parser.parse_args()
    if options.ask:
        print(json.dumps(asked(options.ask)))
        return
    if not options.picture:
        columns = ("rows", "protect, s", "t-test, s", "ns a row", "second moments, s", "ns a row", "peak, MB")
        with recorded("engines_scale", *columns) as row:
            for rows in options.rows:
                took = measured(rows)
                each = [f"{took[what] / rows * 1e9:.0f}" for what in ("ttest", "moments")]
                row(
                    f"{rows:,}",
                    f"{took['protect']:.2f}",
                    f"{took['ttest']:.2f}",
                    each[0],
                    f"{took['moments']:.2f}",
                    each[1],
                    f"{took['peak']:.0f}",
                )
    drawn()


if __name__ == "__main__":
    main()
