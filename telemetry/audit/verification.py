"""Proves the chain of the audit, the segments that retention has removed included."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from telemetry.audit.attestation import attests_segments, is_attestation
from telemetry.audit.chain import BEGINNING, AuditRecord, Break, Link, first_break
from telemetry.audit.models import AuditEntry, AuditSegment

BATCH = 2000
Counting = Callable[[Iterable[Link]], Iterable[Link]]


@dataclass(frozen=True, slots=True)
class Verification:
    """What verify_chain() has read: numbers of rows and segments, the last hash, and the first fault as a sentence."""

    rows: int
    segments: int
    head: str
    problem: str = ""


def verify_chain(*, expected_head: str = "", counting: Counting = iter) -> Verification:
    """Read the whole chain; `expected_head` is a hash that it must contain, as a log file or the metrics have it."""
    segments = _segments()
    while (result := _verify(segments, expected_head, counting)).problem:
        # Retention may have removed rows before they were read: only then read it again.
        if len(segments) == len(segments := _segments()):
            break
    return result


def _segments() -> list[AuditSegment]:
    return list(AuditSegment.objects.order_by("last_id"))


def _verify(segments: Sequence[AuditSegment], expected_head: str, counting: Counting) -> Verification:
    start = segments[-1].hash if segments else BEGINNING
    walk = _Walk(expected_head)
    walk.is_expected = expected_head in ("", start, *(segment.hash for segment in segments))
    problem = _gap_problem(segments)
    if not problem and (fault := first_break(walk.watch_links(counting(_links())), start)):
        problem = _row_problem(fault)
    problem = problem or _beginning_problem(segments, walk.attestation)
    if not problem and not walk.is_expected:
        problem = f"No row has the hash {expected_head}: rows were removed at the end, or all rows were replaced."
    return Verification(walk.rows, len(segments), walk.head or start, problem)


class _Walk:
    """Counts the links that pass, and looks for an expected hash and for the newest attestation of segments."""

    def __init__(self, expected_hash: str) -> None:
        self.expected_hash = expected_hash
        self.is_expected = False
        self.rows, self.head = 0, ""
        self.attestation: AuditRecord | None = None

    def watch_links(self, links: Iterable[Link]) -> Iterator[Link]:
        for link in links:
            self.rows, self.head = self.rows + 1, link.hash
            self.is_expected = self.is_expected or link.hash == self.expected_hash
            self.attestation = link.record if is_attestation(link.record) else self.attestation
            yield link


def _gap_problem(segments: Sequence[AuditSegment]) -> str:
    """The first segment that does not follow on the one before it, as a sentence; '' if there is none."""
    previous = BEGINNING
    for segment in segments:
        if segment.previous_hash != previous:
            return f"The removed segment {segment} does not continue the segment before it."
        previous = segment.hash
    return ""


def _beginning_problem(segments: Sequence[AuditSegment], attestation: AuditRecord | None) -> str:
    """What is wrong with the beginning of the chain, as a sentence: whether it was retention that removed the rows."""
    if not segments or (attestation is not None and attests_segments(attestation, segments)):
        return ""
    return (
        "The beginning of the chain is not proven: the newest entry about retention does not match the stored "
        f"segments up to {segments[-1]}. Somebody removed rows or changed segments."
    )


def _links() -> Iterator[Link]:
    last = 0
    while batch := list(AuditEntry.objects.in_chain_order().filter(id__gt=last)[:BATCH]):
        yield from (entry.link for entry in batch)
        last = batch[-1].pk


def _row_problem(fault: Break) -> str:
    return f"The chain breaks at row {fault.row_id}. {fault.problem}"
