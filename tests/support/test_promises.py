"""The table of promises: who gets into it, and how it is printed."""

import pytest

from tests.support.promises import ROOT, Outcome, Row, as_markdown, as_text, load, rows, run, write_page

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.embedded, pytest.mark.long]

PLUGIN = """
from tests.support.promises import figure, mark_promises, pytest_addoption, pytest_configure
def pytest_collection_modifyitems(items):
    mark_promises(items)
"""
TESTS = """
import pytest
from tests.support.promises import promise

@promise("fast", target="≤ 5 ms")
def test_speed(figure):
    figure("3 ms")

@promise("safe")
@pytest.mark.parametrize("value", [1, 2, 3])
def test_safety(value):
    assert value

@promise("whole")
@promise("safe")
def test_both():
    assert False

@promise("far away")
@pytest.mark.skip(reason="no server")
def test_far_away():
    pass

@promise("broken")
def test_broken(no_such_fixture):
    pass
"""


@pytest.mark.parametrize(
    "workers", [(), pytest.param(("-n", "2"), marks=pytest.mark.slow)], ids=["alone", "with xdist"]
)
def test_a_run_writes_what_its_tests_say(pytester, monkeypatch, workers):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest(PLUGIN)
    pytester.makepyfile(TESTS)
    options = ("-p", "no:django", "-p", "no:randomly", "-o", "markers=promise: x")
    for _ in range(2):  # the second run adds to what the first one left
        result = pytester.runpytest_subprocess(*options, *workers, "--promises", "table.json")
    assert rows(load(pytester.path / "table.json")) == [
        Row("broken", "no exception", "FAILED in 2 of 2 cases"),
        Row("far away", "no exception", "not run"),
        Row("fast", "≤ 5 ms", "3 ms"),
        Row("safe", "no exception", "FAILED in 2 of 8 cases"),
        Row("whole", "no exception", "FAILED in 2 of 2 cases"),
    ]
    result.stdout.fnmatch_lines(["*promises*", "fast * ≤ 5 ms * 3 ms"])


@pytest.mark.slow
def test_a_run_finds_its_tests_also_when_an_earlier_one_has_left_its_file(tmp_path):
    (file := tmp_path / "promises.json").write_text("[]")
    assert run("attack", ["--collect-only", "-q", "tests/attacks/test_parsers.py"], file) == 0


def test_cases_of_one_promise_share_a_row():
    outcomes = [Outcome("p", "t", "passed", (f"{n} ms",)) for n in (1, 2, 2, 3, 4, 5)]
    assert rows(outcomes) == [Row("p", "t", "1 ms; 2 ms; 3 ms; and 2 more")]
    assert rows([Outcome("p", "t", "passed")]) == [Row("p", "t", "holds")]
    assert rows([Outcome("p", "t", "passed")] * 7) == [Row("p", "t", "holds in 7 cases")]


def test_the_table_is_printed_and_put_into_a_page(tmp_path):
    table = [Row("a|b", "≤ 5", "3")]
    assert as_text(table).splitlines() == ["promise  target  figure", "a|b      ≤ 5     3"]
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- attack: table -->\nold\n<!-- attack: end -->\nafter\n")
    write_page("attack", table, page)
    cells = "| Promise | Target | Figure |\n|---|---|---|\n| a\\|b | ≤ 5 | 3 |"
    assert page.read_text() == f"before\n<!-- attack: table -->\n{cells}\n<!-- attack: end -->\nafter\n"
    assert as_markdown(table) == cells
    with pytest.raises(ValueError, match="no place"):
        write_page("fault", table, page)
