"""The names of other rows in the console's lists, and on its pages, are links to them."""

import re

import pytest
from django.db.models import Model as Row
from django.urls import reverse

from accounts.access_requests.models import AccessRequest
from accounts.models import Group, Role, User
from gateway_project.api.audit import Actor, Caller, record
from providers.models import Model, Provider
from rules.models import Rule
from telemetry.models import CacheEntry, LogEntry
from tests.support.management import new_user
from tests.support.many_rows import fill

pytestmark = pytest.mark.django_db


@pytest.fixture
def user() -> User:
    """Owns the rows of all tables."""
    owner = new_user(username="owner")
    fill(owner, 0, 3)
    return owner


def address(row: Row) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])


def cells(html: str, column: str) -> list[str]:
    """The cells of a column of a list."""
    return re.findall(rf'<t[dh] class="[^"]*\bfield-{column}\b[^"]*"[^>]*>(.*?)</t[dh]>', html, re.DOTALL)


def has_link(html: str, row: Row, text: str) -> bool:
    return re.search(rf'href="{address(row)}"[^>]*>\s*{re.escape(text)}\s*</a>', html) is not None


@pytest.mark.parametrize(
    ("table", "column", "model"),
    [
        ("keys/apikey", "owner", User),
        ("licensing/limit", "subject_name", Provider),
        ("licensing/limit", "subject_name", Group),
        ("rules/rule", "audience", Group),
        ("rules/rule", "provider", Provider),
        ("rules/accesstest", "subject", User),
        ("providers/model", "provider", Provider),
        ("providers/providercredential", "provider", Provider),
        ("providers/modelprice", "provider", Provider),
        ("accounts/session", "user", User),
        ("accounts/identity", "user", User),
        ("accounts/user", "role_names", Role),
        ("accounts/accessrequest", "user", User),
    ],
)
def test_each_cell_with_the_name_of_another_row_is_a_link_to_it(console, user, table, column, model):
    html = console.get(f"/admin/{table}/").text
    rows = {str(row): row for row in model.objects.all()}
    named = [(cell, rows[_text(cell)]) for cell in cells(html, column) if _text(cell) in rows]
    assert named
    assert [(cell, row) for cell, row in named if not has_link(cell, row, str(row))] == []


def _text(cell: str) -> str:
    """The text of a cell without its tags, and without the word before a name."""
    return re.sub("<[^>]*>", "", cell).strip().removeprefix("user ")


def test_the_targets_of_aliases_are_links_to_models(console, user):
    [cell, *_] = cells(console.get("/admin/rules/alias/").text, "target_names")
    assert has_link(cell, Model.objects.get(name="model-0"), "p0/model-0")


def test_the_cache_links_to_model_provider_and_user(console, user):
    provider = Provider.objects.get(name="p0")
    names = {"provider_id": provider.pk, "provider_name": "p0", "user_id": user.pk, "username": "owner"}
    CacheEntry.objects.create(request_hash="linked", model="fast", served_model="model-0", **names)
    html = console.get("/admin/telemetry/cacheentry/?user=owner").text
    assert has_link(html, provider, "p0")
    assert has_link(html, user, "owner")
    assert f'href="{reverse("admin:model-by-name")}?model=model-0&amp;provider={provider.pk}"' in html


def test_the_audit_links_to_the_actor_and_the_resource(console, user):
    rule = Rule.objects.get(name="rule 0")
    record(Actor(Caller(user, None)), "update", "rules", rule.pk)
    html = console.get("/admin/telemetry/auditentry/?actor=owner").text
    assert has_link(html, user, "owner")
    assert has_link(html, rule, "rules")


def test_the_pages_of_users_and_providers_link_to_groups_models_and_credentials(console, user):
    group, provider = Group.objects.get(name="group 0"), Provider.objects.get(name="p0")
    assert has_link(console.get(address(user)).text, group, "group 0")
    html = console.get(address(provider)).text
    assert has_link(html, provider.models.get(name="model-0"), "model-0")
    assert has_link(html, provider.credentials.get(name="account 0"), "account 0")


def test_the_tail_links_to_user_and_model(console, user):
    entry = LogEntry.objects.get(correlation_id="counted-0")
    html = console.get("/admin/telemetry/logentry/tail/").text
    assert has_link(html, user, "owner")
    assert f'href="{reverse("admin:model-by-name")}?model=model-0&amp;provider={entry.provider_id}"' in html


def test_access_requests_link_to_who_asks(console, user):
    asking = AccessRequest.objects.first().user
    assert has_link(console.get("/admin/access-requests/").text, asking, asking.username)
