"""``view.kernel_locations``: choose test locations for a moments test of other rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from dfprivacy import NanPolicy, Range, Release, mechanism
from dfprivacy.schema import chosen_groups
from dfprivacy_kernel.design import Count, Design, Groups, Mismatch, check_groups, group_column
from dfprivacy_kernel.embedding import ROUNDING, make_embedding
from dfprivacy_kernel.statistics import GroupStatistic, norm_ratio

if TYPE_CHECKING:
    from dfprivacy import Column, Curator
    from dfprivacy.features import Batch
    from dfprivacy_kernel.embedding import Array, Embedding

__all__ = ["KernelLocations", "Witness", "kernel_locations"]

_MAX_KERNEL_VALUE = 0.5  # kernel value of two locations above which the second would tell little more


@dataclass(frozen=True, kw_only=True, repr=False)
class KernelLocations(Release):
    """Test locations: public rows at which the mean kernel values of two groups differ most.

    Attributes
    ----------
    locations : tuple of tuples
        Rows of the columns, as `kernel_two_sample` takes them: the first was chosen first.
    columns : tuple of str
        The columns, categories last.
    lengthscale : float
        Of the kernel, in sixths of the bounds' widths; the test should take the same.
    notes : tuple of str
        What to know before using them.
    """

    locations: tuple[tuple[Any, ...], ...]
    columns: tuple[str, ...]
    lengthscale: float
    notes: tuple[str, ...] = ()

    _shown = ("columns", "lengthscale", "locations", "notes")

    def _sentence(self) -> str:
        """Write a sentence with the number of test locations and their purpose."""
        places = f"{len(self.locations)} test location{'s' * (len(self.locations) != 1)}"
        what = f"{places} of {self._label(*self.columns)}"
        apart = f"the largest noisy difference{'s' * (len(self.locations) != 1)} between the groups"
        return f"{what} with {apart}, for a test of other rows; no test was made."

    def _tidy(self) -> list[dict[str, Any]]:
        """Return the value of each column at each location as rows of a tidy table."""
        places = [at for at in range(1, len(self.locations) + 1) for _ in self.columns]
        values = [value for location in self.locations for value in location]
        return [{"location": places, "column": list(self.columns) * len(self.locations), "value": values}]


class Witness(GroupStatistic):
    """Absolute difference of the mean kernel values of two groups at public rows (the witness function).

    Means are sums over complete rows, divided by the number of all. Kernel values are in [0, 1], so one row of a
    group of n moves each by 1/n at most, whether it changes or loses a value.
    """

    def __init__(self, groups: Groups, embedding: Embedding) -> None:
        super().__init__(groups, replace(embedding, centre=0.0), (len(embedding.map),))
        self.rows = groups.rows or groups.divisors
        self.error = 2 * ROUNDING
        self.what = f"the witness function at {self.dimension} public rows"

    def value(self, rows: Batch) -> Array:
        """Compute the absolute difference at each public row."""
        samples = self.groups.samples(rows, self.embedding, paired=False)
        first, second = (sample.total() / size for sample, size in zip(samples, self.rows, strict=True))
        apart: Array = np.abs(first - second)
        return apart

    def row_bound(self, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Return an upper bound of the change of the differences when one row changes."""
        return norm_ratio(norm, self.dimension) / min(self.rows)


