"""Log entries, cache entries and usage as resources of the management API."""

from collections.abc import Sequence
from typing import ClassVar

from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.managing.groups import administered_groups
from gateway_project.api.audit import filters_of, start_export
from gateway_project.api.documents import Plain, prefers_media_type
from gateway_project.api.fields import read_id
from gateway_project.api.filters import ChoiceFilter, DateTimeFilter, Filter, IntegerFilter, TextFilter, read_parameters
from gateway_project.api.names import camel, snake
from gateway_project.api.paging import ApiPagination, PagePosition, page_document
from gateway_project.api.response_specs import ResponseSpec
from gateway_project.api.viewsets import PAGING, ApiViewSet, ListMixin
from gateway_project.errors import NotFound, PermissionDenied, ValidationError
from gateway_project.json_types import JsonObject
from telemetry import services
from telemetry.comparison import describe_comparison
from telemetry.guardrails.rollup import RESULTS
from telemetry.models import CacheEntry, EntrySource, EntryType, LogEntry, Outcome
from telemetry.paging import EntryPagination
from telemetry.querysets import EntryQuerySet, LogEntryQuerySet
from telemetry.serializers import (
    CacheEntrySerializer,
    ComparisonAnswer,
    LogEntrySerializer,
    UnpricedSerializer,
    UsageSerializer,
)
from telemetry.usage import statistics

CSV = "text/csv"
COMMON = {
    "start": DateTimeFilter(lambda entries, moment: entries.between(start=moment), "Only entries from this time on."),
    "end": DateTimeFilter(lambda entries, moment: entries.between(end=moment), "Only entries before this time."),
    "search": TextFilter(lambda entries, text: entries.containing(text), "Part of their text."),
    "id": IntegerFilter("user_id", "The user who caused them."),
}


class EntryViewSet(ListMixin):
    """Entries of the caller's own requests; all entries with the feature `sees_all`."""

    sees_all: ClassVar[str]
    pagination_class = EntryPagination

    def get_queryset(self) -> EntryQuerySet:
        entries = super().get_queryset()
        assert isinstance(entries, EntryQuerySet)
        caller = self.authenticated_caller
        return entries if caller.has(self.sees_all) else entries.of_user(caller.user.pk)


class LogViewSet(EntryViewSet):
    """The log: one entry per work request, and messages about all other events.

    Admins of a group see, besides their own, the requests that its members made as members. Only admins see messages
    with the causes of errors.
    """

    resource_name = "logs"
    sees_all = "logs.view_all"
    queryset = LogEntry.objects.newest_first()
    serializer_class = LogEntrySerializer
    filters = {
        **COMMON,
        "type": ChoiceFilter("entry_type", EntryType.values),
        "source": ChoiceFilter("entry_source", EntrySource.values),
        "guardrail": IntegerFilter(
            lambda entries, number: entries.guarded_by(id=number),
            "The id of a guardrail that searched the request or its answer. Together with guardrailResult, this "
            "guardrail had that result.",
        ),
        "guardrailResult": ChoiceFilter(
            lambda entries, result: entries.guarded_by(result=result),
            list(RESULTS),
            "The result of a guardrail.",
        ),
        "trustedIssuer": TextFilter("trusted_issuer", "The name of the trusted issuer whose token was sent."),
        "model": TextFilter("model", "The whole name of the model that the request asked for."),
        "outcome": ChoiceFilter("outcome", [value for value in Outcome.values if value]),
        "attemptedProvider": IntegerFilter(
            lambda entries, number: entries.asking(number),
            "A provider that was asked, even if another one served the request in the end.",
        ),
        "groupId": IntegerFilter(
            lambda entries, number: entries.of_groups([number]),
            "Requests whose user was in the group, or in a group below it, at that moment.",
        ),
    }

    def filter_queryset(self, queryset: QuerySet) -> QuerySet:
        entries = super().filter_queryset(queryset)
        values = self.filter_values()
        if {"guardrail", "guardrailResult"} <= values.keys():  # of the same guardrail
            assert isinstance(entries, LogEntryQuerySet)
            return entries.guarded_by(id=values["guardrail"], result=values["guardrailResult"])
        return entries

    def get_queryset(self) -> EntryQuerySet:
        entries = self.visible_entries()
        assert isinstance(entries, LogEntryQuerySet)
        return entries if self.authenticated_caller.is_admin else entries.without_causes()

    def visible_entries(self) -> EntryQuerySet:
        """The entries that the caller's permissions and groups show."""
        own, caller = super().get_queryset(), self.authenticated_caller
        if caller.has(self.sees_all) or not (groups := administered_groups(caller)):
            return own
        if self.action == "list":
            group_id = self.filter_values().get("groupId")
            return own if group_id not in groups else LogEntry.objects.newest_first().of_groups([group_id])
        return own | LogEntry.objects.newest_first().of_groups(groups)


