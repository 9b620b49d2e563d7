"""Several credentials of one provider share its requests. Their rests are in test_credential_rests.py."""

import threading
import time
from collections import Counter

import pytest

from licensing.models import Limit
from providers.services import change_credential, remove_credential, update_provider
from telemetry.models import LogEntry
from tests.support.account_provider import (
    OWN,
    SECOND,
    THIRD,
    AccountProvider,
    add,
    ask,
    credential,
    provider_credential,
    two_accounts,
)
from tests.support.pace import patience
from tests.support.provider import ScriptedProvider
from tests.support.provider_answers import Answer
from tests.support.world import LONG_AGO, World

pytestmark = pytest.mark.embedded


@pytest.fixture
def provider(world: World) -> AccountProvider:
    return two_accounts(world)


class TestShares:
    def test_two_credentials_share_the_requests_by_weight(self, world, provider):
        change_credential(provider_credential(world, provider), weight=3)
        world.settle()
        ask(world, 120)
        assert set(provider.shares) == {OWN, SECOND}
        assert 70 <= provider.shares[SECOND] <= 108, provider.shares  # expected 90, standard deviation 4.7

    def test_identical_requests_go_to_the_same_account(self, world, provider):
        for _ in range(5):
            ask_again = world.ask("the same", headers={"X-Svc-Cache": "refresh"})
            assert ask_again.status_code == 200
        assert sorted(provider.shares.values()) == [5]

    def test_a_session_goes_to_the_same_account(self, world, provider):
        """Providers keep their caches of prompts for each account."""
        used = set()
        for _ in range(8):
            provider.seen.clear()
            ask(world, 6, headers={"X-Svc-Strategy": "sticky", "X-Svc-Session": world.name("session")})
            (account,) = provider.shares
            used.add(account)
        assert used == {OWN, SECOND}

    def test_a_provider_without_a_credential_of_its_own_uses_the_others_alone(self, world, provider):
        update_provider(world.row(provider), credential="")
        world.settle()
        ask(world, 10)
        assert provider.shares == {SECOND: 10}

    def test_one_credential_is_used_as_ever(self, world, provider):
        change_credential(provider_credential(world, provider), enabled=False)
        world.settle()
        ask(world, 10)
        assert provider.shares == {OWN: 10}


RESPONSE = {"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": []}


class TestStoredResponses:
    @pytest.fixture
    def provider(self, world: World) -> AccountProvider:
        world.allow()
        scripted = world.provider(scripted=AccountProvider(), format_name="openai-responses")
        add(world, scripted, SECOND)
        scripted.default = Answer(body=RESPONSE)
        return scripted

    def test_who_stores_responses_stays_with_one_account(self, world, provider):
        users = [world.new_user() for _ in range(12)]
        world.allow(everyone="user")
        keys = [world.new_key(owner=user).text for user in users]
        accounts = []
        time.sleep(patience(1))  # until every process knows both
        for key in keys:
            provider.seen.clear()
            for _ in range(4):
                body = {"model": world.model, "input": world.name("input")}
                assert world.post(body, path="/v1/responses", key=key).status_code == 200
            (account,) = provider.shares
            accounts.append(account)
        assert set(accounts) == {OWN, SECOND}  # by chance not so in one of 2,048 runs

    def test_a_response_that_is_not_stored_goes_anywhere(self, world, provider):
        for _ in range(16):
            body = {"model": world.model, "input": world.name("input"), "store": False}
            assert world.post(body, path="/v1/responses").status_code == 200
        assert set(provider.shares) == {OWN, SECOND}


