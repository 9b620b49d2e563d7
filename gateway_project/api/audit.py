"""Writes each change and export, made by the API, the console or a command, to the log."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from getpass import getuser
from typing import TypedDict, Unpack

from django.http import QueryDict

from gateway_project.api.access import Caller
from gateway_project.hooks import Hook


@dataclass(frozen=True, slots=True)
class Actor:
    """Who makes a change, and from where: a caller of the API or the console, or an operator with a command."""

    caller: Caller | None = None
    correlation_id: str = ""
    address: str = ""
    operator: str = ""  # the user of this machine, for a change by a command

    @property
    def user_id(self) -> int | None:
        return self.caller.user.pk if self.caller is not None else None

    @property
    def name(self) -> str:
        """The name of the user, or of the operator; empty for nobody."""
        return self.caller.user.get_username() if self.caller is not None else self.operator


_actor: ContextVar[Callable[[], Actor] | None] = ContextVar("actor", default=None)


@contextmanager
def acting_as(actor: Callable[[], Actor]) -> Iterator[None]:
    """Within this block, changes are made by this actor; the function is called when there is a change."""
    token = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(token)


def current_actor() -> Actor:
    """Who makes the changes of this request; outside of requests the user of this machine."""
    actor = _actor.get()
    return Actor(operator=operator()) if actor is None else actor()


@dataclass(frozen=True, slots=True)
class Change:
    """One change; before and after are the row as lists show it, which has no secrets."""

    caller: Caller | None
    correlation_id: str
    address: str
    operation: str
    resource: str
    id: int | None
    before: object = None
    after: object = None
    attributes: tuple[str, ...] = ()  # the names of the attributes that were sent
    message: str = ""  # the text of the log entry, unless it is simply the change of a row
    operator: str = ""
    severity: str = "info"
    is_refusal: bool = False  # a refused login, which anybody can cause: its log entry is kept as long as such


class ChangeDetails(TypedDict, total=False):
    """The optional fields of a Change."""

    before: object
    after: object
    attributes: Iterable[str]
    message: str
    severity: str
    is_refusal: bool


# Stores a change as a log entry, in the transaction that makes the change.
store_change: Hook[[Change], None] = Hook("store_change")


def record(
    actor: Actor, operation: str, resource: str, row_id: int | None = None, **details: Unpack[ChangeDetails]
) -> None:
    """Write one change to the log, in the transaction that makes the change."""
    store_change(
        Change(
            caller=actor.caller,
            correlation_id=actor.correlation_id,
            address=actor.address,
            operator=actor.operator,
            operation=operation,
            resource=resource,
            id=row_id,
            before=details.get("before"),
            after=details.get("after"),
            attributes=tuple(sorted(details.get("attributes", ()))),
            message=details.get("message", ""),
            severity=details.get("severity", "info"),
            is_refusal=details.get("is_refusal", False),
        )
    )


def record_command(operation: str, resource: str, row_id: int | None = None, **details: Unpack[ChangeDetails]) -> None:
    """Write a change made by a command to the log, with the user of this machine in the place of a caller."""
    record(Actor(operator=operator()), operation, resource, row_id, **details)


def record_export(resource: str, filters: Mapping[str, object]) -> None:
    """Write to the log who takes rows of a resource as a file, and which: `filters` are without secrets."""
    record(current_actor(), "export", resource, after=dict(filters))


def start_export(resource: str, filters: Mapping[str, object], *, file_name: str) -> dict[str, str]:
    """Record an export, and return the headers of its file. Nothing else makes files: so none goes unrecorded."""
    record_export(resource, filters)
    return {"Content-Disposition": f'attachment; filename="{file_name}"'}


def filters_of(query: QueryDict) -> dict[str, object]:
    """The parameters of a query; one that is there several times has a list of values."""
    return {name: values if len(values) > 1 else values[0] for name, values in query.lists()}


def operator() -> str:
    """The user of this machine who runs the command."""
    try:
        return getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        return f"User {os.getuid()}"
