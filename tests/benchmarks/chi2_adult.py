"""Tests of independence on the UCI Adult table: income by sex, then all binary columns by income.

    python tests/benchmarks/chi2_adult.py adult.csv

The file (https://archive.ics.uci.edu/dataset/2/adult, ``adult.data``) is not shipped. Prints the private answers,
whose noise is drawn anew each time, beside those without privacy.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
from results import recorded
from scipy.stats import chi2_contingency

import dfprivacy as dp

NAMES = ["age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship"]
NAMES += ["race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income"]
# From the code book, never from the answers.
CODES = {
    "sex": "Female",
    "race": "Amer-Indian-Eskimo Asian-Pac-Islander Black Other White",
    "relationship": "Husband Not-in-family Other-relative Own-child Unmarried Wife",
    "marital_status": "Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent Never-married Separated "
    "Widowed",
    "workclass": "Federal-gov Local-gov Never-worked Private Self-emp-inc Self-emp-not-inc State-gov Without-pay",
    "occupation": "Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing Handlers-cleaners "
    "Machine-op-inspct Other-service Priv-house-serv Prof-specialty Protective-serv Sales Tech-support "
    "Transport-moving",
    "education": "10th 11th 12th 1st-4th 5th-6th 7th-8th 9th Assoc-acdm Assoc-voc Bachelors Doctorate HS-grad "
    "Masters Preschool Prof-school Some-college",
}
LIMITS = {"age": (30, 40, 50), "hours_per_week": (20, 40, 50), "capital_gain": (0,), "capital_loss": (0,)}


def binary(adult: pd.DataFrame) -> pd.DataFrame:
    """Return what the code book asks with yes or no."""
    answers = {f"{name}: {code}": adult[name] == code for name, codes in CODES.items() for code in codes.split()}
    above = {f"{name} > {limit}": adult[name] > limit for name, limits in LIMITS.items() for limit in limits}
    return pd.DataFrame(answers | above)


def plain(table: pd.DataFrame, by: pd.Series) -> pd.Series:
    """Return the p-value of each column without privacy."""
    crosses = {name: pd.crosstab(column, by) for name, column in table.items()}
    return pd.Series(
        {
            name: chi2_contingency(cross, correction=False)[1] if len(cross) == 2 else 1.0
            for name, cross in crosses.items()
        }
    )


def main() -> None:
    """Test, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    file = parser.parse_args().file
    adult = pd.read_csv(file, names=NAMES, skipinitialspace=True).dropna(how="all")

    print("Income by sex\n")
    incomes = {"income": ["<=50K", ">50K"]}
    census = dp.protect(
        adult,
        "adult",
        epsilon=1,
        ledger="memory:",
        categories={**incomes, "sex": ["Male", "Female"]},
        public=["sex"],
    )
    test = census.chi2("income", "sex", epsilon=0.1)
    print(test, test.confidence_interval(0.99), census.chi2_unitcircle("income", "sex", epsilon=0.1), sep="\n\n")
    shares = (adult["income"] == ">50K").groupby(adult["sex"]).mean()
    statistic, pvalue, *_ = chi2_contingency(pd.crosstab(adult["income"], adult["sex"]), correction=False)
    print(f"\nWithout privacy: chi2 {statistic:.1f}, p = {pvalue:.3g}, shares {shares.to_dict()}")

    table = binary(adult)
    categories = {**dict.fromkeys(table, (False, True)), **incomes}
    terms = {"categories": categories, "public": ["income"], "ledger": "memory:"}
    answers = dp.protect(table.assign(income=adult["income"]), "adult-answers", epsilon=2, **terms)
    questions = list(table)
    print(f"\n{len(questions)} binary columns by income\n")
    for method, most in (("svt", 40), ("select", 12)):
        many = answers.chi2_many(questions, "income", method=method, max_rejections=most, epsilon=1)
        print(many, f"answered: {len(many.answered)}", "", sep="\n")
        with recorded(f"chi2_adult_{method}", "answered", "difference") as row:
            for name, difference in zip(many.answered, many.differences, strict=False):
                row(name, f"{difference:.3f}")
    found = plain(table, adult["income"]) < 0.05 / len(questions)
    print(f"\nWithout privacy, at 0.05/{len(questions)}: {int(found.sum())} columns differ.")
    gaps = (table[adult["income"] == ">50K"].mean() - table[adult["income"] == "<=50K"].mean()).abs()
    print("The largest differences:", ", ".join(f"{name} {gap:.3f}" for name, gap in gaps.nlargest(12).items()))


if __name__ == "__main__":
    main()
