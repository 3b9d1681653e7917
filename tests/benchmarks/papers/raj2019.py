"""What Raj et al. (2019) draw, measured: levels and power as printed, the ridge, other noises, and locations.

    python tests/benchmarks/papers/raj2019.py power        # Figures 5, 6 and 8: TCMC, NTE, the naive null law
    python tests/benchmarks/papers/raj2019.py levels       # the same variants on the designs of all benchmarks
    python tests/benchmarks/papers/raj2019.py ridge        # Figure 7: gamma, of TCS as printed and of "whitened"
    python tests/benchmarks/papers/raj2019.py others       # appendix C: what goes wrong, in exact numbers
    python tests/benchmarks/papers/raj2019.py wishart      # Figure 8: Wishart noise in place of Gaussian noise
    python tests/benchmarks/papers/raj2019.py locations    # locations chosen on a public sample

Statistics are computed in float64 and the noise is NumPy's: nothing here is private. `unsafe_tcs`,
`unsafe_chi_squared` and `unsafe_wishart` of J + 1 degrees of freedom are what the paper has and is not private; no
view offers them.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.stats import chi2

sys.path.append(str(Path(__file__).parents[1]))
from designs import DATA, LEVELS, designs
from kernel_level import features
from kernel_power import DESIGNS, Cell, design
from results import recorded

from dfprivacy import Column
from dfprivacy._privacy.calibrate import gaussian_scale
from dfprivacy_kernel import printed
from dfprivacy_kernel.design import Design
from dfprivacy_kernel.moments import Contrast, Party, Scales, contrast_test, noise_scales
from dfprivacy_kernel.printed import moment_sensitivities, printed_test

DELTA, EPSILONS = 1e-5, (0.5, 1.0, 2.5)
PICTURE = Path(__file__).parents[3] / "docs/pictures/papers/raj2019_ridge.svg"


def sigma(epsilon, delta=DELTA):
    """Standard deviation of the Gaussian mechanism for a sensitivity of 1."""
    return gaussian_scale(2**60, 1, Fraction(epsilon), Fraction(delta)) / 2**30


# TCMC and NTE


def party(rng, values, mean_noise, second_noise):
    """Mean and second moment of some vectors, with noise."""
    n, J = values.shape
    error = np.triu(second_noise * rng.standard_normal((J, J)))
    second = values.T @ values / (n - 1) + error + np.triu(error, 1).T
    mean = values.mean(axis=0) + mean_noise * rng.standard_normal(J)
    return Party(mean, second, Scales(mean_noise, math.inf, second_noise, second_noise), float(n))


def variants(rng, x, y, kind, epsilon):
    """TCMC of pairs and NTE of two parties, as printed, with the right calibration."""
    J, half = x.shape[1], sigma(epsilon / 2, DELTA / 2)
    n = min(len(x), len(y))
    mean, second = moment_sensitivities(kind, J, 1.0, "row of a pair")
    tcmc = [party(rng, x[:n] - y[:n], mean / n * half, second / (n - 1) * half)]
    mean, second = moment_sensitivities(kind, J, 1.0, "row")
    nte = [party(rng, v, mean / len(v) * half, second / (len(v) - 1) * half) for v in (x, y)]
    return {"TCMC": tcmc, "NTE": nte}


def ours(rng, x, y, epsilon):
    """The moments test of the library, of kernel values."""
    n, m, J = len(x), len(y), x.shape[1]
    v = np.vstack([x, y]) - 0.5
    noise = noise_scales("me", J, n, m).scaled_by(sigma(epsilon))
    error = np.triu(noise.diagonal * rng.standard_normal((J, J)))
    d = x.mean(axis=0) - y.mean(axis=0) + noise.difference * rng.standard_normal(J)
    u = v.mean(axis=0) + noise.pooled * rng.standard_normal(J)
    S = v.T @ v / (n + m) + error + np.triu(error, 1).T
    return contrast_test(Contrast(d, u, S, noise, (n, m), (n, m))).pvalue


def power(runs):
    """Rates of rejection at 5%, by the printed null law and by χ² alone."""
    heads = ("features", "data, n", "TCMC", "NTE", "TCMC, naive χ²", "NTE, naive χ²", "method=moments")
    print(f"At ε = {EPSILONS}, rates of {runs} data sets.\n")
    with recorded("papers_raj2019_power", *heads) as row:
        for kind in ("me", "scf"):
            for place, name in enumerate(("SG", "blobs, null", "GMD", "GVD", "blobs")):
                d, first, second = DESIGNS[name]
                located, columns = design(name, d, kind, 5)
                embedding = located.embedding(mapped=False)
                for n in (2000, 10_000):
                    rng = np.random.default_rng([2019, place, n])
                    hits = {}
                    for _ in range(runs if n < 10_000 else runs // 2):
                        x, y = (features(embedding, columns, draw(rng, n)) for draw in (first, second))
                        for epsilon in EPSILONS:
                            for which, evidence in variants(rng, x, y, kind, epsilon).items():
                                found = printed_test(evidence)
                                naive = chi2.sf(found.statistic, x.shape[1])
                                hits.setdefault((which, epsilon), []).append(found.pvalue <= 0.05)
                                hits.setdefault((f"{which}, naive χ²", epsilon), []).append(naive <= 0.05)
                            if kind == "me":
                                hits.setdefault(("method=moments", epsilon), []).append(
                                    ours(rng, x, y, epsilon) <= 0.05
                                )
                    rates = {key: f"{np.mean(each):.2f}" for key, each in hits.items()}
                    cells = [" ".join(rates.get((head, e), "") for e in EPSILONS).strip() for head in heads[2:]]
                    row(kind, f"{name}, {n:,}", *cells)


def levels(runs):
    """Levels of the variants on designs, where nothing is missing."""
    heads = ("variant", "data", "designs", "answers", *(f"{a:.1%}" for a in LEVELS))
    with recorded("papers_raj2019_levels", *heads) as row:
        counted = {(v, kind): np.zeros(2 + len(LEVELS), dtype=int) for v in ("TCMC", "NTE") for kind in DATA}
        for place, asked in enumerate(designs()):
            if min(asked.sizes) < 2 or asked.neighbors == "add_remove":
                continue
            column = Column("x", bounds=(asked.low, asked.high), fill=asked.low)
            embedding = Design.from_arguments([column], "me", None, 0.5, None, 5).embedding(mapped=False)
            rng = np.random.default_rng([15, place])
            for _ in range(runs):
                values = np.clip(DATA[asked.data](rng, sum(asked.sizes)), asked.low, asked.high)[:, None]
                v = embedding.parts[0].features(values)
                x, y = np.split(v, [asked.sizes[0]])
                for which, evidence in variants(rng, x, y, "me", asked.epsilon).items():
                    p = printed_test(evidence).pvalue
                    counted[which, asked.data] += [0, 1, *(p <= level for level in LEVELS)]
            for which in ("TCMC", "NTE"):
                counted[which, asked.data][0] += 1
        for (which, kind), (number, answers, *hits) in counted.items():
            row(which, kind, number, f"{answers:,}", *(f"{hit / max(answers, 1):.4f}" for hit in hits))


# The ridge


def unsafe_tcs(rng, x, y, epsilon, gamma):
    """TCS as printed: not private, for one row moves it by far more than its noise is for."""
    z = x - y
    n, J = z.shape
    w = z.mean(axis=0)
    S = np.cov(z.T).reshape(J, J) + gamma * np.eye(J)
    s = n * w @ cho_solve(cho_factor(S), w)
    sd = 4 * J**1.5 / (n * gamma) * (1 + J / (n - 1)) * sigma(epsilon)
    noisy = s + sd * rng.standard_normal()
    # Its null law: χ² and the noise.
    draws = np.random.default_rng(1).chisquare(J, 4000) + sd * np.random.default_rng(2).standard_normal(4000)
    return float(np.mean(draws >= noisy))


def ridge(runs):
    """Rates of rejection at 5% by gamma, at ε = 2.5 and n = 2000."""
    n, epsilon, gammas = 2000, 2.5, (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    drawn = {}
    with recorded("papers_raj2019_ridge", "test", "data", *(f"γ = {g:g}" for g in gammas)) as row:
        for test in ("unsafe: TCS as printed", 'method="whitened"'):
            for place, name in enumerate(("SG", "GMD", "GVD")):
                d, first, second = DESIGNS[name]
                located, columns = design(name, d, "me", 5)
                embedding = located.embedding(mapped=False)
                cell = Cell(name, n)
                few = cell.few
                rng = np.random.default_rng([7, place])
                hits = np.zeros((len(gammas), 2))
                for _ in range(runs):
                    rows = first(rng, n), second(rng, n)
                    for i, gamma in enumerate(gammas):
                        if test.startswith("unsafe"):
                            x, y = (features(embedding, columns, part) for part in rows)
                            hits[i] += unsafe_tcs(rng, x, y, epsilon, gamma) <= 0.05, 1
                        else:
                            phi = features(few, columns, np.vstack(rows))
                            hits[i] += whitened(rng, phi, n, epsilon, gamma), 1
                rates = hits[:, 0] / hits[:, 1]
                drawn[test, name] = rates
                row(test, name, *(f"{rate:.2f}" for rate in rates))
    picture(gammas, drawn)


def whitened(rng, phi, n, epsilon, gamma):
    """The decision of method="whitened" with this ridge."""
    from scipy.linalg import solve_triangular

    from dfprivacy_kernel.statistics import CLIP, random_subset, whitened_sensitivity

    labels = np.stack([np.arange(2 * n) < n, *(random_subset(n, 2 * n, rng) for _ in range(99))]) * 2.0 - 1
    L = np.linalg.cholesky(np.cov(phi.T, bias=True) + gamma * np.eye(phi.shape[1]))
    white = solve_triangular(L, (labels @ phi).T / n, lower=True)
    T = np.minimum(math.sqrt(n / 2) * np.linalg.norm(white, axis=0), CLIP)
    noisy = T + rng.laplace(0, 2 * whitened_sensitivity(n, n, math.sqrt(2), 2.0, gamma, CLIP) / epsilon, T.shape)
    return (1 + np.sum(noisy[1:] >= noisy[0])) / 100 <= 0.05


def picture(gammas, drawn):
    """Draw rates by gamma, in inks that are read on light and on dark."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    grey = "#808080"
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "dfprivacy", "font.family": "sans-serif"}
    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    mpl.rcParams |= dict.fromkeys(inked, grey)
    figure, axes = plt.subplots(1, 2, figsize=(9, 3), sharey=True, constrained_layout=True)
    for ax, test in zip(axes, dict.fromkeys(test for test, _ in drawn), strict=True):
        for (_, name), rates in ((key, each) for key, each in drawn.items() if key[0] == test):
            ax.semilogx(gammas, rates, "o-", label=name)
        ax.axhline(0.05, color=grey, ls=":")
        ax.set(title=test, xlabel="γ", ylim=(-0.03, 1.03))
        ax.legend(frameon=False)
    axes[0].set_ylabel("rejected at 5%")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, transparent=True, metadata={"Date": None})


