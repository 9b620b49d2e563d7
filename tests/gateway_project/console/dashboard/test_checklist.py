"""The first steps on the console's first page."""

import pytest

from gateway_project.console.dashboard import checklist
from keys.services import issue_key
from providers.services import create_provider
from rules.services import create_rule
from telemetry.journal.batches import insert_log_entries
from tests.telemetry.conftest import entry

pytestmark = pytest.mark.either_store


@pytest.fixture(autouse=True)
def unused(db):
    checklist._uses.clear()
    yield
    checklist._uses.clear()


def done() -> list[bool]:
    return [step.is_done for step in checklist.first_steps()]


def test_each_step_ticks_itself_and_the_first_answer_ends_them(ann):
    assert done() == [False, False, False, False, False, False]
    create_provider(name="p", format_name="openai", url="http://127.0.0.1:9/v1", models=["m"])
    assert done()[:2] == [True, True]
    create_rule(name="r", user_id=0)
    issue_key(owner=ann, name="k")
    assert done() == [True, True, False, True, True, False]
    insert_log_entries([entry("one", outcome="completed", user_id=ann.pk, model="m")])
    assert done() == []


@pytest.mark.long
def test_the_first_page_of_an_empty_installation_shows_them_until_an_answer(console, ann):
    page = console.get("/admin/")
    assert "First steps" in page.text
    steps = page.context["steps"]
    assert [step.title for step in steps if step.is_done] == ["Create users"]  # ann, and who looks at the page
    addresses = [step.address for step in steps if not step.is_done]
    assert len(addresses) == 5
    assert [address for address in addresses if f'href="{address}">' not in page.text] == []
    assert {console.get(address).status_code for address in addresses} == {200}
    insert_log_entries([entry("one", outcome="completed", user_id=ann.pk, model="m")])
    assert "First steps" not in console.get("/admin/").text


def test_nothing_is_looked_up_once_the_gateway_was_used(ann, django_assert_num_queries):
    insert_log_entries([entry("one", outcome="completed", user_id=ann.pk, model="m")])
    checklist.first_steps()
    with django_assert_num_queries(0):
        assert checklist.first_steps() == ()
