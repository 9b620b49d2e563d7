"""What a process holds: threads, open files and memory, as Linux counts them."""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MIB = 1024 * 1024


class Footprint(NamedTuple):
    threads: int = 0
    files: int = 0
    memory_mib: int = 0

    def minus(self, other: "Footprint") -> "Footprint":
        return Footprint(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))

    def __str__(self) -> str:
        return f"{self.threads} threads, {self.files} files, {self.memory_mib} MiB"


def footprint(pid: int) -> Footprint:
    folder = Path(f"/proc/{pid}")
    pages = int((folder / "statm").read_text().split()[1])
    memory = pages * os.sysconf("SC_PAGE_SIZE") // MIB
    return Footprint(len(os.listdir(folder / "task")), len(os.listdir(folder / "fd")), memory)


def largest(pids: Iterable[int]) -> Footprint:
    """The most of each that any of these processes holds; one that has just ended holds nothing."""
    each = [Footprint()]
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            each.append(footprint(pid))
    return Footprint(*(max(values) for values in zip(*each, strict=True)))


def connections_out(pid: int, listening: int, database: int) -> int:
    """The TCP connections that a process has opened itself, but for those to its database: it keeps them for reuse."""
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    inodes = {row[9] for row in rows if _port(row[1]) != listening and _port(row[2]) not in (0, database)}
    return len(inodes & set(_sockets(pid)))


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def _sockets(pid: int) -> Iterable[str]:
    for file in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):
            if match := re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{file}")):
                yield match[1]
