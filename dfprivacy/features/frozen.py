"""Objects that cannot be changed once they are made, so that what is proved of them stays true."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any

import numpy as np

from dfprivacy.errors import PluginError

__all__ = ["FROZEN", "HOUSE", "Frozen", "refuse_change"]

HOUSE = "dfprivacy.features."
FROZEN = "_frozen"
"""The attribute of an object that cannot be changed any more."""


class Frozen(ABCMeta):
    """Class of objects that are frozen, arrays included, when they are made, if their class is bundled."""

    def __call__(cls, *args: Any, **named: Any) -> Any:
        """Make an object, and freeze it. Its arrays are copies, which are not shared with the caller."""
        made = super().__call__(*args, **named)
        if cls.__module__.startswith(HOUSE):
            attributes = vars(made)
            for name, value in attributes.items():
                if isinstance(value, np.ndarray) and value.flags.writeable:
                    attributes[name] = value = value.copy()  # noqa: PLW2901
                    value.flags.writeable = False
            attributes[FROZEN] = True
        return made


def refuse_change(self: object, name: str, value: object) -> None:
    """Set an attribute of an object that is being made; of one that is made, raise a `PluginError`."""
    if FROZEN in vars(self):
        raise PluginError(
            f"{name!r} of a {type(self).__name__} is fixed: what is proved holds for what it was made of.",
            "Make another one.",
        )
    object.__setattr__(self, name, value)
