"""The commands that serve tables and make tokens, and the file that names the tables."""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import signal
import sqlite3
import ssl
import subprocess
import sys
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._table.frames.files import open_database_table
from dfprivacy.cli import main
from dfprivacy.server.config import read_config
from dfprivacy.server.tokens import holder_of

SCRIPT = Path(sys.executable).parent / "dfprivacy"


def run(capsys, *arguments):
    """Run a command in this process; its exit code, output and errors."""
    code = main(arguments)
    return code, *capsys.readouterr()


@pytest.fixture
def ledger(tmp_path):
    """A ledger in a file, with one account."""
    path = tmp_path / "l.sqlite"
    dp.protect(pd.DataFrame({"age": [1.0, 2.0]}), "clinic", epsilon=2, bounds={"age": (0, 9)}, ledger=path)
    return str(path)


def test_make_list_and_revoke_tokens(capsys, ledger):
    """A token is shown once, counts until it is revoked or expired, and is in no list and no ledger."""
    code, out, _ = run(capsys, "analysts", "add", "ana", "--expires", "2999-01-01", "--ledger", ledger)
    said, token = out.splitlines()
    _, more, _ = run(capsys, "analysts", "add", "carla", "--custodian", "--ledger", ledger)
    assert run(capsys, "analysts", "add", "bo", "--tables", "visits, labs", "--ledger", ledger)[0] == 0
    assert run(capsys, "analysts", "add", "cem", "--tables", "visits,", "--ledger", ledger)[0] == 1

    assert (code, said) == (0, "The token of ana, which is shown only once:")
    opened = open_ledger(ledger)
    assert holder_of(opened, token).name == "ana"
    assert holder_of(opened, more.split()[-1]).role == "custodian"
    _, listed, _ = run(capsys, "analysts", "list", "--ledger", ledger)
    assert [re.split("  +", line)[:5] for line in listed.splitlines()] == [
        ["name", "role", "tables", "expires", "revoked"],
        ["ana", "analyst", "all", "2999-01-01", "no"],
        ["carla", "custodian", "all", "never", "no"],
        ["bo", "analyst", "visits, labs", "never", "no"],
    ]
    _, everything, _ = run(capsys, "ledger", "--ledger", ledger, "--json")
    assert token not in listed + everything

    assert run(capsys, "analysts", "revoke", "ana", "--ledger", ledger)[:2] == (0, "ana: 1 token revoked\n")
    assert holder_of(opened, token) is None
    assert run(capsys, "analysts", "revoke", "ana", "--ledger", ledger)[:2] == (1, "ana: 0 tokens revoked\n")
    opened.close()


def test_a_cap_is_a_share_of_the_account(capsys, ledger):
    """It is given once; what cannot be a share is refused, and then no token is made."""
    assert run(capsys, "analysts", "add", "ana", "--cap", "1/2", "--ledger", ledger)[0] == 0
    opened = open_ledger(ledger)
    assert [(each.analyst, str(each.epsilon)) for each in opened.account("clinic").shares()] == [("ana", "1/2")]

    for cap, account, why in (
        ("1", "clinic", "AccountMismatch: The share of 'ana' in the account 'clinic' is epsilon = 1/2"),
        ("3", "clinic", "ArgumentError: --cap is more than the whole budget of 'clinic', epsilon = 2."),
        ("0", "clinic", "ArgumentError: --cap = 0 must be a number from"),
        ("x", "clinic", "ArgumentError: --cap = 'x'"),
        (".5", "school", "LedgerError: The ledger"),
    ):
        code, out, err = run(
            capsys, "analysts", "add", "ana", "--cap", cap, "--account", account, "--ledger", ledger
        )
        assert (code, out) == (1, "")
        assert err.startswith(why.partition(" = ")[0])
    assert run(capsys, "analysts", "add", "bo", "--expires", "soon", "--ledger", ledger)[0] == 1
    assert run(capsys, "analysts", "add", "a\u202eb", "--ledger", ledger)[0] == 1
    assert len([each for each in opened.records() if each.event == "token"]) == 1
    opened.close()


