"""The versions of a rule, also of a deleted one, as a resource of the management API."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from gateway_project.api.fields import read_id
from gateway_project.api.filters import IntegerFilter
from gateway_project.api.viewsets import ListMixin
from gateway_project.errors import NotFound
from rules.models import Rule, RuleVersion
from rules.versions.querysets import RuleVersionQuerySet
from rules.versions.serializers import RuleVersionSerializer


class RuleVersionViewSet(ListMixin):
    """The versions of one rule, the newest first, each with what it changed; those of a deleted rule stay."""

    resource_name = "versions"
    serializer_class = RuleVersionSerializer
    filters = {
        "compareTo": IntegerFilter(
            "", "`changes` compares each version with this one, instead of with the version before it."
        ),
    }

    def get_queryset(self) -> RuleVersionQuerySet[RuleVersion]:
        return RuleVersion.objects.of(read_id(self.kwargs["rule_id"]))

    def list(self, request: Request, **kwargs: str) -> Response:
        rule_id = read_id(self.kwargs["rule_id"])
        if not self.get_queryset().exists() and not Rule.objects.filter(pk=rule_id).exists():
            raise NotFound(f"No rule with id {rule_id}.")
        return super().list(request, **kwargs)

    def get_serializer_context(self) -> dict[str, Any]:
        return super().get_serializer_context() | {"base": self._base()}

    def _base(self) -> RuleVersion | None:
        """The version that the others are compared with; None for the one before each."""
        number = self.filter_values().get("compareTo")
        if number is None:
            return None
        base = self.get_queryset().filter(number=number).first()
        if base is None:
            raise NotFound(f"There is no version {number} of the rule.")
        return base
