"""The console's page Explain: filled in from a user, a key or a log entry, and answered in sentences and tables."""

import json
from urllib.parse import urlsplit

import pytest

from accounts.models import User
from licensing.models import Limit
from rules.models import Rule
from telemetry.models import EntryType, LogEntry
from tests.console.conftest import USERNAME, stand_still
from tests.support.hostile import HOSTILE

SECRET = "sk-secret-of-the-provider"


def press(window) -> None:
    window.page.get_by_role("button", name="Explain").click()
    stand_still(window.page)


def sentences(window) -> list[str]:
    return window.page.locator("[data-sentences] li").all_inner_texts()


def rows(window, title: str) -> list[list[str]]:
    """The cells of the table with this title."""
    lines = window.page.get_by_role("region", name=title, exact=True).locator("tbody tr")
    return [line.locator("td").all_inner_texts() for line in lines.all()]


@pytest.fixture
def arranged(world):
    """A provider and a rule, and a key with a limit, of the world's user."""
    scripted, rule = world.provider(), world.allow()
    issued = world.new_key()
    Limit.objects.create(key=issued.key, measure="tokens", window="day", amount=1000)
    world.price()
    world.settle()
    yield world.row(scripted), rule, issued.key
    Rule.objects.filter(pk=rule.pk).delete()


def test_a_request_of_a_key_is_explained(console, world, arranged):
    provider, rule, key = arranged
    window = console()
    window.open(f"keys/apikey/{key.pk}/change/")
    button = window.page.locator(f"a[href='/admin/keys/apikey/{key.pk}/explain/']").first
    window.open(button.get_attribute("href").removeprefix("/admin/"))  # on a phone the buttons are in a menu
    assert urlsplit(window.page.url).query == f"key={key.pk}"
    assert window.page.input_value("[name=key]") == str(key.pk)
    window.page.fill("[name=model]", world.model)
    assert window.check_looks() == {}
    press(window)
    assert sentences(window)[:2] == [
        "The request would be served.",
        f"User {world.user.username} sends it with key {key.name}.",
    ]
    limits = window.page.get_by_role("region", name="Limits, without this request", exact=True)
    assert limits.locator("time[datetime$=Z]").first.inner_text().endswith(" UTC")
    shown_rules = rows(window, "Rules, in the order of judging")
    assert [rule.name, "allow", "yes", "It allows the request."] in [
        [cell.lower() if cell == "YES" else cell for cell in row] for row in shown_rules
    ]
    (candidate,) = rows(window, "Providers, in the order of asking")
    assert candidate[:3] == ["1", provider.name, world.model]
    limits = {row[0]: row[1:] for row in rows(window, "Limits, without this request")}
    assert limits[f"daily token limit of key {key.name}"][:4] == ["1,000", "0", "0", "1,000"]
    text = window.page.inner_text("[data-explanation]")
    assert "Authorization: Bearer ***" in text
    assert SECRET not in window.page.content()
    for name, page in (
        (world.user.username, f"accounts/user/{world.user.pk}"),
        (key.name, f"keys/apikey/{key.pk}"),
        (rule.name, f"rules/rule/{rule.pk}"),
        (provider.name, f"providers/provider/{provider.pk}"),
    ):
        link = window.page.locator("[data-explanation]").get_by_role("link", name=name, exact=True).first
        assert link.get_attribute("href") == f"/admin/{page}/change/"
    assert window.check_looks() == {}
    window.page.get_by_role("link", name=f"daily token limit of key {key.name}").click()
    stand_still(window.page)
    assert urlsplit(window.page.url).path == f"/admin/licensing/limit/{key.limits.get().pk}/change/"
    window.page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    assert window.check_looks() == {}


def test_a_refusal_names_the_rule_that_nearly_allows_it(console, world, arranged):
    _, rule, _ = arranged
    Rule.objects.filter(pk=rule.pk).update(regex="another-.*")
    world.settle()
    window = console()
    window.open(f"accounts/user/{world.user.pk}/change/")
    window.page.get_by_role("link", name="Explain").last.click()
    stand_still(window.page)
    assert urlsplit(window.page.url).query == f"user={world.user.pk}"
    assert window.page.input_value("[name=user]") == str(world.user.pk)
    window.page.fill("[name=model]", world.model)
    press(window)
    assert sentences(window)[0].startswith("The request would be refused with 403 RuleDenied")
    assert f"Rule {rule.name} allows only models that match another-.*." in sentences(window)
    assert "No provider would be asked." in window.page.inner_text("[data-explanation]")
    assert window.check() == []
    linked = {link.inner_text(): link.get_attribute("href") for link in window.page.locator("[data-sentences] a").all()}
    assert linked[world.user.username].startswith(f"/admin/accounts/user/{world.user.pk}/")
    assert linked[rule.name].startswith(f"/admin/rules/rule/{rule.pk}/")
    assert world.model in linked


