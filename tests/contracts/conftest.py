"""Every case of every method as a question about a made-up table, and where it has to be refused.

A method joins by the cases of its plugin, which `dfprivacy audit` asks as well. Nothing here names one, but for the
refusals.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dp
from dfprivacy.testing import seeded_noise
from dfprivacy_audit.report import all_checks

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfprivacy_audit import Case

N = 1200
TERMS: dict[str, Any] = {"epsilon": 100, "delta": "1/10", "accounting": "basic", "ledger": "memory:"}
FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda rows: rows,
    "polars": pl.from_pandas,
    "lazy": lambda rows: pl.from_pandas(rows).lazy(),
    "arrow": lambda rows: pa.Table.from_pandas(rows, preserve_index=False),
}
NAMES = (f"contract {at}" for at in itertools.count())
THINNED = {"varied", "publicly", "computable"}


@dataclass(frozen=True)
class Asked:
    """A question of a view, which is asked by calling it.

    Attributes
    ----------
    method : str
        The method.
    given : dict
        What it is called with: its arguments, an epsilon of 1, and the case's delta if it has one.
    view, part : PrivateFrame
        The view of the table, and the rows or groups of it that are asked.
    """

    method: str
    given: dict[str, Any]
    view: Any
    part: Any

    def __call__(self, **other):
        """Ask it, with other arguments."""
        return getattr(self.part, self.method)(**{**self.given, **other})

    @property
    def views(self):
        """The views of all tables."""
        return [self.view, *(each for each in self.given.values() if isinstance(each, dp.PrivateFrame))]

    @property
    def spent(self):
        """What was spent of each table."""
        return [view.budget.spent for view in self.views]

    @property
    def paid(self):
        """Whether no table paid more than was asked."""
        return all(each <= 1 for each in self.spent)


@dataclass(frozen=True)
class Question:
    """One case of a method."""

    method: str
    case: Case

    def __str__(self):
        return f"{self.method}({self.case})"

    def but(self, **changes):
        """Give the same of another case."""
        return replace(self, case=replace(self.case, **changes))

    def of_parts(self, *, public):
        """Give the same of tables with a column more, of two categories."""
        case = self.case
        relation, more = ("replace_one", ["part"]) if public else (case.neighbors, [])
        known = {**case.categories, "part": ["in", "out"]}
        return self.but(categories=known, public=[*case.public, *more], neighbors=relation)

    def rows(self, n=N, seed=1):
        """Make rows whose columns depend on each other. Public columns have as many rows of each kind as can be.

        Another party's message is about as many rows as it says.
        """
        case = self.case
        n = next((each.rows for each in case.arguments.values() if isinstance(each, dp.Release)), n)
        rng = np.random.default_rng(seed)
        common, runs = rng.random(n), 1
        columns: dict[str, Any] = {}
        for name in case.columns:
            place = np.where(rng.random(n) < 0.5, common, rng.random(n))
            if name in case.categories:
                known = case.categories[name]
                at = (place * len(known)).astype(int)
                if name in case.public:
                    at, runs = np.arange(n) // runs % len(known), runs * len(known)
                columns[name] = [known[each] for each in at]
            else:
                low, high = case.bounds[name]
                columns[name] = low + (high - low) * place
        return pd.DataFrame({**columns, **({case.other: np.arange(n) // runs % 2 == 1} if case.other else {})})

    def _computed(self, frame, name, terms):
        """Protect columns under other names, and compute each from one of them."""
        case = self.case
        raw = {
            each: {f"raw {of}": value for of, value in terms[each].items()}
            for each in ("bounds", "categories", "missing")
        }
        raw["public"] = [f"raw {of}" for of in terms["public"]]
        whole = dp.protect(frame, name, **{**terms, **raw})
        view = whole.with_columns(
            **{
                each: dp.col(f"raw {each}") + 0
                if each in case.bounds
                else dp.col(f"raw {each}").map({one: one for one in case.categories[each]})
                for each in case.columns
            }
        )
        return view.select(*case.columns)

    def of(self, rows=None, frame="pandas", part=None, names=NAMES, folder=None, computed=False, **terms):
        """Protect rows, made up unless they are given, and ask what `part` makes of the view.

        In a folder, by a schema file that says a label of each column.
        """
        names = iter(names)
        case, other = self.case, self.case.other
        rows = self.rows() if rows is None else rows
        about = {name: getattr(case, name) for name in ("bounds", "categories", "public", "missing", "neighbors")}

        def protected(rows):
            if computed:
                return self._computed(
                    FRAMES[frame](rows.add_prefix("raw ")), next(names), {**TERMS, **about, **terms}
                )
            view = dp.protect(FRAMES[frame](rows), **{"name": next(names), **TERMS, **about, **terms})
            if folder is None:
                return view
            file = folder / "schema.toml"
            file.write_text(re.sub(r"\[columns\.(\w+)\]", r'\g<0>\nlabel = "Label of \1"', view.to_toml()))
            return dp.protect(FRAMES[frame](rows), view.name, schema=file, ledger="memory:")

        def selected(view):
            view = view.where(**case.where) if case.where else view
            return view if part is None else part(view)

        tables = [rows] if other is None else [rows[rows[other] == at].drop(columns=other) for at in (False, True)]
        view, *more = map(protected, tables)
        whole = selected(view)
        given = {**case.arguments, **{str(other): selected(each) for each in more}, "epsilon": 1}
        given |= {"delta": case.delta} if case.delta else {}
        return Asked(self.method, given, view, whole.group_by(*case.grouped) if case.grouped else whole)


@cache
def questions():
    """Give every case of every bundled method."""
    audits = [check.audit for check in all_checks() if check.name == "answers"]
    bundled = [audit for audit in audits if audit.mechanism.origin.startswith("dfprivacy ")]
    return [Question(audit.mechanism.name, audit.case) for audit in bundled]


@cache
def first_questions():
    """Give the first case of each of them."""
    return list({each.method: each for each in reversed(questions())}.values())[::-1]


@cache
def asked_of():
    """Give by name of an argument the questions that a test with this argument asks."""
    every, first = questions(), first_questions()
    sided = {
        check.audit.mechanism.name
        for check in all_checks()
        if "alternative" in check.audit.mechanism.signature.parameters
    }
    return {
        "question": every,
        "varied": every,
        "method": first,
        "publicly": [each for each in every if each.case.public],
        "computable": [each for each in every if "other" not in each.case.missing.values()],
        "sided": [each for each in first if each.method in sided],
    }


def pytest_generate_tests(metafunc):
    """Run a test of a question once for each case, and one of a method for the first case of each.

    And for the first case of each method that tests on a side. A test of how rows are read asks a third of the
    first cases of methods and of those that are refused there, and a twelfth of the others; each test asks others.
    """
    test, first = metafunc.function.__name__, {id(each) for each in first_questions()}
    for name, every in asked_of().items():
        if name in metafunc.fixturenames:
            asked = []
            for each in every:
                known = id(each) in first or reasons(test, str(each))
                marks = () if name not in THINNED else (pytest.mark.one_in(3 if known else 12),)
                asked.append(pytest.param(each, id=str(each), marks=marks))
            metafunc.parametrize(name, asked)


@pytest.fixture(autouse=True)
def noise():
    """Noise from a seed, so that every run is the same."""
    with seeded_noise(1):
        yield


@pytest.fixture(scope="session")
def every_method():
    """The first case of each method."""
    return first_questions()


@pytest.fixture(scope="session")
def ledger(tmp_path_factory):
    """A ledger in a file."""
    return str(tmp_path_factory.mktemp("ledger") / "ledger.sqlite")


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder for schemas that say labels of columns."""
    return tmp_path_factory.mktemp("schemas")


