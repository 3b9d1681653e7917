"""Real tables on which exploration is measured, with bounds and categories that anybody could have said before.

``randhie`` and ``fair`` come with statsmodels; ``adult`` (UCI, ``adult.data``) is the file that the variable
``DFPRIVACY_TEST_DATA`` names the folder of, or an argument of the benchmarks.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import statsmodels.api as sm

if TYPE_CHECKING:
    from typing import Any

_ADULT = {0: "age", 3: "education", 7: "relationship", 10: "capital_gain", 12: "hours"}
_EDUCATION = "10th 11th 12th 1st-4th 5th-6th 7th-8th 9th Assoc-acdm Assoc-voc Bachelors Doctorate HS-grad Masters"
_CODES = {
    "education": f"{_EDUCATION} Preschool Prof-school Some-college".split(),
    "relationship": ["Husband", "Not-in-family", "Other-relative", "Own-child", "Unmarried", "Wife"],
}


@dataclass(frozen=True)
class Table:
    """A table, the bounds of some columns and the step of those that have one, and two columns of categories."""

    name: str
    frame: pd.DataFrame
    bounds: dict[str, tuple[float, float]]
    steps: dict[str, float]
    categories: dict[str, list[Any]]


def randhie() -> Table:
    """The RAND health insurance experiment: visits to a doctor, diseases, and the logarithm of coinsurance."""
    frame = sm.datasets.randhie.load_pandas().data
    frame["health"] = np.select([frame["hlthp"] == 1, frame["hlthf"] == 1, frame["hlthg"] == 1], [0, 1, 2], 3)
    frame["deductible"] = frame["idp"].astype(int)
    bounds = {"mdvis": (0.0, 100.0), "disea": (0.0, 100.0), "lncoins": (0.0, 5.0)}
    categories = {"health": [0, 1, 2, 3], "deductible": [0, 1]}
    return Table("randhie", frame[[*bounds, *categories]], bounds, {"mdvis": 1.0}, categories)


def fair() -> Table:
    """Fair's survey of extramarital affairs: of most women none."""
    frame = sm.datasets.fair.load_pandas().data
    categories = {"occupation": [1, 2, 3, 4, 5, 6], "religious": [1, 2, 3, 4]}
    frame = frame.astype(dict.fromkeys(categories, int))
    bounds = {"age": (15.0, 60.0), "affairs": (0.0, 60.0)}
    return Table("fair", frame[[*bounds, *categories]], bounds, {"age": 0.5}, categories)


def adult(file: Path) -> Table:
    """The UCI Adult table of the census of 1994."""
    frame = pd.read_csv(file, header=None, skipinitialspace=True)[list(_ADULT)].rename(columns=_ADULT)
    bounds = {"age": (0.0, 120.0), "capital_gain": (0.0, 1e5), "hours": (0.0, 100.0)}
    return Table("adult", frame, bounds, {"age": 1.0, "hours": 1.0}, _CODES)


def tables(file: Path | None) -> list[Table]:
    """All that are there."""
    folder = os.environ.get("DFPRIVACY_TEST_DATA")
    file = file or (Path(folder) / "adult.csv" if folder else None)
    return [randhie(), fair(), *([adult(file)] if file is not None and file.exists() else [])]
