"""Rows with missing values: left out for no more noise, silent in messages."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.local import Arc
from dfprivacy.testing import seeded_noise
from dfprivacy_dcor.angles import PLACES, Angles, best_reach
from dfprivacy_dcor.cases import _message
from dfprivacy_dcor.parties import Shown
from dfprivacy_dcor.points import Labels, Line, Lines, five_numbers
from dfprivacy_dcor.spaces import kernel_space, space
from dfprivacy_dcor.statistics import Deviation, FiveNumbers, Scores

COUNT = itertools.count()
NOTHING: frozenset[str] = frozenset()
X = dp.Column("x", bounds=(-3.0, 1.5), fill=-0.75)
Y, Z = (dp.Column(name, bounds=(0.0, 1.0), fill=0.5) for name in "yz")
G = dp.Column("g", categories=("a", "b", "c"))
FEW = dp.Column("f", categories=("a", "b"))
OTHER = dp.Column("o", categories=("a", "other"), other=True)
PUBLIC_X, PUBLIC_G = replace(X, public=True), replace(G, public=True)


def omitting(*columns, metric="euclidean", seed=0):
    """A space whose incomplete rows are left out."""
    return space(columns, metric, 2, seed, nan_policy="omit")


def protect(frame, **said):
    """Protect rows with much to spend."""
    known = {"epsilon": 10**5, "accounting": "basic", "ledger": "memory:"}
    return dp.protect(frame, f"gaps {next(COUNT)}", **{**known, **said})


# Sensitivities


@pytest.fixture
def gaps(search):
    """The search for tables that refute a sensitivity, some values of which are missing."""

    class Gaps(search):
        def drawn(self, column):
            gap = len(column.categories) if column.bounds is None else math.nan
            none_of_them = column.bounds is None and column.other
            return gap if not none_of_them and self.rng.random() < 0.2 else super().drawn(column)

        def batch(self, table):
            batch = super().batch(np.where(np.isnan(table), 0.0, table))
            for column, values in zip(self.columns, table.T, strict=True):
                if column.bounds is not None:
                    gone = np.isnan(values)
                    batch._cleaned[column] = np.where(gone, column.fill, batch._cleaned[column])
                    batch._missing[column] = gone
            return batch

    return Gaps


def test_no_numbers_on_a_line_and_no_gap_move_the_six_more():
    """All tables of four rows on {0, 1/2, 1, missing}² and all moves of a row: the bound is reached, not passed."""
    n, bits = 4, 1
    cells = list(itertools.product([0, 1, 2, None], repeat=2))
    statistic = FiveNumbers(omitting(Y), omitting(Z), n)

    def value(rows):
        kept = np.array([cells[row] for row in rows if None not in cells[row]], dtype=np.int64).reshape(-1, 2)
        sides = (Lines((Line(kept[:, side], bits),), (1.0,)) for side in (0, 1))
        share = len(kept) / n
        return np.append((five_numbers(*sides) - [0, 0, 0, 1, 1]) * share, share) * statistic.weights

    known = {rows: value(rows) for rows in itertools.combinations_with_replacement(range(16), n)}
    whole, gap = 0.0, 0.0
    for rows, one in known.items():
        for at, new in itertools.product(range(n), range(16)):
            moved = float(np.abs(one - known[tuple(sorted((*rows[:at], new, *rows[at + 1 :])))]).sum())
            changes = (None in cells[rows[at]]) != (None in cells[new])
            whole, gap = max(whole, moved * (not changes)), max(gap, moved * changes)

    assert 1 == pytest.approx(statistic.sensitivity("replace_one", 1, NOTHING), rel=1e-12)
    assert 1 == pytest.approx(whole, rel=1e-12)
    assert 0.93 < gap <= 1 + 1e-12  # the bound for the mean distances of few rows is not tight


def test_no_categories_and_no_gap_move_the_six_more():
    """The same of all tables of four rows with two categories a side, or none."""
    n = 4
    cells = list(itertools.product([0, 1, None], repeat=2))
    statistic = FiveNumbers(omitting(FEW), omitting(replace(FEW, name="h")), n)

    def value(rows):
        kept = np.array([cells[row] for row in rows if None not in cells[row]], dtype=np.int64).reshape(-1, 2)
        share = len(kept) / n
        numbers = five_numbers(*(Labels(kept[:, side], 2) for side in (0, 1)))
        return np.append((numbers - [0, 0, 0, 1, 1]) * share, share) * statistic.weights

    known = {rows: value(rows) for rows in itertools.combinations_with_replacement(range(9), n)}
    most = max(
        float(np.abs(one - known[tuple(sorted((*rows[:at], new, *rows[at + 1 :])))]).sum())
        for rows, one in known.items()
        for at, new in itertools.product(range(n), range(9))
    )

    assert 1 == pytest.approx(most, rel=1e-12)
    assert 1 == pytest.approx(statistic.sensitivity("replace_one", 1, NOTHING), rel=1e-12)


PAIRS = {  # columns and metric of x, those of y, and how much of the claim is reached
    "lines": ([X], "euclidean", [Y], 0.95),
    "a public line": ([PUBLIC_X], "euclidean", [Y], 0.6),
    "categories": ([G], "discrete", [FEW], 0.8),
    "public categories": ([PUBLIC_G], "discrete", [Y], 0.6),
    "other": ([OTHER], "discrete", [Y], 0.8),
    "a plane": ([X, Z], "euclidean", [Y, FEW][:1], 0.5),
    "a sum": ([X, Z], "l1", [Y], 0.5),
}


@pytest.mark.parametrize("norm", [1, 2, math.inf])
@pytest.mark.parametrize("case", PAIRS)
def test_no_row_moves_the_six_numbers_more(gaps, case, norm):
    """Whatever is public and whatever is missing."""
    x, metric, y, reached = PAIRS[case]
    statistic = FiveNumbers(omitting(*x, metric=metric), omitting(*y, seed=1), 5)

    most = gaps([*x, *y], 1).statistic(statistic, norm, 5, tries=2, steps=100)

    assert (reached if norm == 1 else 0.3) < most <= 1 + 1e-9


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_no_row_moves_the_scores_more(gaps, norm):
    """Each candidate has gaps of its own."""
    columns = [Z, PUBLIC_X, G, Y]
    statistic = Scores([omitting(column) for column in columns[:-1]], omitting(Y), 5)

    assert 0.5 < gaps(columns, 3).statistic(statistic, norm, 5, tries=2) <= 1 + 1e-9


@pytest.mark.parametrize(("kernel", "columns"), [("gaussian", [X, Y]), ("laplace", [Z, G])])
def test_no_row_moves_the_numbers_of_a_kernel_more(gaps, kernel, columns):
    """Those of the distance 1 - k, and the deviation of one side alone."""
    one, other = (kernel_space((column,), kernel, 1.0, nan_policy="omit") for column in columns)

    both = gaps(columns, 7).statistic(FiveNumbers(one, other, 5), 1, 5, tries=2, steps=100)
    alone = gaps(columns[:1], 7).statistic(Deviation(one, 5), 1, 5, tries=2, steps=100)

    assert 0.7 < both <= 1 + 1e-9
    assert 0.7 < alone <= 1 + 1e-9


@pytest.mark.parametrize("columns", [[X], [G], [OTHER], [X, Z], [PUBLIC_X, Z]])
def test_no_row_moves_a_deviation_more(gaps, columns):
    """And the share of complete rows with it."""
    statistic = Deviation(omitting(*columns), 6)

    assert 0.4 < gaps(columns, 4).statistic(statistic, 1, 6, tries=2) <= 1 + 1e-9


@pytest.mark.parametrize("columns", [[Y], [G], [OTHER], [Y, Z]])
def test_no_row_moves_what_is_shown_of_a_message_more(gaps, columns):
    """The centre of the features of complete rows is private, and may be far from that of all."""
    message = replace(_message(), rows=6, angles=_message().angles[:6], turns=_message().turns[:6])

    assert 0.4 < gaps(columns, 5).statistic(Shown(message, omitting(*columns)), 1, 6, tries=3) <= 1 + 1e-9


def test_the_bound_for_all_rows_is_too_small_where_some_are_left_out(gaps):
    """The search refutes a covariance with a message whose bound takes the features from the centre of all rows."""

    class Understated(Shown):
        def _reach(self, n):
            return float((self.parts[0].squares * (2 / n) ** 2).max())

        def sensitivity(self, relation, norm, public):
            return 0.6

        def value(self, rows):
            return super().value(rows) * [1, 0, 0, 0]

    angles = np.array([0, 0, 0, 1, 1, 1]) * PLACES // 2
    message = replace(_message(), rows=6, angles=angles, turns=np.zeros(6, dtype=np.int64))

    assert gaps([Y], 6).statistic(Understated(message, omitting(Y)), 1, 6, tries=10, steps=200) > 1.2


def test_a_claim_of_nine_tenths_is_found_out(gaps):
    """The search refutes six numbers that claim a tenth too little."""

    class Understated(FiveNumbers):
        def sensitivity(self, relation, norm, public):
            return 0.9 * super().sensitivity(relation, norm, public)

    statistic = Understated(omitting(X), omitting(Y), 5)

    assert gaps([X, Y], 1).statistic(statistic, 1, 5, tries=3, steps=100) > 1


# What is computed


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.999, 1.0])
@pytest.mark.parametrize("kind", ["x", "g"])
def test_any_share_of_gaps_is_answered(kind, share):
    """None, nearly none, some, nearly all and all: every method answers, and says how many are missing."""
    rng = np.random.default_rng(0)
    n = 1000
    values = {
        "x": rng.random(n),
        "y": rng.random(n),
        "w": rng.random(n),
        "g": rng.choice(["a", "b"], n).astype(object),
    }
    gone = np.arange(n) < share * n
    values[kind][gone] = {"x": math.nan, "g": None}[kind]
    view = protect(
        pd.DataFrame(values), bounds=dict.fromkeys("xyw", (0, 1)), categories={"g": ["a", "b"]}, delta=0.1
    )
    with seeded_noise(1):
        found = view.dcor(kind, "y", epsilon=100)
        message = view.dcor_message("x", epsilon=5)
        shown = view.dcor_with(view.dcor_message("y", epsilon=5), kind, epsilon=100)
        others = [
            view.dcor([kind, "w"] if kind == "x" else kind, "y", epsilon=5),
            view.dcor_screen("y", top=1, estimate=True, epsilon=5),
            view.dcor_message(["x", "w"], protocol="paper", epsilon=5, delta=0.01),
            view.dcor_with(message, "y", epsilon=5),
        ]

    assert found.missing == pytest.approx(gone.sum(), abs=8 * found.missing_standard_error)
    assert shown.missing == pytest.approx(gone.sum(), abs=8 * shown.missing_standard_error)
    assert (share > 0) == any("left out" in note for note in found.notes)
    assert all(other.privacy.epsilon <= 5 for other in others)


def test_the_answer_is_that_of_the_complete_rows():
    """With next to no noise, it is what the rows without the others give."""
    rng = np.random.default_rng(1)
    n = 2000
    x, y = rng.random((2, n))
    y[:] = (x - 0.5) ** 2 * 4
    gone = rng.random(n) < np.where(x > 0.7, 0.8, 0.1)
    frame = pd.DataFrame({"x": x, "y": np.where(gone, np.nan, y)})
    said = {"bounds": {"x": (0, 1), "y": (0, 1)}}
    with seeded_noise(2):
        found = protect(frame, **said).dcor("x", "y", epsilon=10**5)
        complete = protect(frame.dropna(), **said).dcor("x", "y", epsilon=10**5)
        filled = protect(frame, **said).dcor("x", "y", nan_policy="fill", epsilon=10**5)

    assert complete.correlation == pytest.approx(found.correlation, abs=1e-4)
    assert complete.corrected == pytest.approx(found.corrected, abs=1e-4)
    assert complete.statistic == pytest.approx(found.statistic, rel=1e-3)
    assert abs(filled.correlation - found.correlation) > 0.05
    assert filled.missing is None


def test_values_that_are_missing_together_are_no_dependence():
    """Independent columns, three tenths of whose rows lack both: they depend if filled, and not if left out."""
    rng = np.random.default_rng(3)
    n = 3000
    x, y = rng.random((2, n))
    gone = rng.random(n) < 0.3
    frame = pd.DataFrame({"x": np.where(gone, np.nan, x**3), "y": np.where(gone, np.nan, y**3)})
    view = protect(frame, bounds={"x": (0, 1), "y": (0, 1)})
    with seeded_noise(3):
        filled = view.dcor("x", "y", nan_policy="fill", epsilon=20)
        found = view.dcor("x", "y", epsilon=20)

    assert filled.pvalue < 1e-6
    assert filled.rejected
    assert found.pvalue > 0.05


def test_what_is_declared_is_not_missing():
    """Values in no category are one where that is declared."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"g": rng.choice(["a", None], 500), "y": rng.random(500)})
    said = {"bounds": {"y": (0, 1)}, "categories": {"g": ["a"]}}
    with seeded_noise(4):
        found = protect(frame, **said, missing={"g": "other"}).dcor("g", "y", epsilon=50)
        without = protect(frame, **said).dcor("g", "y", epsilon=50)

    assert abs(found.missing) < 8 * found.missing_standard_error
    assert not found.notes
    assert without.missing == pytest.approx(frame["g"].isna().sum(), abs=8 * without.missing_standard_error)
    assert "uninformative" in without.notes[0]  # one category is left


