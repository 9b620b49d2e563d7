"""The console's sessions: Django's own, looked up only by strings that can be session keys."""

from django.contrib.sessions.backends.base import VALID_KEY_CHARS
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore


class SessionStore(DatabaseStore):
    """A cookie with other characters counts as none: a quoted cookie can contain NUL, which PostgreSQL refuses."""

    def __init__(self, session_key: str | None = None) -> None:
        is_key = session_key is not None and set(session_key) <= set(VALID_KEY_CHARS)
        super().__init__(session_key if is_key else None)
