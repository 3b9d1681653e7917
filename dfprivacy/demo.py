"""Demonstration on a real survey: protect it, and ask questions of three kinds of frame until the budget is spent.

The data ship inside statsmodels: 6,366 women's answers about their extramarital affairs to the magazine Redbook in
1974, analysed by R. Fair (1978), "A theory of extramarital affairs", Journal of Political Economy 86.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dfprivacy.errors import BudgetExceeded, MissingDependency
from dfprivacy.protection import protect

if TYPE_CHECKING:
    from dfprivacy.release import Release
    from dfprivacy.view import PrivateFrame

__all__ = ["load_survey", "protect_survey", "run"]

# What everybody knows about the questionnaire without seeing an answer.
BOUNDS = {"age": (15, 60), "rate_marriage": (1, 5), "yrs_married": (0, 40), "affairs": (0, 20)}
CATEGORIES = {"religious": [1, 2, 3, 4], "rate_marriage": [1, 2, 3, 4, 5]}


def load_survey() -> Any:
    """Return the survey about extramarital affairs as a pandas DataFrame."""
    try:
        from statsmodels.datasets import fair
    except ImportError:
        raise _missing_library("statsmodels") from None
    return fair.load_pandas().data


def run(ledger: str, picture: Path) -> None:
    """Run the demonstration, and print its questions and answers.

    Parameters
    ----------
    ledger : str
        The ledger that keeps the account.
    picture : Path
        The file to which the picture is written.
    """
    try:
        import polars as pl
    except ImportError:
        raise _missing_library("Polars") from None

    survey = load_survey()
    print_section(
        "A survey about extramarital affairs", f"{len(survey):,} rows; columns: {', '.join(survey.columns)}"
    )

    private = protect_survey(survey, ledger)
    print_section("Protected: this is all that a view shows", private)

    compared: dict[str, Any] = {"by": "religious", "groups": (1, 4), "epsilon": 0.4}
    print_section(
        "What a question would cost and find, before asking it", private.explain("ttest", "yrs_married", **compared)
    )

    print_section("pandas: how old are they?", survey.dp.quantile("age", [0.25, 0.5, 0.75], epsilon=0.2))
    print_section("", private.budget)

    eager: Any = pl.DataFrame({name: survey[name].to_numpy() for name in survey.columns})
    protect_survey(eager, ledger)
    married = eager.dp.ttest("yrs_married", **compared)
    print_section(
        "Polars DataFrame, same account: do non-religious (1) and strongly religious (4) "
        "people differ in years married?",
        married,
    )
    print_section("", private.budget)

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "survey.parquet"
        eager.write_parquet(file)
        lazy: Any = pl.scan_parquet(file)
        protect_survey(lazy, ledger)
        print_section("Polars LazyFrame, streamed from Parquet: do ratings of marriage differ with religiousness?",
            lazy.dp.chi2("rate_marriage", "religious", method="table", epsilon=0.4))  # fmt: skip
    print_section("", private.budget)

    print_section(
        "A regression: are affairs associated with the rating?", private.ols("affairs ~ rate_marriage", epsilon=0.5)
    )
    print_section(
        "Distance correlation: is age associated with years of marriage?",
        private.dcor("age", "yrs_married", epsilon=0.1),
    )
    print_section("", private.budget)

    again = survey.dp.quantile("age", [0.25, 0.5, 0.75], epsilon=0.2)
    print_section("The first question again: answered from the ledger", again.privacy, private.budget)

    print_section("A question the account cannot pay")
    try:
        private.ttest("yrs_married", popmean=10, epsilon=0.5)
    except BudgetExceeded as refusal:
        print_section("", f"BudgetExceeded: {refusal}")

    print_section("A picture of the second answer", _save_plot(married, picture))
    print_section("What is left", private.budget)


def _save_plot(release: Release, picture: Path) -> str:
    """Save a release's plot in a file; return the file's path, or what is missing if it cannot be drawn."""
    try:
        release.plot().figure.savefig(picture)
    except MissingDependency as missing:
        return str(missing)
    return str(picture)


def _missing_library(library: str) -> MissingDependency:
    return MissingDependency(f"The demo needs {library}.", 'Install it: pip install "dfprivacy[demo]".')


def protect_survey(frame: Any, ledger: str) -> PrivateFrame:
    """Protect the survey, in a table of any library, and return its view."""
    return protect(frame, "fair-1978", epsilon=2, bounds=BOUNDS, categories=CATEGORIES, ledger=ledger)


def print_section(title: str, *things: object) -> None:
    """Print a title, and lines of text below it."""
    if title:
        print(f"\n── {title}")  # noqa: T201
    for thing in things:
        print("\n".join(f"   {line}" for line in str(thing).splitlines()))  # noqa: T201
