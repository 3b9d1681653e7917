"""All that is inside an object, and all that can be seen of a release.

Inside are attributes, slots, closures and what a pickle would hold, at any depth. Of a release there are also its
texts, tables and pictures, and what its methods return.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import random
import struct
import sys
import types
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy.release import Groups, Release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["attributes", "difference", "insides", "package", "shown"]

_OF_THE_HOUSE = {"from_dict", "made_for", "paid", "plot", "privacy", "library", "column_words", "column_units"}
_DRAWN = (
    "get_xydata", "get_offsets", "get_array", "get_path", "get_paths", "get_segments", "get_extent", "get_xy",
    "get_width", "get_height", "get_text", "get_position", "get_label", "get_color", "get_facecolor",
    "get_edgecolor", "get_linewidth", "get_alpha", "get_visible", "get_xlim", "get_ylim", "get_sizes",
)  # fmt: skip
_LONG = 10**1000
_DEEP = 160  # characters of a path
_PLAIN = (bool, int, float, complex, str, bytes, bytearray)
_KNOWN = {"dfprivacy", "numpy", "scipy", "pandas", "polars", "pyarrow", "matplotlib", *sys.stdlib_module_names}
_CHANCE = (random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator)
_HELD = {*_PLAIN, dict, list, tuple, set, frozenset, types.MappingProxyType, np.ndarray}
_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)


def package(thing: Any) -> str:
    """Name the distribution's package that a class or a function is of."""
    return str(getattr(thing, "__module__", None) or "builtins").partition(".")[0]


def insides(value: Any, path: str = "it", *, own: frozenset[str] | None = None) -> dict[str, str]:
    """Write down all that is inside an object.

    Parameters
    ----------
    value : object
        The object.
    path : str
        What it is called.
    own : frozenset of str, optional
        Packages. If given, only objects and functions of these are entered, functions with the globals of their
        module; sources of chance are not looked into. That is the state of a plugin.

    Returns
    -------
    dict of str to str
        By path, in the order in which they are found, values to the last bit.
    """
    walk = _Walk(own)
    walk.visit(path, value)
    return walk.values


def difference(one: Mapping[str, str], other: Mapping[str, str]) -> str | None:
    """Name the first path at which two objects differ, in value or in order; None if they are the same."""
    for a, b in zip(one.items(), other.items(), strict=False):
        if a != b:
            return f"{a[0]} is {_brief(a[1])} or {_brief(b[1])}" if a[0] == b[0] else f"{a[0]} or {b[0]}"
    longer = one if len(one) > len(other) else other
    return None if len(one) == len(other) else list(longer)[min(len(one), len(other))]


def _brief(text: str) -> str:
    return text if len(text) < 40 else text[:37] + "..."  # noqa: PLR2004


def attributes(item: Any) -> dict[str, Any]:
    """Give the attributes of an object, those in slots too."""
    held = dict(getattr(item, "__dict__", None) or {})
    for cls in type(item).__mro__:
        for name, slot in vars(cls).items():
            if isinstance(slot, types.MemberDescriptorType) and not name.startswith("__"):
                try:
                    held[name] = slot.__get__(item)
                except AttributeError:  # not set
                    continue
    return held


