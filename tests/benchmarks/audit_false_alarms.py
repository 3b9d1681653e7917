"""Audit honest mechanisms again and again, and count the false alarms.

Checks that involve no chance are run three times; those that do, as often as asked (default: 200).
Usage: ``python tests/benchmarks/audit_false_alarms.py [RUNS]``.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "meta"))

from faults import HONEST
from results import recorded

from dfprivacy_audit import check_mechanism, discipline

CHANCE = {"noise_follows_its_law", "outputs_do_not_tell"}
SAMPLES = 2_000


def main(runs):
    ran, alarms = 0, 0
    for run in range(runs):
        discipline._fit_pvalue.cache_clear()
        for name, (make, case, waived) in HONEST.items():
            for check in check_mechanism(make(), [case], samples=SAMPLES):
                if check.name in waived or (run > 2 and check.name not in CHANCE):
                    continue
                outcome = check.run()
                ran += outcome.status != "skipped"
                if outcome.status == "failed":
                    alarms += 1
                    print(f"run {run}, {name}: {check.name}: {outcome.detail}", flush=True)
        print(f"{run + 1} runs, {ran} checks, {alarms} false alarms", flush=True)
    with recorded("audit_false_alarms", "runs", "checks", "false alarms") as row:
        row(runs, ran, alarms)
    return alarms


if __name__ == "__main__":
    sys.exit(bool(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)))
