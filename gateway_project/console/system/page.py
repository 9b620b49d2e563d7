"""The page System."""

import platform
from collections.abc import Iterator
from datetime import UTC, datetime

import django
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from gateway_project.console.display.times import SECONDS, utc_time
from gateway_project.console.site import console_site
from gateway_project.console.system.parts import parts_of
from gateway_project.console.system.settings_table import settings_in_force
from gateway_project.status.version import version
from gateway_project.work.runtime import gateway
from gateway_project.work.snapshot.records import Snapshot
from gateway_project.work.tasks.process_metrics import process_gauges
from telemetry.metrics.counters import Gauges
from telemetry.models import JournalPosition

# Titles of gauges whose names would read the same without their units.
TITLES = {"journal_backlog_seconds": "Oldest in the journal backlog"}
FLAGS = {"provider_resting", "store_available"}

site = console_site()


@site.page("system/", name="system")
def system(request: HttpRequest) -> HttpResponse:
    """Versions, the parts with their state, processes, and the settings in force: all, or those that `q` finds."""
    text = request.GET.get("q", "").strip()
    context = site.context(
        request,
        "System",
        facts=_facts(),
        processes=_processes(),
        journals=JournalPosition.objects.order_by("-updated_at")[:50],
        parts=list(parts_of(gateway())),
        settings_in_force=settings_in_force(text),
        searched=text,
    )
    return TemplateResponse(request, "console/system.html", context)


def _facts() -> list[tuple[str, str]]:
    process = gateway()
    code = version()
    revision = " ".join(filter(None, (code["git"][:12], code["branch"])))
    return [
        ("Product", f"{code['productVersion']} ({revision})" if revision else code["productVersion"]),
        ("Update available", {"true": "yes", "false": "no"}.get(code["updateAvailable"], "unknown")),
        ("Python, Django", f"{platform.python_version()}, {django.get_version()}"),
        ("Machine", f"{platform.system()}, {platform.machine()}"),
        ("Database", f"{connection.vendor} {_database_version()}"),
        ("Cache", "Redis" if settings.REDIS_URL else "in this process"),
        ("Keys, rules, providers in memory", _sizes(process.snapshot)),
        ("Time (UTC)", utc_time(datetime.now(UTC), SECONDS)),
    ]


def _sizes(snapshot: Snapshot) -> str:
    return f"{len(snapshot.keys):,}, {len(snapshot.rule_rows):,}, {len(snapshot.providers):,}"


def _database_version() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version" if connection.vendor == "postgresql" else "SELECT sqlite_version()")
        return cursor.fetchone()[0]


def _processes() -> list[tuple[int, list[tuple[str, str, str]]]]:
    """The gauges of each process of this machine: name, labels, value."""
    process = gateway()
    _, gauges_by_slot = process.metrics.gather(process_gauges(process))
    return [(slot, list(_gauges(gauges))) for slot, gauges in sorted(gauges_by_slot.items())]


def _gauges(gauges: Gauges) -> Iterator[tuple[str, str, str]]:
    for name, rows in gauges.items():
        for labels, number in rows:
            yield _title(name), ", ".join(labels), _value(name, number)


def _title(name: str) -> str:
    if name in TITLES:
        return TITLES[name]
    words = name.removesuffix("_bytes").removesuffix("_seconds").replace("_", " ")
    return words[:1].upper() + words[1:]


def _value(name: str, number: float) -> str:
    """The value of a gauge, with its unit."""
    if name == "process_start_time_seconds":
        return utc_time(datetime.fromtimestamp(number, UTC), SECONDS)
    if name in FLAGS:
        return "yes" if number else "no"
    if name.endswith("_bytes"):
        return f"{number / 2**20:,.1f} MiB"
    return f"{number:,.2f} s" if name.endswith("_seconds") else f"{number:,.0f}"
