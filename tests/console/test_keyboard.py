"""Everything without a mouse: signing in, finding a page, making a key and copying it, saying yes and no."""

from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from keys.models import ApiKey
from tests.console.conftest import PASSWORD, USERNAME, stand_still
from tests.support.thoroughness import first_of

# What has the focus, and whether one can see that.
FOCUSED = """() => {
  document.getAnimations().forEach(animation => animation.finish());
  const at = document.activeElement, box = at.getBoundingClientRect();
  const {outlineStyle, outlineWidth} = getComputedStyle(at);
  return {
    tag: at.tagName, id: at.id, name: at.getAttribute("name") ?? "",
    text: at.textContent.trim().replace(/\\s+/g, " ").slice(0, 60),
    href: at.getAttribute("href") ?? "", copies: at.dataset.copy ?? "", inside: at !== document.body,
    visible: outlineStyle !== "none" && parseFloat(outlineWidth) >= 2 && box.width > 0 && box.height > 0,
  };
}"""
MOST_STEPS = 400


def steps(page, key: str = "Tab") -> Iterator[dict]:
    """What has the focus after each press of a key."""
    for _ in range(MOST_STEPS):
        page.keyboard.press(key)
        yield page.evaluate(FOCUSED)


def walk_to(page, holds: Callable[[dict], bool]) -> dict:
    """Press Tab until something has the focus."""
    observations = []
    for focused in steps(page):
        if holds(focused):
            assert focused["visible"], f"one does not see that {focused} has the focus"
            return focused
        observations.append(focused["text"][:20] or focused["name"] or focused["tag"])
    raise AssertionError(f"it is not reached; on the way are {observations}")


def press(page, key: str = "Enter") -> None:
    with page.expect_navigation():
        page.keyboard.press(key)
    stand_still(page)


def test_from_the_sign_in_to_a_new_key_that_is_copied(visitor, world):
    window, name = visitor(), world.name("typed")
    page = window.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=window.url)
    window.open("")
    walk_to(page, lambda at: at["name"] == "username")
    page.keyboard.type(USERNAME)
    walk_to(page, lambda at: at["name"] == "password")
    page.keyboard.type(PASSWORD)
    press(page)
    walk_to(page, lambda at: at["href"] == "/admin/keys/apikey/")
    press(page)
    walk_to(page, lambda at: at["href"].startswith("/admin/keys/apikey/add/"))
    press(page)
    walk_to(page, lambda at: at["name"] == "name")
    page.keyboard.type(name)
    page.keyboard.press("Tab")  # the box of the owner, which opens as one types into it
    page.keyboard.press("Enter")
    page.keyboard.type(USERNAME)
    page.locator(".select2-results__option--highlighted", has_text=USERNAME).wait_for()
    page.keyboard.press("Enter")
    walk_to(page, lambda at: at["name"] == "_save")
    press(page)
    shown = page.inner_text("#key")
    assert shown.startswith(f"svc_{ApiKey.objects.get(name=name).public_id}_")
    walk_to(page, lambda at: at["copies"] == "key")
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('[data-copy=key]').textContent === 'Copied'")
    assert page.evaluate("navigator.clipboard.readText()") == shown
    assert window.problems == []


def test_a_question_is_answered_with_yes_or_no(console, world):
    key, window = world.new_key().key, console()
    page = window.page
    for answer, locked in (("Cancel", False), ("Lock", True)):
        window.open(f"keys/apikey/{key.pk}/change/")
        walk_to(page, lambda at: at["href"].endswith(f"/keys/apikey/{key.pk}/lock/"))
        press(page)
        walk_to(page, lambda at, answer=answer: at["text"] == answer and "/lock/" not in at["href"])
        press(page)
        key.refresh_from_db()
        assert bool(key.locked_time) is locked


def test_a_period_is_drawn_in_the_histogram(console, world):
    world.provider()
    world.allow()
    world.entry(world.ask())
    window = console()
    window.open("telemetry/logentry/")
    page = window.page
    page.locator("[data-histogram] a[tabindex='0']").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("Shift+ArrowLeft")
    bars = page.locator("[data-histogram] a")
    start, end = (
        bars.nth(bars.count() - place).get_attribute(name) for place, name in ((4, "data-start"), (2, "data-end"))
    )
    page.keyboard.press("Enter")
    page.wait_for_url("**timestamp_from_0=**")
    query = parse_qs(urlsplit(page.url).query)
    moments = [f"{query[f'timestamp_{side}_0'][0]}T{query[f'timestamp_{side}_1'][0]}" for side in ("from", "to")]
    assert moments == [start, end]


@pytest.mark.parametrize(
    ("path", "look"),
    first_of(("playground/", "light"), ("", "dark"), ("statistics/", "light"), ("telemetry/logentry/", "phone")),
)
def test_the_focus_is_seen_wherever_it_goes_and_is_caught_nowhere(console, path, look):
    window = console(look)
    window.open(path)
    observations = []
    for focused in steps(window.page):
        if not focused["inside"]:  # it has come to the end, where the browser's own buttons begin
            break
        assert focused["visible"], f"one does not see that {focused} has the focus"
        observations.append(focused)
    assert 5 < len(observations) < MOST_STEPS


@pytest.mark.parametrize("look", ["dark", "phone"])
def test_menus_that_the_theme_opens_by_mouse_alone(console, look):
    window = console(look)
    page = window.page
    window.open("accounts/user/")
    walk_to(page, lambda at: at["text"].startswith("Filters"))
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.closest('#changelist-filter') !== null")
    assert window.check() == []
    page.keyboard.press("Escape")
    page.locator("#changelist-filter").wait_for(state="hidden")
    if look == "phone":
        window.open("accounts/user/")
        walk_to(page, lambda at: at["text"] == "dock_to_right")
        page.keyboard.press("Enter")
        page.wait_for_function("document.activeElement.closest('#nav-sidebar') !== null")
    walk_to(page, lambda at: at["text"].endswith("unfold_more"))
    page.keyboard.press(" ")
    page.wait_for_function("document.activeElement.closest('#logout-form') !== null")
    assert window.check() == []
    assert page.evaluate("document.activeElement.textContent").strip().startswith("Log out")
