"""Log entries that are written after the last client has been released."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition


class PendingEntries:
    """The pending entries of one process, which does not stop before they are written."""

    def __init__(self) -> None:
        self._changed, self._count = Condition(), 0

    @contextmanager
    def track(self) -> Iterator[None]:
        """Count an entry as pending until the block ends."""
        self._add(1)
        try:
            yield
        finally:
            self._add(-1)

    def stop(self) -> None:
        """Wait until all are written."""
        with self._changed:
            self._changed.wait_for(lambda: self._count == 0)

    def _add(self, number: int) -> None:
        with self._changed:
            self._count += number
            self._changed.notify_all()
