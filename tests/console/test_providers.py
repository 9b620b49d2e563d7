"""A provider's page tells how it is: its circuit, its failures and what it served of late."""

import re
from html import unescape
from itertools import count

from providers.services import update_provider
from tests.console.conftest import LOOKS
from tests.support.provider_answers import Answer


def told(administrator, path: str) -> str:
    """What a page says, in one line."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", administrator.get(path).text)).split())


def test_an_open_circuit_stands_on_the_provider_in_the_list_and_on_the_first_page(administrator, console, world):
    world.allow()
    provider = world.provider(name=world.name("<b>failing"))
    row, prompts = world.row(provider), map(str, count())
    page = f"providers/provider/{row.pk}/change/"
    world.until(lambda: "Circuit closed: the provider gets requests" in told(administrator, page))
    assert "since the gateway started none" in told(administrator, page)
    provider.default = Answer(status=500)

    def shows(path: str, what: str) -> bool:
        world.ask(next(prompts))  # each failure prolongs its rest
        return what in told(administrator, path)

    world.until(lambda: shows(page, "Circuit open in 1 of 1 process"), seconds=30)
    world.until(lambda: shows(page, "ProviderError"), seconds=30)
    world.until(lambda: shows(page, "In the last hour "), seconds=30)
    world.until(lambda: shows(f"providers/provider/?q={row.name}", "resting"), seconds=30)
    world.until(lambda: shows("", f"The provider {row.name} fails. It gets no requests for now."), seconds=30)
    for look in LOOKS:
        window = console(look)
        window.open(page)
        assert window.check() == []


def test_a_rest_that_a_provider_asked_for_stands_there_with_its_end(administrator, world):
    world.allow()
    provider = world.provider()
    row = world.row(provider)
    provider.default = Answer(status=429, headers={"Retry-After": "600"})
    assert world.ask().status_code == 429
    page = f"providers/provider/{row.pk}/change/"
    world.until(lambda: "Circuit closed Pause until" in told(administrator, page), seconds=10)
    assert "resting" in told(administrator, f"providers/provider/?q={row.name}")


def test_one_that_is_not_enabled_is_not_asked(administrator, world):
    row = world.row(world.provider())
    update_provider(row, enabled=False)
    page = f"providers/provider/{row.pk}/change/"
    world.until(lambda: "unused: the provider is disabled" in told(administrator, page))
