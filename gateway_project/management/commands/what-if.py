"""manage.py what-if"""

import json
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from gateway_project.progress import Progress
from gateway_project.work.what_if.drafts import read_draft
from gateway_project.work.what_if.outcome import COUNTED
from gateway_project.work.what_if.running import compare, result_of, run_claimed
from rules.what_if.models import WhatIf

MAX_DAYS = 3660
NICE = 10
WORDS = {
    "newlyAllowed": "newly allowed",
    "newlyDenied": "newly denied",
    "rerouted": "served by another provider",
    "repriced": "at another cost",
}
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

    help = "Compares recorded traffic under the present rules with that under a draft; changes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        draft = 'a file with the draft, as {"rules": [...], "delete": {...}}; - for stdin'
        parser.add_argument("file", nargs="?", help=draft)
        parser.add_argument("--days", type=int, default=7, help="how many days of the log; by default 7")
        parser.add_argument("--json", action="store_true", help="print the whole result as JSON")
        parser.add_argument("--run", type=int, metavar="ID", help="work on a what-if that waits; the gateway does this")
        parser.add_argument("--claim", default="", help="the claim of --run")

    def handle(self, *args: Any, **options: Any) -> None:
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
            outcome = compare(draft, start, end, lambda share: progress.show(f"{share:.0%}"))
            return result_of(outcome, start, end)
        except GatewayError as error:
            raise CommandError(error.sentence) from error
        finally:
            progress.clear()

    def _write(self, document: JsonObject, days: int) -> None:
        self.stdout.write(f"Of {document['requests']:,} requests of the last {days} days:")
        for change in COUNTED:
            self.stdout.write(f"  {document[change.value]:,} {WORDS[change.value]}{_examples(document, change.value)}")
        self.stdout.write(f"Cost: {_money(document['costBefore'])} before, {_money(document['costAfter'])} after.")
        for row in document["byUser"]:
            self.stdout.write(f"User {row['userName']}: {_counts(row)}")
        for row in document["byGroup"]:
            self.stdout.write(f"Group {row['groupName']}: {_counts(row)}")
        for row in document["byModel"]:
            self.stdout.write(f"Model {row['model']}: {_counts(row)}")
        for row in document["byGuardrail"]:
            self.stdout.write(f"Guardrail {row['guardrail']}: {_guarded(row)}")
        for sentence in document["unknown"]:
            self.stdout.write(sentence)


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
    except (OSError, ValueError) as error:
        raise CommandError(f"The draft cannot be read: {error}") from error


def _examples(document: JsonObject, change: str) -> str:
    ids = document["examples"][change]
    return f" (entries {', '.join(map(str, ids[:5]))})" if ids else ""


def _counts(row: JsonObject) -> str:
    return ", ".join(f"{row[name]:,} {words}" for name, words in WORDS.items() if row[name])


def _guarded(row: JsonObject) -> str:
    words = ((name, RESULTS[name]) for name in RESULTS if row[name])
    numbers = (f"{row[name]:,} {text}{_examples(row, name)}" for name, text in words)
    return ", ".join(numbers) or "nothing"


def _money(costs: dict[str, str]) -> str:
    return ", ".join(f"{amount} {currency}".rstrip() for currency, amount in costs.items()) or "0"
