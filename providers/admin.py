"""Providers and their models in the console."""

import time
from typing import Any, Protocol

from django import forms
from django.conf import settings
from django.contrib import admin
from django.db import transaction
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from unfold.decorators import display
from unfold.views import ChangeList
from unfold.widgets import UnfoldAdminTextareaWidget

from gateway_project.console.row_actions import row_action
from gateway_project.console.tables import ServiceAdmin, ServiceForm
from gateway_project.console.tabs import Badge, Tab, log_tab, usage_tab
from gateway_project.errors import ProviderError
from gateway_project.json_types import JsonObject
from providers import services
from providers.console.parts import SECRET_HELP, CredentialAdmin, ModelAdmin, secret_field
from providers.console.presets import PRESETS
from providers.console.price_admin import PriceAdmin
from providers.discovery import ask_for_models
from providers.health.status import Health, health_of
from providers.models import TIMEOUTS, Provider, ProviderCredential, ProviderFormat
from providers.sealing import credentials_of
from providers.transport.transport import Transport
from providers.viewsets import ProviderViewSet

DEFAULT_HELP = "Empty: the default setting applies."
# The tables of what belongs to a provider are registered with this module.
__all__ = ["CredentialAdmin", "ModelAdmin", "PriceAdmin", "ProviderAdmin"]


class ProviderForm(ServiceForm):
    """A provider. Its credential can be set and is never shown."""

    form_names = {"api_key": "secret", "models": "new_models"}
    secret = secret_field("Leave empty to keep it; a new scheme, host or port in the URL clears it.")
    clear_credential = forms.BooleanField(required=False, help_text="Forget the credential.")
    new_models = forms.CharField(
        required=False,
        label="Models",
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 4}),
        help_text="The provider's model names, one per line. More can be fetched from the provider later.",
    )

    class Meta:
        model = Provider
        fields = [
            "name", "format", "url", "auth_method", "enabled", "priority", "weight", "cache_scope",
            "cache_ttl_seconds", *TIMEOUTS, "max_response_bytes", "unknown_parameters",
            "health_check_seconds", "health_check_always",
        ]  # fmt: skip
        help_texts = {
            "url": "The base URL, as SDKs take it, such as https://api.openai.com/v1",
            "cache_ttl_seconds": f"0 stores nothing. {DEFAULT_HELP}",
            "max_response_bytes": DEFAULT_HELP,
            **dict.fromkeys(TIMEOUTS, DEFAULT_HELP),
        }
        labels = {
            "url": "URL",
            "auth_method": "Authentication",
            "cache_ttl_seconds": "Cache lifetime (seconds)",
            "max_response_bytes": "Longest answer (bytes)",
            "health_check_seconds": "Every (seconds)",
            "health_check_always": "Also while it works",
            **{name: f"{name.removesuffix('_seconds').replace('_', ' ').capitalize()} (seconds)" for name in TIMEOUTS},
        }

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._label("cache_scope", "", f"Default ({settings.GATEWAY_CACHE_SCOPE})")
        if self.instance.pk is not None:
            return
        self.fields["secret"].help_text = SECRET_HELP
        field = self.fields["unknown_parameters"]
        if isinstance(field, forms.TypedChoiceField) and not callable(field.choices):
            field.choices, field.required = [("", "Default of the format"), *field.choices], False
        self.initial["unknown_parameters"] = ""

    def _label(self, name: str, value: str, label: str) -> None:
        """Replace the label of one value of a choice."""
        field = self.fields.get(name)
        if isinstance(field, forms.TypedChoiceField) and not callable(field.choices):
            field.choices = [(key, label if key == value else text) for key, text in field.choices]


class ProviderList(ChangeList):
    """Asks once for the health of all providers of a page."""

    result_list: list[Any]  # rows that have `health` too

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        for provider, health in zip(self.result_list, health_of(self.result_list, with_usage=True), strict=True):
            provider.health = health


class ListedProvider(Protocol):
    """What a row of the list has beside the columns: see ProviderAdmin.get_queryset() and ProviderList."""

    health: Health
    model_count: int


