"""Report of a whole table as an HTML page: statistics and a picture of every column, and correlations.

The page has no script and loads nothing from elsewhere; all texts from the table are escaped.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ArgumentError, Column, Curator, Probability, Release, mechanism
from dfprivacy.arguments import NanPolicy
from dfprivacy.markup import Grid, escaped, paragraph
from dfprivacy.wording import ROW_ERROR, clearly_some, interval_text, limit_suffix, number
from dfprivacy_eda.correlation import Products, corr, measure_products
from dfprivacy_eda.counts import value_counts
from dfprivacy_eda.describe import (
    Description,
    TableMeasurement,
    columns_to_describe,
    describe,
    measure_description,
    split_budget,
)
from dfprivacy_eda.results import ROW_COUNTS, is_quantile
from dfprivacy_eda.tables import Counts, Histogram

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfprivacy_eda.correlation import Correlations
    from dfprivacy_eda.tree import CountTree

__all__ = ["BAR", "SURE", "Report", "binned_histogram", "html_page", "report"]

_MAX_BINS = 24  # bins of a picture
_TAIL_SHARE = 0.002  # of the rows, at each end, that a picture may leave out


BAR, SURE = "#5b8fc9", "#c2571a"  # on light and on dark: the suite computes their contrast on both
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # a browser refuses to load anything from anywhere
_STYLE = f"""
:root{{color-scheme:light dark}}
body{{margin:0 auto;max-width:60rem;padding:1rem 1.25rem 4rem;font:1rem/1.55 system-ui,sans-serif;
overflow-wrap:anywhere}}
h2{{margin-top:2.5rem;border-top:1px solid}}
nav ul{{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;list-style:none;padding:0}}
.skip{{position:absolute;left:-100vw}}.skip:focus{{position:static}}
.warning{{border:2px solid {SURE};padding:.5rem .75rem;font-weight:bold}}
.scroll{{overflow-x:auto}}.scroll td{{white-space:nowrap}}
.bars{{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}}
.bars caption,.bars th{{text-align:left}}.bars td{{text-align:right;padding:0 .6em}}
.bars .drawn{{width:50%;padding:0}}
.drawn span{{display:block;height:.6em;background:{BAR}}}.drawn span+span{{height:.2em;background:{SURE}}}
@media print{{nav,.skip{{display:none}}section{{break-inside:avoid}}*{{print-color-adjust:exact}}}}
"""
_CORR_NOTE = """From -1 to 1; 0 where there is no linear association. Computed from the rows with a value in all of
these columns."""
_NOTES = {
    "Every number here has noise.": """It was added on purpose, so that this page reveals little about any single
row of the table. Asking again does not average it away for free: each new answer costs more of the budget.""",
    "Intervals say how much.": """The orange lines, and “± …” or “… to …” in tables, are about this table's own
numbers: what a dataframe would print. They do not say how far the table is from a larger population that it may be
a sample of.""",
    "Each interval stands alone.": """At 95%, about one of 20 misses. On a page with a hundred numbers, expect a few
that do.""",
    "Bars are never negative.": """Noisy counts that fell below 0 were raised to 0 and the others lowered a
little, so very small bars are too long on average. Intervals are around the noisy counts themselves.""",
    "Values are clipped to their bounds.": """The bounds were declared when the table was protected. Values
beyond them count as the nearest bound.""",
    "A small effect may exist and not be detected.": """A wide interval means that the size is unknown, not
