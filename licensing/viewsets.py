"""Limits, the licence and their usage as resources of the management API."""

import re
import time
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from django.db import transaction
from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.managing.groups import administered_groups
from gateway_project.api.documents import Plain
from gateway_project.api.filters import ChoiceFilter, Filter, IntegerFilter
from gateway_project.api.response_specs import CodeAndMessage, ResponseSpec
from gateway_project.api.viewsets import ApiViewSet, CreateMixin, DestroyMixin, ListMixin, UpdateMixin
from gateway_project.json_types import JsonObject
from licensing import services
from licensing.group_limits import check_group_limit, check_subject
from licensing.models import SUBJECTS, Limit, Measure, Window
from licensing.querysets import LimitQuerySet
from licensing.serializers import (
    LicenceAnswer,
    LicenceAttributes,
    LimitAttributes,
    LimitChanges,
    LimitSerializer,
    StatsAnswer,
    status_document,
)
from licensing.status import LimitStatus, limit_statuses

DEFAULT_DAYS, MAX_DAYS = 30, 3660
DIGITS = re.compile(r"[0-9]{1,4}\Z")
USAGE_FIELDS = {"used", "remaining", "resetsAt", "resets_at"}


class ChangeRecorder(Protocol):
    """Writes a change of the licence to the log."""

    def __call__(self, *, before: object, after: object) -> None: ...


def install_key(key: str, record: ChangeRecorder, *, installed_by_id: int | None = None) -> str:
    """Install a licence key, write it to the log by `record`, and return a sentence. Raises ValidationError."""
    now = time.time()
    with transaction.atomic():
        before = status_document(services.current_terms(), now)
        terms = services.install_licence(key, installed_by_id=installed_by_id)
        record(before=before, after=status_document(terms, now))
    return f"The licence key is installed. {terms.sentence(now)}"


class LicenceViewSet(ApiViewSet):
    """The one licence: its status, and a new key for it."""

    resource_name = "licence"
    create_attributes = LicenceAttributes
    response_specs = {"list": ResponseSpec((LicenceAnswer,)), "create": ResponseSpec((CodeAndMessage,))}

    def list(self, request: Request, **kwargs: str) -> Response:
        """The current licence."""
        self.filter_values()
        return Response(Plain(data={"attributes": status_document(services.current_terms(), time.time())}))

    def create(self, request: Request, **kwargs: str) -> Response:
        """Install a licence key; an invalid one changes nothing."""
        key = self.values(self.create_attributes)["licence_key"]
        message = install_key(key, partial(self.record, None), installed_by_id=self.authenticated_caller.user.pk)
        return Response(Plain(code=200, message=message))


class Days(Filter):
    """A number of days up to today."""

    expected = f"a number of days from 1 to {MAX_DAYS}"
    schema = {"type": "integer", "minimum": 1, "maximum": MAX_DAYS, "default": DEFAULT_DAYS}

    def read(self, text: str) -> int:
        if not DIGITS.match(text) or not 1 <= int(text) <= MAX_DAYS:
            raise ValueError
        return int(text)


class StatsViewSet(ApiViewSet):
    """Active uses: the current number, and the highest of each day."""

    resource_name = "stats"
    filters = {"days": Days("", about="The number of days to include, up to and including today (UTC).")}
    response_specs = {"list": ResponseSpec((StatsAnswer,))}

    def list(self, request: Request, **kwargs: str) -> Response:
        """The number of active users, and the highest number on each of the last days."""
        days = self.filter_values().get("days", DEFAULT_DAYS)
        return Response(Plain(data={"stats": services.statistics(days)}))


def without_usage(limit: JsonObject | None) -> JsonObject | None:
    """A serialized limit without its current status."""
    return limit and {name: value for name, value in limit.items() if name not in USAGE_FIELDS}


class LimitViewSet(ListMixin[Limit], CreateMixin[Limit], UpdateMixin[Limit], DestroyMixin[Limit]):
    """Limits of keys, users, groups and providers. Users see their own, admins see all."""

    resource_name = "limits"
    id_header = "LimitId"
    queryset = Limit.objects.shown().order_by("id")
    serializer_class = LimitSerializer
    create_attributes = LimitAttributes
    update_attributes = LimitChanges
    filters = {
        "id": IntegerFilter("id"),
        **{f"{subject}Id": IntegerFilter(f"{subject}_id") for subject in SUBJECTS},
        "measure": ChoiceFilter("measure", Measure.values),
        "window": ChoiceFilter("window", Window.values),
    }

    def get_queryset(self) -> LimitQuerySet[Limit]:
        limits = Limit.objects.shown().order_by("id")
        caller = self.authenticated_caller
        if caller.is_admin:
            return limits
        own, groups = limits.of(caller.user), administered_groups(caller)
        return own | limits.in_groups(groups) if groups else own

    def paginate_queryset(  # type: ignore[override]  # this view pages limits only, the base any rows
        self, queryset: QuerySet[Limit]
    ) -> list[Limit] | None:
        rows = super().paginate_queryset(queryset)
        self.load_statuses(rows or ())
        return rows

    def load_statuses(self, limits: Sequence[Limit]) -> None:
        self._statuses = dict(zip((limit.pk for limit in limits), limit_statuses(limits), strict=True))

    def status(self, limit: Limit) -> LimitStatus:
        """The status of a limit; those of a page are fetched together."""
        statuses = getattr(self, "_statuses", {})
        return statuses[limit.pk] if limit.pk in statuses else limit_statuses([limit])[0]

    def serialize_stored(self, row: Limit) -> JsonObject | None:
        """Without the status, which changes by itself and would look like a change by the caller."""
        return without_usage(super().serialize_stored(row))

    def perform_create(self, values: JsonObject) -> Limit:
        subject = {name: values[name] for name in SUBJECTS if name in values}
        check_subject(self.authenticated_caller, Limit(**subject))  # before what others have set is looked at
        limit = services.set_limit(**values)
        check_group_limit(self.authenticated_caller, limit)
        return limit

    def perform_update(self, row: Limit, values: JsonObject) -> None:
        check_subject(self.authenticated_caller, row)
        services.change_limit(row, **values)
        if values:
            check_group_limit(self.authenticated_caller, row)

    def perform_destroy(self, row: Limit) -> None:
        check_subject(self.authenticated_caller, row)
        services.delete_limit(row)