@admin.register(Provider)
class ProviderAdmin(ServiceAdmin):
    """Endpoints that serve models."""

    viewset = ProviderViewSet
    form = ProviderForm
    empty_message = "There are no providers. Work requests cannot be served."
    list_display = ["name", "format", "address", "state", "last_hour", "priority", "weight", "model_count"]
    list_filter = ["enabled", "format"]
    search_fields = ["name", "url", "models__name"]
    ordering = ["id"]
    readonly_fields = ["masked_credential", "further_credentials", "model_names"]
    change_form_outer_before_template = "console/provider_health.html"
    actions_detail = ["test_connection", "fetch_models"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Provider]:
        return (
            super().get_queryset(request).select_related("format").annotate(model_count=Count("models", distinct=True))
        )

    def tabs(self, row: Provider) -> list[Tab]:
        return [
            Tab("Models", "providers_model_changelist", {"provider__id__exact": row.pk}, row.models.count()),
            Tab("Keys", "keys_apikey_changelist", {"provider": row.name}, row.api_keys.live().count()),
            Tab("Rules", "rules_rule_changelist", {"provider__id__exact": row.pk}, row.rules.count()),
            Tab("Limits", "licensing_limit_changelist", {"provider": row.name}, row.limits.count()),
            usage_tab(provider=row.pk),
            log_tab(attempted=row.name),
        ]

    def get_fieldsets(self, request: HttpRequest, obj: Provider | None = None) -> list:
        models = ["model_names"] if obj else ["new_models"]
        present = ["masked_credential", "secret", "clear_credential", "further_credentials"]
        credential_fields = present if obj else ["secret"]
        return [
            (None, {"fields": ["name", "format", "url", "enabled"]}),
            ("Credential", {"fields": ["auth_method", *credential_fields]}),
            ("Models", {"fields": models}),
            ("Load balancing", {"fields": ["priority", "weight"]}),
            ("Cache", {"fields": ["cache_scope", "cache_ttl_seconds"]}),
            ("Health checks", {"fields": ["health_check_seconds", "health_check_always"]}),
            ("Timeouts and limits", {"fields": [*TIMEOUTS, "max_response_bytes", "unknown_parameters"]}),
        ]

    def get_changelist(self, request: HttpRequest, **options: Any) -> type[ChangeList]:
        return ProviderList

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, str | list[str]]:
        """What the preset that the address names fills in."""
        preset = PRESETS.get(request.GET.get("preset", ""))
        if preset is None:
            return {}
        number = ProviderFormat.objects.get(name=preset.format).pk
        name = request.GET["preset"]
        return {"name": name, "format": str(number), "url": preset.url, "auth_method": preset.auth_method}

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: JsonObject | None = None
    ) -> HttpResponse:
        context = {"presets": PRESETS, "preset": PRESETS.get(request.GET.get("preset", ""))}
        return super().add_view(request, form_url, {**(extra_context or {}), **context})

    def response_add(self, request: HttpRequest, obj: Provider, post_url_continue: str | None = None) -> HttpResponse:
        """Without models the provider serves nothing: the next page offers to fetch them."""
        if "_popup" in request.POST or obj.models.exists():
            return super().response_add(request, obj, post_url_continue)
        self.message_user(request, "The provider is saved. It has no models yet: fetch them, or add them by hand.")
        return HttpResponseRedirect(reverse("admin:providers_provider_fetch_models", args=[obj.pk]))

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: JsonObject | None = None
    ) -> HttpResponse:
        row = self.get_object(request, object_id)
        context: JsonObject = {"health": health_of([row], with_usage=True)[0]} if row is not None else {}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **context})

    @display(description="URL", ordering="url")
    def address(self, row: Provider) -> str:
        return row.url

    @display(description="State", ordering="enabled")
    def state(self, row: ListedProvider) -> str:
        return row.health.badge.html

    def badge_of(self, row: Provider) -> Badge:
        return health_of([row])[0].badge

    @display(description="Last hour")
    def last_hour(self, row: ListedProvider) -> str:
        usage = row.health.usage
        return f"{_count(usage['attempts'], 'attempt')}, {usage['failed_attempts']:,} failed" if usage else ""

    @display(description="Models", ordering="model_count")
    def model_count(self, row: ListedProvider) -> int:
        return row.model_count

    @display(description="Current credential")
    def masked_credential(self, row: Provider) -> str:
        return row.masked_credential or "none"

    @display(description="Further credentials")
    def further_credentials(self, row: Provider) -> str:
        return ", ".join(map(_described, row.credentials.all())) or "none"

    @display(description="Models")
    def model_names(self, row: Provider) -> str:
        return ", ".join(row.models.order_by("name").values_list("name", flat=True)[:200]) or "none"

    def create(self, request: HttpRequest, values: JsonObject) -> Provider:
        values.pop("clear_credential", None)
        values["credential"] = values.pop("secret")
        models = values.pop("new_models").splitlines()
        format_name = values.pop("format").name
        if not values["unknown_parameters"]:
            del values["unknown_parameters"]
        names = [name.strip() for name in models if name.strip()]
        return services.create_provider(format_name=format_name, models=names, **values)

    def change(self, request: HttpRequest, row: Provider, values: JsonObject) -> None:
        values.pop("new_models", None)
        secret = values.pop("secret", "")
        if values.pop("clear_credential", False) or secret:
            values["credential"] = secret
        if "format" in values:
            values["format_name"] = values.pop("format").name
        services.update_provider(row, **values)

    def destroy(self, request: HttpRequest, row: Provider) -> None:
        services.delete_provider(row)

    def deletion_effects(self, row: Provider) -> list[str]:
        return [
            "Its models, credentials and limits are deleted with it.",
            "It cannot be deleted while live keys or rules refer to it.",
        ]

    @row_action(
        "Test connection",
        icon="network_check",
        path="test",
        effect="The provider is asked for its list of models, with each credential; no prompt is sent.",
        atomic=False,
    )
    def test_connection(self, request: HttpRequest, provider: Provider) -> str:
        begun = time.perf_counter()
        offered = _ask_with_each_credential(provider)
        took = (time.perf_counter() - begun) * 1000
        self.record(request, "test", provider.pk)
        return f"{provider.name} answered within {took:.0f} ms and lists {_count(len(offered), 'model')}."

    @row_action(
        "Fetch models",
        icon="download",
        path="fetch-models",
        effect="The provider is asked for its list of models; new ones are added.",
        atomic=False,
    )
    def fetch_models(self, request: HttpRequest, provider: Provider) -> str:
        offered = _ask(provider, next(iter(credentials_of(provider).values())))
        with transaction.atomic(), self.recorded_change(request, provider, attributes=["models"]):
            present = {name for model in provider.models.all() for name in (model.name, model.name_at_provider)}
            new = [name for name in dict.fromkeys(offered) if name not in present]
            for name in new:
                services.add_model(provider=provider, name=name)
        return "1 model was added." if len(new) == 1 else f"{len(new)} models were added."


def _described(row: ProviderCredential) -> str:
    state = "cleared" if not row.credential else f"weight {row.weight}" if row.enabled else "disabled"
    return f"{row.name} ({row.masked_credential or 'empty'}, {state})"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _ask(provider: Provider, credential: str) -> list[str]:
    transport = Transport(networks=settings.GATEWAY_PROVIDER_NETWORKS, heartbeat_seconds=15)
    return ask_for_models(transport, url=provider.url, auth_method=provider.auth_method, credential=credential)


def _ask_with_each_credential(provider: Provider) -> list[str]:
    """The models listed for the first one; raises ProviderError, which names the one that is refused."""
    lists = []
    for name, credential in credentials_of(provider).items():
        try:
            lists.append(_ask(provider, credential))
        except ProviderError as error:
            raise (ProviderError(f"Credential {name}: {error.message}") if name else error) from None
    return lists[0]
