"""The order in which the processes of a run take the files of tests, and which files one process takes together."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, islice
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling

TESTS = Path(__file__).parent.parent
# These take long: they must not come last, nor all at the same time, since they compute while most tests wait.
LONG = (
    *("console", "fault", "clients/test_openai.py", "providers/formats/test_contract.py", "attacks/test_xss.py"),
    *("gateway_project/console/test_query_counts.py", "support/test_promises.py", "support/test_suite.py"),
    *("test_api_doc.py", "test_bench.py", "test_clients_doc.py", "test_fuzzing.py", "test_newcomer.py"),
    *("test_operations.py", "test_structure.py", "attacks/test_matrix.py", "attacks/test_canaries.py"),
)
SHORT_FILES_AFTER_A_LONG_ONE = 3
CONSOLE = "tests/console/"
CONSOLE_SHARES = 3


class SharedBrowsers(LoadFileScheduling):
    """`--dist loadfile`, but for the files of the console: a process takes a third of them, one after the other.

    They share a browser and a gateway, which would start anew after each file of another folder.
    """

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return file if not file.startswith(CONSOLE) else share_of(file)


@cache
def share_of(file: str) -> str:
    """The name of the share that a file of the console belongs to."""
    names = sorted(path.name for path in (TESTS / "console").glob("test_*.py"))
    return f"{CONSOLE}{names.index(Path(file).name) % CONSOLE_SHARES}"


def mixed(items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """All tests file by file: a long file, some short ones, the next long one."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:  # those of a file need not stand together
        files.setdefault(item.path, []).append(item)
    long = [path for path in files if is_long(path)]
    short = iter([path for path in files if not is_long(path)])
    order = chain.from_iterable((path, *islice(short, SHORT_FILES_AFTER_A_LONG_ONE)) for path in long)
    return chain.from_iterable(files[path] for path in chain(order, short))


@cache
def is_long(path: Path) -> bool:
    """Whether a test's file is one of LONG, or stands in one of these folders."""
    return any(path.is_relative_to(TESTS / place) for place in LONG)
