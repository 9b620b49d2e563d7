"""People and their rights, as the database keeps them."""

from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import IntegrityError, transaction
from django.utils import timezone

from accounts.builtin import FEATURES
from accounts.models import Feature, Group, Role, Session, User
from gateway_project.database.names import KEY_SEPARATOR
from tests.support.management import new_admin, new_user
from tests.support.promises import promise

pytestmark = pytest.mark.either_store


def test_every_instance_has_the_built_in_features_and_roles(db):
    assert set(FEATURES) <= set(Feature.objects.values_list("name", flat=True))
    user = Role.objects.get(name="user")
    assert set(user.features.values_list("name", flat=True)) == {"work", "models.create"}
    assert Role.objects.get(name="admin").features.count() == len(FEATURES)


def test_what_is_built_in_survives_a_flush(transactional_db):
    call_command("flush", interactive=False, verbosity=0)
    assert set(Role.objects.values_list("name", flat=True)) == {"admin", "user"}


def test_a_feature_taken_from_a_built_in_role_stays_taken(transactional_db):
    Role.objects.get(name="user").features.remove(Feature.objects.get(name="models.create"))
    call_command("migrate", verbosity=0, skip_checks=True)
    assert set(Role.objects.get(name="user").features.values_list("name", flat=True)) == {"work"}


WRONG_NAMES = ["", " ", "x" * 65, "work\n", " work", "work ", "wörk", "a\tb", "a/b", "a\u00a0b", "a\0b"]
WRONG_NAMES += ["w\u043erk"]  # a Cyrillic letter that looks like an o


@pytest.mark.parametrize("kind", [Feature, Role])
@pytest.mark.parametrize("name", ["W", "Reports View", "a:b-c_d.e 9", ":", "x" * 64])
def test_a_feature_or_a_role_has_letters_digits_and_some_marks_in_its_name(db, kind, name):
    kind(name=name).full_clean()


@pytest.mark.parametrize("kind", [Feature, Role])
@pytest.mark.parametrize("name", WRONG_NAMES)
@promise("V-K3: the name of a role has one spelling", target="400", suite="attack")
def test_a_feature_or_a_role_has_no_other_characters_in_its_name(db, kind, name):
    with pytest.raises(ValidationError):
        kind(name=name).full_clean()


@pytest.mark.parametrize("kind", [Feature, Role])
def test_the_database_refuses_a_name_that_differs_in_case_only(db, kind):
    kind.objects.create(name="Auditor X")
    with pytest.raises(IntegrityError), transaction.atomic():
        kind.objects.create(name="auditor x")


def test_what_is_built_in_gets_its_spelling_back(transactional_db):
    """A feature that a later version builds in may exist already, in another case."""
    Feature.objects.filter(name="stats.view").update(name="Stats.View")
    call_command("migrate", verbosity=0, skip_checks=True)
    assert Feature.objects.get(name__iexact="stats.view").name == "stats.view"


def test_a_username_is_unique_in_any_case(db):
    new_user(username="Ann")
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.create(username="ANN")


@pytest.mark.parametrize(
    ("one", "same"),
    [("Émile", "émile"), ("E\u0301mile", "émile"), ("Straße", "STRASSE"), ("ΣΊΣΥΦΟΣ", "σίσυφος"), ("Ａnn", "ann")],
)
def test_case_is_that_of_all_letters_on_every_database(db, one, same):
    user = new_user(username=one)
    assert list(User.objects.with_username(same)) == [user]
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.create(username=same)


def test_a_dotless_letter_is_another_one(db):
    """PostgreSQL's UPPER makes them one, its LOWER does not."""
    dotless, dotted = new_user(username="alı"), new_user(username="ali")
    assert [list(User.objects.with_username(name)) for name in ("alı", "ali", "ALI")] == [[dotless], [dotted], [dotted]]


def test_the_key_follows_the_name_whenever_the_user_is_saved(db):
    ann = new_user(username="Ann")
    ann.username = "Änn"
    ann.save()
    assert User.objects.get(name_key="ÄNN") == ann
    assert User.objects.filter(name_key__icontains="NN").get() == ann
    assert not User.objects.filter(name_key__icontains="a").exists()


def test_a_user_who_was_set_apart_stays_so_and_is_found_as_written(db):
    """As the migration leaves two whose names were different on SQLite."""
    older, newer = new_user(username="Émile"), new_user(username="anybody")
    User.objects.filter(pk=newer.pk).update(username="émile", name_key=f"émile{KEY_SEPARATOR}{newer.pk}")
    newer.refresh_from_db()
    newer.full_clean()
    newer.save()
    assert [User.objects.with_username(name).first() for name in ("Émile", "ÉMILE", "émile")] == [older, older, newer]


def test_a_user_has_the_features_of_all_their_roles(db):
    ann = new_user(username="ann")
    viewers = Role.objects.create(name="viewers")
    viewers.features.add(Feature.objects.get(name="logs.view_all"), Feature.objects.get(name="work"))
    ann.roles.add(viewers)
    assert ann.feature_names() == {"work", "models.create", "logs.view_all"}


def test_an_admin_has_every_feature_there_is_and_the_console(db):
    root = new_admin(username="root")
    Feature.objects.create(name="made.later")
    assert "made.later" in root.feature_names()
    assert (root.is_admin, root.is_staff, root.is_superuser) == (True, True, True)
    assert root.has_perm("keys.delete_apikey")
    assert root.has_perms(["a", "b"])
    assert root.has_module_perms("keys")


@pytest.mark.parametrize("flags", [{"is_active": False}, {"is_deleted": True}])
def test_an_admin_who_is_inactive_or_deleted_does_not_get_into_the_console(db, flags):
    root = new_admin(username="root", **flags)
    assert root.is_admin
    assert not root.is_staff
    assert not root.has_perm("keys.delete_apikey")
    assert not root.has_module_perms("keys")
    assert not User.objects.usable().exists()


def test_nobody_else_gets_into_the_console(db):
    ann = new_user(username="ann")
    assert not ann.is_admin
    assert not ann.has_perm("keys.delete_apikey")
    assert not User().is_admin


def test_whether_prefetched_users_are_admins_asks_no_query(db, django_assert_num_queries):
    new_admin(username="root")
    users = list(User.objects.prefetch_related("roles"))
    with django_assert_num_queries(0):
        assert [user.is_admin for user in users] == [True]
    assert list(User.objects.admins()) == users


def test_a_group_knows_its_members_and_they_know_it(db):
    ann = new_user(username="ann")
    group = Group.objects.create(name="team")
    group.members.add(ann)
    group.members.add(ann)
    assert list(group.members.all()) == [ann]
    assert list(ann.groups.all()) == [group]


def test_a_session_is_live_until_it_ends_or_expires(db):
    ann, now = new_user(username="ann"), timezone.now()
    session = Session.objects.create(user=ann, expires_at=now + timedelta(hours=1))
    assert list(Session.objects.live(now)) == [session]
    assert not Session.objects.live(now + timedelta(hours=1)).exists()
    assert session.is_live(now)
    session.ended_at = now
    session.save()
    assert not Session.objects.live(now).exists()
    assert not session.is_live(now)
