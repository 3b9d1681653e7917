"""Hostile calls, requests and schema files: each ends soon, in an answer or in an error of ours.

What is refused charges nothing, and no text that leaves holds a value planted in the table, or a character that a
terminal obeys. ``DFPRIVACY_TEST_FUZZ=100000`` tries so many; see tox.ini.
"""

# ruff: noqa: B023, BLE001, PTH119, PTH123, S311 - programs of chance, which call what they make at once

from __future__ import annotations

import contextlib
import copy
import datetime as dt
import io
import itertools
import json
import math
import os
import random
import re
import reprlib
import signal
import time
import traceback
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._call.requests import read_key, sign_content
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._method_signature import check_public_argument
from dfprivacy._plugins.loader import registry
from dfprivacy._visible import HIDDEN
from dfprivacy.cli import main
from dfprivacy.errors import DPError
from dfprivacy_audit.cases import cases_of

pytestmark = pytest.mark.pandas(False)

CALLS = int(os.environ.get("DFPRIVACY_TEST_FUZZ", "600"))
SEED = int(os.environ.get("DFPRIVACY_TEST_FUZZ_SEED", "0"))
SHARES = {"methods": 0.6, "views": 0.15, "terms": 0.05, "requests": 0.1, "schemas": 0.1}
SOON = 2.0  # seconds of CPU: a refusal takes no more
WORK = 20.0  # an answer, whatever is asked
ROWS = 60
CANARIES = ("CANARYq7z", "987654.32198", "0.73123456789")
PLANTED = re.compile("|".join(re.escape(each.removeprefix("0.")) for each in CANARIES))
PYTHON = re.compile(
    "positional argument|unexpected keyword|required (keyword-only|positional)|multiple values|operand type|ufuncs"
    "|takes 1 or 3"
)


class Boom:
    """An object that fails whatever it is asked."""

    def fail(self, *_):
        raise ValueError("boom")

    __repr__ = __str__ = __eq__ = __hash__ = __float__ = __int__ = __index__ = __len__ = __iter__ = __bool__ = fail
    __getitem__ = __contains__ = __lt__ = __le__ = __gt__ = __ge__ = __add__ = __mul__ = __call__ = __fspath__ = (
        fail
    )


class Text(str):
    """A string whose methods lie."""

    __slots__ = ()

    def __str__(self):
        return "\x1b[2J"


HOSTILE = [
    None, True, False, 0, -1, 1, 2, 3, 7, 20_000, 2**31, 2**63, 2**64, -(2**63), 10**30, 10**400, -(10**400),
    10**5000, 1e308, -1e308, 5e-324, -0.0, 0.5, 1.5, 1e-300, math.nan, math.inf, -math.inf, math.pi, "", "x", "g",
    "no such", "\0", "\ud800", "\x1b[2J", "\u202egnp", "a" * 200, "../..", "1/0", "1e9999999", "1e-9999999",
    "1/3", "nan", "rest", "auto", "=cmd|' /C calc'!A0", "１", "0.1\n", b"x", bytearray(b"x"), [], [[]], [None],
    ["no"], ["x", "x"], ["x", "g"], [0, 1], [1, 0], [math.nan], (), (0, 1), (1, 0), (0, 10**400), (math.nan, 1),
    {}, {"a": 1}, {1: 2}, {"x": (0, 1)}, {"x": "g"}, set(), {1}, frozenset(), range(0), range(5), range(10**12),
    range(-(10**400), 10**400), 1j, Decimal("NaN"), Decimal("sNaN"), Decimal(1), Decimal("Infinity"),
    Decimal("1e9999999"), Fraction(1, 3), Fraction(10**400), Fraction(1, 10**5000), np.array([]),
    np.array([1.0, np.nan]), np.array(1), np.array(["a"]), np.array([None]), np.array([Boom()]),
    np.float64("nan"), np.float32(0.1), np.int64(3), np.bool_(True), np.str_("x"), np.datetime64("NaT", "D"),
    np.timedelta64(1, "D"), pd.NA, pd.NaT, pd.DataFrame(), pd.DataFrame({"a": [1]}), pd.Series([1, 2]),
    dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.timedelta(1), lambda x: x, print, object(),
    Boom(), [Boom()], {"x": Boom()}, type, Ellipsis, NotImplemented, slice(1), dp, iter([1]), Text("x"), "canary",
    ["canary"],
]  # fmt: skip
DEEP: list[object] = []
for _ in range(5000):
    DEEP = [DEEP]
WIDE: list[object] = ["x"]
for _ in range(19):
    WIDE = [WIDE] * 100  # 1e38 items, if each were looked at
