"""What happened: log entries, stored responses, and how far each journal has been shipped.

Rows arrive in batches of plain SQL that name some of the columns, so every column that must have a value has
a default in the database too. Users, providers, keys and rules are plain numbers here: the log outlives them.
"""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from gateway_project.database.indexes import NameIndex
from gateway_project.database.names import SearchedText
from telemetry.audit.models import AuditEntry, AuditSegment
from telemetry.guardrails.models import GuardrailHour, GuardrailSample
from telemetry.log_page.models import SavedFilter
from telemetry.querysets import CacheEntryQuerySet, LogEntryQuerySet

__all__ = ["AuditEntry", "AuditSegment", "GuardrailHour", "GuardrailSample", "SavedFilter"]


class EntryType(models.TextChoices):
    NOT_SET = "Not Set"
    MESSAGE = "Message"
    WORK_REQUEST = "WorkRequest"
    MIRROR = "Mirror"  # a request that another target got too; usage does not count it


class EntrySource(models.TextChoices):
    NOT_SET = "Not Set"
    CACHE = "Cache"
    WORKER = "Worker"


class Severity(models.TextChoices):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Outcome(models.TextChoices):
    NONE = "", "none"
    COMPLETED = "completed"
    DENIED = "denied"
    FAILED = "failed"
    TRUNCATED = "truncated"
    BLOCKED = "blocked"  # by a guardrail
    REVOKED = "revoked"  # the credential, while the request ran
    CLIENT_CLOSED = "client_closed"
    ABORTED = "aborted"


REFUSED = (Outcome.DENIED, Outcome.BLOCKED, Outcome.REVOKED)
# All other outcomes count as errors.
NO_ERRORS = (Outcome.COMPLETED, *REFUSED, Outcome.CLIENT_CLOSED)


class Operation(models.TextChoices):
    NONE = "", "none"
    CHAT = "chat"
    COMPLETION = "completion"
    EMBEDDING = "embedding"
    COUNT_TOKENS = "count_tokens"


class CacheStatus(models.TextChoices):
    NONE = "", "none"
    HIT = "HIT"
    MISS = "MISS"
    BYPASS = "BYPASS"


class Candidate(models.TextChoices):
    """What became of a provider that has the model of a request."""

    ANSWERED = "answered", "answered"
    STORED = "stored", "stored answer served"
    FAILED = "failed", "failed"
    INTERRUPTED = "interrupted", "interrupted"
    RESTING = "resting", "resting"
    FULL = "full", "at its limits"
    UNFIT = "unfit", "cannot take this request"
    NOT_WANTED = "not_wanted", "not asked for"
    NOT_ALLOWED = "not_allowed", "not allowed by the rules"
    NOT_TRIED = "not_tried", "not tried"


class CostStatus(models.TextChoices):
    """How sure the cost is; none where nothing was bought."""

    NONE = "", "none"
    KNOWN = "known"
    ESTIMATED = "estimated"
    UNKNOWN = "unknown"


def _text(length: int, choices: type[models.TextChoices] | None = None, value: str = "") -> models.CharField:
    """A short text that is empty, or `value`, unless told."""
    return models.CharField(max_length=length, choices=choices, blank=value == "", default=value, db_default=value)


def _long_text() -> SearchedText:
    return SearchedText(blank=True, default="", db_default="")


def _name() -> models.CharField:
    """A name that may be unknown: entries that an older version has written to its journal do not have it."""
    return models.CharField(max_length=200, null=True, blank=True)


def _number() -> models.BigIntegerField:
    """A number that may be unknown."""
    return models.BigIntegerField(null=True, blank=True)


def _flag() -> models.BooleanField:
    return models.BooleanField(default=False, db_default=False)


def _moment() -> models.DateTimeField:
    return models.DateTimeField(default=timezone.now, db_default=Now())


def _list() -> models.JSONField:
    return models.JSONField(blank=True, default=list, db_default=models.Value([], models.JSONField()))


def _mapping() -> models.JSONField:
    return models.JSONField(blank=True, default=dict, db_default=models.Value({}, models.JSONField()))


