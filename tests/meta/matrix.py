"""Print which check catches which planted fault, and what becomes of honest mechanisms."""

# ruff: noqa: T201

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from test_faults import HONEST
from test_faults import OF_A_METHOD as FAULTS

from dfprivacy_audit import CHECKS, check_mechanism

SIGNS = {"passed": ".", "failed": "X", "skipped": " ", "expected": "x"}


def statuses(mechanism, case, samples):
    return {check.name: check.run() for check in check_mechanism(mechanism, [case], samples=samples)}


def main():
    for at, name in enumerate(CHECKS):
        print(f"{'| ' * at}{chr(97 + at)} {name}")
    for fault in FAULTS:
        start = time.perf_counter()
        with getattr(fault, "around", nullcontext)():
            found = statuses(fault.make(), fault.case, getattr(fault, "samples", 4_000))
        line = " ".join(SIGNS[outcome.status] for outcome in found.values())
        caught = found[fault.caught_by].status == "failed"
        print(
            f"{line}  {fault.name} -> {fault.caught_by}{'' if caught else ' NOT CAUGHT'}",
            f"{time.perf_counter() - start:.1f} s",
            flush=True,
        )
        if not caught or "-v" in sys.argv:
            for name, outcome in found.items():
                if outcome.status == "failed" or name == fault.caught_by:
                    print("      ", name, outcome.status, outcome.detail[:300])
    for name, (make, case, waived) in HONEST.items():
        start = time.perf_counter()
        found = statuses(make(), case, 20_000)
        line = " ".join(SIGNS[outcome.status] for outcome in found.values())
        print(f"{line}  honest: {name} {time.perf_counter() - start:.1f} s", flush=True)
        for check, outcome in found.items():
            if outcome.status == "failed" and check not in waived:
                print("      ", check, outcome.detail[:400])


if __name__ == "__main__":
    main()
