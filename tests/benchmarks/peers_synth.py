"""Run by the Python of dpmm's environment: a synthetic table by MST or AIM, of codes.

    PYTHON tests/benchmarks/peers_synth.py METHOD CODES.npz SYNTHETIC.npz EPSILON DELTA

MST is fitted in 1,000 steps. AIM chooses among pairs, with 100 steps after each choice and 1,000 in the end, and
its model has at most a megabyte: at the authors' 80 a run takes hours. Imports nothing of dfprivacy.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pandas as pd

STEPS, BETWEEN, MEGABYTES = 1000, 100, 1


def made(method, domain, **terms):
    """A model that has seen nothing yet."""
    from dpmm.models.aim import AIMGM
    from dpmm.models.mst import MSTGM

    terms |= {"domain": domain, "n_jobs": 1}
    if method == "MST":
        return MSTGM(n_iters=STEPS, **terms)
    model = AIMGM(n_iters=BETWEEN, max_model_size=MEGABYTES, **terms)
    choose = model.generator._fit

    def chosen(*args, **more):
        found = choose(*args, **more)
        model.generator.n_iters = STEPS
        return found

    model.generator._fit = chosen
    return model


def main():
    """Read, fit, draw, write."""
    method, table, kept, epsilon, delta = sys.argv[1:]
    with np.load(table) as told:
        codes, sizes = told["codes"], told["sizes"]
    names = [f"c{at}" for at in range(len(sizes))]
    began = time.process_time()
    domain = dict(zip(names, sizes.tolist(), strict=True))
    model = made(method, domain, epsilon=float(epsilon), delta=float(delta), random_state=np.random.RandomState(1))
    model.fit(pd.DataFrame(codes, columns=names))
    drawn = model.generate(len(codes))[names].to_numpy().astype(int)
    np.savez(kept, codes=drawn, spent=[time.process_time() - began])


if __name__ == "__main__":
    main()