class TestChanges:
    @pytest.mark.parametrize("change", ["disable", "delete", "rotate"])
    def test_a_change_is_in_force_within_a_second_and_fails_no_request(self, world, provider, change):
        row, stop, statuses = provider_credential(world, provider), threading.Event(), []

        def keep_asking() -> None:
            while not stop.is_set():
                statuses.append(world.ask(world.name("prompt")).status_code)
                time.sleep(0.1)  # within the guard of requests a minute

        threads = [threading.Thread(target=keep_asking) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            time.sleep(0.5)
            if change == "disable":
                change_credential(row, enabled=False)
            elif change == "delete":
                remove_credential(row)
            else:
                change_credential(row, credential=THIRD)
            time.sleep(patience(1))
            at = len(provider.seen)
            time.sleep(0.5)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        later = Counter(map(credential, provider.seen[at:]))
        assert SECOND in Counter(map(credential, provider.seen[:at]))
        assert SECOND not in later
        assert (THIRD in later) == (change == "rotate")
        assert set(statuses) == {200}

    def test_a_new_credential_takes_its_share(self, world, provider):
        add(world, provider, THIRD, weight=100)
        ask(world, 10)
        assert provider.shares[THIRD] > 5

    def test_a_new_address_clears_all_credentials(self, world, provider):
        other = world.provider(scripted=AccountProvider())
        update_provider(world.row(provider), url=other.url)
        row = provider_credential(world, provider)
        assert (row.credential, row.credential_hint, row.masked_credential) == ("", "", "")
        world.settle()
        ask(world, 5, headers={"X-Svc-Provider": world.row(provider).name})
        assert other.shares == {"": 5}


class TestSecrets:
    def test_no_account_reads_the_credential_of_another(self, world, provider):
        """A provider that repeats one account's credential to another does not get it through."""
        provider.default = Answer(text=f"{OWN} {SECOND}")
        assert world.ask().status_code == 502

    @pytest.mark.parametrize("secret", [OWN, SECOND])
    def test_errors_entries_and_bodies_are_masked(self, world, provider, secret):
        values = {"error": {"message": f"Incorrect API key provided: {OWN}, or {SECOND}."}}
        provider.default = Answer(status=400, body=values)
        response = world.ask()
        assert response.status_code == 400
        assert secret not in response.text
        entry = world.entry(response)
        about = [str(vars(row)) for row in LogEntry.objects.filter(correlation_id=entry.correlation_id)]
        assert not any(secret in text for text in about)
        assert secret not in world.gateway.log()

    def test_a_stream_is_kept_without_them(self, world, provider):
        provider.default = Answer(text=f"a {OWN} b {SECOND} c")
        response = world.stream()
        assert response.status_code == 200
        assert response.content
        row = world.entry(response)
        assert OWN not in str(vars(row))
        assert SECOND not in str(vars(row))


class TestLimits:
    """Each credential has its own: what its account may use."""

    def limit(self, world: World, provider: ScriptedProvider, **limits: int) -> None:
        change_credential(provider_credential(world, provider), weight=10_000, **limits)
        world.settle()

    def test_one_whose_requests_are_used_up_leaves_them_to_the_others(self, world, provider):
        self.limit(world, provider, requests_per_minute=3)
        ask(world, 8)
        assert provider.shares[OWN] in (5, 6)  # a minute may end meanwhile
        assert sum(provider.shares.values()) == 8

    def test_it_leaves_them_to_the_others_where_no_other_provider_may_be_asked(self, world, provider):
        self.limit(world, provider, requests_per_minute=1)
        statuses = [world.ask(f"{n}", headers={"X-Svc-Fallback": "off"}).status_code for n in range(4)]
        assert statuses == [200] * 4

    def test_tokens_are_counted_for_the_one_that_answered(self, world, provider):
        self.limit(world, provider, tokens_per_minute=1_000)
        provider.default = Answer(usage={"prompt_tokens": 900, "completion_tokens": 200, "total_tokens": 1_100})
        ask(world, 4, body={"max_tokens": 100})
        assert provider.shares[SECOND] in (1, 2)
        assert sum(provider.shares.values()) == 4

    def test_one_is_asked_by_so_many_at_a_time(self, world, provider):
        self.limit(world, provider, concurrent_requests=1)
        provider.default = Answer(delay=0.5)
        threads = [threading.Thread(target=ask, args=(world,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert provider.shares == {SECOND: 1, OWN: 2}
        provider.default = Answer()
        world.until(lambda: bool(ask(world)) and provider.shares[SECOND] == 2, seconds=8)

    def test_when_all_are_used_up_the_client_is_told_without_their_names(self, world, provider):
        update_provider(world.row(provider), credential="")
        self.limit(world, provider, requests_per_minute=1)
        statuses = {(response := world.ask(world.name("prompt"))).status_code for _ in range(3)}
        assert statuses == {200, 429}
        assert provider_credential(world, provider).name not in response.text
        assert world.row(provider).name in response.text
        assert not any("credential" in value for value in response.headers.values())

    @pytest.mark.parametrize("limits", [{}, {"requests_per_minute": 1_000, "concurrent_requests": 50}])
    def test_a_provider_counts_a_request_once_however_many_credentials_were_tried(self, world, provider, limits):
        self.limit(world, provider, **limits)
        Limit.objects.create(
            provider=world.row(provider), measure="requests", window="day", amount=4, bounds_since=LONG_AGO
        )
        provider.by_account[SECOND] = Answer(status=429)
        world.settle()
        ask(world, 4)
        assert provider.shares == {OWN: 4, SECOND: 1}
        assert world.ask("one more").status_code == 429
        Limit.objects.filter(provider=world.row(provider)).delete()

    def test_what_a_failed_credential_took_is_given_back(self, world, provider):
        self.limit(world, provider, concurrent_requests=1, tokens_per_minute=10_000)
        provider.by_account[SECOND] = Answer(status=429)
        ask(world, body={"max_tokens": 6_000})
        time.sleep(1.1)  # it pauses
        ask(world, body={"max_tokens": 6_000})
        assert provider.shares == {OWN: 2, SECOND: 2}
