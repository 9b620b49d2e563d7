"""The pages of whoever administers a group: service accounts, their keys, rules; each route, for each kind of user."""

import pytest
from django.test import Client

from accounts.managing import accounts as managing
from accounts.models import Feature, Role, User
from accounts.services import add_member, create_group, create_service_account, update_user
from keys.models import ApiKey
from keys.services import issue_key
from rules.access_tests.services import create_access_test
from rules.models import Rule
from rules.services import create_rule
from telemetry.audit.models import AuditEntry
from tests.me.test_access import SCRIPT, log_in
from tests.support.management import new_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def group(db):
    return create_group(name="search")


@pytest.fixture
def boss(group):
    return add_member(group, user_id=new_user(username="boss").pk, is_admin=True)


@pytest.fixture
def browser(boss) -> Client:
    return log_in(boss)


@pytest.fixture
def account(group):
    return create_service_account(username="indexer", group_id=group.pk, display_name=SCRIPT)


@pytest.fixture
def key(account):
    return issue_key(owner=account, name="nightly").key


@pytest.fixture
def rule(group):
    return create_rule(name="No large", group_id=group.pk, effect="deny", regex="x", is_delegated=True)


@pytest.fixture
def routes(group, account, key, rule) -> list[str]:
    """Every page of a group, with ids that exist."""
    keys = f"/me/group-accounts/{account.pk}/keys/"
    return [
        f"/me/groups/{group.pk}/",
        f"/me/groups/{group.pk}/accounts/new/",
        f"/me/groups/{group.pk}/rules/new/",
        *(f"/me/group-accounts/{account.pk}/{step}" for step in ("", "lock/", "delete/")),
        *(f"{keys}{step}" for step in ("new/", f"{key.pk}/rotate/", f"{key.pk}/delete/")),
        *(f"/me/group-rules/{rule.pk}/{step}" for step in ("", "delete/")),
    ]


def stored() -> list:
    tables = (User.objects.exclude(kind="person"), ApiKey.objects, Rule.objects)
    return [list(table.order_by("pk").values()) for table in tables]


def another_admin(group) -> User:
    return add_member(create_group(name="other"), user_id=new_user().pk, is_admin=True)


@pytest.mark.parametrize(
    "kind", ["member", "stranger", "admin of another group", "former admin", "admin who is no member"]
)
def test_nobody_else_opens_a_page(group, routes, kind):
    user = new_user()
    if kind == "member":
        add_member(group, user_id=user.pk)
    elif kind == "admin of another group":
        user = another_admin(group)
    elif kind == "former admin":
        add_member(group, user_id=user.pk, is_admin=True)
        add_member(group, user_id=user.pk, is_admin=False)
    elif kind == "admin who is no member":
        group.admins.add(user)
    stranger, before = log_in(user), stored()
    for path in routes:
        for response in (stranger.get(path), stranger.post(path, {"active": "false", "name": "x", "username": "x"})):
            assert response.status_code in (404, 405), path
    assert stored() == before
    assert not User.objects.filter(username="x").exists()
    assert f"/me/groups/{group.pk}/" not in stranger.get("/me/groups/").text


def test_without_a_login_each_page_leads_to_the_login(client, routes):
    for path in [*routes, "/me/groups/"]:
        for response in (client.get(path), client.post(path)):
            assert response.status_code == 302
            assert response.headers["Location"].startswith("/me/login/?next=/me/")


