"""The console among enemies: hostile texts, forged and stale requests, curious admins."""

from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest
from django.contrib import admin
from django.db.models import Q
from django.urls import URLPattern

from accounts import services as accounts
from accounts.models import Session, User
from keys.models import ApiKey
from keys.services import update_key
from licensing.models import Limit
from licensing.services import set_limit
from providers.models import Model, ModelPrice, Provider
from rules.models import Rule
from telemetry.models import CacheEntry, LogEntry
from tests.console.conftest import PASSWORD, USERNAME, Visitor, stand_still
from tests.support.hostile import HOSTILE
from tests.support.promises import promise
from tests.support.thoroughness import first_of

TABLES = sorted(
    (f"{model._meta.app_label}/{model._meta.model_name}/" for model in admin.site._registry),
    key=lambda path: not path.startswith(("telemetry/", "keys/")),
)
CHANGED = (User, Session, ApiKey, Provider, Model, ModelPrice, Rule, Limit, CacheEntry)
WAYS = {"login", "logout"}
RUNS_NOTHING = promise(
    "V-N8: no page runs script from elsewhere, and Alpine compiles no text of others",
    target="script-src self; 0 texts",
    suite="attack",
)


@pytest.fixture
def rows(world) -> dict[type, int]:
    """A row of each table that a hostile mind has named, by its model."""
    world.provider()
    provider = Provider.objects.order_by("-pk").first()
    key, rule, group = world.new_key().key, world.allow(), world.new_group(world.user)
    limit = set_limit(group=group, measure="tokens", window="day", amount=5)
    Provider.objects.filter(pk=provider.pk).update(name=f"{HOSTILE.replace('/', '')}{provider.pk}")
    provider.models.update(name=HOSTILE)
    ApiKey.objects.filter(pk=key.pk).update(name=f"{HOSTILE.split('</script>')[1]}{key.pk}")
    Rule.objects.filter(pk=rule.pk).update(name=f"{HOSTILE}{rule.pk}", description=HOSTILE)
    type(group).objects.filter(pk=group.pk).update(name=f"{HOSTILE}{group.pk}")
    User.objects.filter(pk=world.user.pk).update(display_name=HOSTILE, email=f"{HOSTILE}@example.org")
    session = Session.objects.create(user=world.user, device=HOSTILE, expires_at="2999-01-01T00:00Z")
    entry = LogEntry.objects.create(
        entry_type="WorkRequest", message=HOSTILE, model=HOSTILE, tags={HOSTILE: HOSTILE}, exception=HOSTILE,
        payload=f'{{"request": "{HOSTILE}", "response": "{HOSTILE}"}}', provider_name=HOSTILE, finish_reason=HOSTILE,
    )  # fmt: skip
    items = (provider, key, rule, group, limit, world.user, session, entry, provider.models.get())
    yield {type(row): row.pk for row in items}
    LogEntry.objects.filter(pk=entry.pk).delete()
    Rule.objects.filter(pk=rule.pk).delete()


def paths(rows: dict[type, int]) -> Iterator[str]:
    """Every path of the console below /admin/, of these rows where it is one of a row."""
    tables = {f"{model._meta.app_label}/{model._meta.model_name}/": pk for model, pk in rows.items()}
    for route in _routes(admin.site.urls[0]):
        values = [str(pk) for table, pk in tables.items() if route.startswith(table)]
        path = route.replace("<str:kind>", "csv").replace("<path:object_id>", values[0] if values else "1")
        if route.split("/")[0] not in WAYS and "<" not in path and "(" not in path:
            yield path


def _routes(patterns: list, before: str = "") -> Iterator[str]:
    for pattern in patterns:
        route = before + str(pattern.pattern)
        yield from [route] if isinstance(pattern, URLPattern) else _routes(pattern.url_patterns, route)


