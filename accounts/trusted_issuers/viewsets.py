"""Trusted issuers as a resource of the management API."""

from accounts.trusted_issuers import services
from accounts.trusted_issuers.models import TrustedIssuer
from accounts.trusted_issuers.serializers import TrustedIssuerAttributes, TrustedIssuerSerializer
from gateway_project.api.filters import BooleanFilter, IntegerFilter, TextFilter
from gateway_project.api.viewsets import CreateMixin, DestroyMixin, ListMixin, UpdateMixin
from gateway_project.json_types import JsonObject


class TrustedIssuerViewSet(ListMixin, CreateMixin, UpdateMixin, DestroyMixin):
    """Clusters, clouds and portals whose tokens are accepted for work instead of API keys."""

    resource_name = "trusted-issuers"
    id_header = "TrustedIssuerId"
    queryset = TrustedIssuer.objects.order_by("id")
    serializer_class = TrustedIssuerSerializer
    create_attributes = update_attributes = TrustedIssuerAttributes
    volatile = frozenset({"keyIds", "keysFetchedAt", "keysProblem"})
    filters = {
        "id": IntegerFilter("id"),
        "name": TextFilter("name"),
        "nameContains": TextFilter("name__icontains"),
        "enabled": BooleanFilter("enabled"),
        "issuer": TextFilter("issuer"),
        "audience": TextFilter("audience"),
    }

    def perform_create(self, values: JsonObject) -> TrustedIssuer:
        return services.create_trusted_issuer(**values)

    def perform_update(self, row: TrustedIssuer, values: JsonObject) -> None:
        services.update_trusted_issuer(row, **values)

    def perform_destroy(self, row: TrustedIssuer) -> None:
        services.delete_trusted_issuer(row)
