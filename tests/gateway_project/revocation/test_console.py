"""The console: whoever deletes or locks learns where it is in force, and may end what runs."""

import pytest

from accounts.models import Group
from gateway_project.models import Change
from keys.services import issue_key
from tests.support.management import new_user

BOX = '<input type="checkbox" name="cut">'


@pytest.fixture
def user(console):
    return new_user()


@pytest.fixture
def key(user):
    return issue_key(owner=user, name="laptop").key


def ordered(kind: str) -> list[int]:
    return list(Change.objects.filter(kind=kind).values_list("row_id", flat=True))


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


def test_several_at_once(console, user):
    keys = [issue_key(owner=user, name=f"key {number}").key for number in range(3)]
    form = {"action": "delete_selected", "_selected_action": [key.pk for key in keys]}
    assert BOX in console.post("/admin/keys/apikey/", form).text
    page = console.post("/admin/keys/apikey/", form | {"post": "yes", "cut": "on"}, follow=True).text
    assert "3 of 3 API keys deleted." in page
    assert page.count("In force on ") == 1
    assert sorted(ordered("cut_key")) == [key.pk for key in keys]


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
