"""Power of a method: the share of synthetic tables in which it finds an assumed effect."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy._call.bounds import (
    columns_to_search,
    declare_found_bounds,
    mark_columns_for_search,
    needs_bounds_search,
    widen_bounds,
)
from dfprivacy._call.explanation import PART, bounds_finder
from dfprivacy._call.payment import parse_delta, positive_price
from dfprivacy._call.plan import question_as_text, read_question
from dfprivacy._measure.curator import Curator, Planner
from dfprivacy._measure.evaluate import Table
from dfprivacy._plugins.loader import registry
from dfprivacy._table.frames import ColumnsFrame
from dfprivacy._visible import visible
from dfprivacy.arguments import checked, hints
from dfprivacy.errors import ArgumentError, DPError, PluginError
from dfprivacy.markup import Grid
from dfprivacy.plotting import axes
from dfprivacy.progress import progress
from dfprivacy.release import Release, Value
from dfprivacy.schema import as_integer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy._privacy.losses import PrivacyLoss
    from dfprivacy.mechanism import Mechanism
    from dfprivacy.schema import Schema

__all__ = ["Power", "power_of"]

_RUNS_MAX = 100_000
_ROWS_MAX = 10_000_000
_TYPICAL_ROWS = (0.0, 100.0)  # where the made-up values lie of a column of which nobody knows bounds
_EXAMPLE = (
    'For example view.power(("ttest", "bmi", {"by": "smoker"}), n=[100, 1000], epsilon=1, assume={"effect": 0.5}).'
)


@dataclass(frozen=True)
class Power:
    """Simulated power of a method for numbers of rows and epsilons. Nothing was charged or read.

    Attributes
    ----------
    question : str
        The question, as text.
    assumed : str
        Description of the synthetic rows.
    n : tuple of int
        Numbers of rows.
    epsilons : tuple of float
        The prices.
    shares : tuple of tuples of float
        For each price, and each number of rows, the share of runs in which the effect was found.
    runs : int
        Number of synthetic tables for each number of rows.
    """

    question: str
    assumed: str
    n: tuple[int, ...]
    epsilons: tuple[float, ...]
    shares: tuple[tuple[float, ...], ...]
    runs: int

    @property
    def standard_error(self) -> float:
        """Standard error of a simulated power of 0.5; it is smaller for any other power."""
        return float(0.5 / np.sqrt(self.runs))

    def rows_for(self, power: float = 0.8) -> dict[float, int | None]:
        """Return for each epsilon the smallest of the simulated numbers of rows that reaches a power.

        Parameters
        ----------
        power : float
            The power to reach, from 0 to 1.

        Returns
        -------
        dict of float to int or None
            The number of rows by epsilon; None if the largest number of rows does not reach the power.
        """
        enough = {}
        for epsilon, shares in zip(self.epsilons, self.shares, strict=True):
            below = [at for at, share in enumerate(shares) if share < power]
            first = below[-1] + 1 if below else 0
            enough[epsilon] = self.n[first] if first < len(self.n) else None
        return enough

    def to_dict(self) -> dict[str, list[float]]:
        """Return the powers as a dictionary of columns, which any dataframe library reads.

        Returns
        -------
        dict of str to list
            The columns epsilon, n and power.
        """
        return {
            "epsilon": [epsilon for epsilon in self.epsilons for _ in self.n],
            "n": [n for _ in self.epsilons for n in self.n],
            "power": [share for shares in self.shares for share in shares],
        }

    def plot(self, ax: Any = None) -> Any:
        """Plot the power against the number of rows, with a line for each epsilon.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        ax = axes(ax)
        for epsilon, shares in zip(self.epsilons, self.shares, strict=True):
            share = np.array(shares)
            (line,) = ax.plot(self.n, share, marker="o", ms=4, label=f"ε = {epsilon:g}")
            error = 2 * np.sqrt(share * (1 - share) / self.runs)
            ax.fill_between(self.n, share - error, share + error, color=line.get_color(), alpha=0.15, lw=0)
        ax.axhline(0.8, color="grey", ls=":", lw=1)
        if max(self.n) > 10 * min(self.n):
            ax.set_xscale("log")
            ax.minorticks_off()
        ax.set_xticks(self.n, [f"{n:,}" for n in self.n])
        ax.set(ylim=(0, 1), xlabel="rows", ylabel="power", title=self.question)
        ax.legend(fontsize="small", frameon=False)
        return ax

    def _grid(self) -> Grid:
        rows = [
            (f"epsilon {epsilon:g}", *(f"{share:.2f}" for share in shares))
            for epsilon, shares in zip(self.epsilons, self.shares, strict=True)
        ]
        return Grid(("", *(f"n={n:,}" for n in self.n)), rows)

    def _titles(self) -> tuple[str, str]:
        return (
            f"Power of {self.question} (made-up rows; nothing was charged or read)",
            f"{self.assumed}; {self.runs} runs, each share within ± {2 * self.standard_error:.2f}",
        )

    def __repr__(self) -> str:
        title, assumed = self._titles()
        lines = [title, *(f"  {line}" for line in self._grid().lines()), f"  assumed: {assumed}"]
        return "\n".join(map(visible, lines))

    def _repr_html_(self) -> str:
        title, assumed = self._titles()
        return self._grid().html(title) + Grid((), [("assumed", assumed)]).html("")


