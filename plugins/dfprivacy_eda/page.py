"""A report as one HTML page: no script, nothing loaded from elsewhere, all texts from the table escaped."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dfprivacy.markup import Grid, escaped
from dfprivacy.wording import between, beyond, clearly_some, number
from dfprivacy_eda import figures
from dfprivacy_eda.plots import called
from dfprivacy_eda.results import is_quantile
from dfprivacy_eda.style import STYLE

if TYPE_CHECKING:
    from dfprivacy_eda.matrices import Correlations
    from dfprivacy_eda.report import Report
    from dfprivacy_eda.tables import Counts, Histogram

__all__ = ["document"]

_STRENGTHS = (0.1, 0.3, 0.6)  # correlations from which a cell has a colour, and a stronger one
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # a browser refuses to load anything from anywhere
_READING = {
    "Every number here has noise.": """It was added on purpose, so that nobody can tell from this page whether any
one row of the table was as it is. The noise does not fade with more reading: asking again would cost more of the
budget.""",
    "Intervals say how much.": """The orange lines, and “± …” or “… to …” in tables, are about this table's own
numbers: what a dataframe would print. They do not say how far the table is from a larger population that it may be
a sample of.""",
    "Each interval stands alone.": """At 95%, about one of 20 misses. On a page with a hundred numbers, expect a few
that do.""",
    "Bars are never below nothing.": """Noisy counts that fell below 0 were raised to 0 and the others lowered a
little, so very small bars are too long on average. Intervals are around the noisy counts themselves.""",
    "Values count as clipped to their bounds.": """The bounds were declared by whoever protected the table. What
lies beyond them counts as lying on them.""",
    "A small effect may be there and not be seen.": """Where an interval is wide, this page does not know; that is
not the same as nothing being there.""",
}


def document(report: Report, title: str | None) -> str:
    """Write the page.

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
    sections = [_columns(report), _together(report), _reading(), _noise(report)]
    links = [
        ("glance", "At a glance"),
        *(_anchors(report)),
        ("reading", "How to read this page"),
        ("noise", "Noise"),
    ]
    listed = "".join(f'<li><a href="#{at}">{escaped(text)}</a></li>' for at, text in links)
    return "".join(
        [
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f"<title>{escaped(name)}: a private report</title><style>{STYLE}</style></head>",
            '<body><a class="skip" href="#main">Skip to the report</a>',
            f'<header><h1>{escaped(name)}</h1></header><nav aria-label="Contents"><ul>{listed}</ul></nav>',
            f'<main id="main">{_paid(report)}{_glance(report)}{"".join(sections)}</main></body></html>\n',
        ]
    )


def _anchors(report: Report) -> list[tuple[str, str]]:
    names = [(f"column-{at}", called(report, name)) for at, name in enumerate(report.description.columns, start=1)]
    return names + ([("together", "Correlations")] if report.correlations else [])


def _table(grid: Grid, caption: str, kind: str = "scroll") -> str:
    """Wrap a table that may be wider than the page, so that it scrolls, by keyboard too."""
    inner = grid.html(caption)
    if kind != "scroll":
        return f'<div class="{kind}">{inner}</div>'
    return f'<div class="scroll" role="region" aria-label="{escaped(caption)}" tabindex="0">{inner}</div>'


def _paid(report: Report) -> str:
    paid = report.privacy
    spent = ", ".join(f"{name} {share:.0%}" for name, share in report.shares.items())
    facts = [
        ("asked", f"a report of {len(report.description.columns)} columns"),
        ("split of the budget", spent),
        ("intervals", f"{100 * report.confidence:.4g}%, each on its own, for this table's own numbers"),
    ]
    warning = ""
    if paid is not None:
        price = f"epsilon {paid.epsilon:g}" + (f", delta {paid.delta:g}" if paid.delta else "")
        facts = [
            ("data set", paid.account),
            *facts,
            ("paid", price + (", when it was asked first; nothing this time" if paid.replayed else "")),
            ("guarantee", paid.guarantee),
            (
                "released",
                f"{paid.at.partition('.')[0].partition('+')[0].replace('T', ' ')} UTC, by {paid.mechanism}",
            ),
        ]
        if not paid.private:
            warning = f'<p class="warning" role="alert">{escaped(paid.guarantee)}</p>'
    return warning + _table(Grid((), facts), "What was asked and paid", "facts")


