"""Stores the access tests of a file: those with a new name are created, those with a known name are changed."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from django.db import transaction

from accounts.models import Group, User
from gateway_project.api import audit
from gateway_project.database.names import compose_name, name_key
from gateway_project.errors import GatewayError, ValidationError
from providers.models import Provider
from rules.access_tests.documents import ROOT, FileEntry
from rules.access_tests.models import AccessTest
from rules.access_tests.services import AccessTestChanges, create_access_test, update_access_test

# What a file calls the attributes of a test.
MEMBERS = {"user_id": "user", "group_id": "group", "key_name": "key", "provider_id": "provider"}


class ImportResult(NamedTuple):
    """The names of the tests that were created and changed, and how many were the same already."""

    created: Sequence[str]
    changed: Sequence[str]
    unchanged: int

    @property
    def sentence(self) -> str:
        return f"{len(self.created):,} created, {len(self.changed):,} changed, {self.unchanged:,} unchanged."


class Names(NamedTuple):
    """The ids of all that a file can refer to, by name."""

    users: Mapping[str, int]
    groups: Mapping[str, int]
    providers: Mapping[str, int]


@transaction.atomic
def import_access_tests(entries: Sequence[FileEntry]) -> ImportResult:
    """Store the tests, all or none; others stay. Raises ValidationError and Conflict with the place in the file."""
    names, present = _names(entries), {test.name: test for test in AccessTest.objects.select_for_update()}
    created, changed = list[str](), list[str]()
    for number, entry in enumerate(entries):
        try:
            values, test = _values(entry, names), present.get(compose_name(entry.name))
            if test is None:
                created.append(create_access_test(**values).name)
            elif _has_changed(test, values):
                update_access_test(test, **values)
                changed.append(test.name)
        except GatewayError as error:
            raise ValidationError(error.sentence_with(MEMBERS), field=f"{ROOT}[{number}]") from None
    result = ImportResult(created, changed, len(entries) - len(created) - len(changed))
    _record(result)
    return result


def _has_changed(test: AccessTest, values: AccessTestChanges) -> bool:
    return any(getattr(test, name) != value for name, value in values.items() if name != "name")


def _names(entries: Sequence[FileEntry]) -> Names:
    user_keys = {name_key(entry.user) for entry in entries if entry.user}
    return Names(
        dict(User.objects.live().filter(name_key__in=user_keys).values_list("name_key", "pk")),
        dict(Group.objects.values_list("name", "pk")),
        dict(Provider.objects.values_list("name", "pk")),
    )


def _values(entry: FileEntry, names: Names) -> AccessTestChanges:
    return {
        "name": entry.name,
        "description": entry.description,
        "user_id": _id(names.users, name_key(entry.user), "user", entry.user),
        "group_id": _id(names.groups, compose_name(entry.group), "group", entry.group),
        "key_name": entry.key,
        "model": entry.model,
        "provider_id": _id(names.providers, entry.provider, "provider", entry.provider),
        "expected": entry.expected,
    }


def _id(ids: Mapping[str, int], key: str, kind: str, name: str) -> int | None:
    if not name:
        return None
    if key not in ids:
        raise ValidationError(f"there is no {kind} named {name[:100]!r}.", field=kind)
    return ids[key]


def _record(result: ImportResult) -> None:
    actor = audit.current_actor()
    message = f"{actor.name or 'Nobody'} imported access tests: {result.sentence}"
    after = {"created": list(result.created), "changed": list(result.changed)}
    audit.record(actor, "import", "access-tests", after=after, message=message)
