"""Analysts whom an identity provider names: a real one, on this machine, with keys made here."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import json
import ssl
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dfprivacy.cli import main
from dfprivacy.errors import ArgumentError, BudgetExceeded, LedgerError, MissingDependency
from dfprivacy.server.config import read_config

jwt = pytest.importorskip("jwt")
pytest.importorskip("uvicorn")
rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
ec = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec")
USES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)
PUBLIC = {"RS256": jwt.algorithms.RSAAlgorithm, "ES256": jwt.algorithms.ECAlgorithm}


class Provider:
    """An identity provider: it publishes its keys, counts who asks for them, and signs."""

    def __init__(self, tls=None):
        self.keys = {
            "one": ("RS256", rsa.generate_private_key(public_exponent=65537, key_size=2048)),
            "two": ("ES256", ec.generate_private_key(ec.SECP256R1())),
        }
        self.published, self.asked, self.changed = ["one", "two"], [], {}
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                provider.asked.append(self.path)
                body = json.dumps(provider.says(self.path)).encode()
                status = provider.changed.get("status", 200)
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", provider.url + "/elsewhere")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.server.server_port}/realm"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def says(self, path):
        """What is published at a path."""
        if path.endswith("openid-configuration"):
            return {"issuer": self.url, "jwks_uri": self.url + "/keys", **self.changed}
        return {"keys": [self.public(name) for name in self.published]}

    def public(self, name):
        """A published key."""
        algorithm, key = self.keys[name]
        return {
            **PUBLIC[algorithm].to_jwk(key.public_key(), as_dict=True),
            "kid": name,
            "use": "sig",
            "alg": algorithm,
        }

    def token(self, key="one", *, kid=None, algorithm=None, secret=None, **claims):
        """A token that is good, but for what is said."""
        how, private = self.keys[key]
        now = int(time.time())
        usual = {"iss": self.url, "aud": "dfprivacy", "exp": now + 300, "iat": now, "sub": "17"}
        said = {**usual, "email": "ana@clinic.example", "email_verified": True, **claims}
        said = {name: value for name, value in said.items() if value is not None}
        headers = {"kid": key if kid is None else kid}
        return jwt.encode(said, private if secret is None else secret, algorithm=algorithm or how, headers=headers)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def provider():
    """An identity provider that listens."""
    made = Provider()
    yield made
    made.close()


@pytest.fixture
def served(provider, serve):
    """The clinic, served to whom the provider names."""
    return serve(f'ledger = "ledger.sqlite"\noidc = {{issuer = "{provider.url}", audience = "dfprivacy"}}\n')


@pytest.fixture
def clinic(clinic):
    """The folder of the custodian, whose file leaves its first line to the test."""
    file = clinic / "clinic.toml"
    file.write_text(file.read_text().partition("\n")[2])
    return clinic


def analysts(served, *words):
    """Run a command of the custodian's."""
    return main(["analysts", *words, "--ledger", str(served.held.ledger.file)])


@pytest.mark.parametrize("key", ["one", "two"])
def test_who_was_added_asks_with_the_provider_s_token(served, provider, capsys, key):
    """By either kind of signature; the answer and the page name the analyst, and no token was made."""
    assert analysts(served, "add", "ana@clinic.example", "--oidc") == 0
    assert capsys.readouterr().out == (
        "ana@clinic.example was added: the user of this name at the identity provider can ask questions.\n"
    )

    view = served.connect(provider.token(key))
    view.mean("age", epsilon=1)

    assert view.budget.spent == 1
    assert set(served.held.ledger.accounts()[0].askers().values()) == {"ana@clinic.example"}
    assert analysts(served, "list") == 0
    assert "oidc" in capsys.readouterr().out
    assert "(oidc)" in served.browser().open("analysts").text
    served.connect().mean("age", epsilon=0.5)  # a token of ours counts as before
    assert len(provider.asked) == 2


def test_what_was_said_of_an_analyst_holds(served, provider):
    """A cap, tables, a last day, and a revocation at once; who was added anew can ask again."""
    name = "ana@clinic.example"
    served.connect()  # opens the account
    assert analysts(served, "add", name, "--oidc", "--cap", "0.5") == 0
    view = served.connect(provider.token())
    with pytest.raises(BudgetExceeded, match="share"):
        view.mean("age", epsilon=1)

    assert analysts(served, "revoke", name) == 0
    refused(served, provider.token())
    assert analysts(served, "add", name, "--oidc", "--expires", "2020-01-01") == 0
    refused(served, provider.token())
    assert analysts(served, "add", name, "--oidc", "--tables", "labs") == 0
    with pytest.raises(ArgumentError, match="no table 'trial' for this token"):
        served.connect(provider.token())
    assert analysts(served, "revoke", name) == 0
    assert analysts(served, "add", name, "--oidc") == 0
    assert served.connect(provider.token()).budget.spent == 0


