"""Mechanisms: differentially private methods, defined by functions of a curator and the decorator `mechanism`."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dfprivacy._method_signature import MethodSignature, Names, public_table
from dfprivacy.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["OWN", "Mechanism", "mechanism", "public_table"]

OWN = "_own"
"""The end of the name of a method for the table's owner alone."""


@dataclass(frozen=True)
class Mechanism(MethodSignature):
    """Differentially private method of views, made of a function that measures and one that concludes.

    Attributes
    ----------
    name : str
        Its name as a method of a view.
    function : callable
        ``function(curator, ...) -> Release``; with a `conclusion`, what it measures. If it ends with ``**named``,
        what a caller passes by another name is in ``named``, one argument of the question: a dictionary, as which
        the second half, the check and the planner receive it.
    columns : mapping of str to {"numeric", "category", "any", [...], "columns", "all", "public", "view"}
        The parameters that name columns, and what kind each must be; one of the first three in brackets if it takes
        a list of them. ``"any"``: a column that need have neither bounds nor categories. ``"columns"``: one name or
        a list, each with bounds or categories. ``"all"``: the same of any columns, and None for those of the whole
        table. ``"public"``: the name of a public column, or something that is no name. ``"view"``: the parameter
        takes a second view.
    tables : tuple of str
        The parameters that take a public table.
    delta : bool
        Whether it takes a delta.
    local : bool
        Whether its release holds one randomised message for each row.
    planner : callable or None
        ``planner(curator, ...) -> dict``: the expected accuracy of the method, from public numbers only.
    maker, finder : callable or None
        ``maker(rng, n, ..., effect=0.5) -> dict``: synthetic rows with an effect, and ``finder(release)``: whether
        the release shows the effect; for ``power``.
    preparer : callable or None
        ``preparer(curator, ...) -> dict``: arguments to put in place of those given, before anything is paid.
    own : Mechanism or None
        The form for the table's owner alone, exact and free, which views offer by its own name.
    exact : bool
        Whether it is such a form: it gets a `Holder`, takes no epsilon, and returns an `Exact`.
    conclusion : callable or None
        ``conclusion(measured, ...) -> Release``: a pure function of what the function measured, and of arguments.
    check : callable or None
        ``check(...)``: refuses arguments while nothing is paid.
    reader : callable or None
        ``reader(curator, release, ...) -> (float, measured) or None``: this answer computed from another release.
    sources : tuple of str
        The mechanisms whose answers it reads.
    origin : str
        Distribution and version it comes from; filled in by the loader.
    """

    def concludes(self, conclusion: Callable[..., Any]) -> Mechanism:
        """Set the function that computes the release from the measurements; for use as a decorator.

        Parameters
        ----------
        conclusion : callable
            ``conclusion(measured, ...) -> Release``: a pure function of what the function returned, noisy values
            and public facts, and of arguments. A parameter that the function has as well has no default here, or
            the same one. Any other is the caller's too.

        Returns
        -------
        Mechanism
            This mechanism, with the concluding function. Register it afterwards.

        Raises
        ------
        PluginError
            If the parameters of the two functions do not fit together, or the mechanism has a concluding function.

        Notes
        -----
        `explain` runs the measuring function only. A call by group runs it for all groups before any conclusion.

        Examples
        --------
        >>> from dfprivacy import mechanism, features
        >>> @mechanism(columns={"column": "numeric"})
        ... def average(curator, column):
        ...     "The mean of a bounded column."
        ...     return curator.sum(features.Moments(column, degree=1, count=True))
        >>> @average.concludes
        ... def _(measured, column, *, digits=2):
        ...     up, down = measured.values
        ...     return round(column.mid + column.half * (up - down) / (up + down), digits)
        >>> list(average.signature.parameters)
        ['column', 'digits', 'epsilon', 'fresh']
        """
        if self.conclusion is not None:
            raise PluginError(f"Mechanism {self.name!r} has two concluding functions.", "Use .concludes once.")
        replace(self, conclusion=conclusion)  # or it says what does not fit
        object.__setattr__(self, "conclusion", conclusion)  # the name of the function is to mean the whole
        cached = (
            "doc",
            "hints",
            "signature",
            "_parameters",
            "_call_signature",
            "_function_parameters",
            "_defaults",
        )
        for name in cached:
            vars(self).pop(name, None)
        return self

    def checks(self, check: Callable[..., object]) -> Mechanism:
        """Return the same mechanism with a check of its arguments, which runs before anything is charged.

        Parameters
        ----------
        check : callable
            ``check(...)`` with the arguments of both functions and no curator. It raises an `ArgumentError` for
            arguments that the concluding function could not use. Its result is ignored.

        Returns
        -------
        Mechanism
            The mechanism to register.
        """
        return replace(self, check=check)

    def plans(self, planner: Callable[..., Mapping[str, Any]]) -> Mechanism:
        """Return the same mechanism with a planner, which computes the expected accuracy for ``explain``.

        Parameters
        ----------
        planner : callable
            ``planner(curator, ...)`` with the same arguments as the function. It may use the public facts of the
            curator, and ``curator.planned``, the measurement to come, with void values. It returns a dictionary of
            findings, such as expected errors. It is called when they are first read or displayed, unless nothing
            is measured, as in a question about public columns. `PrivateFrame.plan` splits an epsilon by the number
            ``"expected relative error"``, which ``explain`` does not show beside other findings; a text in its
            place says that the error is not known.

        Returns
        -------
        Mechanism
            The mechanism to register.
        """
        return replace(self, planner=planner)

    def reads(self, reader: Callable[..., tuple[float, Any] | None], *sources: str) -> Mechanism:
        """Return the same mechanism with a reader, which computes its answer from kept releases at no charge.

        Parameters
        ----------
        reader : callable
            ``reader(curator, release, ...)`` with the arguments of both functions, for a release about the same
            rows and the same declarations of columns. ``curator.planned`` is the planned measurement. It returns a
            standard error, and the measurements from which the concluding function computes the answer, if that
            error is at most the expected error of the planned measurement; else None. Both are functions of public
            facts and released numbers.
        *sources : str
            Names of the mechanisms whose answers are read.

        Returns
        -------
        Mechanism
            The mechanism to register.
        """
        return replace(self, reader=reader, sources=sources)

    def assumes(
        self, maker: Callable[..., Mapping[str, Any]], finder: Callable[[Any], Any] | None = None
    ) -> Mechanism:
        """Return the same mechanism with a function that draws synthetic rows with an effect, for ``power``.

        Parameters
        ----------
        maker : callable
            ``maker(rng, n, ..., *, effect=0.5) -> dict``: n values for each column, drawn by a NumPy generator. It
            takes arguments of the method by name, or all of them as ``**_``, with a `Column` for each name, and the
            declarations of the table as ``schema``. Its other keyword parameters are the assumptions that a caller
            may change, with their defaults. The first line of its docstring describes the rows.
        finder : callable, optional
            ``finder(release)``: whether the release shows the effect; default: ``release.rejected``.

        Returns
        -------
        Mechanism
            The mechanism to register.

        Raises
        ------
        PluginError
            If the maker has a parameter without a default that the method does not have.
        """
        _, _, *own = inspect.signature(maker).parameters.values()
        known = {*self.signature.parameters, "schema"}
        lacking = [
            one.name
            for one in own
            if one.default is one.empty and one.kind is not one.VAR_KEYWORD and one.name not in known
        ]
        if lacking:
            raise PluginError(
                f"The function that draws rows for {self.name!r} has the parameter {lacking[0]!r}, which is not a "
                "parameter of the method, without a default.",
                "Set a default for the parameter.",
            )
        return replace(self, maker=maker, finder=finder)

    def prepares(self, preparer: Callable[..., Mapping[str, Any]]) -> Mechanism:
        """Return the same mechanism with a preparer, which replaces arguments, such as another view by its answer.

        Parameters
        ----------
        preparer : callable
            ``preparer(curator, ...)`` with the same arguments as the function. It may use the public facts of the
            curator, and ask another view a question, which the account of that view pays; it returns a dictionary
            of the arguments to replace. It runs at each call of the method, before the question is looked up in the
            ledger or paid, and never for ``explain``.

        Returns
        -------
        Mechanism
            The mechanism to register.
        """
        return replace(self, preparer=preparer)

    def holds(self, form: Callable[..., Any]) -> Mechanism:
        """Return the same mechanism with an exact form, free of charge, for the table's owner alone.

        Parameters
        ----------
        form : callable
            ``form(holder, ...)`` with arguments of its own, and a `Holder` for its curator, which shows rows as
            they are. Parameters that the function has too name columns and tables as there, and are prepared as
            there. It returns an `Exact`, a function of the rows without noise.

        Returns
        -------
        Mechanism
            The mechanism to register. Its form is a method of its own, by the name with ``_own`` at the end. It
            takes no epsilon; nothing is charged, kept or released.
        """
        shared = inspect.signature(form).parameters
        own = Mechanism(
            self.name + OWN,
            form,
            columns={name: kind for name, kind in self.columns.items() if name in shared},
            tables=tuple(name for name in self.tables if name in shared),
            exact=True,
        )
        return replace(self, own=own)


