"""Access rules as a resource of the management API."""

from functools import partial

from django.db import transaction
from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from gateway_project.api.documents import Plain
from gateway_project.api.filters import BooleanFilter, ChoiceFilter, Filter, IntegerFilter, TextFilter
from gateway_project.api.paging import ApiPagination, whole_list
from gateway_project.api.response_specs import ResponseSpec
from gateway_project.api.viewsets import CreateMixin, DestroyMixin, ListMixin, UpdateMixin
from gateway_project.errors import Conflict
from gateway_project.json_types import JsonObject
from rules import services
from rules.delegation import check_group_rule, check_own_rule, is_delegated, visible_rules
from rules.models import Effect, Everyone, Rule
from rules.serializers import RuleAttributes, RuleSerializer
from rules.versions.serializers import Restoration


def _audience_filter(field: str, everyone: str) -> Filter:
    """Rules for one user or group; 0 selects the rules for everyone, which no other id selects."""
    return IntegerFilter(
        lambda rules, row_id: rules.filter(**{field: row_id}) if row_id else rules.filter(everyone=everyone),
        "0: only the rules for everyone.",
    )


class RuleViewSet(ListMixin, CreateMixin, UpdateMixin, DestroyMixin):
    """Access rules: who may use which models of which providers, and who may not."""

    resource_name = "rules"
    id_header = "RuleId"
    queryset = Rule.objects.shown()
    serializer_class = RuleSerializer
    create_attributes = update_attributes = RuleAttributes
    restore_attributes = Restoration
    response_specs = {"restore": ResponseSpec(errors=(Conflict,))}
    filters = {
        "userId": _audience_filter("user_id", Everyone.USER),
        "groupId": _audience_filter("group_id", Everyone.GROUP),
        "providerId": IntegerFilter(
            lambda rules, row_id: rules.filter(provider_id=row_id or None),
            "0: only the rules for any provider.",
        ),
        "name": TextFilter("name"),
        "effect": ChoiceFilter("effect", Effect.values),
        "allResults": BooleanFilter("", "Return all rules on one page."),  # list() looks at it
    }

    def list(self, request: Request, **kwargs: str) -> Response:
        assert isinstance(self.paginator, ApiPagination)
        self.paginator.check(request)
        if not self.filter_values().get("allResults"):
            return super().list(request, **kwargs)
        rows = self.get_serializer(self.filter_queryset(self.get_queryset()), many=True).data
        return whole_list(request, rows)

    def get_queryset(self) -> QuerySet[Rule]:
        return visible_rules(self.authenticated_caller)

    def perform_create(self, values: JsonObject) -> Rule:
        caller = self.authenticated_caller
        check_group_rule(caller, group_id=values.get("group_id"), effect=values.get("effect", Effect.ALLOW))
        return services.create_rule(**values, is_delegated=is_delegated(caller))

    def perform_update(self, row: Rule, values: JsonObject) -> None:
        caller = self.authenticated_caller

        def check(rule: Rule) -> None:
            check_own_rule(caller, rule)
            group_id, effect = values.get("group_id", rule.group_id), values.get("effect", rule.effect)
            check_group_rule(caller, group_id=group_id, effect=effect)

        services.update_rule(row, check=check, **values, is_delegated=is_delegated(caller))

    def perform_destroy(self, row: Rule) -> None:
        services.delete_rule(row, check=partial(check_own_rule, self.authenticated_caller))

    def restore(self, request: Request, **kwargs: str) -> Response:
        """Make a rule what it was in this version; a deleted rule gets its id back, and so its place in the order."""
        version = self.values(self.restore_attributes)["version"]
        rule_id = self.target_id()
        assert rule_id is not None, "the path has it"
        with transaction.atomic():
            before = self.serialize_stored(Rule(pk=rule_id))
            rule = services.restore_rule(rule_id=rule_id, version=version)
            self.record(rule_id, before=before, after=self.serialize_stored(rule))
        return Response(Plain())
