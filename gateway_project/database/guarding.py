"""Changes of who may use what. Access tests watch them, in the transaction of the change."""

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import NamedTuple, Unpack

from django.db import transaction

from gateway_project.errors import Place, ValidationError
from gateway_project.hooks import Hook

HEADER = "X-Svc-Override"
MAX_REASON_LENGTH = 500


class Access(StrEnum):
    """What decides who may use which model."""

    RULES = "rules"
    CALLERS = "callers"  # users, their roles and their groups
    KEYS = "keys"
    PROVIDERS = "providers"  # with their models and credentials
    ALIASES = "aliases"


class Override(NamedTuple):
    """Why a change is made although it breaks access tests, as somebody wrote it, and where that stands."""

    text: str
    place: Place


# Around a change of these parts of the access: raises AccessTestFailed if it breaks access tests without an override.
# Parts may be added until the change has ended.
watch_access: Hook[[Collection[Access]], AbstractContextManager[None]] = Hook("watch_access")
_changing: ContextVar[set[Access] | None] = ContextVar("changing", default=None)
_override: ContextVar[Override | None] = ContextVar("override", default=None)


@contextmanager
def guarded_change(*parts: Access) -> Iterator[None]:
    """Around a change, or as a decorator of one: a transaction that access tests watch.

    A change inside of another one is a part of it: the tests run once, after the outer one. Raises AccessTestFailed,
    and ValidationError for an override that is no reason.
    """
    outer = _changing.get()
    if outer is not None:
        outer.update(parts)
        with transaction.atomic():
            yield
        return
    changed = set(parts)
    token = _changing.set(changed)
    try:
        with transaction.atomic(), watch_access(changed):
            yield
    finally:
        _changing.reset(token)


@contextmanager
def unguarded_trial() -> Iterator[None]:
    """Around changes that are rolled back: no access test watches them."""
    token = _changing.set(set())
    try:
        yield
    finally:
        _changing.reset(token)


@contextmanager
def override_access_tests(text: str, **place: Unpack[Place]) -> Iterator[None]:
    """Within it, changes that break access tests are made for this reason; an empty text is none."""
    token = _override.set(Override(text, place) if text else None)
    try:
        yield
    finally:
        _override.reset(token)


def override_reason() -> str:
    """The reason to make a change that breaks access tests; empty if there is none. Raises ValidationError."""
    override = _override.get()
    if override is None:
        return ""
    reason = override.text.strip()
    if not 0 < len(reason) <= MAX_REASON_LENGTH or not reason.isprintable():
        raise ValidationError(f"must be 1 to {MAX_REASON_LENGTH} printable characters.", **override.place)
    return reason
