"""Access tests as YAML: users, groups and providers by name, so that one file fits several gateways."""

from collections.abc import Iterable
from dataclasses import dataclass

import yaml
from django.core.exceptions import ValidationError as InvalidText

from accounts.models import Group, User, check_text
from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from providers.models import Provider
from rules.access_tests.models import AccessTest, Expectation
from rules.access_tests.services import MAX_TESTS

MAX_BYTES = 2 * 1024 * 1024
ROOT = "access-tests"
MEMBERS = ("name", "description", "user", "group", "key", "model", "provider", "expected")
REQUIRED = ("name", "model", "expected")
_ENTRY_SCHEMA = {"properties": {name: {"type": "string"} for name in MEMBERS}, "required": REQUIRED}
FILE_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {ROOT: {"type": "array", "items": {"type": "object"} | _ENTRY_SCHEMA}},
    "required": [ROOT],
}


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A test in a file; an empty text is what it does not say."""

    name: str
    model: str
    expected: str
    description: str = ""
    user: str = ""
    group: str = ""
    key: str = ""
    provider: str = ""


def write_document(tests: Iterable[AccessTest]) -> str:
    """The tests as a file; those whose user, group or provider is gone are left out, as no name leads to these."""
    entries = [_as_entry(test) for test in tests if _is_whole(test)]
    return yaml.safe_dump({ROOT: entries}, sort_keys=False, allow_unicode=True)


def read_document(text: str) -> list[FileEntry]:
    """The tests in a file. Raises ValidationError with the place of the mistake."""
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise ValidationError(f"The file has more than {MAX_BYTES // 1024:,} KiB.")
    try:
        document = _load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValidationError(f"The file is not YAML: {_first_line(error)}") from None
    entries = document.get(ROOT) if isinstance(document, dict) and document.keys() == {ROOT} else None
    if not isinstance(entries, list) or len(entries) > MAX_TESTS:
        raise ValidationError(f"The file must have one member, {ROOT}: a list of at most {MAX_TESTS:,} tests.")
    tests = [_entry(entry, f"{ROOT}[{number}]") for number, entry in enumerate(entries)]
    _refuse_same_names(tests)
    return tests


class _Loader(yaml.SafeLoader):
    """Reads a document without references: a few lines of them can stand for gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "it has a reference (*)", self.peek_event().start_mark)
        return super().compose_node(parent, index)


def _load(text: str) -> object:
    """Lists, objects, texts and None; what is anything else for YAML is an `_OtherScalar`, and never constructed."""
    loader = _Loader(text)
    try:
        return _value_of(loader.get_single_node())
    finally:
        loader.dispose()


class _OtherScalar:
    """A number, a date, true, …: no member of a test is one."""


def _value_of(node: yaml.Node | None) -> object:
    if isinstance(node, yaml.MappingNode):
        return {_shown_name(name): _value_of(value) for name, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_value_of(one) for one in node.value]
    if node is None or node.tag == "tag:yaml.org,2002:null":
        return None
    return node.value if node.tag == "tag:yaml.org,2002:str" else _OtherScalar()


def _shown_name(node: yaml.Node) -> str:
    """The name of a member; an error names an unknown one, so halves of characters, which YAML can escape, are "?"."""
    return str(node.value).encode(errors="replace").decode()


def _is_whole(test: AccessTest) -> bool:
    """Whether everything that the test refers to still exists."""
    references = ((test.user_id, test.user), (test.group_id, test.group), (test.provider_id, test.provider))
    return all(row_id is None or row is not None for row_id, row in references)


def _as_entry(test: AccessTest) -> JsonObject:
    user, group, provider = test.user, test.group, test.provider
    values = {
        "name": test.name,
        "description": test.description,
        "user": user.username if isinstance(user, User) else "",
        "group": group.name if isinstance(group, Group) else "",
        "key": test.key_name,
        "model": test.model,
        "provider": provider.name if isinstance(provider, Provider) else "",
        "expected": str(test.expected),
    }
    return {name: value for name, value in values.items() if value}


def _entry(entry: object, place: str) -> FileEntry:
    if not isinstance(entry, dict):
        raise ValidationError("must be an object.", field=place)
    if unknown := [str(name)[:100] for name in entry if name not in MEMBERS]:
        raise ValidationError(f"must only have the members {', '.join(MEMBERS)}.", field=f"{place}.{unknown[0]}")
    values = {name: _text(value, f"{place}.{name}") for name, value in entry.items() if value is not None}
    for name in REQUIRED:
        if not values.get(name):
            raise ValidationError("is missing.", field=f"{place}.{name}")
    if values["expected"] not in Expectation.values:
        raise ValidationError(f"must be {' or '.join(Expectation.values)}.", field=f"{place}.expected")
    return FileEntry(**values)


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise ValidationError("must be a text; write it in quotes.", field=place)
    try:
        check_text(value)
    except InvalidText as error:
        raise ValidationError(str(error.message), field=place) from None
    return value


def _refuse_same_names(tests: list[FileEntry]) -> None:
    names: set[str] = set()
    for number, test in enumerate(tests):
        if test.name in names:
            raise ValidationError(f"the file contains {test.name!r} twice.", field=f"{ROOT}[{number}].name")
        names.add(test.name)


def _first_line(error: object) -> str:
    mark = getattr(error, "problem_mark", None)
    place = f" in line {mark.line + 1}" if mark is not None else ""
    return f"{getattr(error, 'problem', None) or 'it cannot be read'}{place}."
