"""manage.py what-if"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from gateway_project.progress import Progress
from gateway_project.wording import plural
from gateway_project.work.what_if.drafts import read_draft
from gateway_project.work.what_if.outcome import COUNTED
from gateway_project.work.what_if.running import compare_requests, result_of, run_claimed
from rules.what_if.models import WhatIf

MAX_DAYS = 3660
NICE = 10
WORDS = {
    "newlyAllowed": "newly allowed",
    "newlyDenied": "newly denied",
    "rerouted": "served by another provider",
    "repriced": "served at another cost",
}
CAUSES = {
    "refusedByLimits": "refused by limits",
    "blockedByGuardrails": "blocked by guardrails",
}
GAPS = {
    "skipped": "User no longer active",
    "unknownCosts": "Cost unknown",
    "unknownTexts": "Text unknown",
    "refusedOtherwise": "Refused for other reasons",
}
MAX_SHOWN = 5  # entries behind a number
RESULTS = {
    "blockedBefore": "blocked now",
    "redactedBefore": "redacted now",
    "monitoredBefore": "only recorded now",
    "blocked": "blocked with the draft",
    "redacted": "redacted with the draft",
    "monitored": "only recorded with the draft",
    "unknown": "unknown",
}


class Command(BaseCommand):
    """Judges the traffic of the last days by a draft of rules and aliases, and says what would have been otherwise."""

    help = "Shows what a draft of the configuration would have changed for recorded requests. Changes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        draft = 'a file with the draft, as {"rules": [...], "delete": {...}}; - for stdin'
        parser.add_argument("file", nargs="?", help=draft)
        parser.add_argument("--days", type=int, default=7, help="how many days of the log (default: 7)")
        parser.add_argument("--json", action="store_true", help="print the whole result as JSON")
        parser.add_argument(
            "--run", type=int, metavar="ID", help="for the gateway's own use: work on a what-if that waits"
        )
        parser.add_argument("--claim", default="", help="for the gateway's own use: the claim of --run")

    def handle(self, *args: object, **options: Any) -> None:
        if options["run"] is not None:
            run_stored(options["run"], options["claim"])
            return
        if options["file"] is None:
            raise CommandError("Name a file with the draft, or - for the standard input.")
        if not 1 <= options["days"] <= MAX_DAYS:
            raise CommandError(f"--days must be from 1 to {MAX_DAYS}.")
        result = self._result(options["file"], options["days"])
        if options["json"]:
            self.stdout.write(json.dumps(result, indent=2))
        else:
            self._write(result, options["days"])

    def _result(self, file: str, days: int) -> JsonObject:
        progress, end = Progress(self.stderr), timezone.now()
        start = end - timedelta(days=days)
        try:
            draft = read_draft(_document(file))
            outcome = compare_requests(draft, start, end, lambda share: progress.show(f"{share:.0%}"))
            return result_of(outcome, start, end)
        except GatewayError as error:
            raise CommandError(error.sentence) from error
        finally:
            progress.clear()

    def _write(self, document: JsonObject, days: int) -> None:
        self.stdout.write(f"Of {plural(document['requests'], 'request')} of the last {plural(days, 'day')}:")
        for change in COUNTED:
            self.stdout.write(f"  {document[change.value]:,} {WORDS[change.value]}{_examples(document, change.value)}")
        for line in (*_causes(document), *_shares(document), *_rows(document), *_gaps(document)):
            self.stdout.write(line)


def run_stored(number: int, claim: str) -> None:
    """Work on a stored what-if under a claim, with low priority; nothing happens if the claim is over."""
    what_if = WhatIf.objects.claimed_by(claim).filter(pk=number).first()
    if what_if is None:
        return
    os.nice(NICE)
    signal.signal(signal.SIGTERM, _leave)
    run_claimed(what_if)


def _leave(number: int, frame: object) -> None:
    """End, and leave the work to another process."""
    sys.exit(128 + number)


def _document(file: str) -> object:
    try:
        return json.loads(sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CommandError(f"The draft cannot be read: {error}") from error


def _causes(document: JsonObject) -> Iterator[str]:
    """Of those newly denied: what refuses them, other than rules."""
    for name, words in CAUSES.items():
        if number := document[name]:
            yield f"    of the newly denied requests: {number:,} {words}{_examples(document, name)}"


def _shares(document: JsonObject) -> Iterator[str]:
    yield f"Cost: {_money(document['costBefore'])} before, {_money(document['costAfter'])} after."
    if document["cacheShareBefore"] is not None:
        yield f"From the cache: {_cache(document)}."


def _rows(document: JsonObject) -> Iterator[str]:
    for kind, member, name in (("User", "byUser", "userName"), ("Group", "byGroup", "groupName")):
        for row in document[member]:
            yield f"{kind} {row[name]}: {_counts(row)}"
    for row in document["byModel"]:
        yield f"Model {row['model']}: {_counts(row)}"
    for row in document["byGuardrail"]:
        yield f"Guardrail {row['guardrail']}: {_describe_guardrail(row)}"


def _gaps(document: JsonObject) -> Iterator[str]:
    """What cannot be known: the entries first, then in sentences."""
    for name, words in GAPS.items():
        if number := document[name]:
            yield f"{words}: {number:,}{_examples(document, name)}"
    yield from document["unknown"]


def _examples(document: JsonObject, name: str) -> str:
    ids = document["examples"][name]
    return f" (entries {', '.join(map(str, ids[:MAX_SHOWN]))})" if ids else ""


def _counts(row: JsonObject) -> str:
    """The numbers of a user, group or model, with entries behind each; the cache if it has a part in it."""
    words = (WORDS | CAUSES).items()
    numbers = [f"{row[name]:,} {text}{_examples(row, name)}" for name, text in words if row[name]]
    if row["cacheShareBefore"]:
        numbers.append(f"from the cache {_cache(row)}")
    return ", ".join(numbers)


def _cache(counts: JsonObject) -> str:
    before, after = "cacheShareBefore", "cacheShareAfter"
    return (
        f"{counts[before]:.1%} before{_examples(counts, before)}, {counts[after]:.1%} after{_examples(counts, after)}"
    )


def _describe_guardrail(row: JsonObject) -> str:
    words = ((name, RESULTS[name]) for name in RESULTS if row[name])
    numbers = (f"{row[name]:,} {text}{_examples(row, name)}" for name, text in words)
    return ", ".join(numbers) or "nothing"


def _money(costs: dict[str, str]) -> str:
    return ", ".join(f"{amount} {currency}".rstrip() for currency, amount in costs.items()) or "0"
