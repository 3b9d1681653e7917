"""What Raj et al. (2019) draw, measured: levels and power as printed, the ridge, other noises, and locations.

    python tests/benchmarks/raj2019.py papers_raj2019_power

Statistics are computed in float64 and the noise is NumPy's: nothing here is private. `unsafe_tcs`,
`unsafe_chi_squared` and `unsafe_wishart` of J + 1 degrees of freedom are what the paper has and is not private; no
view offers them.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from designs import DATA, LEVELS, designs
from harness import Array, Rng, Rows, Tables, draw, read
from levels_kernels import UP_TO, numbers
from power import DELTA, DESIGNS, EPSILONS, compared, located, rejects, space
from scipy.linalg import cho_factor, cho_solve
from scipy.stats import chi2

from dfprivacy import Column
from dfprivacy.statistics import gaussian_scale
from dfprivacy.testing import seeded_noise
from dfprivacy_kernel import printed
from dfprivacy_kernel.design import Design
from dfprivacy_kernel.moments import Party, Scales
from dfprivacy_kernel.printed import moment_sensitivities, paper_test

tables = Tables(__doc__)
J, HALF = 5, DELTA / 2
printed._DRAWS = 10_000  # p-values to a few thousandths


def features_of(name: str, kind: str = "me") -> Callable[[Array], Array]:
    """The features of rows of a design at five locations."""
    names, reach, width = space(name)
    columns = numbers(len(names), reach)
    (part,) = Design.from_arguments(columns, kind, width, 0.5, located(name, J), J).embedding(mapped=False).parts
    return lambda rows: part.features(rows.clip(-reach, reach))


def symmetric(rng: Rng, scale: Any, J: int) -> Array:
    """Noise of a symmetric matrix of which the upper triangle is released."""
    upper = np.triu(scale * rng.standard_normal((J, J)))
    return upper + np.triu(upper, 1).T


# TCMC and NTE


def party(rng: Rng, values: Array, mean_noise: float, second_noise: float) -> Party:
    """Mean and second moment of some vectors, with noise."""
    n = len(values)
    second = values.T @ values / (n - 1) + symmetric(rng, second_noise, values.shape[1])
    mean = values.mean(axis=0) + mean_noise * rng.standard_normal(values.shape[1])
    return Party(mean, second, Scales(mean_noise, math.inf, second_noise, second_noise), float(n))


def variants(rng: Rng, x: Array, y: Array, kind: str, epsilon: float) -> dict[str, list[Party]]:
    """TCMC of pairs and NTE of two parties, as printed, with the right calibration."""
    n, half = min(len(x), len(y)), gaussian_scale(epsilon / 2, HALF)
    mean, second = moment_sensitivities(kind, x.shape[1], 1.0, "row of a pair")
    tcmc = [party(rng, x[:n] - y[:n], mean / n * half, second / (n - 1) * half)]
    mean, second = moment_sensitivities(kind, x.shape[1], 1.0, "row")
    return {
        "TCMC": tcmc,
        "NTE": [party(rng, v, mean / len(v) * half, second / (len(v) - 1) * half) for v in (x, y)],
    }


@tables.add("features", "data, n", "TCMC", "NTE", "TCMC, naive χ²", "NTE, naive χ²", "method=moments")
def papers_raj2019_power(runs: int = 80) -> Rows:
    """Figures 5, 6 and 8: rejections at 5%, by the printed null law and by χ² alone; at n = 10,000 half."""
    heads = ("TCMC", "NTE", "TCMC, naive χ²", "NTE, naive χ²", "method=moments")
    names = enumerate(("SG", "blobs, null", "GMD", "GVD", "blobs"))
    cells = itertools.product(("me", "scf"), names, ((2000, runs), (10_000, runs // 2)))
    for kind, (place, name), (n, times) in cells:
        rng, hits = np.random.default_rng([2019, place, n]), defaultdict[Any, list[bool]](list)
        (_, *draws), phi = DESIGNS[name], features_of(name, kind)
        for _ in range(times):
            rows = [draw(rng, n) for draw in draws]
            x, y = map(phi, rows)
            for epsilon in EPSILONS:
                for which, evidence in variants(rng, x, y, kind, epsilon).items():
                    found = paper_test(evidence)
                    hits[which, epsilon].append(found.pvalue <= 0.05)
                    hits[f"{which}, naive χ²", epsilon].append(chi2.sf(found.statistic, x.shape[1]) <= 0.05)
                if kind == "me":
                    with seeded_noise(int(rng.integers(2**31))):
                        told = rejects(name, compared(name, *rows), "moments", epsilon)
                    hits["method=moments", epsilon].append(told)
        rates = {key: f"{np.mean(each):.2f}" for key, each in hits.items()}
        shown = (" ".join(rates.get((of, e), "") for e in EPSILONS).strip() for of in heads)
        yield kind, f"{name}, {n:,}", *shown


@tables.add("variant", "data", "designs", "answers", *UP_TO)
def papers_raj2019_levels(runs: int = 180) -> Rows:
    """Levels of the variants on the designs of all benchmarks, where nothing is missing."""
    counted = {(v, kind): np.zeros(2 + len(LEVELS), dtype=int) for v in ("TCMC", "NTE") for kind in DATA}
    for place, asked in enumerate(designs()):
        if min(asked.sizes) < 2 or asked.neighbors == "add_remove":
            continue
        column = Column("x", bounds=(asked.low, asked.high), fill=asked.low)
        embedding = Design.from_arguments([column], "me", None, 0.5, None, J).embedding(mapped=False)
        rng = np.random.default_rng([15, place])
        for which in ("TCMC", "NTE"):
            counted[which, asked.data][0] += 1
        for _ in range(runs):
            values = np.clip(DATA[asked.data](rng, sum(asked.sizes)), asked.low, asked.high)[:, None]
            x, y = np.split(embedding.parts[0].features(values), [asked.sizes[0]])
            for which, evidence in variants(rng, x, y, "me", asked.epsilon).items():
                p = paper_test(evidence).pvalue
                counted[which, asked.data] += [0, 1, *(p <= level for level in LEVELS)]
    for (which, kind), (number, answers, *hits) in counted.items():
        yield which, kind, number, f"{answers:,}", *(f"{hit / max(answers, 1):.4f}" for hit in hits)


# The ridge

GAMMAS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)


def unsafe_tcs(rng: Rng, x: Array, y: Array, epsilon: float, gamma: float) -> float:
    """TCS as printed: not private, for one row moves it by far more than its noise is for."""
    z, n = x - y, len(x)
    w, S = z.mean(axis=0), np.cov(z.T).reshape(J, J) + gamma * np.eye(J)
    sd = 4 * J**1.5 / (n * gamma) * (1 + J / (n - 1)) * gaussian_scale(epsilon, DELTA)
    noisy = n * w @ cho_solve(cho_factor(S), w) + sd * rng.standard_normal()
    # Its null law: χ² and the noise.
    draws = np.random.default_rng(1).chisquare(J, 4000) + sd * np.random.default_rng(2).standard_normal(4000)
    return float(np.mean(draws >= noisy))


def picture() -> None:
    """Draw rates by gamma."""
    panels: dict[str, list[Any]] = {}
    for test, data, *rates in read("papers_raj2019_ridge")["rows"]:
        panels.setdefault(test, []).append((GAMMAS, list(map(float, rates)), "o-", {"label": data}))
    asked = {"level": 0.05, "legend": None, "xscale": "log", "ylim": (-0.03, 1.03)}
    draw("papers/raj2019_ridge", (9, 3), panels, x="γ", y="rejected at 5%", **asked)


@tables.add("test", "data", *(f"γ = {gamma:g}" for gamma in GAMMAS), draw=picture)
def papers_raj2019_ridge(runs: int = 80) -> Rows:
    """Figure 7: rejections at 5% by gamma, of TCS as printed and of "whitened", at ε = 2.5 and n = 2000."""
    n, epsilon, tests = 2000, 2.5, ("unsafe: TCS as printed", 'method="whitened"')
    for test, (place, name) in itertools.product(tests, enumerate(("SG", "GMD", "GVD"))):
        (_, first, second), rng, hits = DESIGNS[name], np.random.default_rng([7, place]), []
        phi = features_of(name)
        for _ in range(runs):
            rows = first(rng, n), second(rng, n)
            if test.startswith("unsafe"):
                hits.append([unsafe_tcs(rng, *map(phi, rows), epsilon, gamma) <= 0.05 for gamma in GAMMAS])
                continue
            view = compared(name, *rows)
            with seeded_noise(int(rng.integers(2**31))):
                asked = ({"gamma": gamma, "n_permutations": 99} for gamma in GAMMAS)
                hits.append([rejects(name, view, "whitened", epsilon, **each) for each in asked])
        yield test, name, *(f"{rate:.2f}" for rate in np.mean(hits, axis=0))


# Appendices C, D and F


def unsafe_chi_squared(rng: Rng, s: float) -> float:
    """C.2: the statistic and a χ² variable of two degrees. Outputs below s tell that the table is another."""
    return s + rng.chisquare(2)


def tcs(z: Array) -> float:
    """The statistic of one feature."""
    n, w = len(z), z.mean()
    return n * w**2 / (((z - w) ** 2).sum() / (n - 1) + 0.01)


def path_norm(count: int) -> float:
    """C.1: expected squared length in the kernel's space of a path of unit noise, known at some points."""
    rng, t = np.random.default_rng(count), np.linspace(0, 1, count)
    K = np.exp(-np.abs(t[:, None] - t[None]) / 0.2)
    paths = np.linalg.cholesky(K) @ rng.standard_normal((count, 2000))
    return float(np.mean(np.sum(paths * np.linalg.solve(K, paths), axis=0)))


