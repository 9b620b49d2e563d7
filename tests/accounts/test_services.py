"""Changes to people and their sessions."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import IntegrityError, OperationalError, connection, connections, transaction
from django.utils import timezone

from accounts.models import Group, Role, Session, User
from accounts.scim.services import change_members
from accounts.services import (
    add_member,
    create_group,
    create_role,
    create_user,
    delete_group,
    delete_user,
    lock_user,
    update_group,
    update_role,
    update_user,
)
from accounts.sessions import end_sessions
from gateway_project.errors import Conflict, NotFound, ValidationError

pytestmark = pytest.mark.either_store


def role_names(user):
    return set(user.roles.values_list("name", flat=True))


def test_a_new_user_can_log_in_and_has_the_role_user(db):
    ann = create_user(username="ann", password="a secret", display_name="Ann", email="ann@example.org")
    stored = User.objects.get(pk=ann.pk)
    assert stored.check_password("a secret")
    assert (stored.display_name, stored.email, stored.is_active) == ("Ann", "ann@example.org", True)
    assert role_names(stored) == {"user"}


def test_roles_can_be_named_or_given_by_id_and_replace_the_usual_one(db):
    viewers = Role.objects.create(name="viewers")
    assert role_names(create_user(username="a", password="a secret", roles=["admin", "viewers"])) == {
        "admin",
        "viewers",
    }
    assert role_names(create_user(username="b", password="a secret", role_ids=[viewers.pk])) == {"viewers"}
    assert role_names(create_user(username="c", password="a secret", roles=[])) == set()


def test_a_name_that_exists_in_any_case_is_a_conflict_even_of_a_deleted_user(db):
    create_user(username="Ann", password="a secret", is_deleted=True)
    with pytest.raises(Conflict, match="ANN.*deleted"):
        create_user(username="ANN", password="a secret")
    with pytest.raises(Conflict):
        create_user(username="Ann", password="a secret")


@pytest.mark.parametrize(
    "wrong",
    [
        {"username": ""},
        {"username": " ann"},
        {"username": "an\0n"},
        {"username": "x" * 151},
        {"password": ""},
        {"password": "7 chars"},
        {"password": "\ud800"},
        {"email": "nobody"},
        {"display_name": "a\0b"},
        {"roles": ["nosuch"]},
    ],
)
def test_what_cannot_be_stored_is_refused_and_leaves_nothing(db, wrong):
    with pytest.raises(ValidationError) as refused:
        create_user(**{"username": "ann", "password": "a secret", **wrong})
    assert refused.value.field == next(iter(wrong))
    assert not User.objects.exists()


@pytest.fixture
def sessions(db):
    ann = create_user(username="ann", password="a secret")
    later = timezone.now() + timedelta(hours=1)
    return [Session.objects.create(user=ann, expires_at=later, device=str(n)) for n in range(3)]


def test_all_sessions_of_a_user_end_at_once(sessions):
    other = create_user(username="bob", password="a secret")
    rest = Session.objects.create(user=other, expires_at=timezone.now() + timedelta(hours=1))
    assert end_sessions(user=sessions[0].user) == 3
    assert list(Session.objects.live()) == [rest]


def test_all_but_one_end_and_ended_ones_keep_their_time(sessions):
    this, _, ended = sessions
    Session.objects.filter(pk=ended.pk).update(ended_at="2026-01-01T00:00:00Z")
    assert end_sessions(user=this.user, except_for=this.pk) == 1
    assert list(Session.objects.live()) == [this]
    assert Session.objects.get(pk=ended.pk).ended_at.year == 2026
    assert Session.objects.get(pk=ended.pk).ended_at.month == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda group: update_group(group, name="crew"),
        lambda group: update_group(group, member_ids=[]),
        lambda group: add_member(group, user_id=create_user(username="ann", password="a secret").pk),
    ],
)
def test_a_group_that_was_deleted_meanwhile_is_not_brought_back(db, change):
    group = create_group(name="team")
    Group.objects.all().delete()
    with pytest.raises(NotFound):
        change(group)
    assert not Group.objects.exists()


def test_a_role_that_was_deleted_meanwhile_is_not_brought_back(db):
    role = create_role(name="auditor")
    Role.objects.filter(pk=role.pk).delete()
    with pytest.raises(NotFound):
        update_role(role, name="watcher")
    assert not Role.objects.filter(name__in=["auditor", "watcher"]).exists()


@pytest.mark.parametrize("change", [delete_user, lambda user: update_user(user, display_name="Ann")])
def test_a_user_who_is_gone_is_not_brought_back(db, change):
    ann = create_user(username="ann", password="a secret")
    User.objects.all().delete()
    with pytest.raises(NotFound):
        change(ann)
    assert not User.objects.exists()


def test_a_deleted_user_stays_in_its_groups_and_joins_no_other(db):
    ann, bob = create_user(username="ann", password="a secret"), create_user(username="bob", password="a secret")
    team = create_group(name="team", member_ids=[ann.pk])
    delete_user(ann)
    update_group(team, member_ids=[ann.pk, bob.pk])
    assert set(team.members.all()) == {ann, bob}
    for join in (
        lambda: create_group(name="other", member_ids=[ann.pk]),
        lambda: add_member(create_group(name="third", member_ids=[]), user_id=ann.pk),
    ):
        with pytest.raises(ValidationError, match="that is not deleted"):
            join()
    with pytest.raises(ValidationError, match="no user with id 987654.$"):
        add_member(team, user_id=987654)


def in_another_transaction(change: Callable[[], object]) -> Future:
    """The change in a thread, in a transaction that waits at most a second for a lock."""

    def run() -> None:
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '1s'")
                change()
        finally:
            connections.close_all()

    with ThreadPoolExecutor() as pool:
        return pool.submit(run)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time")
@pytest.mark.django_db(transaction=True)
class TestLocks:
    def test_a_user_who_is_being_changed_can_join_a_group_meanwhile(self):
        ann, staff = create_user(username="ann", password="a secret"), create_group(name="Staff")
        with transaction.atomic():
            lock_user(ann)
            in_another_transaction(lambda: change_members(staff, joining=[ann.pk], leaving=())).result()
        assert staff.members.contains(ann)

    def test_a_group_that_is_being_changed_can_get_a_member_meanwhile(self):
        ann, bob = (create_user(username=name, password="a secret") for name in ("ann", "bob"))
        staff = create_group(name="Staff")
        with transaction.atomic():
            add_member(staff, user_id=bob.pk)
            in_another_transaction(lambda: ann.groups.add(staff)).result()
        assert set(staff.members.all()) == {ann, bob}

    def test_one_that_is_being_deleted_gets_none(self):
        ann, staff = create_user(username="ann", password="a secret"), create_group(name="Staff")
        group_id = staff.pk
        with transaction.atomic():
            delete_group(staff)
            joining = in_another_transaction(lambda: ann.groups.add(group_id))
            assert isinstance(joining.exception(), OperationalError)  # it waited
        with pytest.raises(IntegrityError), transaction.atomic():
            ann.groups.add(group_id)
