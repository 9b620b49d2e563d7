"""manage.py access-tests"""

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from gateway_project.api.audit import record_export
from gateway_project.database.guarding import override_access_tests, override_reason
from gateway_project.errors import BrokenTest, GatewayError
from rules.access_tests.documents import MAX_BYTES, read_document, write_document
from rules.access_tests.importing import import_access_tests
from rules.access_tests.judging import verdicts_of
from rules.access_tests.models import AccessTest
from rules.access_tests.watching import record_override


class Command(BaseCommand):
    """Runs the access tests, or imports or exports them as YAML."""

    help = "Runs all access tests: exit code 1 and a list of those that fail. Imports and exports them as YAML."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--override",
            metavar="REASON",
            default="",
            help="exit with 0 although tests fail; the audit keeps the reason",
        )
        action = parser.add_mutually_exclusive_group()
        action.add_argument(
            "--import", dest="source", metavar="FILE", help="store the tests of a file (-: standard input)"
        )
        action.add_argument(
            "--export", dest="target", metavar="FILE", nargs="?", const="-", help="write all tests to a file"
        )

    def handle(self, *args: object, **options: Any) -> None:
        if options["override"] and (options["source"] or options["target"]):
            raise CommandError("--override cannot be combined with --import or --export.")
        if options["source"] is not None:
            self.store(options["source"])
        elif options["target"] is not None:
            self.write(options["target"])
        else:
            self.run_tests(options["override"])

    def store(self, source: str) -> None:
        """Import the tests of a file. Raises CommandError."""
        try:
            with transaction.atomic():
                result = import_access_tests(read_document(_read(source)))
        except GatewayError as error:
            raise CommandError(error.sentence) from error
        self.stdout.write(result.sentence)

    def write(self, target: str) -> None:
        """Export the tests. Raises CommandError."""
        text = write_document(AccessTest.objects.shown())
        record_export("access-tests", {})
        if target == "-":
            self.stdout.write(text, ending="")
            return
        try:
            Path(target).write_text(text, encoding="utf-8")
        except OSError as error:
            raise CommandError(f"The file cannot be written: {error}") from error

    def run_tests(self, override: str) -> None:
        """Run all; raises CommandError, which ends with the exit code 1, if one fails without a reason to override."""
        reason = _reason(override)
        tests = list(AccessTest.objects.shown())
        failures = [
            (test, verdict) for test, verdict in zip(tests, verdicts_of(tests), strict=True) if not verdict.holds
        ]
        for test, verdict in failures:
            self.stdout.write(f"FAILS  {test.name}: {test.model} should be {test.expected}. {verdict.because}")
        summary = f"{len(tests) - len(failures):,} of {len(tests):,} access tests hold."
        if failures and not reason:
            raise CommandError(summary)
        if failures:
            record_override([BrokenTest(test.pk, test.name, verdict.because) for test, verdict in failures], reason)
        self.stdout.write(summary)


def _reason(override: str) -> str:
    """The reason, as one for a change has to be. Raises CommandError."""
    try:
        with override_access_tests(override):
            return override_reason()
    except GatewayError as error:
        raise CommandError(f"--override {error.message}") from error


def _read(source: str) -> str:
    """The text of a file, as much of it as may be imported. Raises CommandError."""
    try:
        if source == "-":
            return sys.stdin.read(MAX_BYTES + 1)
        with Path(source).open(encoding="utf-8") as file:
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise CommandError(f"The file cannot be read: {error}") from error
