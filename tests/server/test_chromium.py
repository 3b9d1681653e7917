"""The custodian's page in a real browser, by keys, with scripts switched off."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress

import pytest

from dfprivacy.errors import AwaitingApproval

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# Its commands and events come by file descriptors 3 and 4.
START = (
    "import os, sys; _, one, two, *it = sys.argv; os.dup2(int(one), 3); os.dup2(int(two), 4); os.execv(it[0], it)"
)


class Chromium:
    """A headless Chromium with one page, spoken to by its debugging protocol."""

    def __init__(self, folder):
        theirs, self._out = os.pipe()
        back, ours = os.pipe()
        flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-pipe",
            f"--user-data-dir={folder}",
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-c", START, str(theirs), str(ours), CHROMIUM, *flags, "about:blank"],
            pass_fds=(theirs, ours),
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs), os.close(ours)
        self._in, self._number, self._session, self.complaints = os.fdopen(back, "rb"), 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setScriptExecutionDisabled", value=True)

    def _message(self):
        letters = bytearray()
        while (each := self._in.read(1)) != b"\0":
            assert each, "Chromium has ended."
            letters += each
        message = json.loads(letters)
        about = message.get("params", {})
        if message.get("method") == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.complaints.append(about["entry"]["text"])
        if message.get("method") in {"Runtime.exceptionThrown", "Runtime.consoleAPICalled"}:
            self.complaints.append(str(about))
        return message

    def call(self, method, **params):
        self._number += 1
        told = {"id": self._number, "method": method, "params": params}
        told |= {} if self._session is None else {"sessionId": self._session}
        os.write(self._out, json.dumps(told).encode() + b"\0")
        while (answer := self._message()).get("id") != self._number:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def _loaded(self):
        while self._message().get("method") != "Page.loadEventFired":
            pass

    def open(self, address):
        self.call("Page.navigate", url=address)
        self._loaded()

    def look(self, expression):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def type(self, text):
        self.call("Input.insertText", text=text)

    def press(self, key, code, *, loads=False):
        about = {"key": key, "code": key, "windowsVirtualKeyCode": code, "text": "\r" if key == "Enter" else ""}
        self.call("Input.dispatchKeyEvent", type="keyDown" if about["text"] else "rawKeyDown", **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", **{**about, "text": ""})
        if loads:
            self._loaded()

    def close(self):
        with suppress(AssertionError, OSError):
            self.call("Browser.close")
        self._process.wait(30)
        os.close(self._out)
        self._in.close()


@pytest.fixture
def chromium(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("There is no Chromium here.")
    browser = Chromium(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


def test_the_page_in_chromium(serve, chromium):
    """It logs in and approves by keys; every page has its style and pictures, and Chromium complains of nothing."""
    served = serve("approve = true\n")
    view = served.connect()
    with pytest.raises(AwaitingApproval):
        view.histogram("age", 5, epsilon=0.5)

    chromium.open(f"{served.address}/")
    assert chromium.look("document.title") == "Log in · dfprivacy"
    chromium.type(served.custodian)
    chromium.press("Enter", 13, loads=True)
    assert chromium.look("document.title") == "Budgets · dfprivacy"
    order = []
    for _ in range(6):
        chromium.press("Tab", 9)
        order.append(chromium.look("document.activeElement.innerText"))
    assert order == ["To the content", "Budgets", "Questions", "Waiting", "Analysts", "Log out"]

    chromium.open(f"{served.address}/waiting")
    while chromium.look("document.activeElement.value") != "approve":
        chromium.press("Tab", 9)
    chromium.press("Enter", 13, loads=True)
    assert chromium.look("document.title") == "Question · dfprivacy"
    assert chromium.look("document.querySelector('img').naturalWidth") > 300
    assert chromium.look("getComputedStyle(document.querySelector('main div table')).borderCollapse") == "collapse"
    assert chromium.look("[...document.querySelectorAll('h1, h2')].map(each => each.tagName).join()") == "H1,H2"
    for page in ("", "questions", "waiting", "analysts", "question?call=none"):
        chromium.open(f"{served.address}/{page}")
        assert chromium.look("getComputedStyle(document.querySelector('header')).display") == "flex"
        assert chromium.look("document.querySelectorAll('h1').length") == 1
        assert chromium.look("document.documentElement.scrollWidth <= innerWidth")
        assert chromium.look("[...document.querySelectorAll('input:not([type=hidden]), select')]"
                             ".every(each => each.labels.length)")  # fmt: skip
    assert [each for each in chromium.complaints if "404" not in each] == []
    assert view.histogram("age", 5, epsilon=0.5).privacy.replayed
