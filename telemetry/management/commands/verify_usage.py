"""manage.py verify_usage: whether the hours of usage equal the log."""

from argparse import ArgumentTypeError
from datetime import UTC, datetime

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from gateway_project.api.audit import operator, record_command
from gateway_project.progress import Progress
from gateway_project.wording import plural
from telemetry.usage.verification import Difference, days, differences, full_hours, repair_hours

MAX_SHOWN = 20
FEWER = (
    "Where the log has fewer requests than the usage, its entries were most likely deleted: --repair leaves the usage "
    "as it is. With --allow-fewer it rebuilds these hours, too."
)
FIRST_YEAR, LAST_YEAR = 1970, 9998


def parse_moment(text: str) -> datetime:
    """An ISO 8601 date or date-time (default: UTC)."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a date or a date-time, as 2030-12-31 or 2030-12-31T09:00Z") from None
    if not FIRST_YEAR <= read.year <= LAST_YEAR:  # at the edges of the calendar there is nothing to count with
        raise ArgumentTypeError(f"{text!r} is not between the years {FIRST_YEAR} and {LAST_YEAR}")
    return read if read.tzinfo else read.replace(tzinfo=UTC)


class Command(BaseCommand):
    """Ends with status 1 where they differ and were not repaired."""

    help = "Compares hourly usage with the log, and sums by day and model with the hours. Prints the differences."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--from", type=parse_moment, dest="start", help="default: the oldest full hour of the log")
        parser.add_argument("--to", type=parse_moment, dest="end", help="default: now")
        parser.add_argument(
            "--repair", action="store_true", help="rebuild what differs: hours from the log, sums from hours"
        )
        parser.add_argument(
            "--allow-fewer",
            action="store_true",
            help="with --repair: also rebuild hours of which the log has fewer requests than the usage",
        )

    def handle(self, *args: object, start: datetime | None, end: datetime | None, **options: object) -> None:
        start, end = full_hours(start, end, timezone.now())
        if start == end:
            raise CommandError("This period contains no hour: --to must be later than --from.")
        period = f"From {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"
        progress, parts = Progress(self.stderr), list(days(start, end))
        if options["repair"]:
            days_shown = progress.count_items(parts, "Repairing days")
            repaired = sum(repair_hours(*day, allow_fewer=bool(options["allow_fewer"])) for day in days_shown)
            if repaired:
                message = f"{operator()} repaired {plural(repaired, 'hour')} of usage, by manage.py. {period}."
                record_command("repair", "usage", message=message)
            self.stdout.write(f"{period}: {plural(repaired, 'hour')} repaired.")
        remaining = [item for day in progress.count_items(parts, "Comparing days") for item in differences(*day)]
        if remaining:
            hint = [FEWER] if any(difference.amounts.get("requests", 0) < 0 for difference in remaining) else []
            raise CommandError("\n".join([f"{period}: log and usage differ.", *_lines(remaining), *hint]))
        self.stdout.write(f"{period}: the difference between log and usage is 0.")


def _lines(all_differences: list[Difference]) -> list[str]:
    lines = [f"  {difference}" for difference in all_differences[:MAX_SHOWN]]
    return [*lines, "  …"] if len(all_differences) > MAX_SHOWN else lines