def refused(served, token):
    """Check that a token is refused as an unknown one is."""
    with pytest.raises(ArgumentError, match="The token is unknown, expired or revoked"):
        served.connect(token)


def test_tokens_that_do_not_count(served, provider):
    """Past its time or before it, for or by another, unsigned, signed with what is public, or by nobody known."""
    assert analysts(served, "add", "ana@clinic.example", "--oidc") == 0
    now = int(time.time())
    good = provider.token()
    served.connect(good)
    strange = Provider()
    strange.url = provider.url
    head, body, signature = good.split(".")
    other = base64.urlsafe_b64encode(json.dumps({"email": "bo@clinic.example"}).encode()).decode().rstrip("=")
    unsigned = provider.token(algorithm="none", secret="")
    name = "ana@clinic.example"
    claims = [
        {"exp": now - 60}, {"exp": None}, {"nbf": now + 600}, {"iat": now + 600}, {"aud": "another"}, {"aud": None},
        {"iss": provider.url + "/"}, {"iss": None}, {"kid": "unknown"}, {"kid": "two"}, {"email": "bo@clinic.de"},
        {"email": name.replace("ana", "ANA")}, {"email": f" {name}"}, {"email": None}, {"email": [name]},
        {"email": "ana\udcff"}, *({"email_verified": said} for said in (None, False, "true")),
        {"algorithm": "RS512"}, {"algorithm": "PS256"},
    ]  # fmt: skip
    parts = [f"{head}.{body}.", f"{head}.{other}.{signature}", "..", "a.b.c", f"{head}..{signature}", good + "x"]
    forged = [strange.token(), signed_with_the_public_key(provider, "HS256"), unsigned]
    for token in [*(provider.token(**each) for each in claims), *forged, *parts, "." * 5000]:
        refused(served, token)
    strange.close()
    assert served.held.ledger.accounts()[0].total_charged() == 0
    served.connect(good)


def signed_with_the_public_key(provider, algorithm):
    """A token that is signed with what everybody knows, as if it were a secret."""
    import hashlib
    import hmac

    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = provider.keys["one"][1].public_key()
    secret = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head = base64.urlsafe_b64encode(json.dumps({"alg": algorithm, "kid": "one"}).encode()).decode().rstrip("=")
    said = head + "." + provider.token().split(".")[1]
    return (
        said
        + "."
        + base64.urlsafe_b64encode(hmac.digest(secret, said.encode(), hashlib.sha256)).decode().rstrip("=")
    )


def test_keys_are_fetched_again_once_a_minute(provider, served):
    """For an unknown key, and where they are old; a key that was withdrawn counts no longer."""
    issuer = served.held.issuer
    assert issuer.analyst(provider.token()) == "ana@clinic.example"
    provider.published = ["two"]
    for _ in range(5):
        assert issuer.analyst(provider.token(kid="unknown")) is None
    assert len(provider.asked) == 2  # of what it is, and the keys
    assert issuer.analyst(provider.token()) == "ana@clinic.example"

    issuer._tried -= 61
    assert issuer.analyst(provider.token(kid="unknown")) is None
    assert len(provider.asked) == 4
    assert issuer.analyst(provider.token()) is None
    assert issuer.analyst(provider.token("two")) == "ana@clinic.example"

    provider.published = ["one"]
    issuer._tried, issuer._got = issuer._tried - 3601, issuer._got - 3601
    assert issuer.analyst(provider.token("two")) is None
    assert len(provider.asked) == 6


