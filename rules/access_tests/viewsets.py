"""Access tests as a resource of the management API."""

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from gateway_project.api.audit import filters_of, start_export
from gateway_project.api.documents import Plain, prefers_media_type
from gateway_project.api.filters import ChoiceFilter, IntegerFilter, TextFilter
from gateway_project.api.response_specs import ResponseSpec
from gateway_project.api.viewsets import PAGING, CreateMixin, DestroyMixin, ListMixin, UpdateMixin
from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from rules.access_tests import services
from rules.access_tests.documents import FILE_SCHEMA, read_document, write_document
from rules.access_tests.importing import import_access_tests
from rules.access_tests.models import AccessTest, Expectation
from rules.access_tests.serializers import AccessTestAttributes, AccessTestFile, AccessTestSerializer, ImportAnswer

YAML = "application/yaml"


class AccessTestViewSet(ListMixin, CreateMixin, UpdateMixin, DestroyMixin):
    """What somebody may or may not use: a change that breaks such a test is refused."""

    resource_name = "access-tests"
    id_header = "AccessTestId"
    queryset = AccessTest.objects.shown()
    serializer_class = AccessTestSerializer
    create_attributes = update_attributes = AccessTestAttributes
    import_file_attributes = AccessTestFile
    response_specs = {"import_file": ResponseSpec((ImportAnswer,))}
    other_media_types = {"list": {YAML: FILE_SCHEMA}}
    volatile = frozenset({"holds", "because"})
    filters = {
        "id": IntegerFilter("id"),
        "name": TextFilter("name"),
        "userId": IntegerFilter("user_id"),
        "groupId": IntegerFilter("group_id"),
        "providerId": IntegerFilter("provider_id"),
        "model": TextFilter("model"),
        "expected": ChoiceFilter("expected", Expectation.values),
        "format": ChoiceFilter(
            "", ["json", "yaml"], "yaml: exports all rows as a file, like Accept: application/yaml."
        ),
    }

    def list(self, request: Request, **kwargs: str) -> HttpResponse:  # type: ignore[override]  # or a file
        """List access tests, or export them as YAML

        In a file users, groups, keys and providers stand by name. A test about something that is deleted is left out.
        """
        format_name = self.filter_values().get("format")
        if format_name == "yaml" or (format_name is None and prefers_media_type(request, YAML)):
            return self.export()
        return super().list(request, **kwargs)

    def export(self) -> HttpResponse:
        """The chosen tests as a file. Raises ValidationError for a page of it."""
        if parameters := [name for name in PAGING if name in self.request.query_params]:
            raise ValidationError("omit it: a file has no pages.", parameter=parameters[0])
        text = write_document(self.filter_queryset(self.get_queryset()))
        filters = filters_of(self.request.query_params)
        headers = start_export(self.resource_name, filters, file_name="access-tests.yaml")
        return HttpResponse(text, content_type=f"{YAML}; charset=utf-8", headers=headers)

    def import_file(self, request: Request, **kwargs: str) -> Response:
        """Import access tests from YAML

        Those with a new name are created, those with a known one changed, all or none; the others stay.
        """
        result = import_access_tests(read_document(self.values(self.import_file_attributes)["yaml"]))
        return Response(Plain(data=result._asdict()))

    def perform_create(self, values: JsonObject) -> AccessTest:
        return services.create_access_test(**values)

    def perform_update(self, row: AccessTest, values: JsonObject) -> None:
        services.update_access_test(row, **values)

    def perform_destroy(self, row: AccessTest) -> None:
        services.delete_access_test(row)
