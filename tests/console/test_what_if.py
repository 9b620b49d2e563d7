"""The console's page What if: a draft from JSON or from a form is tried, and its result links to the entries."""

import json
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from django.utils import timezone

from accounts.models import Group
from licensing.models import Limit
from rules.guardrails.services import create_guardrail
from rules.models import Rule, WhatIf
from telemetry.models import LogEntry
from tests.console.conftest import USERNAME, stand_still
from tests.support.thoroughness import first_of


@pytest.fixture
def entries(world):
    """Recorded requests of the world's user, which its rule allows, at a provider with a price."""
    scripted, rule = world.provider(), world.allow()
    price, group = world.price(), world.new_group(world.user)
    row = world.row(scripted)
    values = {
        "entry_type": "WorkRequest", "outcome": "completed", "user_id": world.user.pk, "username": world.user.username,
        "model": world.model, "served_model": world.model, "provider_id": row.pk, "provider_name": row.name,
        "input_tokens": 10, "output_tokens": 5, "cost": "0.25", "currency": "USD", "cost_status": "known",
        "group_ids": [group.pk],
    }  # fmt: skip
    begin = timezone.now() - timedelta(hours=5)
    rows = [LogEntry(**values, timestamp=begin + timedelta(minutes=number)) for number in range(3)]
    yield rule, price, LogEntry.objects.bulk_create(rows)
    Rule.objects.filter(pk=rule.pk).delete()
    price.delete()
    group.delete()
    LogEntry.objects.filter(pk__in=[one.pk for one in rows]).delete()


def wait_for_result(window) -> str:
    """The text of the page once the comparison has ended."""
    window.page.wait_for_selector("[data-what-if]", timeout=20_000)
    window.page.wait_for_selector("[data-ended]", timeout=60_000)
    return window.page.inner_text("[data-what-if]")


def test_a_draft_in_json(console, world, entries):
    rule, _, recorded = entries
    window = console()
    window.open("what-if/")
    assert window.check_looks() == {}
    draft = {"delete": {"rules": [rule.pk]}}
    window.page.fill("[name=draft]", json.dumps(draft))
    window.page.get_by_role("button", name="Try it").click()
    wait_for_result(window)
    assert window.page.get_attribute("[data-what-if]", "data-what-if") == "done"
    row = window.page.get_by_role("region", name="By user").locator("tr", has_text=world.user.username)
    assert row.locator("td").nth(2).inner_text().split()[0] == "3"
    link = row.get_by_role("link", name=str(recorded[0].pk), exact=True)
    assert link.get_attribute("href") == f"/admin/telemetry/logentry/{recorded[0].pk}/change/"
    users_log = row.get_by_role("link", name="Log of ").get_attribute("href")
    assert parse_qs(urlsplit(users_log).query)["user"] == [world.user.username]
    assert row.locator("td").last.inner_text() == "0.0% → 0.0%"
    group = window.page.get_by_role("region", name="By group").get_by_role("row").nth(1)
    path = group.get_by_role("link", name="Log of ").get_attribute("href")
    assert parse_qs(urlsplit(path).query)["group"] == [Group.objects.get(members=world.user).name]
    assert "What cannot be known" in window.page.inner_text("#main")
    assert window.check_looks() == {}
    window.open(users_log.removeprefix("/admin/"))
    assert window.page.locator("#result_list tbody tr").count() == 3
    window.open(path.removeprefix("/admin/"))
    assert window.page.locator("#result_list tbody tr").count() == 3
    assert Rule.objects.filter(pk=rule.pk).exists()
    assert WhatIf.objects.latest("id").user_name == USERNAME


def test_the_form_of_a_rule(console, world, entries):
    rule, _, _ = entries
    window = console()
    window.open(f"rules/rule/{rule.pk}/change/")
    window.page.fill("[name=regex]", "another-.*")
    assert window.check_looks() == {}
    window.page.get_by_role("button", name="Try on the last 7 days").click()
    text = wait_for_result(window)
    assert "Newly denied" in text
    row = window.page.get_by_role("region", name="By model").locator("tr", has_text=world.model)
    assert row.locator("td").nth(2).inner_text().split()[0] == "3"
    rule.refresh_from_db()
    assert rule.regex == ""


def test_the_enter_key_saves_and_does_not_try(console, world, entries):
    rule, _, _ = entries
    window = console()
    window.open(f"rules/rule/{rule.pk}/change/")
    window.page.fill("[name=regex]", f"{world.model}|other")
    window.page.press("[name=regex]", "Enter")
    stand_still(window.page)
    rule.refresh_from_db()
    assert rule.regex == f"{world.model}|other"