class LogEntry(models.Model):
    """One line of the log, written once; exactly one of type WorkRequest for each work request."""

    timestamp = _moment()
    entry_type = _text(20, EntryType, EntryType.NOT_SET)
    entry_source = _text(20, EntrySource, EntrySource.NOT_SET)
    correlation_id = _text(128)
    message = _long_text()
    payload = _long_text()
    user_id = _number()
    username = _text(150)
    group_ids = _list()  # of the user, at that moment
    severity = _text(10, Severity, Severity.INFO)
    outcome = _text(20, Outcome)
    status = models.PositiveSmallIntegerField(null=True, blank=True)
    exception = _text(64)
    operation = _text(20, Operation)
    stream = _flag()
    model = _text(200)  # as it was asked for
    alias = _name()  # that the model's name stands for
    served_model = _name()  # by the provider's name for clients
    provider_id = _number()
    provider_name = _text(100)
    key_id = _number()
    key_name = _text(100)
    trusted_issuer = _name()  # by its name, whose token came in the place of a key
    rule_id = _number()
    rule_name = _text(100)
    attempts = models.PositiveIntegerField(default=0, db_default=0)
    failed_attempts = models.PositiveIntegerField(null=True, blank=True)  # null: none
    provider_calls = models.JSONField(null=True, blank=True)  # each attempt (attempts.py); null: none, or unknown
    asked_before = models.JSONField(null=True, blank=True)  # ids of the other providers that were asked; null: none
    cache_status = _text(10, CacheStatus)
    cache_hash = _text(64)
    input_tokens = _number()
    cache_read_tokens = _number()
    cache_write_tokens = _number()
    output_tokens = _number()
    reasoning_tokens = _number()
    usage_estimated = _flag()
    cost = models.DecimalField(max_digits=24, decimal_places=12, null=True, blank=True)
    saved_cost = models.DecimalField(max_digits=24, decimal_places=12, null=True, blank=True)  # by a stored answer
    currency = _text(3)
    cost_status = _text(10, CostStatus)
    finish_reason = _text(64)
    provider_finish_reason = _text(128)
    duration_ms = models.FloatField(null=True, blank=True)
    first_byte_ms = models.FloatField(null=True, blank=True)
    stages = _list()  # [name, begin, length] of each stage, in milliseconds
    # [name, Candidate, detail] of each provider with the model of a work request; null in other entries
    candidates = models.JSONField(null=True, blank=True)
    # {id, name, direction, result, milliseconds, counts} of each guardrail that ran; null: none
    guardrails = models.JSONField(null=True, blank=True)
    decision = models.JSONField(null=True, blank=True)  # what was known when it was judged (journal.decisions)
    tags = _mapping()
    address = _text(45)

    objects = LogEntryQuerySet.as_manager()

    class Meta:
        ordering = ["-timestamp", "-id"]
        verbose_name_plural = "log entries"
        # PostgreSQL has more: of each guardrail (migration 0023), of served models, outcomes and groups (0028).
        indexes = [
            models.Index(fields=["-timestamp", "-id"], name="log_newest_first"),
            models.Index(fields=["correlation_id"], name="log_of_a_request"),
            models.Index(fields=["user_id", "-timestamp", "-id"], name="log_of_a_user_newest_first"),
            models.Index(fields=["entry_type", "-timestamp", "-id"], name="log_of_a_type_newest_first"),
            models.Index(fields=["entry_source", "-timestamp", "-id"], name="log_of_a_source_newest_first"),
            models.Index(fields=["provider_id", "-timestamp", "-id"], name="log_of_a_provider_newest_first"),
            models.Index(
                fields=["-timestamp", "-id"],
                condition=Q(asked_before__isnull=False),
                name="log_of_failovers_newest_first",
            ),
            models.Index(
                fields=["-timestamp", "-id"],
                condition=Q(guardrails__isnull=False),
                name="log_of_guardrails_newest_first",
            ),
            # With the type, although it is no part of the order: SQLite would prefer the index of types, unless the
            # index alone answers what a list asks for.
            NameIndex(fields=["model", "-timestamp", "-id", "entry_type"], name="log_of_a_model"),
            *(
                NameIndex(
                    fields=[field, "-timestamp", "-id"],
                    condition=Q(**{f"{field}__isnull": False}),
                    name=f"log_of_a_{field}",
                )
                for field in ("alias", "trusted_issuer")
            ),
        ]

    @property
    def lacks_price(self) -> bool:
        """Whether it was answered and its cost is unknown: that of other requests is unknown with a price, too."""
        is_unknown = self.cost is None and self.cost_status == CostStatus.UNKNOWN
        return is_unknown and self.outcome == Outcome.COMPLETED

    def __str__(self) -> str:
        return f"{self.entry_type} {self.correlation_id}"


class CacheEntry(models.Model):
    """A stored response as operators see it; requests are served from the cache, not from this table."""

    request_hash = models.CharField(max_length=64)
    response = _long_text()
    content_type = _text(200)
    chunks = models.BooleanField(default=False, db_default=False, help_text="Whether it is a stream.")
    provider_id = _number()
    provider_name = _text(100)
    model = _text(200)
    served_model = _name()
    user_id = _number()
    username = _text(150)
    created_at = _moment()
    expires_at = models.DateTimeField(default=timezone.now, db_default=Now())
    size_bytes = models.BigIntegerField(default=0, db_default=0)
    hits = models.BigIntegerField(default=0, db_default=0)
    # Of the request whose answer it is; null: nobody knows.
    cost = models.DecimalField(max_digits=24, decimal_places=12, null=True, blank=True)
    currency = models.CharField(max_length=3, null=True, blank=True)
    last_hit_at = models.DateTimeField(null=True, blank=True)

    objects = CacheEntryQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        verbose_name_plural = "cache entries"
        constraints = [models.UniqueConstraint(fields=["request_hash"], name="one_cache_entry_of_a_request")]
        indexes = [
            models.Index(fields=["-created_at", "-id"], name="cache_newest_first"),
            models.Index(fields=["expires_at"], name="cache_by_expiry"),
            models.Index(fields=["user_id", "-created_at", "-id"], name="cache_of_a_user_newest_first"),
        ]

    def __str__(self) -> str:
        return self.request_hash


