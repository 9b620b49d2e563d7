"""The limits that a key gets while it is created."""

from decimal import Decimal

from django.conf import settings

from gateway_project.api.access import Caller
from gateway_project.api.fields import Attributes, Choice
from gateway_project.api.names import list_names, snake
from gateway_project.errors import GatewayError, PermissionDenied, ValidationError
from gateway_project.errors.problem import Problem
from gateway_project.json_types import JsonObject
from keys.models import ApiKey
from licensing.group_limits import check_group_limit
from licensing.models import Measure, Unpriced, Window
from licensing.serializers import Amount, LimitChanges
from licensing.services import set_limit


class KeyLimitAttributes(LimitChanges):
    """One limit of a new key."""

    amount = Amount()
    measure = Choice(Measure.values)
    window = Choice(Window.values, required=False)


def set_key_limits(key: ApiKey, limits: list[object], caller: Caller) -> None:
    """Store the limits of a new key. Raises ValidationError, Conflict and PermissionDenied, which name the place.

    Whoever is no admin may only narrow the key: a limit of its own replaces the default of the settings. Limits of a
    key of a service account are also within those of its group.
    """
    for number, values in enumerate(limits):
        place = f"limits[{number}]"
        checked = _read_attributes(values, place)
        try:
            _set_key_limit(key, checked, caller)
        except GatewayError as error:
            raise type(error)(error.message, field=f"{place}.{error.field}" if error.field else place) from None


def _set_key_limit(key: ApiKey, values: JsonObject, caller: Caller) -> None:
    is_delegated = key.owner.owning_group_id is not None
    if not caller.is_admin and not is_delegated:
        _refuse_wider(values)
    limit = set_limit(key=key, **values)
    if is_delegated:
        check_group_limit(caller, limit)


def _read_attributes(values: object, place: str) -> JsonObject:
    if not isinstance(values, dict):
        raise ValidationError(
            'must be an object such as {"measure": "requests", "window": "day", "amount": 100}.', field=place
        )
    names = {name: snake(name) for name in values}
    if unknown := sorted(name for name, translation in names.items() if translation is None):
        problem = f"unknown attribute {unknown[0][:100]!r}. {list_names(KeyLimitAttributes().writable)}"
        raise ValidationError(problem, field=place)
    attributes = KeyLimitAttributes(data={names[name]: value for name, value in values.items()})
    if not attributes.is_valid():
        raise ValidationError.from_problems(list(_problems(attributes, place)))
    return attributes.validated_data


def _problems(attributes: Attributes, place: str) -> list[Problem]:
    return [
        Problem(str(detail), place if name == "non_field_errors" else f"{place}.{name}")
        for name, details in attributes.errors.items()
        for detail in (details if isinstance(details, list) else [details])
    ]


def _refuse_wider(values: JsonObject) -> None:
    kind = values["measure"], values.get("window") or Window.NONE
    default = settings.GATEWAY_LIMITS["key"].get(kind, Decimal(0))
    amount: Decimal = values["amount"]
    if not amount or (default and amount > default):
        most = f"from 1 to {default}, the default" if default else "above 0"
        raise PermissionDenied(f"must be {most}: only an admin can set more.", field="amount")
    if values.get("unpriced", Unpriced.REFUSE) != Unpriced.REFUSE:
        raise PermissionDenied("only an admin can choose this.", field="unpriced")
