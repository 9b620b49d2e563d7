"""Short ways from the first page, each with its number of clicks and what stands at its end; typing is no click."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from keys.models import ApiKey
from licensing.services import set_limit
from tests.support.console.hand import Hand
from tests.support.thoroughness import some
from tests.support.world import World

TABS, PERIOD = ".console-tabs >> text={}", "#main [aria-label=Period] a:text-is('{}')"


@pytest.fixture
def requested(world) -> World:
    """A world with two requests without a price, a cost limit that does not count them, and a key that soon expires."""
    world.provider()
    world.allow()
    world.new_key(expiry=timezone.now() + timedelta(hours=1))
    set_limit(user=world.user, measure="cost", window="month", amount=5, unpriced="ignore")
    for prompt in ("first", "second"):
        world.entry(world.ask(prompt))
    return world


def open_entry(hand: Hand, world: World, place: int = 1) -> None:
    """The log entry of one of the world's requests, of which the second is the newest."""
    hand.go("telemetry/logentry/")
    entry = world.entry(world.answers[place][0])
    hand.click(f"#result_list a[href*='/{entry.pk}/']")


def open_statistics(hand: Hand, *selected: tuple[str, str], then: str = "") -> None:
    hand.go("statistics/")
    for field, value in selected:
        hand.page.select_option(f"#id_{field}", value)
    hand.click(then or "#main button:text-is('Show')")


def price_from_tile(hand: Hand, world: World) -> str:
    open_statistics(hand, then=".console-figures a:has-text('set a price')")
    return "#id_model"


def price_from_limit(hand: Hand, world: World) -> str:
    hand.go("licensing/limit/")
    hand.click(f"#result_list tr:has-text('{world.user.username}') a:has-text('without a price')")
    return f"#id_model[value='{world.model}']"


def state_in_the_list(hand: Hand, world: World) -> str:
    hand.go("keys/apikey/")
    return f"#result_list tr:has-text('{world.issued.key.name}'):has-text('Active')"


def state_of_one(hand: Hand, world: World) -> str:
    hand.search(world.issued.key.public_id, "API key")
    return "[data-state]:has-text('Active')"


def today_in_the_log(hand: Hand, world: World) -> str:
    hand.go("telemetry/logentry/")
    hand.click(PERIOD.format("Today"))
    return PERIOD.format("Today") + "[aria-current=page]"


def messages(hand: Hand, world: World) -> str:
    hand.go("telemetry/logentry/")
    hand.click(TABS.format("Messages"))
    return ".console-tabs a[aria-current=page]:text-is('Messages')"


def copy(hand: Hand, world: World) -> str:
    open_entry(hand, world)
    hand.click("[data-copy=request-text]")
    return "[data-copy=request-text]:text-matches('Copied|Selected')"


def neighbour(link: str, start: int, end: int) -> Callable[[Hand, World], str]:
    def way(hand: Hand, world: World) -> str:
        open_entry(hand, world, start)
        hand.click(f"#main a:text-is('{link}')")
        return f"#main dd:has-text('{world.answers[end][0]}')"

    return way


def explanation(hand: Hand, world: World) -> str:
    open_entry(hand, world)
    hand.click("#main .console-links a:has-text('Explain')")
    return "[data-sentences] li"


def comparison(hand: Hand, world: World) -> str:
    open_statistics(hand, then=PERIOD.format("7 days"))
    return "#main .console-figures:has-text('in the period before')"


def second_dimension(hand: Hand, world: World) -> str:
    open_statistics(hand, ("by", "user"), ("then", "model"))
    return f"#main tbody tr:has(th:has-text('{world.user.username}')):has(th:has-text('{world.model}'))"


def file(hand: Hand, world: World) -> str:
    with hand.page.expect_download() as download:
        open_statistics(hand, ("by", "model"), then="#main button:has-text('Export as CSV')")
    assert world.model in download.value.path().read_text()
    return "#main"


def remedy_of_alert(hand: Hand, world: World) -> str:
    key = ApiKey.objects.filter(owner=world.user).earliest("expiry")
    hand.click(f"[role=status] a:text-is('{key.name}')")
    return "[data-state]:has-text('Expir')"


def playground(hand: Hand, world: World) -> str:
    hand.search(world.model, "Model")
    hand.click("#main a:text-is('Try')")
    return f"#playground [name=model][value='{world.model}']"


def own_prices(hand: Hand, world: World) -> str:
    hand.go("providers/modelprice/")
    return ".console-tabs a[aria-current=page]:text-is('My models')"


def fetched_models(hand: Hand, world: World) -> str:
    name = world.name("fetched")
    world.scripted[0].answers(body={"data": [{"id": name}]})
    hand.search(world.row(world.scripted[0]).name, "Provider")
    hand.click("#main a[href$='/fetch-models/']")
    hand.click("#main [type=submit]")
    hand.click("text=Add the chosen models")
    assert world.row(world.scripted[0]).models.filter(name=name).exists()
    return "#main"


def another_expiry(hand: Hand, world: World) -> str:
    hand.search(world.issued.key.public_id, "API key")
    hand.page.fill("#id_expiry_0", "2099-12-31")
    hand.page.fill("#id_expiry_1", "12:00:00")
    hand.click("[name=_save]")
    assert ApiKey.objects.get(pk=world.issued.key.pk).expiry.year == 2099
    return "#main"


def another_permission(hand: Hand, world: World) -> str:
    key = world.new_key(permissions=["work", "models.create"]).key
    hand.search(key.public_id, "API key")
    hand.click("[name=permissions][value='models.create']")
    hand.click("[name=_save]")
    assert ApiKey.objects.get(pk=key.pk).permissions == ["work"]
    return "#main"


def health(hand: Hand, world: World) -> str:
    hand.go("system/")
    return "[data-parts]:has-text('Database'):has-text('Redis')"


def page_by_keyboard(hand: Hand, world: World) -> str:
    hand.page.keyboard.press("Control+k")
    hand.page.keyboard.insert_text("guardr")
    hand.page.wait_for_selector("dialog a")
    hand.page.keyboard.press("ArrowDown")
    hand.page.keyboard.press("Enter")
    hand.page.wait_for_url("**/rules/guardrail/")
    return "#main"


# Each way, and with how many clicks it ends.
WAYS = {
    price_from_tile: 2, price_from_limit: 2, state_in_the_list: 1, state_of_one: 1, today_in_the_log: 2, messages: 2,
    copy: 3, neighbour("Previous", 1, 0): 3, neighbour("Next", 0, 1): 3, explanation: 3, comparison: 2,
    second_dimension: 2, file: 2, remedy_of_alert: 1, playground: 2, own_prices: 1, fetched_models: 4,
    another_expiry: 2, another_permission: 3, health: 1, page_by_keyboard: 0,
}  # fmt: skip


TURN = 2  # which of the ways `make test` takes


@pytest.mark.timeout(300)  # twenty ways, each from the first page
def test_each_way_ends_within_its_number_of_clicks(hand, requested):
    hand.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for way, most in some([*WAYS.items()], TURN):
        hand.page.goto(f"{hand.window.url}/admin/")
        hand.clicks = 0
        hand.page.locator(way(hand, requested)).first.wait_for()
        assert hand.clicks <= most, way.__name__
