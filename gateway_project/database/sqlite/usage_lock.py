"""Says whether a gateway runs on a database file: each of its processes holds a lock on a file beside it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway_project.database.file_owner import give_to_owner_of

_handles: list[int] = []  # held until this process ends


class InUse(Exception):
    """Another process holds the lock in a way that excludes this one."""


def claim_use(database: Path) -> None:
    """Hold the lock, together with other gateways, until this process ends. Raises InUse during a restore."""
    _handles.append(_lock_file(database, fcntl.LOCK_SH))


@contextmanager
def no_gateway(database: Path) -> Iterator[None]:
    """Inside, no gateway runs on the file, and none can start. Raises InUse if one runs."""
    handle = _lock_file(database, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(handle)


def _lock_file(database: Path, kind: int) -> int:
    path = Path(f"{database}.lock")
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    give_to_owner_of(database if database.exists() else database.parent, path)
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise InUse from None
    return handle
