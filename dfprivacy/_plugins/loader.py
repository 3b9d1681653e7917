"""Loader of plugins, which leaves out plugins that fail.

Plugins are found at the first use of a view, never by ``import dfprivacy``. One whose distribution lists its
methods, as entry points of the group ``dfprivacy.methods``, is loaded when one of these is asked. Each is loaded on
its own: one that fails costs its own methods and nothing else, and what was left out, of which distribution and
version, is said once as a `PluginWarning` and kept in ``registry().problems``.

Two environment variables hold entry-point names, separated by commas: with ``DFPRIVACY_PLUGINS`` exactly these are
loaded (none if it is empty), and those in ``DFPRIVACY_BLOCK`` are not.

pluggy checks and calls the hooks. It is given a manager for each plugin, because in a shared one an
implementation that raises stops all others; its own loader of entry points is not used, because there
one failing import stops all later plugins and a second plugin of the same name is skipped without a word.
"""

from __future__ import annotations

import difflib
import hashlib
import inspect
import logging
import os
import re
import sys
import time
import uuid
import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import metadata
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import pluggy

from dfprivacy._forks import Lock
from dfprivacy._json import loaders
from dfprivacy._plugins import hookspecs
from dfprivacy.errors import PluginError, PluginWarning
from dfprivacy.mechanism import Mechanism

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from dfprivacy.release import Release

__all__ = ["RESERVED", "Plugin", "Registry", "register", "register_mechanism", "registry", "unregister"]

GROUP, METHODS = "dfprivacy", "dfprivacy.methods"
BUNDLED = "dfprivacy"  # the distribution whose plugins win every clash
SLOW_SECONDS = 2.0
RESERVED = frozenset(
    {
        "account",
        "assign",
        "budget",
        "declare",
        "editions",
        "explain",
        "filter",
        "group_by",
        "groupby",
        "join",
        "lookup",
        "name",
        "per",
        "plan",
        "power",
        "protect",
        "refine",
        "releases",
        "sample",
        "schema",
        "select",
        "to_toml",
        "view",
        "where",
        "with_columns",
    }
)
"""Attributes of views and of ``df.dp`` that no mechanism may hide."""


@dataclass(frozen=True)
class Plugin:
    """State of one plugin: its distribution, its methods, and problems with it.

    Attributes
    ----------
    name : str
        Name of its entry point, or the name it was registered under.
    distribution, version : str
        The installed distribution it comes from; empty if it was registered in this process.
    module : str
        Where the entry point leads; empty if it was registered in this process.
    seconds : float
        Time it took to import it and to call its hook.
    mechanisms : tuple of str
        Names of the methods it adds.
    status : {"loaded", "failed", "blocked"}
        Whether it is in use; "blocked" if an environment variable keeps it out.
    problem : str
        What is wrong and what to do about it, in sentences; empty if nothing is.
    """

    name: str
    distribution: str = ""
    version: str = ""
    module: str = ""
    seconds: float = 0.0
    mechanisms: tuple[str, ...] = ()
    status: Literal["loaded", "failed", "blocked"] = "loaded"
    problem: str = ""

    def __str__(self) -> str:
        """Return the plugin's name and version for messages."""
        return f"{self.name!r} ({self.origin})"

    @property
    def origin(self) -> str:
        """Name and version of the plugin's distribution, or "registered in this process"."""
        return f"{self.distribution} {self.version}" if self.distribution else "registered in this process"


