"""A provider's page tells how it is: its circuit, its failures and what it served of late."""

import re
from html import unescape
from itertools import count

from providers.services import update_provider
from tests.console.conftest import LOOKS
from tests.support.provider_answers import Answer


def page_text(administrator, path: str) -> str:
    """What a page says, in one line."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", administrator.get(path).text)).split())


def test_an_open_circuit_stands_on_the_provider_in_the_list_and_on_the_first_page(administrator, console, world):
    world.allow()
    provider = world.provider(name=world.name("<b>failing"))
    row, prompts = world.row(provider), map(str, count())
    page = f"providers/provider/{row.pk}/change/"
    world.until(lambda: "Circuit closed: the provider gets requests" in page_text(administrator, page))
    assert "Since the gateway started 0 attempts, 0 failed" in page_text(administrator, page)
    assert "State Unknown not asked in the last 10 minutes" in page_text(administrator, page)
    provider.default = Answer(status=500)

    def shows(path: str, what: str) -> bool:
        world.ask(next(prompts))  # each failure prolongs its rest
        return what in page_text(administrator, path)

    world.until(lambda: shows(page, "Circuit open in 1 of 1 process"), seconds=30)
    world.until(lambda: shows(page, "ProviderError"), seconds=30)
    world.until(lambda: shows(page, "In the last hour "), seconds=30)
    world.until(lambda: shows(f"providers/provider/?q={row.name}", "Failing"), seconds=30)
    world.until(lambda: shows("", f"The provider {row.name} fails. Its last error: ProviderError of"), seconds=30)
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
    world.until(lambda: "Circuit closed Rest until" in page_text(administrator, page), seconds=10)
    for path in (f"providers/provider/?q={row.name}", page):
        assert re.search(r"Resting until \d\d:\d\d:\d\d UTC", page_text(administrator, path)), path


def test_one_that_is_not_enabled_is_not_asked(administrator, world):
    row = world.row(world.provider())
    update_provider(row, enabled=False)
    page = f"providers/provider/{row.pk}/change/"
    world.until(lambda: "unused: the provider is disabled" in page_text(administrator, page))
    assert "State Disabled " in page_text(administrator, page)
    assert " Disabled " in page_text(administrator, f"providers/provider/?q={row.name}")


def test_one_whose_failures_another_one_makes_good_still_fails(administrator, world):
    world.allow()
    first, second = world.provider(priority=1), world.provider(priority=2)
    row = world.row(first)
    assert world.ask("the one that works").status_code == 200
    first.default = Answer(status=500)
    for number in range(5):
        assert world.ask(f"{number}").headers["X-Svc-Provider"] == world.row(second).name
    page, listed = f"providers/provider/{row.pk}/change/", f"providers/provider/?q={row.name}"
    world.until(lambda: "6 attempts, 5 failed" in page_text(administrator, listed))
    assert "Failing" in page_text(administrator, listed)
    shown = page_text(administrator, page)
    assert "State Failing 5 of 6 attempts in the last 10 minutes, last error ProviderError" in shown
    assert "In the last hour 6 attempts, 5 failed" in shown
    assert "Since the gateway started 6 attempts, 5 failed" in shown
    assert f"UTC, {world.model} : ProviderError: " in shown
    entries = page_text(administrator, f"telemetry/logentry/?attempted={row.name}&entry_type__exact=WorkRequest")
    assert entries.count(world.row(second).name) == 5
    entry = world.entry(world.answers[-1][0])
    details = page_text(administrator, f"telemetry/logentry/{entry.pk}/change/")
    assert f"{row.name} {world.model} Error" in details
    assert f"{world.row(second).name} {world.model} Answered" in details
    usage = page_text(administrator, "statistics/?by=provider&chart=failed_attempts")
    why = "5 of 6 attempts in the last 10 minutes, last error ProviderError"
    assert f"{row.name} Failing {why} 1 0 6 5" in usage
