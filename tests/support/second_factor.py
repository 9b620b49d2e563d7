"""Second factors as their owners have them: an authenticator app, and a device with passkeys, both of software."""

import json
import re
import secrets
import time
from dataclasses import dataclass, field
from hashlib import sha256

import pyotp
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from fido2 import cbor
from fido2.cose import ES256
from fido2.utils import websafe_encode

from accounts.models import User
from accounts.second_factor.models import open_secret
from accounts.second_factor.services import begin_app, set_up_app
from gateway_project.api.audit import Actor

SECRET = re.compile(r'<code id="secret"[^>]*>([A-Z2-7 ]+)</code>')
CODES = re.compile(r"\b(?:[a-z2-9]{4}-){3}[a-z2-9]{4}\b")
STEP_SECONDS, CHECK_SECONDS = 30, 2
PRESENT, VERIFIED, ATTESTED = 0x01, 0x04, 0x40  # flags of authenticator data


def code_of(secret: str, step: int = 0) -> str:
    """The code that an app shows so many steps of 30 seconds from now."""
    return pyotp.TOTP(secret.replace(" ", "")).generate_otp(int(time.time()) // STEP_SECONDS + step)


def secret_on(page: str) -> str:
    return SECRET.search(page).group(1)


def codes_on(page: str) -> list[str]:
    return CODES.findall(page)


@dataclass
class App:
    """An app that is set up; the code of now is unused."""

    secret: str
    recovery_codes: list[str]

    def code(self, step: int = 0) -> str:
        return code_of(self.secret, step)


def new_app(user: User) -> App:
    sealed = begin_app(user)
    secret = open_secret(sealed, user.pk)
    if (rest := STEP_SECONDS - time.time() % STEP_SECONDS) < CHECK_SECONDS:
        time.sleep(rest)  # the code of the last step would be too old when it is checked
    return App(secret, set_up_app(user, sealed_secret=sealed, code=code_of(secret, -1), actor=Actor(operator="a test")))


@dataclass
class Device:
    """A device with one passkey for one origin."""

    origin: str
    count: int = 0
    id: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def make(self, options: dict) -> str:
        """What a browser answers to the options of a registration."""
        public = cbor.encode(dict(ES256.from_cryptography_key(self.key.public_key())))
        attested = bytes(16) + len(self.id).to_bytes(2, "big") + self.id + public
        data = self._data(options["rp"]["id"], PRESENT | VERIFIED | ATTESTED) + attested
        attestation = cbor.encode({"fmt": "none", "attStmt": {}, "authData": data})
        return self._answer(
            clientDataJSON=self._client("webauthn.create", options), attestationObject=websafe_encode(attestation)
        )

    def sign(self, options: dict) -> str:
        """What a browser answers to the options of a login."""
        self.count += 1
        client, data = self._client("webauthn.get", options), self._data(options["rpId"], PRESENT)
        text = json.dumps(self._document("webauthn.get", options)).encode()
        signature = self.key.sign(data + sha256(text).digest(), ec.ECDSA(SHA256()))
        return self._answer(
            clientDataJSON=client, authenticatorData=websafe_encode(data), signature=websafe_encode(signature)
        )

    def _data(self, rp_id: str, flags: int) -> bytes:
        return sha256(rp_id.encode()).digest() + bytes([flags]) + self.count.to_bytes(4, "big")

    def _document(self, kind: str, options: dict) -> dict:
        return {"type": kind, "challenge": options["challenge"], "origin": self.origin}

    def _client(self, kind: str, options: dict) -> str:
        return websafe_encode(json.dumps(self._document(kind, options)).encode())

    def _answer(self, **response: str) -> str:
        name = websafe_encode(self.id)
        return json.dumps({"id": name, "rawId": name, "type": "public-key", "response": response})
