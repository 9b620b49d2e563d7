"""The playground: a conversation with one model or two, with streaming answers and the request as code."""

from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.tokens import issue_access
from gateway_project.console.audit import LOGIN
from gateway_project.console.display.money import exact_money
from gateway_project.console.playground.form_values import form_values
from gateway_project.console.playground.logged_request import logged_request
from gateway_project.console.site import console_site
from gateway_project.database.ids import id_in
from gateway_project.json_types import JsonObject
from gateway_project.work.stages.authentication import FEATURE
from keys.models import ApiKey
from providers.models import Model
from rules.aliases.models import Alias
from telemetry.details import cost
from telemetry.models import EntryType, LogEntry

MAX_KEYS = 500  # that the page offers
site = console_site()


@site.page("playground/", name="playground")
def playground(request: HttpRequest) -> HttpResponse:
    """The page; its script sends the requests."""
    models = Model.objects.filter(provider__enabled=True).values_list("name", flat=True).distinct().order_by("name")
    aliases = Alias.objects.enabled().order_by("name").values_list("name", flat=True)
    names = [*aliases, *models]
    # Only a model that exists, and a request that was logged, which the page says: a link cannot hold its own.
    values, logged_model = logged_values(request.GET.get("entry", ""))
    name = logged_model or request.GET.get("model")
    model = name if name in names else next(iter(models), "")
    values |= {"names": names, "model": model, "base_url": settings.GATEWAY_BASE_URL, "keys": keys_of(request)}
    context = site.context(request, "Playground", **values)
    return TemplateResponse(request, "console/playground.html", context)


def logged_values(entry_id: str) -> tuple[JsonObject, str]:
    """What the page holds of a logged request, and its model; empty if there is none."""
    entries, row_id = LogEntry.objects.filter(entry_type=EntryType.WORK_REQUEST), id_in(entry_id)
    entry = entries.filter(pk=row_id).first() if row_id else None
    if entry is None:
        return {}, ""
    request = logged_request(entry)
    origin = f"From log entry {entry.pk}: the request of {entry.username or 'an unknown user'}, without the answer."
    return {**form_values(request), "origin": origin, "omissions": request.omissions}, entry.model


def keys_of(request: HttpRequest) -> list[ApiKey]:
    """The first of the admin's own keys that may send work now."""
    keys = ApiKey.objects.usable().filter(owner_id=request.user.pk).order_by("name", "pk")
    return [key for key in keys[:MAX_KEYS] if FEATURE in key.permissions]


@site.page("playground/token/", name="playground-token", part=True)
@require_POST
def token(request: HttpRequest) -> HttpResponse:
    """An access token of the admin's own login, perhaps with one of their keys; it ends with the login."""
    assert request.user.pk is not None, "the console admits nobody without a login"
    public_id = request.POST.get("key", "")
    if public_id and public_id not in (key.public_id for key in keys_of(request)):
        raise Http404
    session = UUID(request.session[LOGIN]).hex
    text = issue_access(user_id=request.user.pk, session=session, key=public_id)
    return JsonResponse({"token": text}, headers={"Cache-Control": "no-store"})


@site.page("playground/entry/", name="playground-entry", part=True)
def entry(request: HttpRequest) -> HttpResponse:
    """The addresses of the log entry of a request and of its explanation, and its cost; empty until it is written."""
    request_id = request.GET.get("request", "").replace("\0", "")
    entries = LogEntry.objects.filter(correlation_id=request_id, entry_type=EntryType.WORK_REQUEST)
    row = entries.only("cost", "currency", "cost_status").order_by("-pk").first()
    if row is None:
        return JsonResponse({})
    pages = {"url": "telemetry_logentry_change", "explanation": "explain-entry"}
    addresses = {name: reverse(f"admin:{page}", args=[row.pk]) for name, page in pages.items()}
    return JsonResponse({**addresses, "cost": cost(row), "exactCost": exact_money(row.cost, row.currency)})
