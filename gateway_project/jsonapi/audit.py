"""What the log is told of every change; the room that keeps the log is named by the setting GATEWAY_AUDIT."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from gateway_project.access import Caller


@dataclass(frozen=True, slots=True)
class Change:
    """One change through the API; before and after are the row as lists show it, so without secrets."""

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
    severity: str = "info"


def record(change: Change) -> None:
    """Write it to the log, in the transaction that makes the change."""
    import_string(settings.GATEWAY_AUDIT)(change)
