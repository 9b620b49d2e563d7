"""An identity provider that does whatever a test wants: a real HTTP server with keys, codes and forged tokens.

    with HostileIssuer() as issuer:
        code = issuer.code(login, claims={"preferred_username": "ann"})      # a good one
        issuer.token = lambda good: forge(...)                               # in the place of the next ID tokens

`login` holds the parameters that the gateway sent the browser with. The token endpoint checks what a good provider
checks: that a code is used once, by its client, with its redirect URI and its PKCE verifier.
"""

import base64
import hashlib
import hmac
import itertools
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT_ID, CLIENT_SECRET = "gateway", "a secret of the client"
DISCOVERY, KEYS, TOKEN, USER_INFO = "/.well-known/openid-configuration", "/keys", "/token", "/userinfo"


@cache
def key(name: str = "first") -> RSAKey:
    """A key of this name; making one takes a moment."""
    return RSAKey.generate_key(2048, {"kid": name, "use": "sig"})


@dataclass
class Answer:
    """What a path is answered with: a status, a body, headers, and perhaps so slowly that nobody waits for it."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    hold: threading.Event | None = None  # until it is set, a byte at a time


class HostileIssuer:
    """One issuer on a port of its own."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, dict[str, str], Mapping[str, str]]] = []  # method, path, form, headers
        self.answers: dict[str, Answer] = {}  # by path, in the place of the good one
        self.metadata: dict[str, Any] = {}  # changes of the discovery document
        self.signing_key = key()
        self.published = [key()]
        self.user_info: dict[str, Any] = {}
        self.checks_verifier = True  # False: a provider that ignores PKCE
        self.header: dict[str, Any] = {}  # changes of the ID token's header
        self.token: Callable[[dict[str, Any]], str] = self.sign
        self._subject: object = None  # of the last ID token
        self._numbers = itertools.count(1)
        self._codes: dict[str, dict[str, Any]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        for answer in self.answers.values():
            if answer.hold is not None:
                answer.hold.set()
        self._server.shutdown()
        self._server.server_close()

    def requests_to(self, path: str) -> int:
        """How often a path was asked for."""
        return sum(1 for request in self.seen if request[1] == path)

    # -- Tokens ---------------------------------------------------------------------------------------

    def code(self, login: Mapping[str, str], claims: Mapping[str, Any] | None = None) -> str:
        """A code for the login that these parameters began, and for a user with these claims."""
        code = f"code-{next(self._numbers)}"
        self._codes[code] = {"login": dict(login), "claims": self.claims(**{"nonce": login["nonce"], **(claims or {})})}
        return code

    def claims(self, nonce: str = "", **changes: Any) -> dict[str, Any]:
        """Good claims of an ID token, with changes; None takes one away."""
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": CLIENT_ID,
            "sub": "subject-1",
            "iat": now,
            "exp": now + 300,
            "nonce": nonce,
            "preferred_username": "ann",
            **changes,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def sign(self, claims: dict[str, Any], **header: Any) -> str:
        """A token that the issuer's key signs."""
        header = {"alg": "RS256", "kid": self.signing_key.kid, **self.header, **header}
        return jwt.encode(header, claims, self.signing_key, algorithms=[header["alg"]])

    def logout_token(self, **changes: Any) -> str:
        """A good logout token, with changes."""
        claims = self.claims(**{
            "nonce": None,
            "preferred_username": None,
            "jti": f"logout-{time.monotonic_ns()}",
            "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
            **changes,
        })  # fmt: skip
        return self.sign(claims, typ="logout+jwt")

    # -- HTTP -----------------------------------------------------------------------------------------

    def answer(self, path: str, form: dict[str, str], headers: Mapping[str, str]) -> Answer:
        if path in self.answers:
            return self.answers[path]
        if path == DISCOVERY:
            return Answer(self._discovery())
        if path == KEYS:
            return Answer({"keys": [one.as_dict(private=False) for one in self.published]})
        if path == TOKEN:
            return self._token_answer(form, headers)
        return Answer({"sub": self._subject, **self.user_info}) if path == USER_INFO else Answer({}, status=404)

    def _discovery(self) -> dict[str, Any]:
        document = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}{TOKEN}",
            "jwks_uri": f"{self.url}{KEYS}",
            "userinfo_endpoint": f"{self.url}{USER_INFO}",
            "end_session_endpoint": f"{self.url}/logout",
            **self.metadata,
        }
        return {name: value for name, value in document.items() if value is not None}

    def _token_answer(self, form: dict[str, str], headers: Mapping[str, str]) -> Answer:
        entry = self._codes.pop(form.get("code", ""), None)
        secret = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if entry is None or headers.get("authorization") != f"Basic {secret}":
            return Answer({"error": "invalid_grant"}, status=400)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=")
        login = entry["login"]
        is_verified = (login["code_challenge"], login["code_challenge_method"]) == (challenge.decode(), "S256")
        if self.checks_verifier and not is_verified:
            return Answer({"error": "invalid_grant"}, status=400)
        assert login["redirect_uri"] == form["redirect_uri"]
        self._subject = entry["claims"].get("sub")
        return Answer({"access_token": "access", "token_type": "Bearer", "id_token": self.token(entry["claims"])})


def _handler(issuer: HostileIssuer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._respond({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._respond({name: values[-1] for name, values in parse_qs(body).items()})

        def _respond(self, form: dict[str, str]) -> None:
            path = urlsplit(self.path).path
            headers = {name.lower(): value for name, value in self.headers.items()}
            issuer.seen.append((self.command, path, form, headers))
            answer = issuer.answer(path, form, headers)
            body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            self.close_connection = True
            try:
                self._send(answer, body)
            except OSError:  # the gateway has had enough
                pass

        def _send(self, answer: Answer, body: bytes) -> None:
            self.send_response(answer.status)
            for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body) if answer.hold is None else 100_000))
            self.end_headers()
            while answer.hold is not None and not answer.hold.wait(0.2):
                self.wfile.write(b" ")
            self.wfile.write(body)

        def log_message(self, *details: object) -> None:
            """Nothing."""

    return Handler


def unsigned(claims: Mapping[str, Any], algorithm: str = "none") -> str:
    """A token without a signature."""
    parts = ({"alg": algorithm, "typ": "JWT"}, claims)
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + "."


def signed_with_public_key(claims: dict[str, Any], public: RSAKey) -> str:
    """A token of HS256 whose shared secret is the text of the public key: key confusion."""
    text = unsigned(claims, "HS256").rstrip(".")
    signature = hmac.digest(public.as_pem(private=False), text.encode(), hashlib.sha256)
    return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"
