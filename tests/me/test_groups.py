"""The pages of whoever administers a group: service accounts, their keys, rules; each route, for each kind of user."""

import json

import pytest
from django.urls import resolve

from accounts.managing import accounts as managing
from accounts.models import Feature, Group, Role, User
from accounts.services import add_member, create_group, create_service_account, update_user
from gateway_project.me import urls
from gateway_project.wording import CHANGED_MEANWHILE
from keys.models import ApiKey
from keys.services import issue_key
from licensing.models import Limit
from licensing.services import change_limit, set_limit
from rules.access_tests.services import create_access_test
from rules.models import Rule
from rules.services import create_rule, update_rule
from telemetry.audit.models import AuditEntry
from tests.me.test_pages import ROUTES, logged
from tests.support.management import new_user
from tests.support.promises import promise
from tests.support.user_pages import SCRIPT, log_in

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
POSTED = ("/admin/", "/remove/", "/lock/")  # pages that are sent only


@pytest.fixture
def rule(group):
    return create_rule(name="No large", group_id=group.pk, effect="deny", regex="x", is_delegated=True)


@pytest.fixture
def limit(account):
    return set_limit(user=account, measure="requests", window="day", amount=10)


@pytest.fixture
def entry(group, account):
    return logged(account, group_ids=[group.pk], payload=json.dumps({"request": SCRIPT}))


@pytest.fixture
def routes(group, account, key, rule, limit, entry) -> list[str]:
    """Every page of a group, with ids that exist."""
    keys, own = f"/me/group-accounts/{account.pk}/keys/", f"/me/groups/{group.pk}/"
    tabs = ("", "keys/", "limits/", "rules/", "log/", "usage/", "usage/?format=csv")
    return [
        *(f"{own}{step}" for step in (*tabs, "accounts/new/", "limits/new/", "rules/new/")),
        *(f"{own}members/{account.pk}/{step}/" for step in ("admin", "remove")),
        f"{own}log/{entry.pk}/",
        *(f"/me/group-limits/{limit.pk}/{step}" for step in ("", "delete/")),
        *(f"/me/group-accounts/{account.pk}/{step}" for step in ("", "lock/", "delete/")),
        *(f"{keys}{step}" for step in ("new/", f"{key.pk}/rotate/", f"{key.pk}/delete/")),
        *(f"/me/group-rules/{rule.pk}/{step}" for step in ("", "delete/")),
    ]


@pytest.mark.long
def test_switched_off_there_are_no_pages_of_groups(browser, routes, settings):
    assert [route for route in routes if browser.get(route).status_code == 404] == []
    settings.GATEWAY_USER_PAGES = False
    for route in ("/me/groups/", *routes):
        assert browser.get(route).status_code == browser.post(route).status_code == 404, route


def test_every_path_below_me_is_in_a_list_of_pages(routes):
    """So each of them is asked without a login: those of a group here, the others in test_pages.

    Only the pages of the login itself are for anybody.
    """
    paths = [*routes, "/me/groups/", *(f"/me/{route}" for route in ROUTES)]
    names = {resolve(path.partition("?")[0]).url_name for path in paths}
    assert {pattern.name for pattern in urls.urlpatterns} - names == {"login", "login-code", "logout"}


def stored() -> list:
    memberships, admins = Group.members.through._default_manager, Group.admins.through._default_manager
    tables = (User.objects.exclude(kind="person"), ApiKey.objects, Rule.objects, Limit.objects, memberships, admins)
    return [list(table.order_by("pk").values()) for table in tables]


def another_admin(group) -> User:
    return add_member(create_group(name="other"), user_id=new_user().pk, is_admin=True)


@promise("Pages of a group below /me/ open for its admins alone", target="404, nothing changed", suite="attack")
@pytest.mark.long
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
    values = {"active": "false", "name": "x", "username": user.username, "amount": "1", "admin": "true"}
    for path in routes:
        for response in (stranger.get(path), stranger.post(path, values)):
            assert response.status_code in (404, 405), path
    assert stored() == before
    assert f"/me/groups/{group.pk}/" not in stranger.get("/me/groups/").text


def test_without_a_login_each_page_leads_to_the_login(client, routes):
    for path in [*routes, "/me/groups/"]:
        for response in (client.get(path), client.post(path)):
            assert response.status_code == 302
            assert response.headers["Location"].startswith("/me/login/?next=/me/")


def limits_of_others(account: User, person: User) -> list[int]:
    """Limits of a service account and of a key elsewhere, of a person, of another group and of a provider."""
    subjects = [{"user": account}, {"user": person}, {"group": account.owning_group}]
    subjects.append({"key": account.api_keys.get()})
    return [set_limit(measure="requests", window="day", amount=1, **subject).pk for subject in subjects]


