"""The names of other rows in the console's lists, and on its pages, are links to them."""

import re
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from urllib.parse import unquote

import pytest
from django.contrib import admin
from django.db import transaction
from django.db.models import Model as Row
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.timezone import now

from accounts.access_requests.models import AccessRequest
from accounts.models import Group, Role, User
from gateway_project.api.audit import Actor, Caller, record
from gateway_project.console.period import Period, period_of
from gateway_project.console.tables import ConsoleAdmin
from gateway_project.console.tabs import log_tab
from gateway_project.console.what_if.tables import GUARDRAIL_LABELS
from gateway_project.work.what_if.outcome import Outcome
from keys.models import ApiKey
from keys.services import issue_key
from providers.health.status import Health, HealthState, LastError, ModelHealth
from providers.models import Model, Provider
from providers.services import create_provider
from rules.access_tests.models import AccessTest
from rules.aliases.models import Alias
from rules.aliases.services import create_alias
from rules.guardrails.models import Guardrail
from rules.lint.findings import Finding, find_problems
from rules.models import Rule, RuleVersion, WhatIf
from rules.services import create_rule, delete_rule, update_rule
from telemetry.audit.models import AuditEntry
from telemetry.guardrails.models import GuardrailHour
from telemetry.log_page.links import pages_of
from telemetry.models import CacheEntry, LogEntry
from tests.support.management import new_user
from tests.support.many_rows import fill

pytestmark = [pytest.mark.django_db, pytest.mark.either_store, pytest.mark.long]


@pytest.fixture(scope="module")
def rows(django_db_setup, django_db_blocker) -> Iterator[None]:
    """Three rows or more in each table, for all tests of this file: what a test adds or changes is undone after it."""
    with django_db_blocker.unblock(), transaction.atomic():
        fill(new_user(username="owner"), 0, 3)
        yield
        transaction.set_rollback(True)


@pytest.fixture
def user(rows: None) -> User:
    """Owns the rows of all tables."""
    return User.objects.get(username="owner")


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


def _shown_problems(console) -> list[tuple[Finding, str]]:
    """The problems of the page, each with its link."""
    return console.get("/admin/rules/rule/lint/").context["findings"]


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


def model_link(model: str, provider: Provider) -> str:
    """The link to a model by its name."""
    return f'href="{reverse("admin:model-by-name")}?model={model}&amp;provider={provider.pk}"'


class TestPagesOfEntries:
    def test_an_audit_entry_links_to_actor_resource_and_the_other_entries_of_its_request(self, console, user):
        rule = Rule.objects.get(name="rule 0")
        record(Actor(Caller(user, None)), "update", "rules", rule.pk)
        entry = AuditEntry.objects.latest("pk")
        AuditEntry.objects.filter(pk=entry.pk).update(request_id="r&1")
        html = console.get(address(entry)).text
        assert has_link(html, user, "owner")
        assert has_link(html, rule, f"rules {rule.pk}")
        assert 'href="/admin/telemetry/auditentry/?request=r%261"' in html
        listed = console.get("/admin/telemetry/auditentry/?request=r%261").context["cl"].result_list
        assert [row.pk for row in listed] == [entry.pk]

    def test_an_audit_entry_of_nobody_and_of_no_row_has_no_such_links(self, console):
        record(Actor(), "purge", "cache", None)
        html = console.get(address(AuditEntry.objects.latest("pk"))).text
        assert "cache" in html
        assert "/accounts/user/None" not in html

    def test_a_cache_entry_links_to_models_provider_and_user(self, console, user):
        provider = Provider.objects.get(name="p0")
        names = {"provider_id": provider.pk, "provider_name": "p0", "user_id": user.pk, "username": "owner"}
        entry = CacheEntry.objects.create(request_hash="linked", model="fast", served_model="model-0", **names)
        html = console.get(address(entry)).text
        assert has_link(html, provider, "p0")
        assert has_link(html, user, "owner")
        assert model_link("model-0", provider) in html
        assert f'href="{reverse("admin:model-by-name")}?model=fast"' in html

    def test_both_sides_of_a_mirror_link_to_provider_and_model(self, console, user):
        provider = Provider.objects.get(name="p0")
        values = {"correlation_id": "r1", "user_id": user.pk, "alias": "fast", "model": "fast", "currency": "USD"}
        values |= {"served_model": "model-0", "provider_id": provider.pk, "provider_name": "p0", "timestamp": now()}
        kinds = ("WorkRequest", "Mirror")
        entry, _ = (LogEntry.objects.create(entry_type=kind, outcome="completed", **values) for kind in kinds)
        table = console.get(address(entry)).text.partition("data-sides")[2].partition("</table>")[0]
        assert len(re.findall(rf'href="{address(provider)}"[^>]*>p0</a>', table)) == 2
        assert table.count(model_link("model-0", provider)) == 2