def test_what_belongs_to_another_group_is_not_there(browser, key):
    other = create_service_account(username="elsewhere", group_id=create_group(name="other").pk)
    theirs = issue_key(owner=other, name="k").key
    path = f"/me/group-accounts/{key.owner_id}/keys/{theirs.pk}"
    person = issue_key(owner=new_user(), name="k").key
    paths = [
        *(f"{path}/{step}/" for step in ("rotate", "delete")),
        *(f"/me/group-accounts/{owner}/" for owner in (other.pk, person.owner_id, 2**63)),
        f"/me/group-accounts/{key.owner_id}/keys/{person.pk}/delete/",
        f"/me/groups/{2**63}/",
        f"/me/group-rules/{2**63}/",
        f"/me/group-rules/{create_rule(name='r', user_id=0).pk}/",
        f"/me/group-rules/{create_rule(name='s', group_id=other.owning_group_id, is_delegated=True).pk}/",
    ]
    for address in paths:
        assert browser.get(address).status_code == browser.post(address).status_code == 404, address


def test_every_page_opens_and_shows_text_as_text(browser, routes):
    for path in [*routes, "/me/groups/"]:
        response = browser.get(path)
        assert response.status_code == (405 if path.endswith("/lock/") else 200), path
        assert SCRIPT not in response.text


def test_an_account_is_made_locked_unlocked_and_deleted(browser, group):
    response = browser.post(f"/me/groups/{group.pk}/accounts/new/", {"username": "crawler", "display_name": "Crawls"})
    account = User.objects.get(username="crawler")
    assert response.headers["Location"] == f"/me/group-accounts/{account.pk}/"
    assert (account.owning_group, [role.name for role in account.roles.all()]) == (group, ["user"])
    for active in ("false", "true"):
        assert browser.post(f"/me/group-accounts/{account.pk}/lock/", {"active": active}).status_code == 302
        account.refresh_from_db()
        assert account.is_active == (active == "true")
    assert browser.post(f"/me/group-accounts/{account.pk}/delete/").status_code == 302
    account.refresh_from_db()
    assert account.is_deleted
    assert browser.get(f"/me/group-accounts/{account.pk}/").status_code == 404
    actions = AuditEntry.objects.filter(resource="users", actor="boss").order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["create", "update", "update", "destroy"]


@pytest.mark.parametrize("name", ["", " x", "a\u200bb", "indexer", "x" * 151])
def test_a_name_that_is_none_or_taken_is_said(browser, group, account, name):
    response = browser.post(f"/me/groups/{group.pk}/accounts/new/", {"username": name})
    assert response.status_code == 200
    assert 'role="alert"' in response.text


def test_the_number_of_accounts_is_bounded(browser, group, account, monkeypatch):
    monkeypatch.setattr(managing, "MAX_ACCOUNTS", 1)
    assert "1 service accounts" in browser.post(f"/me/groups/{group.pk}/accounts/new/", {"username": "x"}).text
    assert not User.objects.filter(username="x").exists()


def test_a_key_is_made_rotated_and_deleted(browser, boss, account):
    base = f"/me/group-accounts/{account.pk}/keys"
    response = browser.post(f"{base}/new/", {"name": "nightly", "permissions": ["work"]})
    key = ApiKey.objects.get(owner=account)
    assert (key.created_by, key.permissions) == (boss, ["work"])
    assert f"svc_{key.public_id}_" in response.text
    assert f"svc_{key.public_id}_" not in browser.get(f"/me/group-accounts/{account.pk}/").text
    former = key.public_id
    assert "svc_" in browser.post(f"{base}/{key.pk}/rotate/", {"hours": "0"}).text
    key.refresh_from_db()
    assert key.former_public_id == former
    response = browser.post(f"{base}/{key.pk}/delete/")
    assert response.headers["Location"] == f"/me/group-accounts/{account.pk}/"
    key.refresh_from_db()
    assert key.is_deleted


