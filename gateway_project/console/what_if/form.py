"""The form of a draft and its period."""

from datetime import UTC, date, datetime, time, timedelta

from django import forms
from django.core.validators import MaxValueValidator
from django.utils import timezone
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from gateway_project.console.forms.inputs import read_stored_json
from gateway_project.json_types import JsonObject

DAYS, MAX_DRAFT = 7, 1_000_000
EMPTY = '{\n  "rules": [],\n  "aliases": [],\n  "limits": [],\n  "prices": [],\n  "guardrails": [],\n  "delete": {}\n}'


def last_days() -> tuple[datetime, datetime]:
    """The last DAYS days."""
    now = timezone.now()
    return now - timedelta(days=DAYS), now


class WhatIfForm(forms.Form):
    """Full days (UTC), and a draft as JSON."""

    first = forms.DateField(label="From (UTC)", widget=UnfoldAdminTextInputWidget(attrs={"type": "date"}))
    last = forms.DateField(
        label="To (UTC)",
        validators=[MaxValueValidator(date.max - timedelta(days=1))],  # the period ends with the day after it
        widget=UnfoldAdminTextInputWidget(attrs={"type": "date"}),
    )
    draft = forms.CharField(
        max_length=MAX_DRAFT,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 12, "spellcheck": "false"}),
        help_text="The draft as in the API: lists of rules, aliases, limits, prices and guardrails, each row as in "
        "its create request. A row with an id replaces the row with this id. delete has lists of ids.",
    )

    @classmethod
    def for_last_days(cls, draft: str = EMPTY) -> "WhatIfForm":
        """The form of the last DAYS days."""
        start, end = last_days()
        return cls(initial={"first": start.date(), "last": end.date(), "draft": draft})

    def clean_draft(self) -> JsonObject:
        return read_stored_json(self.cleaned_data["draft"], "draft")

    def period(self) -> tuple[datetime, datetime]:
        """From the beginning of the first day to the end of the last one."""
        first, last = self.cleaned_data["first"], self.cleaned_data["last"]
        return datetime.combine(first, time.min, UTC), datetime.combine(last + timedelta(days=1), time.min, UTC)
