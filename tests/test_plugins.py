"""The loader of plugins, on installed distributions that are broken in every way we know of."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
import types
from dataclasses import replace
from importlib import metadata
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._plugins.loader import (
    RESERVED,
    LoadedPlugin,
    Plugin,
    Registry,
    register,
    register_mechanism,
    registry,
    unregister,
)
from dfprivacy.accessor import Accessor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    Report = Callable[..., dict[str, Any]]

VERSION = metadata.version("dfprivacy")
GOOD = """
    from dfprivacy import hookimpl, mechanism

    @mechanism(name="{method}")
    def method(curator):
        "The number of rows."
        return curator.size

    @hookimpl
    def dfprivacy_register_mechanisms(register):
        register(method)
"""
REPORT = """
import json, sys, warnings

import polars as pl

import dfprivacy as dp
from dfprivacy._plugins import loader
from dfprivacy._plugins.loader import registry

loader.SLOW_SECONDS = float(sys.argv[1])
early = sorted(name for name in sys.modules if name.startswith(("plugin_", "dfprivacy_ttest")))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    view = dp.protect(pl.DataFrame({"x": [0.0, 1.0] * 9}), "t", epsilon=9, bounds={"x": (0, 1)}, ledger="memory:")
    found = registry()
    ask = getattr(view, "ttest", None)
    bundled = ask and [ask("x", popmean=0.5, epsilon=e).privacy.mechanism for e in (1, 2)][-1]
    registry()
