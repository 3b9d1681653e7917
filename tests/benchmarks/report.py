"""Put the kept results into the documents: tables, and the numbers of the README.

    python tests/benchmarks/report.py             # write what has changed
    python tests/benchmarks/report.py --check     # exit with status 1 if something has

A document says where: what stands between ``<!-- table: NAME -->`` and ``<!-- end -->`` is the table of
``results/NAME.json``; ``<!-- numbers -->`` opens the README's paragraph, ``<!-- measured -->`` the list of when
each table was measured, and with what, ``<!-- peers -->`` the errors of other libraries as multiples of ours.
Everything else is prose, and stays as it is.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from pathlib import Path

from harness import markdown, read

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
MARKED = re.compile(r"(<!-- (?:(table): (\w+)|(numbers|measured|peers)) -->\n).*?(<!-- end -->)", re.DOTALL)


def rendered(text: str) -> str:
    """A document with the results of today."""

    def made(found: re.Match[str]) -> str:
        opening, is_table, name, other, end = found.groups()
        body = table(name) if is_table else {"numbers": numbers, "measured": measured, "peers": peers}[other]()
        return f"{opening}\n{body}\n\n{end}"

    return MARKED.sub(made, text)


def table(name: str) -> str:
    """The table of a result."""
    result = read(name)
    return markdown(result["columns"], result["rows"])


def shown() -> set[str]:
    """Names of the tables that the documents show."""
    return {name for page in PAGES for name in re.findall(r"<!-- table: (\w+) -->", page.read_text("utf-8"))}


def measured() -> str:
    """When each table was measured, by which command, and with which versions."""
    rows = []
    for name in sorted(shown()):
        result = read(name)
        versions = ", ".join(f"{package} {number}" for package, number in result["versions"].items())
        rows.append([f"`{name}`", result["date"], f"`{result['command']}`", versions])
    return markdown(("table", "measured", "command", "versions"), rows)


def peers() -> str:
    """Errors of other libraries as multiples of ours, of tables with 10,000 and 100,000 rows."""
    columns, asked = ("diffprivlib", "OpenDP", "SmartNoise", "PipelineDP", "Tumult"), {}
    for name in ("peers_eda", "peers_regression"):
        result = read(name)
        for row in result["rows"]:
            cells = dict(zip(result["columns"], row, strict=True))
            if cells["rows"] in {"10,000", "100,000"} and "filled" not in cells["question"]:
                of = asked.setdefault((cells["relation"], cells["question"]), {each: [] for each in columns})
                for each in columns:
                    of[each].append(multiple(cells.get(each, "–"), cells["dfprivacy"]))
    rows = [
        [relation, question, *(" / ".join(of[each]) if {*of[each]} != {"–"} else "–" for each in columns)]
        for (relation, question), of in asked.items()
    ]
    return markdown(("relation", "question", *columns), [row for row in rows if {*row[2:]} != {"–"}])


def multiple(theirs: str, ours: str) -> str:
    """How many times the second error the first is, of cells such as ``0.00092 ± 7e-05, 5.6 ms``."""
    if theirs == "–":
        return theirs
    first, second = (float(cell.partition(" ")[0]) for cell in (theirs, ours))
    return f"{first / second:.2g}"


def numbers() -> str:
    """The README's paragraph."""
    pandas, _, parquet, peer, beyond, _, small, *_, loaded = (row[1] for row in read("speed")["rows"])
    text = f"""
    A private t-test of two groups, everything included, takes {pandas} of the time of pandas' own
    `groupby().agg(["mean", "var", "count"])` on 20 million rows, {parquet} of a bare NumPy pass when streamed
    from Parquet, and {peer} of diffprivlib's mean and variance of one column; it needs {beyond} beyond the frame.
    On 10,000 rows it takes {small} with its durable charge, and the import costs {loaded}. Simulated at ε = 0.1,
    0.5 and 1, tests of true null hypotheses at the nominal 5% rejected {level("one-sample")} with one sample, and
    {level("two-sample")} with two. The scripts that measured this, and their tables, are in [the
    benchmarks](docs/benchmarks.md).
    """
    return textwrap.fill(" ".join(text.split()), 140, break_long_words=False, break_on_hyphens=False)


def level(test: str) -> str:
    """How often a t-test rejected a true null hypothesis, least and most often."""
    rows = [row for row in read("ttest_level")["rows"] if row[0] == test]
    sizes = [sum(map(int, size.split(", "))) for _, size, *_ in rows]
    rates = [float(rate) for row in rows for rate in row[3:-2]]
    return (
        f"{min(rates):.1%} to {max(rates):.1%} (over {len(rates)} designs of {min(sizes):,} to {max(sizes):,} rows)"
    )


def main() -> int:
    """Render, and write or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with status 1 if something differs"
    )
    asked = parser.parse_args()
    changed = 0
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        after = rendered(before)
        if after != before:
            changed += 1
            print(page.relative_to(ROOT))
            if not asked.check:
                page.write_text(after, encoding="utf-8")
    return int(changed > 0 and asked.check)


if __name__ == "__main__":
    sys.exit(main())
