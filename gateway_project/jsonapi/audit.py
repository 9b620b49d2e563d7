"""What the log is told of every change, by the API, the console and commands.

The room that keeps the log is named by the setting GATEWAY_AUDIT.
"""

import os
from dataclasses import dataclass
from getpass import getuser
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from gateway_project.access import Caller


@dataclass(frozen=True, slots=True)
class Change:
    """One change; before and after are the row as lists show it, so without secrets."""

    caller: Caller | None
    correlation_id: str
    address: str
    operation: str
    resource: str
    id: int | None
    before: Any = None
    after: Any = None
    attributes: tuple[str, ...] = ()  # the names of what was sent
    message: str = ""  # what to say of it, where it is no plain change of a row
    operator: str = ""  # this machine's user, for a change by a command
    severity: str = "info"


def record(change: Change) -> None:
    """Write it to the log, in the transaction that makes the change."""
    import_string(settings.GATEWAY_AUDIT)(change)


def record_command(operation: str, resource: str, row_id: int | None = None, **told: Any) -> None:
    """Write down what a command has changed: nobody is logged in there, but this machine knows who runs it."""
    known = {"caller": None, "correlation_id": "", "address": "", "operator": operator()}
    record(Change(operation=operation, resource=resource, id=row_id, **known | told))


def operator() -> str:
    """The user of this machine who runs the command."""
    try:
        return getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        return f"User {os.getuid()}"
