"""Filters that several tables have."""

from datetime import datetime
from typing import Any, TypeVar

from django.contrib import messages
from django.contrib.admin import BooleanFieldListFilter, ModelAdmin, SimpleListFilter
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import RangeDateTimeFilter, TextFilter

from gateway_project.console.period import MOMENT_NAMES, moment_of

Rows = TypeVar("Rows", bound=QuerySet[Any])


def text_filter(title: str, name: str, lookup: str) -> type[TextFilter]:
    """A filter by one text."""

    class Equals(TextFilter):
        parameter_name = name

        def queryset(self, request: HttpRequest, entries: Rows) -> Rows:
            return entries.filter(**{lookup: self.value()}) if self.value() else entries

    Equals.title = title
    return Equals


class FlagFilter(BooleanFieldListFilter):
    """A boolean filter with the title of its column in the list: `is_active` is "active"."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.title = str(self.field.verbose_name).removeprefix("is ")


class MomentFilter(RangeDateTimeFilter):
    """From one moment (UTC) to another; both seconds belong to the period (moment_of).

    The theme's own filter ignores a text that it cannot parse and so selects every row, also for a purge.
    """

    title: str

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        self.title = f"{self.title} (UTC)"

    def queryset(self, request: HttpRequest, rows: Rows) -> Rows:
        """Raises IncorrectLookupParameters; the next page says why."""
        try:
            bounds = {"gte": self._moment("from"), "lte": self._moment("to")}
        except ValidationError:
            messages.warning(request, f"By {self.title}: this is not a valid date and time. The filter is not applied.")
            raise IncorrectLookupParameters from None
        return rows.filter(**{f"{self.field_path}__{bound}": moment for bound, moment in bounds.items() if moment})

    def _moment(self, side: str) -> datetime | None:
        day, hour = (self.used_parameters.get(f"{self.field_path}_{side}_{part}") or "" for part in (0, 1))
        return moment_of(day, hour, side)


class PeriodFilter(SimpleListFilter):
    """Takes a period in the address of a list that has none of its own: the pages of its rows hand it on."""

    title = parameter_name = MOMENT_NAMES[0]

    def __init__(
        self, request: HttpRequest, params: dict[str, str], model: type[Model], model_admin: ModelAdmin
    ) -> None:
        super().__init__(request, params, model, model_admin)
        for name in MOMENT_NAMES:
            params.pop(name, None)

    def has_output(self) -> bool:
        return False

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        return []

    def queryset(self, request: HttpRequest, rows: Rows) -> Rows:
        return rows

    def expected_parameters(self) -> list[str | None]:
        return list(MOMENT_NAMES)
