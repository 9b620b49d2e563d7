"""When a provider of several accounts cannot be asked, as its gauges say."""

import pytest

from gateway_project.work.snapshot.records import Target, as_siblings
from gateway_project.work.tasks.process_metrics import rest_gauges
from providers.health.breakers import Breakers
from providers.health.rests import Rests
from tests.support.snapshot_records import provider

pytestmark = pytest.mark.embedded


@pytest.mark.parametrize(
    ("resting", "open_circuits", "expected"),
    [
        ([], [], (0, 0)),
        ([0], [], (0, 0)),
        ([], [1], (0, 0)),
        ([0, 1], [], (0, 20)),
        ([], [0, 1], (1, 0)),
        ([0], [1], (1, 20)),
        ([0], [0], (0, 0)),
        ([0, 1], [1], (1, 20)),
    ],
)
def test_a_provider_rests_while_each_account_rests_or_has_an_open_circuit(resting, open_circuits, expected):
    breakers, rests = Breakers(failures=1, cooldown=60), Rests(lambda: 100.0)
    accounts = [provider(1, "a", credential_id=number) for number in (0, 1)]
    whole = as_siblings(accounts)
    for number in resting:
        rests.begin(Target(accounts[number], "a"), 503, 20 + 10 * number)
    for number in open_circuits:
        breakers.record_failure(accounts[number])
    gauges = rest_gauges([whole], breakers, rests)
    values = tuple(gauges[name][0][1] for name in ("provider_resting", "provider_rest_seconds"))
    assert values == expected