@dataclass(frozen=True)
class LoadedPlugin:
    """Plugin in the registry: its state, its mechanisms by name, and the manager of its hooks.

    A plugin that is not loaded yet has `load`, a function that loads it, and the names of its `pending_methods`.
    """

    plugin: Plugin
    mechanisms: Mapping[str, Mechanism] = field(default_factory=dict)
    manager: pluggy.PluginManager | None = None
    load: Callable[[], object] | None = None
    pending_methods: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Registry:
    """Registry of the plugins that were found, and of the mechanisms that they add.

    Attributes
    ----------
    loaded : tuple of Loaded
        One for each plugin, in the order in which they were loaded.
    notes : tuple of str
        Problems that belong to no single plugin.
    """

    loaded: tuple[LoadedPlugin, ...] = ()
    notes: tuple[str, ...] = ()

    @cached_property
    def mechanisms(self) -> Mapping[str, Mechanism]:
        """Mechanisms by the names of their methods."""
        return MappingProxyType({name: m for each in self.loaded for name, m in each.mechanisms.items()})

    @cached_property
    def methods(self) -> frozenset[str]:
        """Names of all methods that plugins add, including those for the owner alone."""
        return frozenset({*self.mechanisms, *(each.own.name for each in self.mechanisms.values() if each.own)})

    @cached_property
    def plugins(self) -> tuple[Plugin, ...]:
        """State of each plugin, in the order of loading."""
        return tuple(each.plugin for each in self.loaded)

    @cached_property
    def origins(self) -> Mapping[str, str]:
        """Names and versions of the distributions whose loaded plugins are in a package, as text by package."""
        known: dict[str, set[str]] = {}
        for each in self.plugins:
            if each.distribution and each.status == "loaded":
                known.setdefault(each.module.partition(":")[0].partition(".")[0], set()).add(each.origin)
        return MappingProxyType({package: ", ".join(sorted(origins)) for package, origins in known.items()})

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems, as texts: of plugins that are not blocked, and those that belong to no single plugin."""
        wrong = (p.problem for p in self.plugins if p.problem and p.status != "blocked")
        return (*self.notes, *wrong)

    def announce(self, release: Release, account: str) -> None:
        """Notify every plugin that a noisy answer was released.

        Parameters
        ----------
        release : Release
            The release.
        account : str
            The data set's name.

        Warns
        -----
        PluginWarning
            If a plugin raises. Never an error, not even where warnings are errors: the answer was paid for.
        """
        for each in self.loaded:
            if each.manager is None or not each.manager.hook.dfprivacy_released.get_hookimpls():
                continue
            try:
                each.manager.hook.dfprivacy_released(release=release, account=account)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - also SystemExit, and the panics of Rust extensions
                text = f"The hook dfprivacy_released of plugin {each.plugin} failed with {_error_text(error)}."
                try:
                    warnings.warn(f"{text} The release is not affected.", PluginWarning, stacklevel=2)
                except PluginWarning as warning:
                    logging.getLogger("dfprivacy").warning("%s", warning)

    def __repr__(self) -> str:
        counts = (len(self.plugins), len(self.mechanisms), len(self.problems))
        return "<Registry: {} plugins, {} mechanisms, {} problems>".format(*counts)

    def owner(self, method: str) -> Plugin | None:
        """Return the plugin of a method; None if there is no such method."""
        return next(
            (each.plugin for each in self.loaded if method in {*each.mechanisms, *each.pending_methods}), None
        )


_lock = Lock()
_registry: Registry | None = None


def registry(method: str | None = None) -> Registry:
    """Return the registry of plugins, which are loaded at first use.

    Parameters
    ----------
    method : str, optional
        The method that is needed: plugins that list other methods only are not loaded. Default: load all plugins.

    Returns
    -------
    Registry
        The current registry: a later `register` creates another one.

    Warns
    -----
    PluginWarning
        Once for each problem.

    Examples
    --------
    >>> registry().mechanisms["ttest"].origin
    'dfprivacy 0.1...'
    """
    global _registry  # noqa: PLW0603 - the one state of this module
    with _lock:
        if _registry is None:
            _registry = _find_plugins()
            for problem in _registry.problems:
                warnings.warn(problem, PluginWarning, stacklevel=2)
        for at, each in enumerate(_registry.loaded):
            if each.load is None or not (
                method is None or not each.pending_methods or method in each.pending_methods
            ):
                continue
            before = _registry
            # A plugin that asks while it is being loaded does not see itself.
            _registry = _registry_with(before, at, replace(each, load=None, pending_methods=frozenset()))
            try:
                loaded = _load_plugin(each.plugin, each.load, _registry)
            except BaseException:
                _registry = before  # interrupted: begin anew next time
                raise
            _registry = _registry_with(_registry, at, loaded)
            if loaded.plugin.problem:
                warnings.warn(loaded.plugin.problem, PluginWarning, stacklevel=2)
        return _registry


def _registry_with(now: Registry, at: int, loaded: LoadedPlugin) -> Registry:
    return replace(now, loaded=(*now.loaded[:at], loaded, *now.loaded[at + 1 :]))


def register(plugin: object, name: str | None = None) -> None:
    """Register a plugin that is not installed, such as one in a notebook.

    Parameters
    ----------
    plugin : module or object
        Something with functions marked with `dfprivacy.hookimpl`.
    name : str, optional
        Its name; default: that of the module or class. Registering under the same name again replaces it.

    Raises
    ------
    PluginError
        If the plugin has any problem. Then no part of it is used.

    Examples
    --------
    >>> from dfprivacy import hookimpl, mechanism
    >>> @mechanism()
    ... def rows(curator):
    ...     "The number of rows, which is public under replace_one."
    ...     return curator.size
    >>> class Sizes:
    ...     @hookimpl
    ...     def dfprivacy_register_mechanisms(self, register):
    ...         register(rows)
    >>> register(Sizes())
    >>> "rows" in registry().mechanisms
    True
    >>> unregister("Sizes")
    """
    global _registry  # noqa: PLW0603
    with _lock:
        kind: Any = plugin if hasattr(plugin, "__name__") else type(plugin)
        about = Plugin(name or kind.__name__)
        now = _registry_without(registry(), about.name)
        for other in now.plugins:
            if other.name == about.name:
                raise PluginError(f"There is already a plugin {other}.", "Register your plugin under another name.")
        added = _load_plugin(about, lambda: plugin, now)
        if added.plugin.problem:
            raise PluginError(added.plugin.problem)
        _registry = replace(now, loaded=(*now.loaded, added))


def register_mechanism(mechanism: Mechanism) -> Mechanism:
    """Register a mechanism at once: it becomes a method of every view.

    Parameters
    ----------
    mechanism : Mechanism
        What `dfprivacy.mechanism` made of a function. One of the same name that was registered before is replaced.

    Returns
    -------
    Mechanism
        The same, so that it can stand above ``@mechanism(...)``.

    Raises
    ------
    PluginError
        If it cannot be used: something else has its name, or it is no mechanism.

    Examples
    --------
    >>> from dfprivacy import mechanism
    >>> @register_mechanism
    ... @mechanism()
    ... def rows(curator):
    ...     "The number of rows, which is public under replace_one."
    ...     return curator.size
    >>> "rows" in registry().mechanisms
    True
    >>> unregister("rows")
    """

    @hookspecs.hookimpl
    def offer(register: Callable[[Mechanism], None]) -> None:
        register(mechanism)

    name = getattr(mechanism, "name", None) or type(mechanism).__name__
    register(SimpleNamespace(dfprivacy_register_mechanisms=offer), name=name)
    return mechanism


def unregister(name: str) -> None:
    """Remove a plugin that was registered in this process.

    Parameters
    ----------
    name : str
        The name it was registered under.

    Raises
    ------
    PluginError
        If no plugin was registered under this name.
    """
    global _registry  # noqa: PLW0603
    with _lock:
        now = _registry_without(registry(), name)
        if now == registry():
            raise PluginError(f"No plugin {name!r} was registered in this process.")
        _registry = now


def _registry_without(now: Registry, name: str) -> Registry:
    kept = (each for each in now.loaded if each.plugin.distribution or each.plugin.name != name)
    return replace(now, loaded=tuple(kept))


def _find_plugins() -> Registry:
    """Return the registry of all entry points, bundled plugins first, then sorted by distribution."""
    allowed, blocked = _names_in_variable("DFPRIVACY_PLUGINS"), _names_in_variable("DFPRIVACY_BLOCK") or ()
    entry_points, notes = _entry_points()
    names = {about.name for about, *_ in entry_points}
    result = Registry(notes=(*notes, *_note_unknown_names("DFPRIVACY_PLUGINS", allowed or (), names)))
    result = replace(result, notes=(*result.notes, *_note_unknown_names("DFPRIVACY_BLOCK", blocked, names)))
    taken: dict[str, Plugin] = {}
    for about, load, methods in entry_points:
        if about.name in blocked:
            each = _left_out_plugin(about, "blocked", f"Plugin {about} is blocked by DFPRIVACY_BLOCK.")
        elif allowed is not None and about.name not in allowed:
            each = _left_out_plugin(about, "blocked", f"Plugin {about} is not among DFPRIVACY_PLUGINS.")
        elif about.name in taken:
            each = _left_out_plugin(
                about,
                "failed",
                f"Plugin {about} is left out: plugin {taken[about.name]} has the same name and is kept. "
                "Uninstall one of the two distributions.",
            )
        else:
            taken[about.name] = about
            each = LoadedPlugin(about, load=load, pending_methods=methods)
        result = replace(result, loaded=(*result.loaded, each))
    return result


def _names_in_variable(variable: str) -> tuple[str, ...] | None:
    value = os.environ.get(variable)
    return None if value is None else tuple(name.strip() for name in value.split(",") if name.strip())


def _note_unknown_names(variable: str, names: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    for name in names:
        if name not in known:
            yield f"{variable} names {name!r}, which is not installed. {_suggest_names(name, known)}"


def _suggest_names(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known := sorted(known), n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}."


def _entry_points() -> tuple[list[tuple[Plugin, Callable[[], object], frozenset[str]]], list[str]]:
    """Return the entry points in loading order, with their methods, and notes on unreadable distributions.

    One distribution at a time: `importlib.metadata.entry_points` fails for all if one file is malformed.
    """
    distributions: dict[tuple[bool, str], list[tuple[Plugin, Callable[[], object], frozenset[str]]]] = {}
    notes = []
    for distribution in metadata.distributions():
        try:
            points, methods = (distribution.entry_points.select(group=group) for group in (GROUP, METHODS))
        except Exception as error:  # noqa: BLE001
            unread = " ".join(_name_and_version(distribution))
            notes.append(
                f"The entry points of {unread} cannot be read ({_error_text(error)}). If it has plugins, they are "
                "left out. Reinstall it."
            )
            continue
        if points:
            name, version = _name_and_version(distribution)
            key = re.sub(r"[-_.]+", "-", name).lower()
            listed = {p.value: frozenset(m.name for m in methods if m.value == p.value) for p in points}
            offers = [(Plugin(p.name, name, version, p.value), p.load, listed[p.value]) for p in points]
            # Of two copies on the path, Python imports from the first.
            distributions.setdefault((key != BUNDLED, key), offers)
    return [offer for _, offers in sorted(distributions.items()) for offer in offers], notes


def _name_and_version(distribution: metadata.Distribution) -> tuple[str, str]:
    """Return the name and version of a distribution; "unknown" if an interrupted installation left none."""
    try:
        about = dict(distribution.metadata.items())  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001
        about = {}
    return about.get("Name", "unknown"), about.get("Version", "unknown")


def _left_out_plugin(about: Plugin, status: Literal["failed", "blocked"], problem: str) -> LoadedPlugin:
    return LoadedPlugin(replace(about, status=status, problem=problem))


def _load_plugin(about: Plugin, load: Callable[[], object], others: Registry) -> LoadedPlugin:
    """Load one plugin; leave it out if that fails, and leave out those of its mechanisms that cannot be used."""
    start = time.perf_counter()
    try:
        manager = _hook_manager(load())
        offered: list[Any] = []
        manager.hook.dfprivacy_register_mechanisms(register=offered.append)
        offered = [
            replace(m, origin=_origin_of_mechanism(about, m)) if isinstance(m, Mechanism) else m for m in offered
        ]
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - also SystemExit, and the panics of Rust extensions
        return _left_out_plugin(
            about, "failed", f"Plugin {about} is left out: loading it failed with {_error_text(error)}."
        )
    seconds = time.perf_counter() - start
    problems = list(_hook_problems(about, manager))
    kept: dict[str, Mechanism] = {}
    for item in offered:
        refusal = _reason_to_refuse(about, item, kept, others)
        if refusal:
            problems.append(refusal)
        else:
            kept[item.name] = item
    if seconds > SLOW_SECONDS and about.distribution not in {"", BUNDLED}:
        problems.append(
            f"Plugin {about} took {seconds:.1f} s to load. It should import heavy libraries where it uses them."
        )
    plugin = replace(about, seconds=seconds, mechanisms=tuple(kept), problem=" ".join(problems))
    return LoadedPlugin(plugin, kept, manager)


def _hook_manager(plugin: object) -> pluggy.PluginManager:
    """Return a hook manager for one plugin only."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(plugin)
    return manager


