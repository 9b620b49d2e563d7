"""The pages for ordinary users in the browser: whole in each look, and from the login to an answer in a few clicks."""

import re
import shlex
from datetime import timedelta

import pytest
import requests
from django.utils import timezone

from accounts.models import Session
from licensing.services import set_limit
from telemetry.models import LogEntry
from tests.console.conftest import PASSWORD, stand_still
from tests.support.console.hand import Hand
from tests.support.console.scale import Scale
from tests.support.management import PASSWORD as USER_PASSWORD

PAGES = ("", "keys/", "keys/new/", "models/", "usage/", "requests/", "account/", "access/", "access/new/model/")


def enter(window, username: str) -> None:
    """Log in at the user's own pages."""
    page = window.page
    window.site = "me"
    window.open("")
    page.fill("input[name=username]", username)
    page.fill("input[name=password]", USER_PASSWORD)
    page.click("button[type=submit]")
    stand_still(page)
    assert page.url == f"{window.url}/me/"


@pytest.fixture
def served(world):
    """A world whose user may use one model with a price, and has used it."""
    world.provider()
    world.allow()
    world.price(2, 8)
    response = world.ask("What is on the user's page?")
    assert response.status_code == 200
    world.entry(response)
    return world


@pytest.mark.timeout(300)  # many pages, each in three looks
def test_every_page_is_whole(visitor, served):
    window = visitor()
    window.page.goto(f"{window.url}/me/login/")
    assert window.check_looks() == {}
    enter(window, served.user.username)
    scale = Scale(window)
    key, entry = served.issued.key, LogEntry.objects.get(entry_type="WorkRequest", user_id=served.user.pk)
    rows = (f"keys/{key.pk}/rotate/", f"keys/{key.pk}/delete/", f"requests/{entry.pk}/")
    for path in (*PAGES, *rows):
        scale.open(path)
        assert window.check_looks() == {}, path
    assert scale.problems() == {}
    assert "What is on the user's page?" in window.page.inner_text("#main")


@pytest.mark.parametrize("path", ["models/", "usage/", "usage/?measure=cost", "requests/"])
def test_no_table_is_wider_than_a_phone(visitor, served, path):
    window = visitor()
    enter(window, served.user.username)
    window.page.set_viewport_size({"width": 390, "height": 844})
    window.open(path)
    wide = "regions => regions.filter(region => region.scrollWidth > region.clientWidth).length"
    assert window.page.eval_on_selector_all("[role=region]", "regions => regions.length") > 0
    assert window.page.eval_on_selector_all("[role=region]", wide) == 0


def test_the_keys_sessions_and_password_of_a_user_take_three_clicks_each(visitor, served):
    window = visitor()
    page = window.page
    enter(window, served.user.username)
    hand = Hand(window)
    hand.click("nav >> text=API keys")
    hand.click("text=New API key")
    page.fill("input[name=name]", "laptop")
    hand.click("button:has-text('Create')")
    assert hand.clicks == 3
    assert window.check() == []
    key = page.inner_text("#key")
    assert key in page.inner_text("pre >> nth=0")
    body = {"model": served.model, "messages": [{"role": "user", "content": "Hello!"}]}
    served.soon(
        lambda: requests.post(
            f"{window.url}/v1/chat/completions", json=body, headers={"Authorization": f"Bearer {key}"}, timeout=30
        ),
        200,
    )
    assert key_is_rotated_and_deleted(hand) != key
    other_session_is_ended(hand, served.user)
    password_is_changed(hand)


def key_is_rotated_and_deleted(hand) -> str:
    """The new secret of the key `laptop`; each of both takes three clicks."""
    page, hand.clicks = hand.page, 0
    hand.click("nav >> text=API keys")
    hand.click("[aria-label='Rotate laptop']")
    page.select_option("[name=hours]", label="24 hours")
    hand.click("button:has-text('Rotate')")
    assert hand.clicks <= 3
    key, hand.clicks = page.inner_text("#key"), 0
    hand.click("nav >> text=API keys")
    hand.click("[aria-label='Delete laptop']")
    hand.click("button:has-text('Delete')")
    assert hand.clicks <= 3
    assert "laptop" not in page.inner_text("#main")
    return key


