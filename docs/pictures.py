"""Make the pictures of the pages by running its examples: ``python docs/pictures.py``.

An image that follows an example is the picture that the example drew last. The report is saved as well.
"""

from __future__ import annotations

import contextlib
import doctest
import os
import re
import shutil
import tempfile
from pathlib import Path

import matplotlib as mpl

from dfprivacy import DPError

HERE = Path(__file__).parent
PAGES = (HERE / "index.md", HERE / "explore.md", HERE / "howto" / "plan.md", HERE / "howto" / "synthetic.md")
PARTS = re.compile(r"^```python\n(.*?)^```$|^!\[[^\]]*\]\((\S+\.svg)\)$", re.MULTILINE | re.DOTALL)


def run() -> None:
    """Run the examples in order, and save what each image is of."""
    mpl.use("Agg")
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "dfprivacy", "font.family": "sans-serif"}
    for page in PAGES:
        names: dict[str, object] = {}
        for code, image in PARTS.findall(page.read_text(encoding="utf-8")):
            if image:
                target, figure = (page.parent / image).resolve(), names["picture"].figure
                target.parent.mkdir(exist_ok=True)
                figure.savefig(target, metadata={"Date": None})
                print(target.relative_to(HERE), target.stat().st_size, "bytes")  # noqa: T201
            for example in doctest.DocTestParser().get_examples(code):
                print(">>>", example.source, end="")  # noqa: T201
                with contextlib.suppress(DPError if example.exc_msg else ()):
                    exec(compile(example.source, str(page), "single"), names)  # noqa: S102 - it is our own page


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DFPRIVACY_LEDGER"] = str(Path(folder) / "ledger.sqlite")
        os.chdir(folder)
        run()
        shutil.copy("report.html", HERE / "pictures" / "report.html")
