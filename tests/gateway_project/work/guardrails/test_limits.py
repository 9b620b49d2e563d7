"""A long request is counted before guardrails search it, so that nobody over a limit costs a search."""

import pytest

from gateway_project.work.guardrails.requests import COUNTED_FIRST_BYTES
from licensing.models import Limit
from rules.guardrails.services import create_guardrail, delete_guardrail
from tests.support.limiting import bypass, left, limited, refused
from tests.support.pace import in_one_minute
from tests.support.provider_answers import Answer

LONG = "Nothing to see here. " * (COUNTED_FIRST_BYTES // 20)
SECRET = "bob@example.com"


@pytest.fixture
def provider(world):
    row = create_guardrail(
        name=world.name("guardrail"),
        type="pii",
        parameters={"kinds": ["email"]},
        direction="request",
        applies_to={"users": [world.user.pk]},
    )
    world.allow()
    yield world.provider()
    delete_guardrail(row)


def test_a_caller_over_a_limit_is_refused_before_the_search(world, provider):
    key = limited(world, "requests", "minute", 2)
    responses = [bypass(world, key, f"{LONG} {SECRET}") for _ in range(3)]
    assert [response.status_code for response in responses] == [400, 400, 429]
    refused(responses[2], "RateLimited", "2 requests per minute")
    assert world.entry(responses[1]).guardrails
    assert not world.entry(responses[2]).guardrails
    assert provider.seen == []


def test_a_long_request_counts_once_and_not_at_all_if_its_tokens_have_no_room(world, provider):
    provider.default = Answer(text="Yes.", usage={"prompt_tokens": 3000, "completion_tokens": 100})
    issued = world.new_key()
    for measure, amount in (("requests", 10), ("tokens", 8000)):
        Limit.objects.create(key=issued.key, measure=measure, window="minute", amount=amount)
    in_one_minute(10)
    responses = [bypass(world, issued.text, LONG, max_tokens=100) for _ in range(3)]
    assert [response.status_code for response in responses] == [200, 200, 429], responses[0].text
    short = bypass(world, issued.text, max_tokens=10)
    assert (short.status_code, left(short, "key")) == (200, 7)
