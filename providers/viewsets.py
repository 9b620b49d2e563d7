"""Providers, their models and the formats they speak as resources of the management API."""

from django.conf import settings
from django.db.models import QuerySet

from gateway_project.api.fields import read_id
from gateway_project.api.filters import Boolean, Choice, Integer, Text
from gateway_project.api.paging import OptionalPagination
from gateway_project.api.response_specs import ResponseSpec
from gateway_project.api.viewsets import CreateMixin, DestroyMixin, ListMixin, UpdateMixin
from gateway_project.errors import NotFound, PermissionDenied
from gateway_project.json_types import JsonObject
from providers import services
from providers.models import Model, ModelPrice, PriceSource, Provider, ProviderFormat
from providers.querysets import is_current
from providers.serializers import (
    FormatSerializer,
    ModelAttributes,
    ModelSerializer,
    PriceAttributes,
    PriceChanges,
    PriceSerializer,
    ProviderAttributes,
    ProviderChanges,
    ProviderSerializer,
)


class ProviderViewSet(ListMixin, CreateMixin, UpdateMixin, DestroyMixin):
    """Where work can go."""

    resource_name = "providers"
    id_header = "ProviderId"
    queryset = Provider.objects.shown()
    serializer_class = ProviderSerializer
    pagination_class = OptionalPagination
    create_attributes = ProviderAttributes
    update_attributes = ProviderChanges
    filters = {"id": Integer("id")}

    def perform_create(self, values: JsonObject) -> Provider:
        return services.create_provider(**values)

    def perform_update(self, row: Provider, values: JsonObject) -> None:
        services.update_provider(row, **values)

    def perform_destroy(self, row: Provider) -> None:
        services.delete_provider(row)


class ModelViewSet(ListMixin, CreateMixin, UpdateMixin, DestroyMixin):
    """What one provider offers."""

    resource_name = "models"
    id_header = "ModelId"
    serializer_class = ModelSerializer
    pagination_class = OptionalPagination
    create_attributes = update_attributes = ModelAttributes

    @property
    def provider(self) -> Provider:
        """The provider of the path; raises NotFound."""
        provider_id = read_id(self.kwargs["provider_id"])
        row = Provider.objects.filter(pk=provider_id).first()
        if row is None:
            raise NotFound(f"There is no provider with the id {provider_id}.")
        return row

    def get_queryset(self) -> QuerySet[Model]:
        return Model.objects.of(self.provider).order_by("id")

    def location(self, row_id: int) -> str:
        return f"{settings.GATEWAY_BASE_URL}/providers/{read_id(self.kwargs['provider_id'])}/models/{row_id}/"

    def perform_create(self, values: JsonObject) -> Model:
        self.check_bound(values, None)
        return services.add_model(provider=self.provider, **values)

    def perform_update(self, row: Model, values: JsonObject) -> None:
        self.check_bound(values, row.max_output_tokens)
        services.change_model(row, **values)

    def check_bound(self, values: JsonObject, present: int | None) -> None:
        """Who may name models must not cut everybody's answers short: of a model, they change the name alone."""
        if self.caller is not None and self.caller.is_admin:
            return
        # As lists show it, it may come along; it is not written, for an admin may be changing it.
        if values.pop("max_output_tokens", present) != present:
            raise PermissionDenied("only an admin can set it.", field="max_output_tokens")

    def perform_destroy(self, row: Model) -> None:
        services.remove_model(row)


class FormatViewSet(ListMixin):
    """The wire formats that the gateway speaks."""

    resource_name = "formats"
    queryset = ProviderFormat.objects.all()
    serializer_class = FormatSerializer
    pagination_class = OptionalPagination
    filters = {"id": Integer("id"), "name": Text("name")}


class PriceViewSet(ListMixin, CreateMixin, UpdateMixin, DestroyMixin):
    """What models cost; a changed price is a new row, and a deleted one ends."""

    resource_name = "prices"
    id_header = "PriceId"
    queryset = ModelPrice.objects.select_related("provider").order_by("id")
    serializer_class = PriceSerializer
    create_attributes = PriceAttributes
    update_attributes = PriceChanges
    response_specs = {
        "update": ResponseSpec(
            headers={"PriceId": "The id of the new price.", "Content-Location": "Where it is found."}
        )
    }
    filters = {
        "id": Integer("id"),
        "providerId": Integer(lambda prices, number: prices.filter(provider_id=number or None)),
        "host": Text(lambda prices, host: prices.filter(host=host.lower())),
        "model": Text(lambda prices, model: prices.filter(model=model.lower())),
        "modelContains": Text("model__icontains"),
        "source": Choice("source", PriceSource.values),
        "current": Boolean(
            lambda prices, flag: (
                prices.filter(is_current()) if flag else prices.exclude(pk__in=prices.filter(is_current()))
            )
        ),
    }

    def perform_create(self, values: JsonObject) -> ModelPrice:
        return services.set_price(**values)

    def perform_update(self, row: ModelPrice, values: JsonObject) -> None:
        row.pk = services.change_price(row, **values).pk  # what follows speaks of the new row
        self.headers |= {self.id_header: str(row.pk), "Content-Location": self.location(row.pk)}

    def perform_destroy(self, row: ModelPrice) -> None:
        services.end_price(row)
