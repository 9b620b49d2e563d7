"""The pages for ordinary users: what they show, and whom they open for."""

import json
import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import Session
from accounts.sessions import log_in
from keys.models import ApiKey
from keys.services import delete_keys, issue_key, update_key
from licensing.services import set_limit
from telemetry.journal.batches import insert_log_entries
from telemetry.models import EntryType, LogEntry
from tests.support.management import PASSWORD, new_user
from tests.support.promises import promise
from tests.support.usage_entries import done

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
ROUTES = [
    *("", "keys/", "keys/new/", "keys/999999/rotate/", "keys/999999/delete/", "models/", "usage/"),
    *("requests/", "requests/999999/", "account/", "account/sessions/016d4a6b-6d7a-4e0c-8286-75d544c22efb/end/"),
    *(f"second-factor/{page}" for page in ("", "app/", "app/remove/", "codes/", "passkeys/new/")),
    *(f"access/{page}" for page in ("", *(f"new/{it}/" for it in ("model", "membership", "limit")), "999999/decide/")),
    *("second-factor/passkeys/999999/remove/", "access/999999/withdraw/", "nowhere/"),
]
HTML = {"HTTP_ACCEPT": "text/html"}
MOST_QUERIES = {
    "": 16,
    "keys/": 10,
    "keys/new/": 10,
    "usage/?days=90": 14,
    "requests/": 9,
    "account/": 9,
    "access/": 15,
}
DAY = timedelta(days=1)
NEW_PASSWORD = "another long pass phrase"


@pytest.fixture
def browser(client: Client, ann) -> Client:
    response = client.post("/me/login/", {"username": "ann", "password": PASSWORD})
    assert (response.status_code, response.headers["Location"]) == (302, "/me/")
    return client


@pytest.mark.parametrize("route", ROUTES)
def test_without_a_login_each_page_leads_to_the_login(client, route):
    for response in (client.get(f"/me/{route}"), client.post(f"/me/{route}", HTTP_AUTHORIZATION="Bearer svc_x")):
        assert response.status_code == 302
        assert response.headers["Location"].startswith("/me/login/?next=/me/")


@promise("V-O4: what a switch turns off has no routes", target="404, or 401 for every login", suite="attack")
@pytest.mark.parametrize("route", [*ROUTES, "login/", "login/code/", "logout/"])
def test_switched_off_there_are_no_pages(browser, settings, route):
    settings.GATEWAY_USER_PAGES = False
    assert browser.get(f"/me/{route}").status_code == 404
    assert browser.post(f"/me/{route}", {"username": "ann", "password": PASSWORD}).status_code == 404


def test_a_key_is_created_and_shown_once(browser, ann):
    response = browser.post("/me/keys/new/", {"name": "laptop", "permissions": ["work"]})
    key = ApiKey.objects.get(owner=ann, name="laptop")
    assert f"svc_{key.public_id}_" in response.text
    assert "no-store" in response.headers["Cache-Control"]
    assert f"svc_{key.public_id}_" not in browser.get("/me/keys/").text


def test_a_key_is_rotated_and_deleted(browser, ann):
    key = issue_key(owner=ann, name="laptop").key
    former = key.public_id
    response = browser.post(f"/me/keys/{key.pk}/rotate/", {"hours": "1"})
    key.refresh_from_db()
    assert key.former_public_id == former
    assert f"svc_{key.public_id}_" in response.text
    assert browser.get(f"/me/keys/{key.pk}/delete/").status_code == 200
    assert browser.post(f"/me/keys/{key.pk}/delete/").status_code == 302
    key.refresh_from_db()
    assert key.is_deleted


@pytest.mark.parametrize("route", ["nowhere/", "nowhere", "requests/999999/", "access/new/everything/"])
def test_a_wrong_address_is_a_page_with_a_way_back(browser, route):
    """A browser showed JSON."""
    page = browser.get(f"/me/{route}", **HTML)
    assert page.status_code == 404
    assert "There is no page at this address." in page.text
    assert 'href="/me/"' in page.text
    assert browser.get(f"/me/{route}").headers["Content-Type"] == "application/json"
    browser.logout()
    assert browser.get(f"/me/{route}", **HTML).headers["Location"].startswith("/me/login/?next=/me/")


