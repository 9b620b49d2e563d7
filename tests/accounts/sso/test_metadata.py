"""What a process remembers of a provider: for how long, and what it does when the provider fails or has new keys."""

import pytest

from accounts.sso.protocol import metadata
from accounts.sso.protocol.metadata import MAX_AGE_SECONDS, MAX_STALE_SECONDS, REFRESH_SECONDS, ProviderMemory
from gateway_project.errors import ProviderError
from tests.support.load import wait_until
from tests.support.oidc import DISCOVERY, KEYS, Answer, key

pytestmark = pytest.mark.either_store


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def remembered(issuer, clock) -> ProviderMemory:
    provider = ProviderMemory(issuer.url, clock=clock)
    assert [one.id for one in provider.keys("RS256", "")] == ["first"]
    return provider


def test_what_is_new_is_not_asked_for_again(remembered, issuer, clock):
    clock.now += MAX_AGE_SECONDS - 1
    remembered.metadata()
    remembered.keys("RS256", "first")
    assert (issuer.requests_to(DISCOVERY), issuer.requests_to(KEYS)) == (1, 1)


def test_new_keys_are_fetched_in_the_background(remembered, issuer, clock):
    issuer.published = [key("second")]
    clock.now += REFRESH_SECONDS
    remembered.refresh()
    assert issuer.requests_to(KEYS) == 2
    assert [one.id for one in remembered.keys("RS256", "second")] == ["second"]
    assert issuer.requests_to(KEYS) == 2


def test_an_unknown_key_is_fetched_at_once(remembered, issuer):
    issuer.published = [key(), key("second")]
    assert [one.id for one in remembered.keys("RS256", "second")] == ["second"]


def test_a_provider_that_fails_is_trusted_for_a_day(remembered, issuer, clock):
    issuer.answers = dict.fromkeys((DISCOVERY, KEYS), Answer({}, status=500))
    clock.now += MAX_STALE_SECONDS - 1
    assert remembered.keys("RS256", "first")
    assert remembered.metadata().issuer == issuer.url
    clock.now += 30
    with pytest.raises(ProviderError):
        remembered.metadata()


def test_a_key_serves_its_own_algorithm(remembered):
    assert remembered.keys("ES256", "first") == remembered.keys("EdDSA", "first") == []
    assert remembered.keys("PS256", "first")


def test_refreshing_goes_on_after_a_provider_that_fails(remembered, issuer, clock):
    other = ProviderMemory(issuer.url, clock=clock)
    other.metadata()
    before = issuer.requests_to(DISCOVERY)
    issuer.answers = dict.fromkeys((DISCOVERY, KEYS), Answer({}, status=500))
    clock.now += MAX_STALE_SECONDS
    metadata._refresh([remembered, other])
    assert issuer.requests_to(DISCOVERY) == before + 2


def test_providers_that_somebody_has_logged_in_with_are_refreshed_in_a_thread(remembered, issuer, monkeypatch, clock):
    monkeypatch.setattr(metadata, "_registry", {issuer.url: remembered})
    clock.now += REFRESH_SECONDS
    metadata.refresh_known_providers()
    wait_until(lambda: issuer.requests_to(DISCOVERY) == 2)
