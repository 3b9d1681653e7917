"""What a kernel mean embedding of the Adult census table keeps, and what it loses.

    python tests/benchmarks/kme_adult.py adult.csv        # the UCI table, with or without a header line

Six numbers and three categories of half of the rows, epsilon 1, delta 1e-6. Prints, for a sample of the release
beside these rows: means and standard deviations, the largest error of a quantile, correlations, shares of
categories; and the accuracy and the area under the ROC curve of a logistic regression of income that is trained on
the one or the other and tested on the other half.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from results import recorded
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import mannwhitneyu

import dfprivacy as dp
from dfprivacy.testing import seeded_noise

COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship"),
    *("race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income"),
)
BOUNDS = {
    "age": (17, 90),
    "fnlwgt": (0, 1_000_000),
    "education_num": (1, 16),
    "capital_gain": (0, 100_000),
    "capital_loss": (0, 5_000),
    "hours_per_week": (1, 99),
}
CATEGORIES = {
    "marital_status": [
        *("Married-civ-spouse", "Never-married", "Divorced", "Separated", "Widowed"),
        *("Married-spouse-absent", "Married-AF-spouse"),
    ],
    "sex": ["Male", "Female"],
    "income": ["<=50K", ">50K"],
}
QUANTILES = np.linspace(0.05, 0.95, 19)


def design(rows):
    """Inputs of the classifier: standardized numbers by their bounds, and indicators."""
    numbers = [(rows[name] - low) / (high - low) for name, (low, high) in BOUNDS.items()]
    levels = [rows[name] == level for name, known in CATEGORIES.items() if name != "income" for level in known]
    return np.column_stack([np.ones(len(rows)), *numbers, *levels]).astype(float), rows["income"] == ">50K"


def classifier(rows):
    """Coefficients of a logistic regression."""
    x, y = design(rows)
    sign = np.where(y, 1.0, -1.0)

    def loss(b):
        z = sign * (x @ b)
        return np.logaddexp(0, -z).mean() + 1e-5 * b @ b, -(x.T @ (sign * expit(-z))) / len(y) + 2e-5 * b

    return minimize(loss, np.zeros(x.shape[1]), jac=True).x


def scores(rows, b):
    """Accuracy, and area under the ROC curve."""
    x, y = design(rows)
    z = x @ b
    return np.mean((z > 0) == y), mannwhitneyu(z[y], z[~y]).statistic / (y.sum() * (~y).sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--epsilon", type=float, default=1.0)
    said = parser.parse_args()
    rows = pd.read_csv(said.file, header=None, names=COLUMNS, skipinitialspace=True)
    rows = rows[rows["age"] != "age"].astype(dict.fromkeys(BOUNDS, float)).sample(frac=1, random_state=1)
    train, test = rows.iloc[::2].reset_index(drop=True), rows.iloc[1::2]
    view = dp.protect(
        train, "adult", epsilon=10, delta=1e-4, ledger="memory:", bounds=BOUNDS, categories=CATEGORIES
    )
    with seeded_noise(1):
        release = view.kme_release(list(BOUNDS), categories=list(CATEGORIES), epsilon=said.epsilon, delta=1e-6)
    noise = release.noise_standard_error
    print(f"{len(train):,} rows, ε = {said.epsilon:g}: {release.support} points; σ = {noise:.2g}.\n")
    sample = release.sample(len(train), seed=1)
    heads = ("mean", "sample's", "sd", "sample's", "largest error of a quantile, of the bounds' width")
    with recorded("kme_adult", "column", *heads) as row:
        for name, (low, high) in BOUNDS.items():
            real, made = train[name], sample[name]
            off = np.abs(real.quantile(QUANTILES) - made.quantile(QUANTILES)).max() / (high - low)
            moments = (f"{real.mean():.4g}", f"{made.mean():.4g}", f"{real.std():.3g}", f"{made.std():.3g}")
            row(name, *moments, f"{off:.0%}")
    real, made = (table[list(BOUNDS)].corr().to_numpy() for table in (train, sample))
    upper = np.triu_indices(len(real), 1)
    print(f"\nCorrelations: largest of the rows {np.abs(real[upper]).max():.2f}; differences of the sample's:")
    print(f"{np.abs(real - made)[upper].mean():.2f} on average, {np.abs(real - made)[upper].max():.2f} at most.\n")
    with recorded("kme_adult_categories", "category", "share of rows", "of the sample") as row:
        for name, known in CATEGORIES.items():
            for level in known:
                row(f"{name} = {level}", *(f"{(table[name] == level).mean():.3f}" for table in (train, sample)))
    print()
    with recorded("kme_adult_classifiers", "trained on", "accuracy", "area under the ROC curve") as row:
        row("the majority alone", f"{(test['income'] == '<=50K').mean():.3f}", "0.500")
        for what, table in {"a sample of the release": sample, "the rows": train}.items():
            row(what, *(f"{score:.3f}" for score in scores(test, classifier(table))))


if __name__ == "__main__":
    main()
