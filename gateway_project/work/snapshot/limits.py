"""Loads limits into a snapshot: those that were set, and those of the credentials of providers."""

from collections.abc import Collection, Iterator
from datetime import timedelta
from decimal import Decimal
from itertools import chain

from django.conf import settings
from django.db.models import Case, QuerySet, When
from django.db.models.functions import Coalesce
from django.utils import timezone

from gateway_project.work.limits.book import LimitBook, LimitRow
from gateway_project.work.limits.kinds import CONCURRENT, CREDENTIAL, REQUESTS, TOKENS, Subject
from gateway_project.work.snapshot.records import Snapshot
from licensing.models import Limit
from providers.models import CREDENTIAL_LIMITS, ProviderCredential
from telemetry.models import LogEntry

# A limit that is set this soon after its key, user or provider was created is checked at once, without a recount.
NEW_FOR = timedelta(minutes=1)
CREDENTIAL_MEASURES = ((REQUESTS, "minute"), (TOKENS, "minute"), (CONCURRENT, "none"))  # of CREDENTIAL_LIMITS


def load_limits(snapshot: Snapshot, ids: Collection[int] | None = None) -> None:
    """Load limits, all or those with these ids."""
    limits, rows = Limit.objects.all(), dict[int, LimitRow]()
    if ids is not None:
        limits = limits.filter(pk__in=ids)
        rows = {limit_id: row for limit_id, row in snapshot.limit_rows.items() if limit_id not in ids}
    snapshot.limit_rows = rows | limit_rows(limits)
    _put_limits(snapshot)


def load_credential_limits(snapshot: Snapshot) -> None:
    """Load the limits of all credentials that are in use."""
    rows = tuple(credential_limit_rows())
    if rows != snapshot.credential_limits:
        snapshot.credential_limits = rows
        _put_limits(snapshot)


def _put_limits(snapshot: Snapshot) -> None:
    """The limits that were loaded, with the settings' defaults for subjects without their own."""
    rows = chain(snapshot.limit_rows.values(), snapshot.credential_limits)
    snapshot.limits = LimitBook(rows, settings.GATEWAY_LIMITS, snapshot.limits.started_at, settings.GATEWAY_GUARDS)


def limit_rows(limits: QuerySet[Limit]) -> dict[int, LimitRow]:
    """The rows for a LimitBook, by id."""
    return dict(_limit_rows(limits))


def _limit_rows(limits: QuerySet[Limit]) -> Iterator[tuple[int, LimitRow]]:
    names = {"key": "key__name", "user": "user__username", "group": "group__name", "provider": "provider__name"}
    ids = [f"{subject}_id" for subject in names]
    created = Coalesce("key__created_at", "user__created_at", "provider__created_at")
    just_now = timezone.now() - NEW_FOR
    is_new = Case(When(bounds_since__lt=created + NEW_FOR, bounds_since__gt=just_now, then=True), default=False)
    columns = ("measure", "window", "amount", "bounds_since", "is_strict", "unpriced", "unpriced_price", "is_new")
    for limit_id, *row in limits.annotate(is_new=is_new).values_list("id", *ids, *names.values(), *columns):
        for kind, subject_id, name in zip(names, row[:4], row[4:8], strict=True):
            if subject_id is not None:
                limit = LimitRow(Subject(kind, subject_id), name, *row[8:])
                yield limit_id, limit._replace(is_new=limit.is_new and _is_unused(limit.subject))


def _is_unused(subject: Subject) -> bool:
    """Whether the log has nothing of a key, user or provider; what is on its way there is seen a moment later."""
    return not LogEntry.objects.filter(**{f"{subject.kind}_id": subject.id}).exists()


def credential_limit_rows() -> Iterator[LimitRow]:
    """The limits of credentials that are in use, for a LimitBook."""
    rows = ProviderCredential.objects.usable().values_list("id", "provider__name", *CREDENTIAL_LIMITS)
    for credential_id, provider, *amounts in rows:
        for (measure, window), amount in zip(CREDENTIAL_MEASURES, amounts, strict=True):
            if amount is not None:
                name = f"of {provider}"  # clients read it: the credential's own name is none of their business
                yield LimitRow(Subject(CREDENTIAL, credential_id), name, measure, window, Decimal(amount))
