"""List every part of the five papers, what runs it, and what it was last measured with.

    python tests/benchmarks/papers/rows.py
    python tests/benchmarks/papers/rows.py --check     # exit with status 1 if something is run by nothing

A row is one of a page in ``docs/papers``. A test is run by the suite, and so are the examples of a page; a script
writes ``results/NAME.json``, and the list says when it last did, and shows the first row of what it found.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
PAGES = sorted(page for page in (ROOT / "docs/papers").glob("*.md") if page.stem != "index")


def rows(page: Path) -> list[list[str]]:
    """Cells of each row of a page: in the paper, here, what differs and why, run by."""
    text = re.sub(r"(?s)<!-- table: .*?<!-- end -->", "", page.read_text(encoding="utf-8"))  # what was measured
    lines = text.splitlines()
    return [re.split(r" ?\| ?", line)[1:-1] for line in lines if re.match(r"\| (?!---|in the paper)", line)]


def results() -> list[dict[str, Any]]:
    """All kept results."""
    files = sorted((ROOT / "tests/benchmarks/results").glob("*.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def measured(run: str) -> list[str]:
    """What a cell's tests and scripts are, and what the scripts found when they last ran."""
    tests = [f"suite: {test}" for test in re.findall(r"`(tests/[^`]+::[^`]+|docs/[^`]+)`", run)]
    scripts = re.findall(r"`python (tests/benchmarks/[^`]+)`", run)
    return tests + [line for script in scripts for line in last(script)]


def last(script: str) -> list[str]:
    """What a script last found: a line for each of its tables."""
    by_it = [result for result in results() if f"{result['command']} ".startswith(f"python {script} ")]
    lines = [
        f"{result['date']} {result['command']}: {dict(zip(result['columns'], result['rows'][0], strict=True))}"
        for result in by_it
    ]
    return lines or [f"NOT MEASURED: python {script}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="say only what is run by nothing")
    check = parser.parse_args().check
    loose = 0
    for page in PAGES:
        for part, here, differs, run in rows(page):
            lines = measured(run)
            left_out = not lines and "*Not " in differs
            missing = (not lines and not left_out) or any(line.startswith("NOT MEASURED") for line in lines)
            loose += missing
            if missing or not check:
                print(f"{page.stem}, {part}: {here or 'left out'}")
                print("".join(f"    {line}\n" for line in lines or [differs]), end="")
    print(f"{loose} parts are run by nothing")
    return 1 if loose else 0


if __name__ == "__main__":
    sys.exit(main())
