"""The targets of an alias as lines of text, for the console: `provider/model | weight=3 | tier=1 | tag stage=beta`."""

from collections.abc import Iterable

from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from providers.models import Provider
from rules.aliases.drafts import TargetDraft, read_targets
from rules.aliases.models import AliasTarget

SEPARATOR = " | "
HELP = (
    "One target per line: provider/model, or alias:name. Options follow after a |: weight=3 (share within its tier; "
    "0: only after the others), tier=1 (lower is tried first), tag name=value, group=id, user=id, key=name."
)
NUMBERS = ("weight", "tier")
IDS = {"group": "groupId", "user": "userId"}


def read_lines(text: str) -> list[TargetDraft]:
    """The targets in these lines. Raises ValidationError with the number of the line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    provider_ids = dict(Provider.objects.values_list("name", "pk"))
    targets = [_target(line, number, provider_ids) for number, line in enumerate(lines, start=1)]
    try:
        return read_targets(targets)
    except ValidationError as error:
        raise ValidationError(error.sentence, field="targets") from None


def as_lines(targets: Iterable[AliasTarget]) -> str:
    """The lines of stored targets."""
    return "\n".join(map(_line, targets))


def conditions_of(match: JsonObject) -> list[str]:
    """The conditions of a target, each as in its line."""
    parts = [f"tag {name}={value}" for name, value in sorted(match.get("tags", {}).items())]
    parts += [f"{name}={match[member]}" for name, member in IDS.items() if member in match]
    return parts + ([f"key={match['keyName']}"] if "keyName" in match else [])


def _line(target: AliasTarget) -> str:
    what = str(target) if target.model is not None else f"alias:{target.nested}"
    numbers = [f"weight={target.weight}"] if target.weight != 1 else []
    numbers += [f"tier={target.tier}"] if target.tier else []
    return SEPARATOR.join([what, *numbers, *conditions_of(target.match)])


def _target(line: str, number: int, provider_ids: dict[str, int]) -> JsonObject:
    what, *options = line.split(SEPARATOR)
    target = _subject(what.strip(), number, provider_ids)
    match: JsonObject = {}
    for option in options:
        name, equals, value = option.strip().partition("=")
        if not equals:
            raise _refusal(number, f"{option.strip()!r} must be name=value.")
        if name in NUMBERS:
            target[name] = _whole(value, number)
        elif name in IDS:
            match[IDS[name]] = _whole(value, number)
        elif name == "key":
            match["keyName"] = value
        elif name.startswith("tag "):
            match.setdefault("tags", {})[name.removeprefix("tag ").strip()] = value
        else:
            raise _refusal(number, f"{name!r} must be weight, tier, tag, group, user or key.")
    return {**target, "match": match}


def _subject(what: str, number: int, provider_ids: dict[str, int]) -> JsonObject:
    if what.startswith("alias:"):
        return {"alias": what.removeprefix("alias:")}
    provider, slash, model = what.partition("/")
    if not slash or provider not in provider_ids:
        raise _refusal(number, f"{what!r} must begin with the name of a provider and a slash, or with alias:.")
    return {"provider": provider_ids[provider], "model": model}


def _whole(value: str, number: int) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) < 19):
        raise _refusal(number, f"{value!r} must be a whole number.")
    return int(value)


def _refusal(number: int, reason: str) -> ValidationError:
    return ValidationError(f"Line {number}: {reason}", field="targets")
