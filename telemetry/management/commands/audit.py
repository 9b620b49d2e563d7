"""manage.py audit verify|export: proves the chain of the audit, or writes it as JSON lines."""

from collections.abc import Iterable, Iterator

from django.core.management.base import BaseCommand, CommandError, CommandParser

from gateway_project.api.audit import record_export
from gateway_project.progress import Progress
from gateway_project.wording import plural
from telemetry.audit.chain import Link
from telemetry.audit.export import audit_as_json_lines
from telemetry.audit.models import AuditEntry
from telemetry.audit.verification import verify_chain

STEP = 1000


class Command(BaseCommand):
    """Ends with status 1 where the chain is broken."""

    help = "Verifies that no entry of the audit was changed or removed, or exports the audit."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        verification = actions.add_parser(
            "verify", help="read the whole chain and name the first row at which it breaks"
        )
        verification.add_argument(
            "--head", default="", metavar="HASH", help="a hash from the log file that the chain must contain"
        )
        actions.add_parser("export", help="write each entry as a line of JSON, oldest first")

    def handle(self, *args: object, action: str, **options: object) -> None:
        if action == "verify":
            self._verify(str(options["head"]))
        else:
            self._export()

    def _verify(self, head: str) -> None:
        progress = Progress(self.stderr)
        result = verify_chain(expected_head=head, counting=lambda links: _count_links(links, progress))
        if result.problem:
            raise CommandError(result.problem)
        rows, segments = plural(result.rows, "row"), plural(result.segments, "removed segment")
        self.stdout.write(f"The chain holds: {rows}, {segments}.")
        self.stdout.write(f"The head is {result.head}.")

    def _export(self) -> None:
        record_export("audit", {})
        for lines in audit_as_json_lines(AuditEntry.objects.all()):
            self.stdout.write(lines.decode(), ending="")


def _count_links(links: Iterable[Link], progress: Progress) -> Iterator[Link]:
    """The links, with the number of those that were read on the terminal."""
    for number, link in enumerate(links, start=1):
        if number % STEP == 0:
            progress.show(f"Verifying: {number} rows")
        yield link
    progress.clear()