@pytest.fixture
def forms(world, entries) -> Iterator[dict[str, tuple[str, str, str, dict[str, str]]]]:
    """Of each kind of row: path of its form, a field, another value of it, and a part of what it would change."""
    _, price, rows = entries
    refused = {"Refused by limits": "1", "Entries: refused by limits": str(rows[-1].pk)}
    limit = Limit.objects.create(user=world.user, measure="requests", window="day", amount=10)
    alias = world.alias(world.scripted[0])
    yield {
        "limit": (f"licensing/limit/{limit.pk}/change/", "amount", "2", refused),
        "price": (f"providers/modelprice/{price.pk}/change/", "input", "1000", {"Other cost": "3"}),
        "alias": (f"rules/alias/{alias.pk}/change/", "description", "other", {"Newly denied": "0"}),
    }
    limit.delete()


@pytest.mark.parametrize("kind", first_of("limit", "price", "alias"))
def test_the_forms_of_an_alias_a_limit_and_a_price(console, forms, kind):
    path, field, value, results = forms[kind]
    window = console()
    window.open(path)
    window.page.fill(f"[name={field}]", value)
    window.page.get_by_role("button", name="Try on the last 7 days").click()
    wait_for_result(window)
    facts = window.page.locator(".console-facts").first
    names, values = facts.locator("dt").all_inner_texts(), facts.locator("dd").all_inner_texts()
    assert results.items() <= dict(zip(names, values, strict=True)).items()
    assert window.check() == []


def test_the_form_of_a_guardrail(console, world, entries):
    rows = entries[2]
    kept = {"request": {"model": world.model, "messages": [{"role": "user", "content": "swordfish"}]}, "response": "Hi"}
    LogEntry.objects.filter(pk=rows[0].pk).update(payload=json.dumps(kept))
    audience = {"users": [world.user.pk]}
    guardrail = create_guardrail(
        name=world.name("fish"),
        action="monitor",
        type="words",
        parameters={"words": ["swordfish"]},
        applies_to=audience,
    )
    window = console()
    window.open(f"rules/guardrail/{guardrail.pk}/change/")
    window.page.select_option("[name=action]", "block")
    window.page.get_by_role("button", name="Try on the last 7 days").click()
    assert "Blocked by guardrails" in wait_for_result(window)
    row = window.page.get_by_role("region", name="By guardrail").locator("tr", has_text=guardrail.name)
    cells = [one.split()[0] for one in row.locator("td").all_inner_texts()[1:]]
    assert cells == ["0", "0", "1", "1", "0", "0", "2"]
    assert row.get_by_role("link", name=str(rows[0].pk), exact=True).count() == 2
    assert window.check_looks() == {}
    guardrail.refresh_from_db()
    assert guardrail.action == "monitor"
    guardrail.delete()


def test_what_is_wrong_is_said(console, world, entries):
    window = console()
    window.open("what-if/")
    for draft, words in (("{", "is not JSON"), ("5", "must be a JSON object"), ('{"rules": [{}]}', "Rules[0].name")):
        window.page.fill("[name=draft]", draft)
        window.page.get_by_role("button", name="Try it").click()
        stand_still(window.page)
        assert words in window.page.inner_text("#what_if_form, [role=alert]") + window.page.inner_text("#main")
        assert window.page.input_value("[name=draft]") == draft
    window.open("rules/rule/add/")
    window.page.get_by_role("button", name="Try on the last 7 days").click()
    stand_still(window.page)
    assert "Name: This field is required." in window.page.inner_text("body")


def test_one_that_runs_is_cancelled(console, administrator):
    now = timezone.now()
    busy, row = (
        WhatIf.objects.create(
            start=now - timedelta(days=1), end=now, draft={}, user_name="<b>", claim=claim,
            claimed_until=now + timedelta(minutes=5) if claim else None,
        )
        for claim in ("held", "")
    )  # fmt: skip
    window = console()
    window.open(f"what-if/{row.pk}/")
    assert "waiting" in window.page.inner_text("[data-what-if]")
    assert window.check() == []
    window.page.get_by_role("button", name="Cancel").click()
    window.page.wait_for_selector("[data-what-if=cancelled]")
    row.refresh_from_db()
    assert row.state == "cancelled"
    assert administrator.get(f"what-if/{row.pk + 1000}/").status_code == 404
    assert administrator.get(f"what-if/{row.pk}/cancel/").status_code == 405
    assert administrator.post("what-if/draft/user/").status_code == 404
    busy.delete()
