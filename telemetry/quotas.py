"""What was used of quotas, as the log tells it: for counts that were lost."""

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from django.db.models import BooleanField, Count, F, FloatField, Func, Q, QuerySet, Sum, Value
from django.db.models.functions import Coalesce

from telemetry.models import EntryType, LogEntry

# A request that a limit refused has used nothing.
REFUSED = ("RateLimited", "QuotaExceeded", "ActiveUseLimitReached")
TOKENS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")


@dataclass(frozen=True)
class Used:
    """Requests, tokens and money."""

    requests: int
    tokens: int
    cost: Decimal


def used(subject: str, subject_id: int, *, begin: float, until: float) -> Used:
    """What a key, user, group or provider used by requests that began at `begin` or later and ended before `until`.

    Moments are seconds since 1970. A stored answer is a request of its caller and costs nothing; a provider's are the
    requests that it was asked.
    """
    asked = Q(attempts__gt=0)
    tokens = sum((Coalesce(F(name), 0) for name in TOKENS), start=Value(0))
    counted = Q() if subject != "provider" else asked
    found = _of(subject, subject_id, begin, until).aggregate(
        requests=Count("id", filter=counted & ~Q(exception__in=REFUSED)),
        tokens=Sum(tokens, filter=asked),
        cost=Sum("cost", filter=asked),
    )
    return Used(found["requests"], found["tokens"] or 0, found["cost"] or Decimal(0))


def _of(subject: str, subject_id: int, begin: float, until: float) -> QuerySet[LogEntry]:
    rows = LogEntry.objects.filter(
        entry_type=EntryType.WORK_REQUEST,
        timestamp__gte=datetime.fromtimestamp(begin, UTC),
        timestamp__lte=datetime.fromtimestamp(until, UTC),
    )
    rows = rows.alias(ended=Ended("timestamp", Coalesce("duration_ms", 0.0))).filter(ended__lte=until)
    if subject == "group":
        return rows.alias(of_group=OfGroup("group_ids", Value(subject_id))).filter(of_group=True)
    return rows.filter(**{f"{subject}_id": subject_id})


class Ended(Func):
    """The end of a request, in seconds since 1970, out of its beginning and its milliseconds."""

    output_field = FloatField()
    template = "EXTRACT(EPOCH FROM %(expressions)s / 1000.0"
    arg_joiner = ") + "

    def as_sqlite(self, compiler, connection, **options):
        template = "(julianday(%(expressions)s / 1000.0"
        return self.as_sql(compiler, connection, template=template, arg_joiner=") - 2440587.5) * 86400.0 + ", **options)


class OfGroup(Func):
    """Whether a list of ids holds one."""

    output_field = BooleanField()
    template = "(%(expressions)s::bigint))"
    arg_joiner = " @> to_jsonb("

    def as_sqlite(self, compiler, connection, **options):
        template = "EXISTS (SELECT 1 FROM json_each(%(expressions)s)"
        return self.as_sql(compiler, connection, template=template, arg_joiner=") WHERE value = ", **options)