def _hook_problems(about: Plugin, manager: pluggy.PluginManager) -> Iterator[str]:
    """Yield a sentence for each problem with a plugin's hooks: none is marked, or dfprivacy has no such hook."""
    hooks = [name for name in vars(hookspecs) if name.startswith(f"{hookspecs.PROJECT}_")]
    ((_, plugin),) = manager.list_name_plugin()
    callers = manager.get_hookcallers(plugin) or ()
    if not callers:
        yield f"Plugin {about} does nothing: it has no function marked with @hookimpl. {_suggest_names('', hooks)}"
    for caller in callers:
        if not caller.has_spec() and not all(hook.optionalhook for hook in caller.get_hookimpls()):
            unknown = f"Plugin {about} implements a hook {caller.name!r}, which does not exist."
            yield f"{unknown} {_suggest_names(caller.name, hooks)}"


def _reason_to_refuse(about: Plugin, item: Any, kept: Mapping[str, Mechanism], others: Registry) -> str:
    """Return the reason why a registered object cannot be used; empty if it can be used."""
    if not isinstance(item, Mechanism):
        return (
            f"Plugin {about} registered an object of type {type(item).__name__}, which is not a mechanism and is "
            f"left out. Mark the function with @mechanism(...)."
        )
    left_out = f"Mechanism {item.name!r} of plugin {about} is left out:"
    if item.name in RESERVED:
        return f"{left_out} every view has an attribute of that name. Give it another name."
    if item.name in kept:
        return f"{left_out} the plugin registered another mechanism of the same name before."
    if (owner := others.owner(item.name)) is not None:
        return (
            f"{left_out} plugin {owner} has a mechanism of the same name, which is kept. Give it another "
            "name, or put one of the two plugins into DFPRIVACY_BLOCK."
        )
    return ""