def test_an_address_without_its_last_slash_leads_to_its_page(browser):
    assert browser.get("/me/usage?days=7", **HTML).headers["Location"] == "/me/usage/?days=7"
    assert browser.get("/me/keys").headers["Location"] == "/me/keys/"
    assert browser.post("/me/keys", {}).status_code == 404


@pytest.mark.parametrize("route", ["keys/new/", "login/"])
def test_a_form_that_has_expired_is_a_page_with_a_way_back(browser, route):
    """A browser showed JSON."""
    stale = Client(enforce_csrf_checks=True)
    stale.cookies = browser.cookies
    page = stale.post(f"/me/{route}", {"name": "x"}, **HTML)
    assert page.status_code == 403
    assert "This form has expired" in page.text
    assert f'href="/me/{route}"' in page.text
    assert stale.post(f"/me/{route}").headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("action", ["rotate", "delete"])
def test_the_key_of_another_user_is_not_there(browser, action):
    key = issue_key(owner=new_user(), name="theirs").key
    for response in (browser.get(f"/me/keys/{key.pk}/{action}/"), browser.post(f"/me/keys/{key.pk}/{action}/")):
        assert response.status_code == 404
    key.refresh_from_db()
    assert not key.is_deleted


def test_permissions_that_the_user_lacks_are_refused(browser, ann):
    assert browser.post("/me/keys/new/", {"name": "more", "permissions": ["providers.modify"]}).status_code == 200
    assert not ApiKey.objects.filter(owner=ann).exists()


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example/"])
def test_the_login_leads_to_no_other_host(client, ann, target):
    response = client.post("/me/login/", {"username": "ann", "password": PASSWORD, "next": target})
    assert response.headers["Location"] == "/me/"


def logged(user, **values) -> LogEntry:
    """A request of a user's in the log."""
    facts = {"model": "fast", "outcome": "completed", "status": 200, "input_tokens": 7, "output_tokens": 5}
    facts |= {"entry_type": EntryType.WORK_REQUEST, "user_id": user.pk, "username": user.username}
    return LogEntry.objects.create(**facts | values)


def test_requests_are_the_own_ones(browser, ann):
    payload = '{"request": {"messages": "a private question"}, "response": "a private answer"}'
    own = logged(ann, payload=payload, correlation_id="shared")
    others = logged(new_user(), model="secret-model", correlation_id="shared")
    message = logged(ann, entry_type=EntryType.MESSAGE)
    listed = browser.get("/me/requests/").text
    assert f"/me/requests/{own.pk}/" in listed
    assert "secret-model" not in listed
    page = browser.get(f"/me/requests/{own.pk}/").text
    assert "a private question" in page
    assert "a private answer" in page
    assert "secret-model" not in page
    for entry in (others, message):
        assert browser.get(f"/me/requests/{entry.pk}/").status_code == 404


@pytest.mark.parametrize(("status", "page"), [(429, "/me/"), (403, "/me/access/new/model/?model=fast")])
def test_a_refusal_links_to_what_refused_it(browser, ann, status, page):
    refused = logged(ann, status=status, outcome="denied", exception="Refused", model="fast")
    assert f'href="{page}">Refused</a>' in browser.get(f"/me/requests/{refused.pk}/").text


def models_listed(browser: Client, **query: str) -> list[str]:
    """The models of the requests that the list shows with these filters."""
    return [row["entry"].model for row in browser.get("/me/requests/", query).context["rows"]]


