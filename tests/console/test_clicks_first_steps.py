"""From an empty installation to its first answer along the checklist on the first page, which ticks itself."""

from collections.abc import Iterator

import pytest

from tests.console.conftest import USERNAME
from tests.support.provider import ScriptedProvider
from tests.support.running import RunningGateway, Store, fresh_store

STEPS = ["Add a provider", "Add models", "Create users", "Create a rule", "Issue a key", "Send the first request"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A database in which no request was ever answered."""
    with fresh_store(tmp_path_factory.mktemp("first-steps-store")) as store:
        yield store


@pytest.fixture(scope="module")
def gateway(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with RunningGateway(store, tmp_path_factory.mktemp("first-steps-gateway")) as running:
        yield running


@pytest.fixture
def scripted() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as provider:
        yield provider


def choose_owner(page) -> None:
    """The administrator, by keyboard."""
    page.focus("#id_owner + .select2-container [role=combobox]")
    page.keyboard.press("Enter")
    page.keyboard.insert_text(USERNAME)
    page.locator(".select2-results__option--highlighted", has_text=USERNAME).wait_for()
    page.keyboard.press("Enter")


@pytest.mark.timeout(300)
def test_the_checklist_leads_to_the_first_answer_with_three_clicks_a_step(hand, scripted):
    page = hand.page

    def open_steps() -> list[str]:
        """What is to be done, on the first page."""
        if not page.url.endswith("/admin/"):
            hand.click("#nav-sidebar a[href='/admin/']")
        return page.locator("[data-done=no] a").all_inner_texts()

    assert open_steps() == STEPS
    assert hand.window.check_looks() == {}
    hand.click("[data-done=no] a:text-is('Add a provider')")
    page.fill("#id_name", "first")
    page.select_option("#id_format", label="openai")
    page.fill("#id_url", scripted.url)
    page.fill("#id_secret", "sk-right")
    scripted.answers(body={"data": [{"id": "capital"}]})
    hand.click("text=Test and choose models")
    hand.click("text=Add the chosen models")
    assert open_steps() == STEPS[2:]
    hand.click("[data-done=no] a:text-is('Create users')")
    page.fill("#id_username", "ann")
    page.fill("#id_password", "a long pass phrase")
    hand.click("[name=_save]")
    assert open_steps() == STEPS[3:]
    hand.click("[data-done=no] a:text-is('Create a rule')")
    page.fill("#id_name", "everything")
    page.select_option("#id_audience", "everyone")
    hand.click("[name=_save]")
    assert open_steps() == STEPS[4:]
    hand.click("[data-done=no] a:text-is('Issue a key')")
    page.fill("#id_name", "laptop")
    choose_owner(page)
    hand.click("[name=_save]")
    key = page.inner_text("#key")
    assert open_steps() == STEPS[5:]
    hand.click("[data-done=no] a:text-is('Send the first request')")
    page.fill("[name=model]", "capital")
    page.select_option("[name=key]", "other")
    page.fill("[name=secret]", key)
    page.fill("[name=prompt]", "What is the capital of Portugal?")
    scripted.answers(text="Lisbon")
    hand.click("#playground [type=submit]")
    page.locator("[data-note]", has_text="complete after").wait_for()
    page.locator("[data-note] a", has_text="Log entry").wait_for()
    assert open_steps() == []
    assert "First steps" not in page.inner_text("#main")
    assert hand.clicks <= 3 * len(STEPS)
