"""The custodian's page: who sees it, what it shows and does, and that every text in it is one."""

from __future__ import annotations

import base64
import csv
import io
import itertools
import json
import re

import pytest

import dfprivacy as dp
from dfprivacy.cli import main
from dfprivacy.errors import ArgumentError, AwaitingApproval, BudgetExceeded, LedgerError
from dfprivacy.server.tokens import make_token, revoke_tokens

PAGES = ["", "questions", "question?call=1", "waiting", "analysts", "record.json", "record.csv"]


def test_nobody_sees_a_page_who_has_not_logged_in(serve):
    """Without a cookie, and with one that nobody was given, there is only the login."""
    served = serve()
    served.connect().mean("age", epsilon=0.5)
    browser = served.browser(logged_in=False)

    cookies = ({}, {"dfprivacy": "made-up"}, {"dfprivacy": served.custodian})
    for page, browser.cookies in itertools.product(PAGES, cookies):
        browser.open(page, follow=False)

        assert browser.status == 303
        assert browser.headers["Location"] == "login"
        assert not browser.text
        assert browser.open("login").status == 200
        assert "trial" not in browser.text


def test_an_analyst_cannot_log_in(serve):
    """An analyst's token shows nothing, nor does a wrong one, or one that is revoked or expired."""
    served = serve()
    ledger = served.held.ledger
    late = make_token(ledger, "late", role="custodian", expires="2020-01-01")
    gone = make_token(ledger, "gone", role="custodian")
    revoke_tokens(ledger, "gone")
    browser = served.browser(logged_in=False)

    for token in (served.analyst, late, gone, "", "x", "\u202e", "a" * 5000):
        browser.open("login").send("login", token=token)

        assert browser.status == 403
        assert "not a custodian&#39;s token" in browser.text
        assert len(token) < 2 or token not in browser.text
    assert browser.open("", follow=False).status == 303


def test_a_form_from_elsewhere_does_nothing(serve):
    """Every form needs the page's own hidden number, that of this very login."""
    served = serve()
    browser, other = served.browser(), served.browser()
    theirs = other.open("analysts").forms("analysts")[0]["csrf"]

    for csrf in ({}, {"csrf": ""}, {"csrf": theirs}, {"csrf": "\udcff"}, {"csrf": "é"}):
        browser.open("analysts", {"name": "ana"} | {k: v.encode(errors="surrogateescape") for k, v in csrf.items()})
        assert browser.status == 403
        assert "not sent from this page" in browser.text
        browser.open("logout", {} | {k: v.encode(errors="surrogateescape") for k, v in csrf.items()}, follow=False)
    for body in (b"\xff\xfe", b"a=1&" * 50, b"x" * 100_000, b"csrf=%00&name=%FF"):  # forms that are none
        assert browser.open("analysts", body).status == browser.open("login", body).status == 403
    assert browser.open("analysts").status == 200
    assert served.connect().budget.spent == 0  # the token counts still

    stranger = served.browser(logged_in=False)
    stranger.open("login", {"token": served.custodian})
    assert stranger.status == 403
    assert stranger.open("", follow=False).status == 303


def test_the_login_is_a_cookie_that_only_this_server_sees(serve):
    """The cookie changes at the login, is no token, is out of reach of scripts and other sites, and ends."""
    served = serve()
    browser = served.browser(logged_in=False)
    before = browser.open("login").cookies["dfprivacy"]
    browser.send("login", token=f" {served.custodian}\n", follow=False)

    after = browser.cookies["dfprivacy"]
    flags = browser.headers["Set-Cookie"].lower()
    assert after not in {before, served.custodian}
    assert "httponly" in flags
    assert "samesite=strict" in flags
    assert "secure" not in flags  # over http, as here
    proxied = [("X-Forwarded-Proto", "https")]
    assert (
        "; secure" in served.browser(logged_in=False).open("login", headers=proxied).headers["Set-Cookie"].lower()
    )

    browser.open("").send("logout")
    browser.cookies["dfprivacy"] = after
    assert browser.open("", follow=False).status == 303

    other = served.browser()
    revoke_tokens(served.held.ledger, "carla")  # the page asks the ledger every time
    assert other.open("", follow=False).status == 303


def test_headers_of_every_page(serve):
    """Nothing is loaded from anywhere else, framed, guessed, kept or told to others."""
    browser = serve().browser()
    for page in ("login", "style.css", *PAGES):
        headers = browser.open(page).headers
        policy = dict(each.strip().split(" ", 1) for each in headers["Content-Security-Policy"].split(";"))
        assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
        assert policy["form-action"] == "'self'"
        assert "script-src" not in policy
        said = [headers[f"X-{name}"] for name in ("Frame-Options", "Content-Type-Options")]
        assert [*said, headers["Referrer-Policy"], headers["Cache-Control"]] == [
            "DENY", "nosniff", "no-referrer", "no-store",
        ]  # fmt: skip
        text = browser.text.replace("&lt;script", "")
        assert not re.search(r"<script|javascript:|https?://|@import|\son\w+=", text)


