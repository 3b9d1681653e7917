"""Requests by file: the analyst never holds the table, nothing can be forged, and nothing is paid by mistake."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._call.requests import REQUEST, sign_content
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy.cli import main

CANARY = "CANARYTEXT"
SCHEMA = """
name = "clinic"
epsilon = 2
default_epsilon = "1/8"

[budgets]
ana = 1
bo = 1

[columns.age]
bounds = [18, 90]

[columns.sex]
categories = ["f", "m"]

[columns.name]
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a table, its schema, a key, and a ledger file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DFPRIVACY_LEDGER", str(tmp_path / "ledger.sqlite"))
    monkeypatch.setenv("DFPRIVACY_ANALYST", "ana")
    Path("clinic.toml").write_text(SCHEMA)
    for analyst in ("ana", "bo"):
        Path(f"{analyst}.key").write_text(analyst[0] * 64)
        assert main(["ledger", "key", analyst, f"{analyst}.key"]) == 0
    ages = [31.0, 45.0, 28.0, 987654.25] * 500
    pd.DataFrame({"age": ages, "sex": ["f", "m"] * 1000, "name": [CANARY] * 2000}).to_parquet("clinic.parquet")
    return tmp_path


def wanted():
    """A request with a few kinds of questions."""
    asked = dp.request("clinic.toml")
    asked.mean("age", epsilon=0.25)
    asked.where(age=(30, 60), sex=["f"]).ttest("age", popmean=30)
    asked.group_by("sex").mean("age", epsilon="1/3")
    asked.where(age=dp.present).select("age", "sex").value_counts("sex", epsilon=0.125)
    older = asked.with_columns(in_days=365.25 * dp.col("age"), bounds={"in_days": (9000, 20000)})
    older = older.assign(band=lambda df: (df.in_days / 365.25).cut([0, 30, 90]))
    older.where(band="(30, 90]").mean("in_days", epsilon=0.125)
    return asked


def answer(*more, request="requests.json", key="ana.key", data="clinic.parquet"):
    """Let a custodian answer; the exit code."""
    return main(["answer", request, "--data", data, "--schema", "clinic.toml", "--key", key, *more])


def read(answers="answers.json", request="requests.json", key="ana.key"):
    return dp.answers(answers, request=request, key=key)


def account():
    return open_ledger().account("clinic")


def forge(change, path="requests.json", key=b"a" * 64):
    """Change a signed file and sign it anew, as somebody with the key could."""
    plain = json.loads(Path(path).read_text())
    plain.pop("signature")
    change(plain)
    Path(path).write_text(sign_content(plain, key))


def test_a_round_trip(place, capsys):
    """Questions go out, prices and plans are shown, and the releases that come back are those of the ledger."""
    asked = wanted()
    assert "question 2: ttest(column='age', popmean=30) where age from 30 to 60 and sex = f" in repr(asked)
    asked.save("requests.json", key="ana.key")

    assert answer("--yes", "--analyst", "ana") == 0

    shown = capsys.readouterr().out
    found = read()
    assert "ana asks 5 questions of 'clinic', for epsilon 0.958333 in all" in shown
    assert shown.count("would cost and measure (nothing was charged or read)") == 5
    assert [each.text for each in asked.questions] == list(found.questions)
    assert (len(found), found.refused) == (5, ())
    view = dp.protect(pd.read_parquet("clinic.parquet"), "clinic", schema="clinic.toml")
    assert list(found) == list(view.releases)
    assert view.budget.spent == Fraction(1, 4) + Fraction(1, 8) + Fraction(1, 3) + Fraction(1, 8) + Fraction(1, 8)
    assert {"ana"} == {each["analyst"] for each in view.releases.to_dict()}
    assert view.mean("age", epsilon=0.25).privacy.replayed  # what is asked by hand is the same question
    written = "".join(Path(name).read_text() for name in ("requests.json", "answers.json")) + shown
    assert (CANARY in written, "987654" in written) == (False, False)
    assert found[0].privacy.epsilon == 0.25
    assert "Answers about the data set 'clinic': 5, and 0 refused" in repr(found)


