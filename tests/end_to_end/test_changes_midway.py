"""What changes while a request is under way: it goes on as it began, and is billed at the prices of its end."""

from decimal import Decimal

import pytest

from keys.models import ApiKey
from licensing.models import Limit
from licensing.services import change_limit
from providers.models import Model
from providers.services import change_price, remove_model, update_provider
from rules.services import delete_rule
from tests.support.limiting import bypass, left
from tests.support.provider_answers import Answer

USED = {"prompt_tokens": 100, "completion_tokens": 30}


@pytest.fixture
def provider(world):
    """One that streams for three seconds."""
    scripted = world.provider()
    pieces = [{"choices": [{"index": 0, "delta": {"content": f"{number} "}}]} for number in range(6)]
    end = [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, {"choices": [], "usage": USED}]
    scripted.default = Answer(stream=[*pieces, *end, "data: [DONE]\n\n"], pace=0.4)
    return scripted


def test_a_stream_goes_on_whoever_and_whatever_it_began_with(world, provider):
    rule, price, issued, heir = world.allow(), world.price(10, 0), world.new_key(), world.new_user()
    world.allow(user=heir)
    response = world.stream(key=issued.text)
    chunks = response.iter_content(None)
    text = next(chunks)
    change_price(price, input=Decimal(20))
    ApiKey.objects.filter(pk=issued.key.pk).update(owner=heir)
    update_provider(world.row(provider), credential="sk-another-one-of-the-provider")
    remove_model(Model.objects.get(provider=world.row(provider)))
    delete_rule(rule)
    world.settle()
    text += b"".join(chunks)
    assert text.endswith(b"data: [DONE]\n\n")
    assert b"5 " in text
    entry = world.entry(response)
    assert (entry.outcome, entry.user_id, entry.key_id) == ("completed", world.user.pk, issued.key.pk)
    assert (entry.rule_name, entry.provider_name) == (rule.name, world.row(provider).name)
    assert (entry.cost, entry.cost_status, entry.input_tokens) == (Decimal("0.002"), "known", 100)
    assert world.ask(key=issued.text).status_code in (400, 403)
    assert [observations.headers["authorization"] for observations in provider.seen] == [
        "Bearer sk-secret-of-the-provider"
    ]


@pytest.mark.parametrize("amount", [50, 5000])
def test_a_limit_that_is_changed_meanwhile_counts_what_the_stream_used(world, provider, amount):
    world.allow()
    limit = Limit.objects.create(measure="tokens", window="day", amount=1000, user=world.user)
    world.settle()
    response = world.stream(body={"max_tokens": 200}, headers={"X-Svc-Cache": "bypass"})
    chunks = response.iter_content(None)
    next(chunks)
    change_limit(limit, amount=Decimal(amount))
    world.settle()
    b"".join(chunks)
    world.entry(response)
    provider.default = Answer(usage=USED)
    after = bypass(world, max_tokens=20)
    assert after.status_code == (200 if amount > 260 else 429)
    assert left(after, "user-tokens-day") == max(amount - 260, 0)
