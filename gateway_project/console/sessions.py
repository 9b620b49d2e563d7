"""The console's sessions: Django's own, stored under a digest of the cookie, so that a copy of the table opens none."""

import hashlib

from django.contrib.sessions.backends.base import VALID_KEY_CHARS
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.contrib.sessions.base_session import AbstractBaseSession
from django.utils import timezone

STORED_LENGTH = 40  # hexadecimal digits: the length of Django's column


class SessionStore(DatabaseStore):
    """A cookie with other characters counts as none: a quoted cookie can contain NUL, which PostgreSQL refuses."""

    def __init__(self, session_key: str | None = None) -> None:
        is_key = session_key is not None and set(session_key) <= set(VALID_KEY_CHARS)
        super().__init__(session_key if is_key else None)

    def exists(self, session_key: str) -> bool:
        return super().exists(stored_key(session_key))

    def delete(self, session_key: str | None = None) -> None:
        if key := session_key or self.session_key:
            super().delete(stored_key(key))

    def create_model_instance(self, data: dict[str, object]) -> AbstractBaseSession:
        row = super().create_model_instance(data)
        row.session_key = stored_key(row.session_key)
        return row

    def _get_session_from_db(self) -> AbstractBaseSession | None:
        rows = self.model.objects.filter(expire_date__gt=timezone.now())
        row = rows.filter(session_key=stored_key(self.session_key or "")).first()
        if row is None:
            self._session_key = None
        return row


def stored_key(session_key: str) -> str:
    """What the table holds of a cookie. It has 165 random bits, so that a digest without a secret is enough."""
    return hashlib.sha256(session_key.encode()).hexdigest()[:STORED_LENGTH]
