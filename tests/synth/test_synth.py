"""The synthetic table: what it measures, the rows it draws, what it answers and what it refuses."""

from __future__ import annotations

import itertools
import json
import math

import matplotlib as mpl
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import statsmodels.formula.api as smf
from scipy import stats

import dfprivacy as dp
from dfprivacy.testing import seeded_noise
from dfprivacy_synth.cliques import Candidate, PenalizedDistances
from dfprivacy_synth.coding import Coding, quantile_edges
from dfprivacy_synth.model import Clique, Model, NoisyTable, make_consistent, margin

mpl.use("Agg")

N = 6000
REGIONS = ["north", "south", "east", "west", "atoll"]
BOUNDS = {"age": (0.0, 120.0), "income": (0.0, 1e6)}
CATEGORIES = {"sex": ["f", "m"], "region": REGIONS, "sick": [True, False]}
NAMES = (f"synth {at}" for at in itertools.count())


def people(n=N, seed=1):
    """Rows whose columns depend on each other: whole years, skewed incomes, missing values, a rare category."""
    rng = np.random.default_rng(seed)
    age, sex = rng.integers(18, 91, n), rng.choice(["f", "m"], n)
    region = rng.choice(REGIONS, n, p=[0.4, 0.3, 0.2, 0.0995, 0.0005])
    income = np.exp(rng.normal(10 + 0.3 * (sex == "m"), 0.7, n))
    sick = rng.random(n) < 0.1 + 0.006 * (age - 18)
    df = pd.DataFrame({"age": age, "sex": sex, "region": region, "income": income, "sick": sick})
    df.loc[rng.random(n) < 0.1, "income"] = np.nan
    return df


def protected(df, **terms):
    """Protect them for a large price."""
    known = {
        "bounds": {name: of for name, of in BOUNDS.items() if name in df},
        "categories": {name: of for name, of in CATEGORIES.items() if name in df},
    }
    budget = {"epsilon": 100, "delta": 1e-3, "accounting": "basic", "ledger": "memory:"}
    return dp.protect(df, next(NAMES), **{**budget, **known, **terms})


@pytest.fixture(autouse=True)
def noise():
    with seeded_noise(1):
        yield


@pytest.fixture(scope="module")
def made():
    """The private rows, and a synthetic table of them at a large epsilon."""
    with seeded_noise(1):
        df = people()
        return df, protected(df).synth(target="sick", epsilon=20)


# ---- rows --------------------------------------------------------------------------------------------------


def test_rows_have_the_columns_values_and_types_of_the_table(made):
    """Integers stay whole, categories keep their types, and values are missing as often."""
    df, synthetic = made

    rows = synthetic.to_frame()

    assert [*rows] == [*df]
    assert len(rows) == len(df)
    assert rows.age.dtype == df.age.dtype
    assert rows.sick.dtype == bool
    assert set(rows.region) <= set(REGIONS)
    assert rows.age.between(12, 96).all()
    assert abs(rows.income.isna().mean() - 0.1) < 0.02
    assert rows.income.dropna().between(0, 1e6).all()


def test_rows_follow_the_measured_tables(made):
    """Each measured table of codes is met by drawn rows, but for noise and rounding."""
    df, synthetic = made
    rows = synthetic.sample(N, seed=3)
    exact, drawn = (pd.crosstab(each.sick, each.sex, normalize=True).to_numpy() for each in (df, rows))

    assert synthetic.knows("sex", "sick")
    np.testing.assert_allclose(drawn, exact, atol=0.02)
    assert abs(rows.age[rows.sick].mean() - df.age[df.sick].mean()) < 1.5
    assert abs(math.log(rows.income.median() / df.income.median())) < 0.1


def test_rows_are_drawn_as_often_as_wanted(made):
    """A seed gives the same rows, none gives others, and nothing is paid."""
    _, synthetic = made

    assert synthetic.sample(50, seed=1).equals(synthetic.sample(50, seed=1))
    assert not synthetic.sample(50).equals(synthetic.sample(50))
    assert len(synthetic.sample(0)) == 0
    assert synthetic == dp.Release.from_json(synthetic.to_json())
    assert synthetic.to_frame().equals(dp.Release.from_json(synthetic.to_json()).to_frame())


