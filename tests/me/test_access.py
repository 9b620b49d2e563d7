"""Asking for access at /me/, and deciding there."""

import pytest
from django.test import Client
from django.utils import timezone

from accounts.access_requests.models import AccessRequest
from accounts.services import add_member, create_group
from gateway_project.access_requests.forms import PAGE_ROWS
from licensing.services import set_limit
from rules.access_tests.services import create_access_test
from rules.models import Rule
from telemetry.audit.models import AuditEntry
from tests.support.management import PASSWORD, new_admin, new_user
from tests.support.user_pages import ASKED, SCRIPT, ask, log_in

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]


@pytest.fixture
def browser(ann) -> Client:
    return log_in(ann)


@pytest.mark.parametrize("kind", ASKED)
def test_a_request_is_made_shown_and_withdrawn(browser, ann, group, kind):
    assert browser.get(f"/me/access/new/{kind}/").status_code == 200
    request = ask(browser, kind)
    assert (request.user, request.kind, request.state) == (ann, kind, "open")
    page = browser.get("/me/access/").text
    assert request.subject in page
    assert f"/me/access/{request.pk}/withdraw/" in page
    assert browser.get(f"/me/access/{request.pk}/withdraw/").status_code == 405
    assert browser.post(f"/me/access/{request.pk}/withdraw/").status_code == 302
    request.refresh_from_db()
    assert request.state == "withdrawn"
    assert f"/me/access/{request.pk}/withdraw/" not in browser.get("/me/access/").text


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("model", {"model": ""}),
        ("model", {"reason": ""}),
        ("model", {"reason": "x" * 2001}),
        ("model", {"provider": "99999"}),
        ("membership", {"group": "nowhere"}),
        ("limit", {"amount": "0"}),
        ("limit", {"amount": "1.5"}),
        ("limit", {"amount": "NaN"}),
        ("limit", {"measure": "x"}),
    ],
)
def test_what_cannot_be_asked_for_is_said_in_the_form(browser, group, kind, values):
    response = browser.post(f"/me/access/new/{kind}/", ASKED[kind] | values)
    assert response.status_code == 200
    assert 'role="alert"' in response.text
    assert not AccessRequest.objects.exists()


def test_what_one_has_is_said_in_the_form(browser, ann, group):
    set_limit(user=ann, measure="concurrent", amount=500)
    assert "above the current limit" in browser.post("/me/access/new/limit/", ASKED["limit"]).text
    add_member(group, user_id=ann.pk)
    assert "already" in browser.post("/me/access/new/membership/", ASKED["membership"]).text
    assert browser.get("/me/access/new/everything/").status_code == 404


@pytest.mark.long
def test_an_admin_of_the_group_grants_refuses_and_ends(browser, ann, boss, group):
    as_boss = log_in(boss)
    request = ask(browser, reason=SCRIPT)
    page = as_boss.get("/me/access/").text
    assert f"/me/access/{request.pk}/decide/" in page
    assert SCRIPT not in page
    decision = {"decision": "grant", "hours": "24", "note": SCRIPT}
    assert as_boss.post(f"/me/access/{request.pk}/decide/", decision).status_code == 302
    request.refresh_from_db()
    assert (request.state, request.decided_by, (request.ends_at - request.decided_at).days) == ("granted", boss, 0)
    assert group.members.contains(ann)
    assert SCRIPT not in browser.get("/me/access/").text
    assert as_boss.post(f"/me/access/{request.pk}/decide/", {"decision": "grant"}).status_code == 409
    assert as_boss.post(f"/me/access/{request.pk}/decide/", {"decision": "end"}).status_code == 302
    assert not group.members.contains(ann)
    second = ask(browser)
    assert as_boss.post(f"/me/access/{second.pk}/decide/", {"decision": "refuse", "note": "No."}).status_code == 302
    assert "No." in browser.get("/me/access/").text
    actors = AuditEntry.objects.filter(resource="access-requests").order_by("pk").values_list("actor", "action")
    assert list(actors) == [
        *[("ann", "create"), ("boss", "grant"), ("boss", "end"), ("ann", "create"), ("boss", "refuse")]
    ]


@pytest.mark.parametrize(("path", "is_console"), [("/me/access/", False), ("/admin/access-requests/", True)])
def test_all_grants_are_on_pages_from_which_they_can_be_ended(console, ann, boss, group, path, is_console):
    """The page of the grants has a parameter of its own, beside that of the open requests."""
    request = {"user": ann, "kind": "membership", "group": group, "reason": "why"}
    granted = {"state": "granted", "decided_at": timezone.now(), "grant_id": ann.pk}
    AccessRequest.objects.bulk_create(AccessRequest(**request, **granted) for _ in range(PAGE_ROWS + 1))
    waiting = AccessRequest.objects.create(**request)
    decider = console if is_console else log_in(boss)
    oldest = AccessRequest.objects.granted().earliest("pk")
    first, second = decider.get(path), decider.get(path, {"grants": "2"})
    assert len(first.context["grants"]) == PAGE_ROWS
    assert 'href="?grants=2"' in first.text
    assert [row for row, _ in second.context["grants"]] == [oldest]
    assert 'href="?grants=1"' in second.text
    for page in (first, second):
        assert f"{path}{waiting.pk}/decide/" in page.text
    assert f"{path}{oldest.pk}/decide/" in second.text


