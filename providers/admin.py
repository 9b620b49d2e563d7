"""Providers and their models in the console."""

import time
from typing import Any, Protocol

from django import forms
from django.conf import settings
from django.contrib import admin
from django.db import models, transaction
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.decorators import display
from unfold.views import ChangeList
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextareaWidget

from gateway_project.console.row_actions import row_action
from gateway_project.console.tables import ServiceAdmin, ServiceForm, plain_decimal
from gateway_project.json_types import JsonObject
from providers import services
from providers.discovery import ask_for_models
from providers.health.status import Health, health_of
from providers.models import AMOUNTS, SUBJECT, TIMEOUTS, Model, ModelPrice, Provider
from providers.querysets import is_current
from providers.transport.transport import Transport
from providers.viewsets import ModelViewSet, PriceViewSet, ProviderViewSet

LISTED = ("input", "output", "cache_read")
DEFAULT_HELP = "Empty: the default setting applies."
SECRET_HELP = "Stored encrypted and never shown again."


class CurrentFilter(admin.SimpleListFilter):
    """Prices that hold now, or all with their history."""

    title, parameter_name = "validity", "valid"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin) -> list[tuple[str, str]]:
        return [("now", "now")]

    def queryset(self, request: HttpRequest, prices: QuerySet) -> QuerySet:
        return prices.filter(is_current()) if self.value() == "now" else prices


class ProviderForm(ServiceForm):
    """A provider; its credential is only ever written."""

    form_names = {"api_key": "secret", "models": "new_models"}
    secret = forms.CharField(
        label="Credential",
        required=False,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "off"}),
        help_text=f"{SECRET_HELP} Leave empty to keep it; a new scheme, host or port in the URL clears it.",
    )
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
            **{name: f"{name.removesuffix('_seconds').replace('_', ' ').capitalize()} (seconds)" for name in TIMEOUTS},
        }

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.instance.pk is not None:
            return
        self.fields["secret"].help_text = SECRET_HELP
        field = self.fields["unknown_parameters"]
        if isinstance(field, forms.TypedChoiceField) and not callable(field.choices):
            field.choices, field.required = [("", "as suits the format"), *field.choices], False
        self.initial["unknown_parameters"] = ""


class ProviderList(ChangeList):
    """Asks once for the health of all providers of a page."""

    result_list: list[Any]  # rows that have `health` too

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        for provider, health in zip(self.result_list, health_of(self.result_list), strict=True):
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
    readonly_fields = ["masked_credential", "model_names"]
    change_form_outer_before_template = "console/provider_health.html"
    actions_detail = ["test_connection", "fetch_models"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Provider]:
        return (
            super().get_queryset(request).select_related("format").annotate(model_count=Count("models", distinct=True))
        )

    def get_fieldsets(self, request: HttpRequest, obj: Provider | None = None) -> list:
        models = ["model_names"] if obj else ["new_models"]
        credential_fields = ["masked_credential", "secret", "clear_credential"] if obj else ["secret"]
        return [
            (None, {"fields": ["name", "format", "url", "enabled"]}),
            ("Credential", {"fields": ["auth_method", *credential_fields]}),
            ("Models", {"fields": models}),
            ("Load balancing", {"fields": ["priority", "weight"]}),
            ("Cache", {"fields": ["cache_scope", "cache_ttl_seconds"]}),
            ("Timeouts and limits", {"fields": [*TIMEOUTS, "max_response_bytes", "unknown_parameters"]}),
        ]

    def get_changelist(self, request: HttpRequest, **options: Any) -> type[ChangeList]:
        return ProviderList

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: JsonObject | None = None
    ) -> HttpResponse:
        row = self.get_object(request, object_id)
        context: JsonObject = {"health": health_of([row])[0]} if row is not None else {}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **context})

    @display(description="URL", ordering="url")
    def address(self, row: Provider) -> str:
        return row.url

    @display(description="State", label={"asked": "success", "new": "info", "resting": "danger"}, ordering="enabled")
    def state(self, row: ListedProvider) -> str:
        return row.health.state

    @display(description="Last hour")
    def last_hour(self, row: ListedProvider) -> str:
        usage = row.health.usage
        return f"{_count(usage['requests'], 'request')}, {_count(usage['errors'], 'error')}" if usage else ""

    @display(description="Models", ordering="model_count")
    def model_count(self, row: ListedProvider) -> int:
        return row.model_count

    @display(description="Present credential")
    def masked_credential(self, row: Provider) -> str:
        return row.masked_credential or "none"

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
            "Its models and limits are deleted with it.",
            "It cannot be deleted while live keys or rules refer to it.",
        ]

    @row_action(
        "Test connection",
        icon="network_check",
        path="test",
        effect="The provider is asked for its list of models, with its credential; no prompt is sent.",
        atomic=False,
    )
    def test_connection(self, request: HttpRequest, provider: Provider) -> str:
        begun = time.perf_counter()
        offered = _ask(provider)
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
        offered = _ask(provider)
        with transaction.atomic(), self.recorded_change(request, provider, attributes=["models"]):
            present = set(provider.models.values_list("name", flat=True))
            new = [name for name in dict.fromkeys(offered) if name not in present]
            for name in new:
                services.add_model(provider=provider, name=name)
        return "1 model was added." if len(new) == 1 else f"{len(new)} models were added."