def test_requests_are_filtered_by_days_result_and_model(browser, ann):
    now = timezone.now()
    logged(ann, model="old", timestamp=now - 40 * DAY)
    logged(ann, model="alias", served_model="Large", timestamp=now - 2 * DAY)
    logged(ann, model="lost", outcome="failed", status=502)
    logged(ann, model="shut", outcome="denied", status=403)
    for model, outcome in (("large", "completed"), ("lost", "failed"), ("shut", "denied")):
        logged(new_user(), model=model, outcome=outcome)
    assert models_listed(browser) == ["shut", "lost", "alias", "old"]
    assert models_listed(browser, start=f"{now - 3 * DAY:%Y-%m-%d}") == ["shut", "lost", "alias"]
    assert models_listed(browser, end=f"{now - 3 * DAY:%Y-%m-%d}") == ["old"]
    assert models_listed(browser, result="errors") == ["lost"]
    assert models_listed(browser, result="denied") == ["shut"]
    assert models_listed(browser, model="large") == ["alias"]
    assert models_listed(browser, model="large", start=f"{now:%Y-%m-%d}") == []
    page = browser.get("/me/requests/", {"model": "large", "start": f"{now:%Y-%m-%d}"}).text
    assert "No request of yours matches the filters." in page


@pytest.mark.parametrize("query", [{"start": "yesterday"}, {"result": "nice"}, {"model": "x" * 201}, {"model": "\0"}])
def test_a_wrong_filter_is_said_beside_its_field_and_lists_nothing(browser, ann, query):
    logged(ann)
    page = browser.get("/me/requests/", query)
    assert 'role="alert"' in page.text
    assert not page.context["rows"]


def test_the_pages_of_a_filtered_list_keep_the_filter(browser, ann):
    for _ in range(51):
        logged(ann, model="a&b", outcome="denied")
    page = browser.get("/me/requests/", {"model": "a&b", "result": "denied"})
    assert page.context["older"] == "?result=denied&model=a%26b&page=2"
    assert browser.get(f"/me/requests/{page.context['older']}").context["newer"].endswith("&page=1")


def test_a_filter_searches_only_the_newest_requests(browser, ann, monkeypatch):
    """So the page is as fast for a user with millions of them."""
    monkeypatch.setattr("gateway_project.me.log_filter.MAX_SEARCHED", 3)
    now = timezone.now()
    for age in range(6):
        logged(ann, model=f"m{age}", outcome="denied", timestamp=now - age * DAY)
    assert models_listed(browser, result="denied") == ["m0", "m1", "m2"]  # and the login
    assert "Only your newest" in browser.get("/me/requests/", {"result": "denied"}).text
    assert models_listed(browser, result="denied", end=f"{now - 4 * DAY:%Y-%m-%d}") == ["m4", "m5"]


def test_the_first_page_says_what_the_month_has_cost(browser, ann):
    assert "This month</a>: no requests" in browser.get("/me/").text
    now = timezone.now()
    month = now.replace(day=1, hour=0, minute=0, second=0)
    priced = {"cost": "0.25", "currency": "USD", "cost_status": "known"}
    users = (ann, ann, new_user(), ann)
    moments = (now, month, now, month - timedelta(hours=1))
    insert_log_entries(
        [done(f"r{user.pk}{number}", at, user_id=user.pk, **priced)
         for number, (user, at) in enumerate(zip(users, moments, strict=True))]
    )  # fmt: skip
    assert "This month</a>: 2 requests, $0.50<" in browser.get("/me/").text
    assert sum(row["requests"] for row in browser.get("/me/usage/?days=month").context["by_day"]) == 2


def test_usage_leads_to_the_requests_behind_it(browser, ann):
    now = timezone.now()
    insert_log_entries([done("r", now, user_id=ann.pk, model="fast")])
    usage = browser.get("/me/usage/?days=7").context
    for (row,) in (usage["by_day"], usage["by_model"]):
        assert [one["entry"].model for one in browser.get(row["page"]).context["rows"]] == ["fast"]


@pytest.mark.parametrize("number", ["2", "0", "-1", "x", "9" * 5000, "²"])
def test_every_number_of_a_page_is_answered(browser, ann, number):
    for _ in range(51):
        logged(ann)
    page = browser.get("/me/requests/", {"page": number})
    assert page.status_code == 200
    assert ("Newer" in page.text) == (number in ("2", "9" * 5000))