# Appendix C and D


def unsafe_chi_squared(rng, s):
    """C.2: the statistic and a χ² variable of two degrees. Outputs below s tell that the table is another."""
    return s + rng.chisquare(2)


def tcs(z, gamma=0.01):
    """The statistic of one feature."""
    n, w = len(z), z.mean()
    return n * w**2 / (((z - w) ** 2).sum() / (n - 1) + gamma)


def path_norm(J, width=0.2):
    """C.1: expected squared length in the kernel's space of a path of unit noise, known at J points of [0, 1]."""
    rng, t = np.random.default_rng(J), np.linspace(0, 1, J)
    K = np.exp(-np.abs(t[:, None] - t[None]) / width)
    paths = np.linalg.cholesky(K) @ rng.standard_normal((J, 2000))
    return float(np.mean(np.sum(paths * np.linalg.solve(K, paths), axis=0)))


def smoother(J, width=0.2):
    """C.1, (27): squared distance of two rows in the space of the convolved kernel, seen at J points."""
    t, y = np.linspace(0, 1, J), (np.arange(4000) + 0.5) / 4000
    at = lambda x: np.exp(-np.abs(np.asarray(x)[:, None] - y[None]) / width)  # noqa: E731
    R = at(t) @ at(t).T / len(y)
    h = np.exp(-np.abs(t - 0.3) / width) - np.exp(-np.abs(t - 0.7) / width)
    return float(h @ np.linalg.solve(R + 1e-14 * np.eye(J), h))


