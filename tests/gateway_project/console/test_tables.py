"""What all tables of the console do alike: what they ask before they delete, and what they let alone."""

import re
import time

import pytest
from django.contrib import admin
from django.core.cache import caches

from accounts.models import User
from accounts.services import delete_user
from keys.models import ApiKey
from keys.services import delete_keys, issue_key
from providers.services import create_provider
from telemetry.models import LogEntry
from tests.support.management import new_user
from tests.support.pace import in_one_minute
from tests.support.promises import promise

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
USERS = "/admin/accounts/user/"
MEANS = ["The user's sessions end", "The record and its log entries stay"]


def chosen(*users: User, **more: str) -> dict:
    return {"action": "delete_selected", "_selected_action": [user.pk for user in users], **more}


def shown(answer) -> str:
    """What a page says below its heading, in one line."""
    return " ".join(re.sub(r"<[^>]*>", " ", answer.text.partition("<h1")[2]).split()).replace("&#x27;", "'")


class TestDeleting:
    def test_it_asks_with_what_it_means_and_nothing_that_contradicts_it(self, console):
        user = new_user()
        response = shown(console.get(f"{USERS}{user.pk}/delete/"))
        assert f"Delete user: {user.username}" in response
        assert all(sentence in response for sentence in MEANS)
        assert "will be deleted" not in response
        assert "Summary" not in response
        assert console.post(f"{USERS}{user.pk}/delete/", {"post": "yes"}).status_code == 302
        user.refresh_from_db()
        assert user.is_deleted

    @pytest.mark.long
    def test_of_many_it_asks_once(self, console):
        ann, ben = new_user(username="ann"), new_user(username="ben")
        response = shown(console.post(USERS, chosen(ann, ben)))
        assert "Delete 2 users ann ben" in response
        assert [response.count(sentence) for sentence in MEANS] == [1, 1]
        assert "will be deleted" not in response
        console.post(USERS, chosen(ann, ben, post="yes"))
        assert User.objects.filter(is_deleted=True).count() == 2


class TestOneThatIsOver:
    @pytest.fixture
    def gone(self) -> User:
        user = new_user()
        delete_user(user)
        return user

    def test_it_says_so_and_offers_nothing(self, console, gone):
        page = console.get(f"{USERS}{gone.pk}/change/").text
        assert re.search(r"Deleted\s*<", page)
        for offered in ('name="_save"', 'name="is_active"', f"{gone.pk}/delete/", f"{gone.pk}/sign-out/"):
            assert offered not in page
        assert gone.password not in page
        assert "argon2" not in page

    @pytest.mark.long
    def test_it_is_not_deleted_again(self, console, gone):
        live = new_user(username="live")
        assert console.post(f"{USERS}{gone.pk}/delete/", {"post": "yes"}).status_code == 403
        assert console.get(f"{USERS}{gone.pk}/sign-out/").status_code == 404
        assert gone.username not in shown(console.post(USERS, chosen(live, gone)))
        assert "1 of 2 users deleted." in console.post(USERS, chosen(live, gone, post="yes"), follow=True).text
        assert "0 of 1 users deleted." in console.post(USERS, chosen(gone), follow=True).text
        deleted = LogEntry.objects.filter(message__contains="deleted users")
        assert [entry.message.rpartition(" ")[2] for entry in deleted] == [f"{live.pk}."]

    @pytest.mark.long
    def test_so_it_is_with_keys(self, console):
        key = issue_key(owner=new_user(), name="laptop", permissions=["work"]).key
        offered = ('name="_save"', f"{key.pk}/delete/", f"{key.pk}/rotate/")
        path = f"/admin/keys/apikey/{key.pk}/"
        assert all(what in console.get(f"{path}change/").text for what in offered)
        delete_keys(ApiKey.objects.all())
        assert not any(what in console.get(f"{path}change/").text for what in offered)
        assert console.post(f"{path}rotate/").status_code == 404


class TestAnEmptyList:
    def test_it_says_what_it_means_and_offers_what_can_be_created(self, console):
        text = console.get("/admin/rules/rule/").text
        assert "There are no rules. All work requests are denied." in text
        assert "Add rule" in text
        text = console.get("/admin/telemetry/cacheentry/").text
        assert "The cache is empty" in text
        assert "Create a new item" not in text

    @pytest.mark.parametrize("query", ["q=nobody-of-this-name", "is_active__exact=0"])
    def test_of_what_is_looked_for_it_says_no_more(self, console, query):
        text = console.get(f"{USERS}?{query}").text
        assert "No rows match the search and the filters." in text
        assert "Show all" in text
        assert "There are no users" not in text

    def test_every_table_says_it(self):
        assert all(table.empty_message for table in admin.site._registry.values())


def test_a_name_stands_above_its_page_as_it_was_given(console):
    user = new_user(username="ann")
    title = console.get(f"{USERS}{user.pk}/change/").text.partition('id="header-inner"')[2]
    assert re.findall(r"tracking-tight\">\s*(\S+)\s*</a", title) == ["Access", "Users", "ann"]


@pytest.mark.parametrize("query", ["q=a%00b", "password__startswith=argon2"])
def test_an_address_of_which_nothing_can_be_made_has_a_page(console, query):
    answer = console.get(f"{USERS}?{query}")
    assert answer.status_code == 400
    assert "text/html" in answer.headers["Content-Type"]
    assert "This address is not valid." in answer.text


