"""Every change to guardrails."""

from collections.abc import Mapping
from copy import copy
from typing import TypedDict, Unpack

from django.db import transaction

from gateway_project.database.names import compose_name
from gateway_project.database.saving import lock_row, save_or_refuse
from gateway_project.errors import Conflict, ValidationError
from gateway_project.json_types import JsonObject
from providers.models import Provider
from rules.guardrails.audience import check_audience, read_audience, read_parameters, with_alias_name
from rules.guardrails.detection import check_parameters
from rules.guardrails.models import Direction, Guardrail, GuardrailType, default_action

MAX_GUARDRAILS = 500
PLAIN = (
    "description",
    "enabled",
    "position",
    "direction",
    "action",
    "type",
    "parameters",
    "fail_mode",
    "samples",
    "sample_days",
)


class GuardrailChanges(TypedDict, total=False):
    """The parameters of create_guardrail(), each of which an update may leave out."""

    name: str
    description: str
    enabled: bool
    position: int
    direction: str
    action: str
    type: str
    parameters: JsonObject
    fail_mode: str
    samples: bool
    sample_days: int
    applies_to: JsonObject


@transaction.atomic
def create_guardrail(**values: Unpack[GuardrailChanges]) -> Guardrail:
    """Create a guardrail; it needs a name and a type, and is for everyone unless `applies_to` says for whom.
    Without an action its type decides.

    Raises Conflict if the name exists or there are too many, and ValidationError with the wrong field.
    """
    if Guardrail.objects.count() >= MAX_GUARDRAILS:
        raise Conflict(f"There are {MAX_GUARDRAILS:,} guardrails, the maximum. Delete some first.")
    guardrail = Guardrail(action=default_action(values.get("type", "")))
    _write(guardrail, values)
    return guardrail


@transaction.atomic
def update_guardrail(guardrail: Guardrail, **changes: Unpack[GuardrailChanges]) -> None:
    """Store changes with the names of create_guardrail(). Raises as above, and NotFound if the guardrail is gone."""
    lock_row(guardrail, Guardrail.objects.all())
    _write(guardrail, changes)


def delete_guardrail(guardrail: Guardrail) -> None:
    """Delete a guardrail; from then on nothing is searched for what only it looked for."""
    guardrail.delete()


def follow_alias_name(before: str, after: str) -> None:
    """Let guardrails for an alias stay its guardrails under its new name; in the transaction that renames it."""
    for guardrail in Guardrail.objects.select_for_update():
        audience = with_alias_name(guardrail.applies_to, before, after)
        if audience != guardrail.applies_to:
            guardrail.applies_to = audience
            guardrail.save(update_fields=["applies_to", "updated_at"])


def _write(guardrail: Guardrail, changes: GuardrailChanges) -> None:
    values: Mapping[str, object] = changes
    before = copy(guardrail)
    for name in PLAIN:
        setattr(guardrail, name, values.get(name, getattr(guardrail, name)))
    if "name" in changes:
        guardrail.name = compose_name(changes["name"])
    if "applies_to" in changes:
        audience = read_audience(changes["applies_to"])
        guardrail.applies_to = check_audience(audience, guardrail.applies_to if guardrail.pk else {})
    if guardrail.type in GuardrailType.values:  # else full_clean() refuses it
        check_parameters(guardrail.type, read_parameters(guardrail.parameters))
        _check_provider(guardrail)
        if guardrail.type == GuardrailType.JSON and guardrail.direction == Direction.REQUEST:
            raise ValidationError("must be response or both: the type json judges answers.", field="direction")
        _keep_secret(guardrail, before, is_sent="parameters" in changes)
    save_or_refuse(guardrail, conflict=f"A guardrail named {guardrail.name!r} exists already.")


def _check_provider(guardrail: Guardrail) -> None:
    if guardrail.type != GuardrailType.PROVIDER:
        return
    if not Provider.objects.filter(pk=guardrail.parameters["provider"]).exists():
        message = f"there is no provider with the id {guardrail.parameters['provider']}."
        raise ValidationError(message, field="parameters.provider")


def _keep_secret(guardrail: Guardrail, before: Guardrail, *, is_sent: bool) -> None:
    """Take the secret out of the parameters; its mask stands for the one that is stored."""
    if guardrail.type != GuardrailType.HTTP:
        guardrail.credential = guardrail.credential_hint = ""
        return
    if not is_sent:
        return
    guardrail.parameters = {**guardrail.parameters}
    secret = guardrail.parameters.pop("secret", None) or ""
    if before.credential and secret == before.shown_parameters["secret"]:
        if before.origin != guardrail.origin:
            raise ValidationError("must be sent again, as the URL has another host.", field="parameters.secret")
        return
    guardrail.seal(secret)