def test_a_stronger_account_is_not_a_way_to_more(browser, account):
    role = Role.objects.create(name="strong")
    role.features.set(Feature.objects.filter(name__in=["logs.view_all", "work"]))
    update_user(account, role_ids=[role.pk])
    base = f"/me/group-accounts/{account.pk}"
    assert "logs.view_all" not in browser.get(f"{base}/keys/new/").text
    response = browser.post(f"{base}/keys/new/", {"name": "k", "permissions": ["logs.view_all"]})
    assert (response.status_code, ApiKey.objects.count()) == (200, 0)
    key = issue_key(owner=account, name="k", permissions=["logs.view_all"]).key
    assert browser.post(f"{base}/keys/{key.pk}/rotate/", {"hours": "1"}).status_code == 403
    assert browser.post(f"{base}/lock/", {"active": "false"}).status_code == 403
    assert browser.post(f"{base}/delete/").status_code == 403
    key.refresh_from_db()
    account.refresh_from_db()
    assert (key.former_public_id, account.is_active, account.is_deleted) == (None, True, False)


def test_a_rule_is_made_changed_and_deleted(browser, group, first_provider):
    values = {"name": "No large", "models": "gpt-5|o1", "provider": first_provider.pk, "enabled": "on"}
    assert browser.post(f"/me/groups/{group.pk}/rules/new/", values).status_code == 302
    rule = Rule.objects.get()
    assert (rule.group, rule.effect, rule.regex, rule.provider) == (group, "deny", "gpt-5|o1", first_provider)
    assert rule.is_delegated
    assert browser.post(f"/me/group-rules/{rule.pk}/", {"name": "No models", "models": ""}).status_code == 302
    rule.refresh_from_db()
    assert (rule.name, rule.regex, rule.provider, rule.enabled, rule.effect) == ("No models", "", None, False, "deny")
    assert browser.post(f"/me/group-rules/{rule.pk}/delete/").status_code == 302
    assert not Rule.objects.exists()
    actions = AuditEntry.objects.filter(resource="rules", actor="boss").order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["create", "update", "destroy"]


@pytest.mark.parametrize(
    "values", [{"name": ""}, {"name": "x", "models": "("}, {"name": "x", "provider": "99"}, {"name": "r"}]
)
def test_a_rule_that_is_wrong_is_said(browser, group, values):
    create_rule(name="r", user_id=0)
    response = browser.post(f"/me/groups/{group.pk}/rules/new/", values)
    assert response.status_code == 200
    assert 'role="alert"' in response.text
    assert Rule.objects.count() == 1


def test_a_rule_of_an_administrator_is_shown_and_stays(browser, group):
    rule = create_rule(name="By an administrator", group_id=group.pk, effect="deny")
    page = browser.get(f"/me/groups/{group.pk}/").text
    assert "By an administrator" in page
    for step in ("", "delete/"):
        assert f"/me/group-rules/{rule.pk}/" not in page
        assert browser.post(f"/me/group-rules/{rule.pk}/{step}", {"name": "x"}).status_code == 404


def test_an_access_test_keeps_a_rule_and_shows_no_others(browser, group, first_provider):
    first_provider.models.create(name="gpt-5")
    create_rule(name="A secret rule", user_id=0)
    create_access_test(name="The group may", group_id=group.pk, model="gpt-5", expected="allowed")
    response = browser.post(f"/me/groups/{group.pk}/rules/new/", {"name": "x", "enabled": "on"})
    assert "The group may" in response.text
    assert "A secret rule" not in response.text
    assert Rule.objects.count() == 1


def test_a_group_below_is_administered_too(browser, boss, group):
    below = create_group(name="below", parent_id=group.pk)
    assert f"/me/groups/{below.pk}/" in browser.get("/me/groups/").text
    assert browser.get(f"/me/groups/{below.pk}/").status_code == 200


def test_queries_are_bounded(browser, group, account, django_assert_max_num_queries):
    for number in range(20):
        create_service_account(username=f"a{number}", group_id=group.pk)
        create_rule(name=f"r{number}", group_id=group.pk)
        issue_key(owner=account, name=f"k{number}")
    for path in ("/me/groups/", f"/me/groups/{group.pk}/", f"/me/group-accounts/{account.pk}/"):
        with django_assert_max_num_queries(14):
            assert browser.get(path).status_code == 200
