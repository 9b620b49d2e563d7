"""Texts that only this gateway can read again: the cookie of a login in progress, and ID tokens for a logout."""

import base64

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings


def seal_text(text: str) -> str:
    """The text, encrypted and authenticated."""
    return _box().encrypt(text.encode()).decode()


def unseal_text(ciphertext: str, *, max_age: int | None = None) -> str | None:
    """The text that seal_text() was given, at most so many seconds ago; None for anything else."""
    try:
        return _box().decrypt(ciphertext.encode(), ttl=max_age).decode()
    except (InvalidToken, ValueError):
        return None


def _box() -> MultiFernet:
    return MultiFernet([Fernet(_derive_key(key)) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


def _derive_key(secret: str) -> bytes:
    key = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"gateway single sign-on").derive(secret.encode())
    return base64.urlsafe_b64encode(key)