def _glance(report: Report) -> str:
    """Write the description with a row for each column of the table: that fits a page best."""
    described = report.description
    names = [called(report, name) for name in described.columns]
    heads, *rows = zip(*((grid := described._grid()).heads, *grid.rows), strict=True)  # noqa: SLF001 - of our own kind
    rows = [(name, *cells) for name, (_, *cells) in zip(names, rows, strict=True)]
    table = _table(Grid(("column", *heads[1:]), rows), "All columns, ± standard error of the noise")
    return f'<section aria-labelledby="glance"><h2 id="glance">At a glance</h2>{table}</section>'


def _columns(report: Report) -> str:
    words = report.column_words
    histograms = {each.column: replace(each, column_words=words) for each in report.histograms}
    counts = {each.column: replace(each, column_words=words) for each in report.counts}
    parts = []
    for at, name in enumerate(report.description.columns):
        here = f"column-{at + 1}"
        if name in histograms:
            facts, body = _number(report, at, histograms[name], here)
        else:
            facts, body = _category(report, at, counts[name], here)
        title = escaped(called(report, name))
        parts.append(
            f'<section class="column" aria-labelledby="{here}"><header><h3 id="{here}">{title}</h3>'
            f'<p class="quiet">{escaped(facts)}</p></header>{body}</section>'
        )
    return f'<section aria-labelledby="columns"><h2 id="columns">Column by column</h2>{"".join(parts)}</section>'


def _cells(report: Report, at: int) -> dict[str, tuple[Any, Any, Any, Any]]:
    """Give what the description has of a column, by name: value, standard error and ends of the interval."""
    described = report.description
    tables = (described.values[at], described.standard_errors[at], described.lows[at], described.highs[at])
    cells = zip(described.statistics, zip(*tables, strict=True), strict=True)
    return {name: cell for name, cell in cells if cell[0] is not None}


def _facts(
    cells: dict[str, tuple[Any, Any, Any, Any]],
    confidence: float,
    caption: str,
    bounds: tuple[float, float] | None = None,
) -> str:
    rows = []
    for name, (value, error, low, high) in cells.items():
        least = 0.0 if name in {"count", "missing"} else -math.inf  # the noise knows no least
        past = bounds if is_quantile(name) else None
        ends = "" if low is None else between(max(low, least), max(high, least), bounds=past)
        rows.append((name, number(value, error) + beyond(value, past), ends))
    return _table(Grid(("statistic", "value", f"{100 * confidence:.4g}% interval"), rows), caption, "plain")


def _number(report: Report, at: int, histogram: Histogram, here: str) -> tuple[str, str]:
    cells, bounds = _cells(report, at), report.bounds[at]
    spans = [(name, cells[name][2], cells[name][0], cells[name][3]) for name in ("mean", "25%", "50%", "75%")]
    text = f"Numbers, clipped to {number(bounds[0])} to {number(bounds[1])}" if bounds else "Numbers"
    beyond = (cells["count"][0] or 0.0) - histogram.total
    note = f" About {beyond:,.0f} rows lie beyond the picture." if beyond > histogram.noise_standard_error else ""
    caption = (
        f"Rows by {called(histogram, histogram.column)}; orange: {100 * report.confidence:.4g}% intervals of the "
        f"bins, and of the mean and the quartiles below.{note}"
    )
    more = _details(histogram._grid(), f"Bins of {called(histogram, histogram.column)}")  # noqa: SLF001 - of our own kind
    drawn = figures.histogram(histogram, spans, here)
    picture = f"<figure>{drawn}<figcaption>{escaped(caption)}</figcaption>{more}</figure>"
    return f"{text}. {_missing(cells)}", picture + _facts(
        cells, report.confidence, f"Statistics of {called(histogram, histogram.column)}", bounds
    )


