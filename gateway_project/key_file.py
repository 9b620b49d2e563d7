"""Secret keys in a local file, which can be rotated while processes run."""

import base64
import fcntl
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import overload

from gateway_project.database.file_owner import give_to_owner_of

log = logging.getLogger("gateway.secrets")


class KeyFile(Sequence[str]):
    """The keys in a file, one a line: the first encrypts, all decrypt. The file is read again when it has changed.

    A process keeps keys that were removed: what other processes encrypted with them a moment ago still decrypts. It
    keeps all of them while the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._keys: list[str] = []
        self._version: tuple[int, int] | None = None  # time and inode of the file that was read
        self._is_unreadable = False

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        return self._current()[index]

    def __len__(self) -> int:
        return len(self._current())

    def __repr__(self) -> str:
        return f"<the keys in {self.path}>"

    @contextmanager
    def lock_file(self) -> Iterator[None]:
        """Inside, no other process can change the file."""
        with (path := self.path.with_suffix(".lock")).open("a") as lock:
            give_to_owner_of(self.path.parent, path)
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def prepend(self, key: str) -> None:
        """Make this the key that encrypts."""
        self._write([key, *self._read_keys()])

    def remove_old_keys(self) -> int:
        """Keep only the key that encrypts; returns how many were removed."""
        first, *others = self._read_keys()
        self._write([first])
        return len(others)

    def _current(self) -> list[str]:
        """The keys now. Raises OSError and UnicodeDecodeError if there were none so far and the file is unreadable."""
        try:
            self._read_if_changed()
        except (OSError, UnicodeDecodeError) as error:
            if not self._keys:
                raise
            if not self._is_unreadable:
                log.error("The encryption keys cannot be read again, and stay as they were read before: %s", error)
            self._is_unreadable = True
        else:
            self._is_unreadable = False
        return self._keys

    def _read_if_changed(self) -> None:
        status = self.path.stat()
        if (version := (status.st_mtime_ns, status.st_ino)) != self._version:
            keys = self._read_keys()
            self._keys = [*keys, *(key for key in self._keys if key not in keys)]
            self._version = version

    def _read_keys(self) -> list[str]:
        return [line.strip() for line in self.path.read_text().splitlines() if line.strip()]

    def _write(self, keys: Sequence[str]) -> None:
        """Replace the file atomically: readers, and a machine that crashes, see either the old or the new one."""
        draft = self.path.with_suffix(f".{os.getpid()}")
        draft.touch(mode=0o600)
        with draft.open("w") as file:
            file.write("\n".join(keys))
            file.flush()
            os.fsync(file.fileno())
        give_to_owner_of(self.path, draft)
        draft.replace(self.path)


def new_key() -> str:
    """48 random bytes as text."""
    return base64.urlsafe_b64encode(os.urandom(48)).decode()


def local_secret(path: Path) -> Path:
    """The file with a secret, created if it does not exist."""
    if not path.exists():
        for folder in (path.parent.parent, path.parent):  # the database is beside the secrets
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.touch(mode=0o600)
        draft.write_text(new_key())
        try:
            os.link(draft, path)  # the first process to link wins, and none reads half a secret
        except FileExistsError:
            pass
        draft.unlink()
    return path
