"""Where each process shows which changes are in force in it, and sees what the others show."""

from collections.abc import Mapping
from typing import Protocol


class AcknowledgementBoard(Protocol):
    """A board of several processes. No method raises an error if the store is down."""

    def publish(self, payload: bytes) -> bool:
        """Show this, in place of what this process showed before; False if that failed."""

    def read_others(self) -> Mapping[str, bytes | None] | None:
        """What each other live process shows, by its name; None if that is not known now."""


class SingleProcessBoard:
    """The board of the only process."""

    def publish(self, payload: bytes) -> bool:
        return True

    def read_others(self) -> Mapping[str, bytes | None]:
        return {}
