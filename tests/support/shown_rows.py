"""A row of each table that the console or a user's own pages show, and text in each of its fields, past all checks."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.db import DataError, IntegrityError, models, transaction
from django.utils import timezone

from accounts.access_requests.models import AccessRequest
from accounts.models import Group, Session, User
from accounts.second_factor.models import Passkey
from accounts.services import create_service_account
from gateway_project.console.what_if.tables import GUARDRAIL_LABELS
from gateway_project.me.urls import urlpatterns as own_pages
from gateway_project.work.cache.verdict import MISS
from gateway_project.work.what_if.outcome import Outcome
from keys.models import ApiKey
from keys.services import issue_key
from licensing.models import Limit
from licensing.services import set_limit
from providers.health.models import HealthCheck
from providers.models import Provider
from providers.services import set_price
from rules.guardrails.models import Guardrail
from rules.models import Rule, WhatIf
from rules.services import create_rule
from telemetry.guardrails.models import GuardrailHour
from telemetry.journal.batches import insert_log_entries
from telemetry.log_page.models import SavedFilter
from telemetry.models import LogEntry, ModelUsageDay, ModelUsageHour, UsageDay, UsageHour
from tests.support import many_rows
from tests.support.usage_entries import done
from tests.telemetry.guardrails.test_samples import keep_sample

# Models of ours whose rows no page shows, with what becomes of them.
NOT_SHOWN = {
    "accounts.FederatedLogin": "where a logout leads, and whose it is",
    "accounts.SpentToken": "digests",
    "accounts.AuthenticatorApp": "a sealed secret",
    "accounts.RecoveryCode": "digests",
    "gateway_project.Change": "counters for the processes",
    "providers.ProviderFormat": "made by a migration, and written by nobody",
    "telemetry.AuditSegment": "hashes",
    "telemetry.KeptState": "digests",
    "telemetry.JournalPosition": "names of our own files",
    "telemetry.TagValue": "counted, and compared",
    "licensing.Licence": "a signed text; a page shows its terms",
    "licensing.DailyPeak": "no text",
}
# Texts that decide what the gateway does, or that are checked by what they are read with; no page shows them.
NO_TEXT = {
    "accounts.IdentityProvider.credential", "accounts.Passkey.credential_data", "accounts.Passkey.credential_id",
    "accounts.Session.refresh_digest", "accounts.User.name_key", "accounts.User.password", "keys.ApiKey.digest",
    "keys.ApiKey.public_id", "keys.ApiKey.former_public_id", "keys.ApiKey.former_digest",
    "providers.Provider.credential", "providers.ProviderCredential.credential", "rules.Guardrail.credential",
    "rules.WhatIf.claim", "telemetry.LogEntry.group_ids", "telemetry.LogEntry.asked_before",
    "telemetry.UsageHour.group_ids", "telemetry.UsageDay.group_ids", "telemetry.ModelUsageHour.group_ids",
    "telemetry.ModelUsageHour.tags", "telemetry.ModelUsageDay.group_ids", "telemetry.ModelUsageDay.tags",
    "telemetry.AuditEntry.hash", "telemetry.AuditEntry.previous_hash", "telemetry.GuardrailSample.sealed",
}  # fmt: skip

# The parts of addresses below /me/, and whose numbers they are.
OWN: dict[str, type[models.Model]] = {
    "group_id": Group, "user_id": User, "account_id": User, "key_id": ApiKey, "rule_id": Rule, "limit_id": Limit,
    "request_id": AccessRequest, "session_id": Session, "passkey_id": Passkey, "entry_id": LogEntry,
}  # fmt: skip


def shown_models() -> set[type[models.Model]]:
    """Each model of ours whose rows are shown somewhere: a new one is, until NOT_SHOWN says why not."""
    ours = {"accounts", "gateway_project", "keys", "licensing", "providers", "rules", "telemetry"}
    return {
        model for model in apps.get_models() if model._meta.app_label in ours and model._meta.label not in NOT_SHOWN
    }


def text_fields(model: type[models.Model], shortest: int) -> list[models.Field]:
    """The fields that hold text of others, if this many characters fit."""
    kinds = models.CharField | models.TextField | models.JSONField
    fields = [field for field in model._meta.concrete_fields if isinstance(field, kinds) and not field.choices]
    roomy = [field for field in fields if (field.max_length or shortest) >= shortest]
    return [field for field in roomy if f"{model._meta.label}.{field.name}" not in NO_TEXT]


def fill(user: User) -> dict[str, object]:
    """Rows in each table; returns what stands in the addresses of the user's own pages, by its name there."""
    many_rows.fill(user, 0, 2)
    group, key = Group.objects.latest("pk"), ApiKey.objects.filter(owner=user).latest("pk")
    account = create_service_account(username="account-of-rows", group_id=group.pk)
    issue_key(owner=account, name="key of the account")
    rule = create_rule(name="rule of the group", group_id=group.pk, regex="large.*")
    request = AccessRequest.objects.create(user=user, kind="model", model="large", reason="why")
    session = Session.objects.create(user=user, device="mine", expires_at="2999-01-01T00:00Z")
    passkey = Passkey.objects.create(
        user=user, name="mine", rp_id="localhost", credential_id="x", credential_data="x", sign_count=0
    )
    values = {"user_id": user.pk, "username": user.username, "group_ids": [group.pk], "key_id": key.pk}
    insert_log_entries([done("of rows", timezone.now(), cost_status="known", input_tokens=10, **values)])
    _observe(user)
    set_price(host="api.example.org", model="of-the-host", **many_rows.PRICE)
    limit = set_limit(group=group, measure="tokens", window="day", amount=10**9)
    return {
        "group_id": group.pk, "user_id": _member(group, user).pk, "account_id": account.pk, "key_id": key.pk,
        "rule_id": rule.pk, "request_id": request.pk, "session_id": session.pk, "passkey_id": passkey.pk,
        "limit_id": limit.pk, "entry_id": LogEntry.objects.filter(user_id=user.pk).latest("pk").pk,
    }  # fmt: skip


