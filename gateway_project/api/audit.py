"""Writes each change made by the API, the console or a command to the log.

The setting GATEWAY_AUDIT names the function that stores it.
"""

import os
from dataclasses import dataclass
from getpass import getuser
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from gateway_project.api.access import Caller


@dataclass(frozen=True, slots=True)
class Change:
    """One change; before and after are the row as lists show it, which has no secrets."""

    caller: Caller | None
    correlation_id: str
    address: str
    operation: str
    resource: str
    id: int | None
    before: Any = None
    after: Any = None
    attributes: tuple[str, ...] = ()  # the names of those that were sent
    message: str = ""  # the log's text, if it is not simply the change of a row
    operator: str = ""  # the user of this machine, for a change by a command
    severity: str = "info"


def record(change: Change) -> None:
    """Write it to the log, in the transaction that makes the change."""
    import_string(settings.GATEWAY_AUDIT)(change)


def record_command(operation: str, resource: str, row_id: int | None = None, **fields: Any) -> None:
    """Write what a command has changed, with the user of this machine in the place of a caller."""
    defaults = {"caller": None, "correlation_id": "", "address": "", "operator": operator()}
    record(Change(operation=operation, resource=resource, id=row_id, **defaults | fields))


def operator() -> str:
    """The user of this machine who runs the command."""
    try:
        return getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        return f"User {os.getuid()}"