def others(_):
    """What goes wrong with each of the other noises, in numbers."""
    sizes, J, sd = (5, 20, 80, 320), 5, 0.01
    z = np.full(1000, 0.01)
    near = np.r_[-1.0, z[1:]]
    s, s_near, rng = tcs(z), tcs(near), np.random.default_rng(0)
    seen = np.mean([unsafe_chi_squared(rng, s_near) < s for _ in range(20_000)])
    half = sigma(0.5, 5e-6)
    with recorded("papers_raj2019_others", "part", "what", "numbers") as row:
        lengths = ", ".join(f"{path_norm(J):.1f}" for J in sizes)
        row("C.1", f"squared length of a path of unit noise, known at J = {sizes} points: J, so infinite", lengths)
        what = f"squared distance of two rows in the space of the smoother kernel, at J = {sizes} points: no bound"
        row("C.1, (27)", what, ", ".join(f"{smoother(J):.0f}" for J in sizes))
        what = f"chance of an output below s = {s:.0f}, which cannot be, where a row is another: s′ = {s_near:.5f}"
        row("C.2", what, f"{1 - math.exp(-(s - s_near) / 2):.4f}; drawn: {seen:.3f}")
        for n in (1000, 10_000, 100_000):
            level = chi2.sf(chi2.isf(0.05, J) * (1 + sd**2) / (1 + n * sd**2), J)
            what = "level at 5% of the printed null law, (1 + σ²)χ² where it is (1 + nσ²)χ²"
            row("C.3, (30), (31)", f"{what}; J = {J}, σ = {sd:g}, n = {n:,}", f"{level:.3f}")
        row("C.3", "how far √n Σ^(-1/2) w moves on the tables of C.2", f"{math.sqrt(s) - math.sqrt(s_near):.4f}")
        asked = (0.1, 0.5, 1.0, 2.0)
        what = "chance of an output with W_J(J + 1, 3/(2nε) I) on Λ that cannot be where a row is 0, any J and n"
        chances = ", ".join(f"{-math.expm1(-epsilon / 3):.3f}" for epsilon in asked)
        row("D, F", f"{what}; ε = {asked}", chances)
        what = "least k of (ε/2, δ/2)-private W_J(k, J/(n − 1) I), and its noise in J/(n − 1)"
        least = [wishart_rows(epsilon / 2, DELTA / 2, J) for epsilon in EPSILONS]
        row("D, F", f"{what}; J = {J}, ε = {EPSILONS}", ", ".join(f"{k}: {math.sqrt(k):.1f}" for k in least))
        what = f"Gaussian noise beside it; ε = {EPSILONS}"
        row("D, F", what, ", ".join(f"{sigma(epsilon / 2, DELTA / 2):.1f}" for epsilon in EPSILONS))
        what = "noise in each of 2000 rows that is that of the mean, J = 5, ε = 1; and in a row that is on its own"
        row("D, Lemma 2", what, f"{math.sqrt(5 / 2000) * half:.2f}; {math.sqrt(5) * half:.1f}")


