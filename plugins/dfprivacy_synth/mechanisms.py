"""``view.synth``: measure informative contingency tables of few columns, and publish a synthetic table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ArgumentError, mechanism
from dfprivacy.estimates import check_squares
from dfprivacy.features import OneHot, RowFeatures, Stack
from dfprivacy.schema import Column
from dfprivacy.statistics import gaussian_scale
from dfprivacy_synth.cliques import CELLS_MAX, PenalizedDistances, candidates, cell_indicators
from dfprivacy_synth.coding import (
    CODES,
    Coding,
    IntegerIndicator,
    Offsets,
    even_edges,
    interval_counts,
    quantile_edges,
    value_counts,
)
from dfprivacy_synth.model import Clique, NoisyTable, simplex
from dfprivacy_synth.release import Measured, Synth

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy import Curator, NoisyValue

    Array = NDArray[np.float64]

__all__ = ["check_synth", "plan_synth", "synth"]

_FIRST = Fraction(1, 10), Fraction(1, 3)
"""The least and the largest part of mu squared for the counts of single columns."""
_CLEAR_ENOUGH = 300.0
"""Standard errors of a count of a single column that all rows are to be, if the largest part allows it."""
_AGAIN, _CHOSEN = Fraction(1, 10), Fraction(1, 10)
"""Parts for numbers twice more, and for the choice of tables."""
_WHOLE = 0.25
"""What a row with an integer counts, beside 1 for the interval that it is in."""
_MOSTLY, _MANY = 0.9, 40.0
_EXACT = 2.0**53  # beyond, every float is whole
_EXACT_VARIANCE = 1e-6  # as which counts of public columns alone are averaged with others
_WIDTH = 2
_CATEGORIES_MAX = 100_000


@mechanism(columns={"columns": "columns", "target": "any"}, delta=True)
def synth(curator: Curator, columns: tuple[Column, ...] | None = None, *, target: Column | None = None) -> Measured:
    """Publish a synthetic table, together with the noisy contingency tables that it is drawn from.

    Parameters
    ----------
    columns : str or list of str, optional
        Columns with bounds or categories; default: all of them.
    target : str, optional
        A column that every measured table holds, so that all that is asked by it is known.

    Returns
    -------
    Synth
        ``sample()`` draws rows. ``mean``, ``crosstab``, ``proportions``, ``ttest`` and ``ols`` answer, with
        intervals, what follows from a measured table, and refuse the rest.

    Raises
    ------
    ArgumentError
        If a column has neither bounds nor categories, or all columns are public; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** (ε, δ)-differential privacy for the account's neighbouring relation: Gaussian noise, and selections
    by the exponential mechanism, are parts of one Gaussian mechanism (docs/explanation/accounting.md). Drawing rows
    and answering are post-processing.

    **Construction.** A tenth to a third of the squared signal-to-noise ratio μ², the more the fewer rows there are,
    measures the counts of each column. Numbers are limited to where rows are clearly seen, and cut into intervals
    that are close where many rows are. Up to a tenth counts these, and up to another measures where the numbers lie
    in them; neighbouring ones become one of at most 32 codes. Categories whose count is below 3 standard errors of
    its noise count as one. A tenth chooses tables, one after another: each joins a new column to one or two that
    have a table. The score is the distance of the table from the one that is expected without it, less what noise
    alone would show. The rest measures each chosen table. Shared margins are averaged, negative counts removed, and
    rows are drawn table by table (select, measure, generate [1]_ [2]_; with at most three columns a table the model
    has a closed form).

    **Statistics.** What is a function of one measured table is read off that table as it was measured, and its
    interval accounts for the noise and, for a population, the sampling of rows. Of columns that no table holds
    together the model assumes independence given the columns between them, which no interval could cover.

    References
    ----------
    .. [1] McKenna, Miklau and Sheldon (2021). Winning the NIST contest: a scalable and general approach to
       differentially private synthetic data. Journal of Privacy and Confidentiality 11.
    .. [2] McKenna, Mullins, Sheldon and Miklau (2022). AIM: an adaptive and iterative mechanism for differentially
       private synthetic data. VLDB.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"smoker": ["no", "yes", "no"] * 4000, "age": np.arange(12_000) % 60 + 20})
    >>> view = dp.protect(df, "synth-example", epsilon=2, delta=1e-6, ledger="memory:",
    ...                   bounds={"age": (0, 100)}, categories={"smoker": ["no", "yes"]})
    >>> synthetic = view.synth(epsilon=1)
    >>> synthetic.sample(5).shape
    (5, 2)
    >>> synthetic.knows("smoker", "age")
    True
    """
    columns = _columns_of(curator, columns, target)
    d, numbers = len(columns), [column for column in columns if _is_numeric(column)]
    tables = max(d - 1, 0)
    first = _single_columns_share(curator, d) if tables else Fraction(1, 1 + bool(numbers))
    free = _is_public(curator, numbers) or not numbers  # they come exact, beside the plan
    finer = Fraction(len(numbers), d) * _AGAIN if tables else Fraction(bool(numbers), 4)
    each = (1 - first - 2 * finer - _CHOSEN) / tables if tables else Fraction(0)

    counted = Stack(
        *(interval_counts(c, even_edges(c)) if _is_numeric(c) else value_counts(c) for c in columns),
        *(IntegerIndicator(c, _WHOLE) for c in numbers),
    )
    planned: list[tuple[Any, Fraction]] = [(counted, first)]
    if not free:
        cut = [even_edges(c) for c in numbers]
        planned.append((Stack(*(interval_counts(c, of) for c, of in zip(numbers, cut, strict=True))), finer))
        planned.append((Stack(*(Offsets(c, of.tolist()) for c, of in zip(numbers, cut, strict=True))), finer))
    planned += [("select", _CHOSEN / max(tables, 1)), (_largest_table(), each)] * tables
    count, *more = curator.jointly(*planned)

    noisy = count(counted)
    again, more = ([curator.sum] * 2, more) if free else (more[:2], more[2:])
    codings, single, rows = _codings(curator, columns, noisy, again)
    coded = [coding.column(column) for coding, column in zip(codings, columns, strict=True)]
    noise = _noise_of_table(curator, noisy, counted, first, each) if tables else 0.0
    cliques, measured = _measure_tables(
        codings, coded, single, rows, noise, more, None if target is None else columns.index(target)
    )
    return Measured(
        codings=codings,
        single=single,
        cliques=cliques,
        tables=measured,
        rows=rows,
        public_rows=curator.size is not None,
        relation=curator.neighbors,
    )


@synth.concludes
def conclude_synth(measured: Measured, *, target: Column | None) -> Synth:
    """Construct the synthetic table from the noisy contingency tables."""
    return Synth.from_measurement(measured, None if target is None else target.name)


def check_synth(*, target: Column | None = None, columns: tuple[Column, ...] | None = None, **_: Any) -> None:
    """Check the arguments of `synth` before anything is charged."""
    for column in (*(columns or ()), *(() if target is None else (target,))):
        if column.bounds is None and column.categories is None:
            raise ArgumentError(
                f"{column.name!r} has neither bounds nor categories.", "Declare bounds or categories for it."
            )
        if column.bounds is not None:
            check_squares(column)
        if column.categories is not None and len(column.categories) > _CATEGORIES_MAX:
            raise ArgumentError(
                f"{column.name!r} has more than {_CATEGORIES_MAX:,} categories.",
                "Omit it from columns=, or declare fewer categories.",
            )
    names = [column.name for column in columns or ()]
    if len(set(names)) < len(names):
        raise ArgumentError(f"columns={names!r} has a column twice.", "Name each column once.")
    if target is not None and names and target.name not in names:
        raise ArgumentError(f"target={target.name!r} is not one of columns={names!r}.", "Add it to columns=.")


def plan_synth(curator: Curator, **_: Any) -> Mapping[str, Any]:
    """Return the expected standard error of a count, from public numbers; for ``explain``."""
    law = curator.measured[-1]
    rows, assumed = curator.supposed_size
    given = assumed and f", if {assumed}"
    return {
        "standard error of a count in a measured table": law.scale,
        f"standard error relative to the number of rows{given}": f"{law.scale / max(rows, 1):.2%}",
    }


def _columns_of(curator: Curator, columns: tuple[Column, ...] | None, target: Column | None) -> tuple[Column, ...]:
    columns = curator.columns if columns is None else columns
    check_synth(target=target, columns=columns)
    if columns and _is_public(curator, columns):
        raise ArgumentError(
            "All of these columns are public.", "Share the values of these columns; this needs no privacy budget."
        )
    if not columns:
        raise ArgumentError(
            "No column has bounds or categories.",
            "Declare bounds or categories: protect(..., bounds={...}, categories={...}).",
        )
    return columns


def _single_columns_share(curator: Curator, columns: int) -> Fraction:
    """Return the share of the budget (mu squared) for counts of single columns, larger for fewer rows."""
    rows, _ = curator.supposed_size
    noise = gaussian_scale(curator.epsilon, curator.delta)
    part = columns * (_CLEAR_ENOUGH * noise / max(rows, 1)) ** 2
    return Fraction(round(60 * min(max(part, float(_FIRST[0])), float(_FIRST[1]))), 60)


def _is_public(curator: Curator, columns: Sequence[Column]) -> bool:
    """Return whether neighbouring tables agree on all of the columns, so that their sums are exact and free."""
    agreed = curator.neighbors == "replace_one" and curator.size is not None
    return agreed and all(column.public for column in columns)


def _is_numeric(column: Column) -> bool:
    return column.categories is None


def _largest_table() -> RowFeatures:
    """Return features as large as the largest contingency table that may be measured, for planning its noise."""
    return OneHot(*(Column(f"code {at}", categories=tuple(range(CODES))) for at in (1, 2, 3)))


def _noise_of_table(
    curator: Curator, noisy: NoisyValue, counted: RowFeatures, first: Fraction, each: Fraction
) -> float:
    """Compute the standard error of a contingency table's counts from that of the counts of single columns."""
    one = _largest_table().sensitivity(curator.neighbors, 2, frozenset())
    public = frozenset(column.name for column in counted.columns if column.public)
    stacked = counted.sensitivity(curator.neighbors, 2, public)
    return float(noisy.parts[0].scales.max()) * one / stacked * math.sqrt(first / each)