def certified(folder):
    """A server's certificate, and the file of the authority that signed it, made here."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    now, keys = dt.datetime.now(dt.UTC), [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in ("clinic", "provider")]
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signs = x509.KeyUsage(**{use: use in {"key_cert_sign", "crl_sign"} for use in USES})
    extensions = [x509.BasicConstraints(ca=True, path_length=0), signs], [here]
    for key, name, said, file in zip(keys, names, extensions, ("authority.pem", "provider.pem"), strict=True):
        made = x509.CertificateBuilder(names[0], name, key.public_key(), x509.random_serial_number())
        made = made.not_valid_before(now - dt.timedelta(1)).not_valid_after(now + dt.timedelta(1))
        made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        made = made.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(keys[0].public_key()), critical=False
        )
        for each in said:
            made = made.add_extension(each, critical=True)
        (folder / file).write_bytes(made.sign(keys[0], hashes.SHA256()).public_bytes(Encoding.PEM))
    key = keys[1].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "provider.key").write_bytes(key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "provider.pem", folder / "provider.key")
    return tls, folder / "authority.pem"


def test_a_provider_with_a_certificate_of_the_clinic_s_own_authority(clinic, serve, monkeypatch):
    """It is trusted where the environment names the authority, and else not."""
    tls, authority = certified(clinic)
    provider = Provider(tls)
    served = serve(f'ledger = "ledger.sqlite"\noidc = {{issuer = "{provider.url}", audience = "dfprivacy"}}\n')
    assert analysts(served, "add", "ana@clinic.example", "--oidc") == 0
    with pytest.raises(LedgerError, match="keys cannot be fetched"):
        served.connect(provider.token())
    assert provider.asked == []

    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    served.held.issuer._tried -= 61

    assert served.connect(provider.token()).budget.spent == 0
    provider.close()


@pytest.mark.parametrize("changed", [
    {"issuer": "https://evil.example"}, {"jwks_uri": "http://192.0.2.1/keys"}, {"jwks_uri": "file:///etc/passwd"},
    {"jwks_uri": None}, {"status": 302}, {"status": 500},
])  # fmt: skip
def test_keys_that_cannot_be_trusted_are_not_there(provider, served, changed):
    """Of another provider, from where there is no TLS, or from where one is sent: the client is told to wait."""
    provider.changed = changed

    with pytest.raises(LedgerError, match="The identity provider's keys cannot be fetched"):
        served.connect(provider.token())
    provider.changed = {}
    with pytest.raises(LedgerError, match="keys cannot be fetched"):  # until the minute is over
        served.connect(provider.token())
    assert "/realm/elsewhere" not in provider.asked
    served.connect()


def test_keys_of_other_kinds_are_left_out(provider, served):
    """Secrets, keys for encryption, short ones, and those of no id verify nothing."""
    short = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    provider.keys["short"] = "RS256", short
    usual = provider.public
    secret = base64.urlsafe_b64encode(b"s" * 32).decode().rstrip("=")
    provider.says = lambda path: (
        Provider.says(provider, path)
        if path.endswith("configuration")
        else {
            "keys": [
                {"kty": "oct", "k": secret, "kid": "oct", "alg": "HS256"},
                {"kty": "oct", "k": secret, "kid": "oct2", "alg": "RS256"},
                {**usual("one"), "use": "enc", "kid": "enc"},
                {**usual("one"), "kid": ""},
                usual("short"),
                {"kty": "strange", "kid": "x"},
                usual("two"),
            ]
        }
    )

    issuer = served.held.issuer
    assert issuer.analyst(provider.token("two")) == "ana@clinic.example"
    assert {*issuer._keys} == {"two"}
    assert issuer.analyst(provider.token(kid="enc")) is None


UNSAID, NO_ADDRESS = "lacks issuer or audience", "is neither an https:// address"


@pytest.mark.parametrize(("said", "why"), [
    ('"x"', UNSAID), ('{issuer = "https://id.example"}', UNSAID),
    ('{issuer = "https://id.example", audience = ""}', UNSAID),
    ('{issuer = "https://id.example", audience = "a", secret = "b"}', UNSAID),
    *((f'{{issuer = "{issuer}", audience = "a"}}', NO_ADDRESS)
      for issuer in ("http://id.example", "id.example", "https://[x")),
])  # fmt: skip
def test_a_file_that_does_not_say_which_provider_it_is(clinic, said, why):
    """It is refused before anything is served."""
    file = clinic / "clinic.toml"
    file.write_text(f"oidc = {said}\n" + file.read_text())

    with pytest.raises(ArgumentError, match=why):
        read_config(file)


def test_a_provider_needs_its_library(clinic, monkeypatch):
    """The error says what to install."""
    file = clinic / "clinic.toml"
    file.write_text('oidc = {issuer = "https://id.example", audience = "a", claim = "sub"}\n' + file.read_text())
    assert read_config(file).issuer.claim == "sub"
    monkeypatch.setitem(sys.modules, "jwt", None)

    with pytest.raises(MissingDependency, match="the package jwt"):
        read_config(file)