@pytest.mark.parametrize("words", [
    ("serve",), ("serve", "clinic.toml", "--demo"), ("analysts", "add"), ("analysts", "list", "ana"),
    ("analysts", "revoke", "ana", "--cap", "1"), ("analysts", "add", "ana", "--custodian", "--tables", "visits"),
    ("analysts", "list", "--tables", "visits"), ("analysts", "add", "ana", "--custodian", "--oidc"),
    ("analysts", "revoke", "ana", "--oidc"), ("analysts", "make", "ana"),
])  # fmt: skip
def test_commands_that_say_too_little_or_too_much(capsys, words):
    """They end with how to use them."""
    with pytest.raises(SystemExit) as ended:
        main(words)

    assert ended.value.code == 2
    assert "usage: dfprivacy" in capsys.readouterr().err


def test_serve_refuses_what_it_cannot_use(capsys, clinic):
    """An address that is taken, half of a certificate, files that are none; a warning where tokens can be read."""
    file = str(clinic / "clinic.toml")
    for words, why in (
        (("--certfile", "x.pem"), "TLS needs a certificate and its key."),
        (("--certfile", file, "--keyfile", file), "The certificate or key for TLS cannot be used"),
        (("--port", "99999"), "port=99999 is not a port number"),
        (("--host", "192.0.2.1"), "The address 192.0.2.1, port 8765, cannot be used"),
    ):
        code, out, err = run(capsys, "serve", file, *words)
        assert (code, out) == (1, "")
        assert why in err
        assert ("unless a proxy in front of the server uses TLS" in err) == ("192.0.2.1" in err)


