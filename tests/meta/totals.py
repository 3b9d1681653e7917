"""Mechanisms that the tests of the conformance kit audit."""

from __future__ import annotations

import dfprivacy as dp


@dp.mechanism(columns={"column": "numeric"})
def total(curator, column):
    """The sum of a column, and no word on privacy."""
    return curator.sum(dp.features.Moments(column, degree=1)).values[0]


@dp.mechanism(columns={"column": "numeric"})
def private_total(curator, column):
    """The sum of a column, with Laplace noise [1]_: epsilon-differentially private.

    References
    ----------
    .. [1] Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in private data analysis. TCC.
    """
    return curator.sum(dp.features.Moments(column, degree=1)).values[0]


@dp.mechanism(columns={"column": "numeric", "other": "view"})
def difference(curator, column, *, other=None):
    """How far apart the sums of two tables are."""
    sums = curator.sum(dp.features.OneHot(other) * dp.features.Moments(column, degree=1)).values[:, 0]
    return sums[0] - sums[1]
