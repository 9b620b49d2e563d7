"""How much is tried: `make test` tries a part of what can be tried by the hundred, `make test-slow` all of it.

`make check` is for daily work (QUICK=1): of a test with many cases it takes a few.

`THOROUGH=1` says that it is all. A test that then tries more has the marker `thorough`: those of hypothesis, and those
that call one of TRY_MORE. `make test-slow` runs them with the slow ones.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import is_hypothesis_test

Value = TypeVar("Value")

THOROUGH = bool(os.environ.get("THOROUGH"))
QUICK = bool(os.environ.get("QUICK"))
PART, FEWEST = 8, 5
QUARTER = 4
QUICK_CASES = 4  # of a test
# Here each case asks a running gateway, or cuts a stream hundreds of times. Of a test with MANY cases or more,
# `make test` runs a third: those of the next test are others, so that each format meets a third of all tests.
MATRICES = ("clients", "end_to_end", "providers/formats/test_contract.py")
MANY, SHARES = 6, 3
TRY_MORE = {"some", "number_of", "try_wrong", "check_looks"}  # names of functions that ask here


def some(values: Sequence[Value], turn: int) -> Sequence[Value]:
    """All values; in `make test` every eighth: each turn has others."""
    return values if THOROUGH else values[turn % PART :: PART]


def first_of(*cases: object, values: int = 1) -> list[object]:
    """All cases of a test; `make test` runs the first ones, so many of them, and `make test-slow` the others."""
    groups = (case if isinstance(case, tuple) else (case,) for case in cases)
    return [
        pytest.param(*group, marks=() if place < values else pytest.mark.slow) for place, group in enumerate(groups)
    ]


def quarter_of(*cases: object) -> list[object]:
    """All cases of a test; `make test` runs every fourth, and `make test-slow` the others."""
    first = cases[::QUARTER]
    return first_of(*first, *(case for place, case in enumerate(cases) if place % QUARTER), values=len(first))


def leave_most_cases(items: Sequence[pytest.Item], folder: Path) -> None:
    """Leave two thirds of the cases of each test of MATRICES, which stand in this folder, to `make test-slow`."""
    places = tuple(folder / place for place in MATRICES)
    tests = defaultdict(list)
    for item in items:
        if any(map(item.path.is_relative_to, places)):
            tests[item.nodeid.partition("[")[0]].append(item)
    matrices = [cases for cases in tests.values() if len(cases) >= MANY]
    for turn, cases in enumerate(matrices):
        for place, case in enumerate(cases, turn):
            if place % SHARES:
                case.add_marker(pytest.mark.slow)


def number_of(thorough: int) -> int:
    """How many to try where so many are all; in `make test` a quarter."""
    return thorough if THOROUGH else min(thorough, max(thorough // QUARTER, FEWEST))


def tries_more(test: Callable[..., object]) -> bool:
    """Whether a test tries more if all is tried."""
    return is_hypothesis_test(test) or not TRY_MORE.isdisjoint(test.__code__.co_names)


def few_cases(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """At most QUICK_CASES of the cases of each test, from its first to its last."""
    cases = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    return [case for group in cases.values() for case in group[:: -(-len(group) // QUICK_CASES)]]
