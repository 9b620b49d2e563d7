"""A target becomes its provider's accounts: one drawn by weight, the others behind it."""

import os
from collections import Counter

import pytest

from gateway_project.work.routing.credentials import with_credentials
from gateway_project.work.snapshot.records import Target, as_siblings
from tests.support.snapshot_records import provider


@pytest.fixture
def several():
    accounts = [
        provider(1, "m", credential_id=number, credential_weight=weight) for number, weight in enumerate((1, 3, 6))
    ]
    return Target(as_siblings(accounts), "m")


ALONE = Target(provider(2, "m"), "m")


def test_a_provider_with_one_credential_stays_as_it_is():
    assert with_credentials([ALONE], b"seed") == [ALONE]
    assert as_siblings([ALONE.provider]) is ALONE.provider
    assert (ALONE.provider.siblings, ALONE.provider.accounts) == ((), (ALONE.provider,))
    assert as_siblings([]) is None


def test_the_accounts_stand_where_their_provider_stood(several):
    for targets in ([ALONE, several], [several, ALONE]):
        expanded = with_credentials(targets, os.urandom(16))
        assert len(expanded) == 4
        assert (expanded.index(ALONE) == 0) == (targets[0] is ALONE)
        assert {target.provider.credential_id for target in expanded if target is not ALONE} == {0, 1, 2}


def test_they_are_drawn_by_weight_and_by_the_seed(several):
    seeds = [os.urandom(16) for _ in range(2_000)]
    first = [with_credentials([several], seed)[0].provider.credential_id for seed in seeds]
    counts = Counter(first)
    for number, share in enumerate((0.1, 0.3, 0.6)):
        assert counts[number] / len(seeds) == pytest.approx(share, abs=0.06)
    assert first == [with_credentials([several], seed)[0].provider.credential_id for seed in seeds]


def test_one_more_account_takes_its_share_and_moves_no_other_request(several):
    """Who stays keeps what is cached for it."""
    accounts = several.provider.siblings
    more = Target(as_siblings([*accounts, provider(1, "m", credential_id=3, credential_weight=1)]), "m")
    for seed in (os.urandom(16) for _ in range(300)):
        before, after = (with_credentials([target], seed)[0].provider.credential_id for target in (several, more))
        assert after in (before, 3)
