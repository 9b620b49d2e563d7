"""The process's free memory."""

import contextlib
import ctypes


def release_free_memory() -> None:
    """Return free memory to the system: glibc keeps what a burst of requests has used and freed."""
    with contextlib.suppress(OSError, AttributeError):  # only glibc has malloc_trim()
        ctypes.CDLL(None).malloc_trim(0)