def mechanism(
    *,
    name: str | None = None,
    columns: Mapping[str, Names] | None = None,
    tables: Sequence[str] = (),
    delta: bool = False,
    local: bool = False,
) -> Callable[[Callable[..., Any]], Mechanism]:
    """Return a decorator that makes a mechanism from a function of a curator.

    Parameters
    ----------
    name : str, optional
        Its name as a method of a view; default: the function's.
    columns : mapping of str to kind, optional
        The parameters that name columns. In place of the name the function receives a `Column`, checked to have
        bounds (``"numeric"``), categories (``"category"``) or neither (``"any"``); where the kind is in brackets, a
        tuple of them in place of a list of names; where it is ``"columns"``, a tuple in place of one name or a
        list, each with bounds or categories; where it is ``"all"``, the same of any columns, and all columns of the
        table in place of None. ``"public"``: a public column, which need have neither; what is no
        string stays as it is. None stays None where it is the default. ``"view"``: the parameter, None by default,
        takes a second view. Then the function is asked of both tables as one, both accounts are charged, and in
        place of the view it receives a public `Column` with a category for each of the two tables.
    tables : sequence of str, optional
        The parameters that take a public table: a frame of any library, or a mapping of lists. The function
        receives a dictionary of lists. The question is kept with its values, or with a digest of them if they are
        many, so they must be public; elsewhere a frame is refused.
    delta : bool, default False
        Whether the method takes a delta (for Gaussian noise).
    local : bool, default False
        Whether its release holds one randomised message for each row, as `dfprivacy.Curator.randomize` makes them.
        A release of any other mechanism must hold nothing as long as the table.

    Returns
    -------
    callable
        A decorator that returns a `Mechanism`.

    Examples
    --------
    >>> from dfprivacy import mechanism, features
    >>> @mechanism(columns={"column": "numeric"})
    ... def average(curator, column):
    ...     "The mean of a bounded column."
    ...     total = curator.sum(features.Moments(column, degree=1)).values[0]
    ...     return column.mid + column.half * total / curator.size
    >>> print(average.signature)
    (column: str, *, epsilon: float | str | None = None, fresh: bool = False) -> dfprivacy.release.Release
    """

    def mark_function(function: Callable[..., Any]) -> Mechanism:
        return Mechanism(
            name or str(getattr(function, "__name__", "")),
            function,
            columns=columns or {},
            tables=tuple(tables),
            delta=delta,
            local=local,
        )

    return mark_function
