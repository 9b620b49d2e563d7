"""What belongs to a provider in the console: its models and its further credentials."""

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import escape
from unfold.decorators import display
from unfold.views import ChangeList
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminPasswordWidget

from gateway_project.console.filters import text_filter
from gateway_project.console.forms.service_form import ServiceForm
from gateway_project.console.links import link_column
from gateway_project.console.tables import ServiceAdmin
from gateway_project.console.tabs import Tab, log_tab, usage_tab
from gateway_project.json_types import JsonObject
from providers import services
from providers.columns import Modality
from providers.console.listed_models import ListedModel, ModelList, count_rules_of_model, price_cell, try_link
from providers.models import CREDENTIAL_OPTIONS, Model, ProviderCredential
from providers.pricing.offered import ids_of_prices_of
from providers.viewsets import CredentialViewSet, ModelViewSet

SECRET_HELP = "Stored encrypted and never shown again."


def secret_field(help_text: str) -> forms.CharField:
    """A field for a credential, which is set and never shown."""
    return forms.CharField(
        label="Credential",
        required=False,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "off"}),
        help_text=f"{SECRET_HELP} {help_text}",
    )


class ModalitiesField(forms.MultipleChoiceField):
    """A choice of modalities; none chosen means those that are known."""

    def __init__(self, label: str) -> None:
        super().__init__(
            label=label,
            required=False,
            choices=Modality.choices,
            widget=UnfoldAdminCheckboxSelectMultipleWidget,
            help_text="None chosen: as the public table says.",
        )

    def clean(self, value: object) -> list[str] | None:
        return super().clean(value) or None


class ModelForm(ServiceForm):
    input_modalities = ModalitiesField("Reads")
    output_modalities = ModalitiesField("Writes")

    class Meta:
        model = Model
        fields = [
            *("provider", "name", "upstream_name", "context_length", "max_output_tokens"),
            *("input_modalities", "output_modalities"),
        ]
        help_texts = {"name": "The name that clients, rules, prices and the log use."}

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        if self.instance.pk is None:
            return
        facts = self.instance.facts
        placeholders = {
            "upstream_name": self.instance.name,
            "context_length": facts.context_length,
            "max_output_tokens": facts.max_output_tokens,
        }
        for name, value in placeholders.items():
            if value and name in self.fields:
                self.fields[name].widget.attrs["placeholder"] = str(value)
        for name in ("input_modalities", "output_modalities"):
            if (values := getattr(facts, name)) and name in self.fields:
                self.fields[name].help_text = escape(f"None chosen: as the public table says ({', '.join(values)}).")


class PartAdmin(ServiceAdmin):
    """A table of what belongs to providers, and stays with them."""

    list_filter: ClassVar[list[Any]] = ["provider"]
    autocomplete_fields = ["provider"]
    list_select_related = ["provider"]
    ordering = ["provider_id", "name"]

    def get_readonly_fields(self, request: HttpRequest, obj: object = None) -> list[str]:
        return ["provider"] if obj else []


@admin.register(Model)
class ModelAdmin(PartAdmin):
    """What providers offer."""

    viewset = ModelViewSet
    form = ModelForm
    empty_message = "There are no models. Add them here, or fetch them on the provider's page."
    list_display = ["name", link_column("provider"), "upstream_name", "context", "price", "traffic", "try_it"]
    list_filter = ["provider", text_filter("name", "name", "name")]
    search_fields = ["name", "upstream_name", "provider__name"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Model]:
        return super().get_queryset(request).select_related("provider")

    def get_changelist(self, request: HttpRequest, **options: object) -> type[ChangeList]:
        return ModelList

    def tabs(self, row: Model) -> list[Tab]:
        prices = {"for_model": f"{row.provider.name}/{row.name}", "of": "all"}
        providers = Model.objects.filter(name=row.name).count()
        rules = {"for_model": row.name, "at_provider": row.provider.name, "enabled__exact": 1}
        return [
            Tab("Prices", "providers_modelprice_changelist", prices, len(ids_of_prices_of([row]))),
            Tab("Providers", "providers_model_changelist", {"name": row.name}, providers),
            usage_tab(by="user", model=row.name),
            log_tab(served=row.name),
            Tab("Who may use it", "rules_rule_changelist", rules, count_rules_of_model(row.name, row.provider.name)),
            Tab("Try", "playground", {"model": row.name}),
        ]

    @display(description="Context length")
    def context(self, row: Model) -> str:
        return f"{row.facts.context_length:,}" if row.facts.context_length else ""

    @display(description="Price, 1M tokens")
    def price(self, row: ListedModel) -> str:
        return price_cell(row)

    @display(description="Requests, 30 days")
    def traffic(self, row: ListedModel) -> str:
        return "" if row.figures.requests is None else f"{row.figures.requests:,}"

    @display(description="Playground")
    def try_it(self, row: Model) -> str:
        return try_link(row)

    def create(self, request: HttpRequest, values: JsonObject) -> Model:
        return services.add_model(**values)

    def change(self, request: HttpRequest, row: Model, values: JsonObject) -> None:
        services.change_model(row, **values)

    def destroy(self, request: HttpRequest, row: Model) -> None:
        services.remove_model(row)

    def deletion_effects(self, row: Model) -> list[str]:
        return [f"Requests for this model are no longer sent to {row.provider.name}."]


class CredentialForm(ServiceForm):
    """One more credential of a provider. It can be set and is never shown."""

    form_names = {"api_key": "secret"}
    secret = secret_field(
        "Leave empty to keep the credential. A new scheme, host or port in the provider's URL clears it."
    )

    class Meta:
        model = ProviderCredential
        fields = ["provider", "name", *CREDENTIAL_OPTIONS]

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        if self.instance.pk is None:
            self.fields["secret"].help_text = SECRET_HELP


@admin.register(ProviderCredential)
class CredentialAdmin(PartAdmin):
    """Further accounts with providers."""

    viewset = CredentialViewSet
    form = CredentialForm
    empty_message = "There are no further credentials. A provider's first credential is on the page of the provider."
    list_display = ["name", link_column("provider"), "masked_credential", "weight", "enabled"]
    list_filter = ["provider", "enabled"]
    search_fields = ["name", "provider__name"]

    def get_readonly_fields(self, request: HttpRequest, obj: object = None) -> list[str]:
        return ["provider", "masked_credential"] if obj else []

    def get_fields(self, request: HttpRequest, obj: ProviderCredential | None = None) -> list[str]:
        present = ["masked_credential"] if obj else []
        return ["provider", "name", *present, "secret", *CREDENTIAL_OPTIONS]

    @display(description="Current credential")
    def masked_credential(self, row: ProviderCredential) -> str:
        return row.masked_credential or "none"

    def create(self, request: HttpRequest, values: JsonObject) -> ProviderCredential:
        return services.add_credential(credential=values.pop("secret"), **values)

    def change(self, request: HttpRequest, row: ProviderCredential, values: JsonObject) -> None:
        if secret := values.pop("secret", ""):
            values["credential"] = secret
        services.change_credential(row, **values)

    def destroy(self, request: HttpRequest, row: ProviderCredential) -> None:
        services.remove_credential(row)

    def deletion_effects(self, row: ProviderCredential) -> list[str]:
        return [f"Requests to {row.provider.name} are no longer sent with this credential."]
