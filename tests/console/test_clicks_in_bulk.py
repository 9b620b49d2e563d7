"""Many keys at once, and the order of rules, within so many clicks from the first page."""

import pytest

from keys.models import ApiKey
from rules.models import Rule
from rules.services import create_rule, delete_rule
from tests.console.conftest import stand_still
from tests.support.thoroughness import first_of


@pytest.fixture
def deny_rules(world):
    """Three rules beside each other, whose names begin alike."""
    prefix = world.name("ordered")
    rules = [
        create_rule(name=f"{prefix}-{number}", effect="deny", user_id=world.user.pk, regex="none")
        for number in range(3)
    ]
    yield rules
    for rule in rules:
        delete_rule(rule)


@pytest.mark.parametrize(
    ("action", "has_effect"),
    first_of(
        ("Extend", lambda key: key.expiry.year == 2099),
        ("Lock", lambda key: key.locked_time is not None),
        ("Expire", lambda key: key.is_expired()),
    ),
)
def test_many_keys_are_extended_locked_or_expired_with_four_clicks(hand, world, action, has_effect):
    for _ in range(3):
        world.new_key()
    page = hand.page
    hand.go("keys/apikey/")
    page.fill("#searchbar", world.user.username)
    hand.press("#searchbar")
    hand.click("#action-toggle")
    page.select_option("select[name=action]", label=f"{action} selected API keys")
    hand.click("button[name=index]:visible")
    assert hand.window.check() == []
    if action == "Extend":
        page.fill("[name=last_day]", "2099-12-31")
    hand.click("#main [type=submit]")
    assert hand.clicks <= 4
    assert "3 of 3 API keys changed" in page.inner_text("body")
    assert all(map(has_effect, ApiKey.objects.filter(owner=world.user)))


def test_a_rule_is_dragged_with_two_clicks_and_moved_by_keys(hand, deny_rules):
    names, page = [rule.name for rule in deny_rules], hand.page
    hand.go("rules/rule/")
    page.fill("#searchbar", names[0].removesuffix("-0"))
    hand.press("#searchbar")

    def order() -> list[str]:
        return [name for name in page.locator("#result_list th.field-name").all_inner_texts() if name in names]

    assert order() == names
    assert hand.window.check() == []
    hand.drag(f"[data-move='{deny_rules[2].pk}']", f"#result_list tbody:has-text('{names[1]}')")
    assert order() == [names[0], names[2], names[1]]
    assert hand.clicks <= 2
    hand.press(f"[aria-label='Move {names[0]} down']")
    assert order() == [names[2], names[0], names[1]]


def test_a_rule_that_swallows_the_new_one_is_opened_from_the_warning_with_three_clicks(hand, world):
    world.provider()
    wide = world.allow(name=world.name("all"), everyone="user", position=1)
    count, page = Rule.objects.count(), hand.page
    hand.go("rules/rule/")
    hand.click("a[href*='/rules/rule/add/']")
    page.fill("#id_name", world.name("narrow"))
    page.select_option("#id_audience", "everyone")
    page.fill("#id_regex", world.model)
    page.locator("[data-preview] a", has_text=f"Open {wide.name}").wait_for()
    hand.click(f"[data-preview] a:has-text('Open {wide.name}')")
    stand_still(page)
    assert page.url.endswith(f"/rules/rule/{wide.pk}/change/")
    assert Rule.objects.count() == count
    assert hand.clicks <= 3


def test_the_rule_that_makes_another_useless_is_opened_with_three_clicks(hand, world):
    world.provider()
    first, second = world.allow(name=world.name("all"), position=1), world.allow(regex=world.model, position=2)
    hand.search(world.user.username, "User")
    hand.click("#main [aria-label='Related pages'] a:has-text('Rules')")
    hand.click(f"#result_list tr:has-text('{second.name}') a:has-text('Open {first.name}')")
    assert hand.page.url.endswith(f"/rules/rule/{first.pk}/change/")
    assert hand.clicks <= 3