def test_an_id_of_any_size_is_answered(browser):
    for path in (f"/me/requests/{2**63}/", f"/me/requests/{'9' * 4000}/", f"/me/keys/{2**63}/delete/"):
        assert browser.get(path).status_code == 404


def test_a_session_of_ones_own_is_ended_and_no_other(browser, ann):
    other_user = new_user()
    sessions = [log_in(username=user.username, password=PASSWORD)[1] for user in (ann, other_user)]
    own, other = (f"/me/account/sessions/{session}/end/" for session in sessions)
    assert str(sessions[0]) in browser.get("/me/account/").text
    assert str(sessions[1]) not in browser.get("/me/account/").text
    assert browser.get(own).status_code == 405
    assert browser.post(own).status_code == 302
    assert browser.post(own).status_code == browser.post(other).status_code == 404
    assert list(Session.objects.live().filter(pk__in=sessions)) == [Session.objects.get(pk=sessions[1])]


def test_another_password_ends_the_other_sessions(browser, ann):
    session = log_in(username="ann", password=PASSWORD)[1]
    for form, place, problem in (
        ({"current": "wrong", "new": NEW_PASSWORD}, 0, "Is wrong."),
        ({"current": PASSWORD, "new": "short"}, 1, "This password is too short."),
    ):
        response = browser.post("/me/account/", form)
        assert response.status_code == 200
        texts = response.text.split("Current password")[1].split("New password")
        assert ['role="alert"' in text for text in texts] == [place == 0, place == 1]
        assert re.search(rf'role="alert"[^>]*>{problem}', texts[place]), texts[place]
    response = browser.post("/me/account/", {"current": PASSWORD, "new": NEW_PASSWORD})
    assert response.headers["Location"] == "/me/account/?changed=1"
    assert "was changed" in browser.get(response.headers["Location"]).text
    assert not Session.objects.live().filter(pk=session).exists()
    ann.refresh_from_db()
    assert ann.check_password(NEW_PASSWORD)


def test_usage_is_the_users_own(browser, ann):
    other = new_user()
    now = timezone.now()
    unpriced = {"cost_status": "unknown", "input_tokens": 1}
    insert_log_entries([done("r", now, user_id=one.pk, model=f"of-{one.pk}", **unpriced) for one in (ann, other)])
    for days in ("7", "x"):
        page = browser.get("/me/usage/", {"days": days}).text
        assert f"of-{ann.pk}" in page
        assert f"of-{other.pk}" not in page
        assert "+ 1 request without a price" in page
        assert "of unknown cost" not in page
    insert_log_entries([done("r", now, user_id=ann.pk, model="slow", outcome="timeout", cost_status="unknown")])
    assert "+ 1 request of unknown cost" in browser.get("/me/usage/").text


def test_the_bars_of_usage_are_of_requests_or_of_the_cost_in_each_currency(browser, ann):
    now = timezone.now()
    dollars, euros = ({"cost_status": "known", "currency": currency} for currency in ("USD", "EUR"))
    costs = [(now, "4", dollars), (now - DAY, "1", dollars), (now - DAY, "5", euros), (now - DAY, "5", euros)]
    insert_log_entries(
        [done(f"r{place}", at, user_id=ann.pk, cost=cost, **values) for place, (at, cost, values) in enumerate(costs)]
    )
    assert _widths(browser.get("/me/usage/").text) == ["33.3", "100.0"]
    page = browser.get("/me/usage/?measure=cost").text
    assert sorted(_widths(page)) == ["100.0", "100.0", "25.0"]
    assert 'href="?days=7&amp;measure=cost"' in page


def _widths(page: str) -> list[str]:
    """The widths of bars, in the order of the page."""
    return re.findall(r'<rect class="console-fill" width="([^"]+)"', page)


def test_a_request_is_shown_as_a_conversation(browser, ann):
    messages = [{"role": "user", "content": "Capital of Portugal? <b>"}]
    answer = {"choices": [{"message": {"role": "assistant", "content": "Lisbon"}}]}
    entry = logged(ann, payload=json.dumps({"request": {"messages": messages}, "response": answer}))
    page = browser.get(f"/me/requests/{entry.pk}/").text
    turns = re.findall(r'data-role="(\w+)".*?<p class="[^"]*">(.*?)</p>', page, re.DOTALL)
    assert turns == [("user", "Capital of Portugal? &lt;b&gt;"), ("assistant", "Lisbon")]


