"""Several credentials of one provider: one that is refused or limited rests alone."""

import threading
import time
from collections import Counter

import pytest

from providers.services import change_credential
from rules.aliases.drafts import TargetDraft
from rules.aliases.services import create_alias
from tests.support.account_provider import (
    OWN,
    SECOND,
    THIRD,
    AccountProvider,
    add,
    ask,
    credential,
    first_request,
    provider_credential,
    two_accounts,
)
from tests.support.provider_answers import Answer
from tests.support.world import World

pytestmark = pytest.mark.embedded


@pytest.fixture
def provider(world: World) -> AccountProvider:
    return two_accounts(world)


class TestRests:
    """Rests take a second here. On a slow machine some end meanwhile, and the credential is tried once more."""

    @pytest.mark.parametrize(
        "refusal",
        [
            Answer(status=401),
            Answer(status=402),
            Answer(status=429, headers={"Retry-After": "60"}),
            Answer(status=503, headers={"Retry-After": "60"}),
        ],
        ids=lambda answer: str(answer.status),
    )
    @pytest.mark.parametrize("ill", [OWN, SECOND])
    def test_one_that_is_refused_rests_alone_and_the_other_serves_at_once(self, world, provider, refusal, ill):
        provider.by_account[ill] = refusal
        begun = time.monotonic()
        ask(world, 20)
        probes = 0 if refusal.headers else int(time.monotonic() - begun)
        assert 1 <= provider.shares[ill] <= 1 + probes
        assert sum(provider.shares.values()) == 20 + provider.shares[ill]
        del provider.by_account[ill]

    def test_it_is_no_fallback_to_ask_with_the_other_credential(self, world, provider):
        """Neither the client's header nor an alias without causes keeps it from being asked where one is limited."""
        provider.by_account[OWN] = Answer(status=429)
        other = world.provider(priority=200)
        row, name = world.row(provider), world.name("alias")
        targets = [TargetDraft(row.pk, world.model), TargetDraft(world.row(other).pk, world.model, tier=1)]
        create_alias(name=name, fallback_on=[], targets=targets)
        world.settle()
        ask(world, 4, headers={"X-Svc-Fallback": "off"})
        ask(world, 4, body={"model": name})
        assert other.seen == []
        provider.by_account[SECOND] = Answer(status=429)
        statuses = {world.ask(world.name("prompt"), body={"model": name}).status_code for _ in range(2)}
        assert statuses == {429}
        assert other.seen == []

    @pytest.mark.parametrize(
        "failure", [{"status": 500}, {"status": 504}, {"body": b"<html>"}, {"cut_after": 5}, {"cut_after": 0}]
    )
    def test_what_may_have_been_worked_on_is_not_sent_with_the_other_credential(self, world, provider, failure):
        provider.default = Answer(**failure)
        for headers in ({}, {"X-Svc-Fallback": "off"}):
            provider.seen.clear()
            assert world.ask(world.name("prompt"), headers=headers).status_code >= 500
            assert len(provider.seen) == 1

    def test_where_all_are_limited_a_request_asks_one_of_them(self, world, provider):
        add(world, provider, THIRD)
        provider.default = Answer(status=429)
        begun = time.monotonic()
        statuses = {world.ask(world.name("prompt")).status_code for _ in range(20)}
        probes = 2 * (1 + int(time.monotonic() - begun))  # when the pauses are over, the next request asks all again
        assert statuses == {429}
        assert len(provider.seen) <= 20 + probes

    def test_another_provider_serves_what_failed_with_one_credential(self, world, provider):
        provider.default = Answer(status=503)
        other = world.provider(priority=200)
        ask(world, 2)
        assert (len(provider.seen), len(other.seen)) == (2, 2)

    def test_one_that_fails_rests_alone_after_as_many_failures_as_a_provider(self, world, provider):
        provider.by_account[SECOND] = Answer(status=500)
        begun = time.monotonic()
        statuses = Counter(world.ask(world.name("prompt")).status_code for _ in range(40))
        assert 5 <= provider.shares[SECOND] == statuses[502] <= 5 + int(time.monotonic() - begun)
        assert provider.shares[OWN] == statuses[200] == 40 - statuses[502]

    def test_a_new_secret_ends_the_rest(self, world, provider):
        provider.by_account[SECOND] = Answer(status=401)
        ask(world, 20)
        change_credential(provider_credential(world, provider), credential=THIRD)
        world.settle()
        before = provider.shares[SECOND]
        ask(world, 20)
        assert provider.shares[THIRD] > 0
        assert provider.shares[SECOND] == before

    def test_when_all_are_limited_the_client_is_told_how_long(self, world, provider):
        provider.by_account[OWN] = Answer(status=429, headers={"Retry-After": "50"})
        provider.by_account[SECOND] = Answer(status=429, headers={"Retry-After": "20"})
        response = world.ask()
        assert (response.status_code, response.json()["exception"]) == (429, "ProviderOverloaded")
        later = world.ask("another")
        assert (later.status_code, 0 < int(later.headers["Retry-After"]) <= 20) == (429, True)
        assert sum(provider.shares.values()) == 2

    def test_when_all_are_refused_another_provider_serves(self, world, provider):
        provider.default = Answer(status=401)
        other = world.provider(priority=200)
        ask(world, 3)
        assert len(other.seen) == 3

    def test_identical_requests_wait_while_the_other_credential_is_asked(self, world, provider):
        """The flight goes on: those who wait neither fail nor ask for themselves."""
        provider.by_account = {OWN: Answer(status=503, delay=0.3), SECOND: Answer(status=503, delay=0.3)}
        first = credential(first_request(world, provider, "together"))
        other = ({OWN, SECOND} - {first}).pop()
        provider.by_account = {first: Answer(status=429, delay=0.3), other: Answer(delay=0.3)}
        provider.seen.clear()
        statuses: list[int] = []

        def one() -> None:
            statuses.append(world.ask("together").status_code)

        threads = [threading.Thread(target=one) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert statuses == [200] * 4
        assert provider.shares == {first: 1, other: 1}