def smoother(count: int) -> float:
    """C.1, (27): squared distance of two rows in the space of the convolved kernel, seen at some points."""
    t, y = np.linspace(0, 1, count), (np.arange(4000) + 0.5) / 4000
    at = np.exp(-np.abs(t[:, None] - y[None]) / 0.2)
    h = np.exp(-np.abs(t - 0.3) / 0.2) - np.exp(-np.abs(t - 0.7) / 0.2)
    return float(h @ np.linalg.solve(at @ at.T / len(y) + 1e-14 * np.eye(count), h))


@tables.add("part", "what", "numbers")
def papers_raj2019_others() -> Rows:
    """What goes wrong with each of the other noises, in numbers."""
    sizes, sd, z, rng = (5, 20, 80, 320), 0.01, np.full(1000, 0.01), np.random.default_rng(0)
    s, s_near = tcs(z), tcs(np.r_[-1.0, z[1:]])
    seen = np.mean([unsafe_chi_squared(rng, s_near) < s for _ in range(20_000)])
    lengths = ", ".join(f"{path_norm(each):.1f}" for each in sizes)
    yield "C.1", f"squared length of a path of unit noise, known at J = {sizes} points: J, so infinite", lengths
    what = f"squared distance of two rows in the space of the smoother kernel, at J = {sizes} points: no bound"
    yield "C.1, (27)", what, ", ".join(f"{smoother(each):.0f}" for each in sizes)
    what = f"chance of an output below s = {s:.0f}, which cannot be, where a row is another: s′ = {s_near:.5f}"
    yield "C.2", what, f"{1 - math.exp(-(s - s_near) / 2):.4f}; drawn: {seen:.3f}"
    for n in (1000, 10_000, 100_000):
        level = chi2.sf(chi2.isf(0.05, J) * (1 + sd**2) / (1 + n * sd**2), J)
        what = "level at 5% of the printed null law, (1 + σ²)χ² where it is (1 + nσ²)χ²"
        yield "C.3, (30), (31)", f"{what}; J = {J}, σ = {sd:g}, n = {n:,}", f"{level:.3f}"
    yield "C.3", "how far √n Σ^(-1/2) w moves on the tables of C.2", f"{math.sqrt(s) - math.sqrt(s_near):.4f}"
    asked = (0.1, 0.5, 1.0, 2.0)
    what = "chance of an output with W_J(J + 1, 3/(2nε) I) on Λ that cannot be where a row is 0, any J and n"
    yield "D, F", f"{what}; ε = {asked}", ", ".join(f"{-math.expm1(-epsilon / 3):.3f}" for epsilon in asked)
    what = "least k of (ε/2, δ/2)-private W_J(k, J/(n − 1) I), and its noise in J/(n − 1)"
    least = [wishart_rows(epsilon / 2, float(HALF)) for epsilon in EPSILONS]
    yield "D, F", f"{what}; J = {J}, ε = {EPSILONS}", ", ".join(f"{k}: {math.sqrt(k):.1f}" for k in least)
    halves = [gaussian_scale(epsilon / 2, HALF) for epsilon in EPSILONS]
    yield "D, F", f"Gaussian noise beside it; ε = {EPSILONS}", ", ".join(f"{half:.1f}" for half in halves)
    what = "noise in each of 2000 rows that is that of the mean, J = 5, ε = 1; and in a row that is on its own"
    yield "D, Lemma 2", what, f"{math.sqrt(5 / 2000) * halves[1]:.2f}; {math.sqrt(5) * halves[1]:.1f}"


