"""Keys in a file of this machine's own, which may get a new one while processes run."""

import base64
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


class KeyFile(Sequence[str]):
    """The keys in a file, one a line: the first encrypts, all decrypt. Read again whenever the file has changed.

    A key that a process has read stays known to it: what was sealed under it until a moment ago opens still.
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
    def held(self) -> Iterator[None]:
        """Inside, no other process changes the file."""
        with self.path.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def put_first(self, key: str) -> None:
        """From now on this one encrypts."""
        self._write([key, *self._stored()])

    def drop_all_but_first(self) -> int:
        """Only the one that encrypts is left; how many went."""
        first, *others = self._stored()
        self._write([first])
        return len(others)

    def _current(self) -> list[str]:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            if self._keys:  # somebody took it away: what was read stays good
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
        """Replace the file in one step: nobody reads half of it, and a machine that dies keeps one or the other."""
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
    """The file, which holds a secret from now on if it did not before."""
    if not path.exists():
        for folder in (path.parent.parent, path.parent):  # the database is beside the secrets
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = path.with_suffix(f".{os.getpid()}")
        made.touch(mode=0o600)
        made.write_text(new_key())
        try:
            os.link(made, path)  # whoever links first has decided; nobody ever reads half a secret
        except FileExistsError:
            pass
        made.unlink()
    return path
