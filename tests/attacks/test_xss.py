"""Text of clients, providers and admins is text on every page: no element, attribute or link comes of it."""

from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal

import pytest
import requests
from django.contrib import admin
from django.db import models
from hypothesis import given
from hypothesis import strategies as st

from accounts.access_requests.models import AccessRequest
from accounts.models import User
from accounts.services import create_feature, create_role
from licensing.services import set_limit
from providers.models import PriceSource
from providers.services import set_price
from rules.guardrails.models import Guardrail
from rules.models import Rule, WhatIf
from tests.console.conftest import PASSWORD, Visitor
from tests.console.test_hostile import compiled_by_alpine, paths
from tests.support import shown_rows
from tests.support.html_reading import Page
from tests.support.management import Client, new_admin
from tests.support.promises import promise
from tests.support.running import RunningGateway, fresh_store
from tests.support.shown_rows import OWN, latest_rows, own_paths, shown_models, text_fields, write
from tests.support.thoroughness import some
from tests.support.world import World

pytestmark = pytest.mark.either_store

MARK = "xsscanary"
TERM, PRODUCT = "133733*770077", 133733 * 770077  # should a template read what it shows
# Each leads out of another place: text, attributes with each quote or none, scripts, comments, templates, escapes.
PAYLOADS = (
    f"<{MARK}>", f"\"'><{MARK} a=1>", f'" {MARK}="1', f"' {MARK}='1", f"x {MARK}=1 ", f"</script><{MARK}>",
    f"--><{MARK}>", f"</textarea></title></style><{MARK}>", f"]]><{MARK}>", f"javascript:{MARK}", f"`${{{MARK}}}`",
    f"{{{{{TERM}}}}}<{MARK}>", f"{{% debug %}}<{MARK}>", f"{{{{{TERM}}}}}${{{TERM}}}#{{{TERM}}}<%= {TERM} %>",
    f"&lt;{MARK}&gt;", f"%3C{MARK}%3E", f"\\u003c{MARK}\\u003e", f"<svg/onload={MARK}>", f"<img src=x onerror={MARK}>",
    f"<a href=javascript:{MARK}>", f"\u2028<{MARK}>", f"<{MARK}\x0c/>", f"<<{MARK}>>", f"[x](javascript:{MARK})",
)  # fmt: skip
PAGES_WITH_QUERIES = ("", "login/", "statistics/", "telemetry/logentry/", "telemetry/logentry/tail/", "accounts/user/",
                      "rules/rule/preview/", "playground/")  # fmt: skip
QUERY_NAMES = ("q", "user", "model_name", "provider", "key", "request", "tag", "o", "p", "next", "_changelist_filters",
               "period", "by", "start", "end", "chart", "timestamp_from_0", "group", "name", "_popup")  # fmt: skip
LISTS = ("users", "roles", "features", "groups", "providers", "formats", "prices", "keys", "rules", "limits", "cache",
         "logs", "licence", "stats", "stats/usage", "stats/unpriced", "access-requests", "version", "schema",
         "docs")  # fmt: skip


@pytest.fixture(scope="module")
def hostile(tmp_path_factory, django_db_blocker) -> Iterator[World]:
    """A gateway of these tests' own, with one of everything, asked for work by hostile clients."""
    with ExitStack() as resources:
        store = resources.enter_context(fresh_store(tmp_path_factory.mktemp("store")))
        resources.enter_context(django_db_blocker.unblock())
        resources.enter_context(store.used_by_orm())
        running = resources.enter_context(RunningGateway(store, tmp_path_factory.mktemp("xss")))
        world = World(running, resources)
        fill(world)
        yield world


def fill(world: World) -> None:
    """Hostile requests, answers and errors of providers."""
    names = [payload for payload in PAYLOADS if payload.isprintable() and payload == payload.strip()]
    provider = world.provider(world.model, *names)
    create_role(name="last")
    create_feature(name="last")
    AccessRequest.objects.create(user=world.user, kind="model", model=world.model, reason="why")
    world.allow(everyone="user")
    set_limit(group=world.new_group(world.user), measure="tokens", window="day", amount=10**9)
    set_price(host="api.example.org", model="large*", source=PriceSource.EDITED, currency="USD", input=Decimal(1),
              output=Decimal(2))  # fmt: skip
    for payload in PAYLOADS:
        provider.answers(text=payload).answers(status=400, body={"error": {"message": payload}})
        provider.answers(status=500, body={"error": {"message": payload}, payload: payload})
        tags = {"X-Svc-Tags": "team=" + "".join(filter(str.isalnum, payload))}
        for number in range(3):
            world.ask(f"{payload} {number}", headers=tags | {"User-Agent": payload.encode("utf-8").decode("latin-1")})
        last = world.ask(payload, body={"model": f"{payload} of nobody"})
    world.entry(last)