def test_a_user_is_led_from_the_console_to_their_pages(browser):
    for path in ("/", "/admin/"):
        assert browser.get(path, **HTML).headers["Location"] == "/me/"


def test_logging_out_ends_the_session(browser, ann):
    assert browser.post("/me/logout/").status_code == 302
    assert not ann.sessions.live().exists()
    assert browser.get("/me/").status_code == 302


@pytest.mark.long
@pytest.mark.parametrize(("route", "most"), MOST_QUERIES.items())
def test_queries_are_bounded(browser, ann, django_assert_max_num_queries, route, most):
    for number in range(30):
        issue_key(owner=ann, name=f"key {number}")
    with django_assert_max_num_queries(most):
        assert browser.get(f"/me/{route}").status_code == 200


def test_the_defaults_of_the_settings_are_bars_too_unless_a_limit_replaces_them(browser, ann):
    key = issue_key(owner=ann, name="mine").key
    page = browser.get("/me/").text
    assert f"Key {key}: 600 requests per minute" in page
    assert "User ann: 6,000 requests per minute" in page
    set_limit(key=key, measure="requests", window="minute", amount=7)
    page = browser.get("/me/").text
    assert f"Key {key}: 7 requests per minute" in page
    assert f"Key {key}: 600 requests per minute" not in page


def test_keys_that_cannot_send_requests_have_no_bars(browser, ann):
    keys = {state: issue_key(owner=ann, name=state).key for state in ("usable", "locked", "expired", "deleted")}
    for key in keys.values():
        set_limit(key=key, measure="tokens", window="day", amount=7)
    update_key(keys["locked"], locked=True)
    update_key(keys["expired"], expire=True)
    delete_keys([keys["deleted"]])
    page = browser.get("/me/").text
    assert [state for state, key in keys.items() if f"Key {key}" in page] == ["usable"]


def test_a_limit_that_is_used_up_comes_first_and_leads_to_the_form_for_a_higher_one(browser, ann):
    set_limit(user=ann, measure="tokens", window="day", amount=10**6)
    set_limit(user=ann, measure="requests", window="day", amount=1)
    insert_log_entries([done("r", timezone.now(), user_id=ann.pk)])
    page = browser.get("/me/")
    assert page.context["bars"][0].limit.measure == "requests"
    assert page.text.count("Ask for a higher limit") == 1
    form = browser.get(page.context["bars"][0].ask).context["form"]
    assert (form["measure"].value(), form["window"].value()) == ("requests", "day")


def test_whoever_may_use_no_model_is_led_to_the_form_that_asks_for_one(browser):
    assert 'href="/me/access/new/model/">Ask for a model' in browser.get("/me/models/").text
    assert 'href="/me/models/">Models</a> shows how to send one' in browser.get("/me/requests/").text
    assert 'value="fast"' in browser.get("/me/access/new/model/?model=fast").text


def test_a_default_of_a_day_counts_what_the_log_has_of_the_key(browser, ann, settings):
    settings.GATEWAY_LIMITS = {**settings.GATEWAY_LIMITS, "key": {("requests", "day"): Decimal(40)}}
    key = issue_key(owner=ann, name="mine").key
    insert_log_entries([done(f"r{number}", timezone.now(), key_id=key.pk) for number in range(10)])
    assert "10 of 40" in browser.get("/me/").text


def test_the_overview_says_how_many_limits_it_does_not_show(browser, ann, monkeypatch):
    monkeypatch.setattr("gateway_project.me.overview.MAX_LIMITS", 2)
    for window in ("day", "month"):
        set_limit(user=ann, measure="requests", window=window, amount=9)
    assert "more.</p>" not in browser.get("/me/").text
    set_limit(user=ann, measure="tokens", window="day", amount=9)
    assert "The page shows the first 2 limits; there is 1 more." in browser.get("/me/").text