@pytest.mark.long
def test_a_page_for_a_new_row_does_not_look_like_the_list(console):
    def heading(path: str) -> list[str]:
        return re.sub(r"<[^>]*>", " ", re.search(r"<h1.*?</h1>", console.get(path).text, re.DOTALL)[0]).split()

    assert heading(f"{USERS}add/") == [*heading(USERS), "chevron_right", "New"]


BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
WRONG = ["nowhere/", "nowhere", "rules/rule", "rules/nowhere/", "search/", "accounts/user/999999/sign-out/", "a//b"]


class TestAWrongAddress:
    @pytest.mark.parametrize("path", WRONG)
    def test_a_browser_gets_a_page_of_the_console(self, console, path):
        answer = console.get(f"/admin/{path}", headers=BROWSER)
        assert (answer.status_code, answer.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
        assert "There is no page at this address." in answer.text
        assert '<a class="text-primary-700 underline dark:text-primary-400" href="/admin/">' in answer.text
        assert "/admin/rules/rule/" in answer.text  # the menu

    @pytest.mark.parametrize("path", WRONG)
    @pytest.mark.parametrize("accept", ["*/*", "application/json", "application/vnd.api+json"])
    def test_any_other_client_gets_the_error_of_the_api(self, console, path, accept):
        answer = console.get(f"/admin/{path}", headers={"Accept": accept})
        assert (answer.status_code, answer.json()["exception"]) == (404, "NotFound")

    @pytest.mark.parametrize("headers", [BROWSER, {}])
    def test_a_stranger_does_not_learn_which_addresses_exist(self, client, db, headers):
        for path in ("nowhere/", "rules/rule/", "accounts/user/1/change/", "telemetry/logentry/add/"):
            answer = client.get(f"/admin/{path}", headers=headers)
            assert (answer.status_code, answer.headers["Location"]) == (302, f"/admin/login/?next=/admin/{path}")

    def test_the_text_of_the_address_is_not_repeated(self, console):
        assert "<b>" not in console.get("/admin/<b>x</b>", headers=BROWSER).text.partition("<h1")[2]

    def test_a_page_that_is_not_offered_says_so(self, console):
        path = "/admin/telemetry/logentry/add/"
        answer = console.get(path, headers=BROWSER)
        assert (answer.status_code, "The console does not have this function." in answer.text) == (403, True)
        assert console.get(path).json()["exception"] == "PermissionDenied"


def test_a_form_that_has_expired_is_refused_with_a_page(console):
    console.handler.enforce_csrf_checks = True
    answer = console.post(USERS, headers=BROWSER)
    assert (answer.status_code, "This form has expired" in answer.text) == (403, True)
    assert 'href="/admin/">Back to the overview' in answer.text
    assert console.post(USERS).json()["exception"] == "PermissionDenied"
    console.cookies.clear()
    stranger = console.post(USERS, headers=BROWSER)
    assert (stranger.status_code, "This form has expired" in stranger.text) == (403, True)
    assert "Back to the overview" not in stranger.text


class TestWritesPerMinute:
    """API and console share the bound of one user."""

    @pytest.fixture(autouse=True)
    def bound(self, settings, console, admin):
        """Users of earlier tests had the same ids."""
        settings.GATEWAY_WRITES_PER_MINUTE = 3
        minute = int(time.time() // 60)
        for pk in User.objects.values_list("pk", flat=True):
            caches["default"].delete_many([f"writes:{pk}:{minute + later}" for later in (0, 1)])

    @promise("Writes of one user are bounded, by API and console", target="429", suite="attack")
    def test_a_page_says_that_there_were_too_many(self, console):
        in_one_minute(10)
        assert [self.delete_one(console).status_code for _ in range(3)] == [302, 302, 302]
        refused = self.delete_one(console)
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["Retry-After"]) <= 60
        assert "The limit of user" in shown(refused)
        assert "(3 writes per minute) is used up." in shown(refused)
        assert console.get(USERS).status_code == 200
        assert console.post("/admin/logout/").status_code == 200
        assert console.get(USERS).status_code == 302

    @promise("Writes of one user are bounded, by API and console", target="429", suite="attack")
    def test_the_api_counts_too(self, admin):
        in_one_minute(10)
        statuses = [admin.post("/groups/", name=f"group {number}").status_code for number in range(4)]
        assert statuses == [201, 201, 201, 429]
        assert admin.get("/groups/").status_code == 200

    def delete_one(self, console):
        return console.post(f"{USERS}{new_user().pk}/delete/", {"post": "yes"})


def test_a_list_is_named_after_its_rows(console):
    """The window of a list was called "Select user to change"."""
    pages = {"accounts/user": "Users", "telemetry/logentry": "Log entries", "statistics": "Statistics"}
    for path, name in pages.items():
        title = console.get(f"/admin/{path}/").text.partition("<title>")[2].partition("</title>")[0]
        assert title.strip() == f"{name} | Gateway"


def test_pages_of_an_empty_installation_say_what_to_do_next(console):
    playground = 'href="/admin/playground/"'
    assert f"{playground} class=" in console.get("/admin/telemetry/logentry/").text.partition("There are no such")[2]
    assert f"{playground}>playground</a>" in console.get("/admin/statistics/").text
    assert 'href="/admin/providers/provider/add/">Add a provider</a>' in console.get("/admin/playground/").text
    create_provider(name="p", url="https://a.example", format_name="openai", models=["m"])
    assert "Add a provider" not in console.get("/admin/playground/").text
