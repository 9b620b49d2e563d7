"""The form that decides about a request, in the console and in the pages for users."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django import forms
from django.core.paginator import Page, Paginator
from django.utils import timezone
from unfold.widgets import UnfoldAdminTextInputWidget

from accounts.access_requests.models import MAX_NOTE_LENGTH, AccessRequest
from accounts.access_requests.querysets import AccessRequestQuerySet
from gateway_project.access_requests import services
from gateway_project.api import audit
from gateway_project.console.display.widgets import NativeSelect
from gateway_project.errors import ValidationError

PAGE_ROWS = 25
HOURS = [
    ("1", "1 hour"),
    ("24", "1 day"),
    ("168", "7 days"),
    ("720", "30 days"),
    ("2160", "90 days"),
    ("0", "an unlimited time"),
]
DECISIONS = ("grant", "refuse", "end")


class DecisionForm(forms.Form):
    """For how long, and what the user is told."""

    hours = forms.ChoiceField(label="For", choices=HOURS, initial="168", required=False, widget=NativeSelect)
    note = forms.CharField(
        label="Note for the user", required=False, max_length=MAX_NOTE_LENGTH, widget=UnfoldAdminTextInputWidget
    )
    decision = forms.ChoiceField(choices=[(name, name) for name in DECISIONS])

    def end_of_grant(self) -> datetime | None:
        hours = int(self.cleaned_data["hours"] or 0)
        return timezone.now() + timedelta(hours=hours) if hours else None


def apply_decision(request: AccessRequest, form: DecisionForm, actor: audit.Actor) -> str:
    """Do what the form says, and return a sentence; raises GatewayError."""
    if not form.is_valid():
        field, problems = next(iter(form.errors.get_json_data().items()))
        raise ValidationError(problems[0]["message"], field=field)
    decision, note = form.cleaned_data["decision"], form.cleaned_data["note"]
    if decision == "grant":
        services.grant_request(request, actor=actor, until=form.end_of_grant(), note=note)
        return f"Granted: {request}."
    if decision == "refuse":
        services.refuse_request(request, actor=actor, note=note)
        return f"Refused: {request}."
    services.end_request(request, actor=actor, note=note)
    return f"Ended: {request}."


def decision_context(requests: AccessRequestQuerySet[AccessRequest], query: Mapping[str, str]) -> dict[str, object]:
    """What templates/access_requests/lists.html shows: a page of those that are open, and one of those in force.

    Each request has its form. The oldest open one is first, and the latest grant.
    """
    page = _page(requests.open().shown().order_by("id"), query.get("page"))
    grant_page = _page(requests.granted().shown().order_by("-id"), query.get("grants"))
    return {"page": page, "rows": _rows(page), "grant_page": grant_page, "grants": _rows(grant_page)}


def _page(requests: AccessRequestQuerySet[AccessRequest], number: str | None) -> Page:
    return Paginator(requests, PAGE_ROWS).get_page(number)


def _rows(page: Page) -> list[tuple[AccessRequest, DecisionForm]]:
    return [(request, DecisionForm(auto_id=f"id_{request.pk}_%s")) for request in page]