@pytest.fixture(scope="session")
def answers(folder):
    """Look up the answer to a question about columns with labels; each is asked once, with the noise of a test."""

    @cache
    def answer(at):
        with seeded_noise(1):
            return questions()[at].of(folder=folder)()

    return answer


@pytest.fixture
def at(request):
    """Where the question of a test stands among all."""
    (asked,) = (each for each in request.node.callspec.params.values() if isinstance(each, Question))
    return next(at for at, each in enumerate(questions()) if each is asked)


@pytest.fixture
def answer(at, answers):
    """What a question is answered."""
    return answers(at)


@pytest.fixture
def frames():
    """What makes another frame of one of pandas."""
    return FRAMES


# What is refused, and why: in which tests, and for which methods, with words that are in the question.
PEOPLE = "test_people_with_several_rows test_a_row_for_each_person test_a_join_answers_as_the_merged_table"
PRIVATE_SIZE = f"test_by_private_groups test_a_private_part_of_the_rows test_the_other_neighbours {PEOPLE}"
TWO_TABLES = (
    "test_by_private_groups test_by_public_groups test_people_with_several_rows test_a_secret_sample "
    "test_power_is_free test_a_join_answers_as_the_merged_table"
)
PRIVATE_GROUPS = "test_no_public_columns test_a_secret_sample"
SINGLE = (
    "agg anova chi2_unitcircle chi2_many corr cov crosstab dcor dcor_message dcor_screen dcor_with describe "
    "find_bounds find_categories fourier_sketch gmm_fit histogram hsic kaplan_meier kernel_locations "
    "kernel_message kernel_two_sample kme_exponential kme_release kruskal logit mcnemar moments ols "
    "profile proportions quantile report synth value_counts wilcoxon"
)
NO_TEST = (
    "agg chi2_many corr count cov crosstab dcor dcor_message dcor_screen dcor_with describe find_bounds "
    "find_categories fourier_sketch gmm_fit histogram hsic kaplan_meier kernel_locations kernel_message "
    "kernel_two_sample kme_exponential kme_release mean median missing moments nunique profile quantile report std "
    "sum synth value_counts var"
)
REFUSED: list[tuple[str, str, list[str]]] = [
    (
        "the number of rows is private",
        PRIVATE_SIZE,
        ["dcor", "dcor_message", "dcor_screen", "dcor_with", "hsic", "kernel_message", "kme_release"],
    ),
    ("the number of rows is private", PRIVATE_GROUPS, ["dcor where"]),
    (
        "sizes of groups are private",
        f"{PRIVATE_SIZE} {PRIVATE_GROUPS}",
        ["chi2_many", "chi2_unitcircle", "kernel_locations", "kernel_two_sample by='g' method='"],
    ),
    (
        "sizes of groups are private",
        "test_a_private_part_of_the_rows test_the_other_neighbours test_a_row_for_each_person",
        ["kernel_two_sample method=' view", "kernel_two_sample paired view"],
    ),
    ("sizes of groups are private", "test_by_private_groups test_a_private_part_of_the_rows", ["chi2 public"]),
    (
        "groups are private",
        f"test_the_other_neighbours {PEOPLE} {PRIVATE_GROUPS}",
        ["chi2 nan_policy"],
    ),
    (
        "two tables are asked together",
        TWO_TABLES,
        ["kernel_two_sample view"],
    ),
    (
        "another party's message is about another number of rows",
        "test_by_public_groups test_a_public_part_of_the_rows test_a_secret_sample",
        ["dcor_with"],
    ),
    (
        "keys that nobody declared are shown, which is proved for one row a person",
        "test_people_with_several_rows test_a_join_answers_as_the_merged_table",
        ["find_categories", "profile", "value_counts 'discover'"],
    ),
    (
        "the calibration is proved for an epsilon up to 1, and a sample has more",
        "test_a_secret_sample",
        ["kme_release 'classical'"],
    ),
    (
        "this accounting has room for one release with a delta of the account's own",
        "test_other_accounting",
        [
            f"{method} -{accounting}"
            for method in ("dcor_message", "fourier_sketch", "kernel_message", "kernel_two_sample", "synth")
            for accounting in ("rdp", "gdp")
        ],
    ),
    ("the answer has no one number", "test_arithmetic_is_free test_refining_costs_its_price", SINGLE.split()),
    (
        "the noise of a choice cannot be drawn again, nor that of a law of its own",
        "test_arithmetic_is_free test_refining_costs_its_price",
        ["median", "chi2"],
    ),
    (
        "it is for another party, or says where to look",
        "test_a_picture_has_the_labels_of_columns",
        ["dcor_message", "kernel_message", "kernel_locations"],
    ),
    (
        "a picture has two columns",
        "test_a_picture_has_the_labels_of_columns",
        ["gmm_fit columns=['x'], separately"],
    ),
    ("nothing is assumed that could be found", "test_power_of_what_a_method_assumes", NO_TEST.split()),
]


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """Let a test end with a refusal, at no charge, where the table says so, and nowhere else."""
    refused = reasons(pyfuncitem.originalname, pyfuncitem.name.partition("[")[2])
    if not refused:
        return (yield)
    try:
        yield
    except dp.DPError as error:
        outcome = error.outcome
    else:
        pytest.fail(f"It is answered now: {refused}")
    assert outcome == "Nothing was released or spent."
    return True


def reasons(test, asked):
    """Return why the table refuses a question in a test."""
    method, _, case = asked.partition("(")
    return [
        why
        for why, tests, those in REFUSED
        if test in tests.split()
        and any(first == method and all(word in case for word in words) for first, *words in map(str.split, those))
    ]
