"""The console's sessions: Django's own, looked up by what can be a key of one and by nothing else."""

from django.contrib.sessions.backends.base import VALID_KEY_CHARS
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore


class SessionStore(DatabaseStore):
    """A session; a cookie that can hold no key is none: in a quoted one NUL can stand, which PostgreSQL refuses."""

    def __init__(self, session_key: str | None = None) -> None:
        is_key = session_key is not None and set(session_key) <= set(VALID_KEY_CHARS)
        super().__init__(session_key if is_key else None)
