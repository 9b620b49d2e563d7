"""Access requests. They stay when their group or provider is deleted, and can then no longer be granted."""

from collections.abc import Collection
from decimal import Decimal

from django.core.validators import MaxLengthValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

from accounts.access_requests.querysets import AccessRequestQuerySet
from gateway_project.console.display.measures import limit_text

MAX_REASON_LENGTH, MAX_NOTE_LENGTH, MAX_MODEL_LENGTH = 2000, 2000, 300


class RequestKind(models.TextChoices):
    """What is asked for."""

    MODEL = "model", "A model"
    MEMBERSHIP = "membership", "Membership of a group"
    LIMIT = "limit", "A higher limit"


class RequestState(models.TextChoices):
    """What became of a request."""

    OPEN = "open", "Open"
    GRANTED = "granted", "Granted"
    REFUSED = "refused", "Refused"
    WITHDRAWN = "withdrawn", "Withdrawn"
    ENDED = "ended", "Ended"  # it was granted, and the grant has ended


class AccessRequest(models.Model):
    """What a user asks for, and what became of it."""

    user = models.ForeignKey("accounts.User", models.CASCADE, related_name="access_requests")
    kind = models.CharField(max_length=10, choices=RequestKind)
    # Of a request for a model.
    model = models.CharField(max_length=MAX_MODEL_LENGTH, blank=True, default="")
    # The references stay as they are when the row is deleted: without its provider a request would be for any.
    provider = models.ForeignKey(
        "providers.Provider", models.DO_NOTHING, null=True, blank=True, db_constraint=False, related_name="+"
    )
    # Of a request for membership.
    group = models.ForeignKey(
        "accounts.Group", models.DO_NOTHING, null=True, blank=True, db_constraint=False, related_name="+"
    )
    # Of a request for a higher limit of the user.
    measure = models.CharField(max_length=10, blank=True, default="")
    window = models.CharField(max_length=10, blank=True, default="")
    amount = models.DecimalField(max_digits=20, decimal_places=6, null=True, blank=True)
    reason = models.TextField(validators=[MaxLengthValidator(MAX_REASON_LENGTH)])
    state = models.CharField(max_length=9, choices=RequestState, default=RequestState.OPEN)
    note = models.TextField(blank=True, default="", validators=[MaxLengthValidator(MAX_NOTE_LENGTH)])
    decided_by = models.ForeignKey("accounts.User", models.SET_NULL, null=True, blank=True, related_name="+")
    decided_at = models.DateTimeField(null=True, blank=True)
    ends_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    # What the grant has made: the id of the rule, of the row of the membership, or of the limit.
    grant_id = models.BigIntegerField(null=True, blank=True, editable=False)
    # The amount that the limit had before; None if the user had no such limit.
    former_amount = models.DecimalField(max_digits=20, decimal_places=6, null=True, blank=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    currency = ""  # of a limit of cost, in rows of AccessRequestQuerySet.shown()

    objects = AccessRequestQuerySet.as_manager()

    class Meta:
        verbose_name = "access request"
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=RequestState.values), name="access_request_state_is_known"),
            models.CheckConstraint(
                condition=Q(kind="model", group=None, measure="", amount=None) & ~Q(model="")
                | Q(kind="membership", group__isnull=False, model="", provider=None, measure="", amount=None)
                | Q(kind="limit", group=None, model="", provider=None, amount__gt=0) & ~Q(measure=""),
                name="access_request_fits_its_kind",
            ),
            models.CheckConstraint(
                condition=~Q(state="granted") | Q(grant_id__isnull=False), name="access_request_grant_made_something"
            ),
        ]
        indexes = [
            models.Index(fields=["user", "state"], name="access_requests_of_a_user"),
            models.Index(fields=["id"], condition=Q(state="open"), name="open_access_requests"),
            models.Index(fields=["ends_at"], condition=Q(state="granted"), name="access_grants_by_end"),
        ]

    def __str__(self) -> str:
        return f"{self.subject} for {self.user.username}"

    def clean_fields(self, exclude: Collection[str] | None = None) -> None:
        """Validate all fields but the references, which may be to what is gone; services check new ones."""
        super().clean_fields({*(exclude or ()), "provider", "group"})

    @property
    def subject(self) -> str:
        """What is asked for, in words."""
        if self.kind == RequestKind.MODEL:
            provider = f" of {_name(self.provider, self.provider_id)}" if self.provider_id is not None else ""
            return f"model {self.model}{provider}"
        if self.kind == RequestKind.MEMBERSHIP:
            return f"membership of {_name(self.group, self.group_id)}"
        article = "a " if self.measure == "cost" and not self.currency else ""
        return f"limit of {article}{limit_text(self.measure, self.window, self.amount or Decimal(), self.currency)}"

    @property
    def is_open(self) -> bool:
        return self.state == RequestState.OPEN

    @property
    def is_granted(self) -> bool:
        return self.state == RequestState.GRANTED


def _name(row: models.Model | None, row_id: int | None) -> str:
    return str(row) if row is not None else f"{row_id} (deleted)"