# Wishart noise


def wishart_delta(epsilon, k, J, reach):
    """The least δ at which W_J(k, cI), k > J + 1, is (ε, δ)-private where a row is added or removed.

    It is that of χ² noise of k - J + 1 degrees on a number that moves by `reach`, |row|²/c: docs/papers/raj2019.md.
    """
    u, power, half = chi2(k - J + 1), (k - J - 1) / 2, reach / 2
    below = reach / -math.expm1(-(epsilon + half) / power)  # where the one density exceeds the other by exp(ε)
    delta = u.cdf(below) - math.exp(epsilon) * u.cdf(below - reach)
    if half > epsilon:
        above = reach / -math.expm1(-(half - epsilon) / power)
        delta = max(delta, u.sf(above - reach) - math.exp(epsilon) * u.sf(above))
    return delta


def wishart_rows(epsilon, delta, J):
    """The least k for a reach of 1 where a row changes: one is removed and one added, at ε/2 each."""
    each, low, high = epsilon / 2, J + 1, 2**30
    while high - low > 1:
        k = (low + high) // 2
        holds = wishart_delta(each, k, J, 1.0) * (1 + math.exp(each)) <= delta
        low, high = (low, k) if holds else (k, high)
    return high


def unsafe_wishart(rng, k, c, J):
    """Draw W_J(k, cI)."""
    rows = math.sqrt(c) * rng.standard_normal((k, J))
    return rows.T @ rows