def _origin_of_mechanism(about: Plugin, mechanism: Mechanism) -> str:
    """Return a mechanism's distribution and version; for one registered in this process, a digest of its code."""
    if about.distribution:
        return about.origin
    halves = [mechanism.function, *([mechanism.conclusion] if mechanism.conclusion else [])]
    return f"{about.origin}, source {hashlib.sha256(b''.join(map(_function_content, halves))).hexdigest()[:8]}"


def _function_content(function: Any) -> bytes:
    """Return a function's source, defaults and values of outer names, as bytes that identify what it does.

    A function that cannot be read or pickled gets random bytes, so that it equals no other.
    """
    import cloudpickle  # not needed for what is installed

    module = sys.modules.get(function.__module__)
    installed = module is not None and getattr(module, "__file__", None) and module.__name__ != "__main__"
    try:
        source = inspect.getsource(function) + (inspect.getsource(module) if module and installed else "")
        outside = inspect.getclosurevars(function)
        named = {**({} if installed else outside.globals), **outside.nonlocals}
        own = [value for value in named.values() if inspect.isfunction(value) and value is not function]
        held = [named[name] for name in sorted(named) if not any(named[name] is each for each in own)]
        rest: bytes = cloudpickle.dumps((function.__defaults__, function.__kwdefaults__, held))
    except Exception:  # noqa: BLE001 - whatever else cannot be read or pickled
        return uuid.uuid4().bytes
    helpers = (each for each in own if each.__module__ == function.__module__)
    return b"".join([source.encode(), rest, *(inspect.getsource(each).encode() for each in helpers)])


def _error_text(error: BaseException) -> str:
    return ": ".join(part for part in (type(error).__name__, " ".join(str(error).split())) if part)


loaders.append(registry)  # a kept answer may be of a class whose plugin was not asked for yet
