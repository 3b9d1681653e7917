"""A number as a function of answers, worked out again with every draw of their noise."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dfprivacy._measure.redraw import World
from dfprivacy.errors import ArgumentError, DPError
from dfprivacy.release import Groups, Release
from dfprivacy.schema.values import plain_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from dfprivacy._call.answered import Answered, Part

__all__ = ["Leaf", "Node", "Shifted", "drawn", "main", "number"]


@dataclass(frozen=True, eq=False)
class Leaf:
    """A release that a method returned: one answer, or one of all groups."""

    release: Release
    answered: Answered
    key: object

    @property
    def words(self) -> str:
        """The question, as it would be typed."""
        return self.answered.in_words(self.key)

    def parts(self) -> tuple[Part, ...]:
        """Give the answers in it."""
        every = self.answered.parts
        if self.key is None or not isinstance(self.answered.release, Groups):
            return every
        return (every[self.answered.release.keys.index(self.key)],)

    def leaves(self) -> Iterable[Leaf]:
        """Give the releases that it follows from."""
        return (self,)

    def at(self, world: World) -> Any:
        """Give what stands for the release with a draw of the noise."""
        standing = [_Redrawn(part, world) for part in self.parts()]
        all_groups = self.key is None and isinstance(self.release, Groups)
        return _AllGroups(cast("Groups", self.release), standing) if all_groups else standing[0]


@dataclass(frozen=True, eq=False)
class Node:
    """A function of releases, of what follows from releases, and of numbers.

    Attributes
    ----------
    f : callable
        The function.
    inputs : tuple
        What it takes.
    said : str
        What it is, in words.
    pools : tuple or None
        Where it is the mean of one number in several answers to a question: one of them, what gives the number, and
        how many there are.
    """

    f: Callable[..., Any]
    inputs: tuple[Leaf | Node | float, ...]
    words: str
    pools: tuple[Leaf, Callable[..., float] | None, int] | None = None

    def leaves(self) -> Iterable[Leaf]:
        """Give the releases that it follows from."""
        return [leaf for each in self.inputs if not isinstance(each, float) for leaf in each.leaves()]

    def parts(self) -> list[Part]:
        """Give the answers that it follows from, each once."""
        return list(dict.fromkeys(part for leaf in self.leaves() for part in leaf.parts()))

    def value(self, world: World) -> float:
        """Give the value with a draw of the noise."""
        if self not in world.kept:
            given = [each if isinstance(each, float) else each.at(world) for each in self.inputs]
            world.kept[self] = number(self.f(*given), "The function", finite=world.number is None)
        value: float = world.kept[self]
        return value

    def at(self, world: World) -> Any:
        """Give what stands for a combination with a draw of the noise."""
        return _Combined(self, world)


class Shifted(World):
    """The noise as it was, and the estimate of one answer moved by so much."""

    def __init__(self, part: Part | None = None, by: float = 0.0) -> None:
        super().__init__(None)
        self._part, self._by = part, by

    def estimate(self, part: Part) -> float:
        """Give the estimate of an answer."""
        return main(part.release) + (self._by if part is self._part else 0.0)


class _Redrawn:
    """Stands for a release with a draw of the noise: what is asked of it is worked out when it is asked."""

    def __init__(self, part: Part, world: World) -> None:
        self._part, self._world = part, world

    def __getattr__(self, name: str) -> Any:
        part, kept, mechanism = self._part, self._world.kept, self._part.answered.question.mechanism
        estimate = name == part.release._estimate  # noqa: SLF001 - of our own kind
        if isinstance(self._world, Shifted):
            if estimate:
                return self._world.estimate(part)
            raise ArgumentError(
                f"The function looks at {name}, and the sampling error of the estimate alone is known.",
                "Use estimates only, or leave out covers=: then the interval is for the table's own number.",
            )
        if part not in kept:
            kept[part] = part.measured(self._world)
        if estimate and mechanism.estimator is not None:
            return mechanism.estimate(kept[part], part.answered.question.arguments)
        if (part, "whole") not in kept:
            kept[part, "whole"] = part.concluded(kept[part])
        return getattr(kept[part, "whole"], name)

    def __float__(self) -> float:
        return float(getattr(self, self._part.release._estimate))  # noqa: SLF001 - of our own kind

    def __getitem__(self, key: object) -> Any:
        return self.__getattr__("__getitem__")(key)


class _AllGroups:
    """Stands for the release of all groups."""

    def __init__(self, groups: Groups, releases: Sequence[_Redrawn]) -> None:
        self.by, self.keys, self.releases = groups.by, groups.keys, tuple(releases)

    def __getitem__(self, key: object) -> Any:
        return self.releases[self.keys.index(key)]


class _Combined:
    """Stands for a combination."""

    def __init__(self, node: Node, world: World) -> None:
        self._node, self._world = node, world

    @property
    def estimate(self) -> float:
        return self._node.value(self._world)

    def __float__(self) -> float:
        return self.estimate


def drawn(node: Node, draws: int) -> NDArray[np.float64]:
    """Compute the value with so many draws of the noise; NaN where it is no number, such as a quotient by 0."""
    values = np.empty(draws)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for at in range(draws):
            try:
                values[at] = node.value(World(at))
            except NotFiniteError:
                values[at] = np.nan
            except DPError:
                raise
            except (ArithmeticError, ValueError):
                values[at] = np.nan
    return values


_ABOUT = {"estimates", "params", "statistic", "raw", "values", "correlation"}  # fields that are more than settings


class NotFiniteError(ArgumentError):
    """A value is infinite, or no number."""


def main(release: Release) -> float:
    """Give the number that arithmetic is about."""
    if isinstance(release, Groups):
        raise ArgumentError("An answer by group has several numbers.", "Name a group: groups['a'] - groups['b'].")
    name, kind = release._estimate, type(release).__name__  # noqa: SLF001 - of our own kind
    value = getattr(release, name, None)
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise ArgumentError(
            f"A {kind} has no one number to calculate with.",
            f"Point at one of its numbers, such as {_example(release)}: view.refine(release, number, epsilon=...), "
            "or dp.combine(number, release).",
        )
    return number(value, f"The {name} of this {kind}")


def _example(release: Release) -> str:
    """Write a function that points at a number of a release."""
    for name, field in sorted(release.result.items(), key=lambda item: item[0] not in _ABOUT):
        value, place = field, ""
        while isinstance(value, dict | list | tuple) or np.ndim(value):
            if not len(value):
                break
            key = next(iter(value)) if isinstance(value, dict) else -1 if place else 0
            value, place = value[key], f"{place}[{key!r}]"
        if isinstance(value, float) and math.isfinite(value):
            return f"number = lambda r: r.{name}{place}"
    return "number = lambda r: r.estimate"


def number(value: Any, what: str, *, finite: bool = True) -> float:
    """Read one number."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, list | tuple | dict | set | np.ndarray):
        raise ArgumentError(f"{what} gave several numbers.", "Combine to one number at a time.")
    if value is None:  # such as a slope of regressors that cannot be told apart under this noise
        raise NotFiniteError(f"{what} gave None, and no number.", "Point at one, such as release.estimate.")
    truth = isinstance(value, bool | np.bool_)
    if truth or not isinstance(value, int | float | Fraction | np.number | Release | _Redrawn | _Combined):
        raise ArgumentError(
            f"{what} gave a {type(value).__name__}, and no number.", "Point at one, such as release.estimate."
        )
    if isinstance(value, Release):
        read = main(value)
    else:
        read = float(value) if isinstance(value, _Redrawn | _Combined) else plain_number(value)
    if math.isnan(read) or (finite and math.isinf(read)):
        raise NotFiniteError(f"{what} gave {read}.", "Combine finite numbers.")
    return read
