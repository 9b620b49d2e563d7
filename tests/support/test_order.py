"""No test is lost when the files are mixed."""

from collections import Counter
from types import SimpleNamespace

import pytest

from tests.support.order import LONG, TESTS, mixed

pytestmark = pytest.mark.embedded


def test_files_are_mixed_and_every_test_stays():
    console = [TESTS / "console" / f"test_{number}.py" for number in range(3)]
    others = [TESTS / "work" / f"test_{number}.py" for number in range(20)]
    # As fixtures of parameters leave them: the tests of a file do not stand together.
    items = [SimpleNamespace(path=path, number=number) for number in range(3) for path in (*others, *console)]
    order = list(mixed(items))
    assert Counter(map(id, order)) == Counter(map(id, items))
    paths = list(dict.fromkeys(item.path for item in order))
    assert paths[:5] == [console[0], *others[:3], console[1]]
    assert paths == [
        path for path, previous in zip(order_of(order), [None, *order_of(order)], strict=False) if path != previous
    ]


def test_every_long_file_exists():
    assert [place for place in LONG if not (TESTS / place).exists()] == []


def order_of(items):
    return [item.path for item in items]
