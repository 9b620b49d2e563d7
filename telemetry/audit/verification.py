"""Proves the chain of the audit, the segments that retention has removed included."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from telemetry.audit.chain import BEGINNING, Break, Link, first_break
from telemetry.audit.models import AuditEntry, AuditSegment

BATCH = 2000
Counting = Callable[[Iterable[Link]], Iterable[Link]]


@dataclass(frozen=True, slots=True)
class Verification:
    """What verify() has read: the number of rows and segments, the last hash, and the first fault as a sentence."""

    rows: int
    segments: int
    head: str
    problem: str = ""


def verify(*, expected_head: str = "", counting: Counting = iter) -> Verification:
    """Read the whole chain; `expected_head` is a hash that it must contain, as a log file or the metrics have it."""
    start, segments, problem = _segments()
    walk = _Walk(expected_head)
    walk.is_expected = expected_head in ("", start) or AuditSegment.objects.filter(hash=expected_head).exists()
    if not problem and (fault := first_break(walk.watching(counting(_links())), start)):
        problem = _row_problem(fault)
    if not problem and not walk.is_expected:
        problem = f"No row has the hash {expected_head}: rows were removed from the end, or all were written anew."
    return Verification(walk.rows, segments, walk.head or start, problem)


class _Walk:
    """Counts the links that pass, and looks for an expected hash."""

    def __init__(self, expected_hash: str) -> None:
        self.expected_hash = expected_hash
        self.is_expected = False
        self.rows, self.head = 0, ""

    def watching(self, links: Iterable[Link]) -> Iterator[Link]:
        for link in links:
            self.rows, self.head = self.rows + 1, link.hash
            self.is_expected = self.is_expected or link.hash == self.expected_hash
            yield link


def _segments() -> tuple[str, int, str]:
    """The hash before the first row, the number of removed segments, and a fault among those."""
    previous, count = BEGINNING, 0
    for count, segment in enumerate(AuditSegment.objects.order_by("last_id"), start=1):
        if segment.previous_hash != previous:
            return previous, count, f"The removed segment {segment} does not follow on the one before it."
        previous = segment.hash
    return previous, count, ""


def _links() -> Iterator[Link]:
    last = 0
    while batch := list(AuditEntry.objects.in_chain_order().filter(id__gt=last)[:BATCH]):
        yield from (entry.link for entry in batch)
        last = batch[-1].pk


def _row_problem(fault: Break) -> str:
    return f"The chain breaks at row {fault.row_id}. {fault.problem}"