def test_the_libraries_of_the_server(clinic):
    """Where one is missing the error says what to install; nothing else of dfprivacy needs them."""
    bare = "import sys; sys.modules['starlette'] = None; from dfprivacy.cli import main; sys.exit(main())"
    words = [sys.executable, "-c", bare, "serve", clinic / "clinic.toml"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    code = (
        "import sys, dfprivacy, dfprivacy.cli; dfprivacy.cli.main(['analysts', 'list', '--ledger', 'memory:']); "
        "print({*sys.modules} & {'starlette', 'uvicorn', 'jinja2', 'anyio'})"
    )

    assert done.returncode == 1
    assert done.stderr.startswith("MissingDependency: The server needs starlette.")
    assert 'pip install "dfprivacy[server]"' in done.stderr
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


@pytest.fixture
def visits():
    """The rows of a table that is in a database."""
    return pd.DataFrame(
        {"age": [20.5, 30, 40, 50] * 50, "sex": ["f", "m"] * 100, "note": [None, "x", "", "y"] * 50}
    )


VISITS = """
epsilon = 100
name = "visits"
size = 200
[columns.age]
bounds = [0, 100]
[columns.sex]
categories = ["f", "m"]
"""


@pytest.mark.parametrize("kind", ["duckdb", "duckdb schema", "sqlalchemy"])
def test_tables_of_databases(tmp_path, visits, kind):
    """The same answers as of a file."""
    if kind.startswith("duckdb"):
        with duckdb.connect(tmp_path / "v.duckdb") as made:
            made.execute("CREATE SCHEMA \"cl'inic\"; CREATE TABLE visits AS FROM visits; "
                         "CREATE TABLE \"cl'inic\".visits AS FROM visits")  # fmt: skip
        data, table = "v.duckdb", "cl'inic.visits" if kind.endswith("schema") else "visits"
    else:
        with sqlite3.connect(tmp_path / "v.sqlite") as made:
            visits.to_sql("visits", made, index=False)
        made.close()
        data, table = f"sqlite:///{tmp_path / 'v.sqlite'}", "visits"
    (tmp_path / "visits.toml").write_text(VISITS)
    (tmp_path / "c.toml").write_text(
        f'ledger = "memory:"\n[tables.visits]\ndata = "{data}"\ntable = "{table}"\nschema = "visits.toml"\n'
    )

    view = read_config(tmp_path / "c.toml").views["visits"]
    counts = view.group_by("sex").count(epsilon=20)
    assert abs(float(view.mean("age", epsilon=20)) - visits["age"].mean()) < 1
    assert abs(float(counts["f"]) - 100) < 3


def test_a_table_without_rows_has_its_columns(tmp_path, visits):
    """And one whose first rows are integers or missing has all of its values."""
    with sqlite3.connect(tmp_path / "v.sqlite") as made:
        visits.iloc[:0].to_sql("empty", made, index=False)
        pd.DataFrame({"age": [None] * 70_000 + [1] * 70_000 + [2.5]}).to_sql("mixed", made, index=False)
    made.close()
    address = f"sqlite:///{tmp_path / 'v.sqlite'}"

    assert open_database_table(address, "empty").column_names == ["age", "sex", "note"]
    mixed = open_database_table(address, "mixed").column("age")
    assert (mixed.null_count, sum(mixed.drop_null().to_pylist())) == (70_000, 70_002.5)


def test_threads_read_a_table_of_duckdb_at_once(tmp_path):
    """Each pass has a connection of its own: on a shared one, a query ends the one before, which was paid for."""
    with duckdb.connect(tmp_path / "v.duckdb") as made:
        made.execute("CREATE TABLE visits AS SELECT range % 100 AS age FROM range(1_000_000)")
    table = open_database_table(tmp_path / "v.duckdb", "visits")
    view = dp.protect(table, "visits of threads", epsilon=100, bounds={"age": (0, 100)})

    with ThreadPoolExecutor(6) as threads:
        means = [*threads.map(lambda low: view.where(age=(low, 99)).mean("age", epsilon=1), range(12))]
    for low, mean in enumerate(means):
        assert abs(float(mean) - (low + 99) / 2) < 0.1


READING, UNSAID = "ReadError: Reading the rows failed", "[tables.trial] lacks data or schema"
UNSERVED = [
    ('data = "none.duckdb"\ntable = "visits"', "ArgumentError: There is no file"),
    ('data = "trial.parquet"\ntable = "visits"', READING),
    *((f'data = "{address}"\ntable = "visits"', READING)
      for address in ("sqlite:///none/secret-word.sqlite", "postgresql://u:secret-word@127.0.0.1:1/d",
                      "strange://secret-word")),
    ('data = "trial.toml"', "ArgumentError: The file type of"),
]  # fmt: skip
UNSAID_OF = ["data = 1", 'data = "t.parquet"\nschema = "s"\nmore = 1', 'schema = "s"']


@pytest.mark.parametrize(
    ("text", "why"),
    [*((f'{text}\nschema = "trial.toml"', why) for text, why in UNSERVED), *((text, UNSAID) for text in UNSAID_OF)],
)
def test_tables_that_cannot_be_opened(capsys, clinic, text, why):
    """Nothing is served, nothing was spent, and no address with a password is said."""
    (clinic / "c.toml").write_text(f"[tables.trial]\n{text}\n")
    code, out, err = run(capsys, "serve", str(clinic / "c.toml"))

    assert (code, out) == (1, "")
    assert why in err
    assert "Nothing was released or spent." in err
    assert "secret-word" not in err


@pytest.mark.one_in(2)
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_the_demo_is_served(end, tmp_path):
    """It prints an address and tokens that work, ends in peace when it is told to, and leaves nothing behind."""
    told = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "env": {**os.environ, "TMPDIR": tmp_path},
    }
    with subprocess.Popen([SCRIPT, "serve", "--demo", "--port", "0"], **told) as demo:
        lines = [demo.stdout.readline() for _ in range(10)]
        try:
            (address,) = re.findall(r"served at (http://127\.0\.0\.1:\d+) ", lines[0])
            token = lines[2].split()[-1]
            view = dp.connect(address, token=token)
            age = view.mean("age", epsilon=0.5)
            assert 25 < float(age) < 33
            assert view.mean("age", epsilon=0.5).privacy.replayed
            assert lines[4].split()[-1] == f"{address}/"
            assert f'dp.connect("{address}", token="{token}")' in lines[8]
            assert [*tmp_path.iterdir()]
        finally:
            demo.send_signal(end)
            _, complaints = demo.communicate(timeout=60)
    assert (demo.returncode, complaints, [*tmp_path.iterdir()]) == (0, "", [])


