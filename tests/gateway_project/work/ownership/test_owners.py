"""Owners are found in this process, in the shared state, and in the database."""

import pytest

from gateway_project.errors import ServiceUnavailable
from gateway_project.work.ownership.owners import Owners, digest_of
from gateway_project.work.state import local_owners
from gateway_project.work.state.local_owners import LocalOwners
from gateway_project.work.state.shared import LocalState

ANN, BOB = 1, 2


class Database:
    """The follower, as far as owners ask it."""

    def __init__(self):
        self.rows, self.asked, self.is_away = {}, [], False

    def state_owners(self, digests):
        self.asked.append(sorted(digests))
        if self.is_away:
            raise ServiceUnavailable
        return {digest: self.rows[digest] for digest in digests if digest in self.rows}


class LostState(LocalState):
    """A store that does not answer."""

    degraded = True

    def owners(self, digests):
        return None

    def claim_owners(self, claims):
        return None


@pytest.fixture
def database():
    return Database()


def test_what_was_noted_is_known_at_once_and_after_it_was_published(database):
    state = LocalState(cache_bytes=0)
    owners = Owners(state, database)
    owners.note(["a"], ANN)
    assert owners.find(["a"]) == {"a": ANN}
    owners.run_once()
    assert (owners.find(["a"]), state.owners(["a"]), owners.pause()) == ({"a": ANN}, {"a": ANN}, None)
    assert database.asked == []


def test_the_database_is_asked_for_the_rest(database):
    owners = Owners(LocalState(cache_bytes=0), database)
    database.rows["b"] = BOB
    owners.note(["a"], ANN)
    assert owners.find(["a", "b", "c"]) == {"a": ANN, "b": BOB}
    assert database.asked == [["b", "c"]]
    database.is_away = True
    with pytest.raises(ServiceUnavailable):
        owners.find(["c"])


def test_what_redis_does_not_take_is_kept_up_to_a_bound(database, monkeypatch):
    monkeypatch.setattr("gateway_project.work.ownership.owners.MAX_UNPUBLISHED", 2)
    owners = Owners(LostState(cache_bytes=0), database)
    owners.note(["a", "b", "c"], ANN)
    owners.run_once()
    assert owners.find_recent(["a", "b", "c"]) == {"b": ANN, "c": ANN}
    assert (owners.may_lack_recent, owners.claim(["d"], ANN)) == (True, None)
    assert owners.pause() is not None


def test_the_first_owner_stays_the_owner_until_it_is_forgotten(monkeypatch):
    owners = LocalOwners()
    assert owners.claim({"a": ANN}) == {"a": ANN}
    assert owners.claim({"a": BOB, "b": BOB}) == {"a": ANN, "b": BOB}
    monkeypatch.setattr(local_owners, "OWNER_SECONDS", 0)
    owners.claim({"c": ANN})
    assert owners.find(["a", "c"]) == {"a": ANN}


def test_ids_cannot_be_read_in_what_is_stored():
    assert len(digest_of("resp_1")) == 32
    assert digest_of("resp_1") != digest_of("resp_2")