report = {
    "early": early,
    "bundled": bundled,
    "origins": {name: m.origin for name, m in found.mechanisms.items() if not m.origin.startswith("dfprivacy ")},
    "plugins": {f"{p.name} of {p.distribution}": p.status for p in found.plugins if p.distribution != "dfprivacy"},
    "seconds": [p.seconds for p in found.plugins if p.distribution != "dfprivacy"],
    "problems": found.problems,
    "warnings": [str(w.message) for w in caught if w.category is dp.errors.PluginWarning],
}
print(json.dumps(report))
"""


def install(
    site: Path, distribution: str, version: str, points: Mapping[str, str], modules: Mapping[str, str]
) -> None:
    """Install a distribution as a wheel would be: modules, metadata and entry points."""
    for name, source in modules.items():
        (site / f"{name}.py").write_text(textwrap.dedent(source))
    info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    lines = [f"{name} = {module}" for name, module in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[dfprivacy]", *lines, ""]))


def add(site: Path, distribution: str, version: str, name: str, source: str | None = None) -> None:
    """Install a distribution with one plugin, whose method has its name but for the source."""
    method = f"{distribution.lower()}_rows"
    modules = {f"plugin_{name}_{method}": source or GOOD.format(method=method)}
    install(site, distribution, version, {name: next(iter(modules))}, modules)


@pytest.fixture(scope="module")
def forks(forking: Callable[..., Any], needed: list[str]) -> Any:
    """Fork of a process that has imported all but the plugin that is looked at, and has loaded no plugin."""
    return forking("polars", *(module for module in needed if module != "dfprivacy_ttest"))


@pytest.fixture
def report(forks: Any) -> Report:
    """Load all plugins in a process of its own that finds the distributions of a folder, and use a bundled one."""

    def load(site: Path, slow: float = 600, **environment: str) -> dict[str, Any]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DFPRIVACY_")}
        done = forks(REPORT, str(slow), environment={**kept, "PYTHONPATH": str(site), **environment})
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    return load


B = "Plugin 'b' (beta 2.0)"
FAILED = f"{B} is left out: loading it failed with"
BLOCK = "Give it another name, or put one of the two plugins into DFPRIVACY_BLOCK."
MARKED = "from dfprivacy import hookimpl\n@hookimpl\n"
BROKEN = {
    "import": ("import no_such", f"{FAILED} ModuleNotFoundError: No module named 'no_such'.", "failed"),
    "syntax": ("def (:", f"{FAILED} SyntaxError: invalid syntax (plugin_b_beta_rows.py, line 1).", "failed"),
    "exit": ("raise SystemExit(3)", f"{FAILED} SystemExit: 3.", "failed"),
    "panic": ("class Panic(BaseException): pass\nraise Panic", f"{FAILED} Panic.", "failed"),
    "half way": (
        GOOD.format(method="half") + "        raise RuntimeError('half\\n   way')\n",
        f"{FAILED} RuntimeError: half way.",
        "failed",
    ),
    "misspelt": (
        f"{MARKED}def dfprivacy_register_mechanism(register): pass",
        (
            f"{B} implements a hook 'dfprivacy_register_mechanism', which does not exist. "
            "Did you mean 'dfprivacy_register_mechanisms'?"
        ),
        "loaded",
    ),
    "unmarked": (
        "def dfprivacy_register_mechanisms(register): pass",
        (
            f"{B} does nothing: it has no function marked with @hookimpl. "
            "Known: dfprivacy_conformance_cases, dfprivacy_register_mechanisms, dfprivacy_released."
        ),
        "loaded",
    ),
    "not a mechanism": (
        f"{MARKED}def dfprivacy_register_mechanisms(register): register('rows')",
        (
            f"{B} registered an object of type str, which is not a mechanism and is left out. "
            "Mark the function with @mechanism(...)."
        ),
        "loaded",
    ),
    "reserved": (
        GOOD.format(method="budget"),
        (
            "Mechanism 'budget' of plugin 'b' (beta 2.0) is left out: every view has an attribute of that name. "
            "Give it another name."
        ),
        "loaded",
    ),
    "bundled name": (
        GOOD.format(method="ttest"),
        (
            "Mechanism 'ttest' of plugin 'b' (beta 2.0) is left out: "
            f"plugin 'ttest' (dfprivacy {VERSION}) has a mechanism of the same name, which is kept. {BLOCK}"
        ),
        "loaded",
    ),
    "twice": (
        GOOD.format(method="rows") + "        register(method)\n",
        (
            "Mechanism 'rows' of plugin 'b' (beta 2.0) is left out: "
            "the plugin registered another mechanism of the same name before."
        ),
        "loaded",
    ),
}


def test_broken_plugin_costs_itself_only(tmp_path: Path, report: Report) -> None:
    """Each broken plugin is named once with its version, and every other plugin works, bundled or not."""
    add(tmp_path, "alpha", "1.0", "a")
    problems, status = set(), {"a of alpha": "loaded", "c of gamma": "loaded"}
    for at, (source, problem, ended) in enumerate(BROKEN.values()):
        add(tmp_path, f"beta{at}", "2.0", f"b{at}", source)
        said = problem.replace("'b' (beta 2.0)", f"'b{at}' (beta{at} 2.0)")
        problems.add(said.replace("b_beta_rows", f"b{at}_beta{at}_rows"))
        status[f"b{at} of beta{at}"] = ended
    add(tmp_path, "gamma", "3.0", "c")

    found = report(tmp_path)

    assert [] == found["early"]  # no plugin before it is needed
    own = {"rows": f"beta{[*BROKEN].index('twice')} 2.0"}
    assert {"alpha_rows": "alpha 1.0", **own, "gamma_rows": "gamma 3.0"} == found["origins"]
    assert status == found["plugins"]
    assert found["problems"] == found["warnings"]
    assert sorted(problems) == sorted(found["problems"])
    assert f"ttest (dfprivacy {VERSION})" == found["bundled"]


def test_raising_listener_is_a_warning(tmp_path: Path, report: Report) -> None:
    """A plugin that fails on hearing of a release is named each time it matters; the release stands."""
    source = """
        from dfprivacy import hookimpl

        @hookimpl
        def dfprivacy_released(release, account):
            raise SystemExit(f"{account} {release.privacy.epsilon:g}")
    """
    add(tmp_path, "beta", "2.0", "b", source)

    found = report(tmp_path)

    failed = "The hook dfprivacy_released of plugin 'b' (beta 2.0) failed with SystemExit: t {}. "
    assert [failed.format(e) + "The release is not affected." for e in (1, 2)] == found["warnings"]
    assert f"ttest (dfprivacy {VERSION})" == found["bundled"]


def test_clash_of_entry_points_names_both(tmp_path: Path, report: Report) -> None:
    """Of two plugins of the same name, the first by distribution is kept and the other is said to be left out."""
    for distribution, version, name in (
        ("Zeta", "1.0", "same"),
        ("alpha", "2.0", "same"),
        ("beta", "3.0", "ttest"),
    ):
        add(tmp_path, distribution, version, name)

    found = report(tmp_path)

    kept = "has the same name and is kept. Uninstall one of the two distributions."
    assert {"alpha_rows": "alpha 2.0"} == found["origins"]
    assert {"same of alpha": "loaded", "ttest of beta": "failed", "same of Zeta": "failed"} == found["plugins"]
    assert [
        f"Plugin 'ttest' (beta 3.0) is left out: plugin 'ttest' (dfprivacy {VERSION}) {kept}",
        f"Plugin 'same' (Zeta 1.0) is left out: plugin 'same' (alpha 2.0) {kept}",
    ] == found["warnings"]
    assert f"ttest (dfprivacy {VERSION})" == found["bundled"]


def test_clash_of_mechanisms_names_both(tmp_path: Path, report: Report) -> None:
    """Of two mechanisms of the same name, the first by distribution is kept; the other plugin's others stay.

    One that takes longer to load than it should works, and is named."""
    more = GOOD.format(method="rows") + "        register(__import__('dataclasses').replace(method, name='more'))\n"
    add(tmp_path, "zeta", "1.0", "z", more)
    slow = "import time\ntime.sleep(0.5)\n" + textwrap.dedent(GOOD.format(method="rows"))
    add(tmp_path, "alpha", "2.0", "a", slow)

    found = report(tmp_path, slow=0.4)

    took = f"Plugin 'a' (alpha 2.0) took {max(found['seconds']):.1f} s to load."
    assert {"rows": "alpha 2.0", "more": "zeta 1.0"} == found["origins"]
    left_out = (
        "Mechanism 'rows' of plugin 'z' (zeta 1.0) is left out: "
        f"plugin 'a' (alpha 2.0) has a mechanism of the same name, which is kept. {BLOCK}"
    )
    said = {each for each in found["warnings"] if "(dfprivacy " not in each}
    assert {left_out, f"{took} It should import heavy libraries where it uses them."} == said
    assert f"ttest (dfprivacy {VERSION})" == found["bundled"]


@pytest.mark.parametrize(
    ("environment", "origins", "bundled", "warnings"),
    [
        ({"DFPRIVACY_PLUGINS": "a"}, {"rows": "alpha 1.0"}, False, []),
        ({"DFPRIVACY_PLUGINS": " b , ttest "}, {"rows": "beta 2.0"}, True, []),
        ({"DFPRIVACY_PLUGINS": ""}, {}, False, []),
        ({"DFPRIVACY_BLOCK": "a"}, {"rows": "beta 2.0"}, True, []),
        ({"DFPRIVACY_PLUGINS": "a,b", "DFPRIVACY_BLOCK": "a,ttest"}, {"rows": "beta 2.0"}, False, []),
        (
            {"DFPRIVACY_PLUGINS": "tttest", "DFPRIVACY_BLOCK": "everything"},
            {},
            False,
            [
                "DFPRIVACY_PLUGINS names 'tttest', which is not installed. Did you mean 'ttest'?",
                "DFPRIVACY_BLOCK names 'everything', which is not installed. Known: ",
            ],
        ),
    ],
)
def test_lists_choose_plugins(
    environment: dict[str, str],
    origins: dict[str, str],
    bundled: bool,
    warnings: list[str],
    tmp_path: Path,
    report: Report,
) -> None:
    """The allow list means exactly these, the block list keeps out, and a name on neither shelf is said."""
    for distribution, version, name in (("alpha", "1.0", "a"), ("beta", "2.0", "b")):
        add(tmp_path, distribution, version, name, GOOD.format(method="rows"))

    found = report(tmp_path, **environment)

    assert origins == found["origins"]
    assert (f"ttest (dfprivacy {VERSION})" if bundled else None) == found["bundled"]
    assert warnings == [said[: len(start)] for said, start in zip(found["warnings"], warnings, strict=True)]


def test_damaged_installation_costs_itself_only(tmp_path: Path, report: Report) -> None:
    """Malformed entry points and missing metadata of one distribution leave the others alone."""
    add(tmp_path, "alpha", "1.0", "a")
    install(tmp_path, "beta", "2.0", {}, {})
    (tmp_path / "beta-2.0.dist-info" / "entry_points.txt").write_text("[dfprivacy]\nno equals sign\n")
    add(tmp_path, "gamma", "3.0", "c")
    (tmp_path / "gamma-3.0.dist-info" / "METADATA").unlink()

    found = report(tmp_path)

    (problem,) = found["warnings"]
    assert {"alpha_rows": "alpha 1.0", "gamma_rows": "unknown unknown"} == found["origins"]
    assert problem.startswith("The entry points of beta 2.0 cannot be read (")
    assert f"ttest (dfprivacy {VERSION})" == found["bundled"]


def test_of_two_copies_the_first_on_the_path_counts(tmp_path: Path, report: Report) -> None:
    """A distribution that is installed twice is loaded once, from where Python imports it."""
    first, second = tmp_path / "first", tmp_path / "second"
    for site, version in ((first, "2.0"), (second, "1.0")):
        site.mkdir()
        add(site, "alpha", version, "a")

    found = report(tmp_path, PYTHONPATH=os.pathsep.join(map(str, (first, second))))

    assert {"alpha_rows": "alpha 2.0"} == found["origins"]
    assert [] == found["warnings"]


def test_warnings_as_errors_do_not_cost_a_paid_answer(tmp_path: Path, forks: Any) -> None:
    """Where warnings are errors, a failing listener goes to the log and the release to the caller."""
    source = "from dfprivacy import hookimpl\n@hookimpl\ndef dfprivacy_released(release, account): raise KeyError"
    add(tmp_path, "beta", "2.0", "b", source)
    quiet = REPORT.replace('simplefilter("always")', 'simplefilter("error")')

    done = forks(quiet, "600", environment={**os.environ, "PYTHONPATH": str(tmp_path)})

    assert f"ttest (dfprivacy {VERSION})" == json.loads(done.stdout)["bundled"]
    assert b"of plugin 'b' (beta 2.0) failed with KeyError" in done.stderr


def test_reserved_names_are_those_of_the_views() -> None:
    """No mechanism can hide an attribute of a view, of a grouped view or of df.dp."""
    views = (dp.PrivateFrame, dp.GroupedView, Accessor)

    public = {name for view in views for name in dir(view) if not name.startswith("_")}

    assert public == RESERVED


@pytest.fixture
def forget() -> Iterator[None]:
    """Leave the registry of this process as it was."""
    before = {plugin.name for plugin in registry().plugins}
    yield
    for plugin in registry().plugins:
        if plugin.name not in before:
            unregister(plugin.name)


@dp.mechanism()
def answer(curator: dp.Curator) -> int | None:
    """Return the number of rows."""
    return curator.size


class Listener:
    """A plugin that is an object, and cannot be hashed."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self.heard: list[tuple[str, bool]] = []

    @dp.hookimpl
    def dfprivacy_released(self, release: dp.Release, account: str) -> None:
        assert release.privacy is not None
        self.heard.append((account, release.privacy.replayed))