HEAVY = [DEEP, WIDE, ["x"] * 10**5, [0.5] * 10**5, "a" * 10**6, "9" * 10**6]


def hostile(chance):
    return chance.choice(HEAVY if chance.random() < 0.01 else HOSTILE)


def frame(rng, bounds, categories, public=()):
    """Rows that fit what is declared, and values planted where it is private."""
    columns = {}
    for name, (low, high) in bounds.items():
        columns[name] = np.round(rng.uniform(float(low), float(high), ROWS), 3)
        if name not in public:
            columns[name][7:10] = 987654.32198, 0.73123456789, np.nan
    for name, values in categories.items():
        if name not in columns:
            columns[name] = np.array([values[i % len(values)] for i in range(ROWS)], dtype=object)
            if name not in public:
                columns[name][7:9] = CANARIES[0], None
    columns["canary"] = np.array([f"{CANARIES[0]}{i}" for i in range(ROWS)], dtype=object)
    return pd.DataFrame(columns)


class Watch:
    """What went wrong, by what was called."""

    def __init__(self):
        self.found: dict[tuple[object, ...], str] = {}
        self.outcomes: dict[str, int] = {}

    def call(self, name, label, function, spent=lambda: None, texts=None):
        before, start = spent(), time.process_time()
        shown, raised = [], None
        out = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            warnings.simplefilter("ignore")
            try:
                shown += (texts or everything)(function())
                outcome = "answered"
            except DPError as error:
                outcome, raised = "refused", error
            except TypeError as error:
                outcome, raised = ("signature" if PYTHON.search(str(error)) else "raw"), error
            except TooLong:
                outcome = "hangs"
            except Exception as error:
                outcome, raised = "raw", error
        took = time.process_time() - start
        shown += [str(raised), repr(raised), out.getvalue()] if raised is not None else [out.getvalue()]
        text = "\n".join(shown)
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        if outcome in {"raw", "hangs"}:
            self.note(outcome, name, where(raised), label)
        if took > (WORK if outcome == "answered" else SOON):
            self.note("slow", name, "", f"{label}: {took:.1f} s")
        if outcome != "answered" and spent() != before:
            self.note("charged", name, str(raised)[:100], label)
        if seen := PLANTED.search(text):
            self.note("tells", name, text[max(0, seen.start() - 60) : seen.end() + 10], label)
        if seen := HIDDEN.search(text.replace("\n", "")):
            self.note("obeyed", name, ascii(text[max(0, seen.start() - 60) : seen.end() + 10]), label)

    def note(self, *what):
        *key, label = what
        self.found.setdefault(tuple(key), label)


class TooLong(BaseException):
    """A call did not end."""


def where(error):
    frames = traceback.extract_tb(None if error is None else error.__traceback__)
    place = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {str(error)[:80]} at {place}"


def everything(answer):
    """All texts that an answer is shown as."""
    of_ours = isinstance(answer, dp.Release | dp.PrivateFrame)
    methods = ("_repr_html_", "to_markdown", "to_latex", "summary", "to_json") if of_ours else ()
    return [repr(answer), *(getattr(answer, method)() for method in methods if hasattr(type(answer), method))]


@pytest.fixture
def alarm():
    """Raise where a call does not end."""

    def late(*_):
        raise TooLong

    before = signal.signal(signal.SIGALRM, late)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def name_of(value):
    try:
        return f"{type(value).__name__} {ascii(reprlib.repr(value))[:40]}"
    except Exception:
        return type(value).__name__


_number = itertools.count()


def protected(rng, case):
    """A view of rows that fit a case, with a budget that lasts."""
    terms = {
        "bounds": case.bounds,
        "categories": case.categories,
        "public": list(case.public),
        "missing": dict(case.missing),
        "neighbors": case.neighbors,
        "epsilon": 400 if case.delta else 10**5,
    }
    terms |= {"delta": "1/100"} if case.delta else {}
    data = frame(rng, case.bounds, case.categories, case.public)
    view = dp.protect(data, f"fuzz {next(_number)}", **terms)
    whole = view
    arguments = dict(case.arguments)
    if case.other:
        arguments[case.other] = dp.protect(data.copy(), f"fuzz {next(_number)}", **terms)
    view = view.where(dict(case.where)) if case.where else view
    return whole, (view.group_by(case.group_by) if case.group_by else view), arguments


