"""A report of a whole table: every column with a picture, and how columns go together, as a page to save."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ArgumentError, Column, Curator, Probability, Release, mechanism
from dfprivacy.arguments import NanPolicy
from dfprivacy_eda import page
from dfprivacy_eda.correlation import Products, corr
from dfprivacy_eda.correlation import measured as products_of
from dfprivacy_eda.counts import value_counts
from dfprivacy_eda.describe import Description, describe, described, measured_of, split
from dfprivacy_eda.joint import Measured
from dfprivacy_eda.tables import Counts, Histogram

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfprivacy.markup import Grid
    from dfprivacy_eda.correlation import Correlations
    from dfprivacy_eda.tree import Grown

__all__ = ["Report", "binned", "report"]

_MOST = 24  # bins of a picture
_TAIL = 0.002  # of the rows, at each end, that a picture may leave out


@dataclass(frozen=True, kw_only=True, repr=False)
class Report(Release):
    """What a first look at a table shows: ``save("report.html")`` writes it as a page.

    Attributes
    ----------
    description : Description
        Counts, moments and quartiles of numbers, the most frequent of categories.
    histograms : tuple of Histogram
        One for each column of numbers, between bins that follow from the noisy counts. They are of the release of
        the quartiles; their standard errors are at most those that are said.
    counts : tuple of Counts
        One for each column of categories.
    correlations : Correlations or None
        Of each two columns of numbers; None where there are not 2 to 100.
    bounds : tuple of (float, float) or None
        For each column of the description, to what its values were clipped; None of categories.
    shares : dict
        The part of the budget that went to moments, quartiles, categories and correlations.
    confidence : float
        Coverage of each interval.
    """

    description: Description
    histograms: tuple[Histogram, ...]
    counts: tuple[Counts, ...]
    correlations: Correlations | None
    bounds: tuple[tuple[float, float] | None, ...]
    shares: dict[str, float]
    confidence: float

    def save(self, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
        """Write the report as one HTML page, which loads nothing from elsewhere.

        Parameters
        ----------
        path : str or path
            The file; what is there is replaced.
        title : str, optional
            The page's heading; default: the data set's name.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        ArgumentError
            If that is no path, or its folder is not there.
        """
        if not isinstance(path, str | os.PathLike):
            raise ArgumentError(f"A {type(path).__name__} is no path.", 'For example save("report.html").')
        file = Path(path)
        if not file.parent.is_dir():
            raise ArgumentError(f"There is no folder {str(file.parent)!r}.", "Make it first.")
        file.write_text(page.document(self, title), encoding="utf-8")
        return file

    def plot(self, ax: Any = None) -> Any:
        """Draw quartiles and mean of each column of numbers, with their intervals; `save` draws everything."""
        return self.description.plot(ax)

    def made_for(
        self, library: str, words: Mapping[str, str] | None = None, units: Mapping[str, str] | None = None
    ) -> Report:
        """Return the same result for somebody whose tables are this library's, and who calls columns so."""
        made = super().made_for(library, words, units)
        object.__setattr__(made, "description", self.description.made_for(library, words, units))
        return made

    def _tidy(self) -> Sequence[Mapping[str, Any]]:
        return self.description._tidy()  # noqa: SLF001 - of our own kind

    def _sentence(self) -> str:
        return self.description._sentence()  # noqa: SLF001 - of our own kind

    def _grid(self) -> Grid | None:
        return self.description._grid()  # noqa: SLF001 - of our own kind

    def _rows(self) -> list[tuple[str, str]]:
        spent = ", ".join(f"{name} {share:.0%}" for name, share in self.shares.items())
        pictures = len(self.histograms) + len(self.counts)
        return [
            ("±", "one standard error, which privacy adds"),
            ("budget", spent),
            ("page", f'save("report.html") writes it, with {pictures} pictures'),
        ]


