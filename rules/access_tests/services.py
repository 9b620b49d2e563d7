"""Every change to access tests. A test may fail when it is written: then it is something to do."""

from typing import Any, TypedDict, Unpack

from django.db import transaction

from accounts.models import Group, User
from gateway_project.database.saving import lock_row, rows_by_id, save_or_refuse
from gateway_project.errors import Conflict, ValidationError
from keys.models import ApiKey
from providers.models import Provider
from rules.access_tests.models import AccessTest

MAX_TESTS = 1000
PLAIN = ("name", "description", "key_name", "model", "expected")
REFERENCES = {"user_id": User.objects.live(), "group_id": Group.objects.all(), "provider_id": Provider.objects.all()}


class AccessTestChanges(TypedDict, total=False):
    """The parameters of create_access_test(), each of which an update may leave out."""

    name: str
    description: str
    user_id: int | None
    group_id: int | None
    key_name: str | None
    model: str
    provider_id: int | None
    expected: str


@transaction.atomic
def create_access_test(**values: Unpack[AccessTestChanges]) -> AccessTest:
    """Create a test; it needs a name, a model, and a user or a group.

    Raises Conflict if the name exists or there are MAX_TESTS, and ValidationError with the wrong field.
    """
    if AccessTest.objects.count() >= MAX_TESTS:
        raise Conflict(f"There are {MAX_TESTS:,} access tests, the maximum. Delete some first.")
    test = AccessTest()
    _write(test, values)
    return test


@transaction.atomic
def update_access_test(test: AccessTest, **changes: Unpack[AccessTestChanges]) -> None:
    """Store changes with the names of create_access_test(). Raises as above, and NotFound if the test is gone."""
    lock_row(test, AccessTest.objects.all())
    _write(test, changes)


@transaction.atomic
def delete_access_test(test: AccessTest) -> None:
    """Delete a test; changes that it refused are made from then on. Raises NotFound if it is gone."""
    lock_row(test, AccessTest.objects.all())
    test.delete()


def _write(test: AccessTest, changes: AccessTestChanges) -> None:
    values: dict[str, Any] = dict(changes)
    former = (test.user_id, test.key_name)
    for name in PLAIN:
        if name in values:
            setattr(test, name, values[name] or "")
    for name, rows in REFERENCES.items():
        _refer(test, name, values.get(name, getattr(test, name)), rows)
    _check_subject(test)
    if (test.user_id, test.key_name) != former:
        _check_key(test)
    save_or_refuse(test, conflict=f"An access test named {test.name!r} exists already.")


def _refer(test: AccessTest, name: str, row_id: int | None, rows: Any) -> None:
    """Set a reference; one that stays may be to what is gone. Raises ValidationError."""
    if row_id is not None and row_id != getattr(test, name):
        rows_by_id(rows.all(), [row_id], field=name)
    setattr(test, name, row_id)


def _check_subject(test: AccessTest) -> None:
    if (test.user_id is None) == (test.group_id is None):
        raise ValidationError("userId, groupId: set exactly one of them.")
    if test.key_name and test.user_id is None:
        raise ValidationError("needs userId: each user has key names of their own.", field="key_name")


def _check_key(test: AccessTest) -> None:
    if test.key_name and not ApiKey.objects.live().filter(owner_id=test.user_id, name=test.key_name).exists():
        raise ValidationError(f"the user has no key named {test.key_name!r}.", field="key_name")