# Wishart noise


def wishart_delta(epsilon: float, k: int) -> float:
    """The least δ at which W_J(k, cI), k > J + 1, is (ε, δ)-private where a row is added or removed, |row|² = c.

    It is that of χ² noise of k - J + 1 degrees on a number that moves by 1: docs/papers/raj2019.md.
    """
    u, power, half = chi2(k - J + 1), (k - J - 1) / 2, 0.5
    below = 1 / -math.expm1(-(epsilon + half) / power)  # where the one density exceeds the other by exp(ε)
    delta = u.cdf(below) - math.exp(epsilon) * u.cdf(below - 1)
    if half > epsilon:
        above = 1 / -math.expm1(-(half - epsilon) / power)
        delta = max(delta, u.sf(above - 1) - math.exp(epsilon) * u.sf(above))
    return float(delta)


def wishart_rows(epsilon: float, delta: float) -> int:
    """The least k where a row changes: one is removed and one added, at ε/2 each."""
    each, low, high = epsilon / 2, J + 1, 2**30
    while high - low > 1:
        k = (low + high) // 2
        low, high = (low, k) if wishart_delta(each, k) * (1 + math.exp(each)) <= delta else (k, high)
    return high


def unsafe_wishart(rng: Rng, k: int, c: float) -> Array:
    """Draw W_J(k, cI)."""
    rows = math.sqrt(c) * rng.standard_normal((k, J))
    return rows.T @ rows


