"""The tabs of each object lead to lists and figures that are filtered by it, two clicks from the first page."""

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest

from licensing.services import set_limit
from tests.support.console.hand import Hand
from tests.support.thoroughness import first_of

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

NOT_COUNTED = ("Log",)
# What the search calls an object of each kind.
KINDS = {"user": "User", "key": "API key", "group": "Group", "provider": "Provider", "model": "Model"}


@pytest.fixture
def arranged(world) -> dict[str, tuple[str, str, dict[str, str]]]:
    """The name and the page of an object of each kind, and a text of what each of its lists shows."""
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
            name,
            f"accounts/user/{world.user.pk}/change/",
            {"Keys": issued.key.name, "Groups": group.name, "Rules": rule.name, "Limits": name, "Log": name},
        ),
        "key": (
            issued.key.name,
            f"keys/apikey/{issued.key.pk}/change/",
            {"Limits": issued.key.name, "Log": issued.key.name},
        ),
        "group": (
            group.name,
            f"accounts/group/{group.pk}/change/",
            {"Members": name, "Rules": group_rule.name, "Limits": group.name},
        ),
        "provider": (
            provider.name,
            f"providers/provider/{provider.pk}/change/",
            {"Models": world.model, "Limits": provider.name, "Log": world.model},
        ),
        "model": (
            world.model,
            f"providers/model/{model.pk}/change/",
            {"Prices": world.model, "Providers": provider.name, "Who may use it": rule.name, "Log": name},
        ),
    }


@pytest.mark.parametrize("kind", first_of(*KINDS))
def test_each_tab_leads_with_two_clicks_to_what_belongs_to_the_row(hand, arranged, kind):
    name, path, texts = arranged[kind]
    hand.search(name, KINDS[kind])
    assert urlsplit(hand.page.url).path == f"/admin/{path}"
    click, page = _clicker(hand), hand.page
    for title, text in texts.items():
        label = click(title)
        assert page.url.startswith(f"{hand.window.url}/admin/{LISTS.get(title, 'telemetry/logentry/')}"), title
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


def _clicker(hand: Hand) -> Callable[[str], str]:
    """Clicks the tab with a title on the page where the hand is, as its second click; returns what stands on it."""
    start = hand.page.url

    def click(title: str) -> str:
        if hand.page.url != start:
            hand.page.goto(start)
            hand.clicks = 1
        tab = f"#main [aria-label='Related pages'] a:text-matches('^\\\\s*{title}\\\\b')"
        label = " ".join(hand.page.locator(tab).first.inner_text().split())
        hand.click(tab)
        assert hand.clicks <= 2, title
        return label

    return click
