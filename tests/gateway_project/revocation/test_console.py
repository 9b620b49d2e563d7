"""The console: whoever deletes or locks learns where it is in force, and may end what runs."""

import pytest

from accounts.models import Group, User
from gateway_project.models import Change
from keys.services import issue_key
from telemetry.audit.models import AuditEntry
from tests.support.management import new_user

pytestmark = pytest.mark.either_store

BOX = '<input type="checkbox" name="cut">'


@pytest.fixture
def user(console):
    return new_user()


@pytest.fixture
def key(user):
    return issue_key(owner=user, name="laptop").key


def ordered(kind: str) -> list[int]:
    return list(Change.objects.filter(kind=kind).values_list("row_id", flat=True))


@pytest.mark.long
@pytest.mark.parametrize("action", ["lock", "expire", "delete"])
def test_a_key(console, key, action):
    path = f"/admin/keys/apikey/{key.pk}/{action}/"
    assert BOX in console.get(path).text
    page = console.post(path, {"post": "yes", "cut": "on"}, follow=True).text
    assert "In force on " in page
    assert " running requests were ended." in page
    assert ordered("cut_key") == [key.pk]


@pytest.mark.parametrize("action", ["deactivate", "delete"])
def test_a_user(console, user, action):
    page = console.post(f"/admin/accounts/user/{user.pk}/{action}/", {"post": "yes", "cut": "on"}, follow=True).text
    assert "In force on " in page
    user.refresh_from_db()
    assert not user.is_usable
    assert ordered("cut_user") == [user.pk]


def test_a_group_with_its_members(console, user):
    group = Group.objects.create(name="team")
    group.members.add(user)
    page = console.post(f"/admin/accounts/group/{group.pk}/delete/", {"post": "yes", "cut": "on"}, follow=True).text
    assert "In force on " in page
    assert ordered("cut_user") == [user.pk]


def saved(console, row, **values) -> str:
    """The page after the row's form was sent with these values; None: without the field."""
    path = f"/admin/accounts/{row._meta.model_name}/{row.pk}/change/"
    page = console.get(path)
    form = page.context["adminform"].form
    stored = {name: form[name].value() for name in form.fields}
    fields = {"_seen": form.first_digest, **stored, **values}
    return console.post(path, {name: value for name, value in fields.items() if value is not None}, follow=True).text


@pytest.mark.long
def test_the_form_of_a_user_that_becomes_inactive(console, user):
    page = saved(console, user, display_name="Ann")
    assert "was changed successfully" in page
    assert "In force on " not in page
    assert "In force on " in saved(console, user, is_active=None)
    user.refresh_from_db()
    assert (user.display_name, user.is_active) == ("Ann", False)
    assert ordered("cut_user") == []
    assert AuditEntry.objects.filter(action="revocation in force", resource="users", resource_id=user.pk).count() == 1


@pytest.mark.long
def test_the_form_of_a_group_that_loses_a_member(console, user):
    parent, group, other = Group.objects.create(name="org"), Group.objects.create(name="team"), new_user()
    group.members.add(user)
    for values, is_proven in (
        ({"members": [user.pk, other.pk]}, False),
        ({"members": [other.pk]}, True),
        ({"name": "crew"}, False),
        ({"parent": parent.pk}, True),
    ):
        page = saved(console, group, **values)
        assert "was changed successfully" in page
        assert ("In force on " in page) == is_proven, values


def test_a_group_that_is_moved_moves_the_members_of_those_below_it(console, user):
    org = Group.objects.create(name="org")
    parent = Group.objects.create(name="department", parent=org)
    Group.objects.create(name="team", parent=parent).members.add(user)
    assert "In force on " in saved(console, parent, parent="", cut="on")
    assert ordered("cut_user") == [user.pk]


def test_a_form_that_is_refused_proves_nothing(console):
    own = User.objects.get(pk=console.session["_auth_user_id"])
    page = saved(console, own, is_active=None)
    assert "last active admin" in page
    assert "In force on " not in page


@pytest.mark.long
def test_several_at_once(console, user):
    keys = [issue_key(owner=user, name=f"key {number}").key for number in range(3)]
    form = {"action": "delete_selected", "_selected_action": [key.pk for key in keys]}
    assert BOX in console.post("/admin/keys/apikey/", form).text
    page = console.post("/admin/keys/apikey/", form | {"post": "yes", "cut": "on"}, follow=True).text
    assert "3 of 3 API keys deleted." in page
    assert page.count("In force on ") == 1
    assert sorted(ordered("cut_key")) == [key.pk for key in keys]


@pytest.mark.long
def test_without_the_box_nothing_is_ended(console, key):
    page = console.post(f"/admin/keys/apikey/{key.pk}/lock/", {}, follow=True).text
    assert "In force on " in page
    assert "ended" not in page.split("In force on ")[1][:60]
    assert ordered("cut_key") == []


def test_what_is_refused_proves_nothing(console, user):
    path = f"/admin/accounts/user/{console.session['_auth_user_id']}/deactivate/"
    page = console.post(path, {"cut": "on"}, follow=True).text
    assert "last active admin" in page
    assert "In force on " not in page
    assert ordered("cut_user") == []


def test_other_actions_do_not_ask(console, key):
    assert BOX not in console.get(f"/admin/keys/apikey/{key.pk}/rotate/").text
