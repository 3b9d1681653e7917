"""All that can be seen of a release: its insides, its texts, tables and pictures, and what its methods return."""

from __future__ import annotations

import contextlib
import inspect
from typing import TYPE_CHECKING, Any

from dfprivacy.release import Groups, Release
from dfprivacy.testing.insides import insides

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["shown"]

_OF_THE_HOUSE = {"from_dict", "made_for", "paid", "plot", "privacy", "library", "column_words", "column_units"}
_DRAWN = (
    "get_xydata", "get_offsets", "get_array", "get_path", "get_paths", "get_segments", "get_extent", "get_xy",
    "get_width", "get_height", "get_text", "get_position", "get_label", "get_color", "get_facecolor",
    "get_edgecolor", "get_linewidth", "get_alpha", "get_visible", "get_xlim", "get_ylim", "get_sizes",
)  # fmt: skip


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