def test_rows_say_that_they_are_synthetic(made, tmp_path):
    """Frames of pandas and Arrow say so, and Parquet files of both."""
    _, synthetic = made
    synthetic.sample(5).to_parquet(tmp_path / "pandas.parquet")
    pq.write_table(synthetic.to_frame("pyarrow"), tmp_path / "arrow.parquet")

    told = pd.read_parquet(tmp_path / "pandas.parquet").attrs["dfprivacy.synthetic"]
    metadata = pq.read_schema(tmp_path / "arrow.parquet").metadata

    assert told == json.loads(metadata[b"dfprivacy.synthetic"])
    assert told["epsilon"] == 20
    assert isinstance(synthetic.to_frame("pyarrow"), pa.Table)


# ---- answers -----------------------------------------------------------------------------------------------


def test_answers_are_those_of_the_table(made):
    """At a large epsilon counts, means, tests and regressions are those of pandas, scipy and statsmodels."""
    df, synthetic = made
    sick, well = df.age[df.sick], df.age[~df.sick]
    welch = stats.ttest_ind(sick, well, equal_var=False)
    line = smf.ols("sick ~ age", df.astype({"sick": float})).fit(cov_type="HC1")

    counted = synthetic.crosstab("sex", "sick")
    tested = synthetic.ttest("age", "sick")
    fitted = synthetic.ols("sick ~ age")

    exact = pd.crosstab(df.sex, df.sick)
    assert abs(counted["sex = f, sick = True"] - exact.loc["f", True]) < 10
    assert abs(synthetic.proportions("sick", "sex")["sick = True, sex = m"] - df.sick[df.sex == "m"].mean()) < 0.005
    assert abs(synthetic.mean("age").estimate - df.age.mean()) < 0.3
    assert abs(tested.estimate - (sick.mean() - well.mean())) < 0.3
    half = (welch.confidence_interval().high - welch.confidence_interval().low) / 2
    assert abs(1.96 * tested.standard_errors[0] / half - 1) < 0.2
    assert abs(-fitted["age"] / line.params["age"] - 1) < 0.05  # the first category, True, is the reference
    assert abs(fitted.standard_errors[1] / line.bse["age"] - 1) < 0.2
    assert tested.pvalue < 1e-6


def test_regressions_on_categories_are_least_squares():
    """Of columns of categories alone, coefficients and robust errors are those of statsmodels."""
    rng = np.random.default_rng(2)
    df = pd.DataFrame({"a": rng.integers(0, 3, 5000), "b": rng.integers(0, 2, 5000)})
    df["y"] = (rng.random(5000) < 0.2 + 0.1 * df.a + 0.2 * df.b).astype(int)
    view = dp.protect(
        df, next(NAMES), epsilon=100, delta=1e-3, ledger="memory:", accounting="basic",
        categories={"a": [0, 1, 2], "b": [0, 1], "y": [0, 1]},
    )  # fmt: skip
    synthetic = view.synth(target="y", epsilon=15)
    assert synthetic.knows("a", "b", "y")

    found = synthetic.ols("y ~ a + b")

    exact = smf.ols("y ~ C(a) + C(b)", df).fit(cov_type="HC1")
    np.testing.assert_allclose(found.estimates, exact.params, atol=0.004)
    np.testing.assert_allclose(found.standard_errors, exact.bse, rtol=0.05)
    assert found.terms == ("intercept", "a[1]", "a[2]", "b[1]")


REFUSED = [
    (
        lambda s: s.crosstab("age", "sex"),
        r"age x sex was not measured.*view.crosstab\('age', 'sex', epsilon=0.1\)",
    ),
    (lambda s: s.ols("sick ~ age + sex + region"), "not measured together.*Call the method of the view"),
    (lambda s: s.mean("sex"), "is a categorical column"),
    (lambda s: s.proportions("age"), "is a numeric column"),
    (lambda s: s.mean("height"), "no column 'height'"),
    (lambda s: s.crosstab("sex", "sex"), "twice"),
    (lambda s: s.ttest("age", "region"), "does not have exactly two categories"),
    (lambda s: s.ttest("age", "sick", groups=["yes", "no"]), "are not two categories"),
    (lambda s: s.ols("sick"), "not of the form"),
    (lambda s: s.ols("region ~ sick"), "does not have exactly two"),
    (lambda s: s.sample(-1), "is not a number of rows"),
    (lambda s: s.sample(1.5), "is not a number of rows"),
    (lambda s: s.mean("age", confidence=2), "between 0 and 1"),
]


@pytest.mark.parametrize(("ask", "said"), REFUSED)
def test_what_is_not_known_is_refused(made, ask, said):
    """Relations that no table holds, and arguments that cannot be, are refused with what to write instead."""
    with pytest.raises(dp.ArgumentError, match=f"(?s){said}"):
        ask(made[1])


