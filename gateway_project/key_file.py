"""Secret keys in a local file, which can be rotated while processes run."""

import base64
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


class KeyFile(Sequence[str]):
    """The keys in a file, one a line: the first encrypts, all decrypt. The file is read again when it has changed.

    A process keeps keys that were removed: what other processes encrypted with them a moment ago still decrypts.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._keys: list[str] = []
        self._seen: tuple[int, int] | None = None

    def __getitem__(self, place):
        return self._current()[place]

    def __len__(self) -> int:
        return len(self._current())

    def __repr__(self) -> str:
        return f"<the keys in {self.path}>"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Inside, no other process can change the file."""
        with self.path.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def prepend(self, key: str) -> None:
        """Make this the key that encrypts."""
        self._write([key, *self._stored()])

    def remove_old_keys(self) -> int:
        """Keep only the key that encrypts; returns how many were removed."""
        first, *others = self._stored()
        self._write([first])
        return len(others)

    def _current(self) -> list[str]:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            if self._keys:  # the file was deleted: keep the keys that were read
                return self._keys
            raise
        if (changed := (status.st_mtime_ns, status.st_ino)) != self._seen:
            stored = self._stored()
            self._keys = [*stored, *(key for key in self._keys if key not in stored)]
            self._seen = changed
        return self._keys

    def _stored(self) -> list[str]:
        return [line.strip() for line in self.path.read_text().splitlines() if line.strip()]

    def _write(self, keys: Sequence[str]) -> None:
        """Replace the file atomically: readers, and a machine that crashes, see either the old or the new one."""
        made = self.path.with_suffix(f".{os.getpid()}")
        made.touch(mode=0o600)
        with made.open("w") as file:
            file.write("\n".join(keys))
            file.flush()
            os.fsync(file.fileno())
        made.replace(self.path)


def new_key() -> str:
    """48 random bytes as text."""
    return base64.urlsafe_b64encode(os.urandom(48)).decode()


def local_secret(path: Path) -> Path:
    """The file with a secret, created if it does not exist."""
    if not path.exists():
        for folder in (path.parent.parent, path.parent):  # the database is beside the secrets
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = path.with_suffix(f".{os.getpid()}")
        made.touch(mode=0o600)
        made.write_text(new_key())
        try:
            os.link(made, path)  # the first process to link wins, and none reads half a secret
        except FileExistsError:
            pass
        made.unlink()
    return path