class ComparisonViewSet(LogViewSet):
    """How long the stages of a request took beside similar requests; for users who may see its entry."""

    resource_name = "comparison"
    response_specs = {"retrieve": ResponseSpec((ComparisonAnswer,))}

    def retrieve(self, request: Request, **kwargs: str) -> Response:
        """Compare the stages of a request with those of its kind

        The kind is type, source, provider, model, stream or not, and outcome. The newest 1,000 of the 24 hours before
        the request are compared, as far as the caller may see their entries.
        """
        return Response(Plain(data=describe_comparison(self.get_object(), self.get_queryset())))


class CacheViewSet(EntryViewSet):
    """Stored responses."""

    resource_name = "cache"
    sees_all = "cache.view_all"
    queryset = CacheEntry.objects.newest_first()
    serializer_class = CacheEntrySerializer
    filters = COMMON
    parameters = {"destroy": COMMON}

    def destroy(self, request: Request, **kwargs: str) -> Response:
        """Delete one entry by its path, or all entries that the filters of the list select.

        With both, the entry goes if the filters select it.
        They are gone from the list and from the cache that serves them.
        """
        if self.document or self.document.id is not None:
            raise ValidationError("Select the entries in the query, not in the body.")
        entries = self.selected_entries()
        services.complete_cache_list()
        with transaction.atomic():
            removed = services.purge_entries(entries)
            self.record(self.target_entry(), before={"removed": removed, "filters": dict(request.query_params.items())})
        return Response(Plain())

    def selected_entries(self) -> EntryQuerySet:
        """The selected entries: an id in the path applies in addition to the filters.

        Raises ValidationError and NotFound.
        """
        entries, target = self.get_queryset(), self.target_entry()
        for name, value in read_parameters(self.request.query_params, self.filters).items():
            entries = self.filters[name].apply(entries, value)
        if target is None:
            return entries
        if not entries.filter(pk=target).exists():
            raise NotFound(f"There is no stored response with the id {target} that the query selects.")
        return entries.filter(pk=target)

    def target_entry(self) -> int | None:
        """The id in the path. The parameter `id` in the query is a user's."""
        return read_id(self.kwargs["id"]) if "id" in self.kwargs else None


class Dimensions(Filter):
    """The attributes by which usage is grouped."""

    expected = f"one or two of {', '.join(statistics.DIMENSIONS)}, separated by a comma"
    schema = {"type": "string", "default": "day", "examples": ["day", "model", "day,user"]}

    def read(self, text: str) -> tuple[str, ...]:
        names = tuple(text.split(","))
        if len(names) > statistics.MAX_DIMENSIONS or len(set(names) & statistics.DIMENSIONS.keys()) < len(names):
            raise ValueError
        return names


class Tag(Filter):
    """A tag, as in the header X-Svc-Tags: name=value."""

    expected = "name=value"
    schema = {"type": "string", "pattern": "^[^=]+="}

    def read(self, text: str) -> tuple[str, str]:
        name, equals, value = text.partition("=")
        if not equals or "\0" in text:
            raise ValueError
        return name, value


class Sort(Filter):
    """The order of the rows."""

    expected = (
        f"one of {', '.join(map(camel, statistics.SORTED_BY))} or of `by`; with a minus in front: the greatest first"
    )
    schema = {"type": "string"}

    def read(self, text: str) -> str:
        name = snake(text.removeprefix("-"))
        if name not in (*statistics.SORTED_BY, *statistics.DIMENSIONS):
            raise ValueError
        return f"-{name}" if text.startswith("-") else name


class Form(Filter):
    """The format of the answer."""

    expected = "csv or json"
    schema = {"type": "string", "enum": ["csv", "json"]}

    def read(self, text: str) -> str:
        return {"csv": "csv", "json": "json"}[text]


PERIOD = {
    "from": DateTimeFilter("", "Starts with the hour of this time (default: 30 days including today, UTC)."),
    "to": DateTimeFilter("", "Exclusive, rounded up to the next full hour."),
}


