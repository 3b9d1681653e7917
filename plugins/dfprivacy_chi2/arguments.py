"""Checks of the arguments of tests of independence, before anything is charged."""

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
    "check_different_columns",
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
    """Check that a column has exactly two categories."""
    known = column.categories or ()
    if len(known) != 2:  # noqa: PLR2004
        raise ArgumentError(
            f"Column {column.name!r} has {len(known)} categories, but the test needs two.",
            f"The categories are {list(known)!r}; declare two categories in protect(), or use chi2().",
        )


def check_different_columns(x: Column, by: Column) -> None:
    """Check that the column of groups is not the tested column."""
    if x.name == by.name:
        raise ArgumentError(f"by={by.name!r} is also the tested column.", "Use the column of the groups as by=.")


def public_groups(
    curator: Curator, x: Column, by: Column, groups: Sequence[Any] | None, *, most: int | None = 2
) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """Return the compared groups and their public sizes; raise an error if the sizes are private."""
    check_different_columns(x, by)
    kept = chosen_groups(by, groups, most=most)
    sizes = curator.sizes(by, kept, least=1)
    if sizes is None:
        raise ArgumentError(
            f"The test needs public sizes of the groups of {by.name!r}, but they are private.",
            f"If the column is public, write protect(..., public=[{by.name!r}]), and select rows by "
            "public columns only.",
        )
    return kept, tuple(int(size) for size in sizes)


def checked_rate(rate: Any) -> Rate:
    """Return ``rate``, the share of X = 1 or a range of it; raise an error if it is not between 0 and 1."""
    if rate is None:
        return None
    pair = isinstance(rate, list | tuple)
    ends = [as_number(end, "rate") for end in (rate if pair else (rate,))]
    if (pair and len(ends) != 2) or not all(0 < end < 1 for end in ends) or ends != sorted(ends):  # noqa: PLR2004
        raise ArgumentError(
            f"rate={rate!r} is neither a share between 0 and 1 nor a range (low, high) of shares.",
            "Give the share of X = 1 as known from other sources, for example 0.3 or (0.2, 0.4).",
        )
    return (ends[0], ends[1]) if pair else ends[0]


def checked_tau(tau: Any) -> float:
    """Return tau, the chi² for which the unit circle mechanism has norm 1; raise an error if out of range."""
    if tau is None:
        return TAU
    number = as_number(tau, "tau")
    if not 1e-6 <= number <= 1e6:  # noqa: PLR2004 - far beyond what is of use, and safe in float64
        raise ArgumentError(
            f"tau={tau!r} must be between 1e-6 and 1e6.", f"Use a critical value of chi², such as {TAU:.4g} for 5%."
        )
    return number