class TestRules:
    def test_the_preview_links_to_models_providers_and_aliases(self, console, user):
        provider = Provider.objects.get(name="p0")
        issue_key(owner=user, name="linked", provider=provider)
        query = "name=new&enabled=on&audience=everyone&effect=allow&regex=(model|alias)-0"
        html = console.get(f"/admin/rules/rule/preview/?{query}").text
        assert model_link("model-0", provider) in html
        assert has_link(html, Alias.objects.get(name="alias-0"), "alias-0")
        offers, _, linked = html.partition("With a key that is linked")
        assert has_link(offers, provider, "p0")
        assert has_link(linked, provider, "p0")

    def test_each_problem_links_to_the_row_that_it_is_about(self, console, user):
        Group.objects.create(name="without rules")
        create_rule(name="idle", user_id=0, regex="nosuch")
        issue_key(owner=new_user(), name="without rules")
        create_provider(name="unused", url="https://unused.example", format_name="openai", models=["unseen"])
        create_alias(name="without targets")
        shown = _shown_problems(console)
        assert [finding for finding, _ in shown] == find_problems()
        rows = {"rule": Rule, "group": Group, "key": ApiKey, "model": Model, "alias": Alias}
        kinds = set()
        for finding, subject in shown:
            _, kind, number = re.sub("<[^>]*>", "", subject).split()
            kinds.add(kind)
            assert has_link(subject, rows[kind].objects.get(pk=number), f"Open {kind} {number}")
            assert int(number) == finding.fix.id
        assert kinds == rows.keys()
        assert all(subject in console.get("/admin/rules/rule/lint/").text for _, subject in shown)

    def test_versions_and_deleted_rules_link_to_who_wrote_them(self, console, user):
        rule = Rule.objects.get(name="rule 0")
        RuleVersion.objects.update(author_id=user.pk, author_name="owner")
        assert has_link(console.get(f"/admin/rules/rule/{rule.pk}/versions/").text, user, "owner")
        delete_rule(rule)
        RuleVersion.objects.update(author_id=user.pk, author_name="owner")
        assert has_link(console.get("/admin/rules/rule/deleted/").text, user, "owner")

    def test_who_has_no_row_is_a_name_without_a_link(self, console, user):
        rule = Rule.objects.get(name="rule 0")
        RuleVersion.objects.update(author_id=None, author_name="root")
        html = console.get(f"/admin/rules/rule/{rule.pk}/versions/").text
        assert "root" in html
        assert ">root</a>" not in html


class TestGuardrails:
    def test_the_usage_links_to_each_guardrail(self, console, user):
        guardrail = Guardrail.objects.get(name="guardrail 0")
        hour = now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
        names = {"guardrail_id": guardrail.pk, "guardrail_name": "guardrail 0", "direction": "request"}
        GuardrailHour.objects.create(hour=hour, searched=1, passed=1, duration_us=5, **names)
        assert has_link(console.get("/admin/guardrail-usage/").text, guardrail, "guardrail 0")

    def test_a_what_if_links_to_guardrails_that_exist(self, console, user):
        numbers = dict.fromkeys(GUARDRAIL_LABELS, 0) | {"examples": {}}
        rows = [numbers | {"guardrail": name} for name in ("guardrail 0", "of the draft")]
        result = Outcome().document() | {"byGuardrail": rows}
        times = {"start": now() - timedelta(days=1), "end": now()}
        what_if = WhatIf.objects.create(state="done", result=result, **times)
        html = console.get(f"/admin/what-if/{what_if.pk}/").text
        assert has_link(html, Guardrail.objects.get(name="guardrail 0"), "guardrail 0")
        assert ">of the draft</td>" in re.sub(r"\s+</td>", "</td>", html)