@mechanism(columns={"columns": ["numeric"], "categories": ["category"], "by": "category", "other": "view"})
def kernel_locations(
    curator: Curator,
    columns: Sequence[Column],
    by: Column | None = None,
    *,
    groups: Sequence[Any] | None = None,
    other: Column | None = None,
    lengthscale: Annotated[float, Range(0, exclusive="low")] | None = None,
    locations: Sequence[Any] | None = None,
    n_candidates: Count = 200,
    n_locations: Annotated[int, Range(1, 50)] = 5,
    categories: Sequence[Column] | None = None,
    mismatch: Mismatch = 0.5,
    nan_policy: NanPolicy = "omit",
) -> KernelLocations:
    r"""Choose test locations where two groups differ most, for ``kernel_two_sample(method="moments")``.

    Ask it of rows that are held out, ``view.where(fold=0)`` with a public column, and test the others: chosen on
    the rows that are tested, locations would make p-values too small.

    Parameters
    ----------
    columns : list of str
        Columns with bounds.
    by : str, optional
        The column of the groups, which must be public.
    groups : list or tuple of two categories, optional
        The groups to compare; default: the column's, if it has two.
    other : view, optional
        In place of `by`: the view of another data set. Both accounts pay, or neither.
    lengthscale : float, optional
        As for `kernel_two_sample`.
    locations : list of rows, optional
        Public rows to choose from.
    n_candidates : int
        How many are made where none are given.
    n_locations : int
        How many are chosen, fewer if no more are different enough.
    categories : list of str, optional
        Columns with categories.
    mismatch : float
        What a different category leaves of the kernel, in [0, 1).
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows in which a value is missing, see `kernel_two_sample`.

    Returns
    -------
    KernelLocations
        ``locations``, to be given to the test.

    Raises
    ------
    ArgumentError
        If an argument cannot be used, or the groups are private; nothing is charged.
    BudgetExceeded
        If an account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy. One location after the other is selected, each for its part of ε, by
    permute-and-flip or the exponential mechanism, with the distance of the groups' mean kernel values there as its
    score: one row of a group of n moves that by 1/n at most. What is nearer to a chosen one than a kernel value of
    1/2 is left out of the next choice, which depends on what is public only.

    **Statistics.** The reference optimises locations on held-out rows by gradients, without privacy [1]_. It pays
    where groups differ in a small part of the bounds only; else the rows and the ε are better spent on the test
    (docs/papers/raj2019.md).

    References
    ----------
    .. [1] A. Raj, H. C. L. Law, D. Sejdinovic, M. Park. A differentially private kernel two-sample test. ECML 2019.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> rng = np.random.default_rng(1)
    >>> df = pd.DataFrame({"x": rng.normal(size=20_000), "arm": ["a", "b"] * 10_000})
    >>> df["fold"] = [0, 0, 1, 1, 1] * 4000
    >>> df.loc[df.arm == "b", "x"] += 1
    >>> view = dp.protect(df, "kernel-locations", epsilon=4, delta=1e-6, ledger="memory:", bounds={"x": (-5, 5)},
    ...                   categories={"arm": ["a", "b"], "fold": [0, 1]}, public=["arm", "fold"])
    >>> where = view.where(fold=0).kernel_locations(["x"], by="arm", n_locations=2, epsilon=1)
    >>> test = view.where(fold=1).kernel_two_sample(["x"], by="arm", method="moments", locations=where.locations,
    ...                                             lengthscale=where.lengthscale, epsilon=1)
    >>> test.pvalue < 0.001
    True
    """
    column = group_column(by, other, paired=False)
    pair = chosen_groups(column, groups)
    design = Design.from_arguments(
        (*columns, *(categories or ())), "me", lengthscale, mismatch, locations, n_candidates
    )
    compared = Groups.from_columns(curator, column, (pair[0], pair[1]), design.columns, nan_policy)
    check_groups(compared, design, "moments")
    points, chosen = design.points, []
    for step in range(n_locations):
        embedding = make_embedding("me", design.columns, design.lengthscales, points, design.mismatch, mapped=False)
        (best,) = curator.select(Witness(compared, embedding), share=Fraction(1, n_locations))
        chosen.append(points[best])
        (part,) = embedding.parts
        points = points[part.features(points)[:, best] <= _MAX_KERNEL_VALUE]  # type: ignore[attr-defined]
        if not len(points) and step < n_locations - 1:
            break
    return KernelLocations(
        locations=design.location_rows(np.array(chosen)),
        columns=tuple(column.name for column in design.columns),
        lengthscale=design.lengthscales[0],
        notes=("Use other rows for the test: with locations chosen from the tested rows, p-values are too small.",),
    )
