"""Access tests in the console, each with its state."""

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display
from unfold.views import ChangeList
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from gateway_project.console.display.badges import Badge
from gateway_project.console.forms.service_form import ServiceForm
from gateway_project.console.links import link, link_to
from gateway_project.console.period import with_query
from gateway_project.console.tables import ServiceAdmin
from gateway_project.json_types import JsonObject
from providers.console.model_links import model_page
from rules.access_tests import services
from rules.access_tests.judging import verdicts_of
from rules.access_tests.models import AccessTest
from rules.access_tests.viewsets import AccessTestViewSet

REFERENCES = ("user", "group", "provider")


class AccessTestForm(ServiceForm):
    """An access test."""

    form_names = {f"{name}_id": name for name in REFERENCES}

    class Meta:
        model = AccessTest
        fields = ["name", "description", "user", "key_name", "group", "model", "provider", "expected"]
        labels = {"key_name": "Name of the key"}
        help_texts = {
            "user": "Either a user or a group.",
            "key_name": "A key of the user. Empty: a login of the user.",
            "group": "The test assumes a user who is in this group and in no other.",
            "model": "The name that the request asks for: a model, provider/model or an alias.",
            "provider": "The provider that the request asks for. Empty: any.",
            "expected": "Allowed: the request would be served. Denied: the request would be refused, whatever its "
            "tags.",
        }
        widgets = {
            "name": UnfoldAdminTextInputWidget,
            "model": UnfoldAdminTextInputWidget,
            "expected": UnfoldAdminSelectWidget,
            "description": UnfoldAdminTextareaWidget(attrs={"rows": 2}),
        }


class TestList(ChangeList):
    """Judges all tests of a page at once."""

    result_list: list[AccessTest]

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        for test, verdict in zip(self.result_list, verdicts_of(self.result_list), strict=True):
            test.verdict = verdict


@admin.register(AccessTest)
class AccessTestAdmin(ServiceAdmin):
    """What somebody may or may not use, whatever else changes."""

    viewset = AccessTestViewSet
    form = AccessTestForm
    empty_message = (
        "There are no access tests. The gateway does not check changes of rules, groups, aliases and providers."
    )
    list_display = ["name", "state", "subject", "model_name", "provider_name", "expected"]
    list_filter = ["expected"]
    search_fields = ["name", "description", "model", "key_name"]
    autocomplete_fields = list(REFERENCES)
    ordering = ["name"]
    fieldsets = [
        (None, {"fields": ["name", "description"]}),
        ("Who", {"fields": ["user", "key_name", "group"]}),
        ("What", {"fields": ["model", "provider", "expected"]}),
    ]
    list_before_template = "console/access_test_tools.html"
    change_form_outer_before_template = "console/access_test_verdict.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[AccessTest]:
        return super().get_queryset(request).shown()

    def get_changelist(self, request: HttpRequest, **options: object) -> type[ChangeList]:
        return TestList

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: JsonObject | None = None
    ) -> HttpResponse:
        row = self.get_object(request, object_id)
        context: JsonObject = {"verdict": verdicts_of([row])[0]} if row is not None else {}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **context})

    @display(description="State")
    def state(self, row: AccessTest) -> SafeString:
        holds = row.verdict is not None and row.verdict.holds
        return (Badge("Holds", "success") if holds else Badge("Fails", "danger")).html

    @display(description="For")
    def subject(self, row: AccessTest) -> str:
        if row.group_id is not None:
            return format_html("group {}", _name(row.group, row.group_id))
        user = _name(row.user, row.user_id)
        if not row.key_name or row.user is None:
            return format_html("user {}", user)
        query = {"owner": row.user.username, "q": row.key_name}
        keys = with_query(reverse("admin:keys_apikey_changelist"), query)
        return format_html("user {}, key {}", user, link(row.key_name, keys))

    @display(description="Model", ordering="model")
    def model_name(self, row: AccessTest) -> str:
        return link_to_model(row)

    @display(description="Provider")
    def provider_name(self, row: AccessTest) -> str:
        return _name(row.provider, row.provider_id)

    def create(self, request: HttpRequest, values: JsonObject) -> AccessTest:
        return services.create_access_test(**_attributes(values))

    def change(self, request: HttpRequest, row: AccessTest, values: JsonObject) -> None:
        services.update_access_test(row, **_attributes(values))

    def destroy(self, request: HttpRequest, row: AccessTest) -> None:
        services.delete_access_test(row)

    def deletion_effects(self, row: AccessTest) -> list[str]:
        return ["From now on this test no longer refuses changes."]


def link_to_model(row: AccessTest) -> str:
    """The model that a test asks for, as a link to the model, or to those with such a name."""
    return link(row.model, model_page(row.model, row.provider_id))


def _name(row: Model | None, row_id: int | None) -> str:
    """The name of what a test refers to, as a link."""
    return link_to(row) if row is not None else "any" if row_id is None else f"{row_id} (deleted)"


def _attributes(values: JsonObject) -> JsonObject:
    """The form's fields as the services name them."""
    plain = {name: value for name, value in values.items() if name not in REFERENCES}
    return plain | {f"{name}_id": getattr(values[name], "pk", None) for name in REFERENCES if name in values}
