"""Where each process shows what it has measured, and sees what the others have."""

from collections.abc import Sequence
from typing import Protocol

from telemetry.metrics.slots import Slots


class SignalBoard(Protocol):
    """A board of several processes. No method raises an error if the store is down."""

    def swap(self, payload: bytes) -> Sequence[bytes]:
        """Show this, in place of what this process showed before; returns what others show."""


class NoBoard:
    """The board of a process without others."""

    def swap(self, payload: bytes) -> Sequence[bytes]:
        return ()


class SlotBoard:
    """The board of the processes of one server, in the memory that they share."""

    def __init__(self, slots: Slots | None, own_slot: int | None) -> None:
        self._slots, self._own_slot = slots, own_slot

    def swap(self, payload: bytes) -> Sequence[bytes]:
        if self._slots is None or self._own_slot is None:
            return ()
        self._slots.write(self._own_slot, payload)
        others = (self._slots.read(slot) for slot in range(self._slots.number) if slot != self._own_slot)
        return [one for one in others if one is not None]
