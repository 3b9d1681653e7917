"""Real tables, with bounds and categories that anybody could have said before.

``randhie`` and ``fair`` come with statsmodels; ``adult.csv`` and ``housing.csv`` (UCI, without a header line) lie
in the folder that ``DFPRIVACY_TEST_DATA`` names, and what needs them is left out without.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from harness import DATA

ADULT = (
    *("age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship"),
    *("race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income"),
)
SCHOOLS = (  # of the code book, as relatives are
    "10th 11th 12th 1st-4th 5th-6th 7th-8th 9th Assoc-acdm Assoc-voc Bachelors Doctorate HS-grad Masters Preschool "
    "Prof-school Some-college"
)
RELATIVES = "Husband Not-in-family Other-relative Own-child Unmarried Wife"
HOUSES = ("crim", "zn", "indus", "chas", "nox", "rm", "age", "dis", "rad", "tax", "ptratio", "b", "lstat", "medv")
USED = {"rm": "rooms", "lstat": "poor", "ptratio": "pupils", "chas": "river", "medv": "price"}
BOUNDS = {"rooms": (3, 9), "poor": (0, 40), "pupils": (10, 25), "price": (0, 50)}
POOR, ROOMS, ALL = "price ~ poor", "price ~ rooms + poor", "price ~ rooms + poor + pupils + C(river)"


@dataclass(frozen=True)
class Table:
    """A table, the bounds of some columns, and two columns of categories."""

    name: str
    frame: pd.DataFrame
    bounds: dict[str, tuple[float, float]]
    categories: dict[str, list[Any]]


def read(file: str, names: tuple[str, ...]) -> pd.DataFrame | None:
    """A table of the folder; None, and a word, where it is not there."""
    if not (DATA / file).is_file():
        print(f"DFPRIVACY_TEST_DATA names no folder with {file}: it is left out.", file=sys.stderr)
        return None
    return pd.read_csv(DATA / file, header=None, names=names, skipinitialspace=True).dropna(how="all")


def tables() -> list[Table]:
    """Visits to a doctor, affairs, and the census of 1994."""
    import statsmodels.api as sm

    frame = sm.datasets.randhie.load_pandas().data
    frame["health"] = np.select([frame["hlthp"] == 1, frame["hlthf"] == 1, frame["hlthg"] == 1], [0, 1, 2], 3)
    frame["deductible"] = frame["idp"].astype(int)
    bounds = {"mdvis": (0.0, 100.0), "disea": (0.0, 100.0), "lncoins": (0.0, 5.0)}
    randhie = Table("randhie", frame, bounds, {"health": [0, 1, 2, 3], "deductible": [0, 1]})

    groups = {"occupation": [1, 2, 3, 4, 5, 6], "religious": [1, 2, 3, 4]}
    frame = sm.datasets.fair.load_pandas().data.astype(dict.fromkeys(groups, int))
    fair = Table("fair", frame, {"age": (15.0, 60.0), "affairs": (0.0, 60.0)}, groups)

    frame = read("adult.csv", ADULT)
    if frame is None:
        return [randhie, fair]
    bounds = {"age": (0.0, 120.0), "capital_gain": (0.0, 1e5), "hours": (0.0, 100.0)}
    codes = {"education": SCHOOLS.split(), "relationship": RELATIVES.split()}
    frame = frame.rename(columns={"hours_per_week": "hours"})
    return [randhie, fair, Table("adult", frame, bounds, codes)]
