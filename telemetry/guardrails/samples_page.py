"""The page of the console with the matches of guardrails; each reading is audited."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from accounts.models import User
from gateway_project.console.audit import record_change
from gateway_project.console.site import console_site
from gateway_project.database.ids import MAX_ID
from gateway_project.wording import plural
from telemetry.guardrails.page import guardrail_number, name_of_guardrail
from telemetry.guardrails.services import delete_samples_of
from telemetry.guardrails.viewsets import GuardrailSampleViewSet
from telemetry.models import EntryType, GuardrailSample, LogEntry

MAX_SHOWN = 200
RESOURCE = GuardrailSampleViewSet.resource_name
EFFECT = "The existing samples are deleted. The guardrail keeps new ones."


class ShownSample(NamedTuple):
    """A sample: its text in parts (None without the encryption key), and the user of its request."""

    sample: GuardrailSample
    parts: list[str] | None
    username: str
    entry: LogEntry | None


@console_site().page("guardrail-samples/", name="guardrail-samples")
def show_samples(request: HttpRequest) -> HttpResponse:
    """The newest samples, of one guardrail or of all."""
    number = guardrail_number(request)
    samples = GuardrailSample.objects.readable(timezone.now()).newest_first()
    rows = _show_samples(samples[:MAX_SHOWN] if number is None else samples.filter(guardrail_id=number)[:MAX_SHOWN])
    message = "read samples of all guardrails" if number is None else f"read samples of {number}"
    record_change(request, "list", RESOURCE, number, message=message)
    title = "Samples of guardrails" if number is None else f"Samples of {name_of_guardrail(number)}"
    context = console_site().context(request, title, rows=rows, guardrail_id=number, most=MAX_SHOWN)
    return TemplateResponse(request, "console/guardrail_samples.html", context)


@console_site().page("guardrail-samples/<int:guardrail_id>/delete/", name="guardrail-samples-delete")
def delete_samples(request: HttpRequest, guardrail_id: int) -> HttpResponse:
    """Ask, and then delete all samples of a guardrail."""
    if guardrail_id > MAX_ID:
        raise Http404
    back = f"{reverse('admin:guardrail-samples')}?guardrail={guardrail_id}"
    if request.method == "POST":
        with transaction.atomic():
            count = delete_samples_of(guardrail_id)
            message = f"deleted {plural(count, 'sample')} of {guardrail_id}"
            record_change(request, "destroy", RESOURCE, guardrail_id, message=message)
        messages.success(request, f"{plural(count, 'sample is', 'samples are')} deleted.")
        return HttpResponseRedirect(back)
    name = name_of_guardrail(guardrail_id)
    context = console_site().context(request, "Delete samples", row=name, effect=EFFECT, back=back)
    return TemplateResponse(request, "console/confirm.html", context)


def _show_samples(samples: Iterable[GuardrailSample]) -> list[ShownSample]:
    rows = list(samples)
    users = dict(User.objects.filter(pk__in={row.user_id for row in rows}).values_list("pk", "username"))
    entries = _entries(rows)
    return [
        ShownSample(row, row.parts, users.get(row.user_id or 0, ""), entries.get(row.correlation_id)) for row in rows
    ]


def _entries(samples: Iterable[GuardrailSample]) -> Mapping[str, LogEntry]:
    """The entries of the samples' requests that are still there, by correlation id."""
    ids = {sample.correlation_id for sample in samples}
    entries = LogEntry.objects.filter(correlation_id__in=ids, entry_type=EntryType.WORK_REQUEST)
    return {entry.correlation_id: entry for entry in entries.only("pk", "correlation_id", "key_id", "key_name")}