class PriceForm(ServiceForm):
    class Meta:
        model = ModelPrice
        fields = [*SUBJECT, "currency", *AMOUNTS, "valid_from"]
        help_texts = {
            "model": "The provider's name for it; * matches anything.",
            "input": "For a million tokens.",
            "output": "For a million tokens.",
            "request": "Per request, in addition to its tokens.",
            "valid_from": "In UTC. Leave empty or unchanged for: from now on.",
        }

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if field := self.fields.get("valid_from"):
            # A form that took a while to fill in would send a moment of the past, which services refuse.
            field.required, field.initial, field.show_hidden_initial = False, None, False


def amount(field: str) -> Any:
    """A column with a price, without the zeros that say nothing."""

    @display(description=field.replace("_", " ").capitalize(), ordering=field)
    def shown(row: ModelPrice) -> str:
        value = getattr(row, field)
        return "" if value is None else str(plain_decimal(value))

    return shown


@admin.register(ModelPrice)
class PriceAdmin(ServiceAdmin):
    """What models cost. A changed price is a new row: entries keep the price that they were made at."""

    viewset = PriceViewSet
    form = PriceForm
    empty_message = "There are no prices. The cost of requests is unknown."
    list_display = ["model", "provider", "host", "currency", *map(amount, LISTED), "origin", "validity"]
    list_filter = ["source", "currency", CurrentFilter]
    search_fields = ["model", "host", "provider__name"]
    autocomplete_fields = ["provider"]
    list_select_related = ["provider"]
    ordering = ["-id"]

    def get_readonly_fields(self, request: HttpRequest, obj: ModelPrice | None = None) -> list[str]:
        return list(SUBJECT) if obj else []

    def get_fieldsets(self, request: HttpRequest, obj: ModelPrice | None = None) -> list:
        [(name, options)] = super().get_fieldsets(request, obj)
        if obj is None or not self.is_archived(obj):
            return [(name, options)]
        return [(name, {"fields": [amount(field) if field in AMOUNTS else field for field in options["fields"]]})]

    def is_archived(self, row: ModelPrice) -> bool:
        return row.valid_until is not None

    @display(description="Source", ordering="source")
    def origin(self, row: ModelPrice) -> str:
        return row.source

    @display(description="Valid (UTC)")
    def validity(self, row: ModelPrice) -> str:
        until = f" until {row.valid_until:%Y-%m-%d %H:%M}" if row.valid_until else ""
        return f"from {row.valid_from:%Y-%m-%d %H:%M}{until}"

    def create(self, request: HttpRequest, values: JsonObject) -> ModelPrice:
        return services.set_price(**values)

    def store(self, request: HttpRequest, form: ServiceForm) -> models.Model:
        """The stored row: a new one, where the price had begun."""
        if form.instance.pk is None or not form.changed_data:
            return super().store(request, form)
        row, before = form.instance, self.serialized(form.instance)
        changed = {name: form.cleaned_data[name] for name in form.changed_data}
        new = services.change_price(row, **changed)
        self.record(request, "update", new.pk, before=before, after=self.serialized(new), attributes=changed)
        return new

    def destroy(self, request: HttpRequest, row: ModelPrice) -> None:
        services.end_price(row)

    def deletion_effects(self, row: ModelPrice) -> list[str]:
        return [
            "The price no longer applies from now on; existing log entries keep their cost.",
            "The row stays as history.",
        ]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _ask(provider: Provider) -> list[str]:
    transport = Transport(networks=settings.GATEWAY_PROVIDER_NETWORKS, heartbeat_seconds=15)
    return ask_for_models(
        transport, url=provider.url, auth_method=provider.auth_method, credential=services.credential_of(provider)
    )


class ModelForm(ServiceForm):
    class Meta:
        model = Model
        fields = ["provider", "name", "max_output_tokens"]
        help_texts = {"name": "The provider's name for it, which clients use too."}


@admin.register(Model)
class ModelAdmin(ServiceAdmin):
    """What providers offer."""

    viewset = ModelViewSet
    form = ModelForm
    empty_message = "There are no models. Add them here, or fetch them on the provider's page."
    list_display = ["name", "provider"]
    list_filter = ["provider"]
    search_fields = ["name", "provider__name"]
    autocomplete_fields = ["provider"]
    list_select_related = ["provider"]
    ordering = ["provider_id", "name"]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        return ["provider"] if obj else []

    def create(self, request: HttpRequest, values: JsonObject) -> Model:
        return services.add_model(**values)

    def change(self, request: HttpRequest, row: Model, values: JsonObject) -> None:
        services.change_model(row, **values)

    def destroy(self, request: HttpRequest, row: Model) -> None:
        services.remove_model(row)

    def deletion_effects(self, row: Model) -> list[str]:
        return [f"Requests for it are no longer sent to {row.provider.name}."]