that it is 0.""",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class Report(Release):
    """Report on a table: ``save("report.html")`` writes an HTML page with statistics and pictures.

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
        """Write the report to one self-contained HTML file.

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
            raise ArgumentError(
                f"path= must be a file name, not a {type(path).__name__}.", 'Write save("report.html").'
            )
        file = Path(path)
        if not file.parent.is_dir():
            raise ArgumentError(f"There is no folder {str(file.parent)!r}.", "Create the folder first.")
        file.write_text(html_page(self, title), encoding="utf-8")
        return file

    def plot(self, ax: Any = None) -> Any:
        """Draw quartiles and means of the numeric columns, with intervals; `save` draws all other pictures."""
        return self.description.plot(ax)

    def with_library(
        self, library: str, words: Mapping[str, str] | None = None, units: Mapping[str, str] | None = None
    ) -> Report:
        """Return the report with tables of another dataframe library, and with labels and units of columns."""
        made = super().with_library(library, words, units)
        object.__setattr__(made, "description", self.description.with_library(library, words, units))
        return made

    def _tidy(self) -> Sequence[Mapping[str, Any]]:
        return self.description._tidy()  # noqa: SLF001 - of our own kind

    def _sentence(self) -> str:
        largest = "" if self.correlations is None else f" {self.correlations._sentence()}"  # noqa: SLF001 - own
        return f"{self.description._sentence()}{largest}"  # noqa: SLF001 - of our own kind

    def _grid(self) -> Grid | None:
        return self.description._grid()  # noqa: SLF001 - of our own kind

    def _rows(self) -> list[tuple[str, str]]:
        spent = ", ".join(f"{name} {share:.0%}" for name, share in self.shares.items())
        pictures = len(self.histograms) + len(self.counts)
        return [
            ("±", "one standard error of the privacy noise"),
            ("budget", spent),
            ("page", f'save("report.html") writes it, with {pictures} pictures'),
        ]


def binned_histogram(column: Column, measured_tree: CountTree, confidence: float) -> Histogram:
    """Return a histogram from a tree of counts, with as many bins as the noise allows.

    A bin is some neighbouring nodes of one level, all bins the same number. The bins go from where the noisy counts
    begin to where they end, but for 2 in 1,000 rows at each side. What a node's count varies by if it is estimated
    from itself and what is below is at least what it varies by in the whole tree, for which every count is used.
    """
    tree = measured_tree.tree
    ends = np.clip(tree.quantiles([_TAIL_SHARE, 1 - _TAIL_SHARE]), column.low, column.high)
    span = float(tree.edges[-1] - tree.edges[0])
    best: tuple[int, int, int, int, float] | None = None
    for level, nodes in list(enumerate(tree.sizes))[1:]:
        for merged in (8, 4, 2, 1):
            if merged * (tree.sizes[-1] // nodes) == 1 and measured_tree.layout.ends is not None:
                continue  # the first and the last interval have no width
            width = span * merged / nodes
            first, last = (int((end - tree.edges[0]) / width) for end in ends.tolist())
            last = min(last, math.ceil(nodes / merged) - 1)
            bins, error = last - first + 1, math.sqrt(merged * max(tree.spreads[level], 0.0))
            clear = error * bins <= max(tree.total, 0.0) / 2
            if bins <= _MAX_BINS and (best is None or (bins > best[2] and clear)):
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
        missing=measured_tree.missing[0],
        missing_standard_error=measured_tree.missing[1],
        column=column.name,
        edges=np.clip(tree.edges[np.append(starts, stop)], column.low, column.high),
        bounds=(column.low, column.high),
    )


@mechanism(columns={"columns": "columns"})
def report(
    curator: Curator, columns: tuple[Column, ...] | None = None, *, nan_policy: NanPolicy = "omit"
) -> tuple[TableMeasurement, Products | None]:
    """Report on a whole table: statistics and a picture of every column, and correlations.

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
    chosen = columns_to_describe(curator, columns)
    numbers = tuple(column for column in chosen if column.bounds is not None)
    shares = split_budget(len(numbers), len(chosen) - len(numbers), together=True)
    measured = measure_description(curator, chosen, shares, nan_policy, whole_trees=True)
    products = None
    if "correlations" in shares:
        products = measure_products(curator, numbers, nan_policy, limited=False)  # which the description tells
    return measured, products