def wishart(runs):
    """Figure 8: rates of rejection at 5% with other noise on Λ, n = 10,000, kernel values."""
    n, J = 10_000, 5
    reach = J / (n - 1)

    def few(rng, epsilon):
        return unsafe_wishart(rng, J + 1, 3 * reach / epsilon, J)  # 3/(2 ε/2), as Jiang, Xie and Zhang print it

    def many(rng, epsilon):
        k = wishart_rows(epsilon / 2, DELTA / 2, J)
        return unsafe_wishart(rng, k, reach, J) - k * reach * np.eye(J)

    noises = {"Gaussian": None, "unsafe: Wishart, J + 1": few, "Wishart, k, less its mean": many}
    heads = [f"{variant}, {noise}" for variant in ("TCMC", "NTE") for noise in noises]
    with recorded("papers_raj2019_wishart", "data", *heads) as row:
        for place, name in enumerate(("SG", "GMD", "GVD")):
            d, first, second = DESIGNS[name]
            located, columns = design(name, d, "me", J)
            embedding = located.embedding(mapped=False)
            rng = np.random.default_rng([8, place])
            hits = dict.fromkeys(((head, epsilon) for head in heads for epsilon in EPSILONS), 0)
            for _ in range(runs):
                x, y = (features(embedding, columns, draw(rng, n)) for draw in (first, second))
                exact = {"TCMC": [x - y], "NTE": [x, y]}
                for epsilon in EPSILONS:
                    for variant, evidence in variants(rng, x, y, "me", epsilon).items():
                        for noise, draw in noises.items():
                            parties = [
                                replace(each, second=v.T @ v / (n - 1) + draw(rng, epsilon)) if draw else each
                                for each, v in zip(evidence, exact[variant], strict=True)
                            ]
                            found = printed_test(parties)
                            hits[f"{variant}, {noise}", epsilon] += found.pvalue <= 0.05
            row(name, *(" ".join(f"{hits[head, epsilon] / runs:.2f}" for epsilon in EPSILONS) for head in heads))


# Locations


