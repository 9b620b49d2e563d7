"""Aliases in the console, with the target that would serve a request now."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html_join
from unfold.decorators import display
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from gateway_project.console.forms.service_form import ServiceForm
from gateway_project.console.links import link_to
from gateway_project.console.tables import ServiceAdmin
from gateway_project.console.tabs import Tab, log_tab, usage_tab
from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from rules.aliases import services
from rules.aliases.drafts import MirrorDraft
from rules.aliases.lines import HELP, as_lines, read_lines
from rules.aliases.models import DEFAULT_CAUSES, Alias, FallbackCause
from rules.aliases.routing import read_alias_routing
from rules.aliases.viewsets import AliasViewSet

MIRRORED = ("mirror", "mirror_share")


class AliasForm(ServiceForm):
    """An alias; its targets are lines of text."""

    form_names = {"targets": "target_lines"}
    fallback_on = forms.MultipleChoiceField(
        choices=FallbackCause.choices,
        required=False,
        initial=list(DEFAULT_CAUSES),
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        label="Fall back after",
        help_text="After one of these failures the next target is asked, unless an answer has begun.",
    )
    target_lines = forms.CharField(
        label="Targets",
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 6, "spellcheck": "false"}),
        help_text=HELP,
    )

    class Meta:
        model = Alias
        fields = ["name", "description", "enabled", "strategy", "fallback_on", "mirror", "mirror_share", "hedge"]
        labels = {"mirror_share": "Mirrored share", "hedge": "Ask a second target when the first is slow"}
        help_texts = {
            "name": "The name that clients ask for. * stands for any characters. The most specific name applies.",
            "strategy": "How one of the targets of a tier is chosen.",
            "mirror": "This model also gets a share of the requests. Its answers are only logged.",
            "mirror_share": "From 0 to 1.",
        }
        widgets = {"name": UnfoldAdminTextInputWidget, "description": UnfoldAdminTextareaWidget(attrs={"rows": 2})}

    def initial_of(self, row: Model) -> JsonObject:
        assert isinstance(row, Alias)
        return {"target_lines": as_lines(row.targets.select_related("model__provider", "nested"))}

    def clean(self) -> JsonObject:
        values = self.cleaned_data
        try:
            values["targets"] = read_lines(values.get("target_lines", ""))
        except ValidationError as error:
            self.add_error("target_lines", error.message)
        return values


@admin.register(Alias)
class AliasAdmin(ServiceAdmin):
    """Names that clients ask for, and what serves them."""

    viewset = AliasViewSet
    form = AliasForm
    empty_message = "There are no aliases. Clients ask for models by their own names."
    list_display = ["name", "is_enabled", "strategy", "target_names", "description"]
    list_filter = ["enabled", "strategy"]
    search_fields = ["name", "description", "targets__model__name"]
    autocomplete_fields = ["mirror"]
    ordering = ["name"]
    fieldsets = [
        (None, {"fields": ["name", "description", "enabled"]}),
        ("Routing", {"fields": ["strategy", "target_lines", "fallback_on", "hedge"]}),
        ("Mirroring", {"fields": ["mirror", "mirror_share"]}),
    ]
    change_form_outer_before_template = "console/alias_routing.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Alias]:
        return super().get_queryset(request).shown()

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: JsonObject | None = None
    ) -> HttpResponse:
        row = self.get_object(request, object_id)
        context: JsonObject = {"routing": read_alias_routing(row.pk)} if row is not None else {}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **context})

    def tabs(self, row: Alias) -> list[Tab]:
        return [usage_tab(alias=row.name), log_tab(alias=row.name), Tab("Try", "playground", {"model": row.name})]

    @display(description="Enabled", boolean=True, ordering="enabled")
    def is_enabled(self, row: Alias) -> bool:
        return row.enabled

    @display(description="Targets")
    def target_names(self, row: Alias) -> str:
        targets = ((link_to(target.model or target.nested, str(target)),) for target in row.targets.all())
        return format_html_join(", ", "{}", targets) or "none: requests are refused"

    def create(self, request: HttpRequest, values: JsonObject) -> Alias:
        return services.create_alias(**_attributes(values))

    def change(self, request: HttpRequest, row: Alias, values: JsonObject) -> None:
        services.update_alias(row, **_attributes(values))

    def store(self, request: HttpRequest, form: ServiceForm) -> Alias:
        # Target and share of a mirror are stored as one value; the lines are stored as targets.
        if set(MIRRORED) & set(form.changed_data):
            form.changed_data += [name for name in MIRRORED if name not in form.changed_data]
        if "target_lines" in form.changed_data:
            form.changed_data.append("targets")
        return super().store(request, form)

    def destroy(self, request: HttpRequest, row: Alias) -> None:
        services.delete_alias(row)

    def deletion_effects(self, row: Alias) -> list[str]:
        return [
            "From now on requests for this name go to a model of the same name, or are denied.",
            "The alias cannot be deleted while other aliases contain it.",
        ]


def _attributes(values: JsonObject) -> dict[str, Any]:
    """The form's fields as the services name them."""
    plain = ("name", "description", "enabled", "strategy", "fallback_on", "hedge", "targets")
    attributes = {name: values[name] for name in plain if name in values}
    if "mirror" in values:
        model = values["mirror"]
        attributes["mirror"] = model and MirrorDraft(model.provider_id, model.name, values["mirror_share"])
    return attributes