@pytest.mark.skipif(shutil.which("openssl") is None, reason="There is no openssl to make a certificate.")
def test_the_file_is_served_by_tls(clinic):
    """The client trusts the certificate that it is given, and no other; the page's cookie is for https alone."""
    made = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    subprocess.run(
        [*made.split(), "-keyout", "key.pem", "-out", "cert.pem"], cwd=clinic, check=True, capture_output=True
    )
    words = ["clinic.toml", "--port", "0", "--certfile", "cert.pem", "--keyfile", "key.pem"]
    with subprocess.Popen([SCRIPT, "serve", *words], cwd=clinic, stdout=subprocess.PIPE, text=True) as served:
        try:
            line = served.stdout.readline()
            address = line.split(": ")[0].replace("127.0.0.1", "localhost")
            assert line.endswith(": trial\n")
            add = [SCRIPT, "analysts", "add", "ana", "--ledger", clinic / "ledger.sqlite"]
            token = subprocess.check_output(add, text=True).split()[-1]
            assert address.startswith("https://")
            view = dp.connect(address, token=token, cafile=clinic / "cert.pem")
            assert 20 < float(view.mean("age", epsilon=1)) < 90
            with pytest.raises(dp.LedgerError, match="cannot be reached"):
                dp.connect(address, token=token)
            context = ssl.create_default_context(cafile=clinic / "cert.pem")
            with urllib.request.urlopen(f"{address}/login", context=context) as page:  # noqa: S310 - of this very server
                assert "; secure" in page.headers["Set-Cookie"].lower()
        finally:
            served.terminate()
            assert served.wait(60) in {0, -signal.SIGTERM}


def test_editions_of_a_table_are_served_under_names_of_their_own(tmp_path):
    """Each has its rows, and one account pays for both."""

    lines = ['ledger = "ledger.sqlite"']
    for year in (2025, 2026):
        pd.DataFrame({"x": [year / 4000] * 100}).to_parquet(tmp_path / f"{year}.parquet")
        (tmp_path / f"{year}.toml").write_text(
            f'name = "year"\naccount = "years"\nedition = "{year}"\nepsilon = "9"\n[columns.x]\nbounds = [0, 1]\n'
        )
        lines += [f'[tables."year {year}"]', f'data = "{year}.parquet"', f'schema = "{year}.toml"']
    (tmp_path / "years.toml").write_text("\n".join(lines))

    views = read_config(tmp_path / "years.toml").views

    assert [*views] == ["year 2025", "year 2026"]
    means = [view.mean("x", epsilon=4).value for view in views.values()]
    assert means == pytest.approx([0.506, 0.5065], abs=0.05)
    assert [view.budget.spent for view in views.values()] == [8, 8]


def test_another_version_says_so():
    """A client that meets a server of another protocol names both versions, and asks nothing of it."""
    asked, nobody = [], "of nobody"

    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            body = json.dumps({"dfprivacy": "9.0.0", "protocol": 1_000_000}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Keep quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with pytest.raises(dp.LedgerError, match=rf"has dfprivacy 9.0.0, and this is {dp.__version__}"):
            dp.connect(f"http://127.0.0.1:{server.server_port}", token=nobody)
    finally:
        server.shutdown()
        server.server_close()
    assert len(asked) == 1
