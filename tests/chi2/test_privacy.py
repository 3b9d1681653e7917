"""The exact privacy loss of decisions, in all small tables: what the sensitivities are for."""

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy_chi2.arguments import TAU
from dfprivacy_chi2.laws import by_margin
from dfprivacy_chi2.tables import paper_sensitivity, swap_sensitivity, tight_sensitivity, unit_circle_norm

MOST = 40
MOVES = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
DESIGNS = [(n1, n0) for n1 in range(1, MOST + 1) for n0 in range(1, MOST + 1)]


def log_odds(statistic, threshold, scale):
    """The logarithms of the probabilities of rejecting and of not, for a statistic with Laplace noise."""
    away = (statistic - threshold) / scale
    tail, body = -np.abs(away) - np.log(2), np.log1p(-np.exp(-np.abs(away)) / 2)
    return np.where(away < 0, tail, body), np.where(away < 0, body, tail)


def loss(statistic, threshold, scale):
    """The privacy loss of a decision: over all tables, neighbours and both outcomes."""
    outcomes = log_odds(statistic, threshold, scale)
    return max(np.abs(np.diff(outcome, axis=axis)).max() for outcome in outcomes for axis in (0, 1))


def norms(n1, n0, tau=TAU):
    """The norm of all tables."""
    return unit_circle_norm(*np.indices((n1 + 1, n0 + 1)), n1, n0, tau)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("threshold", [1.0, 1.3])
def test_decisions_by_the_norm(epsilon, threshold):
    """At any fixed threshold no decision loses more than epsilon with the tight sensitivity, in any small table."""
    losses = [loss(norms(*n), threshold, tight_sensitivity(*n, TAU) / epsilon) for n in DESIGNS]

    assert max(losses) <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_decisions_by_the_norm_lose_all_that_is_paid(epsilon):
    """With groups of even sizes, and chi² judged at tau, the loss is epsilon: no smaller sensitivity would do."""
    even = [(n1, n0) for n1, n0 in DESIGNS if n1 % 2 == n0 % 2 == 0 and min(n1, n0) >= 10]

    losses = [loss(norms(*n), 1.0, tight_sensitivity(*n, TAU) / epsilon) for n in even]

    assert losses == pytest.approx([epsilon] * len(even), abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_papers_bound_wastes_some_of_it(epsilon):
    """With the paper's bound and equal groups, 1/√2 of what is paid is used."""
    sizes = range(10, MOST + 1, 2)

    losses = [loss(norms(n, n), 1.0, paper_sensitivity(n, n, TAU) / epsilon) for n in sizes]

    assert losses == pytest.approx([epsilon / np.sqrt(2)] * len(sizes), abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("threshold", [0.0, 0.15])
def test_decisions_by_the_difference(epsilon, threshold):
    """At a fixed threshold a decision by the absolute difference loses epsilon, and no more."""
    losses = []
    for n1, n0 in DESIGNS:
        c11, c10 = np.indices((n1 + 1, n0 + 1))
        losses.append(loss(np.abs(c11 / n1 - c10 / n0), threshold, 1 / (min(n1, n0) * epsilon)))

    assert max(losses) == pytest.approx(epsilon, abs=1e-9)
    if threshold == 0:
        assert losses == pytest.approx([epsilon] * len(losses), abs=1e-9)


def thresholds(of_margin, n1, n0, scale):
    """Critical values at 5% given each M1, spread over all tables."""
    of = np.array([of_margin(m1).critical_value(0.05, scale) for m1 in range(n1 + n0 + 1)])
    return of[sum(np.indices((n1 + 1, n0 + 1)))]


@pytest.mark.parametrize(
    ("n1", "n0", "epsilon", "norm", "difference"),
    [(50, 50, 1.0, 1.047, 1.5), (200, 200, 3.0, 1.527, 1.768)],
)
def test_a_threshold_from_the_exact_margin_breaks_the_promise(n1, n0, epsilon, norm, difference):
    """Neighbours differ in M1, so that a critical value from the exact M1 loses more than is paid."""
    c11, c10 = np.indices((n1 + 1, n0 + 1))
    of_norm, of_difference = tight_sensitivity(n1, n0, TAU) / epsilon, 1 / (min(n1, n0) * epsilon)
    statistics = {
        "norm": (lambda a, b: unit_circle_norm(a, b, n1, n0, TAU), of_norm),
        "difference": (lambda a, b: np.abs(a / n1 - b / n0), of_difference),
    }

    found = []
    for statistic, scale in statistics.values():
        at = thresholds(lambda m1, of=statistic: by_margin(of, n1, n0, m1), n1, n0, scale)
        found.append(loss(statistic(c11, c10), at, scale) / epsilon)

    assert found[0] >= norm
    assert found[1] >= difference


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_swaps_keep_their_own_promise(epsilon):
    """With the bound of swaps, tables of one M1 in which two rows exchange their X lose epsilon at most."""
    for n1, n0 in DESIGNS:
        outcomes = log_odds(norms(n1, n0), 1.0, swap_sensitivity(n1, n0, TAU) / epsilon)

        lost = max(np.abs(outcome[1:, :-1] - outcome[:-1, 1:]).max() for outcome in outcomes)

        assert lost <= epsilon * (1 + 1e-12)


def all_answers(f, of_threshold, of_value, rejections):
    """Probabilities of all answers to two columns whose values f are compared with 0, by integration."""
    rho = np.linspace(-12, 12, 4001) * of_threshold
    density = np.exp(-np.abs(rho) / of_threshold)
    density /= density.sum()
    one, two = (np.exp(log_odds(column[..., None], rho, of_value)[0]) for column in f)
    if rejections == 1:  # it stops at the first
        answers = [(1 - one) * (1 - two), (1 - one) * two, one]
    else:
        answers = [(1 - one) * (1 - two), (1 - one) * two, one * (1 - two), one * two]
    return np.stack([answer @ density for answer in answers])


@pytest.mark.parametrize("rejections", [1, 2])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_answers_of_the_sparse_vector(epsilon, rejections):
    """A row moves the values of two columns by 1, together or apart: with its noise, all answers lose epsilon."""
    table = pd.DataFrame({"x": [0, 1] * 20, "z": [0, 1] * 20, "by": ["a", "b"] * 20})
    categories = {"x": [0, 1], "z": [0, 1], "by": ["a", "b"]}
    view = dp.protect(
        table,
        f"sparse-{rejections}-{epsilon}",
        epsilon=epsilon,
        ledger="memory:",
        categories=categories,
        public=["by"],
    )
    found = view.chi2_many(["x", "z"], "by", max_rejections=rejections, epsilon=epsilon)
    scales = [deviation / np.sqrt(2) * min(found.sizes) for deviation in found.noise_standard_error]
    values = np.arange(-12.0, 13.0)

    answers = np.log(all_answers(np.meshgrid(values, values, indexing="ij"), *scales, rejections))

    here, other = answers[:, 1:-1, 1:-1], [answers[:, 1 + i : 24 + i, 1 + j : 24 + j] for i, j in MOVES]
    lost = max(np.abs(here - there).max() for there in other)
    assert lost <= epsilon * (1 + 1e-6)
    assert lost >= (0.3 if rejections > 1 else 0.6) * epsilon
