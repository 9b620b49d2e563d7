"""Providers and their models in the console."""

import time
from typing import Any, Protocol

from django.contrib import admin, messages
from django.contrib.admin.utils import flatten_fieldsets
from django.db import transaction
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from unfold.decorators import display
from unfold.views import ChangeList

from gateway_project.console.display.badges import Badge
from gateway_project.console.links import link_to, links_to, period_of_page
from gateway_project.console.period import period_of
from gateway_project.console.row_actions import row_action
from gateway_project.console.tables import ServiceAdmin
from gateway_project.console.tabs import Tab, log_tab, usage_tab
from gateway_project.errors import ProviderError
from gateway_project.json_types import JsonObject
from providers import services
from providers.console.choosing import (
    CHOICE_FIELD,
    CHOOSE,
    CHOOSE_NONE,
    Trial,
    ask_provider,
    choice_page,
    new_names,
    trials,
    try_provider,
)
from providers.console.parts import CredentialAdmin, ModelAdmin
from providers.console.presets import PRESETS
from providers.console.price_admin import PriceAdmin
from providers.console.provider_form import ProviderForm
from providers.health.status import Health, health_of
from providers.models import TIMEOUTS, Provider, ProviderCredential, ProviderFormat
from providers.sealing import credentials_of
from providers.viewsets import ProviderViewSet

FOLDED = ["collapse"]  # rarely changed fields; open while one has an error
# The tables of what belongs to a provider are registered with this module.
__all__ = ["CredentialAdmin", "ModelAdmin", "PriceAdmin", "ProviderAdmin"]
NO_MODELS = "The provider has no models, so no request is sent to it. Fetch them, or add them by hand."


class ProviderList(ChangeList):
    """Asks once for the health of all providers of a page."""

    result_list: list[Any]  # rows that have `health` too

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        for provider, health in zip(self.result_list, health_of(self.result_list, with_usage=True), strict=True):
            provider.health = health


