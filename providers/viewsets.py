"""Providers, their models and the formats they speak as resources of the management API."""

from collections.abc import Sequence

from django.conf import settings
from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from gateway_project.api.fields import read_id
from gateway_project.api.filters import BooleanFilter, ChoiceFilter, IntegerFilter, TextFilter
from gateway_project.api.paging import OptionalPagination
from gateway_project.api.response_specs import ResponseSpec
from gateway_project.api.viewsets import ApiViewSet, CreateMixin, DestroyMixin, ListMixin, Row, UpdateMixin
from gateway_project.errors import NotFound, PermissionDenied
from gateway_project.json_types import JsonObject
from providers import services
from providers.health.status import health_of
from providers.models import (
    MODEL_OPTIONS,
    Model,
    ModelPrice,
    PriceSource,
    Provider,
    ProviderCredential,
    ProviderFormat,
)
from providers.pricing.serializers import PriceAttributes, PriceChanges, PriceSerializer
from providers.querysets import is_current
from providers.serializers import (
    CredentialAttributes,
    CredentialSerializer,
    FormatSerializer,
    ModelAttributes,
    ModelSerializer,
    ProviderAttributes,
    ProviderChanges,
    ProviderSerializer,
)


class ProviderViewSet(ListMixin, CreateMixin, UpdateMixin, DestroyMixin):
    """Endpoints that serve models."""

    resource_name = "providers"
    id_header = "ProviderId"
    queryset = Provider.objects.shown()
    serializer_class = ProviderSerializer
    pagination_class = OptionalPagination
    create_attributes = ProviderAttributes
    update_attributes = ProviderChanges
    filters = {"id": IntegerFilter("id")}

    def paginate_queryset(  # type: ignore[override]  # this view pages providers only, the base any rows
        self, queryset: QuerySet[Provider]
    ) -> list[Provider] | None:
        rows = super().paginate_queryset(queryset)
        self.add_health(rows or ())
        return rows

    def retrieve(self, request: Request, **kwargs: str) -> Response:
        row = self.get_object()
        self.add_health([row])
        return Response(self.get_serializer(row).data)

    def add_health(self, rows: Sequence[Provider]) -> None:
        """Give each row its health; its details are for admins, as they may name internal addresses."""
        for row, health in zip(rows, health_of(rows), strict=True):
            is_admin = self.authenticated_caller.is_admin
            vars(row).update(health=health, health_detail=health if is_admin else None)

    def perform_create(self, values: JsonObject) -> Provider:
        return services.create_provider(**values)

    def perform_update(self, row: Provider, values: JsonObject) -> None:
        services.update_provider(row, **values)

    def perform_destroy(self, row: Provider) -> None:
        services.delete_provider(row)


MODIFY = "providers.modify"  # the feature to change what others added; admins have every one


class PartOfProvider(ApiViewSet[Row]):
    """A resource below a provider."""

    @property
    def provider(self) -> Provider:
        """The provider of the path; raises NotFound."""
        provider_id = read_id(self.kwargs["provider_id"])
        row = Provider.objects.filter(pk=provider_id).first()
        if row is None:
            raise NotFound(f"There is no provider with the id {provider_id}.")
        return row

    def location(self, row_id: int) -> str:
        provider_id = read_id(self.kwargs["provider_id"])
        return f"{settings.GATEWAY_BASE_URL}/providers/{provider_id}/{self.resource_name}/{row_id}/"


class CredentialViewSet(PartOfProvider, ListMixin, CreateMixin, UpdateMixin, DestroyMixin):
    """The further credentials of one provider: its requests are shared out between them by weight."""

    resource_name = "credentials"
    id_header = "CredentialId"
    serializer_class = CredentialSerializer
    pagination_class = OptionalPagination
    create_attributes = update_attributes = CredentialAttributes

    def get_queryset(self) -> QuerySet[ProviderCredential]:
        return ProviderCredential.objects.of(self.provider).order_by("id")

    def perform_create(self, values: JsonObject) -> ProviderCredential:
        return services.add_credential(provider=self.provider, **values)

    def perform_update(self, row: ProviderCredential, values: JsonObject) -> None:
        services.change_credential(row, **values)

    def perform_destroy(self, row: ProviderCredential) -> None:
        services.remove_credential(row)


class ModelViewSet(PartOfProvider, ListMixin, CreateMixin, UpdateMixin, DestroyMixin):
    """The models of one provider."""

    resource_name = "models"
    id_header = "ModelId"
    serializer_class = ModelSerializer
    pagination_class = OptionalPagination
    create_attributes = update_attributes = ModelAttributes

    def get_queryset(self) -> QuerySet[Model]:
        return Model.objects.of(self.provider).order_by("id")

    def perform_create(self, values: JsonObject) -> Model:
        self.check_options(values, Model(name=values["name"], upstream_name=""))
        caller = self.authenticated_caller
        return services.add_model(
            provider=self.provider, added_by=caller.user.pk, only_own=not caller.has(MODIFY), **values
        )

    def perform_update(self, row: Model, values: JsonObject) -> None:
        self.check_options(values, row)
        caller = self.authenticated_caller
        services.change_model(row, only_renamed_by=None if caller.has(MODIFY) else caller.user.pk, **values)

    def check_options(self, values: JsonObject, row: Model) -> None:
        """Raise PermissionDenied if the caller may not set one of the options, which concern everybody's requests.

        As lists show it, it may come along; it is not written, for somebody else may be changing it.
        """
        caller = self.authenticated_caller
        for name in MODEL_OPTIONS:
            if caller.is_admin or name not in values:
                continue
            is_for_admins = name == "max_output_tokens"
            if caller.has(MODIFY) and not is_for_admins:
                continue
            if values.pop(name) not in _values_without_change(row, name):
                who = "only an admin can set this." if is_for_admins else f"needs the permission {MODIFY}."
                raise PermissionDenied(who, field=name)

    def perform_destroy(self, row: Model) -> None:
        services.remove_model(row)


def _values_without_change(row: Model, name: str) -> list[object]:
    """The values of an option that change nothing: what is stored, and what lists show."""
    value = getattr(row, name)
    if name == "upstream_name":
        return [value, row.name_at_provider]
    fact = getattr(row.facts, name)
    return [value, list(fact) if isinstance(fact, tuple) else fact]


class FormatViewSet(ListMixin):
    """The wire formats that providers can have."""

    resource_name = "formats"
    queryset = ProviderFormat.objects.all()
    serializer_class = FormatSerializer
    pagination_class = OptionalPagination
    filters = {"id": IntegerFilter("id"), "name": TextFilter("name")}


class PriceViewSet(ListMixin, CreateMixin, UpdateMixin, DestroyMixin):
    """Prices of models. A changed price is a new row; a deleted price ends now."""

    resource_name = "prices"
    id_header = "PriceId"
    queryset = ModelPrice.objects.select_related("provider").order_by("id")
    serializer_class = PriceSerializer
    create_attributes = PriceAttributes
    update_attributes = PriceChanges
    response_specs = {
        "update": ResponseSpec(
            headers={"PriceId": "The id of the new price.", "Content-Location": "The path of the new row."}
        )
    }
    filters = {
        "id": IntegerFilter("id"),
        "providerId": IntegerFilter(lambda prices, number: prices.filter(provider_id=number or None)),
        "host": TextFilter(lambda prices, host: prices.filter(host=host.lower())),
        "model": TextFilter(lambda prices, model: prices.filter(model=model.lower())),
        "modelContains": TextFilter("model__icontains"),
        "source": ChoiceFilter("source", PriceSource.values),
        "current": BooleanFilter(
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
