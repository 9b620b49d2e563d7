"""Guardrails as a resource of the management API."""

from gateway_project.api.filters import BooleanFilter, ChoiceFilter, IntegerFilter, TextFilter
from gateway_project.api.viewsets import CreateMixin, DestroyMixin, ListMixin, UpdateMixin
from gateway_project.json_types import JsonObject
from gateway_project.server.bodies import MAX_LIST_BYTES
from rules.guardrails import services
from rules.guardrails.models import Action, Direction, Guardrail, GuardrailType
from rules.guardrails.serializers import GuardrailAttributes, GuardrailSerializer


class GuardrailViewSet(ListMixin, CreateMixin, UpdateMixin, DestroyMixin):
    """What requests and answers are searched for, and what happens to what is there."""

    resource_name = "guardrails"
    id_header = "GuardrailId"
    max_body_bytes = MAX_LIST_BYTES
    queryset = Guardrail.objects.in_order()
    serializer_class = GuardrailSerializer
    create_attributes = update_attributes = GuardrailAttributes
    filters = {
        "id": IntegerFilter("id"),
        "name": TextFilter("name"),
        "nameContains": TextFilter("name__icontains"),
        "enabled": BooleanFilter("enabled"),
        "type": ChoiceFilter("type", GuardrailType.values),
        "action": ChoiceFilter("action", Action.values),
        "direction": ChoiceFilter("direction", Direction.values),
    }

    def perform_create(self, values: JsonObject) -> Guardrail:
        return services.create_guardrail(**values)

    def perform_update(self, row: Guardrail, values: JsonObject) -> None:
        services.update_guardrail(row, **values)

    def perform_destroy(self, row: Guardrail) -> None:
        services.delete_guardrail(row)