def methods(chance, rng, watch, count):
    """Every method, with arguments and prices that are hostile."""
    made = {}
    mechanisms = [*registry().mechanisms.values()]
    for _ in range(count):
        mechanism = chance.choice(mechanisms)
        cases = cases_of(mechanism)
        at = chance.randrange(len(cases))
        if (mechanism.name, at) not in made or chance.random() < 0.02:  # budgets end
            made[mechanism.name, at] = protected(rng, cases[at])
        whole, view, arguments = made[mechanism.name, at]
        price = {"epsilon": 0.01} | ({"delta": "1/1000000"} if mechanism.delta and cases[at].delta else {})
        names = [each for each in mechanism.signature.parameters if each not in {"epsilon", "delta", "fresh"}]
        given = {**arguments, **price}
        for _ in range(chance.choice([1, 1, 1, 2, 3])):
            name = chance.choice([*names, "epsilon", "fresh", *(["delta"] if mechanism.delta else []), "zzz"])
            given[name] = hostile(chance)
        args = [hostile(chance) for _ in range(chance.choice([0, 0, 0, 0, 1, 2, 12]))]
        label = f"{args and name_of(args)} { {name: name_of(value) for name, value in given.items()} }"
        call = chance.choice([lambda: getattr(view, mechanism.name), lambda: view.explain])
        explains = call() == view.explain
        asked = (mechanism.name, *args) if explains else args
        watch.call(
            f"{'explain ' if explains else ''}{mechanism.name}",
            label,
            lambda call=call, asked=asked, given=given: call()(*asked, **given),
            lambda whole=whole: (whole.budget.spent, len(whole._target.account.entries())),
        )


def views(chance, rng, watch, count):
    """What a view has of its own, and arithmetic on releases."""
    bounds, categories = {"x": (0, 1), "y": (0, 5)}, {"g": ["a", "b"]}
    trial = {"n": 20, "epsilon": 1, "runs": 2, "seed": 0, "assume": {"effect": 0.5}}
    for at in range(count):
        if at % 500 == 0:
            data = frame(rng, bounds, categories)
            view = dp.protect(data, f"fuzz {next(_number)}", epsilon=10**5, bounds=bounds, categories=categories)
            release = view.mean("x", epsilon=1)
        calls = [
            ("where", view.where, [], {"x": (0, 1), "g": "a"}),
            ("where", view.where, [{"x": (0, 1), "g": ["a"]}], {}),
            ("where().mean", lambda *args, **given: view.where(**given).mean("x", epsilon=0.1), [],
             {"x": (0.2, 1)}),
            ("select", view.select, ["x", "g"], {}),
            ("group_by", view.group_by, ["g"], {}),
            ("declare", view.declare, [],
             {"bounds": {"y": (0, 2)}, "categories": {"x": [0, 1]}, "missing": {"y": 1}}),
            ("sample", view.sample, [0.5], {}),
            ("sample().mean", lambda share, **_: view.sample(share).mean("x", epsilon=0.1), [0.5], {}),
            ("per", view.per, ["g"], {}),
            ("plan", view.plan, [[("mean", "x"), ("histogram", "x", {"bins": 3})]], {"epsilon": 1, "error": None}),
            ("explain", view.explain, ["ttest", "x"], {"by": "g", "epsilon": 0.1, "alpha": 0.05}),
            ("power", view.power, [("ttest", "x", {"popmean": 0.4})], trial),
            ("power()", dp.power, [("ttest", "x")], {**trial, "bounds": bounds, "categories": categories}),
            ("refine", view.refine, [release], {"epsilon": 0.1}),
            ("combine", dp.combine, [float, release], {"confidence": 0.9, "draws": 499, "covers": "table"}),
            ("+", lambda other: release + other, [1], {}),
            ("/", lambda other: other / release, [1], {}),
            ("[]", lambda key: view[key], [["x"]], {}),
            ("column", lambda q: view["x"].quantile(q, epsilon=0.1), [0.5], {}),
            ("dummy", view.schema.dummy, [10, 0], {}),
            ("discover", dp.discover, [], {"epsilon": 1, "delta": None, "domain": None}),
            ("from_json", dp.Release.from_json, [release.to_json()], {}),
            ("from_json", lambda **given: dp.Release.from_json(json.dumps(given)), [], release.to_dict()),
            ("to_frame", release.to_frame, ["pandas"], {}),
            ("Range", dp.Range, [0, 1], {"exclusive": "low"}),
        ]  # fmt: skip
        name, call, args, kwargs = chance.choice(calls)
        given = {"args": list(args), **copy.deepcopy(kwargs)}
        for _ in range(chance.choice([1, 1, 2])):
            changed(chance, given)
        args = given.pop("args")
        args = args if isinstance(args, list) else [args]
        if name.startswith("power") and type(given["runs"]) is int:
            given["runs"] = min(given["runs"], 50)  # as many runs take as long as they are many: work that is asked
        if name == "from_json" and not args:
            given = {name: value for name, value in given.items() if plain_json(value)}
        label = f"{[name_of(each) for each in args]} { {name: name_of(value) for name, value in given.items()} }"
        watch.call(
            name,
            label,
            lambda call=call, args=args, given=given: call(*args, **given),
            lambda view=view: view.budget.spent,
        )