def test_the_last_error_of_a_provider_links_to_the_model(user):
    provider = Provider.objects.get(name="p0")
    error = LastError(now(), "model-0", "ProviderError", "down")
    health = Health(True, models=(ModelHealth("other", HealthState.FAILING, 6, 5, last_error=error),))
    html = render_to_string("console/provider_health.html", {"health": health, "original": provider})
    assert model_link("model-0", provider) in html


class TestNames:
    def test_a_what_if_links_to_who_started_it_and_to_users_and_groups(self, console, user):
        group = Group.objects.get(name="group 0")
        counts = {"costBefore": {}, "costAfter": {}, "cacheShareBefore": None, "cacheShareAfter": None, "examples": {}}
        counts |= dict.fromkeys(("newlyAllowed", "newlyDenied", "rerouted", "repriced"), 0)
        result = Outcome().document() | {
            "byUser": [counts | {"userId": user.pk, "userName": "owner"}],
            "byGroup": [counts | {"groupId": group.pk, "groupName": "group 0"}],
        }
        times = {"start": now() - timedelta(days=1), "end": now()}
        row = WhatIf.objects.create(state="done", result=result, user_id=user.pk, user_name="owner", **times)
        assert has_link(console.get("/admin/what-if/").text, user, "owner")
        html = console.get(f"/admin/what-if/{row.pk}/").text
        assert has_link(html, user, "owner")
        for named in (user, group):
            assert f'href="{address(named)}?timestamp_from_0=' in html

    def test_access_tests_link_to_the_model_and_the_key(self, console, user):
        provider = Provider.objects.get(name="p0")
        AccessTest.objects.create(
            name="linked", user=user, key_name="laptop", model="model-0", provider=provider, expected="denied"
        )
        html = console.get("/admin/rules/accesstest/?q=linked").text
        assert model_link("model-0", provider) in html
        assert 'href="/admin/keys/apikey/?owner=owner&amp;q=laptop"' in html
        create_rule(name="all", user_id=0)
        AccessTest.objects.create(name="fails", user=user, model="no-such", provider=provider, expected="allowed")
        assert model_link("no-such", provider) in console.get("/admin/rules/accesstest/run/").text

    def test_both_views_of_access_requests_link_to_what_is_asked_for(self, console, user):
        group, provider = Group.objects.get(name="group 0"), Provider.objects.get(name="p0")
        AccessRequest.objects.all().delete()
        AccessRequest.objects.create(user=user, kind="membership", group=group, reason="why")
        AccessRequest.objects.create(user=user, kind="model", model="model-0", provider=provider, reason="why")
        AccessRequest.objects.create(user=user, kind="model", model="fast", provider_id=10**6, reason="why")
        for path in ("access-requests/", "accounts/accessrequest/"):
            html = console.get(f"/admin/{path}").text
            assert has_link(html, group, "group 0")
            assert has_link(html, provider, "p0")
            assert model_link("model-0", provider) in html
            assert "1000000 (deleted)" in html

    def test_the_values_of_versions_of_a_rule_link_to_their_rows(self, console, user):
        rule, provider = Rule.objects.get(name="rule 0"), Provider.objects.get(name="p0")
        update_rule(rule, provider_id=None)
        update_rule(rule, provider_id=provider.pk)
        assert has_link(console.get(f"/admin/rules/rule/{rule.pk}/versions/").text, provider, "p0")


PERIOD = "timestamp_from_0=2026-11-01&timestamp_from_1=10:00:00"
SHOWN_PERIOD = "timestamp_from_0=2026-11-01&amp;timestamp_from_1=10%3A00%3A00"  # as links have it
WITH_TABS = [model for model, table in admin.site._registry.items() if type(table).tabs is not ConsoleAdmin.tabs]


