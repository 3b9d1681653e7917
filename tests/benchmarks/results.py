"""Tables of results: printed as they are measured, and kept in files from which the documents are made.

``with recorded("speed", "what", "measured") as row:`` prints a Markdown table, row by row as they are given, and
writes ``results/speed.json`` once the table is complete. `report.py` puts these files into the documents.
"""

from __future__ import annotations

import datetime as dt
import json
import platform
import re
import shlex
import sys
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

FOLDER = Path(__file__).parent / "results"
PACKAGES = ("dfprivacy", "numpy", "scipy", "pandas", "polars", "pyarrow", "opendp")


@contextmanager
def recorded(name: str, *columns: str) -> Iterator[Callable[..., None]]:
    """Print a table as it is measured, and keep it when it is complete."""
    rows: list[list[str]] = []

    def row(*cells: object) -> None:
        rows.append([str(cell) for cell in cells])
        print(line(rows[-1]), flush=True)

    print(markdown(columns, []), flush=True)
    yield row
    write({
        "name": name,
        "command": command(),
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "versions": {"python": platform.python_version(), **{each: version(each) for each in PACKAGES}},
        "columns": list(columns),
        "rows": rows,
    })  # fmt: skip


def command() -> str:
    """What was called, without the file of an interrupted run."""
    script = Path(sys.argv[0]).resolve().relative_to(FOLDER.parent).as_posix()
    told = shlex.join(["python", f"tests/benchmarks/{script}", *sys.argv[1:]])
    return re.sub(r" --resume[ =]\S+", "", told)


def write(result: dict[str, Any]) -> None:
    """Write a result, a line for each row."""
    FOLDER.mkdir(exist_ok=True)
    rows = ",\n".join("    " + json.dumps(row, ensure_ascii=False) for row in result["rows"])
    text = json.dumps({**result, "rows": []}, indent=2, ensure_ascii=False)
    text = text.replace('"rows": []', f'"rows": [\n{rows}\n  ]')
    (FOLDER / f"{result['name']}.json").write_text(text + "\n", encoding="utf-8")


def read(name: str) -> dict[str, Any]:
    """Read a result."""
    result: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return result


def markdown(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    heads = list(columns)
    return "\n".join([line(heads), "|" + "---|" * len(heads), *map(line, rows)])


def line(cells: Iterable[str]) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(cells)} |"
