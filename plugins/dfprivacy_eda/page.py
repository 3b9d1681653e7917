"""A report as one HTML page: no script, nothing loaded from elsewhere, all texts from the table escaped."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy.markup import Grid, escaped, paragraph
from dfprivacy.wording import between, beyond, clearly_some, number
from dfprivacy_eda.wording import is_quantile

if TYPE_CHECKING:
    from dfprivacy_eda.report import Report
    from dfprivacy_eda.tables import Counts, Histogram

__all__ = ["BAR", "SURE", "document"]

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
_TOGETHER = """From -1 to 1; 0 where knowing one column does not help to draw a straight line to the other. Of rows
with a value in every one of these columns."""
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
    described, words = report.description, report.column_words
    every: list[Histogram | Counts] = [*report.histograms, *report.counts]
    pictures = {each.column: replace(each, column_words=words) for each in every}
    names = [words.get(each, each) for each in described.columns]
    heads, *rows = zip(*((grid := described._grid()).heads, *grid.rows), strict=True)  # noqa: SLF001 - of our own kind
    glance = Grid(("column", *heads[1:]), [(name, *cells) for name, (_, *cells) in zip(names, rows, strict=True)])
    sections = [("glance", "At a glance", _table(glance, "All columns, ± standard error of the noise"))]
    sections += [
        (f"column-{at + 1}", each, _column(report, at, pictures[described.columns[at]]))
        for at, each in enumerate(names)
    ]
    if (matrix := report.correlations) is not None:
        grid = matrix._grid()  # noqa: SLF001 - of our own kind
        rows = [(words.get(name, name), *cells) for name, *cells in grid.rows]
        grid = Grid([words.get(name, name) for name in grid.heads], rows)
        shown = _table(grid, "Pearson's correlation, ± standard error of the noise")
        notes = "".join(map(paragraph, (_TOGETHER, *matrix.notes)))
        sections.append(("together", "Correlations", notes + shown))
    told = "".join(f"<li><strong>{escaped(what)}</strong> {escaped(text)}</li>" for what, text in _READING.items())
    sections.append(("reading", "How to read this page", f"<ul>{told}</ul>"))
    if report.privacy is not None:
        noise = Grid((), [(f"{at}", str(each)) for at, each in enumerate(report.privacy.noise, start=1)])
        told = _table(noise, "Every measurement behind this page")
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
            f'<main id="main">{_paid(report)}{body}</main></body></html>\n',
        ]
    )


def _table(grid: Grid, caption: str) -> str:
    """Wrap a table that may be wider than the page, so that it scrolls, by keyboard too."""
    return (
        f'<div class="scroll" role="region" aria-label="{escaped(caption)}" tabindex="0">{grid.html(caption)}</div>'
    )


def _paid(report: Report) -> str:
    paid = report.privacy
    facts = [
        ("asked", f"a report of {len(report.description.columns)} columns"),
        ("split of the budget", ", ".join(f"{name} {share:.0%}" for name, share in report.shares.items())),
        ("intervals", f"{100 * report.confidence:.4g}%, each on its own, for this table"),
    ]
    warning = ""
    if paid is not None:
        where = [("where", " and ".join(paid.where))] if paid.where else []
        price = f"epsilon {paid.epsilon:g}" + (f", delta {paid.delta:g}" if paid.delta else "")
        again = ", when it was asked first; nothing this time" if paid.replayed else ""
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
    return warning + _table(Grid((), facts), "What was asked and paid")


def _column(report: Report, at: int, picture: Histogram | Counts) -> str:
    """Write what is known of a column: what it is, its counts in bars, and its statistics with their intervals."""
    described, bounds = report.description, report.bounds[at]
    of = described._each[at * len(described.statistics) :][: len(described.statistics)]  # noqa: SLF001 - of our kind
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
        past = bounds if is_quantile(name) else None
        ends = "" if low is None or high is None else between(max(low, least), max(high, least), bounds=past)
        rows.append((name, number(value, error) + beyond(value, past), ends))
    grid = Grid(("statistic", "value", f"{100 * report.confidence:.4g}% CI"), rows)
    return paragraph(f"{text} {_missing(cells)}") + _bars(picture, column) + _table(grid, f"Statistics of {column}")


def _bars(release: Histogram | Counts, column: str) -> str:
    """Write a table of counts with a bar for each, and a line below it along the interval."""
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
    caption = f"Rows by {column}; below each bar its interval"
    return (
        f'<table class="bars"><caption>{escaped(caption)}</caption><thead><tr>{heads}<td></td></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


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
