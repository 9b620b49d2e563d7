"""Tests that prove a promise, and the table of promise, target and figure that they print.

    @promise("Health checks answer under a flood of logins", target="p99 ≤ 250 ms")
    def test_health_under_a_flood_of_logins(world, figure):
        ...
        figure(f"p99 {p99:.0f} ms")

A test may carry several promises, and several tests the same one: they share a row. Without `figure` the row counts
the cases that hold. A figure with a number of each unit is the largest of all cases: figure({"s at most": 0.4}).
Tests in tests/attacks and tests/fault belong to `make attacks` and `make faults`; a test that
stands elsewhere joins with `suite="attack"` or `suite="fault"`.

python -m tests.support.promises attack [--update] [pytest's options]

runs the tests of one of these markers, on SQLite and then, where they want it, with PostgreSQL and Redis; prints one
table, and with --update also writes it into docs/reliability.md.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.pace import EXACT

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reliability.md"
FOLDERS = {"attack": ROOT / "tests/attacks", "fault": ROOT / "tests/fault"}
PARALLEL = ("-n", "2", "--dist", "loadfile")
# These run on PostgreSQL in `make test`, too; all others need no server.
WITH_SERVERS = "(servers or exhaustive or either_store)"
FIGURES_SHOWN = 3


class Outcome(NamedTuple):
    """What one test says of one promise."""

    promise: str
    target: str
    result: str  # passed, failed or skipped
    figures: tuple[str, ...] = ()
    amounts: tuple[tuple[str, float], ...] = ()  # numbers by unit, of which the row shows the largest


class Row(NamedTuple):
    promise: str
    target: str
    figure: str


def promise(text: str, *, target: str = "no exception", suite: str = "") -> pytest.MarkDecorator:
    """Marks a test as the proof of a promise; the target says when it is kept.

    `suite` (attack or fault) makes a test that stands elsewhere part of `make attacks` or `make faults`.
    """
    return pytest.mark.promise(text, target, suite=suite)


# Of each test with arbitrary input, wherever the tests of the parser stand.
parses = promise("A parser of arbitrary input ends well", target="a value or its own refusal", suite="attack")


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[object], None]:
    """Records what a test has measured: figure("p99 31 ms"), or figure({"s at most": 0.4})."""

    def record(value: object) -> None:
        name, recorded = ("amounts", value) if isinstance(value, dict) else ("figure", str(value))
        request.node.user_properties.append((name, recorded))

    return record


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--promises", metavar="FILE", help="add what tests say of promises to this file, and print it")


def mark_promises(items: Iterable[pytest.Item]) -> None:
    """Gives tests the marker of their folder, and their promises to the report, which also workers of xdist send."""
    for item in items:
        if marker := suite_of(item.path):
            item.add_marker(marker)
        for mark in item.iter_markers("promise"):
            item.user_properties.append(("promise", list(mark.args)))
            if suite := mark.kwargs.get("suite"):
                item.add_marker(suite)


@cache
@cache
def suite_of(path: Path) -> str:
    """The marker of the folder that a test's file stands in; "" of any other folder."""
    return next((marker for marker, folder in FOLDERS.items() if path.is_relative_to(folder)), "")


class Collector:
    """Collects the outcomes of a run and adds them to a file, in which earlier runs may have left theirs."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.outcomes: list[Outcome] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.outcomes += outcomes_of(report)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        outcomes = [*load(self.file), *self.outcomes]
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps(outcomes))
        terminalreporter.section("promises")
        terminalreporter.write_line(as_text(rows(outcomes)))


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--promises")
    if file:
        os.environ[EXACT] = "1"
    if file and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Collector(Path(file)))


def outcomes_of(report: pytest.TestReport) -> list[Outcome]:
    """The outcome of each promise; one with amounts of its own has no part in the figures of the test."""
    properties = report.user_properties
    figures = tuple(value for name, value in properties if name == "figure")
    amounts = tuple(pair for name, value in properties if name == "amounts" for pair in value.items())
    promises = [value for name, value in properties if name == "promise"]
    return [
        Outcome(text, target, report.outcome, *(((), tuple(own[0].items())) if own else (figures, amounts)))
        for text, target, *own in promises
    ]


def load(file: Path) -> list[Outcome]:
    outcomes = json.loads(file.read_text()) if file.exists() else []
    return [
        Outcome(text, target, result, tuple(figures), tuple(map(tuple, amounts)))
        for text, target, result, figures, amounts in outcomes
    ]


def rows(outcomes: Iterable[Outcome]) -> list[Row]:
    """One row for each promise and target, in the order of the promises."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.promise, outcome.target), []).append(outcome)
    return [Row(*group, summary(groups[group])) for group in sorted(groups)]


