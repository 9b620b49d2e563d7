"""The JSON in a guardrail: its parameters, and whom it is for, everyone or some groups, users, rules, keys, aliases.

Ids and names are checked when they are added. One whose row is deleted later stays, and is for nobody.
"""

from collections.abc import Callable, Iterable, Mapping

from accounts.models import Group, User
from gateway_project.database.ids import MAX_ID
from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from keys.models import ApiKey
from rules.aliases.models import MAX_NAME_LENGTH, Alias
from rules.guardrails.models import EVERYONE
from rules.models import Rule

MAX_REFERENCES = 1000  # of a kind
IDS, NAMES = ("groups", "users", "rules", "keys"), ("aliases",)
AUDIENCE_KINDS = (*IDS, *NAMES)
Reference = int | str


def read_audience(data: object, place: str = "appliesTo") -> JsonObject:
    """The audience in a JSON object, ids as numbers. Raises ValidationError with the place of the mistake."""
    if not isinstance(data, dict):
        raise ValidationError("must be an object.", field=place)
    if unknown := data.keys() - {EVERYONE, *AUDIENCE_KINDS}:
        members = ", ".join((EVERYONE, *AUDIENCE_KINDS))
        raise ValidationError(f"must only have the members {members}.", field=f"{place}.{min(unknown)}")
    if EVERYONE in data and data[EVERYONE] is not True and data[EVERYONE] is not False:
        raise ValidationError("must be true or false.", field=f"{place}.{EVERYONE}")
    references = {kind: _references(data[kind], kind, f"{place}.{kind}") for kind in AUDIENCE_KINDS if data.get(kind)}
    if data.get(EVERYONE):
        if references:
            raise ValidationError(
                "must not be sent with other lists: everyone includes all others.", field=f"{place}.{EVERYONE}"
            )
        return {EVERYONE: True}
    if not references:
        raise ValidationError(
            f'must be {{"everyone": true}}, or name some of {", ".join(AUDIENCE_KINDS)}.', field=place
        )
    return references


def read_parameters(data: object, place: str = "parameters") -> JsonObject:
    """Parameters in a JSON object; only their type knows more. Raises ValidationError."""
    if not isinstance(data, dict):
        raise ValidationError("must be an object.", field=place)
    return data


def check_audience(audience: JsonObject, before: JsonObject) -> JsonObject:
    """The audience with keys by id. Raises ValidationError for what does not exist, unless it was there before."""
    if "keys" in audience:
        audience = {**audience, "keys": _key_ids(audience["keys"])}
    for kind, present in _PRESENT.items():
        new = set(audience.get(kind, ())) - set(before.get(kind, ()))
        if missing := new - set(present(new)):
            names = ", ".join(sorted(map(str, missing))[:10])
            what = "name" if kind in NAMES else "id"
            raise ValidationError(f"there is none with the {what} {names}.", field=f"appliesTo.{kind}")
    return audience


def with_alias_name(audience: JsonObject, before: str, after: str) -> JsonObject:
    """The audience after an alias has got another name."""
    names = [after if name == before else name for name in audience.get("aliases", ())]
    return {**audience, "aliases": names} if names else audience


def _references(data: object, kind: str, place: str) -> list[Reference]:
    if not isinstance(data, list) or len(data) > MAX_REFERENCES:
        raise ValidationError(f"must be a list of at most {MAX_REFERENCES:,}.", field=place)
    read = _name if kind in NAMES else _key if kind == "keys" else _id
    return list(dict.fromkeys(read(item, f"{place}.{number}") for number, item in enumerate(data)))


def _id(data: object, place: str) -> Reference:
    text = str(data) if isinstance(data, int | str) and not isinstance(data, bool) else ""
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and 0 < int(text) <= MAX_ID):
        raise ValidationError("must be an id: a whole number.", field=place)
    return int(text)


def _key(data: object, place: str) -> Reference:
    """The id of a key, or its public id."""
    is_public = isinstance(data, str) and data.isascii() and data.isalnum() and len(data) <= MAX_NAME_LENGTH
    return str(data) if is_public else _id(data, place)


def _name(data: object, place: str) -> Reference:
    if not isinstance(data, str) or not 0 < len(data) <= MAX_NAME_LENGTH or not data.isprintable():
        raise ValidationError(f"must be a name of 1 to {MAX_NAME_LENGTH} printable characters.", field=place)
    return data


def _key_ids(keys: Iterable[Reference]) -> list[Reference]:
    """These keys by their ids; what is no public id is taken for an id, if it can be one."""
    keys = list(keys)
    ids = dict(ApiKey.objects.live().filter(public_id__in=map(str, keys)).values_list("public_id", "pk"))
    return list(dict.fromkeys(ids.get(str(key), _as_id(key)) for key in keys))


def _as_id(key: Reference) -> Reference:
    return int(key) if isinstance(key, str) and key.isdecimal() and int(key) <= MAX_ID else key


def _keys(references: set[object]) -> Iterable[object]:
    return (
        ApiKey.objects.live()
        .filter(pk__in=[one for one in references if isinstance(one, int)])
        .values_list("pk", flat=True)
    )


_PRESENT: Mapping[str, Callable[[set[object]], Iterable[object]]] = {
    "groups": lambda ids: Group.objects.filter(pk__in=ids).values_list("pk", flat=True),
    "users": lambda ids: User.objects.live().filter(pk__in=ids).values_list("pk", flat=True),
    "rules": lambda ids: Rule.objects.filter(pk__in=ids).values_list("pk", flat=True),
    "keys": _keys,
    "aliases": lambda names: Alias.objects.filter(name__in=names).values_list("name", flat=True),
}
