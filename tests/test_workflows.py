"""Workflows, and hooks before a commit, call environments of tox that exist, on the Pythons that are promised."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import configparser
import itertools
import re
import tomllib
from pathlib import Path

import pytest
import yaml

import dfprivacy

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
CALLS = re.compile(r"tox run (?:-q )?-e (\$\{\{ matrix\.tox }}|\w+)")


def expanded(name):
    """The names that tox makes of one with braces."""
    parts = [part.split(",") for part in re.split(r"[{}]", name)]
    return {"".join(each) for each in itertools.product(*parts)}


def environments():
    """Every environment that tox.ini names."""
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "tox.ini", encoding="utf-8")
    named = {section.removeprefix("testenv:") for section in config.sections() if section.startswith("testenv:")}
    listed = set(re.split(r"[,\s]+", config["tox"]["env_list"]))
    return listed.union(*map(expanded, named))


def load(path):
    """Read YAML."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(workflow):
    """Every step of a workflow, with the matrix of its job."""
    for job in workflow["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {})
        for step in job.get("steps", []):
            yield step, matrix.get("include", [{"tox": name} for name in matrix.get("tox", [])])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_environments_of_tox(path):
    """What a workflow runs is tox, and each environment that it names is there."""
    called = set()
    for step, matrix in steps(load(path)):
        for name in CALLS.findall(step.get("run", "")):
            called |= {each["tox"] for each in matrix} if name.startswith("$") else {name}

    assert set() == called - environments()
    assert called or "publish" in load(path)["jobs"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_their_major_version(path):
    """Actions of others are pinned by the tag of a major version."""
    used = [step["uses"] for step, _ in steps(load(path)) if "uses" in step]

    assert [] == [action for action in used if not re.fullmatch(r"[\w-]+/[\w-]+@(release/)?v\d+", action)]


def test_the_matrix_is_what_the_classifiers_promise():
    """The suite runs on every Python of the classifiers and on no other; the oldest is the one that is required."""
    matrix = load(ROOT / ".github/workflows/tests.yml")["jobs"]["tox"]["strategy"]["matrix"]["include"]
    by_tox = {each["tox"]: each["python"] for each in matrix if re.fullmatch(r"py3\d+", each["tox"])}
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))

    assert sorted(promised) == sorted(by_tox.values())
    assert {f"py{python.replace('.', '')}": python for python in promised} == by_tox
    assert f">={promised[0]}" == PROJECT["project"]["requires-python"]
    assert set(promised) >= {each["python"] for each in matrix}


def test_everything_that_tox_runs_is_run_for_every_pull_request():
    """The list of tox is in the matrix; of an environment that runs the commands of others, those."""
    matrix = load(ROOT / ".github/workflows/tests.yml")["jobs"]["tox"]["strategy"]["matrix"]["include"]
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "tox.ini", encoding="utf-8")

    listed = re.split(r"[,\s]+", config["tox"]["env_list"])
    run = [
        re.findall(r"\[testenv:(\w+)]commands", config[f"testenv:{name}"]["commands"]) or [name] for name in listed
    ]

    assert {"lint", "types", "docs", "pandas2", "pandas3", "oracles"} == set(itertools.chain(*run))
    assert set(itertools.chain(*run)) <= {each["tox"] for each in matrix}


def test_hooks_before_a_commit_call_environments_of_tox():
    """Each environment that pre-commit calls is there."""
    hooks = [hook for repo in load(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]

    assert {"lint", "types"} == {CALLS.fullmatch(hook["entry"])[1] for hook in hooks}


def test_the_lowest_dependencies_are_the_floors():
    """What tox installs as lowest is what pyproject.toml declares."""
    project = PROJECT["project"]
    optional = {name: needs for name, needs in project["optional-dependencies"].items() if name != "spark"}
    extras = itertools.chain(*optional.values())  # which has an environment of its own
    declared = {*project["dependencies"], *extras, *PROJECT["dependency-groups"]["tests"]}
    floors = {each.replace(">=", "==") for each in declared if ">=" in each}
    lines = (ROOT / "tests/lowest.txt").read_text(encoding="utf-8").splitlines()
    pinned = {line for line in lines if "==" in line}

    spark = {each.replace(">=", "==") for each in PROJECT["project"]["optional-dependencies"]["spark"]}
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "tox.ini", encoding="utf-8")
    of_clusters = config["testenv:clusters-lowest"]["deps"].split()

    assert floors == pinned
    assert spark <= {*of_clusters, *pinned}


def test_the_citation_names_the_version():
    """CITATION.cff and the package have one version."""
    assert dfprivacy.__version__ == load(ROOT / "CITATION.cff")["version"]
