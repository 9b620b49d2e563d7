"""What a process holds: threads, open files and memory, as Linux counts them."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MIB = 1024 * 1024


class Footprint(NamedTuple):
    threads: int = 0
    files: int = 0
    memory_mib: int = 0

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
