"""The filters of the statistics page: those of its address, and how a name that somebody typed becomes one."""

from django import forms
from django.db.models import QuerySet

from accounts.models import User
from gateway_project.database.ids import id_in
from keys.models import ApiKey
from keys.secrets import without_secrets
from telemetry.services import NAMES

# The filters in the address, with the name that a query has for each.
ID_FILTERS = {"user": "user_id", "group": "group", "key": "key_id", "provider": "provider_id"}
TEXT_FILTERS = ("model", "alias", "tag")
FILTERS = (*ID_FILTERS, *TEXT_FILTERS)


def check_tag(text: str) -> str:
    """The text of a filter by tag. Raises forms.ValidationError."""
    if text and "=" not in text:
        raise forms.ValidationError("Write a tag as name=value.")
    return text


def filter_value(name: str, text: str) -> int | str:
    """The value of a filter in the address: the id of the row that the text names, else the text.

    Raises forms.ValidationError.
    """
    if name == "tag":
        return check_tag(text)
    return _row_id(name, text) if name in ID_FILTERS else text


def name_of_row(name: str, row_id: int) -> str:
    """The name of a user, group, key or provider; its id once it is gone."""
    _, model, field = _names_of(name)
    return str(model._default_manager.filter(pk=row_id).values_list(field, flat=True).first() or row_id)


def _row_id(name: str, text: str) -> int:
    """The id of the row with this name, or the id that the text is: usage of deleted rows is still there."""
    row_ids = list(_rows_named(name, text).values_list("pk", flat=True)[:2])
    if len(row_ids) > 1 and name == "key":
        raise forms.ValidationError("Several keys have this name. Enter the public id of one.")
    if row_ids:
        return int(row_ids[0])
    if row_id := id_in(text):
        return row_id
    raise forms.ValidationError(f"No {name} has this name or id.")


def _rows_named(name: str, text: str) -> QuerySet:
    if name == "user":
        return User.objects.with_username(text)
    if name == "key":
        keys = ApiKey.objects.live()
        return keys.filter(name=text) | keys.with_public_id(without_secrets(text))
    _, model, field = _names_of(name)
    return model._default_manager.filter(**{field: text})


def _names_of(name: str) -> tuple:
    return NAMES[f"{name}_id"]