def test_budgets_and_questions(serve):
    """The budget as a bar, each question with its price, and what it released, with its picture."""
    served = serve()
    view = served.connect()
    mean = view.where(age=(30, 60)).mean("weight", epsilon=0.5)
    view.histogram("age", 5, epsilon=0.25)

    browser = served.browser()
    assert "Budget of &#x27;trial&#x27;" in browser.text
    assert '<meter min="0" max="1" value="0.0375"' in browser.text
    assert "2 answers from trial" in browser.text

    browser.open("questions")
    links = re.findall(r'href="(question\?[^"]*)"', browser.text)
    assert len(links) == 2
    assert browser.text.index("histogram(") < browser.text.index("mean(")
    assert "mean(&#39;weight&#39;) where age from 30 to 60" in browser.text

    browser.open(links[1].replace("&amp;", "&"))
    assert "Asked by ana of trial" in browser.text
    assert "column=&#39;weight&#39;, confidence=0.95" in browser.text  # in full
    assert '<th scope="row">mean</th><td class="number">0.5</td>' in browser.text
    assert mean._repr_html_() in browser.text
    picture = re.search(r'src="data:image/png;base64,([^"]*)"', browser.text)
    assert base64.b64decode(picture[1]).startswith(b"\x89PNG")

    assert "mean(" not in browser.open("questions?analyst=bo").text
    assert browser.open("question?account=trial&call=none").status == 404
    assert browser.open("questions?account=none").status == 400


def test_lists_have_pages_of_fifty(serve):
    """Newest first, with ways to both sides, and none that leads nowhere."""
    served = serve()
    view = served.held.views["trial"]
    for low in range(60):
        view.where(age=(low / 10, 90)).count(epsilon=0.01)
    browser = served.browser()

    seen = []
    browser.open("questions")
    for left in (50, 10):
        rows = re.findall(r"where age from ([\d.]+) to 90", browser.text)
        assert len(rows) == left
        seen += rows
        older = re.search(r'href="([^"]*)" rel="next"', browser.text)
        assert bool(older) == (left == 50)
        if older:
            browser.open(older[1].replace("&amp;", "&"))
    assert [float(each) for each in seen] == [low / 10 for low in reversed(range(60))]
    for page in ("0", "-1", "x", "\u0663", "9" * 30, "7"):
        assert browser.open(f"questions?page={page.encode().hex() if not page.isascii() else page}").status == 200


def test_names_and_words_are_texts(serve, clinic):
    """Markup and what turns the direction of writing, in names, labels, conditions and refusals, is shown."""
    served = serve("approve = true\n")
    hostile = "<img src=x onerror=alert(1)>\"'{{7*7}}"
    token = make_token(served.held.ledger, hostile)
    view = served.connect(token)
    with pytest.raises(AwaitingApproval):
        view.where(arm=["drug", "<script>alert(1)</script>"]).mean("weight", epsilon=0.5)
    browser = served.browser()

    for page in (
        "",
        "waiting",
        "analysts",
        "questions?analyst=%3Cscript%3E%E2%80%AE%22",
        "questions?account=%3Cb%3E",
    ):
        browser.open(page)
        assert "<script" not in browser.text
        assert "<img" not in browser.text
        assert "<b>" not in browser.text
        assert "\u202e" not in browser.text
    assert "&lt;script&gt;alert(1)" in browser.open("waiting").text
    assert "&lt;img src=x onerror=alert(1)&gt;&#34;&#39;{{7*7}}" in browser.text

    browser.send("waiting", decision="approve")
    assert "&lt;script&gt;" in browser.text
    assert "<script" not in browser.text
    assert "weight &lt;b&gt;now" in browser.text


def test_approve_and_ask_again(serve):
    """A question waits, is approved, and its analyst's next ask has the answer, at no further charge."""
    served = serve("approve = true\n")
    view = served.connect()
    with pytest.raises(AwaitingApproval, match=r"with the number [0-9a-f]{16}") as waits:
        view.mean("weight", epsilon=0.5)
    with pytest.raises(AwaitingApproval):
        view.mean("weight", epsilon=0.5)
    assert view.budget.spent == 0

    browser = served.browser()
    assert "1 question waiting" in browser.text
    browser.open("waiting")
    assert browser.text.count("<article") == 1
    assert re.search("[0-9a-f]{16}", str(waits.value))[0] in browser.text
    assert "Price: epsilon 0.5" in browser.text
    assert "nothing was charged or read" in browser.text
    form = browser.forms("waiting")[0]
    browser.send("waiting", decision="approve")
    assert "What was released" in browser.text  # where the custodian sees it
    assert "Asked by ana" in browser.text

    mean = view.mean("weight", epsilon=0.5)
    assert mean.privacy.replayed
    assert abs(float(mean) - 80) < 5
    assert view.budget.spent == 0.5
    assert "No question waits" in browser.open("waiting").text

    browser.open("waiting", form | {"decision": "approve"})  # the form once more
    assert browser.status == 400
    assert "No question with this number is waiting" in browser.text
    assert view.budget.spent == 0.5
    other = served.connect(make_token(served.held.ledger, "bo"))
    assert other.mean("weight", epsilon=0.5) == mean  # what is kept waits for nobody


