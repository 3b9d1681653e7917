"""Checks of the arguments of the tests, before anything is charged."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from scipy.special import chdtri

from dfprivacy import ArgumentError
from dfprivacy.schema import as_number, chosen_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import Column, Curator
    from dfprivacy_chi2.nulls import Rate

__all__ = [
    "MARGIN_SHARE",
    "ROWS_TO_CALIBRATE",
    "TAU",
    "check_different",
    "check_two_categories",
    "checked_rate",
    "checked_tau",
    "public_groups",
]

TAU = float(chdtri(1, 0.05))
"""The critical value of chi² at 5%, one degree of freedom."""

MARGIN_SHARE = Fraction(1, 10)
"""The part of the budget that method "signed" spends on how many have X = 1, and how many none."""

ROWS_TO_CALIBRATE = 100
"""Rows times epsilon from which that pays."""


def check_two_categories(column: Column) -> None:
    """Refuse a column without exactly two categories."""
    known = column.categories or ()
    if len(known) != 2:  # noqa: PLR2004
        raise ArgumentError(
            f"{column.name!r} has {len(known)} categories, where two are needed.",
            f"Its categories are {list(known)!r}; protect the table with two, or use chi2.",
        )


def check_different(x: Column, by: Column) -> None:
    """Refuse to compare a column with itself."""
    if x.name == by.name:
        raise ArgumentError(f"by={by.name!r} is the column that is tested.", "Name the column of the groups.")


def public_groups(
    curator: Curator, x: Column, by: Column, groups: Sequence[Any] | None, *, most: int | None = 2
) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """Return the groups to compare, and their public sizes; an error where these are private."""
    check_different(x, by)
    kept = chosen_groups(by, groups, most=most)
    sizes = curator.sizes(by, kept, least=1)
    if sizes is None:
        raise ArgumentError(
            f"The test needs to know how many rows each group of {by.name!r} has, and here that is private.",
            f"If neighbouring tables agree on it, say so: protect(..., public=[{by.name!r}]), and select rows by "
            "public columns only.",
        )
    return kept, tuple(int(size) for size in sizes)


def checked_rate(rate: Any) -> Rate:
    """Return a share, or a range of shares, after a check that these lie between 0 and 1."""
    if rate is None:
        return None
    pair = isinstance(rate, list | tuple)
    ends = [as_number(end, "rate") for end in (rate if pair else (rate,))]
    if (pair and len(ends) != 2) or not all(0 < end < 1 for end in ends) or ends != sorted(ends):  # noqa: PLR2004
        raise ArgumentError(
            f"rate={rate!r} is no share between 0 and 1, and no range (low, high) of shares.",
            "Give what is known of it from outside the data, for example 0.3 or (0.2, 0.4).",
        )
    return (ends[0], ends[1]) if pair else ends[0]


def checked_tau(tau: Any) -> float:
    """Return the value of chi² that the circle stands for."""
    if tau is None:
        return TAU
    number = as_number(tau, "tau")
    if not 1e-6 <= number <= 1e6:  # noqa: PLR2004 - far beyond what is of use, and safe in float64
        raise ArgumentError(
            f"tau={tau!r} must be positive, from 1e-6 to 1e6.", f"The critical value of chi² at 5% is {TAU:.4g}."
        )
    return number
