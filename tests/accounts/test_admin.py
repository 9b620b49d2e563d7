"""Users and groups in the console: one's own password, and what lists count."""

from html import unescape

import pytest
from django.utils.html import strip_tags

from accounts.builtin import RISKS
from accounts.models import MAX_PASSWORD_LENGTH, Feature, Group, Role, Session, User
from accounts.services import create_group
from providers.models import Provider
from providers.services import create_provider
from telemetry.models import LogEntry
from tests.support.console.forms import fields_of
from tests.support.management import PASSWORD, new_admin, new_user
from tests.support.promises import promise

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
NEW = "another long pass phrase"


@pytest.fixture
def boss() -> User:
    return new_admin(username="boss")


@pytest.fixture
def console(client, boss):
    client.post("/admin/login/", {"username": "boss", "password": PASSWORD})
    return client


def change(console, user: User, **fields: str):
    """The answer to the user's form with these fields."""
    path = f"/admin/accounts/user/{user.pk}/change/"
    return console.post(path, fields_of(console.get(path).text) | fields)


@pytest.mark.long
@pytest.mark.parametrize(("value", "told"), [("", "Required"), ("not this one", "Is wrong.")])
def test_the_own_password_is_not_changed_without_the_present_one(console, boss, value, told):
    answer = change(console, boss, password=NEW, present_password=value)
    assert told in answer.text
    boss.refresh_from_db()
    assert boss.check_password(PASSWORD)
    wrong = LogEntry.objects.filter(message="The password for boss was wrong.")
    assert wrong.exists() is bool(value)


@pytest.mark.long
def test_with_it_this_login_goes_on_and_that_alone(console, boss):
    other = Session.objects.create(user=boss, expires_at="2999-01-01T00:00Z")
    assert change(console, boss, password=NEW, present_password=PASSWORD).status_code == 302
    assert console.get("/admin/").status_code == 200
    boss.refresh_from_db()
    other.refresh_from_db()
    assert boss.check_password(NEW)
    assert other.ended_at is not None
    assert LogEntry.objects.filter(message=f"boss changed users {boss.pk}: password.").exists()


def test_the_present_password_alone_changes_nothing(console, boss):
    assert change(console, boss, present_password="whatever").status_code == 302
    assert not LogEntry.objects.filter(message__startswith="boss changed").exists()


@pytest.mark.long
def test_another_users_password_needs_none(console):
    user = new_user()
    assert "present_password" not in console.get(f"/admin/accounts/user/{user.pk}/change/").text
    assert change(console, user, password=NEW).status_code == 302
    user.refresh_from_db()
    assert user.check_password(NEW)
    assert console.get("/admin/").status_code == 200


def test_what_a_search_finds_by_many_is_counted_once(console):
    group = Group.objects.create(name="group")
    group.members.set([new_user(username=f"zed{number}") for number in range(3)])
    create_provider(
        name="p", format_name="openai", url="https://llm.example.org/v1", auth_method="none", models=["zed-1", "zed-2"]
    )
    rows = {}
    for path in ("accounts/group", "providers/provider"):
        listed = console.get(f"/admin/{path}/?q=zed").context["cl"]
        rows |= {type(row): row for row in listed.result_list}
        assert len(listed.result_list) == 1
    assert rows[Group].size == 3
    assert rows[Provider].model_count == 2


@pytest.mark.long
def test_a_password_has_the_bound_of_the_api(console):
    user = new_user()
    answer = change(console, user, password="x" * (MAX_PASSWORD_LENGTH + 1))
    assert list(answer.context["adminform"].form.errors) == ["password"]
    assert change(console, user, password="x" * MAX_PASSWORD_LENGTH).status_code == 302


def test_a_refused_login_is_told_once(client, boss):
    answer = client.post("/admin/login/", {"username": "boss", "password": "not this one"})
    assert answer.text.count("errornote") == 1
    assert "Please correct" not in answer.text


def test_a_login_without_a_name_says_where_to_look(client):
    answer = client.post("/admin/login/", {"username": "", "password": PASSWORD})
    assert "Please correct" in answer.text


@pytest.mark.long
def test_a_short_password_is_refused_beside_its_field(console):
    user = new_user()
    answer = change(console, user, password="7 chars")
    assert "at least 8 characters" in answer.context["adminform"].form.errors["password"][0]
    user.refresh_from_db()
    assert user.check_password(PASSWORD)


def test_all_that_is_wrong_with_a_new_user_is_said_at_once(console):
    """The name was only refused once the password was accepted."""
    new_user(username="ann")
    fields = fields_of(console.get("/admin/accounts/user/add/").text)
    answer = console.post("/admin/accounts/user/add/", fields | {"username": "Ann", "password": "short"})
    errors = answer.context["adminform"].form.errors
    assert errors.keys() == {"username", "password"}
    assert "exists already" in errors["username"][0]
    assert len(errors["username"]) == 1
    assert "too short" in errors["password"][0]
    console.post("/admin/accounts/user/add/", fields | {"username": "bob", "password": PASSWORD})
    assert User.objects.get(username="bob").check_password(PASSWORD)


def test_a_new_user_has_no_history_yet(console, boss):
    assert "Created at" not in console.get("/admin/accounts/user/add/").text
    assert "Created at" in console.get(f"/admin/accounts/user/{boss.pk}/change/").text


@pytest.mark.long
def test_the_features_of_the_role_admin_are_shown_and_not_offered(console):
    Feature.objects.create(name="reports.view")
    admin, user = (Role.objects.get(name=name) for name in ("admin", "user"))
    page = console.get(f"/admin/accounts/role/{admin.pk}/change/").text
    assert "reports.view" in page
    assert 'name="features"' not in page
    assert 'name="requires_second_factor"' in page
    assert 'name="features"' in console.get(f"/admin/accounts/role/{user.pk}/change/").text
    assert 'name="features"' in console.get("/admin/accounts/role/add/").text


@promise("Whoever grants a feature reads its risk", target="on each page that grants features", suite="attack")
@pytest.mark.parametrize("page", ["accounts/feature/", "accounts/role/add/", "keys/apikey/add/"])
def test_whoever_grants_a_feature_reads_its_risk(console, page):
    Feature.objects.create(name="reports.view")
    shown = unescape(console.get(f"/admin/{page}").text)
    for risk in (*RISKS.values(), "Allows nothing in the gateway itself."):
        assert risk in shown


def test_a_role_keeps_the_features_that_stay_chosen(console):
    role = Role.objects.get(name="user")
    path = f"/admin/accounts/role/{role.pk}/change/"
    chosen = [str(pk) for pk in Feature.objects.filter(name__in=["work", "rules.view"]).values_list("pk", flat=True)]
    answer = console.post(path, fields_of(console.get(path).text) | {"features": chosen})
    assert answer.status_code == 302
    assert set(role.features.values_list("name", flat=True)) == {"work", "rules.view"}


@pytest.mark.long
def test_the_page_of_a_user_tells_the_groups_and_of_which_zone_its_times_are(console):
    ann = new_user()
    for name in ("search", "ads"):
        create_group(name=name, member_ids=[ann.pk])
    page = console.get(f"/admin/accounts/user/{ann.pk}/change/").text
    assert "ads, search" in strip_tags(page)
    assert f"{ann.created_at:%Y-%m-%d %H:%M} (UTC)" in page