@pytest.mark.long
def test_what_belongs_to_another_group_is_not_there(browser, key):
    other = create_service_account(username="elsewhere", group_id=create_group(name="other").pk)
    theirs = issue_key(owner=other, name="k").key
    path = f"/me/group-accounts/{key.owner_id}/keys/{theirs.pk}"
    person = issue_key(owner=new_user(), name="k").key
    paths = [
        *(f"{path}/{step}/" for step in ("rotate", "delete")),
        *(f"/me/group-accounts/{owner}/" for owner in (other.pk, person.owner_id, 2**63)),
        f"/me/group-accounts/{key.owner_id}/keys/{person.pk}/delete/",
        *(f"/me/groups/{2**63}/{step}" for step in ("", "keys/", "limits/", "rules/", "log/", "usage/")),
        *(f"/me/group-limits/{number}/" for number in (2**63, *limits_of_others(other, person.owner))),
        *(f"/me/groups/{key.owner.owning_group_id}/log/{number}/" for number in (2**63, logged(other).pk)),
        f"/me/group-rules/{2**63}/",
        f"/me/group-rules/{create_rule(name='r', user_id=0).pk}/",
        f"/me/group-rules/{create_rule(name='s', group_id=other.owning_group_id, is_delegated=True).pk}/",
    ]
    for address in paths:
        assert browser.get(address).status_code == browser.post(address).status_code == 404, address


@pytest.mark.long
def test_every_page_opens_and_shows_text_as_text(browser, routes):
    for path in [*routes, "/me/groups/"]:
        response = browser.get(path)
        assert response.status_code == (405 if path.endswith(POSTED) else 200), path
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


@pytest.mark.parametrize("is_changed", [True, False])
def test_a_form_that_was_opened_before_another_change_saves_nothing(browser, rule, limit, is_changed):
    """A form stores all fields: it would undo what another admin of the group has changed meanwhile."""
    pages = {path: browser.get(path) for path in (f"/me/group-rules/{rule.pk}/", f"/me/group-limits/{limit.pk}/")}
    if is_changed:
        update_rule(rule, regex="x|y", is_delegated=True)
        change_limit(limit, amount=20)
    for path, page in pages.items():
        form = page.context["form"]
        assert f'<input type="hidden" name="_seen" value="{form.first_digest}">' in page.text
        fields = {name: value for name, value in form.initial.items() if value} | {"_seen": form.first_digest}
        response = browser.post(path, fields)
        assert response.status_code == (200 if is_changed else 302)
        if is_changed:
            assert CHANGED_MEANWHILE in response.text
            assert response.context["form"].first_digest == form.first_digest
    rule.refresh_from_db()
    limit.refresh_from_db()
    assert (rule.regex, limit.amount) == (("x|y", 20) if is_changed else ("x", 10))


def test_a_rule_is_made_changed_and_deleted(browser, group, first_provider):
    values = {"name": "No large", "models": "gpt-5|o1", "provider": first_provider.pk, "enabled": "on"}
    assert browser.post(f"/me/groups/{group.pk}/rules/new/", values).status_code == 302
    rule = Rule.objects.get()
    assert (rule.group, rule.effect, rule.regex, rule.provider) == (group, "deny", "gpt-5|o1", first_provider)
    assert rule.is_delegated
    digest = browser.get(f"/me/group-rules/{rule.pk}/").context["form"].first_digest
    changed = {"name": "No models", "models": "", "_seen": digest}
    assert browser.post(f"/me/group-rules/{rule.pk}/", changed).status_code == 302
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
    page = browser.get(f"/me/groups/{group.pk}/rules/").text
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


@pytest.mark.long
def test_queries_are_bounded(browser, group, account, django_assert_max_num_queries):
    for number in range(20):
        create_service_account(username=f"a{number}", group_id=group.pk)
        create_rule(name=f"r{number}", group_id=group.pk)
        issue_key(owner=account, name=f"k{number}")
        set_limit(group=create_group(name=f"g{number}", parent_id=group.pk), measure="cost", window="day", amount=9)
        add_member(group, user_id=new_user().pk)
        logged(account, group_ids=[group.pk])
    own = f"/me/groups/{group.pk}/"
    tabs = (own, *(f"{own}{tab}/" for tab in ("keys", "limits", "rules", "log", "usage")))
    for path in ("/me/groups/", *tabs, f"{own}limits/new/", f"/me/group-accounts/{account.pk}/"):
        with django_assert_max_num_queries(20):
            assert browser.get(path).status_code == 200
