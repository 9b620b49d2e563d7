"""Time-outs follow the machine: a slow one gets more time, the usual one what is written."""

import pytest

from tests.support import pace

pytestmark = pytest.mark.embedded


@pytest.fixture(params=[1.0, 4.0])
def slowness(request, monkeypatch):
    monkeypatch.setattr(pace, "slowness", lambda: request.param)
    return request.param


def test_this_machine_is_measured():
    assert 1 <= pace.slowness() < 1000


def test_patience_is_longer_on_a_slow_machine(slowness):
    assert pace.patience(2) >= 2 * 3 * slowness


def test_time_outs_are_longer_on_a_slow_machine(request, slowness):
    item = request.node
    usual = float(request.config.getini("timeout"))
    markers = [marker for marker in item.own_markers if marker.name == "timeout"]
    pace.lengthen_timeouts([item])
    lengthened = [marker for marker in item.own_markers if marker.name == "timeout" and marker not in markers]
    base = markers[0].args[0] if markers else usual
    assert [marker.args[0] for marker in lengthened] == ([] if slowness == 1 else [base * slowness])
