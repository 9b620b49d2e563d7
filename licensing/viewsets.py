"""Limits, the licence, and how far both are used, as resources of the management API."""

import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from rest_framework.response import Response

from gateway_project.api.documents import Plain
from gateway_project.api.filters import Choice, Filter, Integer
from gateway_project.api.response_specs import CodeAndMessage, ResponseSpec
from gateway_project.api.viewsets import ApiViewSet, CreateMixin, DestroyMixin, ListMixin, UpdateMixin
from licensing import services
from licensing.models import SUBJECTS, Limit, Measure, Window
from licensing.serializers import (
    LicenceAnswer,
    LicenceAttributes,
    LimitAttributes,
    LimitChanges,
    LimitSerializer,
    StatsAnswer,
    shown,
)
from licensing.status import LimitStatus, limit_statuses

DEFAULT_DAYS, MAX_DAYS = 30, 3660
DIGITS = re.compile(r"[0-9]{1,4}\Z")
USAGE_FIELDS = {"used", "remaining", "resetsAt", "resets_at"}


def install(key: str, record: Callable[..., None], *, installed_by_id: int | None = None) -> str:
    """Install a licence key and tell the log by `record`; a sentence for whoever did it. Raises ValidationError."""
    now = time.time()
    with transaction.atomic():
        before = shown(services.current(), now)
        terms = services.install(key, installed_by_id=installed_by_id)
        record(before=before, after=shown(terms, now))
    return f"The licence key is installed. {terms.sentence(now)}"


class LicenceViewSet(ApiViewSet):
    """The one licence: its status, and a new key for it."""

    resource_name = "licence"
    create_attributes = LicenceAttributes
    response_specs = {"list": ResponseSpec((LicenceAnswer,)), "create": ResponseSpec((CodeAndMessage,))}

    def list(self, request, **kwargs) -> Response:
        """Which licence is in force."""
        self.filter_values()
        return Response(Plain(data={"attributes": shown(services.current(), time.time())}))

    def create(self, request, **kwargs) -> Response:
        """Install a licence key; one that does not verify changes nothing."""
        key = self.values(self.create_attributes)["licence_key"]
        message = install(key, partial(self.record, None), installed_by_id=self.caller.user.pk)
        return Response(Plain(code=200, message=message))


class Days(Filter):
    """So many days, the last of which is today."""

    expected = f"a number of days from 1 to {MAX_DAYS}"
    schema = {"type": "integer", "minimum": 1, "maximum": MAX_DAYS, "default": DEFAULT_DAYS}

    def read(self, text: str) -> int:
        if not DIGITS.match(text) or not 1 <= int(text) <= MAX_DAYS:
            raise ValueError
        return int(text)


class StatsViewSet(ApiViewSet):
    """Active uses: those of now, and the most of each day."""

    resource_name = "stats"
    filters = {"days": Days("", about="The number of days to include, up to today (UTC).")}
    response_specs = {"list": ResponseSpec((StatsAnswer,))}

    def list(self, request, **kwargs) -> Response:
        """How many users are active, and how many were at most on each of the last days."""
        days = self.filter_values().get("days", DEFAULT_DAYS)
        return Response(Plain(data={"stats": services.statistics(days)}))


def without_usage(found: dict[str, Any] | None) -> dict[str, Any] | None:
    """A serialized limit without its present status."""
    return found and {name: value for name, value in found.items() if name not in USAGE_FIELDS}


class LimitViewSet(ListMixin, CreateMixin, UpdateMixin, DestroyMixin):
    """So much of one measure for one key, user, group or provider; one sees one's own, admins see all."""

    resource_name = "limits"
    id_header = "LimitId"
    queryset = Limit.objects.shown().order_by("id")
    serializer_class = LimitSerializer
    create_attributes = LimitAttributes
    update_attributes = LimitChanges
    filters = {
        "id": Integer("id"),
        **{f"{subject}Id": Integer(f"{subject}_id") for subject in SUBJECTS},
        "measure": Choice("measure", Measure.values),
        "window": Choice("window", Window.values),
    }

    def get_queryset(self) -> QuerySet[Limit]:
        limits = super().get_queryset()
        return limits if self.caller.is_admin else limits.of(self.caller.user)

    def paginate_queryset(self, queryset: QuerySet[Limit]) -> list[Limit]:
        rows = super().paginate_queryset(queryset)
        self._statuses = dict(zip((row.pk for row in rows), limit_statuses(rows), strict=True))
        return rows

    def status(self, limit: Limit) -> LimitStatus:
        """The status of a limit; those of a page are fetched together."""
        known = getattr(self, "_statuses", {})
        return known[limit.pk] if limit.pk in known else limit_statuses([limit])[0]

    def serialized(self, row: Limit) -> dict[str, Any] | None:
        """Without the status, which changes by itself and would look like a change by the caller."""
        return without_usage(super().serialized(row))

    def perform_create(self, values: dict[str, Any]) -> Limit:
        return services.set_limit(**values)

    def perform_update(self, row: Limit, values: dict[str, Any]) -> None:
        services.change_limit(row, **values)

    def perform_destroy(self, row: Limit) -> None:
        services.delete_limit(row)
