"""Format tables and texts as plain text, HTML, Markdown and LaTeX."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from dfprivacy._visible import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Grid", "Text", "escaped", "latex", "markdown", "paragraph"]

_WIDTH = 100  # of a text table; a wider one is broken into several

# Whatever surrounds a table is light or dark, and nobody knows which: the colours are the surroundings' own.
_TABLE = "border-collapse:collapse;margin:.5em 0;color:inherit;background:none"
_CAPTION = "caption-side:top;text-align:left;font-weight:bold;color:inherit;padding:.2em 0"
_CELL = "padding:.15em .8em .15em 0;vertical-align:top;color:inherit;background:none"
_RULE = "border-bottom:1px solid"
_PARAGRAPH = "margin:.5em 0;max-width:45em;color:inherit;background:none"


def escaped(text: object) -> str:
    """Escape a text for HTML, including quotation marks.

    Examples
    --------
    >>> escaped("<b title='x'>")
    '&lt;b title=&#x27;x&#x27;&gt;'
    """
    return html.escape(visible(text), quote=True)


def paragraph(text: object) -> str:
    """Return a text as an HTML paragraph, in the colours of the page and with a readable width.

    Examples
    --------
    >>> "&lt;b&gt;</p>" in paragraph("<b>")
    True
    """
    return f'<p style="{_PARAGRAPH}">{escaped(text)}</p>'


_LATEX = {
    **{each: f"\\{each}" for each in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "−": "$-$",
    "±": r"$\pm$",
    "≈": r"$\approx$",
    "ε": r"$\varepsilon$",
    "²": "$^2$",
    "×": r"$\times$",
}


def latex(text: object) -> str:
    r"""Escape a text for LaTeX.

    Examples
    --------
    >>> print(latex("95% of a_b"))
    95\% of a\_b
    """
    return "".join(_LATEX.get(each, each) for each in visible(text))


_MARKDOWN = re.compile(r"[\\`*\[\]|$]|~(?=\S)|(?<=\S)~|(?<!\w)_|_(?!\w)|^[#>]|^[+-](?= )")


def markdown(text: object) -> str:
    r"""Escape a text for Markdown, in a line, a cell or a heading.

    Examples
    --------
    >>> print(markdown("a_b of **<b>** [x](y) is | below"))
    a_b of \*\*&lt;b>\*\* \[x\](y) is \| below
    """
    shown = _MARKDOWN.sub(lambda found: f"\\{found[0]}", visible(text))
    return shown.replace("&", "&amp;").replace("<", "&lt;")


class Text(str):
    """Lines of text, displayed at a prompt without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Grid:
    r"""Table of texts for display; its first column names the rows.

    Attributes
    ----------
    heads : sequence of str
        The columns' names; none for a table of facts, which are a name and a value each.
    rows : sequence of sequences of str
        The cells.

    Examples
    --------
    >>> print("\n".join(Grid(("sex", "count"), [("f", "15"), ("m", "5")]).lines()))
    sex  count
    f       15
    m        5
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]

    def lines(self, width: int = _WIDTH) -> list[str]:
        """Format the table as lines of text with aligned columns.

        Parameters
        ----------
        width : int
            Width in characters. Columns that do not fit follow in a table below, with the rows' names again.

        Returns
        -------
        list of str
            The lines, without line breaks.
        """
        if not self.heads:
            rows = [[*map(visible, row)] for row in self.rows]
            longest = max((len(name) for name, *_ in rows), default=0)
            return [f"{name:<{longest}}  {'  '.join(texts)}" for name, *texts in rows]
        columns = [[*map(visible, column)] for column in zip(self.heads, *self.rows, strict=True)]
        wide = [max(map(len, column)) for column in columns]
        right = [_is_numeric(column[1:]) for column in columns]
        cuts, used = [1], wide[0]
        for at, each in enumerate(wide[1:], start=1):
            if used + 2 + each > width and at > cuts[-1]:
                cuts.append(at)
                used = wide[0]
            used += 2 + each
        lines: list[str] = []
        for first, last in pairwise([*cuts, len(columns)]) if len(columns) > 1 else [(1, 1)]:
            kept = [0, *range(first, last)]
            for row in zip(*(columns[at] for at in kept), strict=True):
                cells = (
                    f"{text:{'>' if right[at] and at else '<'}{wide[at]}}"
                    for at, text in zip(kept, row, strict=True)
                )
                lines.append("  ".join(cells).rstrip())
        return lines

    def html(self, caption: str, note: str = "") -> str:
        """Format the table as HTML, with a caption, headings and escaped texts.

        Parameters
        ----------
        caption : str
            Caption of the table.
        note : str
            A last row, below all columns.

        Returns
        -------
        str
            A ``table`` element in the colours of the page.
        """
        wide = max([len(self.heads), *map(len, self.rows)], default=1)
        ends = [_is_numeric(column) for column in zip(*self.rows, strict=True)] or [False] * wide
        right = [bool(at and end and self.heads) for at, end in enumerate(ends)]  # facts are words and numbers
        sides = [f"{_CELL};text-align:{'right;white-space:nowrap' if each else 'left'}" for each in right]
        parts = [f'<table style="{_TABLE}"><caption style="{_CAPTION}">{escaped(caption)}</caption>']
        if self.heads:
            heads = zip(sides, self.heads, strict=True)
            cells = (f'<th scope="col" style="{side};{_RULE}">{escaped(head)}</th>' for side, head in heads)
            parts.append(f"<thead><tr>{''.join(cells)}</tr></thead>")
        parts.append("<tbody>")
        for name, *texts in self.rows:
            cells = (
                f'<td style="{side}">{escaped(text)}</td>' for side, text in zip(sides[1:], texts, strict=True)
            )
            parts.append(f'<tr><th scope="row" style="{sides[0]}">{escaped(name)}</th>{"".join(cells)}</tr>')
        parts.append("</tbody>")
        if note:
            cell = f'<td colspan="{wide}" style="{_CELL};text-align:left">{escaped(note)}</td>'
            parts.append(f"<tfoot><tr>{cell}</tr></tfoot>")
        return "".join([*parts, "</table>"])

    def markdown(self) -> str:
        """Format the table as Markdown.

        Returns
        -------
        str
            Lines of text; a table of facts has a head without names.
        """
        wide = max([len(self.heads), *map(len, self.rows)], default=1)
        right = [_is_numeric(column) for column in zip(*self.rows, strict=True)] or [False] * wide
        rule = ["---:" if at and each else "---" for at, each in enumerate(right)]
        head, *rows = ([*map(markdown, row)] for row in (self.heads or [""] * wide, *self.rows))
        cells = [head, rule, *rows]
        return "\n".join(f"| {' | '.join(row)} |" for row in cells)

    def latex(self, caption: str, note: str = "") -> str:
        r"""Format the table as LaTeX, with the rules of the package booktabs.

        Parameters
        ----------
        caption : str
            Caption of the table.
        note : str
            A paragraph below the table.

        Returns
        -------
        str
            A ``table`` environment.
        """
        wide = max([len(self.heads), *map(len, self.rows)], default=1)
        right = [_is_numeric(column) for column in zip(*self.rows, strict=True)] or [False] * wide
        sides = "".join("r" if at and each else "l" for at, each in enumerate(right))
        lines = [" & ".join(map(latex, row)) + r" \\" for row in self.rows]
        head = [" & ".join(map(latex, self.heads)) + r" \\", r"\midrule"] if self.heads else []
        body = [r"\toprule", *head, *lines, r"\bottomrule"]
        return "\n".join(
            [
                r"\begin{table}",
                rf"\caption{{{latex(caption)}}}",
                rf"\begin{{tabular}}{{{sides}}}",
                *body,
                r"\end{tabular}",
                *([rf"\par\smallskip {latex(note)}"] if note else []),
                r"\end{table}",
            ]
        )


def _is_numeric(texts: Sequence[str]) -> bool:
    """Return whether the cells of a column are numbers, which are aligned to the right."""
    return all(not text or text[0].isdigit() or text[0] in "-−+≈<" for text in texts)