def _member(group: Group, user: User) -> User:
    """Somebody else in the group."""
    return group.members.exclude(pk=user.pk).exclude(kind="service").earliest("pk")


def _observe(user: User) -> None:
    """What comes of use: health, guardrails, usage, what-ifs and saved filters."""
    now = timezone.now()
    hour = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    guardrail = Guardrail.objects.latest("pk")
    HealthCheck.objects.create(provider=Provider.objects.latest("pk"), model="large", has_answered=False, exception="x")
    names = {"guardrail_id": guardrail.pk, "guardrail_name": guardrail.name, "direction": "request"}
    GuardrailHour.objects.create(hour=hour, searched=1, passed=1, duration_us=5, **names)
    keep_sample(guardrail, user_id=user.pk, correlation_id="c")
    SavedFilter.objects.create(owner=user, name="mine", query="outcome=failed")
    day = hour.replace(hour=0) - timedelta(days=3)
    for model, moment in ((UsageHour, hour), (UsageDay, day)):
        model.objects.create(hour=moment, user_id=user.pk, model="large", tags={"team": "blue"}, requests=1)
    for model, moment in ((ModelUsageHour, hour), (ModelUsageDay, day)):
        model.objects.create(hour=moment, model="large", requests=1)
    WhatIf.objects.create(
        state="done", user_id=user.pk, user_name="x", start=hour, end=now, ended_at=now, result=_result("of the draft")
    )


def _result(text: str) -> dict[str, Any]:
    """The result of a what-if, in which this text is each name and sentence."""
    numbers = dict.fromkeys(GUARDRAIL_LABELS, 0) | {"examples": {}}
    return Outcome().document() | {"byGuardrail": [numbers | {"guardrail": text}], "unknown": [text]}


# Documents that pages read member by member: whoever writes them, they have this shape.
SHAPES: dict[str, Callable[[str], Any]] = {
    "stages": lambda text: [[text, 0.0, 1.0]],
    "candidates": lambda text: [[text, text, text]],
    "provider_calls": lambda text: [
        [1, text, 0, text, 500, text, text, 0.1, 0.2, "0.1", text, text, [[text, 0.1, 0.1]]]
    ],
    "guardrails": lambda text: [{"id": 1, "name": text, "direction": text, "result": text, "counts": {text: 1}}],
    "decision": lambda text: [MISS, text, 1, 1, [["requests:user:1:minute", 1, 1, 0, 0, 0]]],
    "changes": lambda text: {"name": [text, text], "description": [text, text], "regex": [text, text]},
    "payload": lambda text: json.dumps({"request": {text: text}, "response": text}),
    "result": _result,
}


def write(row: models.Model, field: models.Field, text: str) -> bool:
    """The text in one field of a row, past all checks of the code; False if the database refuses it."""
    value: Any = text
    if field.name in SHAPES:
        value = SHAPES[field.name](text)
    elif field.name == "attributes":  # of a version of a rule
        value = getattr(row, field.name) | dict.fromkeys(("name", "description", "regex"), text)
    elif isinstance(field, models.JSONField):
        value = [text] if isinstance(getattr(row, field.name), list) else {text: text}
    if isinstance(value, str) and field.max_length and len(value) > field.max_length:
        return False
    try:
        with transaction.atomic():
            type(row)._default_manager.filter(pk=row.pk).update(**{field.name: value})
    except (DataError, IntegrityError):
        return False
    return True


def latest_rows() -> dict[type[models.Model], int]:
    """The latest row of each table of the console."""
    rows = {model: model._default_manager.order_by("-pk").first() for model in admin.site._registry}
    return {model: row.pk for model, row in rows.items() if row is not None}


def own_paths(values: dict[str, object]) -> Iterator[str]:
    """Every path below /me/, of these rows where it is one of a row."""
    for pattern in own_pages:
        route = str(pattern.pattern)
        for kind in ("model", "membership", "limit"):
            path = route.replace("<slug:kind>", kind)
            for name, value in values.items():
                for converter in ("int", "uuid"):
                    path = path.replace(f"<{converter}:{name}>", str(value))
            yield path
            if "<slug" not in route:
                break