@pytest.fixture(scope="module")
def owner(hostile: World) -> Visitor:
    """The world's user at their own pages, logged in before the rows give them a second factor."""
    visitor, url = Visitor(hostile.gateway.url), f"{hostile.gateway.url}/me/login/"
    visitor.session.get(url, timeout=30)
    form = {"username": hostile.user.username, "password": "a long pass phrase"}
    form["csrfmiddlewaretoken"] = visitor.session.cookies["csrftoken"]
    response = visitor.session.post(url, data=form, timeout=30, allow_redirects=False)
    assert (response.status_code, response.headers["Location"]) == (302, "/me/")
    return visitor


@pytest.fixture(scope="module")
def own_rows(hostile: World, owner: Visitor) -> dict[str, object]:
    """What stands in the addresses of the owner's pages, with a row in each table."""
    return shown_rows.fill(hostile.user)


def signed_in(world: World) -> Visitor:
    visitor = Visitor(world.gateway.url)
    assert visitor.sign_in(new_admin(password=PASSWORD).username).status_code == 302
    return visitor


def check(response: requests.Response, path: str) -> int:
    """How many texts of ours the page shows; fails if one of them is more than text."""
    assert response.status_code < 500, path
    assert response.headers["X-Content-Type-Options"] == "nosniff", path
    assert str(PRODUCT) not in response.text, path
    if "text/html" not in response.headers.get("Content-Type", ""):
        return 0
    page = Page(response.text)
    assert list(page.intrusions(MARK)) == [], path
    assert [text for text in compiled_by_alpine(response.text) if MARK in text] == [], path
    rules = dict(rule.strip().partition(" ")[::2] for rule in response.headers["Content-Security-Policy"].split(";"))
    assert "unsafe-inline" not in rules.get("script-src", rules["default-src"]), path
    return page.text.count(MARK)


@pytest.mark.parametrize("model", sorted(shown_models(), key=lambda model: model._meta.label))
def test_every_table_that_pages_show_has_a_row(own_rows, model):
    """Whoever adds a model adds its row to tests/support/shown_rows.py, or says there why no page shows it."""
    assert model._default_manager.exists()


def test_every_table_of_the_console_is_among_those_that_pages_show():
    assert set(admin.site._registry) <= shown_models()


@promise("V-N8, V-L5, V-O3: hostile text is text on every page of the console", target="0 elements, attributes, links")
@promise("V-N8: hostile text is text on every page below /me/", target="0 elements, attributes, links")
@pytest.mark.timeout(1200)  # all payloads are on 5,000 pages
@pytest.mark.parametrize(
    "payloads", [PAYLOADS[::12], pytest.param(PAYLOADS, marks=pytest.mark.slow)], ids=["some payloads", "all payloads"]
)
def test_no_page_makes_elements_of_text(hostile, owner, own_rows, payloads, figure):
    visitor = signed_in(hostile)
    rows = latest_rows() | {User: hostile.user.pk}
    pages, shown, written = 0, 0, set()
    for payload in payloads:
        for model in shown_models():
            written |= set(write_everywhere(model, rows.get(model), own_rows, payload))
        for path in further_paths(rows, own_rows):
            shown += check(visitor.get(path), path)
            pages += 1
        for path in own_paths(own_rows):
            shown += check(owner.session.get(f"{hostile.gateway.url}/me/{path}", timeout=30), path)
            pages += 1
    expected = {field for model in shown_models() for field in text_fields(model, len(min(payloads, key=len)))}
    assert {str(field) for field in expected - written} == set()
    assert (pages > 120 * len(payloads), shown > 20 * len(payloads)) == (True, True)
    figure(f"{len(payloads)} payloads, {len(written)} fields, {pages} pages, {shown} texts shown")


def write_everywhere(
    model: type[models.Model], pk: object, own_rows: dict[str, object], payload: str
) -> Iterator[models.Field]:
    """The payload in each field of the rows that pages show; the fields in which it stands."""
    latest = model._default_manager.order_by("-pk").values_list("pk", flat=True)[:1]
    own = [own_rows[name] for name, shown in OWN.items() if shown is model]
    for number, row in enumerate(model._default_manager.filter(pk__in={*latest, *own, *([pk] if pk else [])})):
        for field in text_fields(model, len(payload)):
            # What has to be unique is: other rows have the payload, and a number behind it.
            if write(row, field, payload if not number else f"{payload}{number}"):
                yield field