class _Walk:
    def __init__(self, own: frozenset[str] | None) -> None:
        self.values: dict[str, str] = {}
        self._own = own
        self._seen: dict[int, tuple[str, Any]] = {}  # with the object, lest its place in memory be used again

    def visit(self, path: str, item: Any) -> None:
        if item is None or type(item) in _PLAIN:
            self.values[path] = _word(item)
            return
        if id(item) in self._seen:
            self.values[path] = f"the same as {self._seen[id(item)][0]}"
            return
        self._seen[id(item)] = path, item
        self.values[path] = _word(item)
        if isinstance(item, types.ModuleType) or (self._own is not None and isinstance(item, _CHANCE)):
            return
        if len(path) > _DEEP:  # where all of it would be written at every depth; the number is nobody else's
            path = f"...({len(self.values)}){path[-_DEEP // 2 :]}"
        for name, part in self._parts(item):
            self.visit(f"{path}{name}", part)

    def _parts(self, item: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(item, type):
            yield from self._of_class(item)
        elif isinstance(item, _FUNCTIONS):
            yield from self._of_function(item)
        else:
            yield from _of_container(item)
            yield from self._of_object(item)

    def _of_function(self, item: Any) -> Iterator[tuple[str, Any]]:
        if self._own is not None and package(item) not in self._own:
            return
        for name in ("__self__", "__func__", "__defaults__", "__kwdefaults__", "__dict__"):
            yield f".{name}", getattr(item, name, None)
        for at, cell in enumerate(getattr(item, "__closure__", None) or ()):
            try:
                yield f".closure({item.__code__.co_freevars[at]})", cell.cell_contents
            except ValueError:  # not yet filled
                continue
        if self._own is not None:
            yield ".__globals__", _named(getattr(item, "__globals__", {}))

    def _of_class(self, item: type) -> Iterator[tuple[str, Any]]:
        entered = package(item) not in _KNOWN if self._own is None else package(item) in self._own
        if entered:
            yield from ((f".{name}", value) for name, value in _named(vars(item)).items())

    def _of_object(self, item: Any) -> Iterator[tuple[str, Any]]:
        kind = type(item)
        if kind in _HELD:
            return
        if self._own is not None and package(kind) not in self._own | {"builtins", "functools", "collections"}:
            return
        yield ".__class__", kind
        yield from ((f".{name}", value) for name, value in attributes(item).items())
        yield from ((f".pickle({at})", part) for at, part in enumerate(_pickled(item)))


def _of_container(item: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(item, dict | types.MappingProxyType):
        for at, (key, value) in enumerate(item.items()):
            if isinstance(key, str):
                yield f"[{key!r}]", value
            else:
                yield f".key({at})", key
                yield f"[{at}]", value
    elif isinstance(item, list | tuple):
        yield from ((f"[{at}]", value) for at, value in enumerate(item))
    elif isinstance(item, set | frozenset):
        yield from ((f"{{{at}}}", value) for at, value in enumerate(sorted(item, key=repr)))
    elif isinstance(item, np.ndarray):
        yield ".base", item.base
        if item.dtype.hasobject:
            yield from ((f"[{at}]", value) for at, value in enumerate(item.ravel().tolist()))


def _named(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what Python itself puts into a module or a class."""
    return {name: value for name, value in namespace.items() if not (name.startswith("__") and name.endswith("__"))}


def _pickled(item: Any) -> tuple[Any, ...]:
    if isinstance(item, functools._lru_cache_wrapper):  # noqa: SLF001 - the only name it has
        return (item.cache_info().currsize,)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reduced = item.__reduce_ex__(4)
    except Exception:  # noqa: BLE001 - what cannot be pickled has no pickle
        return ()
    if isinstance(reduced, str):
        return (reduced,)
    _, arguments, *rest = reduced
    state, *items = [*rest, None, None, None][:3]
    return (arguments, state, *(None if each is None else list(each) for each in items))


def _digest(array: np.ndarray[Any, Any]) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()


_WORDS: list[tuple[type, Callable[[Any], str]]] = [
    (np.ndarray, lambda x: f"{x.dtype.str}{x.shape} {'' if x.dtype.hasobject else _digest(x)}"),
    (np.generic, lambda x: f"{x.dtype.str} {x.item()!r} {x.tobytes().hex()}"),
    (float, lambda x: f"{float.__repr__(x)} {struct.pack('>d', x).hex()}"),
    (str, str.__repr__),
    (bytes, bytes.__repr__),
    (int, lambda x: int.__repr__(x) if abs(x) < _LONG else f"{x:x}"),  # Python writes no long ones in tens
    (dict, lambda x: f"{len(x)} items"),
    (list, lambda x: f"{len(x)} items"),
    (set, lambda x: f"{len(x)} items"),
    (type, lambda x: f"{x.__module__}.{x.__qualname__}"),
    (types.FunctionType, lambda x: x.__qualname__),
    (types.ModuleType, lambda x: x.__name__),
]


def _word(item: Any) -> str:
    kind = type(item)
    if item is None or kind in {bool, complex, bytearray}:
        return repr(item)
    say = next((say for of, say in _WORDS if issubclass(kind, of)), None)
    told = "" if say is None else say(item)
    return told if kind in _PLAIN else f"{kind.__qualname__} {told}"


def shown(release: Release, *, pictures: bool) -> dict[str, dict[str, str]]:
    """Write down all that can be seen of a release.

    Parameters
    ----------
    release : Release
        The release. The hour at which it was made is taken out of it.
    pictures : bool
        Whether to draw it too, which takes longer.

    Returns
    -------
    dict
        By what was looked at, its insides by path.
    """
    if release.privacy is not None:
        object.__setattr__(release.privacy, "at", "")
    pages = {"its attributes": insides(release)}
    for name, look in _looks(release):
        try:
            pages[name] = insides(look(), name)
        except Exception as error:  # noqa: BLE001 - how it fails can be seen as well
            pages[name] = {name: f"{type(error).__name__}: {error}"}
    return pages | (_pictures(release) if pictures else {})


def _looks(release: Release) -> Iterator[tuple[str, Any]]:
    """Give what can be asked of a release without an argument."""
    yield "repr()", release.__repr__
    yield "str()", release.__str__
    yield "_repr_html_()", release._repr_html_
    for name in dir(type(release)):
        if name.startswith("_") or name in _OF_THE_HOUSE:
            continue
        given = inspect.getattr_static(type(release), name)
        if not callable(getattr(type(release), name)):
            yield name, lambda name=name: getattr(release, name)
        elif inspect.isfunction(given) and _needs_nothing(given):
            yield f"{name}()", getattr(release, name)


def _needs_nothing(function: Any) -> bool:
    _, *rest = inspect.signature(function).parameters.values()
    return all(
        each.default is not each.empty or each.kind in {each.VAR_POSITIONAL, each.VAR_KEYWORD} for each in rest
    )


def _pictures(release: Release) -> dict[str, dict[str, str]]:
    """Draw a release, or those of its groups, and write down what is drawn."""
    if isinstance(release, Groups):
        each = (_pictures(part) for part in release.releases)
        return {f"{name} of group {at}": seen for at, one in enumerate(each) for name, seen in one.items()}
    if type(release).plot is Release.plot:
        return {}
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return {}
    figure = Figure()
    try:
        made = release.plot(figure.subplots())
    except Exception as error:  # noqa: BLE001 - as above
        return {"plot()": {"plot()": f"{type(error).__name__}: {error}"}}
    figures = {id(figure): figure, id(other := getattr(made, "figure", figure)): other}
    return {"plot()": {path: text for each in figures.values() for path, text in _drawn(each).items()}}


def _drawn(figure: Any) -> dict[str, str]:
    artists: dict[str, str] = {}
    for at, artist in enumerate(figure.findobj()):
        name = f"{type(artist).__name__} {at}"
        artists[name] = "drawn"
        for getter in _DRAWN:
            with contextlib.suppress(Exception):  # an artist without it
                value = getattr(artist, getter)()
                if not hasattr(value, "findobj"):  # else it is another artist, which is drawn itself
                    artists |= insides(_numbers(value), f"{name}.{getter}()")
    return artists


def _numbers(value: Any) -> Any:
    """Take the vertices of paths, which are all that is drawn of them."""
    if isinstance(value, list | tuple):
        return [_numbers(each) for each in value]
    return getattr(value, "vertices", value)
