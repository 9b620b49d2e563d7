"""Access rules as a resource of the management API."""

from typing import Any

from rest_framework.response import Response

from gateway_project.api.filters import Boolean, Filter, Integer, Text
from gateway_project.api.paging import whole_list
from gateway_project.api.viewsets import CreateMixin, DestroyMixin, ListMixin, UpdateMixin
from rules import services
from rules.models import Everyone, Rule
from rules.serializers import RuleAttributes, RuleSerializer


def _for(field: str, everyone: str) -> Filter:
    """Rules for one user or group; 0 finds those for everyone, and nothing else does."""
    return Integer(
        lambda rules, given: rules.filter(**{field: given}) if given else rules.filter(everyone=everyone),
        "0 selects the rules for everyone; nothing else does.",
    )


class RuleViewSet(ListMixin, CreateMixin, UpdateMixin, DestroyMixin):
    """What lets work through."""

    resource_name = "rules"
    id_header = "RuleId"
    queryset = Rule.objects.shown()
    serializer_class = RuleSerializer
    create_attributes = update_attributes = RuleAttributes
    filters = {
        "userId": _for("user_id", Everyone.USER),
        "groupId": _for("group_id", Everyone.GROUP),
        "providerId": Integer(
            lambda rules, given: rules.filter(provider_id=given or None), "0 selects the rules for any provider."
        ),
        "name": Text("name"),
        "allResults": Boolean("", "All of them on one page."),  # list() looks at it
    }

    def list(self, request, **kwargs) -> Response:
        self.paginator.check(request)
        if not self.filter_values().get("allResults"):
            return super().list(request, **kwargs)
        rows = self.get_serializer(self.filter_queryset(self.get_queryset()), many=True).data
        return whole_list(request, rows)

    def perform_create(self, values: dict[str, Any]) -> Rule:
        return services.create_rule(**values)

    def perform_update(self, row: Rule, values: dict[str, Any]) -> None:
        services.update_rule(row, **values)

    def perform_destroy(self, row: Rule) -> None:
        services.delete_rule(row)
