"""Pages that only read are there without JavaScript, and the login works."""

import pytest

from tests.console.conftest import PASSWORD, USERNAME
from tests.support.thoroughness import first_of


@pytest.fixture
def window(visitor):
    opened = visitor(java_script_enabled=False)
    opened.sign_in()
    return opened


@pytest.fixture
def entry(world):
    world.provider().answers(text="Lisbon")
    world.allow()
    return world.entry(world.ask())


@pytest.mark.parametrize(
    ("path", "text"),
    first_of(
        ("", "Top models"),
        ("telemetry/logentry/", "Duration"),
        ("telemetry/logentry/{entry}/change/", "Providers considered"),
        ("statistics/?by=model", "{model}"),
        ("keys/apikey/", "{key}"),
        ("keys/apikey/{key_id}/change/", "{key}"),
        ("rules/rule/?user={user}", "{user}"),
        ("explain/entry/{entry}/", "Rules, in the order of judging"),
        ("system/?q=idle", "GATEWAY_IDLE_TIMEOUT"),
        values=3,
    ),
)
def test_a_page_is_read_without_scripts(window, world, entry, path, text):
    values = {"entry": entry.pk, "model": world.model, "key": entry.key_name, "key_id": entry.key_id}
    values["user"] = entry.username
    window.open(path.format(**values))
    page = window.page
    main = page.locator("#main")
    assert main.is_visible()
    assert text.format(**values) in main.inner_text()
    assert main.bounding_box()["height"] > 200
    assert window.problems == []


def test_links_lead_on_without_scripts(window, entry):
    window.open("telemetry/logentry/")
    window.page.locator("#main").get_by_role("link", name=entry.username, exact=True).first.click()
    assert window.page.url.endswith(f"/admin/accounts/user/{entry.user_id}/change/")
    assert window.page.locator("#main").is_visible()


@pytest.mark.parametrize("path", first_of("telemetry/logentry/", "keys/apikey/"))
def test_a_list_is_filtered_without_scripts(window, world, entry, path):
    window.open(path)
    page = window.page
    assert page.locator("#changelist-filter").is_visible()
    field = page.locator("#changelist-filter input[name=user], #changelist-filter input[name=owner]").first
    field.fill("nobody-has-this-name")
    field.press("Enter")
    assert "nobody-has-this-name" in page.url
    assert page.locator("#result_list tbody tr").count() == 0


def test_the_users_own_pages_are_read_without_scripts(window, world, entry):
    page = window.page
    world.allow(everyone="user", regex=world.model)
    world.settle()
    shown = {"": "API key", "usage/": "By model"}
    shown |= {"models/": "Send a request", "keys/": "New API key"}
    page.goto(f"{window.url}/me/login/")
    for path, text in shown.items():
        page.goto(f"{window.url}/me/{path}")
        if page.locator("[name=password]").count():
            page.fill("[name=username]", USERNAME)
            page.fill("[name=password]", PASSWORD)
            page.click("button[type=submit]")
            page.goto(f"{window.url}/me/{path}")
        assert text in page.locator("main").inner_text(), path
