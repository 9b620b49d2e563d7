"""The tabs of each object lead to lists and figures that are filtered by it."""

import re
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest

from licensing.services import set_limit
from tests.console.conftest import stand_still

LISTS = {
    "Keys": "keys/apikey/",
    "Groups": "accounts/group/",
    "Members": "accounts/user/",
    "Rules": "rules/rule/",
    "Limits": "licensing/limit/",
    "Models": "providers/model/",
    "Prices": "providers/modelprice/",
    "Providers": "providers/model/",
    "Who may use it": "rules/rule/",
}

NOT_COUNTED = ("Log", "Who may use it")


@pytest.fixture
def arranged(world) -> dict[str, tuple[str, dict[str, str]]]:
    """The page of an object of each kind, and a text of what each of its lists shows."""
    scripted = world.provider()
    scripted.answers(text="Lisbon")
    provider, rule, group = world.row(scripted), world.allow(), world.new_group(world.user)
    group_rule = world.allow(group=group)
    issued = world.new_key()
    for subject in ({"user": world.user}, {"key": issued.key}, {"group": group}, {"provider": provider}):
        set_limit(measure="requests", window="day", amount=1000, **subject)
    world.price()
    world.entry(world.ask(key=issued.text))
    name, model = world.user.username, provider.models.get(name=world.model)
    return {
        "user": (
            f"accounts/user/{world.user.pk}/change/",
            {"Keys": issued.key.name, "Groups": group.name, "Rules": rule.name, "Limits": name, "Log": name},
        ),
        "key": (f"keys/apikey/{issued.key.pk}/change/", {"Limits": issued.key.name, "Log": issued.key.name}),
        "group": (
            f"accounts/group/{group.pk}/change/",
            {"Members": name, "Rules": group_rule.name, "Limits": group.name},
        ),
        "provider": (
            f"providers/provider/{provider.pk}/change/",
            {"Models": world.model, "Limits": provider.name, "Log": world.model},
        ),
        "model": (
            f"providers/model/{model.pk}/change/",
            {"Prices": world.model, "Providers": provider.name, "Who may use it": rule.name, "Log": name},
        ),
    }


@pytest.mark.parametrize("kind", ["user", "key", "group", "provider", "model"])
def test_each_tab_leads_to_what_belongs_to_the_row(console, arranged, kind):
    path, texts = arranged[kind]
    window = console()
    page = window.page
    click = _clicker(window, path)
    for title, text in texts.items():
        label = click(title)
        assert page.url.startswith(f"{window.url}/admin/{LISTS.get(title, 'telemetry/logentry/')}"), title
        if title == "Who may use it":  # other tests have left rules for everyone
            page.goto(f"{page.url}&all=")
        rows = page.locator("#result_list tbody").all_inner_texts()
        assert rows, title
        assert any(text in row for row in rows), (title, text)
        assert parse_qs(urlsplit(page.url).query), title
        assert label == (title if title in NOT_COUNTED else f"{title} ({len(rows)})")
    click("Usage")
    assert parse_qs(urlsplit(page.url).query).keys() & {kind}
    assert "Requests" in page.inner_text("#main")
    if kind == "provider":
        click("Health")
        assert urlsplit(page.url).fragment == "health"
        assert page.locator("#health").is_visible()
    assert window.problems == []


def _clicker(window, path: str) -> Callable[[str], str]:
    """Clicks the tab with a title on the page at a path, and returns what stands on it."""

    def click(title: str) -> str:
        window.open(path)
        tab = window.page.locator(
            "#main [aria-label='What belongs to it'] a", has_text=re.compile(rf"^\s*{title}\b")
        ).first
        label = " ".join(tab.inner_text().split())
        tab.click()
        stand_still(window.page)
        return label

    return click