class TestThePeriodIsHandedOn:
    @pytest.mark.parametrize("model", WITH_TABS, ids=lambda model: model.__name__)
    def test_each_list_whose_rows_have_tabs_takes_it_and_shows_all_rows(self, console, user, model):
        path = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        response = console.get(f"{path}?{PERIOD}")
        assert response.status_code == 200
        assert response.context["cl"].result_count == console.get(path).context["cl"].result_count

    def test_from_a_user_to_their_keys_to_the_log_of_one(self, console, user):
        page = console.get(f"{address(user)}?{PERIOD}")
        [keys] = [tab.address for tab in page.context["row_tabs"] if tab.title == "Keys"]
        [key, *_] = re.findall(r'href="(/admin/keys/apikey/[0-9]+/change/[^"]*)"', console.get(keys).text)
        log = log_tab(key_id=re.findall("[0-9]+", key)[0]).for_period(_period())
        assert log.address in [tab.address for tab in console.get(unescape(key)).context["row_tabs"]]

    @pytest.mark.parametrize("model", [User, Provider, Alias])
    def test_pages_of_rows_hand_it_to_all_rows_that_they_name(self, console, user, model):
        row = {User: user, Provider: Provider.objects.get(name="p0")}.get(model) or model.objects.get(name="alias-0")
        html = console.get(f"{address(row)}?{PERIOD}").text
        kinds = {User: ("accounts/group",), Alias: ("providers/provider", "providers/model")}
        for kind in kinds.get(model, ("providers/model",)):
            pages = re.findall(rf'href="(/admin/{kind}/(?:[0-9]+/change|named)/[^"]*)"', html)
            assert pages
            assert [page for page in pages if PERIOD not in _plain(page)] == []

    def test_the_health_of_a_provider_hands_it_to_models(self, provider_health):
        assert provider_health.count(SHOWN_PERIOD) == 2

    @pytest.mark.parametrize("path", ["explain/entry/{}/", "telemetry/logentry/tail/", "telemetry/auditentry/"])
    def test_explain_live_and_audit_hand_it_on(self, console, user, path):
        rule, entry = Rule.objects.get(name="rule 0"), LogEntry.objects.get(correlation_id="counted-0")
        for actor_row in (rule, user):
            record(Actor(Caller(user, None)), "update", RESOURCES[type(actor_row)], actor_row.pk)
        for moments in (LogEntry.objects.all(), AuditEntry.objects.all()):
            moments.update(timestamp=now())
        html = console.get(f"/admin/{path.format(entry.pk)}?{PERIOD}").text
        pages = re.findall(rf'href="({address(user)}[^"]*|/admin/providers/model/named/[^"]*)"', html)
        assert pages
        assert [page for page in pages if PERIOD not in _plain(page)] == []

    def test_an_entry_that_is_opened_from_live_knows_its_list(self, console, user):
        html = console.get("/admin/telemetry/logentry/tail/?user=owner").text
        assert re.search(r'/admin/telemetry/logentry/[0-9]+/change/\?_changelist_filters=user%3Downer"', html)

    def test_the_alias_the_issuer_and_the_guardrails_of_an_entry(self):
        entry = LogEntry(alias="fast", trusted_issuer="ci", guardrails=[{"name": "secrets"}])
        pages = pages_of(entry, _period())
        for fact in ("Alias", "Trusted issuer", "Guardrails"):
            assert PERIOD in unquote(pages[fact])


RESOURCES = {Rule: "rules", User: "users"}


def _period() -> Period:
    return period_of(dict(part.split("=") for part in PERIOD.split("&")))


def _plain(page: str) -> str:
    return unquote(unescape(page))


@pytest.fixture
def provider_health(user) -> str:
    """The part of a provider's page about its health, with an error of a model and a model."""
    error = LastError(now(), "model-0", "ProviderError", "down")
    health = Health(True, models=(ModelHealth("other", HealthState.FAILING, 6, 5, last_error=error),))
    query = {"period_query": PERIOD.replace(":", "%3A"), "original": Provider.objects.get(name="p0")}
    return render_to_string("console/provider_health.html", {"health": health} | query)
