"""Identity providers and identities as resources of the management API."""

from rest_framework.request import Request
from rest_framework.response import Response

from accounts.sso import services
from accounts.sso.models import Identity, IdentityProvider
from accounts.sso.serializers import (
    IdentityAttributes,
    IdentityProviderAttributes,
    IdentityProviderSerializer,
    IdentitySerializer,
    KeyNumber,
)
from gateway_project.api.documents import Plain
from gateway_project.api.fields import NoAttributes
from gateway_project.api.filters import BooleanFilter, IntegerFilter, TextFilter
from gateway_project.api.response_specs import ResponseSpec
from gateway_project.api.viewsets import CreateMixin, DestroyMixin, ListMixin, UpdateMixin
from gateway_project.errors import Conflict, ProviderError, ProviderTimeout, RateLimited
from gateway_project.json_types import JsonObject


class IdentityProviderViewSet(ListMixin, CreateMixin, UpdateMixin, DestroyMixin):
    """Where users log in with OpenID Connect, and what that gives them."""

    resource_name = "identity-providers"
    id_header = "IdentityProviderId"
    queryset = IdentityProvider.objects.all()
    serializer_class = IdentityProviderSerializer
    create_attributes = update_attributes = IdentityProviderAttributes
    body_optional = attributes_optional = ("destroy", "fetch")
    fetch_attributes = NoAttributes
    response_specs = {
        "fetch": ResponseSpec((KeyNumber,), errors=(Conflict, RateLimited, ProviderError, ProviderTimeout))
    }
    filters = {
        "id": IntegerFilter("id"),
        "name": TextFilter("name"),
        "slug": TextFilter("slug"),
        "issuer": TextFilter("issuer"),
        "enabled": BooleanFilter("enabled"),
    }

    def fetch(self, request: Request, **kwargs: str) -> Response:
        """Fetch the addresses and keys of a provider now; each process uses them from the next login on."""
        self.values(self.fetch_attributes, partial=True)
        row = self.get_object()
        number = services.fetch_provider_keys(row)
        self.record(row.pk, after={"keys": number})
        return Response(Plain(keys=number))

    def perform_create(self, values: JsonObject) -> IdentityProvider:
        return services.create_identity_provider(**values)

    def perform_update(self, row: IdentityProvider, values: JsonObject) -> None:
        services.update_identity_provider(row, **values)

    def perform_destroy(self, row: IdentityProvider) -> None:
        services.delete_identity_provider(row)


class IdentityViewSet(ListMixin, CreateMixin, DestroyMixin):
    """Which users the subjects of identity providers log in as."""

    resource_name = "identities"
    id_header = "IdentityId"
    queryset = Identity.objects.order_by("id")
    serializer_class = IdentitySerializer
    create_attributes = IdentityAttributes
    volatile = frozenset({"lastLogin"})
    filters = {
        "id": IntegerFilter("id"),
        "userId": IntegerFilter("user_id"),
        "issuer": TextFilter("issuer"),
        "subject": TextFilter("subject"),
    }

    def perform_create(self, values: JsonObject) -> Identity:
        return services.link_identity(**values)

    def perform_destroy(self, row: Identity) -> None:
        services.unlink_identity(row)