class _SyntheticPayer:
    """Payer of calls on synthetic rows: has an epsilon and a delta, and charges nothing."""

    def __init__(self, epsilon: Fraction, delta: Fraction) -> None:
        self.epsilon, self.delta = epsilon, delta
        self.basic_composition = not delta

    def pay(self, losses: Sequence[PrivacyLoss], reserve: Sequence[PrivacyLoss]) -> None:
        """Accept any losses, and charge nothing."""


def power_of(
    question: object,
    schema: Schema,
    *,
    n: object,
    epsilon: object,
    delta: object,
    assume: object,
    finder: object,
    runs: object,
    seed: int,
) -> Power:
    """Apply a method to synthetic tables, and compute the share of tables in which it finds the effect.

    Parameters
    ----------
    question : str or tuple
        A method's name, or a tuple of the name, positional arguments, and a dictionary of keyword arguments.
    schema : Schema
        The public facts about the table.
    n, epsilon : number or sequence
        Numbers of rows, and prices.
    delta : number or str
        The delta of each call, for a method that takes one.
    assume : mapping, callable or None
        Parameters of the method's synthetic rows, or a function that draws rows.
    finder : callable, str or None
        Function of an answer that returns whether the effect was found, or the name of a coefficient.
    runs : int
        Number of synthetic tables for each number of rows.
    seed : int
        Seed of the synthetic rows; the noise has no seed.

    Returns
    -------
    Power
        The shares.
    """
    sizes = sorted({_positive_integer("n", each, _ROWS_MAX) for each in _values_of_argument("n", n)})
    prices = sorted({positive_price("epsilon", each) for each in _values_of_argument("epsilon", epsilon)})
    runs, seed = _positive_integer("runs", runs, _RUNS_MAX), as_integer(seed, "seed", 0)
    method, args, kwargs = read_question(question, "power", _EXAMPLE)
    mechanism = registry(method).mechanisms.get(method)
    if mechanism is None:
        raise ArgumentError(
            f"There is no method {method!r}.", f"The methods are {sorted(registry().mechanisms)!r}."
        )
    if find := needs_bounds_search(mechanism, kwargs):
        del kwargs["bounds"]
    given = mechanism.bind(args, kwargs)
    if any(kind == "view" and given[name] is not None for name, kind in mechanism.columns.items()):
        raise ArgumentError(
            "power() is for one view, and a second one was given.", "Omit the argument that is a view."
        )
    schema = schema.without_formulas()  # made-up rows have values in every column
    told = mark_columns_for_search(schema, mechanism, given) if find else schema
    schema, supposed = widen_bounds(told), widen_bounds(told, _TYPICAL_ROWS)
    arguments = mechanism.resolve(schema, given)
    if mechanism.check is not None:
        mechanism.check(**arguments)
    make, assumed = _row_maker(mechanism, assume, {"schema": supposed, **mechanism.resolve(supposed, given)})
    if supposed != schema and not callable(assume):
        assumed = (
            f"{assumed}; rows are drawn as if unknown bounds were {_TYPICAL_ROWS[0]:g} and {_TYPICAL_ROWS[1]:g}"
        )
    finds = _effect_finder(mechanism, finder)
    part = parse_delta("delta", delta)
    counts = np.zeros((len(prices), len(sizes)), dtype=np.int64)
    with progress(len(sizes) * runs, "making tables", " tables") as bar:
        for (at, rows), run in product(enumerate(sizes), range(runs)):
            rng = np.random.default_rng([seed, rows, run])
            values = _check_rows(make(rng, rows), schema, rows)
            if schema.unit is not None:  # each made-up row is a person's; how many may count decides the noise
                values = {**values, schema.unit.column: np.arange(rows)}
            declared = replace(schema, size=None if schema.size is None else rows, people=None, derived=None)
            table = Table(ColumnsFrame(values), declared)
            for place, price in enumerate(prices):
                answer = _answer_after_finding_bounds(mechanism, table, given, _SyntheticPayer(price, part))
                counts[place, at] += answer is not None and _finding_as_bool(finds, answer, method)
            bar.update()
    shares = tuple(tuple(float(share) for share in each) for each in counts / runs)
    question = question_as_text(method, args, {**kwargs, **({"bounds": "find"} if find else {})})
    return Power(question, assumed, tuple(sizes), tuple(map(float, prices)), shares, runs)