class ListedProvider(Protocol):
    """The attributes of a row of the list besides its columns: see ProviderAdmin.get_queryset() and ProviderList."""

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
            Tab("Health", "providers_provider_change", {}, row_id=row.pk, anchor="health"),
            Tab("Keys", "keys_apikey_changelist", {"provider": row.name}, row.api_keys.count()),
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
            ("Load balancing", {"classes": FOLDED, "fields": ["priority", "weight"]}),
            ("Cache", {"classes": FOLDED, "fields": ["cache_scope", "cache_ttl_seconds"]}),
            ("Health checks", {"classes": FOLDED, "fields": ["health_check_seconds", "health_check_always"]}),
            (
                "Timeouts and limits",
                {"classes": FOLDED, "fields": [*TIMEOUTS, "max_response_bytes", "unknown_parameters"]},
            ),
        ]

    def get_changelist(self, request: HttpRequest, **options: object) -> type[ChangeList]:
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
        if CHOOSE in request.POST:
            trials[request] = self.try_out(request)  # before the transaction: no lock is held during the call
        return super().add_view(request, form_url, {**(extra_context or {}), **context})

    def try_out(self, request: HttpRequest) -> Trial:
        """Ask the provider that the form describes."""
        form_class = self.get_form(request, fields=flatten_fieldsets(self.get_fieldsets(request)))
        form_class.is_trial = True
        return try_provider(form_class(request.POST))

    def response_add(self, request: HttpRequest, obj: Provider, post_url_continue: str | None = None) -> HttpResponse:
        """The choice of its models if it was asked for them; without models a warning says that it serves nothing."""
        trial = trials.get(request, Trial())
        if names := new_names(obj, trial.names):
            sentence = _describe_list(obj, trial.milliseconds, len(trial.names))
            return choice_page(request, obj, names, f"The provider is saved. {sentence}")
        if "_popup" in request.POST or obj.models.exists():
            return super().response_add(request, obj, post_url_continue)
        self.message_user(request, f"The provider is saved. {NO_MODELS}", messages.WARNING)
        return HttpResponseRedirect(reverse("admin:providers_provider_fetch_models", args=[obj.pk]))

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: JsonObject | None = None
    ) -> HttpResponse:
        row = self.get_object(request, object_id)
        context: JsonObject = {}
        if row is not None:
            attempts = log_tab(attempted=row.name).for_period(period_of(request.GET.dict()))
            context = {"health": health_of([row], with_usage=True)[0], "attempts_page": attempts.address}
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
        return (
            format_html_join(", ", "{}", ((_credential_link(credential),) for credential in row.credentials.all()))
            or "none"
        )

    @display(description="Models")
    def model_names(self, row: Provider) -> str:
        return links_to(row.models.order_by("name")[:200], period_of_page(row)) or "none"

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
            "The provider cannot be deleted while live keys or rules refer to it.",
        ]

    @row_action(
        "Test connection",
        icon="network_check",
        path="test",
        effect="The gateway asks the provider for its list of models, once with each credential. It sends no prompt.",
        atomic=False,
    )
    def test_connection(self, request: HttpRequest, provider: Provider) -> str:
        started_at = time.perf_counter()
        offered = _ask_with_each_credential(provider)
        took = (time.perf_counter() - started_at) * 1000
        self.record(request, "test", provider.pk)
        return _describe_list(provider, took, len(offered))

    @row_action(
        "Fetch models",
        icon="download",
        path="fetch-models",
        effect="The gateway asks the provider for its list of models. Then you choose which of them to add.",
        atomic=False,
    )
    def fetch_models(self, request: HttpRequest, provider: Provider) -> HttpResponse | str:
        """First the choice among what the provider lists; then the chosen ones are added."""
        if CHOICE_FIELD in request.POST:
            return self.add_models(
                request, provider, [] if CHOOSE_NONE in request.POST else request.POST.getlist("models")
            )
        started_at = time.perf_counter()
        offered = _ask_for_models(provider, next(iter(credentials_of(provider).values())))
        took = (time.perf_counter() - started_at) * 1000
        if names := new_names(provider, offered):
            return choice_page(request, provider, names, _describe_list(provider, took, len(offered)))
        return f"{_describe_list(provider, took, len(offered))} There is no new model to add."

    def add_models(self, request: HttpRequest, provider: Provider, selection: list[str]) -> str:
        """Add the chosen models; a sentence on how many they are."""
        names = new_names(provider, selection)
        if names:
            with transaction.atomic(), self.recorded_change(request, provider, attributes=["models"]):
                for name in names:
                    services.add_model(provider=provider, name=name)
        elif not provider.models.exists():
            self.message_user(request, NO_MODELS, messages.WARNING)
        return "1 model was added." if len(names) == 1 else f"{len(names)} models were added."


def _credential_link(row: ProviderCredential) -> str:
    state = "cleared" if not row.credential else f"weight {row.weight}" if row.enabled else "disabled"
    return format_html("{} ({}, {})", link_to(row), row.masked_credential or "empty", state)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _describe_list(provider: Provider, milliseconds: float, number: int) -> str:
    return f"{provider.name} answered within {milliseconds:.0f} ms and lists {_count(number, 'model')}."


def _ask_for_models(provider: Provider, credential: str) -> list[str]:
    return ask_provider(
        url=provider.url,
        auth_method=provider.auth_method,
        credential=credential,
        format_name=provider.format.name,
    )


def _ask_with_each_credential(provider: Provider) -> list[str]:
    """The models listed for the first one; raises ProviderError, which names the one that is refused."""
    lists = []
    for name, credential in credentials_of(provider).items():
        try:
            lists.append(_ask_for_models(provider, credential))
        except ProviderError as error:
            raise (ProviderError(f"Credential {name}: {error.message}") if name else error) from None
    return lists[0]