def test_what_it_knows(made):
    """Every table holds the target; a picture and a table show what was measured, and how well."""
    _, synthetic = made

    assert all("sick" in columns for columns in synthetic.measured)
    assert all(synthetic.knows(name, "sick") for name in synthetic.columns)
    assert synthetic.knows("age")
    assert not synthetic.knows("age", "sex")
    errors = synthetic.errors
    assert len(errors) == len(synthetic.measured) == 4
    assert (errors.seen < 3 * errors.expected + 0.01).all()
    assert len(synthetic.compare("region").patches) == len(synthetic.crosstab("region").terms)
    assert [label.get_text() for label in synthetic.plot().get_xticklabels()] == [*synthetic.columns]


def test_measured_tables_answer_later_questions():
    """Counts of categories that were measured are free, if they are as accurate as what would be paid."""
    view = protected(people()[["sex", "sick", "region"]])
    synthetic = view.synth(target="sick", epsilon=20)
    paid = view.budget.spent

    table, counts = view.crosstab("sick", "sex", epsilon=0.1), view.value_counts("sex", epsilon=0.1)

    assert view.budget.spent == paid
    assert table.noise_kind == counts.noise_kind == "Gaussian"
    np.testing.assert_array_equal(table.raw, synthetic.counts_of("sick", "sex")[0])
    assert table == dp.Release.from_json(table.to_json())
    assert view.explain("crosstab", "sick", "sex", epsilon=0.1).left == 0
    assert view.crosstab("sick", "sex", epsilon=50).noise_kind == "Laplace"
    assert view.budget.spent == paid + 50


@pytest.mark.statistical
def test_intervals_cover():
    """Of 45 samples of a population, intervals of shares, means, differences and slopes hold its values.

    They are to hold them in 95 %. That fewer than 32 of 45 do if 94 % would has a chance below one in a million.
    """
    rng = np.random.default_rng(11)
    population = people(100_000, seed=7)[["age", "sex", "sick"]]
    held: dict[str, int] = dict.fromkeys(["share", "mean", "mean by group", "difference", "slope"], 0)
    for _ in range(45):
        rows = population.iloc[rng.integers(0, len(population), 1500)].reset_index(drop=True)
        synthetic = protected(rows).synth(target="sick", epsilon=1.5)
        limited = population.assign(age=population.age.clip(*synthetic.limits["age"]))
        means, well = limited.groupby("sick").age.mean(), ~limited.sick
        told = {
            "share": (synthetic.proportions("sick", "sex"), -1, (limited.sick[limited.sex == "m"] == 0).mean()),
            "mean": (synthetic.mean("age"), 0, limited.age.mean()),
            "mean by group": (synthetic.mean("age", "sick"), 0, means[True]),
            "difference": (synthetic.ttest("age", "sick"), 0, means[True] - means[False]),
            "slope": (synthetic.ols("sick ~ age"), 1, np.polyfit(limited.age, well, 1)[0]),
        }
        for name, (answer, at, truth) in told.items():
            held[name] += bool(answer.low[at] <= truth <= answer.high[at])

    assert min(held.values()) >= 32, held


# ---- bad input, and little of it -----------------------------------------------------------------------------


def column(values, **terms):
    """Ask a synthetic table of a column and another, at epsilon 1."""
    df = pd.DataFrame({"x": values, "b": np.arange(len(values)) % 2})
    terms = terms or {"bounds": {"x": (0, 2)}}
    return protected(df, **{**terms, "categories": {"b": [0, 1], **terms.get("categories", {})}}).synth(epsilon=1)


def test_columns_without_information():
    """Constants, missing values alone and one row give a table of the same kind."""
    assert column([1.0] * 2000).to_frame().x.nunique() <= 3
    assert column([np.nan] * 2000).to_frame().x.isna().mean() > 0.9
    assert len(column([1.0]).to_frame()) == 1
    assert len(column(["k"] * 500, categories={"x": ["k"]}).to_frame()) == 500


@pytest.mark.parametrize(("epsilon", "target"), [*itertools.product([2, 0.001], [None, "g", "x"])])
def test_public_columns_beside_a_private_one(epsilon, target):
    """What is of public columns alone is exact within the plan, at every price, and nothing fails."""
    rng = np.random.default_rng(1)
    df = pd.DataFrame({"g": rng.integers(0, 3, 2000), "x": rng.integers(0, 3, 2000)})
    df["h"] = (df.g + rng.integers(0, 2, 2000)) % 3
    view = protected(df, public=["g", "h"], categories={name: [0, 1, 2] for name in df})

    synthetic = view.synth(epsilon=epsilon, target=target)

    assert len(synthetic.to_frame()) == 2000
    assert repr(synthetic)
    if synthetic.knows("g", "h") and ("g", "h") in synthetic.measured:
        np.testing.assert_array_equal(synthetic.counts_of("g", "h")[0], pd.crosstab(df.g, df.h))