def view(name: str) -> dp.PrivateFrame:
    """Protect ten rows."""
    df = pd.DataFrame({"x": [0.0, 1.0] * 5})
    return dp.protect(df, name, epsilon=1, bounds={"x": (0, 1)}, ledger="memory:")


@pytest.mark.usefixtures("forget")
def test_mechanism_can_be_tried_in_one_line() -> None:
    """A registered mechanism is a method at once, of views that exist already too."""
    table = view("one line")

    returned = register_mechanism(answer)

    assert answer is returned
    assert {"value": 10} == table.answer(epsilon=0.1).result
    assert Plugin("answer", mechanisms=("answer",)) == replace(registry().plugins[-1], seconds=0.0)
    first = registry().mechanisms["answer"].origin
    register_mechanism(dp.mechanism(name="answer")(lambda curator: "rewritten"))  # a notebook's next version

    assert {"value": "rewritten"} == table.answer(epsilon=0.1).result
    assert first != registry().mechanisms["answer"].origin
    assert first.startswith("registered in this process, source ")


@pytest.mark.usefixtures("forget")
def test_listener_hears_of_new_releases_only() -> None:
    """A release is announced once with its account, and not again when it is replayed."""
    listener = Listener()
    register(listener)
    table = view("listened to")

    first, second = (table.ttest("x", popmean=0.5, epsilon=0.1) for _ in range(2))

    assert [("listened to", False)] == listener.heard
    assert (False, True) == tuple(r.privacy.replayed for r in (first, second) if r.privacy)


