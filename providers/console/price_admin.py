"""Prices in the console."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from django.contrib import admin
from django.db import models
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from unfold.contrib.filters.admin import TextFilter
from unfold.decorators import display
from unfold.views import ChangeList

from gateway_project.console.display.money import price as exact_price
from gateway_project.console.display.times import utc_time
from gateway_project.console.forms.service_form import ServiceForm, plain_decimal
from gateway_project.console.links import link_column
from gateway_project.console.tables import ServiceAdmin
from gateway_project.json_types import JsonObject
from providers import services
from providers.console.model_links import price_fields
from providers.models import AMOUNTS, SUBJECT, Model, ModelPrice
from providers.pricing.offered import ids_of_offered, ids_of_prices_of
from providers.querysets import is_current
from providers.viewsets import PriceViewSet

if TYPE_CHECKING:
    from django.contrib.admin.filters import _ListFilterChoices

LISTED = ("input", "output", "cache_read")


class CurrentFilter(admin.SimpleListFilter):
    """Prices that hold now, or all with their history."""

    title, parameter_name = "validity", "valid"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin) -> list[tuple[str, str]]:
        return [("now", "now")]

    def queryset(self, request: HttpRequest, prices: QuerySet) -> QuerySet:
        return prices.filter(is_current()) if self.value() == "now" else prices


class OfferedFilter(admin.SimpleListFilter):
    """Prices of models that some provider offers, unless all are chosen: most public prices are of others."""

    title, parameter_name = "models", "of"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin) -> list[tuple[str, str]]:
        return [("all", "All")]

    def choices(self, changelist: ChangeList) -> "Iterator[_ListFilterChoices]":
        """The default has a name of its own."""
        first, *others = super().choices(changelist)
        first["display"] = "My models"
        return iter([first, *others])

    def queryset(self, request: HttpRequest, prices: QuerySet) -> QuerySet:
        return prices if self.value() == "all" else prices.filter(pk__in=ids_of_offered())


class ModelFilter(TextFilter):
    """Prices of a model, given by our name or as `provider/model`: also those for its upstream name, and patterns."""

    title, parameter_name = "model", "for_model"

    def queryset(self, request: HttpRequest, prices: QuerySet) -> QuerySet:
        name = self.value()
        if not name:
            return prices
        return prices.filter(pk__in=ids_of_prices_of(Model.objects.select_related("provider").named(name)))


class PriceForm(ServiceForm):
    class Meta:
        model = ModelPrice
        fields = [*SUBJECT, "currency", *AMOUNTS, "valid_from"]
        help_texts = {
            "model": "The provider's name of the model. * stands for any characters.",
            "input": "Per million tokens.",
            "output": "Per million tokens.",
            "cache_read": "Per million tokens. Empty: the price of input.",
            "cache_write": "Per million tokens. Empty: the price of input.",
            "cache_write_hour": "Per million tokens that are kept for an hour. Empty: as cache write.",
            "reasoning": "Per million tokens. Empty: the price of output.",
            "request": "Per request, in addition to its tokens.",
            "valid_from": "In UTC. Empty or unchanged: from now on.",
        }

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        if field := self.fields.get("valid_from"):
            # The initial value would be in the past when the form is sent; services refuse that.
            field.required, field.initial, field.show_hidden_initial = False, None, False


def amount(field: str) -> Callable[[ModelPrice], str]:
    """A column with a price, without trailing zeros."""

    @display(description=_title(field), ordering=field)
    def shown(row: ModelPrice) -> str:
        value = getattr(row, field)
        return "" if value is None else str(plain_decimal(value))

    return shown


def price_of_tokens(field: str) -> Callable[[ModelPrice], str]:
    """A column of the list with a price for a million tokens, and its currency."""

    @display(description=f"{_title(field)}, 1M tokens", ordering=field)
    def shown(row: ModelPrice) -> str:
        value = getattr(row, field)
        return "" if value is None else exact_price(value, row.currency)

    return shown


def _title(field: str) -> str:
    return field.replace("_", " ").capitalize()


@admin.register(ModelPrice)
class PriceAdmin(ServiceAdmin):
    """Prices of models. A changed price is a new row: log entries keep their cost."""

    viewset = PriceViewSet
    form = PriceForm
    empty_message = "Your models have no prices. The cost of requests is unknown."
    list_display = ["model", link_column("provider"), "host", *map(price_of_tokens, LISTED), "origin", "validity"]
    list_before_template = "console/price_tabs.html"
    list_filter = [OfferedFilter, ModelFilter, "source", "currency", CurrentFilter]
    search_fields = ["model", "host", "provider__name"]
    autocomplete_fields = ["provider"]
    list_select_related = ["provider"]
    ordering = ["-id"]

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, str | list[str]]:
        """The provider and model that the address names, if there is such a model: a link can fill in nothing else."""
        return price_fields(request.GET.dict())

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
        begin, end = utc_time(row.valid_from), utc_time(row.valid_until)
        return format_html("from {} until {}", begin, end) if end else format_html("from {}", begin)

    def create(self, request: HttpRequest, values: JsonObject) -> ModelPrice:
        return services.set_price(**values)

    def store(self, request: HttpRequest, form: ServiceForm) -> models.Model:
        """The stored row: a new row if the price had begun."""
        if form.instance.pk is None or not form.changed_data:
            return super().store(request, form)
        row, before = form.instance, self.serialize_stored(form.instance)
        changed = {name: form.cleaned_data[name] for name in form.changed_data}
        new = services.change_price(row, **changed)
        self.record(request, "update", new.pk, before=before, after=self.serialize_stored(new), attributes=changed)
        return new

    def destroy(self, request: HttpRequest, row: ModelPrice) -> None:
        services.end_price(row)

    def deletion_effects(self, row: ModelPrice) -> list[str]:
        return [
            "From now on the price no longer applies. Existing log entries keep their cost.",
            "The row stays in the list as history.",
        ]