def test_whole_numbers_of_every_range():
    """An interval for each of 65 numbers would be one more than was paid for; beyond 2^53 every number is whole."""
    rng = np.random.default_rng(1)
    for bounds, values in (((0, 64), rng.integers(0, 65, 50_000)), ((0, 1e20), rng.random(50_000) * 1e19)):
        view = protected(pd.DataFrame({"x": values}), bounds={"x": bounds}, categories={})

        drawn = view.synth(epsilon=20).to_frame().x

        assert drawn.between(*bounds).all()
        assert abs(drawn.mean() / values.mean() - 1) < 0.02


def test_little_epsilon_gives_single_columns():
    """Where noise would hide every relation, columns are drawn independently, which is said."""
    view = protected(people(300)[["sex", "sick"]])

    synthetic = view.synth(epsilon=0.001)

    assert synthetic.measured == ()
    assert "independent" in synthetic.notes[0]
    assert not synthetic.knows("sex", "sick")
    assert float(view.budget.spent) == 0.001
    assert len(synthetic.to_frame()) == 300


def test_many_categories_count_as_one():
    """Of a thousand categories those that few rows have are one code, and are drawn again."""
    rng = np.random.default_rng(1)
    known = [f"v{at}" for at in range(1000)]
    values = np.where(rng.random(3000) < 0.5, "v7", rng.choice(known, 3000))

    synthetic = column(values, categories={"x": known})

    assert len(synthetic.crosstab("x").terms) < 20
    rows = synthetic.to_frame()
    assert abs((rows.x == "v7").mean() - 0.5) < 0.05
    assert rows.x.nunique() > 30


def test_what_cannot_be_synthesised():
    """Columns of which nothing is declared, public ones alone, and one name twice are refused before a charge."""
    df = people(100)
    undeclared = dp.protect(df, next(NAMES), epsilon=1, delta=1e-3, ledger="memory:", default_epsilon=1)
    public = protected(df[["sex"]], public=["sex"])
    view = protected(df)
    for ask, said in [
        (undeclared.synth, "No column has bounds"),
        (lambda: public.synth(epsilon=1), "public"),
        (lambda: view.synth(["sex", "sex"], epsilon=1), "twice"),
        (lambda: view.synth(["sex"], target="age", epsilon=1), "is not one of columns"),
        (lambda: protected(df[["age"]], bounds={"age": (-1e300, 1e300)}).synth(epsilon=1), "too large"),
        (lambda: protected(df, delta=0).synth(epsilon=1), "Gaussian noise needs a delta above zero"),
    ]:
        with pytest.raises(dp.DPError, match=said):
            ask()
    assert 0 == view.budget.spent == public.budget.spent


# ---- the parts -----------------------------------------------------------------------------------------------


def test_distances_move_by_one_row():
    """Over all tables of up to three rows and three columns, a row moves a distance by 1, or 2 if it changes."""
    columns = [dp.Column(name, categories=("a", "b")) for name in "xyz"]
    rng = np.random.default_rng(1)
    cliques = [Clique((0, 1), ()), Clique((1, 2), ()), Clique((2,), (0, 1))]
    expected = [rng.integers(0, 3, [2] * len(clique.columns)).astype(float) for clique in cliques]
    distances = PenalizedDistances(columns, [Candidate(*each, 2) for each in zip(cliques, expected, strict=True)])
    every = [*itertools.product((0, 1), repeat=3)]

    def value(rows):
        tables = [np.zeros([2] * len(clique.columns)) for clique in cliques]
        for row, (clique, table) in itertools.product(rows, zip(cliques, tables, strict=True)):
            table[tuple(row[place] for place in clique.columns)] += 1
        return distances.value(np.concatenate([table.ravel() for table in tables]))

    added, changed = [], []
    for size in range(3):
        for rows in itertools.combinations_with_replacement(every, size):
            with_row = [value([*rows, row]) for row in every]
            added += [np.abs(each - value(rows)).max() for each in with_row]
            changed += [np.abs(a - b).max() for a, b in itertools.combinations(with_row, 2)]

    assert (max(added), max(changed)) == (1.0, 2.0)
    assert distances.sensitivity("add_remove", math.inf, frozenset()) == 1.0
    assert distances.sensitivity("replace_one", math.inf, frozenset()) == 2.0