def plain_json(value):
    try:
        check_public_argument("", value)  # 1e38 items never end
        return json.dumps(value)
    except Exception:
        return ""


def changed(chance, given):
    """Exchange something somewhere in lists and dictionaries."""
    keys = list(given) if isinstance(given, dict) else list(range(len(given)))
    key = chance.choice(keys)
    inside = given[key]
    ours = isinstance(inside, dict | list) and inside and not any(inside is each for each in (*HOSTILE, *HEAVY))
    if ours and (key == "args" or chance.random() < 0.6):
        changed(chance, inside)
    else:
        given[key] = hostile(chance)


TERMS = (
    "epsilon", "delta", "bounds", "categories", "public", "neighbors", "accounting", "missing", "budgets", "size",
    "default_epsilon", "unit", "max_rows", "unit_missing", "memory", "schema",
)  # fmt: skip


def terms(chance, rng, watch, count):
    """What a table is protected with."""
    usual = {"epsilon": 1, "bounds": {"x": (0, 1)}, "categories": {"g": ["a", "b"]}}
    for _ in range(count):
        data = frame(rng, usual["bounds"], usual["categories"])
        given = dict(usual)
        for _ in range(chance.choice([1, 1, 2])):
            name, value = chance.choice(TERMS), hostile(chance)
            nested = name in {"bounds", "categories", "missing", "budgets"} and chance.random() < 0.7
            given[name] = {chance.choice(["x", "g", "ana", "\x1b[2J", 1]): value} if nested else value
        name = f"fuzz {next(_number)}" if chance.random() < 0.8 else hostile(chance)
        watch.call(
            "protect",
            f"{name_of(name)} { {term: name_of(value) for term, value in given.items()} }",
            lambda data=data, name=name, given=given: dp.protect(data, name, **given),
        )


SCHEMA = (
    'name = "trial"\nepsilon = "20000"\nsize = 60\nneighbors = "replace_one"\nbudgets = {ana = "10000"}\n'
    '[columns.x]\nbounds = [0, 1]\nmissing = 0.5\nlabel = "X"\n'
    '[columns.g]\ncategories = ["a", "b"]\npublic = true\n'
)
JSONS = [
    None, True, 0, -1, 10**400, 1e308, "", "\ud800", "\x1b[2J", "\u202ex", "x" * 10**5, "1e9999999", "1/0", [],
    {}, [[[]]], {"$range": [0, 10**18, 1]}, {"$range": [0, 10**400, 1]}, {"$tuple": [1, 10**400]}, {"$x": 1},
    [1] * 999, "rest", "ttest", "__class__", "where", "power", "x", "g", 0.5, {"x": {"between": [0, 1]}},
    ["g"] * 50, "０.1", {"x": {"in": [1] * 10**4}}, {"g": {"in": ["\x1b"]}}, {"g": {"is": "present"}}, "no such",
    "../../x", "nan", -0.0,
]  # fmt: skip


def requests(chance, rng, watch, count):
    """Requests whose values are exchanged, and files that are damaged."""
    frame(rng, {"x": (0, 1)}, {"g": ["a", "b"]}, ("g",)).drop(columns="canary").to_parquet("t.parquet")
    for name, text in (("t.toml", SCHEMA), ("k", "a" * 64)):
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)
    asked = dp.request("t.toml")
    asked.where(x=(0.1, 0.9)).mean("x", epsilon=0.01)
    asked.group_by("g").histogram("x", bins=3, epsilon="1/100")
    asked.save("r.json", key="k", analyst="ana")
    with open("r.json", encoding="utf-8") as file:
        plain = json.load(file)
    plain.pop("signature")
    key = read_key("k")
    for at in range(count):
        content = json.loads(json.dumps(plain))
        for _ in range(chance.choice([1, 1, 2])):
            exchange(chance, content)
        try:
            text = sign_content(content, key).encode("utf-8", "surrogatepass")
        except (ValueError, RecursionError):
            continue
        if chance.random() < 0.2:
            text = damaged(chance, text)
        with open("q.json", "wb") as file:
            file.write(text)
        run = ["answer", "q.json", "--data", "t.parquet", "--schema", "t.toml", "--key", "k", "--yes"]
        watch.call(
            "answer",
            ascii(text[:3000]),
            lambda run=run, at=at: answered([*run, "--ledger", "l.sqlite", "--output", f"o{at}.json"]),
            charges,
            lambda _, at=at: [read(f"o{at}.json")],
        )


