"""Hooks of dfprivacy: functions that a plugin may implement.

A plugin is a module (or any object) with functions of these names, marked with `hookimpl`. A distribution names its
plugins as entry points of the group ``dfprivacy``; one that is not installed is given to `dfprivacy.register`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfprivacy.mechanism import Mechanism
    from dfprivacy.release import Release

__all__ = [
    "PROJECT",
    "dfprivacy_conformance_cases",
    "dfprivacy_register_mechanisms",
    "dfprivacy_released",
    "hookimpl",
]

PROJECT = "dfprivacy"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function of a plugin as its implementation of the hook of the same name."""


@hookspec
def dfprivacy_register_mechanisms(register: Callable[[Mechanism], None]) -> None:
    """Register mechanisms, each of which becomes a method of every view.

    Parameters
    ----------
    register : callable
        ``register(mechanism)``, called once for each mechanism, before the hook returns.

    Notes
    -----
    Called once, when a view first needs its methods. If it raises, nothing that it registered stays.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> @dp.mechanism(columns={"column": "numeric"})
    ... def average(curator, column):
    ...     "The mean of a bounded column."
    ...     total = curator.sum(dp.features.Moments(column, degree=1)).values[0]
    ...     return column.mid + column.half * total / curator.size
    >>> class Averages:
    ...     @dp.hookimpl
    ...     def dfprivacy_register_mechanisms(self, register):
    ...         register(average)
    >>> dp.register(Averages())
    >>> df = pd.DataFrame({"age": [31, 45, 28, 52] * 50})
    >>> view = dp.protect(df, "averaged members", epsilon=1000, bounds={"age": (18, 90)}, ledger="memory:")
    >>> round(view.average("age", epsilon=900).value)
    39
    >>> dp.unregister("Averages")
    """


@hookspec
def dfprivacy_released(release: Release, account: str) -> None:
    """Receive a new release, before the caller receives it, for example to log it.

    Parameters
    ----------
    release : Release
        The new release; ``release.privacy`` holds its price.
    account : str
        The data set's name.

    Notes
    -----
    Called after every new release, in the process that made it; an answer replayed from the ledger is not
    announced again. If it raises, a `dfprivacy.PluginWarning` says so and the release stands: it was paid
    for.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> log = []
    >>> class Log:
    ...     @dp.hookimpl
    ...     def dfprivacy_released(self, release, account):
    ...         log.append(f"{account}: epsilon {release.privacy.epsilon:g} for {release.privacy.mechanism}")
    >>> dp.register(Log())
    >>> df = pd.DataFrame({"age": [31, 45, 28, 52] * 50})
    >>> view = dp.protect(df, "logged members", epsilon=1, bounds={"age": (18, 90)}, ledger="memory:")
    >>> test = view.ttest("age", popmean=30, epsilon=0.5)
    >>> log
    ['logged members: epsilon 0.5 for ttest (dfprivacy 0.1...)']
    >>> dp.unregister("Log")
    """


@hookspec
def dfprivacy_conformance_cases(mechanism: Mechanism, case: type[Any]) -> Sequence[Any] | None:
    """Return the calls with which a mechanism is audited.

    Parameters
    ----------
    mechanism : Mechanism
        A mechanism of the plugin.
    case : type
        `dfprivacy_audit.Case`, so that nothing has to be imported.

    Returns
    -------
    sequence of Case or None
        The cases; None for those that follow from the mechanism's columns.

    Notes
    -----
    Called by `dfprivacy_audit.check_mechanism`, and so by ``dfprivacy audit`` and ``pytest --dp-conformance``.

    Examples
    --------
    >>> import dfprivacy as dp
    >>> class Averages:
    ...     @dp.hookimpl
    ...     def dfprivacy_conformance_cases(self, mechanism, case):
    ...         return [case(arguments={"column": "age"}, bounds={"age": (18, 90)})]
    """
