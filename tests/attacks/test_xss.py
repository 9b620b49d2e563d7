"""Text of clients, providers and admins is text on every page: no element, attribute or link comes of it."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal

import pytest
import requests
from django.contrib import admin
from django.db import DataError, IntegrityError, models, transaction
from hypothesis import given
from hypothesis import strategies as st

from accounts.access_requests.models import AccessRequest
from accounts.models import User
from accounts.services import create_feature, create_role
from licensing.services import set_limit
from providers.models import PriceSource
from providers.services import set_price
from tests.console.conftest import PASSWORD, Visitor
from tests.console.test_hostile import paths
from tests.support.html_reading import Page
from tests.support.management import Client, new_admin
from tests.support.promises import promise
from tests.support.running import RunningGateway, fresh_store
from tests.support.world import World

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
# They decide what the gateway does, or are checked by what they are read with; none of them is shown.
LEFT_ALONE = {"password", "digest", "public_id", "former_public_id", "former_digest", "refresh_digest", "credential",
              "name_key", "key", "regex", "session_key", "session_data", "currency", "entry_type",
              "hash", "previous_hash"}  # fmt: skip
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


def signed_in(world: World) -> Visitor:
    visitor = Visitor(world.gateway.url)
    assert visitor.sign_in(new_admin(password=PASSWORD).username).status_code == 302
    return visitor


def text_fields(model: type[models.Model]) -> list[models.Field]:
    fields = [field for field in model._meta.concrete_fields if field.name not in LEFT_ALONE and not field.choices]
    return [field for field in fields if isinstance(field, models.CharField | models.TextField | models.JSONField)]


def write(row: models.Model, field: models.Field, payload: str) -> bool:
    """The payload in one field of a row, past all checks of the code; False if the database refuses it."""
    value = {payload: payload} if isinstance(field, models.JSONField) else payload
    if isinstance(field, models.JSONField) and isinstance(getattr(row, field.name), list):
        value = [payload]
    if field.name in ("stages", "candidates"):
        value = [[payload, 0.0, 1.0]] if field.name == "stages" else [[payload, payload, payload]]
    if field.name == "provider_calls":
        value = [
            [1, payload, 0, payload, 500, payload, payload, 0.1, 0.2, "0.1", payload, payload, [[payload, 0.1, 0.1]]]
        ]
    if field.name == "guardrails":
        value = [{"name": payload, "direction": payload, "result": payload, "counts": {payload: 1}}]
    if field.name == "decision":
        value = [payload, payload, 1, 1, [["requests:user:1:minute", 1, 1, 0, 0, 0]]]
    if field.name == "payload":
        value = json.dumps({"request": {payload: payload}, "response": payload})
    if isinstance(value, str) and field.max_length and len(value) > field.max_length:
        return False
    try:
        with transaction.atomic():
            type(row).objects.filter(pk=row.pk).update(**{field.name: value})
    except (DataError, IntegrityError):
        return False
    return True


def one_of_everything() -> dict[type[models.Model], int]:
    rows = {model: model.objects.order_by("-pk").first() for model in admin.site._registry}
    return {model: row.pk for model, row in rows.items() if row is not None}


def check(response: requests.Response, path: str) -> int:
    """How many texts of ours the page shows; fails if one of them is more than text."""
    assert response.status_code < 500, path
    assert response.headers["X-Content-Type-Options"] == "nosniff", path
    assert str(PRODUCT) not in response.text, path
    if "text/html" not in response.headers.get("Content-Type", ""):
        return 0
    page = Page(response.text)
    assert list(page.intrusions(MARK)) == [], path
    rules = dict(rule.strip().partition(" ")[::2] for rule in response.headers["Content-Security-Policy"].split(";"))
    assert "unsafe-inline" not in rules.get("script-src", rules["default-src"]), path
    return page.text.count(MARK)


@promise("V-N8, V-L5, V-O3: hostile text is text on every page of the console", target="0 elements, attributes, links")
@pytest.mark.timeout(1200)  # all payloads are on 3,000 pages
@pytest.mark.parametrize(
    "payloads", [PAYLOADS[::10], pytest.param(PAYLOADS, marks=pytest.mark.slow)], ids=["some payloads", "all payloads"]
)
def test_no_page_of_the_console_makes_elements_of_text(hostile, payloads, figure):
    visitor = signed_in(hostile)
    rows = one_of_everything() | {User: hostile.user.pk}
    pages, shown, written = 0, 0, 0
    for payload in payloads:
        for model, pk in rows.items():
            row = model.objects.get(pk=pk)
            written += sum(write(row, field, payload) for field in text_fields(model))
        for path in paths(rows):
            shown += check(visitor.get(path), path)
            pages += 1
    assert (pages > 80 * len(payloads), shown > 10 * len(payloads), written > 20 * len(payloads)) == (True,) * 3
    figure(f"{len(payloads)} payloads, {written} fields, {pages} pages, {shown} texts shown")


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
    for path in (*PAGES_WITH_QUERIES, *forms):
        names = fields if path in forms else QUERY_NAMES
        for payload in PAYLOADS[::3] if path in forms else PAYLOADS:
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
