"""Aliases as a resource of the management API."""

from gateway_project.api.filters import BooleanFilter, IntegerFilter, TextFilter
from gateway_project.api.viewsets import CreateMixin, DestroyMixin, ListMixin, UpdateMixin
from gateway_project.json_types import JsonObject
from rules.aliases import services
from rules.aliases.models import Alias
from rules.aliases.serializers import AliasAttributes, AliasSerializer


class AliasViewSet(ListMixin, CreateMixin, UpdateMixin, DestroyMixin):
    """Names that clients ask for, each with the models that serve it."""

    resource_name = "aliases"
    id_header = "AliasId"
    queryset = Alias.objects.shown()
    serializer_class = AliasSerializer
    create_attributes = update_attributes = AliasAttributes
    filters = {
        "id": IntegerFilter("id"),
        "name": TextFilter("name"),
        "nameContains": TextFilter("name__icontains"),
        "enabled": BooleanFilter("enabled"),
        "providerId": IntegerFilter(
            lambda aliases, row_id: aliases.filter(targets__model__provider_id=row_id).distinct(),
            "Aliases with a target at this provider.",
        ),
    }

    def perform_create(self, values: JsonObject) -> Alias:
        return services.create_alias(**values)

    def perform_update(self, row: Alias, values: JsonObject) -> None:
        services.update_alias(row, **values)

    def perform_destroy(self, row: Alias) -> None:
        services.delete_alias(row)
