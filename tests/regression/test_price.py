"""The page "What predicts the price?" says what its table answers: asked again, where the table is at hand."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.testing import seeded_noise

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))
import price  # noqa: E402 - what was asked for the page

PAGE = (ROOT / "docs" / "howto" / "price.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def view():
    file = Path(os.environ.get("DFPRIVACY_TEST_DATA", "")) / "housing.csv"
    if not file.is_file():
        pytest.skip("DFPRIVACY_TEST_DATA names no folder with the table")
    df = pd.read_csv(file, header=None, names=price.NAMES)[list(price.USED)].rename(columns=price.USED)
    return dp.protect(
        df, "boston-page", epsilon=1000, ledger="memory:", bounds=price.BOUNDS, categories={"river": [0, 1]}
    )


@pytest.mark.parametrize(
    ("formula", "epsilon", "informative"),
    [
        *((price.POOR, epsilon, True) for epsilon in (1, 5)),
        (price.ROOMS, 1, False),
        (price.ROOMS, 20, True),
        (price.ALL, 5, False),
    ],
)
def test_what_is_informative_is_as_the_page_says(view, formula, epsilon, informative):
    """Asked with the noise of a seed."""
    with seeded_noise(1):
        fit = view.ols(formula, epsilon=epsilon, fresh=True)

    assert fit.informative == informative
    assert f"| {formula} | {epsilon} | " in PAGE
    if formula == price.POOR:
        assert fit.low["poor"] < -0.95 < fit.high["poor"] < 0


def test_what_could_be_found_is_as_the_page_says(view):
    """The coefficient of rooms that two regressors can find at an epsilon of 2, if rooms vary by 1."""
    findings = view.explain("ols", price.ROOMS, epsilon=2).findings

    (found,) = (value for finding, value in findings.items() if " of rooms " in finding)
    said = re.search(r"has to be ([\d.]+) thousand dollars", PAGE)
    assert said
    assert f"{found:.1f}" == said[1]


def test_power_is_as_the_page_says():
    """Of made-up rows, as many as the table has: the table is not needed. 100 runs, and seven of their errors."""
    asked = {"effect": 1, "spread": 6}
    terms = {"bounds": {name: price.BOUNDS[name] for name in ("price", "poor")}, "assume": asked, "runs": 100}
    said = dict(re.findall(r"^  epsilon ([\d.]+) +([\d.]+)$", PAGE, flags=re.MULTILINE))

    powers = dp.power(("ols", price.POOR), n=506, epsilon=[0.5, 1], **terms).shares

    for (found,), epsilon in zip(powers, ("0.5", "1"), strict=True):
        assert found == pytest.approx(float(said[epsilon]), abs=0.35 if epsilon == "0.5" else 0.15)


def test_a_summary_is_laid_out_as_the_page_shows(view):
    """All but the numbers, and the spaces between them, is what is printed."""

    def bare(text):
        return re.sub(r"\s+", " ", re.sub(r"-?[\d.,]+", "#", text)).strip()

    shown = re.search(r"```text\n( +OLS Regression.*?)```", PAGE, flags=re.DOTALL)

    with seeded_noise(1):
        fit = view.ols(price.ROOMS, epsilon=20, fresh=True)

    assert bare(shown[1]) == bare(str(fit.summary()))
