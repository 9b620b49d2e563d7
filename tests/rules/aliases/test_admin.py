"""Aliases in the console and in `manage.py aliases list`."""

import io
from html import unescape

import pytest
from django.core.management import call_command

from providers.services import create_provider
from rules.aliases.lines import as_lines
from rules.aliases.models import Alias
from rules.aliases.services import create_alias
from telemetry.models import LogEntry

pytestmark = pytest.mark.django_db


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
    changed = {**FIELDS, "target_lines": "east/a", "_seen": page.context["adminform"].form.seen_digest}
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


def test_the_command_lists_them(provider):
    out = io.StringIO()
    call_command("aliases", "list", stdout=out)
    assert out.getvalue() == "There are no aliases.\n"
    alias = create_alias(name="fast", enabled=False, fallback_on=[])
    out = io.StringIO()
    call_command("aliases", "list", stdout=out)
    assert out.getvalue().splitlines() == [
        f"fast (id {alias.pk}, disabled): weighted, falls back on nothing",
        "  no targets: it serves nothing",
    ]