def _values_of_argument(what: str, given: object) -> Sequence[Any]:
    values = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    if not values or given is None:
        raise ArgumentError(f"power() needs {what}=.", _EXAMPLE)
    return values


def _positive_integer(what: str, given: object, most: int) -> int:
    return as_integer(given, what, 1, most)


def _answer_after_finding_bounds(
    mechanism: Mechanism, table: Table, given: Mapping[str, Any], payer: _SyntheticPayer
) -> Any:
    """Apply a method to synthetic rows, after finding bounds if needed; return None if bounds are not found."""
    arguments = mechanism.resolve(table.schema, given)
    if not any(column.find for column in table.schema.columns.values()):
        return _answer_about_table(mechanism, table, arguments, payer)
    planner = Planner(table, payer)
    with suppress(Exception), np.errstate(all="ignore"):  # a plan may end where its void numbers lead nowhere
        mechanism.measure(planner, arguments)
    if names := columns_to_search(planner):
        search = bounds_finder()
        looked = search.resolve(table.schema, {"columns": names})
        found = _answer_about_table(search, table, looked, _SyntheticPayer(payer.epsilon * PART, Fraction(0)))
        try:
            table = table.with_declarations(declare_found_bounds(table.schema, names, found).columns)
        except ArgumentError:
            return None
        payer = _SyntheticPayer(payer.epsilon * (1 - PART), payer.delta)
    return _answer_about_table(mechanism, table, mechanism.resolve(table.schema, given), payer)


def _answer_about_table(
    mechanism: Mechanism, table: Table, arguments: Mapping[str, Any], payer: _SyntheticPayer
) -> Any:
    curator = Curator(table, payer)
    try:
        answer = mechanism.conclude(mechanism.measure(curator, arguments), arguments)
        return answer if isinstance(answer, Release) else Value(value=answer)
    except DPError:
        raise
    except Exception as error:
        what = f"Mechanism {mechanism.name!r} failed on made-up rows with {type(error).__name__}: {error}."
        raise PluginError(what, "Report this error to the authors of the mechanism.") from error
    finally:
        curator.close()


Make = Callable[[np.random.Generator, int], Mapping[str, Any]]


