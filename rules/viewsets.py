"""Access rules as a resource of the management API."""

from rest_framework.request import Request
from rest_framework.response import Response

from gateway_project.api.filters import Boolean, Filter, Integer, Text
from gateway_project.api.paging import ApiPagination, whole_list
from gateway_project.api.viewsets import CreateMixin, DestroyMixin, ListMixin, UpdateMixin
from gateway_project.json_types import JsonObject
from rules import services
from rules.models import Everyone, Rule
from rules.serializers import RuleAttributes, RuleSerializer


def _for(field: str, everyone: str) -> Filter:
    """Rules for one user or group; 0 finds those for everyone, and nothing else does."""
    return Integer(
        lambda rules, row_id: rules.filter(**{field: row_id}) if row_id else rules.filter(everyone=everyone),
        "0 selects the rules for everyone; nothing else does.",
    )


class RuleViewSet(ListMixin, CreateMixin, UpdateMixin, DestroyMixin):
    """Access rules: what work they allow, and to whom."""

    resource_name = "rules"
    id_header = "RuleId"
    queryset = Rule.objects.shown()
    serializer_class = RuleSerializer
    create_attributes = update_attributes = RuleAttributes
    filters = {
        "userId": _for("user_id", Everyone.USER),
        "groupId": _for("group_id", Everyone.GROUP),
        "providerId": Integer(
            lambda rules, row_id: rules.filter(provider_id=row_id or None),
            "0 selects the rules for any provider.",
        ),
        "name": Text("name"),
        "allResults": Boolean("", "Return all rules on one page."),  # list() looks at it
    }

    def list(self, request: Request, **kwargs: str) -> Response:
        assert isinstance(self.paginator, ApiPagination)
        self.paginator.check(request)
        if not self.filter_values().get("allResults"):
            return super().list(request, **kwargs)
        rows = self.get_serializer(self.filter_queryset(self.get_queryset()), many=True).data
        return whole_list(request, rows)

    def perform_create(self, values: JsonObject) -> Rule:
        return services.create_rule(**values)

    def perform_update(self, row: Rule, values: JsonObject) -> None:
        services.update_rule(row, **values)

    def perform_destroy(self, row: Rule) -> None:
        services.delete_rule(row)