def chosen(x, y, candidates, count, phi):
    """Greedily choose locations: those with the largest w'(Σ + 1e-3)^-1 w of a public sample."""
    a, b = phi(x, candidates), phi(y, candidates)
    w, S = a.mean(axis=0) - b.mean(axis=0), np.cov(a.T) / len(a) + np.cov(b.T) / len(b)
    best = []
    for _ in range(count):
        scores = []
        for j in range(len(candidates)):
            at = [*best, j]
            ridge_ = 1e-3 / len(a) * np.eye(len(at))
            scores.append(-np.inf if j in best else w[at] @ np.linalg.solve(S[np.ix_(at, at)] + ridge_, w[at]))
        best.append(int(np.argmax(scores)))
    return candidates[best]


def selected(rng, x, y, candidates, count, phi, epsilon):
    """Locations as `kernel_locations` selects them: the exponential mechanism, one after the other."""
    points, best = candidates, []
    score_noise = 2 * count / (min(len(x), len(y)) * epsilon)
    a, b = phi(x, points).mean(axis=0), phi(y, points).mean(axis=0)
    left = np.ones(len(points), dtype=bool)
    for _ in range(count):
        if not left.any():
            break
        scores = np.where(left, np.abs(a - b) + score_noise * rng.gumbel(size=len(points)), -np.inf)
        best.append(int(np.argmax(scores)))
        left &= phi(points, points[best[-1:]])[:, 0] <= 0.5
    return points[best]


def flat(rng, n, *, bump=0.0):
    """Rows all over a square, of which a part is in one place."""
    rows = rng.uniform(-6, 6, (n, 2))
    return np.where(rng.random((n, 1)) < bump, [3.5, -3.5] + 0.5 * rng.standard_normal((n, 2)), rows)


DESIGNS["a bump of 5%"] = (2, flat, lambda rng, n: flat(rng, n, bump=0.05))


def locations(runs):
    """Power of the moments test at locations that are made up, chosen on a public sample, and selected on rows."""
    heads = ("data, n", "made up", "chosen on a public sample", "selected on a fifth of the rows, for ε/5")
    with recorded("papers_raj2019_locations", *heads) as row:
        for place, name in enumerate(("SG", "GMD", "GVD", "blobs", "a bump of 5%")):
            d, first, second = DESIGNS[name]
            located, columns = design(name, d, "me", 5)
            width = math.sqrt(d)

            def phi(rows, at, width=width):
                squared = (rows**2).sum(axis=1)[:, None] + (at**2).sum(axis=1) - 2 * rows @ at.T
                return np.exp(-squared / width**2)

            rng = np.random.default_rng([3, place])
            public = first(rng, 1000), second(rng, 1000)
            candidates = np.vstack([part[:100] for part in public])
            at = chosen(*public, candidates, 5, phi)
            made = first(rng, 200)
            embedding = located.embedding(mapped=False)
            for n in (2000, 10_000):
                hits = np.zeros((3, len(EPSILONS)))
                for _ in range(runs):
                    rows = first(rng, n), second(rng, n)
                    usual = [features(embedding, columns, part) for part in rows]
                    for i, (x, y) in enumerate((usual, [phi(part, at) for part in rows])):
                        hits[i] += [ours(rng, x, y, epsilon) <= 0.05 for epsilon in EPSILONS]
                    held, tested = zip(*(np.split(part, [n // 5]) for part in rows), strict=True)
                    for k, epsilon in enumerate(EPSILONS):
                        where = selected(rng, *held, made, 5, phi, epsilon / 5)
                        hits[2, k] += ours(rng, *(phi(part, where) for part in tested), 4 * epsilon / 5) <= 0.05
                row(f"{name}, {n:,}", *(" ".join(f"{rate:.2f}" for rate in each / runs) for each in hits))


EXPERIMENTS = {
    "power": (power, 60),
    "levels": (levels, 60),
    "ridge": (ridge, 60),
    "others": (others, 1),
    "wishart": (wishart, 60),
    "locations": (locations, 60),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--runs", type=int, help="data sets a cell")
    said = parser.parse_args()
    printed._DRAWS = 10_000  # p-values to a few thousandths
    run, runs = EXPERIMENTS[said.experiment]
    run(said.runs or runs)


if __name__ == "__main__":
    main()
