"""manage.py providers"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Count

from gateway_project.api.audit import operator, record_command
from gateway_project.work.failover.checking import CheckResult, check_target
from gateway_project.work.routing.provider_health import recent_usage
from gateway_project.work.snapshot.loading import load_providers
from gateway_project.work.snapshot.records import ProviderSnapshot, Snapshot, Target
from gateway_project.work.streaming.watch import Watcher
from providers.models import Provider
from providers.transport.transport import Transport

HEADINGS = ("id", "name", "state", "format", "models", "attempts", "failed", "last check", "url")
Cells = Sequence[str]


class Command(BaseCommand):
    """Lists the providers with their attempts of the last hour, or asks them for one token."""

    help = "Lists the providers, or tests whether each of them answers."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="list all providers, with their attempts since the beginning of the last hour")
        test = actions.add_parser("test", help="ask for one token with each credential; each test may cost one token")
        test.add_argument(
            "names", nargs="*", metavar="NAME", help="names of providers (default: all enabled providers)"
        )
        test.add_argument("--model", help="the model to ask for (default: the first model of each provider)")

    def handle(self, *args: object, **options: Any) -> None:
        if options["action"] == "list":
            for line in in_columns([HEADINGS, *map(tuple, _rows())]):
                self.stdout.write(line)
        else:
            self.test(options["names"], options["model"])

    def test(self, names: Sequence[str], model: str | None) -> None:
        targets = [target for provider in _find_providers(names) for target in _targets(provider, model)]
        if not targets:
            raise CommandError("There is no enabled provider with a model to ask for.")
        record_command("test", "providers", message=f"{operator()} tested {_name_targets(targets)}, by manage.py.")
        failures = 0
        with _tester() as (transport, watcher):
            for target in targets:
                result = check_target(target, transport, watcher)
                failures += result.error is not None
                self.stdout.write(_sentence(result))
        if failures:
            raise CommandError(f"{failures} of {len(targets)} tests failed.")


@contextmanager
def _tester() -> Iterator[tuple[Transport, Watcher]]:
    watcher = Watcher()
    watcher.start()
    try:
        yield Transport(networks=settings.GATEWAY_PROVIDER_NETWORKS, heartbeat_seconds=1), watcher
    finally:
        watcher.stop()


def _find_providers(names: Sequence[str]) -> list[ProviderSnapshot]:
    """The providers with these names, all without names; raises CommandError."""
    snapshot = Snapshot()
    load_providers(snapshot)
    if unknown := [name for name in names if name not in snapshot.providers_by_name]:
        raise CommandError(
            f"No enabled provider with a usable credential is named {unknown[0]!r}: see manage.py providers list."
        )
    return [snapshot.providers_by_name[name] for name in names] or list(snapshot.providers.values())


def _targets(provider: ProviderSnapshot, model: str | None) -> list[Target]:
    """The provider's model with each of its credentials; raises CommandError if it has no such model."""
    if model is not None and model not in provider.models:
        raise CommandError(f"{provider.name} has no model named {model!r}.")
    name = model or min(provider.models, default=None)
    return [Target(account, name) for account in provider.accounts] if name is not None else []


def _sentence(result: CheckResult) -> str:
    (provider, model), error, duration_ms = result
    credential = f", credential {provider.credential_id}" if provider.siblings else ""
    who = f"{provider.name}, {model}{credential}"
    if error is None:
        return f"{who}: answered within {duration_ms:.0f} ms."
    cause = f" ({type(error.__cause__).__name__}: {error.__cause__})" if error.__cause__ is not None else ""
    return provider.redact(f"{who}: {error.exception} after {duration_ms:.0f} ms: {error.message}{cause}")


def _rows() -> Iterator[Cells]:
    usage = recent_usage()
    providers = Provider.objects.select_related("format", "health_check").annotate(model_count=Count("models"))
    for row in providers.order_by("id"):
        counts = usage.get(row.pk, {"attempts": 0, "failed_attempts": 0})
        yield (
            str(row.pk),
            row.name,
            "enabled" if row.enabled else "disabled",
            row.format.name,
            str(row.model_count),
            str(counts["attempts"]),
            str(counts["failed_attempts"]),
            _last_check(row),
            row.url,
        )


def _last_check(row: Provider) -> str:
    check = getattr(row, "health_check", None)
    if check is None or check.has_answered is None:
        return "-"
    return f"{check.begun_at:%Y-%m-%d %H:%M:%S} {check.exception or 'answered'}"


def _name_targets(targets: Sequence[Target]) -> str:
    return ", ".join(dict.fromkeys(target.provider.name for target in targets))


def in_columns(rows: Sequence[Cells]) -> list[str]:
    """The rows as lines, each column as wide as its longest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