def test_the_message_of_a_refused_request_links_its_names(administrator, world, arranged):
    _, rule, _ = arranged
    Rule.objects.filter(pk=rule.pk).update(effect="deny")
    world.settle()
    denied = world.entry(world.ask())
    page = administrator.get(f"telemetry/logentry/{denied.pk}/change/").text
    message = page.partition(">Message</dt>")[2].partition("</dd>")[0]
    assert f'/accounts/user/{world.user.pk}/change/" title="{world.user.username}">' in message
    assert f">{world.model}</a>" in message


def test_an_entry_of_the_log_fills_in_the_form(console, world, arranged):
    _, _, key = arranged
    body = {"model": world.model, "messages": [{"role": "user", "content": "It's <b>bold</b>"}]}
    entry = LogEntry.objects.create(
        entry_type=EntryType.WORK_REQUEST, operation="chat", model=world.model, user_id=world.user.pk, key_id=key.pk,
        key_name=key.name, address="192.0.2.7", tags={"team": "search"}, cache_status="BYPASS",
        payload=json.dumps({"request": body, "response": "hello"}),
    )  # fmt: skip
    window = console()
    window.open(f"telemetry/logentry/{entry.pk}/change/")
    assert window.check() == []
    window.page.get_by_role("button", name="Explain such a request now").click()
    stand_still(window.page)
    assert sentences(window)[0] == "The request would be served."  # with the one click
    values = {name: window.page.input_value(f"[name={name}]") for name in ("model", "door", "address", "headers")}
    assert values == {
        "model": world.model,
        "door": "/work",
        "address": "192.0.2.7",
        "headers": "X-Svc-Tags: team=search\nX-Svc-Cache: bypass",
    }
    assert json.loads(window.page.input_value("[name=body]")) == body
    assert "with the current configuration" in window.page.inner_text("#main")
    press(window)
    assert sentences(window)[0] == "The request would be served."
    assert "The request bypasses the cache." in sentences(window)
    assert "It's <b>bold</b>" in window.page.inner_text("[data-explanation]")
    assert window.check() == []
    entry.delete()


def test_a_user_in_the_address_is_selected(administrator, orm):
    user = User.objects.live().first()
    assert f'<option value="{user.pk}" selected' in administrator.get(f"explain/?user={user.pk}").text


def test_an_entry_without_body_user_and_key_says_so(administrator, orm):
    entry = LogEntry.objects.create(
        entry_type=EntryType.WORK_REQUEST, operation="count_tokens", model=HOSTILE, user_id=99_999_999,
        username=HOSTILE, key_id=99_999_999, key_name="gone", payload='{"request": {"bytes": 5, "sha256": "0"}}',
    )  # fmt: skip
    text = administrator.get(f"explain/?entry={entry.pk}").text
    assert "Its key gone was deleted. The log does not have its body." in text
    assert HOSTILE not in text
    assert '<option value="/v1/messages/count_tokens" selected>' in text
    entry.delete()


@pytest.mark.parametrize(
    ("operation", "path"),
    [("embedding", "/v1/embeddings"), ("completion", "/v1/completions"), ("chat", "/work"), ("", "/work")],
)
def test_an_entry_without_body_has_the_path_of_its_operation(administrator, orm, operation, path):
    """The sample that takes the place of the body is of the same operation."""
    digest, body = '{"request": {"bytes": 5, "sha256": "0"}}', '{"request": {"model": "m", "messages": []}}'
    for payload, selected in ((digest, path), (body, "/work")):
        entry = LogEntry.objects.create(
            entry_type=EntryType.WORK_REQUEST, operation=operation, model="m", payload=payload
        )
        assert f'<option value="{selected}" selected>' in administrator.get(f"explain/?entry={entry.pk}").text
        entry.delete()