def _row_maker(mechanism: Mechanism, assume: object, arguments: Mapping[str, Any]) -> tuple[Make, str]:
    """Return a function that draws synthetic rows, and a description of the rows."""
    if callable(assume):
        return assume, _first_line_of_docstring(assume) or getattr(assume, "__name__", "rows of your own")
    maker = mechanism.maker
    if maker is None:
        raise ArgumentError(
            f"{mechanism.name}() has no function of its own that draws synthetic rows for power().",
            "Give assume= a function of a NumPy generator and a number of rows, such as "
            "lambda rng, n: {'age': rng.normal(50, 10, n)}.",
        )
    own = inspect.signature(maker).parameters
    known = {
        name: one.default
        for name, one in own.items()
        if one.default is not one.empty and name not in arguments and one.kind is one.KEYWORD_ONLY
    }
    numbers = {} if assume is None else assume
    if not isinstance(numbers, Mapping) or (unknown := sorted({*numbers} - {*known})):
        what = (
            f"must be a dictionary or a function, not {type(numbers).__name__}"
            if not isinstance(numbers, Mapping)
            else f"has the unknown key {unknown[0]!r}"
        )
        raise ArgumentError(
            f"power(): assume= {what}.",
            f"The synthetic rows of {mechanism.name}() take the keys {sorted(known)!r}; or give a function.",
        )
    wanted = hints(maker)
    numbers = {name: checked(each, wanted.get(name), f"assume= {name}") for name, each in numbers.items()}
    numbers = {**known, **numbers}
    summary = _first_line_of_docstring(maker)
    values = ", ".join(f"{name} {value}" for name, value in numbers.items() if value is not None)
    takes_all = any(one.kind is one.VAR_KEYWORD for one in own.values())
    passed = {name: value for name, value in arguments.items() if takes_all or name in own}
    return (lambda rng, n: maker(rng, n, **passed, **numbers)), f"{summary}: {values}" if values else summary


def _first_line_of_docstring(maker: Callable[..., Any]) -> str:
    """Return the first line of the docstring of a function that draws rows, as a description of the rows."""
    return (inspect.getdoc(maker) or "").partition("\n")[0].rstrip(".").removeprefix("Draw ").removeprefix("Make ")


def _check_rows(made: Mapping[str, Any], schema: Schema, rows: int) -> dict[str, NDArray[Any]]:
    """Return the checked columns of a synthetic table; a declared column that it lacks has missing values only."""
    if not isinstance(made, Mapping):
        raise ArgumentError(
            f"The function assume= returned a {type(made).__name__}, not a dictionary of columns.",
            f"Return a dictionary with {rows} values for each column.",
        )
    columns = {str(name): np.asarray(values) for name, values in made.items()}
    unknown = sorted({*columns} - {*schema.names})
    wrong = [name for name, values in columns.items() if values.shape != (rows,)]
    if unknown or wrong:
        what = f"a column {unknown[0]!r} that is not declared" if unknown else f"{wrong[0]!r} of another length"
        raise ArgumentError(
            f"The function assume= returned {what}.",
            f"Return {rows} values for each column, from the columns {list(schema.names)!r}.",
        )
    return {name: columns.get(name, np.full(rows, np.nan)) for name in schema.names}


def _effect_finder(mechanism: Mechanism, given: object) -> Callable[[Any], Any]:
    """Return a function that returns whether an answer shows the assumed effect."""
    if callable(given):
        return given
    if isinstance(given, str):
        return lambda answer: answer.rejected[given]
    return mechanism.finder or (lambda answer: answer.rejected)


def _finding_as_bool(finds: Callable[[Any], Any], answer: Any, method: str) -> bool:
    try:
        yes = finds(answer)
    except (AttributeError, KeyError, TypeError) as error:
        raise ArgumentError(
            f"An answer of {method}() does not tell whether the effect was found ({type(error).__name__}: "
            f"{error}).",
            "Give finder= the name of a coefficient, or a function that returns True or False for an answer.",
        ) from None
    if not isinstance(yes, bool | np.bool_):
        raise ArgumentError(
            f"finder= returned a {type(yes).__name__}, which is neither True nor False.",
            "Return a comparison, such as answer.pvalue < 0.05.",
        )
    return bool(yes)
