"""Trusted issuers as a resource of the management API."""

from rest_framework.request import Request
from rest_framework.response import Response

from accounts.trusted_issuers import services
from accounts.trusted_issuers.fetching import fetch_keys_now
from accounts.trusted_issuers.models import TrustedIssuer
from accounts.trusted_issuers.serializers import (
    FetchedKeys,
    TrustedIssuerAttributes,
    TrustedIssuerSerializer,
    keys_of,
)
from gateway_project.api.documents import Plain
from gateway_project.api.fields import NoAttributes
from gateway_project.api.filters import BooleanFilter, IntegerFilter, TextFilter
from gateway_project.api.response_specs import ResponseSpec
from gateway_project.api.viewsets import CreateMixin, DestroyMixin, ListMixin, UpdateMixin
from gateway_project.errors import Conflict, RateLimited
from gateway_project.json_types import JsonObject


class TrustedIssuerViewSet(ListMixin, CreateMixin, UpdateMixin, DestroyMixin):
    """Clusters, clouds and portals whose tokens are accepted for work instead of API keys."""

    resource_name = "trusted-issuers"
    id_header = "TrustedIssuerId"
    queryset = TrustedIssuer.objects.order_by("id")
    serializer_class = TrustedIssuerSerializer
    create_attributes = update_attributes = TrustedIssuerAttributes
    volatile = frozenset({"keyIds", "keysFetchedAt", "keysProblem"})
    fetch_attributes = NoAttributes
    body_optional = attributes_optional = ("destroy", "fetch")
    response_specs = {"fetch": ResponseSpec((FetchedKeys,), errors=(Conflict, RateLimited))}
    filters = {
        "id": IntegerFilter("id"),
        "name": TextFilter("name"),
        "nameContains": TextFilter("name__icontains"),
        "enabled": BooleanFilter("enabled"),
        "issuer": TextFilter("issuer"),
        "audience": TextFilter("audience"),
    }

    def fetch(self, request: Request, **kwargs: str) -> Response:
        """Fetch the keys of an issuer now; `keysProblem` says why, if that is not possible."""
        self.values(self.fetch_attributes, partial=True)
        row = self.get_object()
        before = keys_of(row)
        fetch_keys_now(row)
        self.record(row.pk, before=before, after=keys_of(row))
        return Response(Plain(**keys_of(row)))

    def perform_create(self, values: JsonObject) -> TrustedIssuer:
        return services.create_trusted_issuer(**values)

    def perform_update(self, row: TrustedIssuer, values: JsonObject) -> None:
        services.update_trusted_issuer(row, **values)

    def perform_destroy(self, row: TrustedIssuer) -> None:
        services.delete_trusted_issuer(row)