@pytest.mark.parametrize(
    "values", [{}, {"decision": "x"}, {"decision": "grant", "hours": "5"}, {"decision": "grant", "hours": "x"}]
)
def test_a_decision_that_is_none_is_refused(browser, boss, group, values):
    request = ask(browser)
    assert log_in(boss).post(f"/me/access/{request.pk}/decide/", values).status_code == 400
    request.refresh_from_db()
    assert request.state == "open"


def test_with_the_feature_a_user_decides_about_models(browser, ann):
    request = ask(browser, "model")
    decider = log_in(new_user("work", "rules.modify"))
    assert decider.post(f"/me/access/{request.pk}/decide/", {"decision": "grant", "hours": "0"}).status_code == 302
    assert Rule.objects.get().user == ann


@pytest.mark.long
def test_nobody_else_finds_the_request(browser, ann, boss, group):
    requests = [ask(browser, "model"), ask(browser, "limit"), ask(browser, group=create_group(name="other").name)]
    own = ask(browser)
    for stranger, hidden in ((log_in(new_user()), [*requests, own]), (log_in(boss), requests), (browser, [])):
        page = stranger.get("/me/access/").text
        for request in hidden:
            assert f"/me/access/{request.pk}/" not in page
            for step in ("withdraw", "decide"):
                assert stranger.post(f"/me/access/{request.pk}/{step}/", {"decision": "grant"}).status_code == 404
    assert browser.post(f"/me/access/{own.pk}/decide/", {"decision": "grant"}).status_code == 404
    assert browser.post(f"/me/access/{2**63}/decide/", {"decision": "grant"}).status_code == 404
    assert AccessRequest.objects.open().count() == 4


def test_an_admin_of_a_group_learns_no_rules_from_an_access_test(browser, ann, boss, group, first_provider):
    first_provider.models.create(name="gpt-5")
    Rule.objects.create(name="A secret rule", group=group)
    create_access_test(name="Ann may not", user_id=ann.pk, model="gpt-5", expected="denied")
    request = ask(browser)
    response = log_in(boss).post(f"/me/access/{request.pk}/decide/", {"decision": "grant", "hours": "1"})
    assert response.status_code == 409
    assert "A secret rule" not in response.text
    assert not group.members.contains(ann)


class TestConsole:
    def test_the_overview_says_how_many_wait(self, browser, console, group):
        assert "access request" not in console.get("/admin/").text
        ask(browser)
        page = console.get("/admin/").text
        assert "1 access request waits for a decision." in page
        assert 'href="/admin/access-requests/"' in page

    @pytest.mark.long
    def test_an_admin_decides_with_one_click(self, browser, ann, console, group):
        request = ask(browser, reason=SCRIPT)
        page = console.get("/admin/access-requests/").text
        assert f"/admin/access-requests/{request.pk}/decide/" in page
        assert SCRIPT not in page
        path = f"/admin/access-requests/{request.pk}/decide/"
        assert console.get(path).status_code == 405
        assert console.post(path, {"decision": "grant", "hours": "1"}).status_code == 302
        assert group.members.contains(ann)
        assert "Granted" in console.get("/admin/access-requests/").text
        assert console.post(path, {"decision": "end"}).status_code == 302
        assert not group.members.contains(ann)
        for address in ("", f"{request.pk}/change/", "?state__exact=ended&q=ann"):
            table = console.get(f"/admin/accounts/accessrequest/{address}")
            assert table.status_code == 200
            assert SCRIPT not in table.text

    @pytest.mark.long
    def test_an_access_test_asks_for_a_reason(self, browser, ann, console, first_provider):
        first_provider.models.create(name="gpt-5")
        create_access_test(name="Ann may not", user_id=ann.pk, model="gpt-5", expected="denied")
        request = ask(browser, "model")
        path = f"/admin/access-requests/{request.pk}/decide/"
        refusal = console.post(path, {"decision": "grant", "hours": "1"})
        assert (refusal.status_code, "Ann may not" in refusal.text) == (409, True)
        values = {"decision": "grant", "hours": "1", "override_reason": "It was agreed."}
        assert console.post(path, values).status_code == 302
        assert Rule.objects.get().user == ann

    def test_the_own_request_is_not_there(self, group):
        admin = new_admin()
        request = ask(log_in(admin))
        console = Client()
        console.post("/admin/login/", {"username": admin.username, "password": PASSWORD})
        assert console.post(f"/admin/access-requests/{request.pk}/decide/", {"decision": "grant"}).status_code == 404
