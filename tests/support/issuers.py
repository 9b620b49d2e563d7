"""An issuer of tokens outside of the gateway: its keys, the tokens that it signs, and its server."""

import base64
import json
import threading
import time
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from accounts.trusted_issuers.jwks import public_keys, read_key_set
from accounts.trusted_issuers.verification import IssuerSnapshot

AUDIENCE = "llm-gateway"
KUBERNETES = "https://kubernetes.default.svc"
SUBJECT = "system:serviceaccount:search:indexer"


@cache
def rsa_key(name: str = "", bits: int = 2048) -> rsa.RSAPrivateKey:
    """A key for each name; making one takes a tenth of a second."""
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


class Issuer:
    """Signs tokens in the shape of those of a Kubernetes cluster."""

    def __init__(self, url: str = KUBERNETES) -> None:
        self.url = url
        self.private_keys: dict[str, Any] = {"first": ec.generate_private_key(ec.SECP256R1())}

    def rotate(self, key_id: str) -> None:
        """Sign with another key from now on, and publish no other."""
        self.private_keys = {key_id: ec.generate_private_key(ec.SECP256R1())}

    @property
    def jwks(self) -> dict[str, Any]:
        return {"keys": [self._jwk(key_id) for key_id in self.private_keys]}

    def _jwk(self, key_id: str) -> dict[str, Any]:
        key = self.private_keys[key_id]
        family, algorithm = (RSAAlgorithm, "RS256") if isinstance(key, rsa.RSAPrivateKey) else (ECAlgorithm, "ES256")
        document = json.loads(family.to_jwk(key.public_key()))
        return document | {"kid": key_id, "use": "sig", "alg": algorithm}

    def claims(self, **changes: Any) -> dict[str, Any]:
        """The claims of a token; those that are None are left out."""
        now = int(time.time())
        kubernetes = {"namespace": "search", "serviceaccount": {"name": "indexer", "uid": "1"}}
        claims = {"iss": self.url, "aud": [AUDIENCE], "sub": SUBJECT, "iat": now, "nbf": now, "exp": now + 3600}
        claims = claims | {"kubernetes.io": kubernetes} | changes
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, *, key_id: str = "", headers: dict[str, Any] | None = None, key: Any = None, **changes: Any) -> str:
        """A token with these claims, signed with its latest key unless told."""
        name = key_id or list(self.private_keys)[-1]
        signer = key or self.private_keys[name]
        algorithm = "RS256" if isinstance(signer, rsa.RSAPrivateKey) else "ES256"
        return jwt.encode(self.claims(**changes), signer, algorithm, headers={"kid": name} | (headers or {}))

    def snapshot(self, algorithms: tuple[str, ...] = ("RS256", "ES256"), **options: Any) -> IssuerSnapshot:
        """How requests see it, if it was stored with these options."""
        values = {"id": 1, "name": "cluster", "issuer": self.url, "audience": AUDIENCE, "leeway_seconds": 30}
        values |= {"max_age_seconds": 86_400, "user_claim": "sub", "user_prefix": "", "subjects": {}}
        keys = public_keys(read_key_set(self.jwks).keys, algorithms)
        return IssuerSnapshot(**{**values, "keys": keys, **options})


def segment(value: object) -> str:
    """A part of a token, as JSON."""
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class IssuerServer(Issuer):
    """The same with a real HTTP server, which publishes its configuration and keys, or what a test wants."""

    def __init__(self) -> None:
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.http.daemon_threads = True
        super().__init__(f"http://127.0.0.1:{self.http.server_port}")
        self.paths: list[str] = []
        self.status, self.headers = 200, dict[str, str]()
        self.body: bytes | None = None  # in the place of the keys
        self.pause_seconds = 0.0  # after each piece
        self.piece_bytes = 16 * 1024
        self.is_over = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.is_over.set()
        self.http.shutdown()
        self.http.server_close()

    @property
    def jwks_url(self) -> str:
        return f"{self.url}/keys"

    @property
    def fetches(self) -> int:
        """How often somebody has asked for the keys."""
        return self.paths.count("/keys")

    def answer(self, path: str) -> bytes:
        if path == "/.well-known/openid-configuration":
            return json.dumps({"issuer": self.url, "jwks_uri": self.jwks_url}).encode()
        return json.dumps(self.jwks).encode() if self.body is None else self.body

    def _handler(outer) -> type[BaseHTTPRequestHandler]:  # noqa: N805  the handler has a self, too
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.paths.append(self.path)
                body = outer.answer(self.path)
                self.send_response(outer.status)
                for name, value in outer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                with suppress(OSError):  # the gateway has left
                    self._write(body)

            def _write(self, body: bytes) -> None:
                for begin in range(0, len(body), outer.piece_bytes):
                    self.wfile.write(body[begin : begin + outer.piece_bytes])
                    if outer.pause_seconds and outer.is_over.wait(outer.pause_seconds):
                        return

            def log_message(self, *args: object) -> None:
                pass

        return Handler
