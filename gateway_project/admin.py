"""The pages of the console that are about the whole gateway: the playground, and the system."""

import platform
import sys
from datetime import UTC, datetime
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
from gateway_project.console.log import LOGIN
from gateway_project.version import version
from gateway_project.work.gateway import gateway
from gateway_project.work.vitals import vitals
from providers.models import Model
from telemetry.models import JournalPosition

# Whoever adds a setting that is a secret gives it one of these names; tests hold every one against this.
SECRET = ("SECRET", "TOKEN_KEY", "ENCRYPTION_KEYS", "METRICS_TOKEN", "PASSWORD")
ADDRESSES = ("REDIS_URL",)


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
    return [
        ("Product", f"{known['productVersion']} ({known['git'] or 'no revision'} {known['branch']})".strip()),
        ("Python, Django", f"{platform.python_version()}, {django.get_version()}"),
        ("Machine", platform.platform()),
        ("Database", f"{connection.vendor} {_database_version()}"),
        ("Database answers", "yes" if made.follower.fresh else "no"),
        ("Cache", "Redis" if settings.REDIS_URL else "in this process"),
        ("Cache answers", "no" if made.state.degraded else "yes"),
        ("Keys, rules, providers in memory", _sizes(made.snapshot)),
        ("Time (UTC)", f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"),
        ("Command", sys.argv[0]),
    ]


def _sizes(snapshot: Any) -> str:
    return f"{len(snapshot.keys):,}, {len(snapshot.rule_rows):,}, {len(snapshot.providers):,}"


def _database_version() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version" if connection.vendor == "postgresql" else "SELECT sqlite_version()")
        return cursor.fetchone()[0]


def _processes() -> list[tuple[int, list[tuple[str, str, float]]]]:
    """Of each process of this machine what it tells of itself: name, labels, number."""
    made = gateway()
    _, told = made.metrics.gather(vitals(made))
    return [
        (slot, [(name, ", ".join(labels), number) for name, rows in gauges.items() for labels, number in rows])
        for slot, gauges in sorted(told.items())
    ]


def _settings() -> dict[str, str]:
    """The gateway's settings, secrets only as set or not set."""
    names = [name for name in dir(settings) if name.startswith("GATEWAY_")]
    shown = {name: _told(name, getattr(settings, name)) for name in [*names, *ADDRESSES, "SECRET_KEY", "ALLOWED_HOSTS"]}
    return shown | {"DATABASE": f"{connection.vendor}, {settings.DATABASES['default']['NAME']}"}


def _told(name: str, value: Any) -> str:
    if any(word in name for word in SECRET):
        return "set" if value else "not set"
    return _without_password(str(value)) if name in ADDRESSES else str(value)


def _without_password(url: str) -> str:
    scheme, there, rest = url.partition("://")
    return f"{scheme}{there}{rest.rpartition('@')[2].partition('?')[0]}"
