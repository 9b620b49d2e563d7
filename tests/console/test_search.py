"""The search over every page: by the keyboard alone, of names, ids and whole keys, which no address shows."""

import pytest

from tests.console.conftest import stand_still
from tests.support.thoroughness import first_of


@pytest.mark.parametrize("look", first_of("dark", "light", "phone"))
def test_a_page_is_found_and_opened_by_the_keyboard_alone(console, look):
    window = console(look)
    window.open("")
    window.page.keyboard.press("Control+k")
    window.page.keyboard.type("guardr")
    window.page.wait_for_selector("dialog a")
    assert window.check() == []
    window.page.keyboard.press("ArrowDown")
    window.page.keyboard.press("Enter")
    window.page.wait_for_url("**/rules/guardrail/")


def test_a_long_text_in_the_address_is_answered_with_a_page(administrator):
    """A browser showed JSON."""
    for path in (f"find/?s={'x' * 5000}", f"telemetry/logentry/?q={'x' * 5000}"):
        answer = administrator.get(path)
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")


def test_escape_closes_it_and_it_opens_again(console):
    window = console()
    window.open("")
    for _ in range(2):
        window.page.keyboard.press("Control+k")
        assert window.page.locator("dialog.console-search").is_visible()
        window.page.keyboard.press("Escape")
        assert not window.page.locator("dialog.console-search").is_visible()


def test_a_leaked_key_is_found_and_no_address_has_it(console, world):
    issued = world.new_key()
    window = console()
    addresses = []
    window.page.on("request", lambda request: addresses.append(request.url))
    window.open("find/")
    window.page.fill("#main [name=text]", issued.text)
    window.page.click("#main button >> text=Search")
    stand_still(window.page)
    assert issued.text not in window.page.content()
    window.page.click(f"#main ul >> text={issued.key.public_id}")
    stand_still(window.page)
    assert issued.key.name in window.page.inner_text("h1")
    assert not any(issued.text in address for address in addresses)


def test_without_scripts_the_page_finds_users_and_requests(administrator, world):
    page = administrator.post("find/", text=world.user.username)
    assert f"User:</span> {world.user.username}" in page.text
    assert "No name contains this text." in administrator.post("find/", text="nothing-like-this").text
    assert administrator.post("find/", text="\x00" + "x" * 5000).status_code == 200
    assert administrator.post("find/", text="<img src=x>").text.count("<img src=x>") == 0