class AlpineAttributes(HTMLParser):
    """The texts that Alpine compiles: they are the reason for unsafe-eval in the content security policy."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.texts += [text or "" for name, text in attrs if name.startswith(("x-", "@", ":"))]


def compiled_by_alpine(page: str) -> list[str]:
    parser = AlpineAttributes()
    parser.feed(page)
    return parser.texts


def stored() -> list:
    # Who looks at samples of guardrails, or exports, leaves an entry.
    reads = Q(message__startswith="read samples of ") | Q(message__contains=" exported ")
    messages = LogEntry.objects.filter(entry_type="Message").exclude(reads)
    return [list(model.objects.order_by("pk").values()) for model in CHANGED] + [
        list(messages.order_by("pk").values("message"))
    ]


def without_uses(told: list) -> list:
    """What is stored, but for when a login or a key was last used."""
    return [
        [{**row, "last_used_at": 0, "last_used": 0} for row in rows] if isinstance(rows, list) else rows
        for rows in told
    ]


@RUNS_NOTHING
def test_looking_at_every_page_changes_nothing_and_none_shows_hostile_text_raw(administrator, rows):
    before, observations = without_uses(stored()), 0
    for path in paths(rows):
        answer = administrator.get(path)
        assert answer.status_code < 500, path
        if "text/html" in answer.headers.get("Content-Type", ""):
            assert HOSTILE not in answer.text, path
            assert "<img src=x" not in answer.text, path
            assert [text for text in compiled_by_alpine(answer.text) if "<img" in text] == [], path
        observations += 1
    assert observations > 80
    assert without_uses(stored()) == before


def test_nobody_else_gets_in_by_any_path_or_method(visitor_without_a_browser, rows, world):
    admin_once = accounts.create_user(username=world.name("admin"), password=PASSWORD, roles=["admin"])
    demoted = Visitor(visitor_without_a_browser.url)
    demoted.sign_in(admin_once.username)
    assert demoted.get("").status_code == 200
    accounts.update_user(admin_once, role_ids=[role.pk for role in world.user.roles.all()])
    before = without_uses(stored())
    for stranger in (visitor_without_a_browser, demoted):
        for path in paths(rows):
            answer = stranger.get(path)
            assert answer.status_code in (301, 302, 403, 404), path
            assert stranger.post(path).status_code in (302, 403, 404, 405), path
    assert without_uses(stored()) == before


@RUNS_NOTHING
def test_a_page_loads_nothing_from_outside_and_runs_no_script_of_its_own_text(administrator):
    for path in ("", "login/", "telemetry/logentry/", "playground/"):
        policy = administrator.get(path).headers["Content-Security-Policy"]
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        assert (rules["default-src"], rules["script-src"]) == ("'self'", "'self' 'unsafe-eval'")
        assert (rules["frame-ancestors"], rules["object-src"], rules["base-uri"]) == ("'none'",) * 3


def test_a_new_password_goes_the_way_of_all_changes(administrator):
    user = User.objects.get(username=USERNAME)
    for answer in (administrator.get("password_change/"), administrator.post("password_change/", new_password1="x")):
        assert answer.headers["Location"] == f"/admin/accounts/user/{user.pk}/change/"


@promise("V-D1, S12: a forged form of the console does nothing", target="403, nothing changed", suite="attack")
def test_a_forged_form_does_nothing(administrator, rows):
    before = without_uses(stored())
    for path in paths(rows):
        assert administrator.post(path, forged=True, post="yes").status_code == 403, path
    assert without_uses(stored()) == before
    fresh = Visitor(administrator.url)
    fresh.get("login/")
    assert fresh.post("login/", forged=True, username=USERNAME, password=PASSWORD).status_code == 403


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)"]
)
def test_signing_in_leads_nowhere_else(visitor_without_a_browser, target):
    answer = visitor_without_a_browser.sign_in(next=target)
    assert answer.status_code == 302
    assert answer.headers["Location"] == "/admin/"
    again = visitor_without_a_browser.get("login/", params={"next": target})
    assert urlsplit(again.headers.get("Location", "")).netloc == ""


def test_who_was_signed_out_cannot_use_the_cookie_again(administrator):
    stolen = Visitor(administrator.url)
    stolen.session.cookies.update(administrator.session.cookies)
    assert administrator.get("logout/").status_code == 405
    assert administrator.post("logout/").status_code in (200, 302)
    assert stolen.get("accounts/user/").status_code == 302


@pytest.mark.parametrize(
    "query",
    [
        "accounts/user/?password__startswith=argon2",
        "accounts/user/?password__regex=.",
        "keys/apikey/?digest__startswith=a",
        "keys/apikey/?owner__password__startswith=a",
        "providers/provider/?credential__startswith=a",
        "accounts/session/?user__password__startswith=a",
    ],
)
@promise("Filters of the console guess no secret", target="400", suite="attack")
def test_secrets_are_not_guessed_by_filters(administrator, query):
    assert administrator.get(query).status_code == 400


@pytest.mark.parametrize("table", first_of(*TABLES, values=5))
def test_bad_addresses_are_no_faults(administrator, table):
    bad = ("?q=%00", "?user=%00", "?p=99999999999999999999", "?p=x", "?o=99.x", "?e=1", "?tag=a__contains%3D1")
    worse = ("?tag=a__b__gt%3D1", "?timestamp_from_0=x&timestamp_from_1=y", "?all=", "?id__in=x", "?nothing=1")
    for rest in (*bad, *worse, "99999999999999999999/change/", "x/change/", "_00/delete/", "%00/change/"):
        assert administrator.get(table + rest).status_code < 500, rest


@pytest.mark.parametrize(
    "address",
    [
        "?period=x",
        "statistics/?by=x&chart=y",
        "statistics/?end=9999-12-31",
        "statistics/?start=0001-01-01&end=0001-01-01&by=hour",
        "rules/rule/preview/?rule=99999999999999999999&audience=user&user=99999999999999999999&regex=(",
        "accounts/session/?user=99999999999999999999",
        "autocomplete/?app_label=keys&model_name=apikey&field_name=owner&term=%25&page=x",
        "telemetry/logentry/export.exe",
        "telemetry/logentry/export.csv?nothing=1",
        "telemetry/logentry/export.jsonl?timestamp__gte=x",
        "telemetry/logentry/tail/?nothing=1",
        "telemetry/cacheentry/purge/?nothing=1",
        "telemetry/logentry/1/change/?_changelist_filters=user%3D%2500",
        "search/?s=a&page=x",
        *first_of(*(f"r/{number}/abc/" for number in range(1, 40)), values=3),
    ],
)
def test_bad_addresses_of_pages_are_no_faults_either(administrator, address):
    assert administrator.get(address).status_code < 500


def test_no_page_and_no_export_shows_a_credential(administrator, rows, world):
    issued = world.new_key()
    secrets = {"sk-secret-of-the-provider", issued.text, PASSWORD}
    for model, pk in rows.items():
        if hasattr(model, "credential"):
            secrets.add(model.objects.get(pk=pk).credential)
    secrets |= {user.password for user in User.objects.all()}
    for path in [*paths(rows), "telemetry/logentry/export.jsonl", f"keys/apikey/{issued.key.pk}/change/"]:
        text = administrator.get(path).text
        assert not [secret for secret in secrets if secret in text], path


def test_a_password_that_was_refused_is_not_shown_again(administrator, world):
    typed = "typed in vain, and long enough"
    fields = {"username": world.user.username, "password": typed, "is_active": "on"}
    answer = administrator.post("accounts/user/add/", **fields)
    assert answer.status_code == 200
    assert "errornote" in answer.text or "error" in answer.text
    assert typed not in answer.text


def test_every_change_is_told_to_the_log_with_its_author(administrator, rows, world):
    key, rule, user = rows[ApiKey], rows[Rule], rows[User]
    update_key(ApiKey.objects.get(pk=key), locked=True)
    session = rows[Session]
    did = {
        f"keys/apikey/{key}/unlock/": f"{USERNAME} changed keys {key}: locked.",
        f"keys/apikey/{key}/lock/": f"{USERNAME} changed keys {key}: locked.",
        f"keys/apikey/{key}/unlock/ ": f"{USERNAME} changed keys {key}: locked.",
        f"keys/apikey/{key}/rotate/": f"{USERNAME} rotated keys {key}.",
        f"rules/rule/{rule}/disable/": f"{USERNAME} changed rules {rule}: enabled.",
        f"accounts/session/{session}/end/": f"{USERNAME} signed out users {user}.",
        f"accounts/user/{user}/sign-out/": f"{USERNAME} signed out users {user}.",
        f"licensing/limit/{rows[Limit]}/delete/": f"{USERNAME} deleted limits {rows[Limit]}.",
        f"rules/rule/{rule}/delete/": f"{USERNAME} deleted rules {rule}.",
        f"keys/apikey/{key}/expire/": f"{USERNAME} changed keys {key}: expire.",
        f"keys/apikey/{key}/delete/": f"{USERNAME} deleted keys {key}.",
        f"accounts/user/{user}/delete/": f"{USERNAME} deleted users {user}.",
        "telemetry/cacheentry/purge/?user=nobody": f"{USERNAME} deleted cache.",
    }
    for path, result in did.items():
        last = LogEntry.objects.order_by("-pk").values_list("pk", flat=True).first()
        assert administrator.post(path.strip(), post="yes", hours="24").status_code in (200, 302), path
        entries = LogEntry.objects.filter(entry_type="Message", pk__gt=last, message=result)
        assert [entry.username for entry in entries] == [USERNAME], path


@promise("V-N8: hostile text is text in a real browser", target="nothing runs", suite="attack")
def test_an_answer_of_a_provider_is_text_in_the_playground(console, world):
    name = world.name("hostile")
    scripted = world.provider(name)
    world.allow(everyone="user")
    scripted.answers(text=HOSTILE)
    window = console()
    window.open("playground/")
    window.page.fill("[name=model]", name)
    window.page.fill("[name=prompt]", HOSTILE)
    window.page.keyboard.press("Tab")
    window.page.keyboard.press("Enter")  # Send is the next one: no mouse is needed
    window.page.wait_for_function("document.querySelector('[data-note]')?.innerText.includes('complete after')")
    assert window.page.inner_text("[data-answer]") == HOSTILE
    assert window.page.title() != "owned"
    assert window.check() == []


def test_what_is_asked_first_is_answered_by_keyboard(console, world):
    key = world.new_key().key
    ApiKey.objects.filter(pk=key.pk).update(name=HOSTILE)
    window = console()
    window.open(f"keys/apikey/{key.pk}/lock/")
    assert HOSTILE in window.page.inner_text("#main")
    window.page.focus("#main button[type=submit]")
    with window.page.expect_navigation():
        window.page.keyboard.press("Enter")
    stand_still(window.page)
    key.refresh_from_db()
    assert key.locked_time is not None
    assert window.check() == []