def test_a_replay_is_free(place, capsys):
    """The same file again, and the same questions in another file, cost nothing; a second analyst gets them too."""
    wanted().save("requests.json", key="ana.key")
    assert answer("--yes") == 0
    spent = account().spent()

    assert answer("--yes", "--output", "again.json") == 0
    wanted().save("more.json", key="bo.key")
    assert answer("--yes", "--output", "third.json", request="more.json", key="bo.key") == 0

    assert account().spent() == spent
    first, again, third = read(), read("again.json"), read("third.json", "more.json", "bo.key")
    assert [list(first)] * 2 == [list(again), list(third)]
    assert capsys.readouterr().out.count("answered before, at no charge") == 10
    with pytest.raises(SystemExit):
        main(["answer"])


def test_a_replay_that_would_be_paid_again_is_refused(place, capsys):
    """Where the ledger does not know the question as it would be asked now, a request is not paid a second time."""
    wanted().save("requests.json", key="ana.key")
    assert answer("--yes") == 0
    spent = account().spent()
    with closing(sqlite3.connect("ledger.sqlite")) as connection:  # as another version of a plugin would
        connection.execute('UPDATE answers SET question = replace(question, \'"origin":"\', \'"origin":"old \')')
        connection.commit()

    assert answer("--yes", "--output", "again.json") == 1
    assert "asking again would charge it twice" in capsys.readouterr().err
    assert (account().spent(), Path("again.json").exists()) == (spent, False)


def test_the_custodian_says_no(place, capsys, monkeypatch):
    """Each question is asked back; what is not answered costs nothing and says so."""
    wanted().save("requests.json", key="ana.key")
    said = iter(["y", "n", "no"])

    def reply(_):
        try:
            return next(said)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", reply)
    assert answer() == 0

    found = read()
    assert (len(found), len(found.refused)) == (1, 4)
    assert {"The custodian did not answer this question."} == {why for _, why in found.refused}
    assert sum((entry.epsilon for entry in account().entries()), Fraction(0)) == Fraction(1, 4)


