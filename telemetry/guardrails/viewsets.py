"""The counts and the samples of guardrails as resources of the management API."""

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from gateway_project.api import audit
from gateway_project.api.fields import read_id
from gateway_project.api.filters import DateTimeFilter, Filter, IntegerFilter
from gateway_project.api.paging import ApiPagination
from gateway_project.api.viewsets import ApiViewSet, ListMixin
from gateway_project.json_types import JsonObject
from telemetry import services
from telemetry.guardrails.models import GuardrailSample
from telemetry.guardrails.serializers import GuardrailCountsSerializer, GuardrailSampleSerializer
from telemetry.guardrails.statistics import BY, GuardrailQuery, guardrail_counts
from telemetry.paging import EntryPagination
from telemetry.querysets import EntryQuerySet, GuardrailSampleQuerySet


class Grouping(Filter):
    """The attributes by which counts are grouped."""

    expected = f"some of {', '.join(BY)}, separated by commas"
    schema = {"type": "string", "default": "guardrail", "examples": ["guardrail", "day", "day,guardrail,direction"]}

    def read(self, text: str) -> tuple[str, ...]:
        names = tuple(text.split(","))
        if len(set(names) & set(BY)) < len(names):  # unknown, or twice
            raise ValueError
        return names


class GuardrailCountsViewSet(ApiViewSet):
    """How often guardrails searched requests and answers, with the results."""

    resource_name = "guardrail-counts"
    serializer_class = GuardrailCountsSerializer
    pagination_class = ApiPagination
    filters = {
        "from": DateTimeFilter("", "Starts with the hour of this time (default: 30 days including today, UTC)."),
        "to": DateTimeFilter("", "Exclusive, rounded up to the next full hour."),
        "by": Grouping("", "The dimensions to group by (default: guardrail)."),
        "guardrail": IntegerFilter("guardrail_id", "One guardrail, by id."),
    }

    def list(self, request: Request, **kwargs: str) -> Response:
        """Counts of guardrails by guardrail, direction, day or hour

        Counted by the hour from the log, so in full hours. A request whose answer is searched too counts once in each
        direction.
        """
        values = self.filter_values()
        period = services.period(values.get("from"), values.get("to"))
        query = GuardrailQuery(*period, values.get("by", ("guardrail",)), values.get("guardrail"))
        rows: list[JsonObject] = [{"id": place, **row} for place, row in enumerate(guardrail_counts(query), start=1)]
        assert isinstance(self.paginator, ApiPagination)
        page: list[JsonObject] = self.paginator.paginate_queryset(rows, request, self)  # type: ignore[arg-type]  # a list has pages too
        return self.get_paginated_response(self.get_serializer(page, many=True).data)


class GuardrailSampleViewSet(ListMixin[GuardrailSample]):
    """The matches of a guardrail; each reading is audited."""

    resource_name = "samples"
    queryset = GuardrailSample.objects.newest_first()
    serializer_class = GuardrailSampleSerializer
    pagination_class = EntryPagination
    filters = {
        "start": DateTimeFilter(
            lambda samples, moment: samples.between(start=moment), "Only samples from this time on."
        ),
        "end": DateTimeFilter(lambda samples, moment: samples.between(end=moment), "Only samples before this time."),
    }

    def get_queryset(self) -> EntryQuerySet:
        samples = super().get_queryset()
        assert isinstance(samples, GuardrailSampleQuerySet)
        return samples.readable(timezone.now()).filter(guardrail_id=read_id(self.kwargs["guardrail_id"]))

    def list(self, request: Request, **kwargs: str) -> Response:
        """The matches of a guardrail, newest first."""
        response = super().list(request, **kwargs)
        number = read_id(self.kwargs["guardrail_id"])
        # Not by record(), which reads the body that a GET does not have.
        audit.record(self.actor, self.operation, self.resource_name, number, message=f"read samples of {number}")
        return response