def test_tables_are_made_consistent():
    """Fitted tables agree on what they share, are not negative, and weigh what is accurate more."""
    rng = np.random.default_rng(3)
    exact = rng.multinomial(1000, rng.dirichlet(np.ones(24))).reshape(2, 3, 4).astype(float)
    noisy = [
        NoisyTable((0, 1), exact.sum(2) + rng.normal(0, 1, (2, 3)), np.asarray(1.0)),
        NoisyTable((1, 2), exact.sum(0) + rng.normal(0, 30, (3, 4)), np.asarray(900.0)),
    ]

    first, second = make_consistent(noisy, 1000.0)

    np.testing.assert_allclose(first.sum(0), second.sum(1), atol=3)
    np.testing.assert_allclose(second.sum(1), exact.sum((0, 2)), atol=15)
    assert first.min() >= 0 <= second.min()
    assert abs(first.sum() - 1000) < 1e-6


def test_a_model_is_sampled_as_its_tables_say():
    """The shares of a chain of tables are met to within a row in each conditional."""
    rng = np.random.default_rng(4)
    pair, triple = rng.dirichlet(np.ones(6)).reshape(2, 3) * 1000, rng.dirichlet(np.ones(24)).reshape(2, 3, 4)
    triple *= (pair / triple.sum(2))[..., None]
    model = Model((2, 3, 4), (Clique((0, 1), ()), Clique((2,), (0, 1))), (pair, triple))

    codes = model.sample(1000, rng)

    drawn = np.zeros((2, 3, 4))
    np.add.at(drawn, tuple(codes.T), 1)
    np.testing.assert_allclose(drawn.sum(2), pair, atol=1.0)
    np.testing.assert_allclose(drawn, triple, atol=2.0)
    assert margin(drawn, (0, 1, 2), (2,)).sum() == 1000


def test_numbers_are_cut_where_rows_are():
    """Intervals hold about equally many rows, between limits beyond which no rows are clearly seen."""
    rng = np.random.default_rng(5)
    values = np.exp(rng.normal(10, 0.8, 20_000))
    even = np.linspace(0, 1e6, 65)
    counts = np.histogram(values, even)[0] + rng.normal(0, 20, 64)

    edges = quantile_edges(even, counts, 20.0, whole=False)

    inside = np.histogram(values, edges)[0]
    assert edges[0] == 0
    assert 1e5 < edges[-1] < 4e5
    assert len(inside) > 40
    assert np.quantile(inside, 0.9) < 4 * inside.mean()
    whole = quantile_edges(np.linspace(0, 120, 65), np.full(64, 300.0), 20.0, whole=True)
    assert all(np.floor(high) >= np.ceil(low) for low, high in itertools.pairwise(whole))
    none = quantile_edges(even, rng.normal(0, 20, 64), 2000.0, whole=False)
    assert none.tolist() == [0, 1e6]


def test_answers_take_bounded_time():
    """Hundreds of categories are refused as regressors, and in more cells than anybody reads."""
    rng = np.random.default_rng(1)
    known = {"a": [*range(150)], "b": [*range(40)]}
    df = pd.DataFrame({name: rng.integers(0, len(of), 50_000) for name, of in known.items()})
    synthetic = protected(df, categories=known).synth(epsilon=20)
    known = {"b": known["b"], "y": [0, 1]}
    regressed = protected(df.assign(y=df.a % 2)[["b", "y"]], categories=known).synth(epsilon=20)

    assert len(synthetic.proportions("b").terms) == 40
    for ask, said in [
        (lambda: regressed.ols("y ~ b"), "39 regressors"),
        (lambda: synthetic.crosstab("a", "b"), "6,000 cells"),
    ]:
        with pytest.raises(dp.ArgumentError, match=said):
            ask()


def test_codes_and_values():
    """Rare categories are one code; each code gives back its own values."""
    known = dp.Column("g", categories=("a", "b", "c", "d"))
    code = Coding.from_categories(known, np.array([2.0, 500.0, -1.0, 300.0, 90.0]), 10.0)
    rng = np.random.default_rng(1)

    assert code.labels == ("2 rare categories", "b", "d", None)
    assert code.decode(np.array([1, 2, 3]), rng) == ["b", "d", None]
    assert set(code.decode(np.zeros(50, dtype=int), rng)) <= {"a", "c"}
    assert code == Coding.from_plain(json.loads(json.dumps(code.plain)))