@pytest.mark.parametrize("anew", ["fresh", "sample"])
def test_an_approved_answer_that_is_never_given_again_is_given_to_its_analyst(serve, anew):
    """Nor is it paid twice: a question measured anew, or of a secret sample, is approved once."""
    served = serve("approve = true\n")
    view = served.connect()

    def ask():
        if anew == "fresh":
            return view.mean("weight", epsilon=0.5, fresh=True)
        return view.sample(0.5).mean("weight", epsilon=0.5)

    with pytest.raises(AwaitingApproval):
        ask()
    served.browser().open("waiting").send("waiting", decision="approve")

    first = ask()
    assert first == ask()
    assert first.privacy.replayed
    assert view.budget.spent == 0.5


def test_what_is_refused_or_cannot_be_paid(serve):
    """The analyst reads why, and nothing is charged; what cannot be paid goes on waiting, or does not wait."""
    served = serve("approve = true\n")
    view, other = served.connect(), served.connect(make_token(served.held.ledger, "bo"))
    for asked, column, epsilon in ((view, "weight", 0.5), (view, "weight", 15), (other, "age", 15)):
        with pytest.raises(AwaitingApproval):
            asked.mean(column, epsilon=epsilon)
    browser = served.browser().open("waiting")
    assert browser.text.index("weight") < browser.text.index("&#39;age&#39;")
    browser.send("waiting", decision="refuse", why="Not <b>this</b> one.")

    with pytest.raises(ArgumentError, match=r"The custodian refused the question: Not <b>this</b> one\."):
        view.mean("weight", epsilon=0.5)
    assert (browser.text.count("<article"), view.budget.spent) == (2, 0)
    browser.send("waiting", 1, decision="approve")
    assert "Asked by bo" in browser.text

    browser.open("waiting").send("waiting", decision="approve")
    assert browser.status == 400
    assert "at most epsilon = 5 is left" in browser.text
    assert browser.open("waiting").text.count("<article") == 1
    for _ in range(2):
        with pytest.raises(BudgetExceeded, match="costs epsilon = 15, and at most epsilon = 5 is left"):
            view.mean("weight", epsilon=15)
    with pytest.raises(BudgetExceeded):
        view.where(arm="drug").mean("weight", epsilon=6)
    assert browser.open("waiting").text.count("<article") == 1


def test_revoke_at_once(serve):
    """A view that was connected before is refused, from the next question on."""
    served = serve()
    view = served.connect()
    view.mean("age", epsilon=0.5)
    browser = served.browser().open("analysts")
    assert "analyst, without end" in browser.text
    browser.send("analysts", [form["name"] for form in browser.forms("analysts")].index("ana"))

    assert "analyst, revoked" in browser.text
    with pytest.raises(ArgumentError, match="revoked"):
        view.mean("age", epsilon=0.5)
    assert [form["name"] for form in browser.forms("analysts")] == ["carla"]


def test_the_record_is_that_of_the_command_line(serve, clinic, capsys):
    """JSON and CSV, parsed."""
    served = serve()
    served.connect().mean("age", epsilon=0.5)
    browser = served.browser()
    ledger = str(clinic / "ledger.sqlite")

    for name, option in (("record.json", "--json"), ("record.csv", "--csv")):
        browser.open(name)
        main(["ledger", "--ledger", ledger, option])
        assert browser.text.strip() == capsys.readouterr().out.strip()
        assert browser.headers["Content-Disposition"] == f'attachment; filename="{name}"'
        assert served.custodian not in browser.text
    (row,) = csv.DictReader(io.StringIO(browser.text))
    assert (row["analyst"], row["epsilon"]) == ("ana", "1/2")
    assert json.loads(browser.open("record.json").text)["accounts"][0]["questions"][0]["analyst"] == "ana"


def test_shares_are_shown_as_bars(serve, clinic, capsys):
    """The analyst's cap, on both pages that show caps."""
    served = serve()
    ledger = str(clinic / "ledger.sqlite")
    assert main(["analysts", "add", "ana", "--cap", "0.5", "--account", "trial", "--ledger", ledger]) == 0
    served.connect().mean("age", epsilon=0.125)
    browser = served.browser()

    assert '<meter min="0" max="1" value="0.2500" aria-label="share used">' in browser.text
    assert "trial: epsilon 0.5, 0.375 left" in browser.open("analysts").text
    with pytest.raises((dp.BudgetError, LedgerError)):
        served.connect().mean("age", epsilon=0.5)
