"""Run every example of README, documentation and docstrings.

A document's examples run in order and share their names, a working folder and a throwaway ledger. Noise is random,
so output after a line marked ``# random`` is compared with its numbers, decisions and moments left out. What a
release's sentence says after its first words and a note of counts below 0 are left out too, for they depend on the
noise; all else must match.
"""

from __future__ import annotations

import doctest
import functools
import importlib
import os
import pkgutil
import re
import sys
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sybil import Sybil
from sybil.evaluators.doctest import DocTestEvaluator
from sybil.parsers.abstract import DocTestStringParser
from sybil.parsers.myst import PythonCodeBlockParser

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sybil import Document, Region


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import every module, so that documents of the same find it there and make no second one of it.

    What is copied by value where a class has two modules would be a class of its own. Adapters have no examples,
    and not every environment has their engines. Who collects no documents need not wait for it: tests alone have
    none, and the process that gives out work to others collects nothing.
    """
    config = session.config
    asked = [(config.invocation_params.dir / arg.partition("::")[0]).resolve() for arg in config.args]
    if config.pluginmanager.hasplugin("dsession") or all(path.is_relative_to(_TESTS) for path in asked):
        return
    adapters = {f"dfprivacy._table.frames.{engine}" for engine in ("dask", "duckdb", "spark")}
    plugins = ("chi2", "dcor", "eda", "gmm", "inference", "kernel", "kme", "regression", "ttest")
    for name in ("dfprivacy", *(f"dfprivacy_{each}" for each in plugins)):
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith("__main__") and module.name not in adapters:
                importlib.import_module(module.name)


_TESTS = Path(__file__).parent / "tests"

# Files of audits and simulations, the longest first: a worker that began one at the end would work alone.
_LONG = (
    "test_audits.py",
    "test_faults.py",
    "test_methods.py",
    "test_promises.py",
    "test_conformance.py",
    "test_releases.py",
    "test_privacy.py",
    "test_features.py",
    "test_implied.py",
    "test_row_locality.py",
    "test_laws.py",
    "test_chi2.py",
    "test_sensitivities.py",
    "test_files.py",
    "test_processes.py",
    "test_views.py",
    "test_moments.py",
    "test_power.py",
    "test_measurements.py",
    "test_requests.py",
    "test_types.py",
    "test_progress.py",
    "test_accounts.py",
    "test_statistics.py",
    "test_plugins.py",
    "test_mixtures.py",
    "test_demo.py",
)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave modules alone that say nothing of pandas where only that is asked for: to collect all takes long."""
    if config.getoption("markexpr") != "pandas" or collection_path.suffix != ".py":
        return None
    return "mark.pandas" not in collection_path.read_text(encoding="utf-8") or None


_ELSEWHERE = {"polars", "polars lazy", "polars-lazy", "polars-parquet"}  # frames in which nothing depends on pandas


def _apart(item: pytest.Item) -> bool:
    """Whether the version of pandas cannot matter, by the test's own mark or the library that makes its frame."""
    marker = item.get_closest_marker("pandas")
    said = item.callspec.params if hasattr(item, "callspec") else {}
    libraries = {str(said[name]) for name in ("constructor", "engine", "library") if name in said}
    return (marker is not None and False in marker.args) or not libraries.isdisjoint(_ELSEWHERE)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the examples of pages on both versions of pandas, for people copy them; and begin with what is long.

    Of a test that runs once for each library, the other version of pandas runs what is about pandas and Arrow.
    """
    for item in items:
        if item.path.suffix == ".md":
            item.add_marker("pandas")
    if config.getoption("markexpr") == "pandas":
        config.hook.pytest_deselected(items=[item for item in items if _apart(item)])
        items[:] = [item for item in items if not _apart(item)]
    items.sort(key=lambda item: _LONG.index(item.path.name) if item.path.name in _LONG else len(_LONG))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    """Draw the noise of a test or an example from a seed of its own: what fails once fails always.

    Tests marked `opendp` draw from OpenDP, as do the processes that a test starts.
    """
    from dfprivacy._privacy import samplers

    if item.get_closest_marker("opendp"):
        return (yield)
    with samplers.use_sampler(_of_a_seed()(zlib.crc32(item.nodeid.encode()))):
        return (yield)


@functools.cache
def _of_a_seed() -> type[Any]:
    """Make the class when it is first needed: what of dfprivacy a process imports is tested too."""
    from dfprivacy._privacy.samplers import OpenDPSampler
    from dfprivacy.testing import SeededSampler

    class Repeatable(SeededSampler):
        """Noise that is the same in each run; releases say of it what they say of OpenDP's."""

        name = OpenDPSampler().name
        private = True

    return Repeatable


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Close a file's pictures at its end: matplotlib warns of many, and who is second in a worker would hear it."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None and (nextitem is None or nextitem.path != item.path):
        pyplot.close("all")


_NUMBER = re.compile(
    r"\b\d{4}-\d\d-\d\dT[\d:]+|(?:< |-)?\b\d+(,\d{3})*(\.\d+)?(e[-+]?\d+)?\b|-?\binf\b|\b(?:True|False)\b"
)


_CLAMPED = re.compile(r"\n\s+note\s+Noise took[^\n]*")

_COVERS = re.compile(r"(?P<before>\n\s+)(?P<line>covers  [^\n]*)")  # notes that depend on the noise stand beside it

_SENTENCE = re.compile(r"\A(\S+ \S+ \S+).*?(?=^[A-Z]\w+: |^\*\*[A-Z])", re.DOTALL | re.MULTILINE)


class _Examples(DocTestStringParser):
    """Doctest, but for random numbers."""

    def _parse_example(self, *where: Any) -> tuple[str, dict[int, bool], str, str | None]:
        source, options, want, message = super()._parse_example(*where)  # type: ignore[misc]
        if "# random" in source:
            want = _COVERS.sub(r"...\g<before>\g<line>...", _SENTENCE.sub(r"\1 ...\n", want))
            want = _NUMBER.sub("...", _CLAMPED.sub("...", want))
        return source, options, want, message


def _docstrings(document: Document) -> Iterable[Region]:
    return _examples(document.text, document.path)


def _setup(namespace: dict[str, Any]) -> None:
    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    namespace["_before"] = folder, Path.cwd(), os.environ.get("DFPRIVACY_LEDGER")
    os.chdir(folder.name)
    os.environ["DFPRIVACY_LEDGER"] = str(Path(folder.name) / "ledger.sqlite")


def _teardown(namespace: dict[str, Any]) -> None:
    from dfprivacy._ledger import ledger
    from dfprivacy._plugins import loader as plugins

    folder, before, variable = namespace["_before"]
    os.chdir(before)
    del os.environ["DFPRIVACY_LEDGER"]
    if variable is not None:
        os.environ["DFPRIVACY_LEDGER"] = variable
    folder.cleanup()
    ledger._in_memory.clear()  # noqa: SLF001 - the ledger in memory lasts as long as the process
    for plugin in plugins.registry().plugins:
        if not plugin.distribution:
            plugins.unregister(plugin.name)


_examples = _Examples(DocTestEvaluator(doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE))
_documents = PythonCodeBlockParser()
_documents.doctest_parser = _examples

pytest_collect_file = (
    Sybil([_documents], patterns=["README.md", "docs/*.md", "docs/*/*.md"], setup=_setup, teardown=_teardown)
    + Sybil(
        [_docstrings],
        patterns=["dfprivacy/*.py", "dfprivacy/*/*.py", "plugins/*/*.py"],
        setup=_setup,
        teardown=_teardown,
    )
).pytest()
