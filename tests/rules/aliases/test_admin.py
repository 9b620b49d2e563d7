"""Aliases in the console and in `manage.py aliases list`."""

import io
import re
from html import unescape

import pytest
from django.core.management import call_command

from accounts.services import create_group
from gateway_project.work.routing.alias_preview import preview_alias
from gateway_project.work.snapshot.records import Target
from providers.services import create_provider
from rules.aliases.drafts import MirrorDraft, TargetDraft
from rules.aliases.lines import as_lines
from rules.aliases.models import Alias
from rules.aliases.routing import read_alias_routing
from rules.aliases.services import create_alias
from telemetry.models import LogEntry
from tests.gateway_project.work.routing.test_alias_preview import account, new_gateway, rest
from tests.gateway_project.work.routing.test_aliases import row, to

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]


@pytest.fixture
def provider():
    return create_provider(name="east", url="http://127.0.0.1:9/v1", format_name="openai", models=["a", "org/b c"])


FIELDS = {
    "name": "fast",
    "enabled": "on",
    "strategy": "weighted",
    "fallback_on": ["error", "budget"],
    "mirror_share": "0",
}


@pytest.fixture
def routing(monkeypatch):
    """The gateway whose view of each alias the page shows: routing(row) puts that alias into its memory."""
    gateway = new_gateway(credentials=2)
    monkeypatch.setattr(read_alias_routing, "function", lambda alias_id: preview_alias(gateway, 5))
    return gateway


def test_the_page_says_who_would_serve_now_and_why(console, routing):
    rest(routing, 2)
    routing.breakers.record_failure(account(routing, 3))
    routing.full_providers.accounts |= {(1, 0), (1, 1)}
    targets = to(2, "a", 1), to(3, "a", 3), to(1, "a", tier=1), to(2, "b", tier=2), to(1, "b", tier=3)
    routing.snapshot.put_aliases([row(5, "x", *targets, fallback_on=frozenset({"error", "rate_limited", "budget"}))])
    alias = create_alias(name="shown")
    page = console.get(f"/admin/rules/alias/{alias.pk}/change/").text
    table = page.partition("Who would serve now")[2].partition("</table>")[0]
    lines = [" | ".join(_cells(line)) for line in table.split("<tr ")[2:]]
    expected = [
        "1 | p2/a | 25 % |  | no | rests for 30 more seconds: the provider sent Retry-After |  | 0",
        "1 | p3/a | 75 % |  | no | its circuit is open: it failed several times in a row |  | 0",
        "2 | p1/a | 100 % |  | no | a limit of the provider is used up |  | 0",
        "3 | p2/b | 100 % |  | yes | serves its share of the requests |  | 0",
        "4 | p1/b | 100 % |  | no | a limit of the provider is used up |  | 0",
    ]
    assert [unescape(line) for line in lines] == expected
    routing.rests.begin(Target(account(routing, 2), "b"), 429, 30)
    page = console.get(f"/admin/rules/alias/{alias.pk}/change/").text
    assert "a limit of the provider is used up; it is asked anyway, because no target is ready" in page


def _cells(line: str) -> list[str]:
    """The texts of a row of a table."""
    return [re.sub("<[^>]*>", "", cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", line)]


@pytest.mark.long
def test_an_alias_is_made_changed_and_deleted(console, provider):
    create_alias(name="inner")
    lines = ["east/a | weight=3 | tag stage=beta | tag x=1", "east/org/b c | tier=2", "alias:inner | weight=0 | tier=2"]
    response = console.post("/admin/rules/alias/add/", {**FIELDS, "target_lines": "\r\n\r\n".join(lines)})
    assert response.status_code == 302, response.context["adminform"].form.errors
    alias = Alias.objects.get(name="fast")
    assert as_lines(alias.targets.all()).splitlines() == lines
    assert alias.fallback_on == ["error", "budget"]
    assert LogEntry.objects.filter(message__contains="aliases").exists()
    page = console.get(f"/admin/rules/alias/{alias.pk}/change/")
    assert unescape("\n".join(lines)) in unescape(page.text)
    changed = {**FIELDS, "target_lines": "east/a", "_seen": page.context["adminform"].form.first_digest}
    response = console.post(f"/admin/rules/alias/{alias.pk}/change/", changed)
    assert response.status_code == 302, response.context["adminform"].form.errors
    assert as_lines(alias.targets.all()) == "east/a"
    assert "east/a" in console.get("/admin/rules/alias/").text
    assert console.post(f"/admin/rules/alias/{alias.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not Alias.objects.filter(name="fast").exists()


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("nosuch/a", "Line 1"),
        ("east/a\neast/a | weight", "Line 2"),
        ("east/a | weight=-1", "whole number"),
        ("east/a | weight=99999999", "weight"),
        ("east/a | color=red", "color"),
        ("east/a | key=laptop", "userId"),
        ("east/nosuch", "nosuch"),
        ("alias:fast", "itself"),
        ("alias:nosuch", "nosuch"),
    ],
)
def test_what_is_wrong_is_named(console, provider, lines, words):
    response = console.post("/admin/rules/alias/add/", {**FIELDS, "target_lines": lines})
    assert response.status_code == 200
    assert words in unescape(response.text)
    assert not Alias.objects.filter(name="fast").exists()


def test_a_mirror_is_a_model_and_a_share(console, provider):
    model = provider.models.get(name="a")
    console.post("/admin/rules/alias/add/", {**FIELDS, "mirror": model.pk, "mirror_share": "0.25"})
    alias = Alias.objects.get(name="fast")
    assert (alias.mirror, alias.mirror_share) == (model, 0.25)


def test_the_command_lists_targets_conditions_and_the_mirror(provider):
    group = create_group(name="beta testers")
    create_alias(name="inner", targets=[TargetDraft(provider.pk, "a")])
    match = {"tags": {"stage": "beta"}, "groupId": group.pk}
    targets = [
        TargetDraft(provider.pk, "a", weight=3, match=match),
        TargetDraft(provider.pk, "org/b c", tier=1),
        TargetDraft(alias="inner", weight=0, tier=2),
    ]
    mirror = MirrorDraft(provider.pk, "org/b c", 0.25)
    alias = create_alias(name="fast", strategy="sticky", fallback_on=["error"], targets=targets, mirror=mirror)
    out = io.StringIO()
    call_command("aliases", "list", stdout=out)
    assert out.getvalue().splitlines()[:5] == [
        f"fast (id {alias.pk}): sticky, falls back after error",
        f"  east/a | weight=3 | tag stage=beta | group={group.pk}",
        "  east/org/b c | tier=1",
        "  alias:inner | weight=0 | tier=2",
        "  mirrors 25.0% to east/org/b c",
    ]


def test_the_command_lists_them(provider):
    out = io.StringIO()
    call_command("aliases", "list", stdout=out)
    assert out.getvalue() == "There are no aliases.\n"
    alias = create_alias(name="fast", enabled=False, fallback_on=[])
    out = io.StringIO()
    call_command("aliases", "list", stdout=out)
    assert out.getvalue().splitlines() == [
        f"fast (id {alias.pk}, disabled): weighted, falls back after nothing",
        "  no targets: requests are refused",
    ]
