"""Pages of lists: page[size] and page[number], and the meta and links of the page that is served."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

from django.conf import settings
from django.core.paginator import Page
from django.db.models import Model, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework_json_api.pagination import JsonApiPageNumberPagination

from gateway_project.api.fields import DIGITS
from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject

Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class PagePosition:
    """Which page of a list is served, and how long the list is."""

    number: int
    size: int
    total: int
    has_next: bool
    is_estimated: bool = False  # whether `total` is an estimate, so that the last page is unknown

    def meta(self) -> dict[str, int | bool]:
        meta = {"total_count": self.total, "page_number": self.number, "page_size": self.size}
        return {**meta, "total_count_estimated": True} if self.is_estimated else meta

    def neighbours(self) -> dict[str, int]:
        """The numbers of the pages that links lead to; a page that does not exist is left out."""
        numbers = {"first": 1}
        if not self.is_estimated:
            numbers["last"] = max(1, -(-self.total // self.size))
        if self.number > 1:
            numbers["prev"] = self.number - 1
        if self.has_next:
            numbers["next"] = self.number + 1
        return numbers


class ApiPagination(JsonApiPageNumberPagination):
    """Pages of 20 by default and of 100 at most; raises ValidationError for a page that does not exist."""

    page_size = 20
    is_optional = False  # whether a list is served whole unless a page is asked for

    def paginate_queryset(self, queryset: QuerySet[Row], request: Request, view: APIView | None = None) -> list[Row]:
        self.request = request
        paginator = self.django_paginator_class(queryset, self.size(request))
        number = self.number(request)
        if number > max(1, paginator.num_pages):
            last = max(1, paginator.num_pages)
            raise ValidationError(f"the last page is {last}.", parameter=self.page_query_param)
        self.page: Page = paginator.page(number)
        return list(self.page)

    def check(self, request: Request) -> None:
        """Raise ValidationError unless both parameters are above 0, for responses that have no pages."""
        self.size(request)
        self.number(request)

    def size(self, request: Request) -> int:
        """How many rows a page has."""
        return min(_above_zero(request, self.page_size_query_param, self.page_size), self.max_page_size)

    def number(self, request: Request) -> int:
        """The number of the requested page."""
        return _above_zero(request, self.page_query_param, 1)

    def get_paginated_response(self, data: Sequence[JsonObject]) -> Response:
        return page_document(self.request, data, self.position())

    def position(self) -> PagePosition:
        """The page that paginate_queryset() returned."""
        paginator = self.page.paginator
        return PagePosition(self.page.number, paginator.per_page, paginator.count, self.page.has_next())


class OptionalPagination(ApiPagination):
    """The whole list, unless page[size] or page[number] asks for a page."""

    is_optional = True
    is_whole = False  # whether this list is served whole

    def paginate_queryset(self, queryset: QuerySet[Row], request: Request, view: APIView | None = None) -> list[Row]:
        names = {self.page_size_query_param, self.page_query_param}
        if names & request.query_params.keys():
            return super().paginate_queryset(queryset, request, view)
        self.request, self.is_whole = request, True
        return list(queryset)

    def get_paginated_response(self, data: Sequence[JsonObject]) -> Response:
        return whole_list(self.request, data) if self.is_whole else super().get_paginated_response(data)


def page_document(request: Request, data: Sequence[JsonObject], position: PagePosition) -> Response:
    """A page of serialized rows with its meta and links."""
    numbers = position.neighbours()
    links = {"self": _link(request), **{name: _link(request, number) for name, number in numbers.items()}}
    return Response({"results": data, "meta": position.meta(), "links": links})


def whole_list(request: Request, data: Sequence[JsonObject]) -> Response:
    """All rows on one page, which has no neighbours."""
    meta = {"total_count": len(data), "page_number": 1, "page_size": len(data)}
    return Response({"results": data, "meta": meta, "links": {"self": _link(request)}})


def _link(request: Request, number: int | None = None) -> str:
    """The address of this list, or of another page of it, without the host.

    The header Host is the client's to write, and the gateway may be reached under several names and ports.
    """
    parameters = request.query_params.copy()
    if number is not None:
        parameters[ApiPagination.page_query_param] = str(number)
    query = f"?{parameters.urlencode()}" if parameters else ""
    return f"{urlsplit(settings.GATEWAY_BASE_URL).path}{request.path}{query}"


def _above_zero(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not DIGITS.match(text) or int(text) < 1:
        raise ValidationError("must be a whole number above 0.", parameter=name)
    return int(text)
