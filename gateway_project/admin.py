"""The pages of the console that are about the whole gateway: the playground, and the system."""

import platform
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import django
from django.conf import settings
from django.contrib import admin
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.views.decorators.http import require_POST

from accounts.tokens import issue_access
from gateway_project.console.audit import LOGIN
from gateway_project.console.tables import plain_decimal
from gateway_project.status.version import version
from gateway_project.work.runtime import gateway
from gateway_project.work.tasks.process_metrics import process_gauges
from providers.models import Model
from telemetry.metrics.counters import Gauges
from telemetry.models import JournalPosition

# Whoever adds a setting that is a secret gives it one of these names; tests hold every one against this.
SECRET = ("SECRET", "TOKEN_KEY", "ENCRYPTION_KEYS", "METRICS_TOKEN", "PASSWORD")
ADDRESSES = ("REDIS_URL",)
WIRED = {"gateway_project", "telemetry", "licensing"}
OTHER_WORDS = {"journal_backlog_seconds": "Oldest in the journal backlog"}  # beside its bytes
YES_OR_NO = {"provider_resting", "store_available"}


@admin.site.page("playground/", name="playground")
def playground(request: HttpRequest) -> HttpResponse:
    """A prompt to one model or two, with a streaming answer and the request as code."""
    models = Model.objects.filter(provider__enabled=True).values_list("name", flat=True).distinct().order_by("name")
    context = admin.site.context(request, "Playground", models=models, base_url=settings.GATEWAY_BASE_URL)
    return TemplateResponse(request, "console/playground.html", context)


@admin.site.page("playground/token/", name="playground-token", part=True)
@require_POST
def token(request: HttpRequest) -> HttpResponse:
    """An access token of this very login, for the page's own requests: it ends with the login."""
    session = UUID(request.session[LOGIN]).hex
    text = issue_access(user_id=request.user.pk, session=session)
    return JsonResponse({"token": text}, headers={"Cache-Control": "no-store"})


@admin.site.page("system/", name="system")
def system(request: HttpRequest) -> HttpResponse:
    """Versions, stores, processes and the settings in force."""
    context = admin.site.context(
        request,
        "System",
        facts=_facts(),
        processes=_processes(),
        journals=JournalPosition.objects.order_by("-updated_at")[:50],
        settings_in_force=sorted(_settings().items()),
    )
    return TemplateResponse(request, "console/system.html", context)


def _facts() -> list[tuple[str, Any]]:
    made = gateway()
    known = version()
    revision = " ".join(filter(None, (known["git"][:12], known["branch"])))
    return [
        ("Product", f"{known['productVersion']} ({revision})" if revision else known["productVersion"]),
        ("Update available", {"true": "yes", "false": "no"}.get(known["updateAvailable"], "unknown")),
        ("Python, Django", f"{platform.python_version()}, {django.get_version()}"),
        ("Machine", f"{platform.system()}, {platform.machine()}"),
        ("Database", f"{connection.vendor} {_database_version()}"),
        ("Database answers", "yes" if made.follower.fresh else "no"),
        ("Cache", "Redis" if settings.REDIS_URL else "in this process"),
        ("Cache answers", "no" if made.state.degraded else "yes"),
        ("Keys, rules, providers in memory", _sizes(made.snapshot)),
        ("Time (UTC)", f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"),
    ]


def _sizes(snapshot: Any) -> str:
    return f"{len(snapshot.keys):,}, {len(snapshot.rule_rows):,}, {len(snapshot.providers):,}"


def _database_version() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version" if connection.vendor == "postgresql" else "SELECT sqlite_version()")
        return cursor.fetchone()[0]


def _processes() -> list[tuple[int, list[tuple[str, str, str]]]]:
    """Of each process of this machine what it tells of itself: name, labels, value."""
    made = gateway()
    _, told = made.metrics.gather(process_gauges(made))
    return [(slot, list(_gauges(gauges))) for slot, gauges in sorted(told.items())]


def _gauges(gauges: Gauges) -> Iterator[tuple[str, str, str]]:
    for name, rows in gauges.items():
        for labels, number in rows:
            yield _words(name), ", ".join(labels), _value(name, number)


def _words(name: str) -> str:
    if name in OTHER_WORDS:
        return OTHER_WORDS[name]
    words = name.removesuffix("_bytes").removesuffix("_seconds").replace("_", " ")
    return words[:1].upper() + words[1:]


def _value(name: str, number: float) -> str:
    """A gauge as people read it, with its unit."""
    if name == "process_start_time_seconds":
        return f"{datetime.fromtimestamp(number, UTC):%Y-%m-%d %H:%M:%S}"
    if name in YES_OR_NO:
        return "yes" if number else "no"
    if name.endswith("_bytes"):
        return f"{number / 2**20:,.1f} MiB"
    return f"{number:,.2f} s" if name.endswith("_seconds") else f"{number:,.0f}"


def _settings() -> dict[str, str]:
    """The gateway's settings, secrets only as set or not set."""
    names = [name for name in dir(settings) if name.startswith("GATEWAY_") and not _is_wiring(getattr(settings, name))]
    shown = {name: _told(name, getattr(settings, name)) for name in [*names, *ADDRESSES, "SECRET_KEY", "ALLOWED_HOSTS"]}
    return shown | {"DATABASE": f"{connection.vendor}, {settings.DATABASES['default']['NAME']}"}


def _is_wiring(value: Any) -> bool:
    """Whether it names a function of the gateway's own, which nobody sets."""
    return isinstance(value, str) and value.partition(".")[0] in WIRED


def _told(name: str, value: Any) -> str:
    if any(word in name for word in SECRET):
        return "set" if value else "not set"
    return _without_password(str(value)) if name in ADDRESSES else _in_words(value)


def _in_words(value: Any) -> str:
    """A setting as whoever set it would write it, and not as Python does."""
    if isinstance(value, Mapping):
        return "; ".join(f"{subject}: {_limits(limits)}" for subject, limits in value.items() if limits)
    if isinstance(value, Collection) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return str(value)


def _limits(limits: Mapping[tuple[str, str], Decimal]) -> str:
    """As Env.limits() reads them."""
    kinds = {(measure, window): measure if window == "none" else f"{measure}/{window}" for measure, window in limits}
    return ", ".join(f"{kinds[kind]}={plain_decimal(amount)}" for kind, amount in limits.items())


def _without_password(url: str) -> str:
    scheme, there, rest = url.partition("://")
    return f"{scheme}{there}{rest.rpartition('@')[2].partition('?')[0]}"