@pytest.mark.parametrize("file", ["requests.json", "answers.json"])
def test_what_was_changed_or_forged_is_refused(place, capsys, file):
    """A file that was edited, signed with another key, cut off, or that is the other kind of file."""
    wanted().save("requests.json", key="ana.key")
    assert answer("--yes") == 0
    good, spent = Path(file).read_text(), account().spent()

    def refused(text, expected, key="ana.key"):
        Path(file).write_text(text)
        if file == "answers.json":
            with pytest.raises(dp.ArgumentError, match=expected):
                read(key=key)
        else:
            assert answer("--yes", "--output", "new.json", key=key) == 1
            assert re.search(expected, capsys.readouterr().err)
            assert not Path("new.json").exists()

    refused(good.replace("0.25", "0.26").replace('"1/4"', '"1/5"'), "signature of .* is wrong")
    refused(good.replace('"clinic"', '"klinic"'), "signature of .* is wrong")
    refused(good, "signature of .* is wrong", key="bo.key")
    refused(good[: len(good) // 2], "has no dfprivacy (request|answers)")
    refused("[]", "has no dfprivacy (request|answers)")
    refused("[" * 100_000, "has no dfprivacy (request|answers)")
    refused(good.replace('"format": "dfprivacy', '"format": "dfpriwacy'), "has no dfprivacy (request|answers)")
    other = Path("requests.json" if file == "answers.json" else "answers.json").read_text()
    refused(other, "has no dfprivacy (request|answers)")
    refused(good.replace('"signature": "', '"signature": "é'), "signature of .* is wrong")
    refused(good.replace('"data_set"', '"data_set": "x",\n "data_set"', 1), "has no dfprivacy (request|answers)")
    assert account().spent() == spent


@pytest.mark.parametrize("options", [(), ("--analyst", "ana")])
def test_a_request_is_of_the_analyst_whose_key_has_signed_it(place, capsys, options):
    """Whatever name stands in it, the share of the key's analyst pays; the ledger does not hold the key."""
    asked = dp.request("clinic.toml")
    asked.mean("age", epsilon=0.75)
    asked.save("requests.json", key="ana.key", analyst="bo")

    assert answer("--yes", *options) == 0

    shares = {each.analyst: each.accountant.largest(each.spent) for each in account().shares()}
    assert shares == {"ana": Fraction(1, 4), "bo": 1}
    assert set(account().askers().values()) == {"ana"}
    assert answer("--yes", "--analyst", "bo", "--output", "more.json") == 1
    assert "The request was made by 'ana', not by 'bo'" in capsys.readouterr().err
    assert b"a" * 64 not in b"".join(file.read_bytes() for file in place.glob("ledger*"))


def test_keys_belong_to_analysts(place, capsys):
    """A key that the ledger does not know is refused with the command, a known one stays with its analyst."""
    Path("cy.key").write_text("c" * 64)
    wanted().save("requests.json", key="cy.key", analyst="ana")

    assert answer("--yes", key="cy.key") == 1
    assert "dfprivacy ledger key ANALYST KEYFILE" in capsys.readouterr().err
    assert main(["ledger", "key", "cy", "cy.key"]) == main(["ledger", "key", "cy", "cy.key"]) == 0
    assert main(["ledger", "key", "ana", "cy.key"]) == 1
    assert "The key belongs to 'cy'" in capsys.readouterr().err
    assert answer("--yes", key="cy.key") == 1
    assert "can be paid at once is 0" in capsys.readouterr().err  # for cy has no share
    assert main(["ledger"]) == 0
    assert capsys.readouterr().out.count("  key ") == 3
    assert account().entries() == []


@pytest.mark.parametrize(("epsilon", "schema", "expected"), [
    (0.5, SCHEMA, "another request"), (0.25, SCHEMA, "another request"),
    (0.25, SCHEMA.replace("90", "91"), "another version"),
    (0.25, SCHEMA.replace("clinic", "school"), "another data set"),
])  # fmt: skip
def test_answers_to_another_request_are_refused(place, epsilon, schema, expected):
    """Answers are read beside their request: signed alike, to the same questions, of the same schema."""
    first = dp.request("clinic.toml")
    first.mean("age", epsilon=0.25)
    first.save("requests.json", key="ana.key")
    assert answer("--yes") == 0
    Path("clinic.toml").write_text(schema)
    second = dp.request("clinic.toml")
    second.mean("age", epsilon=epsilon)
    second.save("other.json", key="ana.key")
    second.save("bos.json", key="bo.key")

    assert len(read()) == 1
    with pytest.raises(dp.ArgumentError, match=expected):
        read(request="other.json")
    with pytest.raises(dp.ArgumentError, match="signature"):
        read(request="bos.json")


def change(**values):
    """Change the first question."""
    return lambda plain: plain["questions"][0].update(values)


def computed(columns):
    """Let the first question compute columns."""
    return change(steps=[["with_columns", columns]])


def give(**values):
    """Change the arguments of the first question."""
    return lambda plain: plain["questions"][0]["arguments"].update(values)


def of_request(**values):
    """Change what is said of all questions."""
    return lambda plain: plain.update(values)


AGE = {"col": "age"}
UNREADABLE = {
    "no method": change(method=3), "an array": give(a={"$array": []}), "more": change(code="1"),
    "a function": change(steps=[["where", [{"age": {"python": "1"}}]]]), "no steps": change(steps=5),
    "a step of nothing": change(steps=[["where"]]), "an unknown step": change(steps=[["eval", "1"]]),
    "a private step": change(steps=[["_with_table", []]]), "many steps": change(steps=[["select", ["age"]]] * 101),
    "no mapping": computed({"x": 5}), "a text": computed({"x": "formula"}),
    "no formula": computed({"x": {"bounds": None}}),
}  # fmt: skip
BAD = {
    **{name: (change, "be read") for name, change in UNREADABLE.items()},
    "another data set": (of_request(data_set="school"), "another data set"),
    "another schema": (of_request(schema="0" * 64), "another version of it"),
    "too many": (of_request(questions=["x" * 2**24]), "more than 16777216 bytes"),
    "some too many": (
        lambda plain: plain.update(questions=plain["questions"] * 300),
        "1500 questions, and at most",
    ),
    "an unknown method": (lambda plain: plain["questions"][1].update(method="head"), "no method 'head'"),
    "a private name": (change(method="__class__"), "no method '__class__'"),
    "an unknown argument": (give(colour=1), "Question 1 .*colour"),
    "an unknown column": (give(column="x"), "no column 'x'"),
    "all that is left": (change(epsilon="rest"), "epsilon=.rest. is not possible"),
    "a fresh answer": (give(fresh=True), "arguments contain fresh"),
    "an epsilon": (give(epsilon=9), "arguments contain epsilon"),
    "too much": (change(epsilon="3/2"), "Question 1 .*costs epsilon = 1.5"),
    "too much together": (change(epsilon="0.99"), "in all, and 1 is left"),
    "no price": (change(epsilon="1/0"), "not a finite number"),
    "a step for nobody": (change(steps=[["per", ["age", {"age": "mean"}]]]), "with one row each"),
    "a whole sample": (change(steps=[["sample", "1"]]), "between 0 and 1"),
    "a long sample": (change(steps=[["sample", "1e9999999"]]), "too many digits"),
    "another formula": (
        computed({"x": {"formula": {"exec": ["1"]}, "bounds": None}}),
        "not an expression of",
    ),
    "a formula of nothing": (computed({"x": {"formula": {"col": "y"}, "bounds": None}}), "no column 'y'"),
    "a formula beyond bounds": (computed({"x": {"formula": AGE, "bounds": ["a", 1]}}), "finite number"),
    "a formula of a name that is taken": (computed({"age": {"formula": AGE, "bounds": None}}), "'age' already"),
    "an empty name": (of_request(analyst=" "), "analyst's name"),
    "an escape": (of_request(analyst="\x1b[2J"), "analyst's name"),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("change", "expected"), BAD.values(), ids=BAD)
def test_bad_requests_are_refused_before_any_charge(place, capsys, change, expected):
    """Even if it is signed: nothing is charged, nothing is written."""
    wanted().save("requests.json", key="ana.key")
    forge(change)

    assert answer("--yes") == 1
    err = capsys.readouterr().err
    assert re.search(expected, err)
    assert "\x1b" not in err
    assert not Path("answers.json").exists()
    assert all(each.entries() == [] for each in open_ledger().accounts())


def test_a_request_for_another_version_of_the_file(place, capsys):
    """Bounds that changed since the questions were written change what they mean."""
    wanted().save("requests.json", key="ana.key")
    Path("clinic.toml").write_text(SCHEMA.replace("90", "91"))

    assert answer("--yes") == 1
    assert "another version of it" in capsys.readouterr().err
    Path("clinic.toml").write_text(SCHEMA.replace("epsilon = 2", "epsilon = 3") + "# and words do not matter\n")
    assert answer("--yes") == 0


def test_the_output_is_checked_first(place, capsys):
    """A file that is there is not written over, and nothing is charged for an answer that could not be written."""
    wanted().save("requests.json", key="ana.key")
    Path("answers.json").write_text("mine")

    assert answer("--yes") == 1
    assert answer("--yes", "--output", "no/where.json") == 1
    assert answer("--yes", "--analyst", "bo", "--output", "b.json") == 1
    assert (Path("answers.json").read_text(), open_ledger().accounts()) == ("mine", [])
    with pytest.raises(dp.ArgumentError, match="exists"):
        wanted().save("requests.json", key="ana.key")


def test_what_a_request_refuses(place):
    """Arguments are checked where they are written, and what no file can hold is refused."""
    asked = dp.request("clinic.toml")
    bad = [
        lambda: asked.ttest("age", popmen=3),
        lambda: asked.ttest("weight"),
        lambda: asked.ttest("age", popmean=float("nan"), epsilon=0.5),
        lambda: asked.mean("age", epsilon="rest"),
        lambda: asked.mean("age", fresh=True),
        lambda: asked.where(lambda row: True).mean("age"),
        lambda: asked.where(age=(60, 30)),
        lambda: asked.save("empty.json", key="ana.key"),
        lambda: dp.request("clinic.parquet"),
        lambda: dp.request("nowhere.toml"),
    ]
    for each in bad:
        with pytest.raises(dp.ArgumentError):
            each()
    with pytest.raises(AttributeError, match="There is no method 'head'"):
        asked.head()
    assert (asked.questions, hasattr(asked, "budget")) == ((), False)
    Path("nameless.toml").write_text("[columns.age]\n")
    with pytest.raises(dp.SchemaError, match="names no data set"):
        dp.request("nameless.toml")
    for _ in range(1000):
        asked.mean("age")
    with pytest.raises(dp.ArgumentError, match="at most 1000 questions"):
        asked.mean("age")
    assert len(asked.schema.dummy(5)) == 5


@pytest.mark.parametrize("text", ["", "short", "a" * 31])
def test_keys(place, monkeypatch, text):
    """A key that can be guessed is none; the environment may name one."""
    Path("bad.key").write_text(text)
    asked = wanted()

    for key in ("bad.key", "nowhere.key", None):
        with pytest.raises(dp.ArgumentError, match="token_hex"):
            asked.save("requests.json", key=key)
    monkeypatch.setenv("DFPRIVACY_KEY", "ana.key")
    asked.save("requests.json")
    assert REQUEST in Path("requests.json").read_text()
