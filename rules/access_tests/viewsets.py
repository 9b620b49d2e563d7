"""Access tests as a resource of the management API."""

from gateway_project.api.filters import ChoiceFilter, IntegerFilter, TextFilter
from gateway_project.api.viewsets import CreateMixin, DestroyMixin, ListMixin, UpdateMixin
from gateway_project.json_types import JsonObject
from rules.access_tests import services
from rules.access_tests.models import AccessTest, Expectation
from rules.access_tests.serializers import AccessTestAttributes, AccessTestSerializer


class AccessTestViewSet(ListMixin, CreateMixin, UpdateMixin, DestroyMixin):
    """What somebody may or may not use: a change that breaks such a test is refused."""

    resource_name = "access-tests"
    id_header = "AccessTestId"
    queryset = AccessTest.objects.shown()
    serializer_class = AccessTestSerializer
    create_attributes = update_attributes = AccessTestAttributes
    volatile = frozenset({"holds", "because"})
    filters = {
        "id": IntegerFilter("id"),
        "name": TextFilter("name"),
        "userId": IntegerFilter("user_id"),
        "groupId": IntegerFilter("group_id"),
        "providerId": IntegerFilter("provider_id"),
        "model": TextFilter("model"),
        "expected": ChoiceFilter("expected", Expectation.values),
    }

    def perform_create(self, values: JsonObject) -> AccessTest:
        return services.create_access_test(**values)

    def perform_update(self, row: AccessTest, values: JsonObject) -> None:
        services.update_access_test(row, **values)

    def perform_destroy(self, row: AccessTest) -> None:
        services.delete_access_test(row)