@pytest.mark.parametrize("query", ["entry=x", "key=999999999999999999", "user=-1", "entry=٣", f"key={'9' * 30}"])
def test_an_address_that_names_nothing_leaves_the_form_empty(administrator, query):
    response = administrator.get(f"explain/?{query}&model=forged")
    assert response.status_code == 200
    assert "forged" not in response.text.partition("<form")[2].partition("explain_form")[2]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "Choose a user or a key."),
        ({"model": ""}, "Name a model, here or in the body."),
        ({"body": "{"}, "The body is not JSON"),
        ({"body": "[" * 100_000}, "The body is nested more than 64 levels deep."),
        ({"body": "[1]"}, "The body must be a JSON object."),
        ({"headers": "Authorization: Bearer x"}, "Each line must be a header of the gateway"),
        ({"address": "here"}, "Not an IP address."),
        ({"door": "/admin"}, "Select a valid choice."),
        ({"user": "999999999"}, "Select a valid choice."),
    ],
)
def test_what_is_wrong_in_the_form_is_named(administrator, fields, problem):
    text = administrator.post("explain/", **{"door": "/work", "model": "m", **fields}).text
    assert problem in text
    assert "data-explanation" not in text


def test_a_key_of_another_user_is_refused(administrator, world, arranged):
    _, _, key = arranged
    other = world.new_user()
    text = administrator.post("explain/", door="/work", model="m", user=other.pk, key=key.pk).text
    assert f"The key belongs to {key.owner}." in text


def test_each_path_has_a_body_that_it_takes(administrator, world, arranged):
    for path in ("/work", "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages",
                 "/v1/messages/count_tokens", "/openai/responses"):  # fmt: skip
        text = administrator.post("explain/", door=path, model=world.model, user=world.user.pk).text
        assert "The request would be served." in text, path


def test_the_log_says_who_asked_and_nothing_is_sent(administrator, world, arranged):
    administrator.post("explain/", door="/work", model=world.model, user=world.user.pk)
    entry = LogEntry.objects.filter(entry_type="Message", message__contains=world.model).latest("pk")
    assert entry.message == (
        f"{USERNAME} had a request of {world.user.username} for the model {world.model} explained: it would be served."
    )
    assert entry.address == "127.0.0.1"
    assert world.scripted[0].seen == []


def test_a_forged_form_explains_nothing(administrator, world, arranged):
    before = LogEntry.objects.filter(message__contains=world.model).count()
    response = administrator.post("explain/", forged=True, door="/work", model=world.model, user=world.user.pk)
    assert response.status_code == 403
    assert LogEntry.objects.filter(message__contains=world.model).count() == before


def test_an_entry_explains_what_happened(console, world, arranged):
    provider, rule, _ = arranged
    entry = world.entry(world.ask(key=world.new_key().text))
    window = console()
    window.open(f"telemetry/logentry/{entry.pk}/change/")
    window.page.get_by_role("link", name="Explain what happened").click()
    stand_still(window.page)
    assert sentences(window)[:2] == [
        "The request was served.",
        f"User {world.user.username} sent it with key {entry.key_name}.",
    ]
    assert rows(window, "Providers, in the order of asking") == [["1", provider.name, world.model, "It answered."]]
    assert rule.name in [row[0] for row in rows(window, "Rules, in the order of judging")]
    assert window.check_looks() == {}


def test_hostile_text_of_an_entry_is_text(console, orm):
    entry = LogEntry.objects.create(
        entry_type=EntryType.WORK_REQUEST, outcome="failed", status=502, exception=HOSTILE[:64], message=HOSTILE,
        model=HOSTILE, user_id=1, username=HOSTILE, candidates=[[HOSTILE, "failed", HOSTILE], ["x", "unheard of", ""]],
    )  # fmt: skip
    window = console()
    window.open(f"explain/entry/{entry.pk}/")
    assert window.check() == []
    assert window.page.title() != "owned"
    assert "<script>" in window.page.inner_text("[data-sentences]")
    entry.delete()


def test_only_requests_have_an_explanation(administrator, orm):
    entry = LogEntry.objects.create(entry_type=EntryType.MESSAGE, message="Something happened.")
    for number in (entry.pk, 0, "9" * 30):
        assert administrator.get(f"explain/entry/{number}/").status_code == 404
    entry.delete()
