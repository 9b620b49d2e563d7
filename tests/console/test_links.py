"""What a page names is a link to it, and the period of a page goes along with its links."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from django.utils import timezone

from licensing.services import set_limit
from tests.console.conftest import stand_still


@pytest.fixture
def entry(world):
    """An entry of a request that was served."""
    world.provider().answers(text="Lisbon")
    world.allow()
    return world.entry(world.ask())


def _follow(window, name: str) -> str:
    """Click the link of this name in the page's body; the path that it leads to."""
    window.page.locator("#main").get_by_role("link", name=name, exact=True).first.click()
    stand_still(window.page)
    return urlsplit(window.page.url).path


def _query(window) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(window.page.url).query).items()}


def test_the_period_of_statistics_is_that_of_the_users_log_and_usage(console, entry):
    window, today = console(), f"{timezone.now():%Y-%m-%d}"
    window.open(f"statistics/?by=user&start={today}&end={today}")
    assert _follow(window, entry.username) == f"/admin/accounts/user/{entry.user_id}/change/"
    page = window.page.url
    for tab, names in {"Log": ("timestamp_from_0", "timestamp_to_0"), "Usage": ("start", "end")}.items():
        window.page.goto(page)
        window.page.locator("[aria-label='Related pages'] a", has_text=re.compile(rf"^\s*{tab}\b")).click()
        stand_still(window.page)
        assert [_query(window)[name] for name in names] == [today, today], tab
        assert entry.username in window.page.inner_text("#main") or tab == "Usage"
    assert window.problems == []


def test_each_name_in_the_log_leads_to_what_it_names(console, world, entry):
    window, today = console(), f"{timezone.now():%Y-%m-%d}"
    period = f"timestamp_from_0={today}&timestamp_from_1=00:00:00"
    model = world.row(world.scripted[0]).models.get(name=world.model)
    pages = {
        entry.key_name: f"keys/apikey/{entry.key_id}",
        entry.username: f"accounts/user/{entry.user_id}",
        world.model: f"providers/model/{model.pk}",
        entry.provider_name: f"providers/provider/{entry.provider_id}",
    }
    for start in (f"telemetry/logentry/?request={entry.correlation_id}&{period}", _entry_page(entry, period)):
        for name, page in pages.items():
            window.open(start)
            assert _follow(window, name) == f"/admin/{page}/change/", (start, name)
            assert _query(window) == {"timestamp_from_0": today, "timestamp_from_1": "00:00:00"}, (start, name)
    assert window.problems == []


def _entry_page(entry, period: str) -> str:
    """The page of the entry, as the list of a period opens it."""
    address = period.replace("=", "%3D").replace("&", "%26").replace(":", "%3A")
    return f"telemetry/logentry/{entry.pk}/change/?_changelist_filters={address}"


def test_a_429_leads_to_its_limit(console, world, entry):
    limit = set_limit(user=world.user, measure="requests", window="day", amount=1)
    world.settle()
    refusal = world.entry(world.ask("once more"))
    window = console()
    window.open(_entry_page(refusal, ""))
    assert _follow(window, refusal.exception) == f"/admin/licensing/limit/{limit.pk}/change/"
    assert window.check() == []


def test_a_429_of_a_default_limit_leads_to_the_settings_and_one_of_the_licence_to_its_page(console, entry):
    window = console()
    for name, page in {
        "tokens:user:1:minute": "system/",
        "requests:key:1:minute": "system/",
        "uses": "licence/",
        "a:key:x:b": "system/",
    }.items():
        window.open(f"licensing/limit/named/?name={name}")
        assert urlsplit(window.page.url).path == f"/admin/{page}"


def test_a_403_leads_to_the_rules_that_were_considered(console, world, entry):
    denying = world.allow(effect="deny")
    world.settle()
    refusal = world.entry(world.ask("once more"))
    assert refusal.status == 403
    window = console()
    window.open(_entry_page(refusal, ""))
    assert _follow(window, refusal.exception) == f"/admin/explain/entry/{refusal.pk}/"
    rules = window.page.locator("#rules")
    assert rules.is_visible()
    assert denying.name in rules.inner_text()


def test_a_model_that_is_gone_leads_to_the_list(console, entry):
    window = console()
    window.open("providers/model/named/?model=no-such-model&provider=9")
    assert urlsplit(window.page.url).path == "/admin/providers/model/"
    assert _query(window) == {"q": "no-such-model"}


def test_work_without_a_price_says_so_and_leads_to_the_form(console, entry):
    window = console()
    for start in (_entry_page(entry, ""), f"telemetry/logentry/?request={entry.correlation_id}"):
        window.open(start)
        assert _follow(window, "no price") == "/admin/providers/modelprice/add/", start
    assert window.problems == []