def answered(arguments):
    """Run the command line; its refusal is an error."""
    if main(arguments):
        raise DPError("The request was refused.")


def charges():
    with contextlib.suppress(DPError):
        return len(open_ledger("l.sqlite").account("trial").entries())
    return 0


def read(path):
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
        return file.read()
    return ""


def exchange(chance, content):
    """Exchange, leave out or add something somewhere in JSON."""
    while True:
        keys = list(content) if isinstance(content, dict) else list(range(len(content)))
        if not keys:
            return
        key = chance.choice(keys)
        if isinstance(content[key], dict | list) and content[key] and chance.random() < 0.8:
            content = content[key]
            continue
        match chance.choice(["exchange", "exchange", "exchange", "leave out", "add"]):
            case "exchange":
                content[key] = chance.choice(JSONS)
            case "leave out":
                del content[key]
            case _ if isinstance(content, dict):
                content[chance.choice(["zz", "fresh", "epsilon", "$tuple", "column", "\x1b"])] = chance.choice(
                    JSONS
                )
            case _:
                content.append(chance.choice(JSONS))
        return


TOMLS = (
    '"\\u001b[2J"', '"\\u202ex"', "1e400", "-inf", "nan", "true", "9" * 4000, "9" * 5000, "[[[[]]]]", "[1, 0]",
    "0x0", "2020-01-01", "07:32:00", '"1e9999999"', '"1/0"', "{a = 1}", '""', '"' + "a" * 10**5 + '"', "-1",
    "1e308", "[0]", "[" * 3000 + "]" * 3000, "[1, 1.0, true]", "[nan, nan]", '["a", "a"]', "7", "''", "{}",
    "[{a = 1}]", "\x00", "\ufeff",
)  # fmt: skip


def damaged(chance, text):
    """Leave out, double or exchange some bytes."""
    at, to = sorted(chance.randrange(len(text) + 1) for _ in range(2))
    part = text[at : min(to, at + 50)]
    put = chance.choice(
        [b"", part * 2, bytes([chance.randrange(256)]), b"[" * 2000, b"\xff\xfe", b"{" * 2000, b"\n"]
    )
    return text[:at] + put + text[at + len(part) :]


def schemas(chance, rng, watch, count):
    """Schema files whose values are exchanged, and files that are damaged."""
    data = frame(rng, {"x": (0, 1)}, {"g": ["a", "b"]})
    values = list(re.finditer(r"(?<= = )[^\n]*", SCHEMA))
    for at in range(count):
        text = SCHEMA
        for value in sorted(chance.sample(values, chance.choice([1, 1, 2])), key=lambda found: -found.start()):
            text = text[: value.start()] + chance.choice(TOMLS) + text[value.end() :]
        text = text.replace("trial", f"trial {at}").encode("utf-8", "surrogatepass")
        text = damaged(chance, text) if chance.random() < 0.4 else text
        with open("s.toml", "wb") as file:
            file.write(text)
        protects = chance.random() < 0.5
        watch.call(
            "protect" if protects else "request",
            ascii(text),
            (lambda at=at: dp.protect(data.copy(), f"trial {at}", schema="s.toml"))
            if protects
            else (lambda: dp.request("s.toml")),
        )


@pytest.mark.parametrize("kind", [methods, views, terms, requests, schemas], ids=lambda kind: kind.__name__)
def test_hostile_input_ends_in_an_answer_or_an_error(kind, alarm, tmp_path, monkeypatch):
    """Soon, with nothing charged where it is refused, and no text that tells a value or moves a terminal."""
    monkeypatch.chdir(tmp_path)
    registry()  # which takes longer than a refusal
    watch, count = Watch(), round(CALLS * SHARES[kind.__name__])
    original = watch.call

    def guarded(*args, **kwargs):
        alarm(60)
        try:
            original(*args, **kwargs)
        finally:
            alarm(0)

    watch.call = guarded
    kind(random.Random(SEED), np.random.default_rng(SEED), watch, count)

    assert not watch.found, "\n".join(f"{key}: {label[:600]}" for key, label in watch.found.items())
    assert sum(watch.outcomes.values()) >= 0.9 * count, watch.outcomes