def _category(report: Report, at: int, counts: Counts, here: str) -> tuple[str, str]:
    cells = _cells(report, at)
    hidden = len(counts.categories) - figures.MOST_BARS
    caption = f"Rows by {called(counts, counts.column)}; orange: {100 * report.confidence:.4g}% intervals." + (
        f" The {hidden:,} smallest are not drawn." if hidden > 0 else ""
    )
    more = _details(counts._grid(), f"Counts of {called(counts, counts.column)}")  # noqa: SLF001 - of our own kind
    picture = f"<figure>{figures.bars(counts, here)}<figcaption>{escaped(caption)}</figcaption>{more}</figure>"
    text = f"{len(counts.categories):,} categories. {_missing(cells)}"
    return text, picture + _facts(cells, report.confidence, f"Statistics of {called(counts, counts.column)}")


def _missing(cells: dict[str, tuple[Any, Any, Any, Any]]) -> str:
    """Say what is known of missing values; only what is clearly above 0 is called a number."""
    gone, error, low, high = cells.get("missing", (None, None, None, None))
    if gone is None:
        return "How many values are missing is not known."
    if not error:
        return "No value is missing." if not gone else f"{number(gone)} values are missing."
    if not clearly_some(gone, error):
        return f"Few values are missing, if any: up to about {max(high, 0):,.0f}."
    return f"About {number(gone, error)} values are missing ({between(max(low, 0.0), high)})."


def _details(grid: Grid, caption: str) -> str:
    return f"<details><summary>The numbers of this picture</summary>{_table(grid, caption, 'plain')}</details>"


def _together(report: Report) -> str:
    matrix = report.correlations
    if matrix is None:
        return ""
    names = [called(report, name) for name in matrix.columns]
    heads = "".join(f'<th scope="col">{escaped(name)}</th>' for name in names)
    rows = []
    for i, name in enumerate(names):
        cells = "".join(_correlation(matrix, i, j) for j in range(len(matrix.columns)))
        rows.append(f'<tr><th scope="row">{escaped(name)}</th>{cells}</tr>')
    caption = "Pearson's correlation, ± standard error of the noise"
    notes = "".join(f"<p>{escaped(note)}</p>" for note in matrix.notes)
    text = """From -1 to 1; 0 where knowing one column does not help to draw a straight line to the other. Of rows
with a value in every one of these columns. Coloured where the interval leaves out 0: blue above, orange below."""
    return (
        '<section aria-labelledby="together"><h2 id="together">How columns go together</h2>'
        f'<p>{text}</p>{notes}<div class="scroll" role="region" aria-label="Correlations" tabindex="0">'
        f'<table class="matrix"><caption>{escaped(caption)}</caption><thead><tr><td></td>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _correlation(matrix: Correlations, i: int, j: int) -> str:
    value, error = float(matrix.values[i, j]), float(matrix.standard_errors[i, j])
    if i == j:
        return "<td>1</td>"
    if not math.isfinite(value):
        return "<td>not known</td>"
    low, high = float(matrix.lows[i, j]), float(matrix.highs[i, j])
    strength = sum(abs(value) >= least for least in _STRENGTHS)
    kind = ("up" if value > 0 else "down") if low > 0 or high < 0 else ""
    shade = f' class="{kind}{strength}"' if kind and strength else ""
    return f"<td{shade}>{value:.2f}<small>± {error:.2f}</small></td>"


def _reading() -> str:
    told = "".join(f"<li><strong>{escaped(what)}</strong> {escaped(text)}</li>" for what, text in _READING.items())
    return (
        f'<section aria-labelledby="reading"><h2 id="reading">How to read this page</h2><ul>{told}</ul></section>'
    )


def _noise(report: Report) -> str:
    if report.privacy is None:
        return ""
    rows = [(f"{at}", str(each)) for at, each in enumerate(report.privacy.noise, start=1)]
    table = _table(Grid((), rows), "Every measurement behind this page", "facts")
    return (
        '<section aria-labelledby="noise"><h2 id="noise">Noise</h2><details><summary>What was measured, with which '
        f"noise</summary>{table}</details></section>"
    )