@pytest.mark.usefixtures("forget")
@pytest.mark.parametrize(("wrong", "said"), [
    *((lambda name=name: register_mechanism(dp.mechanism(name=name)(lambda curator: 0)), said) for name, said in [
        ("ttest", "There is already a plugin 'ttest'"), ("ztest", "which is kept"),
        ("where", "every view has an attribute of that name"),
    ]),
    (lambda: register_mechanism(len), "registered an object of type builtin_function_or_method"),
    (lambda: register(types.SimpleNamespace(), "empty"), "does nothing"),
    (lambda: register(Listener(), "ttest"), r"There is already a plugin 'ttest' \(dfprivacy"),
    (lambda: unregister("ttest"), "No plugin 'ttest' was registered in this process"),
])  # fmt: skip
def test_wrong_plugin_is_refused(wrong: Callable[[], Any], said: str) -> None:
    """Registering what cannot be a method or a plugin is an error, and changes nothing."""
    before = registry()

    with pytest.raises(dp.PluginError, match=said):
        wrong()

    assert before == registry()


def test_plugins_are_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that ask at the same time get the same registry."""
    monkeypatch.setattr("dfprivacy._plugins.loader._registry", None)
    found = []
    threads = [threading.Thread(target=lambda: found.append(registry())) for _ in range(8)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 1 == len({id(each) for each in found})


def test_the_bundled_plugins_list_their_methods() -> None:
    """What pyproject.toml lists of each plugin is what it offers."""
    listed = metadata.distribution("dfprivacy").entry_points.select(group="dfprivacy.methods")
    bundled = [each for each in registry().loaded if each.plugin.distribution == "dfprivacy"]

    assert {each.name: each.value for each in listed} == {
        method: each.plugin.module for each in bundled for method in each.mechanisms
    }


def test_a_question_loads_the_plugin_of_its_method_alone() -> None:
    """Plugins that list their methods wait until one of these is asked; those that list none are loaded at once."""
    script = """
