"""What a test may be asked: refusals, before anything is measured."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dfprivacy import ArgumentError

if TYPE_CHECKING:
    from dfprivacy import Column
    from dfprivacy_kernel.design import Design
    from dfprivacy_kernel.embedding import Features
    from dfprivacy_kernel.groups import Groups
    from dfprivacy_kernel.printed import Variant
    from dfprivacy_kernel.results import Method

__all__ = ["check_groups", "check_method", "column_of"]


def column_of(by: Column | None, other: Column | None, *, paired: bool) -> Column:
    """Give the column that tells the samples apart."""
    if (by is None) == (other is None):
        raise ArgumentError(
            "Two samples are compared: two groups of one view, or two views.", "Give either by= or other=."
        )
    if paired and other is None:
        raise ArgumentError("Pairs are rows of two tables.", "Give the other table's view: other=.")
    column = by or other
    assert column is not None  # noqa: S101 - one of them is given
    return column


def check_method(
    method: Method,
    *,
    paired: bool,
    local: bool,
    pvalue: bool,
    permutations: int,
    alpha: float,
    variant: Variant | None,
    features: Features | None,
    gamma: float | None,
) -> None:
    """Refuse arguments that a method has no use for."""
    if variant is not None and method != "moments":
        raise ArgumentError(f"variant={variant!r} is of the moments test.", 'Use method="moments".')
    if variant is not None and features == "nystrom":
        raise ArgumentError(f"variant={variant!r} knows no Nyström features.", 'Use features="me" or "scf".')
    if variant == "tcmc" and local:
        raise ArgumentError("TCMC has one curator of both groups.", 'Use variant="nte", or leave out local=.')
    if variant == "nte" and paired:
        raise ArgumentError("NTE has two parties, who know no pairs.", 'Use variant="tcmc", or leave out paired=.')
    if gamma is not None and method != "whitened":
        raise ArgumentError("gamma= is the ridge of the whitened statistic.", 'Use method="whitened".')
    if local and (method != "moments" or paired):
        raise ArgumentError("Only groups' moments can be said apart.", 'Use method="moments" without paired=.')
    if pvalue and method not in {"permutation", "whitened"}:
        raise ArgumentError(f"method={method!r} has its p-value anyway.", "Leave out pvalue=.")
    if paired and method == "whitened":
        raise ArgumentError('method="whitened" knows no pairs.', 'Use "mmd", "permutation" or "moments".')
    if method in {"permutation", "whitened"} and (permutations + 1) * alpha < 1:
        raise ArgumentError(
            f"{permutations} permutations can never reject at level {alpha}.",
            f"Use {math.ceil(1 / alpha)} or more.",
        )


def check_groups(groups: Groups, design: Design, method: Method, *, paired: bool, variant: Variant | None) -> None:
    """Refuse groups that a method cannot compare."""
    if groups.by.name in {column.name for column in design.columns}:
        raise ArgumentError(f"by={groups.by.name!r} is among what is compared.", "Name the column of the groups.")
    if groups.rows is None and (method != "mmd" or paired):
        raise ArgumentError(
            f"method={method!r} needs groups whose sizes are public.",
            'Use method="mmd", protect the table with public=[...], or select rows by public columns only.',
        )
    if paired and groups.rows and groups.rows[0] != groups.rows[1]:
        raise ArgumentError(
            f"{groups.rows[0]} and {groups.rows[1]} rows are no pairs.", "Pairs need as many rows in both tables."
        )
    if variant == "tcmc" and groups.rows and groups.rows[0] != groups.rows[1]:
        raise ArgumentError(
            f"TCMC pairs rows by their order, and {groups.rows[0]} and {groups.rows[1]} rows are no pairs.",
            'Use variant="nte", or method="moments" without a variant.',
        )
    if paired and method == "moments" and design.features == "nystrom":
        raise ArgumentError("Moments of pairs need locations.", 'Use features="me" or "scf".')
