"""The targets of an alias as JSON: read with the place of each mistake, and written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gateway_project.database.ids import MAX_ID
from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from rules.aliases.models import MAX_NAME_LENGTH, MAX_TARGETS, MAX_TIER, MAX_WEIGHT, AliasTarget

MAX_TAGS, MAX_TAG_NAME, MAX_TAG_VALUE = 20, 64, 256  # as in X-Svc-Tags
MEMBERS = frozenset({"provider", "model", "alias", "weight", "tier", "match"})
MATCH_MEMBERS = frozenset({"tags", "groupId", "userId", "keyName"})


@dataclass(frozen=True, slots=True)
class TargetDraft:
    """A target by names, before its rows are looked up: a model of a provider, or an alias."""

    provider_id: int | None = None
    model: str = ""
    alias: str = ""
    weight: int = 1
    tier: int = 0
    match: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MirrorDraft:
    """The model that a share of the requests is sent to as well."""

    provider_id: int
    model: str
    share: float


def read_targets(data: object, place: str = "targets") -> list[TargetDraft]:
    """The targets in a JSON list. Raises ValidationError with the place of the mistake."""
    if not isinstance(data, list):
        raise ValidationError("must be a list of targets.", field=place)
    if len(data) > MAX_TARGETS:
        raise ValidationError(f"must have at most {MAX_TARGETS} targets.", field=place)
    return [_target(item, f"{place}.{number}") for number, item in enumerate(data)]


def read_mirror(data: object, place: str = "mirror") -> MirrorDraft | None:
    """The mirror in a JSON object or null. Raises ValidationError with the place of the mistake."""
    if data is None:
        return None
    members = _object(data, frozenset({"provider", "model", "share"}), place)
    share = members.get("share")
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise ValidationError("must be a number above 0, at most 1.", field=f"{place}.share")
    return MirrorDraft(_id(members, "provider", place), _name(members, "model", place), float(share))


def targets_as_json(targets: Sequence[AliasTarget]) -> list[JsonObject]:
    """Stored targets as requests write them."""
    return [_as_json(target) for target in targets]


def _as_json(target: AliasTarget) -> JsonObject:
    if target.model is not None:
        what: JsonObject = {"provider": target.model.provider_id, "model": target.model.name}
    else:
        what = {"alias": target.nested.name if target.nested else ""}
    return {**what, "weight": target.weight, "tier": target.tier, "match": target.match or None}


def _target(data: object, place: str) -> TargetDraft:
    members = _object(data, MEMBERS, place)
    weight = _number(members, "weight", MAX_WEIGHT, place, default=1)
    tier = _number(members, "tier", MAX_TIER, place, default=0)
    match = read_match(members.get("match"), f"{place}.match")
    if "alias" not in members:
        provider_id, model = _id(members, "provider", place), _name(members, "model", place)
        return TargetDraft(provider_id, model, "", weight, tier, match)
    if {"provider", "model"} & members.keys():
        raise ValidationError(
            "must be sent without provider and model: a target is a model of a provider, or an alias.",
            field=f"{place}.alias",
        )
    return TargetDraft(None, "", _name(members, "alias", place), weight, tier, match)


def read_match(data: object, place: str = "match") -> JsonObject:
    """The conditions of a target, {} for none. Raises ValidationError with the place of the mistake."""
    if data is None:
        return {}
    members = _object(data, MATCH_MEMBERS, place)
    match: JsonObject = {}
    if members.get("tags"):
        match["tags"] = _tags(members["tags"], f"{place}.tags")
    for name in ("groupId", "userId"):
        if members.get(name) is not None:
            match[name] = _id(members, name, place)
    if members.get("keyName") is not None:
        match["keyName"] = _name(members, "keyName", place)
        if "userId" not in match:
            raise ValidationError("needs userId: each user has key names of their own.", field=f"{place}.keyName")
    return match


def _tags(data: object, place: str) -> dict[str, str]:
    if not isinstance(data, dict) or len(data) > MAX_TAGS:
        raise ValidationError(f"must be an object with at most {MAX_TAGS} names and values.", field=place)
    for name, value in data.items():
        if not 0 < len(name) <= MAX_TAG_NAME or not isinstance(value, str) or len(value) > MAX_TAG_VALUE:
            raise ValidationError(
                f"must have names of 1 to {MAX_TAG_NAME} characters and texts of at most {MAX_TAG_VALUE}.", field=place
            )
        _refuse_unprintable(name + value, place)
    return data


def _object(data: object, members: frozenset[str], place: str) -> Mapping[str, object]:
    if not isinstance(data, dict):
        raise ValidationError("must be an object.", field=place)
    if unknown := data.keys() - members:
        raise ValidationError(
            f"must only have the members {', '.join(sorted(members))}.", field=f"{place}.{min(unknown)}"
        )
    return data


def _number(members: Mapping[str, object], name: str, most: int, place: str, *, default: int) -> int:
    number = members.get(name, default)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= most:
        raise ValidationError(f"must be a whole number from 0 to {most}.", field=f"{place}.{name}")
    return number


def _id(members: Mapping[str, object], name: str, place: str) -> int:
    number = members.get(name)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= MAX_ID:
        raise ValidationError("must be an id: a whole number.", field=f"{place}.{name}")
    return number


def _name(members: Mapping[str, object], name: str, place: str) -> str:
    text = members.get(name)
    if not isinstance(text, str) or not 0 < len(text) <= MAX_NAME_LENGTH:
        raise ValidationError(f"must be a name of 1 to {MAX_NAME_LENGTH} characters.", field=f"{place}.{name}")
    _refuse_unprintable(text, f"{place}.{name}")
    return text


def _refuse_unprintable(text: str, place: str) -> None:
    if not text.isprintable():
        raise ValidationError("must have printable characters only.", field=place)
