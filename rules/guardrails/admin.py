"""Guardrails in the console."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db import models
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from unfold.decorators import display
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from accounts.models import Group, User
from gateway_project.console.forms.inputs import JsonObjectField
from gateway_project.console.forms.service_form import ServiceForm
from gateway_project.console.links import link_to
from gateway_project.console.tables import ServiceAdmin
from gateway_project.console.tabs import Tab, log_tab
from gateway_project.json_types import JsonObject
from keys.models import ApiKey
from rules.aliases.models import Alias
from rules.guardrails import services
from rules.guardrails.audience import AUDIENCE_KINDS, Reference
from rules.guardrails.models import EVERYONE, Action, Guardrail, default_action
from rules.guardrails.viewsets import GuardrailViewSet
from rules.models import Rule

MAX_NAMES = 5  # of each kind in the list
# The rows that an audience can name, and the field by which.
ROWS: Mapping[str, tuple[Callable[[], models.QuerySet], str]] = {
    "groups": (Group.objects.all, "pk"),
    "users": (User.objects.live, "pk"),
    "rules": (Rule.objects.all, "pk"),
    "keys": (ApiKey.objects.live, "pk"),
    "aliases": (Alias.objects.all, "name"),
}
FIELDS = (
    *("name", "description", "enabled", "position", "direction", "action", "type", "parameters"),
    *("fail_mode", "samples", "sample_days", "applies_to"),
)


HELP = {
    "position": "Lower numbers first.",
    "fail_mode": "What happens while the guardrail cannot run.",
    "samples": "Keep some of the matches, for users who may see payloads and change guardrails.",
    "action": "If several guardrails match, the strictest action wins.",
}


class GuardrailForm(ServiceForm):
    """A guardrail; its parameters and its audience are JSON, as in the API."""

    parameters = JsonObjectField(
        required=False,
        initial=dict,
        empty_value={},
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 4, "spellcheck": "false"}),
        help_text='As JSON, by type: {"patterns": ["project-[0-9]+"], "in": ["arguments"]}, {"words": ["secret"]}, '
        '{"kinds": ["email"]}, {"allowedLanguages": ["en"]}.',
    )
    applies_to = JsonObjectField(
        label="For",
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2, "spellcheck": "false"}),
        initial={EVERYONE: True},
        help_text='As JSON: {"everyone": true}, or some of {"groups": [1], "users": [2], "rules": [3], "keys": [4], '
        '"aliases": ["fast"]}: the guardrail applies to everybody in one of these lists.',
    )

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        if self.instance.pk is None:
            choices = [("", "Block (prompt injection: only record)"), *Action.choices]
            self.fields["action"] = forms.ChoiceField(
                choices=choices, required=False, help_text=HELP["action"], widget=UnfoldAdminSelectWidget
            )

    def clean(self) -> dict[str, Any]:
        """The values; the type decides what the action is if none was chosen."""
        values: dict[str, Any] = super().clean() or {}
        return {**values, "action": values.get("action") or default_action(values.get("type", ""))}

    class Meta:
        model = Guardrail
        fields = list(FIELDS)
        help_texts = HELP
        widgets = {"name": UnfoldAdminTextInputWidget, "description": UnfoldAdminTextareaWidget(attrs={"rows": 2})}

    def initial_of(self, row: models.Model) -> dict[str, object]:
        assert isinstance(row, Guardrail)
        return {"parameters": row.shown_parameters}

    def add_service_error(self, error: Any) -> None:
        """Errors inside of the JSON are errors of its field."""
        for problem in error.problems:
            member = problem.field.partition(".")[0]
            name = {"appliesTo": "applies_to"}.get(member, member)
            self.add_error(name if name in self.fields else None, problem.sentence)


class GuardrailList(ChangeList):
    """Reads the rows that the guardrails of a page are for, those of one kind at once."""

    result_list: list[Any]  # guardrails that have `audience_rows` too

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        rows = {kind: self._rows_of(kind) for kind in AUDIENCE_KINDS}
        for guardrail in self.result_list:
            guardrail.audience_rows = rows

    def _rows_of(self, kind: str) -> dict[Reference, models.Model]:
        """The rows of a kind that the page names, by what names them."""
        table, field = ROWS[kind]
        references = {reference for row in self.result_list for reference in row.applies_to.get(kind, ())[:MAX_NAMES]}
        rows = table().filter(**{f"{field}__in": references}) if references else ()
        return {getattr(row, field): row for row in rows}


def _names(references: Sequence[Reference], rows: Mapping[Reference, models.Model]) -> SafeString:
    """The first of them as links, those that were deleted by their ids, and how many more there are."""
    names = [link_to(rows.get(reference)) or str(reference) for reference in references[:MAX_NAMES]]
    more = len(references) - MAX_NAMES
    return format_html_join(", ", "{}", ((name,) for name in [*names, *([f"{more} more"] if more > 0 else [])]))


@admin.register(Guardrail)
class GuardrailAdmin(ServiceAdmin):
    """What requests and answers are searched for."""

    viewset = GuardrailViewSet
    form = GuardrailForm
    empty_message = "There are no guardrails. Requests and answers are passed on as they are."
    list_display = ["name", "is_enabled", "position", "type", "action", "direction", "audience"]
    list_filter = ["enabled", "type", "action", "direction"]
    search_fields = ["name", "description"]
    ordering = ["position", "id"]
    fieldsets = [
        (None, {"fields": ["name", "description", "enabled", "position"]}),
        ("What", {"fields": ["direction", "type", "parameters", "action", "fail_mode"]}),
        ("Samples", {"fields": ["samples", "sample_days"]}),
        ("Who", {"fields": ["applies_to"]}),
    ]

    def get_changelist(self, request: HttpRequest, **options: object) -> type[ChangeList]:
        return GuardrailList

    def tabs(self, row: Guardrail) -> list[Tab]:
        own = {"guardrail": row.pk}
        pages = [Tab("Usage", "guardrail-usage", own), Tab("Samples", "guardrail-samples", own)]
        return [*pages, log_tab(guardrail=row.name)]

    @display(description="Enabled", boolean=True, ordering="enabled")
    def is_enabled(self, row: Guardrail) -> bool:
        return row.enabled

    @display(description="For")
    def audience(self, row: Any) -> str:
        if row.applies_to.get(EVERYONE):
            return EVERYONE
        lists = ((kind, row.applies_to.get(kind, ())) for kind in AUDIENCE_KINDS)
        parts = ((kind, _names(references, row.audience_rows[kind])) for kind, references in lists if references)
        return format_html_join("; ", "{} {}", parts)

    def create(self, request: HttpRequest, values: JsonObject) -> Guardrail:
        return services.create_guardrail(**_attributes(values))

    def change(self, request: HttpRequest, row: Guardrail, values: JsonObject) -> None:
        services.update_guardrail(row, **_attributes(values))

    def destroy(self, request: HttpRequest, row: Guardrail) -> None:
        services.delete_guardrail(row)

    def deletion_effects(self, row: Guardrail) -> list[str]:
        return ["From now on, text that only this guardrail looked for is passed on."]


def _attributes(values: JsonObject) -> JsonObject:
    return {name: values[name] for name in FIELDS if name in values}
