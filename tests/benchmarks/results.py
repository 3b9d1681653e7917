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
    from argparse import ArgumentParser
    from collections.abc import Callable, Iterable, Iterator

FOLDER = Path(__file__).parent / "results"
PACKAGES = ("dfprivacy", "numpy", "scipy", "pandas", "polars", "pyarrow", "opendp")


@contextmanager
def recorded(name: str, *columns: str, keep: bool = True) -> Iterator[Callable[..., None]]:
    """Print a table as it is measured, and keep it when it is complete, unless it is a part of one only."""
    rows: list[list[str]] = []

    def row(*cells: object) -> None:
        rows.append([str(cell) for cell in cells])
        print(line(rows[-1]), flush=True)

    print(markdown(columns, []), flush=True)
    yield row
    if keep:
        write({
            "name": name,
            "command": command(),
            "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
            "versions": {"python": platform.python_version(), **{each: version(each) for each in PACKAGES}},
            "columns": list(columns),
            "rows": rows,
        })  # fmt: skip


class Parts:
    """Parts of a long run, kept in a file as they come: a run that was interrupted goes on where it stopped."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        lines = file.read_text(encoding="utf-8").splitlines() if file is not None and file.exists() else []
        self.known: dict[str, Any] = dict(map(json.loads, lines))

    def __call__(self, key: str, measured: Callable[[], Any]) -> Any:
        """Take a part from the file, or measure it and write it there."""
        if key not in self.known:
            self.known[key] = measured()
            if self.file is not None:
                with self.file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([key, self.known[key]], default=lambda number: number.item()) + "\n")
        return self.known[key]


def resumable(parser: ArgumentParser) -> None:
    """Take the option that names such a file."""
    parser.add_argument("--resume", type=Path, metavar="FILE", help="keep each design here, and go on from there")


def command() -> str:
    """What was called, without the folders of this machine, and the file of an interrupted run."""
    script = Path(sys.argv[0]).resolve().relative_to(FOLDER.parent).as_posix()
    options = (re.sub(r"[^=]*/", "", option) for option in sys.argv[1:])
    told = shlex.join(["python", f"tests/benchmarks/{script}", *options])
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


def cells(row: str) -> list[str]:
    """The cells of a row of a Markdown table."""
    return [cell.strip() for cell in row.strip().removeprefix("|").removesuffix("|").split("|")]