# Bounds between which the latencies of requests are counted, in milliseconds: four to a power of ten.
LATENCY_MS = tuple(round(10 ** (quarter / 4)) for quarter in range(23))
LATENCY_COLUMNS = tuple(f"latency_{number}" for number in range(len(LATENCY_MS) + 1))


def _sum() -> models.BigIntegerField:
    """A whole number that was added up; null where there was nothing to add."""
    return models.BigIntegerField(null=True)


def _money() -> models.DecimalField:
    return models.DecimalField(max_digits=38, decimal_places=12, null=True)


class Usage(models.Model):
    """A part of what happened within some time for one set of dimensions (rollups.py); the parts add up.

    Dimensions are plain numbers, as in the log. Groups are those of the user, and tags those of the request, all
    together in one row: a request with two tags counts for each of them.
    """

    hour = models.DateTimeField()  # with which the time begins, UTC
    merged = _flag()  # whether it is the only one of its time and dimensions, but for what came later
    user_id = _number()
    group_ids = _list()
    key_id = _number()
    provider_id = _number()
    model = _text(200)  # that served
    alias = _name()
    tags = _mapping()
    currency = _text(3)
    requests = _sum()
    completed = _sum()
    denied = _sum()
    client_closed = _sum()
    errors = _sum()
    cache_hits = _sum()
    input_tokens = _sum()  # the tokens that providers worked on; those of cache hits are saved ones
    cache_read_tokens = _sum()
    cache_write_tokens = _sum()
    output_tokens = _sum()
    reasoning_tokens = _sum()
    saved_tokens = _sum()
    estimated_requests = _sum()
    cost = _money()
    estimated_cost = _money()
    saved_cost = _money()  # what stored answers would have cost, as far as they have a price
    unknown_cost_requests = _sum()
    unpriced_requests = _sum()  # those of them that were answered: the model had no price
    unpriced_tokens = _sum()  # those of requests whose cost is unknown
    duration_us = _sum()  # of completed requests, as the latencies are
    first_byte_us = _sum()
    first_bytes = _sum()  # how many of them told when their first byte went out
    attempts = _sum()  # requests that were sent to the provider, also before another one was asked
    failed_attempts = _sum()
    limited = _sum()  # requests that a limit refused, and of all others those for which a provider was asked
    asked = _sum()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H}:00 {self.model}"


for _column in LATENCY_COLUMNS:
    Usage.add_to_class(_column, models.IntegerField(null=True))


class UsageHour(Usage):
    """Usage of an hour."""

    class Meta:
        verbose_name_plural = "hours of usage"
        indexes = [models.Index(fields=["merged", "hour"], name="usage_by_hour")]


class UsageDay(Usage):
    """Usage of a day (UTC): what its hours come to that are merged. A month of it is read in no time."""

    class Meta:
        verbose_name_plural = "days of usage"
        indexes = [models.Index(fields=["merged", "hour"], name="usage_by_day")]


class TagValue(models.Model):
    """A value of a tag that the statistics tell apart from others; tags.py says which do."""

    name = models.CharField(max_length=64)
    value = models.CharField(max_length=256)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name", "value"], name="one_row_a_value_of_a_tag")]

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


class KeptState(models.Model):
    """Whose something is that a provider keeps under the gateway's account, such as a response or a conversation.

    `digest` is a hash of its id (gateway_project/work/ownership/owners.py); `is_lasting`: the provider keeps it until
    somebody deletes it, so that it must not become anybody else's.
    """

    digest = models.CharField(max_length=32)
    user_id = models.BigIntegerField()
    created_at = _moment()
    is_lasting = _flag()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["digest"], name="one_owner_of_kept_state")]
        indexes = [models.Index(fields=["is_lasting", "created_at"], name="kept_state_by_age")]

    def __str__(self) -> str:
        return f"{self.digest} of user {self.user_id}"


class JournalPosition(models.Model):
    """How far one journal has been shipped into the log: every byte before `position` is a stored entry.

    `updated_at` is when it last moved.
    """

    journal = models.CharField(max_length=80)
    position = models.BigIntegerField(default=0, db_default=0)
    updated_at = _moment()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["journal"], name="one_position_a_journal")]

    def __str__(self) -> str:
        return f"{self.journal} at {self.position}"
