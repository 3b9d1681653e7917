"""``df.dp`` on the frames of pandas, Polars, Dask and Spark.

The accessor keeps no state: the view of a frame is found by the identity of the frame object. It is made anew at
every access and never stored on the frame, so it makes no reference cycle that would keep a large table alive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import wrapt

from dfprivacy._plugins.loader import RESERVED, registry
from dfprivacy.errors import trimmed
from dfprivacy.protection import protect, view_of

if TYPE_CHECKING:
    from types import ModuleType

    from dfprivacy.view import PrivateFrame

__all__ = ["Accessor", "install"]


class Accessor:
    """Accessor ``df.dp`` of a frame, which protects the frame and gives access to its private view.

    Parameters
    ----------
    frame : DataFrame of pandas, Polars, Dask or Spark, or polars.LazyFrame
        The frame.
    """

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    @trimmed
    def protect(self, name: str, **terms: Any) -> PrivateFrame:
        """Protect the frame; the arguments are those of `dfprivacy.protect`."""
        return protect(self._frame, name, **terms)

    @property
    def view(self) -> PrivateFrame:
        """Private view of the frame; raises `dfprivacy.NotProtected` if the frame is not protected."""
        return view_of(self._frame)

    @trimmed
    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # what Python and notebooks probe for
            raise AttributeError(name)
        return getattr(view_of(self._frame), name)

    def __getitem__(self, name: Any) -> Any:
        return view_of(self._frame)[name]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *RESERVED, *registry().methods})

    def __repr__(self) -> str:
        try:
            return repr(view_of(self._frame))
        except Exception as error:  # noqa: BLE001 - a repr never fails
            return f"<dfprivacy accessor: {error}>"


class _AccessorDescriptor:
    """Descriptor that makes an accessor at every access."""

    def __get__(self, frame: object, owner: type) -> Any:
        return Accessor if frame is None else Accessor(frame)


def install() -> None:
    """Add ``dp`` to the frames of pandas, Polars, Dask and Spark, as soon as the library is imported."""

    def add_to_frames(module: ModuleType) -> None:
        module.DataFrame.dp = _AccessorDescriptor()

    def add_to_polars(module: ModuleType) -> None:
        module.DataFrame.dp = _AccessorDescriptor()
        module.LazyFrame.dp = _AccessorDescriptor()

    for module in ("pandas", "dask.dataframe", "pyspark.sql.dataframe"):
        wrapt.register_post_import_hook(add_to_frames, module)
    wrapt.register_post_import_hook(add_to_polars, "polars")