class UsageViewSet(ApiViewSet):
    """Usage and its cost: the caller's own, or all with the feature stats.view."""

    resource_name = "usage"
    serializer_class = UsageSerializer
    other_media_types = {"list": {CSV: {"type": "string"}}}
    pagination_class = ApiPagination
    filters = {
        **PERIOD,
        "by": Dimensions("", "The dimensions to group by."),
        "sort": Sort(
            "",
            "The order (default: by time if the first dimension is hour or day, otherwise the most requests first).",
        ),
        "format": Form("", "csv: all rows as comma-separated values, like Accept: text/csv."),
        "userId": IntegerFilter("user_id"),
        "groupId": IntegerFilter("group"),
        "keyId": IntegerFilter("key_id"),
        "providerId": IntegerFilter("provider_id"),
        "model": TextFilter("model"),
        "alias": TextFilter("alias"),
        "tag": Tag("tag", "A tag of the requests, as name=value."),
    }

    def list(self, request: Request, **kwargs: str) -> HttpResponseBase:
        """Usage by day, user, group, key, provider, model, alias or tag

        Added up from hours, so in full hours. A user with several groups counts for each of them, a request with
        several tags for each of those.
        """
        values = self.filter_values()
        assert isinstance(self.paginator, ApiPagination)
        size, number = self.paginator.size(request), self.paginator.number(request)
        query = self.usage_query(values)
        if values.get("format") == "csv" or ("format" not in values and prefers_media_type(request, CSV)):
            self.refuse_paging()
            return csv_response(services.usage_csv(query), query, filters_of(request.query_params))
        page = services.usage(query, (number - 1) * size, size)
        if number > 1 and not page.rows:
            raise ValidationError("the list has fewer pages.", parameter="page[number]")
        services.add_health(page.rows)
        position = PagePosition(number, size, page.total, has_next=number * size < page.total)
        response = page_document(request, self.get_serializer(page.rows, many=True).data, position)
        response.data["meta"] |= {"from": query.start, "to": query.end}
        return response

    def refuse_paging(self) -> None:
        """Raises ValidationError for a page of a CSV file, which always has all rows."""
        if parameters := [name for name in PAGING if name in self.request.query_params]:
            raise ValidationError("omit it: comma-separated values have no pages.", parameter=parameters[0])

    def usage_query(self, values: JsonObject) -> statistics.UsageQuery:
        """The query. Raises ValidationError, and PermissionDenied for somebody else's usage."""
        by, sort = values.get("by", ("day",)), values.get("sort", "")
        if sort.removeprefix("-") not in ("", *statistics.SORTED_BY, *by):
            raise ValidationError("must be a measure or one of the dimensions that are grouped by.", parameter="sort")
        filters = {str(self.filters[name].lookup): value for name, value in values.items() if self.filters[name].lookup}
        if not self.authenticated_caller.has("stats.view"):
            self.narrow(filters, by)
        return statistics.UsageQuery(*services.period(values.get("from"), values.get("to")), by, filters, sort)

    def narrow(self, filters: JsonObject, by: Sequence[str]) -> None:
        """Leave the usage of a group that the caller administers, or else their own; raises PermissionDenied."""
        caller = self.authenticated_caller
        if "group" in filters and filters["group"] in administered_groups(caller):
            if "group" in by:  # it would name the other groups of the members
                raise PermissionDenied("Usage by group needs the permission stats.view.")
            return
        if filters.setdefault("user_id", caller.user.pk) != caller.user.pk:
            raise PermissionDenied("The usage of others needs the permission stats.view.")


def csv_response(text: str, query: statistics.UsageQuery, filters: JsonObject) -> HttpResponse:
    """Usage as comma-separated values; `filters` are for the audit."""
    name = f"usage-{query.start:%Y-%m-%d}-{query.end:%Y-%m-%d}.csv"
    headers = start_export("usage", filters, file_name=name)
    return HttpResponse(text, content_type=f"{CSV}; charset=utf-8", headers=headers)


class UnpricedViewSet(ApiViewSet):
    """Models that were used and have no price."""

    resource_name = "unpriced"
    serializer_class = UnpricedSerializer
    pagination_class = ApiPagination
    filters = PERIOD

    def list(self, request: Request, **kwargs: str) -> Response:
        """List models that were used and have no price."""
        values = self.filter_values()
        rows = services.list_models_without_price(*services.period(values.get("from"), values.get("to")))
        assert isinstance(self.paginator, ApiPagination)
        page: list[JsonObject] = self.paginator.paginate_queryset(rows, request, self)  # type: ignore[arg-type]  # a list has pages too
        return self.get_paginated_response(self.get_serializer(page, many=True).data)