def binned(column: Column, grown: Grown, confidence: float) -> Histogram:
    """Make a histogram of a tree of counts, of as many bins as its noise is worth.

    A bin is some neighbouring nodes of one level, all bins the same number. The bins go from where the noisy counts
    begin to where they end, but for 2 in 1,000 rows at each side. What a node's count varies by if it is estimated
    from itself and what is below is at least what it varies by in the whole tree, for which every count is used.
    """
    tree = grown.tree
    ends = np.clip(tree.quantiles([_TAIL, 1 - _TAIL]), column.low, column.high)
    span = float(tree.edges[-1] - tree.edges[0])
    best: tuple[int, int, int, int, float] | None = None
    for level, nodes in list(enumerate(tree.sizes))[1:]:
        for merged in (8, 4, 2, 1):
            if merged * (tree.sizes[-1] // nodes) == 1 and grown.layout.ends is not None:
                continue  # the first and the last interval have no width
            width = span * merged / nodes
            first, last = (int((end - tree.edges[0]) / width) for end in ends.tolist())
            last = min(last, math.ceil(nodes / merged) - 1)
            bins, error = last - first + 1, math.sqrt(merged * max(tree.spreads[level], 0.0))
            clear = error * bins <= max(tree.total, 0.0) / 2
            if bins <= _MOST and (best is None or (bins > best[2] and clear)):
                best = (level, merged, bins, first, error)
    level, merged, bins, first, error = best or (0, 1, 1, 0, math.sqrt(tree.spreads[0]))
    per = merged * (tree.sizes[-1] // tree.sizes[level])  # leaves in a bin
    starts = per * np.arange(first, first + bins)
    stop = min(per * (first + bins), tree.sizes[-1])
    raw, shown = (np.add.reduceat(each[:stop], starts) for each in (tree.leaves, tree.counts))
    return Histogram(
        raw=raw,
        total=float(shown.sum()),
        noise_scale=error / math.sqrt(2),
        confidence=confidence,
        missing=grown.missing[0],
        missing_standard_error=grown.missing[1],
        column=column.name,
        edges=np.clip(tree.edges[np.append(starts, stop)], column.low, column.high),
        bounds=(column.low, column.high),
    )


@dataclass(frozen=True)
class Looked:
    """What was measured: a description of the columns, and products of those with bounds."""

    measured: Measured
    products: Products | None
    shares: dict[str, float]


@mechanism(columns={"columns": "columns"})
def report(
    curator: Curator, columns: tuple[Column, ...] | None = None, *, nan_policy: NanPolicy = "omit"
) -> Looked:
    """Look at a whole table once: every column with a picture, and how columns go together.

    Parameters
    ----------
    columns : str or list of str, optional
        Columns with bounds or categories. Default: all of them.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows without a value: ``"omit"`` leaves them out, of a column's own numbers where its value
        is missing, of correlations where any is; ``"fill"`` counts them with the column's fill value; ``"raise"``
        refuses them, where the columns are public.
    confidence : float
        Coverage of the intervals, each on its own.

    Returns
    -------
    Report
        A description, a histogram or counts of each column, correlations; ``save("report.html")`` writes a page.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used, or no column has bounds or categories; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation: the measurements of `describe`
    and of `corr`, one after another, whose epsilons add up to ε. Each column of numbers has one part for its
    moments, two for its quartiles and its histogram, which are of one tree of counts [1]_, and two for
    correlations; each column of categories has one.

    **Statistics.** As for `describe`, `quantile`, `value_counts` and `corr`. All else, the bins of the pictures
    included, follows from what was measured.

    References
    ----------
    .. [1] Hay, Rastogi, Miklau and Suciu (2010). Boosting the accuracy of differentially private histograms through
       consistency. VLDB.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": [22, 31, 27, 40] * 5000, "sex": ["f", "m", "f", "f"] * 5000})
    >>> view = dp.protect(df, "eda-report", epsilon=1, ledger="memory:",
    ...                   bounds={"age": (0, 100)}, categories={"sex": ["f", "m"]})
    >>> seen = view.report(epsilon=1)
    >>> round(seen.description.loc["mean", "age"]), seen.counts[0].categories
    (30, ('f', 'm'))
    >>> seen.save("report.html").name
    'report.html'
    """
    chosen = described(curator, columns)
    numbers = tuple(column for column in chosen if column.bounds is not None)
    shares = split(len(numbers), len(chosen) - len(numbers), together=True)
    measured = measured_of(curator, chosen, shares, nan_policy, whole_trees=True)
    products = None
    if "correlations" in shares:
        products = products_of(curator, numbers, nan_policy, limited=False)  # which the description tells
    return Looked(measured, products, {name: float(share) for name, share in shares.items()})


@report.concludes
def _(looked: Looked, *, confidence: Probability = 0.95) -> Report:
    """Describe, count, and divide covariances by standard deviations."""
    measured = looked.measured
    told: dict[str, Any] = {"confidence": confidence}
    description = describe.conclude(measured, told)
    return Report(
        description=description,
        covers=description.covers,
        histograms=tuple(
            binned(column, measured.trees[column.name], confidence)
            for column in measured.columns.values()
            if column.name in measured.trees
        ),
        counts=tuple(
            value_counts.conclude(
                measured.cells[column.name], {**told, "column": column, "normalize": False, "sort": True}
            )
            for column in measured.columns.values()
            if column.name in measured.cells
        ),
        correlations=None
        if looked.products is None
        else corr.conclude(looked.products, {**told, "recentre": False}),
        bounds=tuple(column.bounds for column in measured.columns.values()),
        shares=looked.shares,
        confidence=confidence,
    )