NOISES = ("Gaussian", "unsafe: Wishart, J + 1", "Wishart, k, less its mean")


@tables.add("data", *(f"{variant}, {noise}" for variant in ("TCMC", "NTE") for noise in NOISES))
def papers_raj2019_wishart(runs: int = 60) -> Rows:
    """Figure 8: rejections at 5% with other noise on Λ, n = 10,000, kernel values."""
    n, heads = 10_000, list(itertools.product(("TCMC", "NTE"), NOISES))
    reach = J / (n - 1)

    def noise(kind: str, rng: Rng, epsilon: float) -> Array:
        if kind == NOISES[1]:
            return unsafe_wishart(rng, J + 1, 3 * reach / epsilon)  # 3/(2 ε/2), as Jiang, Xie and Zhang print it
        k = wishart_rows(epsilon / 2, float(HALF))
        return unsafe_wishart(rng, k, reach) - k * reach * np.eye(J)

    for place, name in enumerate(("SG", "GMD", "GVD")):
        rng, hits = np.random.default_rng([8, place]), defaultdict[Any, int](int)
        (_, *draws), phi = DESIGNS[name], features_of(name)
        for _ in range(runs):
            x, y = (phi(draw(rng, n)) for draw in draws)
            exact = {"TCMC": [x - y], "NTE": [x, y]}
            for epsilon in EPSILONS:
                for variant, evidence in variants(rng, x, y, "me", epsilon).items():
                    for kind in NOISES:
                        parties = [
                            each
                            if kind == NOISES[0]
                            else replace(each, second=v.T @ v / (n - 1) + noise(kind, rng, epsilon))
                            for each, v in zip(evidence, exact[variant], strict=True)
                        ]
                        hits[variant, kind, epsilon] += paper_test(parties).pvalue <= 0.05
        yield name, *(" ".join(f"{hits[*head, epsilon] / runs:.2f}" for epsilon in EPSILONS) for head in heads)


