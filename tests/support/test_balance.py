"""What the fault tests accept afterwards: no answer without its entry, and no leak."""

from types import SimpleNamespace

import pytest

from tests.support import balance
from tests.support.balance import GROWTH, WITHOUT_ENTRY, Balance, check_footprint
from tests.support.footprint import Footprint

pytestmark = pytest.mark.either_store


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(balance, "SECONDS", 0)


@pytest.mark.django_db
def test_a_refusal_needs_an_entry_unless_the_disk_was_full():
    world = SimpleNamespace(answers=[("refused", 503)], scripted=[])
    with pytest.raises(AssertionError, match="responses without an entry"):
        Balance().check_entries([world], WITHOUT_ENTRY)
    Balance().check_entries([world], WITHOUT_ENTRY | {503})


def gateway_with(memory_mib: int) -> SimpleNamespace:
    """A gateway that has grown by so much."""
    return SimpleNamespace(
        at_rest=Footprint(10, 20, 100),
        holds=lambda: Footprint(10, 20, 100 + memory_mib),
        workers=list,
        threads=list,
        kept_connections=int,
    )


def test_a_leak_is_noticed_beyond_the_bound():
    assert check_footprint(gateway_with(24), [], GROWTH).memory_mib == 24
    with pytest.raises(AssertionError, match="growth at most"):
        check_footprint(gateway_with(25), [], GROWTH)
    assert check_footprint(gateway_with(35), [], GROWTH._replace(memory_mib=40)).memory_mib == 35