# Messages


@pytest.mark.statistical
@pytest.mark.parametrize("harmonic", [1, 3])
def test_a_row_that_lacks_a_value_says_nothing_on_average(harmonic):
    """The mean estimate of messages is that of a feature of 0 for such rows, within five standard errors."""
    rng = np.random.default_rng(5)
    n = 300
    x = rng.random(n)
    y, gone = x + 0.1 * rng.random(n), rng.random(n) < 0.4
    arc = Arc.within(Fraction(1), places=PLACES, reach=best_reach(1.0))
    true = np.rint(harmonic * x / 2 * PLACES).astype(np.int64) % PLACES
    known = {"reach": arc.reach, "inside": arc.inside, "outside": arc.outside, "harmonics": (harmonic,)}
    message = replace(_message(), rows=n, turns=np.zeros(n, dtype=np.int64), angles=true, **known)

    def estimate(places, weights):
        return replace(message, angles=arc.moved(places, weights)).covariances(y, 1, rng)[0]

    found = [
        estimate(np.where(gone, rng.integers(2, size=n) * PLACES // 2, true), rng.integers(arc.weight, size=n))
        for _ in range(1500)
    ]
    wave = np.exp(2j * np.pi * true / PLACES) * ~gone
    features = np.stack([wave.real, wave.imag], axis=1)
    a, b = -4 / (np.pi * harmonic) ** 2 * features @ features.T, np.abs(y[:, None] - y)
    np.fill_diagonal(a, 0)
    first, second, third = (a * b).sum(), a.sum(axis=1) @ b.sum(axis=1), a.sum() * b.sum()
    expected = first / n - 2 * second / (n * (n - 2)) + third / (n * (n - 1) * (n - 2))

    assert expected / (n - 3) == pytest.approx(np.mean(found), abs=5 * np.std(found) / math.sqrt(1500))


@pytest.mark.parametrize("gap", [0, PLACES // 2])
def test_the_angle_of_a_row_that_lacks_a_value_is_given(gap, gaps):
    """It is that of the coin, whatever the other columns are."""
    labels = Angles((Y, Z), np.array([0.6, 0.8]), 1, 1.0, gap)
    batch = gaps([Y, Z], 0).batch(np.array([[0.5, math.nan], [math.nan, 0.1], [0.5, 0.5], [0.0, 0.0]]))

    places = labels.rows(batch)

    assert [gap, gap] == places[:2].tolist()
    assert [PLACES // 4, 0] == places[2:].tolist()


@pytest.mark.parametrize("party", ["alice", "bob", "both"])
def test_gaps_of_either_party_hardly_bias_the_squared_correlation(party):
    """With four in ten values missing, both answers are near those of complete rows; filled values shrink them."""
    rng = np.random.default_rng(6)
    n = 20_000
    x = rng.uniform(-1, 1, n)
    columns = {"x": x.copy(), "y": x**2}
    for name in {"alice": "x", "bob": "y", "both": "xy"}[party]:
        columns[name][rng.random(n) < 0.4] = np.nan
    alice, bob = (protect(pd.DataFrame({c: columns[c]}), bounds={c: (-1, 1)}) for c in "xy")
    with seeded_noise(6):
        message = alice.dcor_message("x", harmonics=[1], epsilon=8)
        shown, known = bob.dcor_with(message, "y", epsilon=20), bob.dcor_with_own(message, "y", permutations=9)
    whole = np.cos(np.pi * (x + 1) / 2)
    truth = protect(pd.DataFrame({"x": x, "y": x**2}), bounds={"x": (-1, 1), "y": (-1, 1)})
    complete = truth.dcor_with_own(truth.dcor_message("x", harmonics=[1], epsilon=8), "y", permutations=9).squared

    assert len(whole) == n
    assert complete == pytest.approx(shown.squared, abs=0.03)
    assert complete == pytest.approx(known.squared, abs=0.03)
    assert message.share == pytest.approx(1.0 if party == "bob" else 0.6, abs=0.03)
    assert ("lack a value" in "".join(shown.notes)) == (party != "bob")
    assert ("left out" in "".join(shown.notes)) == (party != "alice")