def further_paths(rows: dict[type[models.Model], int], own_rows: dict[str, object]) -> Iterator[str]:
    """The paths of the console, also those that name a row in another way than tables do."""
    yield from paths(rows)
    yield from (f"search/?q={MARK}", f"find/?q={MARK}", f"guardrail-samples/?guardrail={rows[Guardrail]}")
    yield from (f"guardrail-samples/{rows[Guardrail]}/delete/", f"what-if/{WhatIf.objects.latest('pk').pk}/")
    yield f"access-requests/{rows[AccessRequest]}/decide/"
    yield f"explain/entry/{own_rows['entry_id']}/"
    yield from (f"rules/rule/{rule}/versions/" for rule in {rows[Rule], own_rows["rule_id"]})
    yield from (f"telemetry/logentry/{own_rows['entry_id']}/change/", f"keys/apikey/{own_rows['key_id']}/change/")
    yield from (f"accounts/user/{own_rows['account_id']}/change/", f"accounts/group/{own_rows['group_id']}/change/")
    yield from (f"statistics/?by={dimension}&period=30d" for dimension in ("model", "user", "key", "tag:team"))


@promise("V-N8, V-O3: what the API answers is no page", target="JSON, nosniff")
def test_no_answer_of_the_api_is_a_page(hostile):
    client = Client(hostile.gateway.url).as_user(new_admin())
    for path in LISTS:
        response = client.get(f"/{path}/")
        check(response, path)
        if path != "docs":
            assert "html" not in response.headers["Content-Type"], path
    for path in (
        f"/{PAYLOADS[0]}",
        f"/users/{PAYLOADS[1]}",
        f"/logs/?search={PAYLOADS[1]}",
        f"/users/?{PAYLOADS[0]}=1",
    ):
        response = client.get(f"/{path}")
        check(response, path)
        assert "json" in response.headers["Content-Type"], path


@promise("V-O3: what providers answer is not served as a page", target="JSON or an event stream, nosniff")
@pytest.mark.parametrize("media_type", ["text/html", "image/svg+xml", "text/xml", "application/xhtml+xml", ""])
@pytest.mark.parametrize("path", ["/work", "/v1/chat/completions"])
def test_a_provider_serves_no_page(hostile, media_type, path):
    provider = hostile.provider(model := hostile.name("model"))
    provider.answers(body=f"<svg onload={MARK}>".encode(), headers={"Content-Type": media_type})
    provider.answers(text=f"<{MARK}>", headers={"Content-Type": media_type})
    for _ in range(2):
        response = hostile.post({"model": model, "messages": [{"role": "user", "content": "x"}]}, path=path)
        assert response.headers["Content-Type"].startswith(("application/json", "text/event-stream"))
        assert response.headers["X-Content-Type-Options"] == "nosniff"


@promise("V-N8: hostile text in the query of a console page is text", target="0 elements, attributes, links")
def test_no_query_becomes_an_element(hostile, figure):
    visitor = signed_in(hostile)
    tried = 0
    forms = [f"{model._meta.app_label}/{model._meta.model_name}/add/" for model in admin.site._registry]
    fields = {field.name for model in admin.site._registry for field in model._meta.get_fields()}
    for turn, path in enumerate((*PAGES_WITH_QUERIES, *forms)):
        names = fields if path in forms else QUERY_NAMES
        for payload in some(PAYLOADS, turn):
            check(visitor.get(path, params=dict.fromkeys(names, payload)), path)
            check(visitor.get(path, params={payload: payload}), path)
            tried += 2
    figure(f"{tried} addresses")


@given(st.text(max_size=40))
def test_the_reader_of_pages_sees_what_is_not_escaped(text):
    """The checker itself: it finds each payload that a page shows raw, and nothing in harmless text."""
    assert list(Page(f"<p>{text}<{MARK}>").intrusions(MARK)) != [] or "<" in text
    assert list(Page(f"<a href='{PAYLOADS[3]}'>").intrusions(MARK)) != []
    assert list(Page("<a href='javascript:x'>").intrusions(MARK)) != []
    assert list(Page("<p>&lt;b&gt; javascript:</p>").intrusions(MARK)) == []