def other_session_is_ended(hand, user) -> None:
    """Another device of theirs is logged out with two clicks."""
    other = Session.objects.create(user=user, device="phone", expires_at=timezone.now() + timedelta(days=1))
    hand.clicks = 0
    hand.click("nav >> text=Account")
    hand.click("[aria-label^='End the session on phone']")
    assert hand.clicks <= 2
    assert "phone" not in hand.page.inner_text("#main")
    assert not Session.objects.live().filter(pk=other.pk).exists()


def password_is_changed(hand) -> None:
    """It takes two clicks, and they stay logged in."""
    hand.clicks = 0
    hand.click("nav >> text=Account")
    hand.page.fill("[name=current]", USER_PASSWORD)
    hand.page.fill("[name=new]", "another long pass phrase")
    hand.click("button:has-text('Change password')")
    assert hand.clicks <= 2
    assert "Your password was changed" in hand.page.inner_text("[role=status]")
    assert hand.window.check() == []


def test_on_a_phone_requests_and_keys_are_in_sight_to_their_end(visitor, served):
    window = visitor("phone")
    enter(window, served.user.username)
    for path in ("requests/", "keys/"):
        window.open(path)
        table = window.page.locator("#main [role=region]")
        assert table.evaluate("table => table.scrollWidth <= table.clientWidth"), path
        assert window.check() == [], path


def test_usage_and_the_own_log_take_a_click_and_an_entry_of_it_one_more(visitor, served):
    window = visitor()
    enter(window, served.user.username)
    hand, entry = Hand(window), LogEntry.objects.get(entry_type="WorkRequest", user_id=served.user.pk)
    hand.click("nav >> text=Usage")
    assert served.model in hand.page.inner_text("#main table >> nth=0")
    assert hand.clicks <= 1
    hand.clicks = 0
    hand.click("nav >> text=Requests")
    assert served.model in hand.page.inner_text("#main tbody")
    assert hand.clicks <= 1
    hand.click(f"#main a[href$='/requests/{entry.pk}/']")
    assert "What is on the user's page?" in hand.page.inner_text("#main")
    assert hand.clicks <= 2


def test_models_have_their_prices_and_an_example_that_names_one_after_one_click(visitor, served):
    window = visitor()
    enter(window, served.user.username)
    hand = Hand(window)
    hand.click("nav >> text=Models")
    assert hand.clicks <= 1
    row = window.page.locator("tbody tr", has_text=served.model)
    assert row.count() == 1
    assert re.findall(r"\$[\d.]+", row.inner_text()) == ["$2", "$8"]
    first = window.page.locator("tbody th").first.inner_text()
    for language in ("curl", "Python with OpenAI's client", "JavaScript"):
        snippet = window.page.get_by_label(re.compile(rf"Example (with|in) {language}"), exact=True).inner_text()
        text = " ".join(shlex.split(snippet)) if language == "curl" else snippet
        assert f'"{first}"' in text, language
        assert "KEY" in snippet, language


def test_the_first_page_shows_limits_as_bars_without_a_click(visitor, served):
    set_limit(user=served.user, measure="requests", window="day", amount=4)
    served.settle()
    window = visitor()
    enter(window, served.user.username)
    limit = window.page.locator("#main div", has_text="requests per day").last
    assert "1 of 4" in limit.inner_text()
    assert limit.locator("svg").is_visible()
    assert window.check() == []


def test_with_the_keyboard_alone_a_user_gets_to_their_keys(visitor, served):
    window = visitor()
    page = window.page
    enter(window, served.user.username)
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.innerText") == "API keys":
            break
    page.keyboard.press("Enter")
    page.wait_for_url(f"{window.url}/me/keys/")


def test_an_administrator_has_them_too_and_the_way_back(visitor, orm):
    window = visitor()
    window.sign_in(password=PASSWORD)
    window.page.goto(f"{window.url}/me/")
    window.page.click("text=Console")
    window.page.wait_for_url(f"{window.url}/admin/")
