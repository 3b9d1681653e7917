"""Work that travels to where the rows are, and whether the code that it needs is the same there."""

from __future__ import annotations

import hashlib
import io
import pickle
import sys
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import PurePath
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

__all__ = ["code_of", "packed", "unpacked"]

# The first has its version compared; of the others, no more than pickled arrays and code needs.
_COMPARED_OTHERWISE = {"dfprivacy", "numpy", "cloudpickle"}


def packed(work: object) -> bytes:
    """Pickle work by cloudpickle, with the names of the packages whose code it needs: plugins, as a rule."""
    import cloudpickle

    names: set[str] = set()
    along = tuple(f"{name}." for name in cloudpickle.list_registry_pickle_by_value())  # these come with their code

    class Noting(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
        """Notes where what it pickles is defined."""

        def reducer_override(self, obj: Any) -> Any:
            if not f"{_defined(obj)}.".startswith(along):
                names.add(_defined(obj).partition(".")[0])
            return super().reducer_override(obj)

    file = io.BytesIO()
    Noting(file).dump(work)
    own = {*sys.stdlib_module_names, *_COMPARED_OTHERWISE, "__main__", ""}
    return pickle.dumps((tuple(sorted(names - own)), file.getvalue()))


def _defined(thing: Any) -> str:
    """Return the name of the module that defines an object, or its class."""
    if isinstance(thing, ModuleType):
        return thing.__name__
    named = thing if isinstance(thing, type) or callable(thing) else type(thing)
    module = getattr(named, "__module__", None)
    return module if isinstance(module, str) else ""


def unpacked(written: bytes) -> tuple[tuple[str, ...], bytes]:
    """Return the names of packages, and work that is pickled still: where code is missing, that fails."""
    names, work = pickle.loads(written)  # noqa: S301 - the driver's
    return names, work


@cache
def code_of(package: str) -> str:
    """Digest of the source of a package or module, in a folder or a zip; empty where there is none."""
    try:
        spec = find_spec(package)
        if spec is None:
            return ""
        if spec.submodule_search_locations is None:
            source: Any = getattr(spec.loader, "get_source", lambda _: None)(package)
            return "" if source is None else hashlib.blake2b(source.encode(), digest_size=16).hexdigest()
        digest = hashlib.blake2b(digest_size=16)
        for name, file in sorted(_sources(resources.files(package), PurePath())):
            content = file.read_bytes()
            digest.update(f"{name} {len(content)} ".encode() + content)
        return digest.hexdigest()
    except Exception:  # noqa: BLE001 - whoever cannot read it can use it all the same
        return ""


def _sources(folder: Traversable, path: PurePath) -> Iterator[tuple[str, Traversable]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _sources(each, path / each.name)
        elif each.name.endswith(".py"):
            yield (path / each.name).as_posix(), each
