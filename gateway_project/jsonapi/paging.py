"""Pages of lists: page[size] and page[number], and the meta of the page that is served."""

from django.core.paginator import Page
from rest_framework.response import Response
from rest_framework_json_api.pagination import JsonApiPageNumberPagination

from gateway_project.errors import ValidationError
from gateway_project.jsonapi.filters import DIGITS


class ApiPagination(JsonApiPageNumberPagination):
    """Pages of 20 by default and of 100 at most; raises ValidationError for a page that does not exist."""

    page_size = 20

    def paginate_queryset(self, queryset, request, view=None) -> list:
        self.request = request
        paginator = self.django_paginator_class(queryset, self.size(request))
        number = self.number(request)
        if number > max(1, paginator.num_pages):
            raise ValidationError(f"{self.page_query_param}: the last page is {max(1, paginator.num_pages)}.")
        self.page: Page = paginator.page(number)
        return list(self.page)

    def check(self, request) -> None:
        """Raise ValidationError unless both parameters are above 0, for answers that have no pages."""
        self.size(request)
        self.number(request)

    def size(self, request) -> int:
        """How many rows a page has."""
        return min(_above_zero(request, self.page_size_query_param, self.page_size), self.max_page_size)

    def number(self, request) -> int:
        """Which page is asked for."""
        return _above_zero(request, self.page_query_param, 1)

    def get_paginated_response(self, data) -> Response:
        paginator = self.page.paginator
        return listing(data, total=paginator.count, number=self.page.number, size=paginator.per_page)


def listing(data, *, total: int, number: int, size: int) -> Response:
    """A list of serialized rows with its meta."""
    return Response({"results": data, "meta": {"total_count": total, "page_number": number, "page_size": size}})


def _above_zero(request, name: str, default: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not DIGITS.match(text) or int(text) < 1:
        raise ValidationError(f"{name}: must be a whole number above 0.")
    return int(text)