import sys, pandas as pd, dfprivacy as dp
view = dp.protect(pd.DataFrame({"x": [0.5] * 9}), "lazy", epsilon=1, bounds={"x": (0, 1)}, ledger="memory:")
view.ttest("x", popmean=0.25, epsilon=0.5)
print(sorted(name for name in sys.modules if name.startswith("dfprivacy_") and "." not in name))
print("kme_release" in dir(view), "dfprivacy_kme" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)

    assert run.stdout.splitlines() == ["['dfprivacy_ttest']", "True True"]


def test_interrupted_loading_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while plugins are loaded is not a broken plugin: the next use loads all of them."""
    source = f"import os\nif os.environ.pop('INTERRUPT', ''): raise KeyboardInterrupt\n{textwrap.dedent(GOOD)}"
    add(tmp_path, "alpha", "1.0", "interrupted", source.format(method="rows"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("INTERRUPT", "yes")
    monkeypatch.setattr("dfprivacy._plugins.loader._registry", None)

    with pytest.raises(KeyboardInterrupt):
        registry()

    assert "alpha 1.0" == registry().mechanisms["rows"].origin


def test_a_namespace_of_two_distributions_has_the_versions_of_both():
    """A measurement is known by them: an upgrade of either must not find what the other version measured."""

    def origins(first, second):
        plugins = Plugin("a", "acme-a", first, "acme.a:plugin"), Plugin("b", "acme-b", second, "acme.b:plugin")
        return Registry(loaded=tuple(map(LoadedPlugin, plugins))).origins["acme"]

    assert 4 == len({origins(*versions) for versions in (("1", "1"), ("2", "1"), ("1", "2"), ("2", "2"))})