def _codings(
    curator: Curator,
    columns: Sequence[Column],
    noisy: NoisyValue,
    again: Sequence[Callable[[RowFeatures], NoisyValue]],
) -> tuple[tuple[Coding, ...], tuple[NoisyTable, ...], float]:
    """Return the coding and noisy counts of each column, and the public or noisy number of rows."""
    parts, numbers = noisy.parts, [column for column in columns if _is_numeric(column)]
    noise = float(parts[0].scales.max())
    rows = float(curator.size or 0) or _estimated_rows([part.values for part in parts[: len(columns)]])
    wholes = dict(zip(numbers, parts[len(columns) :], strict=True))
    edges: dict[Column, Array] = {}
    whole: dict[Column, bool] = {}
    for column, part in zip(columns, parts, strict=False):
        if _is_numeric(column):
            there = part.values[:-1].sum()
            least = max(_MOSTLY * there, _MANY * noise)
            whole[column] = bool(
                wholes[column].values[0] >= least
                and math.floor(column.high) > math.ceil(column.low)
                and max(abs(column.low), abs(column.high)) <= _EXACT
            )
            edges[column] = quantile_edges(even_edges(column), part.values[:-1], noise, whole=whole[column])
    of_number: dict[Column, tuple[Coding, float]] = {}
    first_of = dict(zip(columns, parts, strict=False))
    if numbers:
        count, locate = again
        counted = count(Stack(*(interval_counts(column, edges[column]) for column in numbers))).parts
        for column, part in zip(numbers, counted, strict=True):
            noise = float(part.scales.max())
            coding = Coding.from_intervals(column, edges[column], part.values, noise, whole=whole[column])
            first_counts = first_of[column]
            out = (even_edges(column)[1:] <= edges[column][0]) | (even_edges(column)[:-1] >= edges[column][-1])
            coding = replace(
                coding,
                beyond=float(first_counts.values[:-1][out].sum()),
                beyond_error=float(first_counts.scales.max() * math.sqrt(out.sum())),
            )
            of_number[column] = coding, noise
        offsets = locate(Stack(*(Offsets(column, of_number[column][0].edges) for column in numbers))).parts
        for column, part in zip(numbers, offsets, strict=True):
            coding, noise = of_number[column]
            of_number[column] = coding.with_means(part.values, float(part.scales.max())), noise
    codings, single = [], []
    for place, (column, part) in enumerate(zip(columns, parts, strict=False)):
        noise = float(part.scales.max())
        coding, noise = of_number.get(column) or (Coding.from_categories(column, part.values, noise), noise)
        codings.append(coding)
        single.append(NoisyTable((place,), coding.counts, coding.cells * max(noise**2, _EXACT_VARIANCE)))
    return tuple(codings), tuple(single), max(rows, 1.0)


