"""What happened: log entries, stored responses, and how far each journal has been shipped.

Rows arrive in batches of plain SQL that name some of the columns, so every column that must have a value has
a default in the database too. Users, providers, keys and rules are plain numbers here: the log outlives them.
"""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from gateway_project.database import columns
from gateway_project.database.indexes import NameIndex
from telemetry.audit.models import AuditEntry, AuditSegment
from telemetry.guardrails.models import GuardrailHour, GuardrailSample
from telemetry.log_page.models import SavedFilter
from telemetry.querysets import CacheEntryQuerySet, LogEntryQuerySet
from telemetry.usage.models import ModelUsageDay, ModelUsageHour, TagValue, UsageDay, UsageHour

__all__ = [
    "AuditEntry",
    "AuditSegment",
    "GuardrailHour",
    "GuardrailSample",
    "ModelUsageDay",
    "ModelUsageHour",
    "SavedFilter",
    "TagValue",
    "UsageDay",
    "UsageHour",
]


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


# Columns of any length, null where there is nothing: lists do not load them, and what must be short has none of them.
LONG_JSON = ("candidates", "provider_calls", "guardrails", "decision")


class LogEntry(models.Model):
    """One line of the log, written once; exactly one of type WorkRequest for each work request."""

    timestamp = columns.moment()
    entry_type = columns.text(20, EntryType, EntryType.NOT_SET)
    entry_source = columns.text(20, EntrySource, EntrySource.NOT_SET)
    correlation_id = columns.text(128)
    message = columns.long_text()
    payload = columns.long_text()
    user_id = columns.number()
    username = columns.text(150)
    group_ids = columns.empty_list()  # of the user, at that moment
    severity = columns.text(10, Severity, Severity.INFO)
    outcome = columns.text(20, Outcome)
    status = models.PositiveSmallIntegerField(null=True, blank=True)
    exception = columns.text(64)
    operation = columns.text(20, Operation)
    stream = columns.flag()
    model = columns.text(200)  # as it was asked for
    alias = columns.name()  # the alias that the model's name stands for
    served_model = columns.name()  # by the provider's name for clients
    provider_id = columns.number()
    provider_name = columns.text(100)
    key_id = columns.number()
    key_name = columns.text(100)
    trusted_issuer = columns.name()  # by its name, whose token came in the place of a key
    rule_id = columns.number()
    rule_name = columns.text(100)
    attempts = models.PositiveIntegerField(default=0, db_default=0)
    failed_attempts = models.PositiveIntegerField(null=True, blank=True)  # null: none
    provider_calls = models.JSONField(null=True, blank=True)  # each attempt (attempts.py); null: none, or unknown
    asked_before = models.JSONField(null=True, blank=True)  # ids of the other providers that were asked; null: none
    cache_status = columns.text(10, CacheStatus)
    cache_hash = columns.text(64)
    input_tokens = columns.number()
    cache_read_tokens = columns.number()
    cache_write_tokens = columns.number()
    cache_write_hour_tokens = columns.number()  # part of cache_write_tokens: kept for an hour
    output_tokens = columns.number()
    reasoning_tokens = columns.number()
    usage_estimated = columns.flag()
    cost = models.DecimalField(max_digits=24, decimal_places=12, null=True, blank=True)
    saved_cost = models.DecimalField(max_digits=24, decimal_places=12, null=True, blank=True)  # by a stored answer
    currency = columns.text(3)
    cost_status = columns.text(10, CostStatus)
    finish_reason = columns.text(64)
    provider_finish_reason = columns.text(128)
    duration_ms = models.FloatField(null=True, blank=True)
    first_byte_ms = models.FloatField(null=True, blank=True)
    stages = columns.empty_list()  # [name, begin, length] of each stage, in milliseconds
    # [name, Candidate, detail] of each provider with the model of a work request; null in other entries
    candidates = models.JSONField(null=True, blank=True)
    # {id, name, direction, result, milliseconds, counts} of each guardrail that ran; null: none
    guardrails = models.JSONField(null=True, blank=True)
    decision = models.JSONField(null=True, blank=True)  # what was known when it was judged (journal.decisions)
    tags = columns.empty_mapping()
    address = columns.text(45)

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
    response = columns.long_text()
    content_type = columns.text(200)
    chunks = models.BooleanField(default=False, db_default=False, help_text="Whether it is a stream.")
    provider_id = columns.number()
    provider_name = columns.text(100)
    model = columns.text(200)
    served_model = columns.name()
    user_id = columns.number()
    username = columns.text(150)
    created_at = columns.moment()
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


class KeptState(models.Model):
    """Whose something is that a provider keeps under the gateway's account, such as a response or a conversation.

    `digest` is a hash of its id (gateway_project/work/ownership/owners.py); `is_lasting`: the provider keeps it until
    somebody deletes it, so that it must not become anybody else's.
    """

    digest = models.CharField(max_length=32)
    user_id = models.BigIntegerField()
    created_at = columns.moment()
    is_lasting = columns.flag()

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
    updated_at = columns.moment()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["journal"], name="one_position_a_journal")]

    def __str__(self) -> str:
        return f"{self.journal} at {self.position}"