# Locations


def chosen(x: Array, y: Array, candidates: Array, phi: Callable[[Array, Array], Array]) -> Array:
    """Greedily choose locations: those with the largest w'(Σ + 1e-3)^-1 w of a public sample."""
    a, b = phi(x, candidates), phi(y, candidates)
    w, S = a.mean(axis=0) - b.mean(axis=0), np.cov(a.T) / len(a) + np.cov(b.T) / len(b)
    best: list[int] = []
    for _ in range(J):
        scores = np.full(len(candidates), -np.inf)
        for j in range(len(candidates)):
            at = [*best, j]
            if j not in best:
                scores[j] = w[at] @ np.linalg.solve(S[np.ix_(at, at)] + 1e-3 / len(a) * np.eye(len(at)), w[at])
        best.append(int(np.argmax(scores)))
    return candidates[best]


def flat(bump: float) -> Callable[[Rng, int], Array]:
    """Rows all over a square, of which a part is in one place."""

    def draw(rng: Rng, n: int) -> Array:
        rows = rng.uniform(-6, 6, (n, 2))
        return np.where(rng.random((n, 1)) < bump, [3.5, -3.5] + 0.5 * rng.standard_normal((n, 2)), rows)

    return draw


DESIGNS["a bump of 5%"] = (2, flat(0.0), flat(0.05))


@tables.add("data, n", "made up", "chosen on a public sample", "selected on a fifth of the rows, for ε/5")
def papers_raj2019_locations(runs: int = 60) -> Rows:
    """Power of the moments test at locations that are made up, chosen on a public sample, and selected on rows."""
    for place, name in enumerate(("SG", "GMD", "GVD", "blobs", "a bump of 5%")):
        (_, first, second), rng = DESIGNS[name], np.random.default_rng([3, place])
        names, _, width = space(name)

        def phi(rows: Array, at: Array, reach: float = space(name)[1], width: float = width) -> Array:
            squared = (rows**2).sum(axis=1)[:, None] + (at**2).sum(axis=1) - 2 * rows @ at.T
            return np.exp(-squared / 2 / (width * reach) ** 2)

        public = first(rng, 1000), second(rng, 1000)
        at = chosen(*public, np.vstack([part[:100] for part in public]), phi).tolist()
        candidates = {"locations": first(rng, 200).tolist(), "lengthscale": width, "n_locations": J}
        for n in (2000, 10_000):
            hits = np.zeros((3, len(EPSILONS)))
            for _ in range(runs):
                rows = first(rng, n), second(rng, n)
                held, tested = zip(*(np.split(part, [n // 5]) for part in rows), strict=True)
                whole, few, rest = (compared(name, *each) for each in (rows, held, tested))
                with seeded_noise(int(rng.integers(2**31))):
                    for k, epsilon in enumerate(EPSILONS):
                        hits[0, k] += rejects(name, whole, "moments", epsilon)
                        hits[1, k] += rejects(name, whole, "moments", epsilon, locations=at)
                        found = few.kernel_locations(names, "g", **candidates, epsilon=epsilon / 5).locations
                        where = np.asarray(found, dtype=float).tolist()
                        hits[2, k] += rejects(name, rest, "moments", 4 * epsilon / 5, locations=where)
            yield f"{name}, {n:,}", *(" ".join(f"{rate:.2f}" for rate in each / runs) for each in hits)


if __name__ == "__main__":
    tables.main()
