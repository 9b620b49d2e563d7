"""What guardrails have matched, in the browser: read, and deleted."""

from rules.guardrails.services import create_guardrail, delete_guardrail
from tests.telemetry.guardrails.test_samples import keep_sample


def test_samples_are_read_and_deleted(console, world):
    user, guardrail = world.user, create_guardrail(name=world.name("guardrail"), type="pii", samples=True)
    for number in range(3):
        keep_sample(guardrail, f"{'long' * 40}{number}@example.com", user_id=user.pk, correlation_id=f"c{number}")
    window = console()
    window.open(f"rules/guardrail/{guardrail.pk}/change/")
    window.page.get_by_role("link", name="Samples", exact=True).click()
    window.page.wait_for_url("**/guardrail-samples/**")
    assert window.page.locator("mark").count() == 3
    assert user.username in window.page.get_by_role("region", name="Samples of guardrails").inner_text()
    assert window.check_looks() == {}
    window.page.get_by_role("link", name="Delete all of its samples").click()
    window.page.wait_for_url("**/delete/")
    assert window.check_looks() == {}
    window.page.get_by_role("button", name="Delete samples").click()
    window.page.wait_for_url("**/guardrail-samples/**guardrail=**")
    assert "3 samples are deleted." in window.page.content()
    assert "No sample is kept." in window.page.content()
    assert window.check_looks() == {}
    delete_guardrail(guardrail)