def summary(outcomes: list[Outcome]) -> str:
    """The figures, or how many cases hold; failures come first."""
    results = [outcome.result for outcome in outcomes]
    tried = len(results) - results.count("skipped")
    if not tried:
        return "not run"
    figures = [*_distinct_figures(outcomes), *_largest_amounts(outcomes)]
    if failures := results.count("failed"):
        return "; ".join([f"FAILED in {failures} of {tried} cases", *figures])
    holds = "holds" if tried == 1 else f"holds in {tried} cases"
    return "; ".join(figures if _distinct_figures(outcomes) else [holds, *figures])


def _distinct_figures(outcomes: list[Outcome]) -> list[str]:
    figures = list(dict.fromkeys(value for outcome in outcomes for value in outcome.figures))
    more = len(figures) - FIGURES_SHOWN
    return figures if more <= 0 else [*figures[:FIGURES_SHOWN], f"and {more} more"]


def _largest_amounts(outcomes: list[Outcome]) -> list[str]:
    """The largest number of each unit, in one text."""
    largest: dict[str, float] = {}
    for unit, number in (pair for outcome in outcomes for pair in outcome.amounts):
        largest[unit] = max(number, largest.get(unit, number))
    return [", ".join(f"{round(number, 2):g} {unit}" for unit, number in largest.items())] if largest else []


def as_text(table: list[Row]) -> str:
    """The table for a terminal: columns as wide as their content."""
    lines = [Row("promise", "target", "figure"), *table]
    widths = [max(len(line[column]) for line in lines) for column in range(2)]
    return "\n".join(f"{text:<{widths[0]}}  {target:<{widths[1]}}  {value}" for text, target, value in lines)


def as_markdown(table: list[Row]) -> str:
    lines = ["| Promise | Target | Figure |", "|---|---|---|"]
    return "\n".join([*lines, *("| {} | {} | {} |".format(*map(_cell, row)) for row in table)])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def write_page(marker: str, table: list[Row], page: Path = PAGE) -> None:
    """Put the table between the two comments of the page that name the marker."""
    begin, end = f"<!-- {marker}: table -->\n", f"<!-- {marker}: end -->"
    before, result_begin, rest = page.read_text().partition(begin)
    _, result_end, after = rest.partition(end)
    if not (result_begin and result_end):
        raise ValueError(f"{page} has no place for this table: it needs the lines {begin.strip()} and {end.strip()}")
    page.write_text(f"{before}{begin}{as_markdown(table)}\n{end}{after}")


def run(marker: str, options: list[str], file: Path) -> int:
    """All runs, whatever the others' results; the worst exit status, where no test at all is none.

    Slow tests measure: they come last, and one after the other.
    """
    quick, slow = f"{marker} and not slow", f"{marker} and slow"
    statuses = []
    for chosen, parallel in ((quick, PARALLEL), (slow, ())):
        # As one word: pytest would take a file of its own for what is tested, and its folder for the project's.
        common = (*parallel, f"--promises={file}", *options)
        alone = [sys.executable, "-m", "pytest", *common, "-m", f"{chosen} and not {WITH_SERVERS}"]
        served = [sys.executable, "-m", "tests.support.servers", *common, "-m", f"{chosen} and {WITH_SERVERS}"]
        all_of_it = os.environ | {"THOROUGH": "1"}
        statuses += [subprocess.run(one, cwd=ROOT, env=all_of_it, check=False).returncode for one in (alone, served)]
    return max(0 if status == pytest.ExitCode.NO_TESTS_COLLECTED else status for status in statuses)


def main(arguments: list[str]) -> int:
    marker, *options = arguments
    is_update = "--update" in options
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "promises.json"
        status = run(marker, [option for option in options if option != "--update"], file)
        table = rows(load(file))
    print("\n" + as_text(table), flush=True)
    if is_update and not status:
        write_page(marker, table)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