def _variance(noisy: NoisyValue) -> Array:
    """Return the variance of the noise in counts, with a small positive value for exact counts."""
    return np.asarray(max(float(noisy.scales.max()) ** 2, _EXACT_VARIANCE))


def _estimated_rows(counts: Sequence[Array]) -> float:
    """Estimate the number of rows from the sums of all columns' counts, weighted for least variance."""
    weights = np.array([1 / each.size for each in counts])
    return float(weights @ [each.sum() for each in counts] / weights.sum())


def _measure_tables(
    codings: Sequence[Coding],
    coded: Sequence[Column],
    single: tuple[NoisyTable, ...],
    rows: float,
    noise: float,
    paid: list[Callable[[Any], Any]],
    target: int | None,
) -> tuple[tuple[Clique, ...], tuple[NoisyTable, ...]]:
    """Select contingency tables, measure them, and spend the remaining budget on counts of single columns."""
    sizes = [coding.size for coding in codings]
    counts = [simplex(table.counts, rows) for table in single]
    cliques: list[Clique] = []
    tables: list[NoisyTable] = []
    while paid:
        select, measure, *rest = paid
        known = [(clique, table.counts) for clique, table in zip(cliques, tables, strict=True)]
        tried = candidates(sizes, counts, known, rows, noise, width=_WIDTH, target=target)
        if not tried:
            break
        public = all(coded[place].public for each in tried for place in each.clique.columns)
        clique = tried[0 if public else select(PenalizedDistances(coded, tried))].clique
        noisy = measure(cell_indicators(coded, clique.columns))
        cliques.append(clique)
        tables.append(NoisyTable(clique.columns, noisy.values, _variance(noisy)))
        paid = rest
    placed = {place for clique in cliques for place in clique.columns}
    for place in (place for place in range(len(codings)) if place not in placed):
        cliques.append(Clique((place,), ()))
        table = single[place]
        if paid and sizes[place] <= CELLS_MAX:
            _, measure, *paid = paid
            noisy = measure(OneHot(coded[place]))
            table = NoisyTable((place,), noisy.values, _variance(noisy))
        tables.append(table)
    return tuple(cliques), tuple(tables)