@report.concludes
def conclude_report(parts: tuple[TableMeasurement, Products | None], *, confidence: Probability = 0.95) -> Report:
    """Compute the description of the columns, their counts and their correlations."""
    measured, products = parts
    told: dict[str, Any] = {"confidence": confidence}
    description = describe.conclude(measured, told)
    return Report(
        description=description,
        covers=description.covers,
        histograms=tuple(
            binned_histogram(column, measured.trees[column.name], confidence)
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
        correlations=None if products is None else corr.conclude(products, {**told, "recentre": False}),
        bounds=tuple(column.bounds for column in measured.columns.values()),
        shares=measured.shares,
        confidence=confidence,
    )


def html_page(report: Report, title: str | None) -> str:
    """Return the report as an HTML page.

    Parameters
    ----------
    report : Report
        What to show.
    title : str or None
        The heading; None: the data set's name.

    Returns
    -------
    str
        The whole of an HTML file.
    """
    name = title or (report.privacy.account if report.privacy else "A private table")
    described, words = report.description, report.column_words
    every: list[Histogram | Counts] = [*report.histograms, *report.counts]
    pictures = {each.column: replace(each, column_words=words) for each in every}
    names = [words.get(each, each) for each in described.columns]
    heads, *rows = zip(*((grid := described._grid()).heads, *grid.rows), strict=True)  # noqa: SLF001 - of our own kind
    glance = Grid(("column", *heads[1:]), [(name, *cells) for name, (_, *cells) in zip(names, rows, strict=True)])
    sections = [("glance", "At a glance", _html_table(glance, "All columns, ± standard error of the noise"))]
    sections += [
        (f"column-{at + 1}", each, _column_section(report, at, pictures[described.columns[at]]))
        for at, each in enumerate(names)
    ]
    if (matrix := report.correlations) is not None:
        grid = matrix._grid()  # noqa: SLF001 - of our own kind
        rows = [(words.get(name, name), *cells) for name, *cells in grid.rows]
        grid = Grid([words.get(name, name) for name in grid.heads], rows)
        shown = _html_table(grid, "Pearson's correlation, ± standard error of the noise")
        notes = "".join(map(paragraph, (_CORR_NOTE, *matrix.notes)))
        sections.append(("together", "Correlations", notes + shown))
    told = "".join(f"<li><strong>{escaped(what)}</strong> {escaped(text)}</li>" for what, text in _NOTES.items())
    sections.append(("reading", "How to read this page", f"<ul>{told}</ul>"))
    if report.privacy is not None:
        noise = Grid((), [(f"{at}", str(each)) for at, each in enumerate(report.privacy.noise, start=1)])
        told = _html_table(noise, "Every measurement behind this page")
        sections.append(("noise", "Noise", f"<details><summary>Measurements</summary>{told}</details>"))
    listed = "".join(f'<li><a href="#{at}">{escaped(text)}</a></li>' for at, text, _ in sections)
    body = "".join(
        f'<section aria-labelledby="{at}"><h2 id="{at}">{escaped(text)}</h2>{inner}</section>'
        for at, text, inner in sections
    )
    return "".join(
        [
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f"<title>{escaped(name)}: a private report</title><style>{_STYLE}</style></head>",
            '<body><a class="skip" href="#main">Skip to the report</a>',
            f'<header><h1>{escaped(name)}</h1></header><nav aria-label="Contents"><ul>{listed}</ul></nav>',
            f'<main id="main">{_payment_table(report)}{body}</main></body></html>\n',
        ]
    )


def _html_table(grid: Grid, caption: str) -> str:
    """Return a table as HTML that scrolls if it is wider than the page."""
    return (
        f'<div class="scroll" role="region" aria-label="{escaped(caption)}" tabindex="0">{grid.html(caption)}</div>'
    )


def _payment_table(report: Report) -> str:
    paid = report.privacy
    facts = [
        ("asked", f"a report of {len(report.description.columns)} columns"),
        ("split of the budget", ", ".join(f"{name} {share:.0%}" for name, share in report.shares.items())),
        (
            "intervals",
            (
                f"{100 * report.confidence:.4g}% for each interval, not for all together; for this table, "
                "not a population"
            ),
        ),
    ]
    warning = ""
    if paid is not None:
        where = [("where", " and ".join(paid.where))] if paid.where else []
        price = f"epsilon {paid.epsilon:g}" + (f", delta {paid.delta:g}" if paid.delta else "")
        again = ", when it was first asked; repeated here at no charge" if paid.replayed else ""
        at = paid.at.partition(".")[0].partition("+")[0].replace("T", " ")
        released = ("released", f"{at} UTC, by {paid.mechanism}")
        facts = [
            ("data set", paid.account),
            *where,
            *facts,
            ("paid", price + again),
            ("guarantee", paid.guarantee),
            released,
        ]
        if not paid.private:
            warning = f'<p class="warning" role="alert">{escaped(paid.guarantee)}</p>'
    return warning + _html_table(Grid((), facts), "What was asked, and the budget spent")


def _column_section(report: Report, at: int, picture: Histogram | Counts) -> str:
    """Return the HTML section of a column: its kind, its counts as bars, and its statistics."""
    described, bounds = report.description, report.bounds[at]
    of = described._entries[at * len(described.statistics) :][: len(described.statistics)]  # noqa: SLF001 - our own
    cells = {each.statistic: (each.value, each.error, each.low, each.high) for each in of if each.value is not None}
    column = report.column_words.get(picture.column, picture.column)
    text = f"{picture.raw.size:,} categories."
    if bounds is not None:
        outside = (cells["count"][0] or 0.0) - picture.total
        text = f"Numbers, clipped to {number(bounds[0])} to {number(bounds[1])}."
        if outside > picture.noise_standard_error:
            text += f" About {outside:,.0f} rows lie beyond the bins."
    rows = []
    for name, (value, error, low, high) in cells.items():
        least = 0.0 if name in {"count", "missing"} else -math.inf  # the noise knows no least
        past, rough = bounds if is_quantile(name) else None, ROW_ERROR if name in ROW_COUNTS else 0.0
        ends = (
            "" if low is None or high is None else interval_text(max(low, least), max(high, least), "", past, rough)
        )
        rows.append((name, number(value, max(error or 0.0, rough)) + limit_suffix(value, past), ends))
    grid = Grid(("statistic", "value", f"{100 * report.confidence:.4g}% CI"), rows)
    return (
        paragraph(f"{text} {_missing_text(cells)}")
        + _bar_table(picture, column)
        + _html_table(grid, f"Statistics of {column}")
    )


def _bar_table(release: Histogram | Counts, column: str) -> str:
    """Return a table of counts as HTML, with a bar and an interval for each count."""
    grid, (lows, highs) = release._grid(), release.intervals  # noqa: SLF001 - of our own kind
    most = float(max(highs.max(), release.counts.max(), 1.0))
    heads = "".join(f'<th scope="col">{escaped(head)}</th>' for head in (column, *grid.heads[1:]))
    rows = []
    drawn = np.stack([release.counts, lows, highs - lows], axis=1) * 100 / most
    for at, (name, *texts) in enumerate(grid.rows):
        told = "".join(f"<td>{escaped(text)}</td>" for text in texts)
        picture = ""
        if at < len(drawn) and texts[0]:
            width, start, reach = drawn[at]
            picture = f'<span style="width:{width:.1f}%"></span>'
            picture += f'<span style="margin-left:{start:.1f}%;width:{reach:.1f}%"></span>'
        bar = f'<td class="drawn" aria-hidden="true">{picture}</td>'
        rows.append(f'<tr><th scope="row">{escaped(name)}</th>{told}{bar}</tr>')
    caption = f"Number of rows by {column}; the line below each bar is its confidence interval"
    return (
        f'<table class="bars"><caption>{escaped(caption)}</caption><thead><tr>{heads}<td></td></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _missing_text(cells: dict[str, tuple[Any, Any, Any, Any]]) -> str:
    """Return a sentence on the number of missing values of a column: the number, or an upper limit."""
    gone, error, low, high = cells.get("missing", (None, None, None, None))
    if gone is None:
        return "The number of missing values is not known."
    if not error:
        return "No value is missing." if not gone else f"{number(gone)} values are missing."
    if not clearly_some(gone, error):
        return f"Few values are missing, if any: up to about {max(high, 0):,.0f}."
    ends = interval_text(max(low, 0.0), high, least=ROW_ERROR)
    return f"About {number(gone, ROW_ERROR)} values are missing ({ends})."
