"""Who has acknowledged a change counts, and whoever has not is named in the log."""

import orjson
import pytest

from gateway_project.change_feed.cuts import Credential
from gateway_project.work.revocation.acknowledging import Report, read_report
from gateway_project.work.revocation.waiting import wait_until_in_force
from gateway_project.work.state.shared import LocalState

pytestmark = pytest.mark.embedded


class Board:
    """What other processes show, in place of the one in Redis; None while that does not answer."""

    def __init__(self, reports: dict[str, Report] | None) -> None:
        self._shown = None if reports is None else {name: orjson.dumps(tuple(row)) for name, row in reports.items()}

    def publish(self, payload: bytes) -> bool:
        return True

    def read_others(self):
        return self._shown


def in_force(reports, *, change: int = 7, credentials=(), seconds: float = 0.1, processes: int = 1):
    state = LocalState(cache_bytes=1000)
    state.acknowledgements, state.processes = Board(reports), processes
    return wait_until_in_force(state, None, change, credentials, seconds)


def test_workers_that_have_reached_the_change_have_acknowledged_it(caplog):
    proof = in_force({"a": Report("host:1", 7, {}), "b": Report("host:2", "9:9:", {})}, seconds=10)
    assert (proof.workers, proof.acknowledged) == (2, 2)
    assert proof.seconds < 10
    assert not caplog.records


@pytest.mark.parametrize("mark", [6, "5:9:7,8", "5:7:", "", "x:y:z", "7", None, 1.5, [], True])
def test_a_worker_that_is_behind_or_shows_nonsense_is_named(mark, caplog):
    proof = in_force({"a": Report("host:1", 7, {}), "b": Report("host:2", mark, {})})
    assert (proof.workers, proof.acknowledged) == (2, 1)
    assert proof.seconds >= 0.1
    assert "host:2" in caplog.text
    assert "host:1" not in caplog.text


@pytest.mark.parametrize("payload", [None, b"", b"{}", b"[1]", b"[1,2,3]", b'["w",7,{"key 1":"x"}]'])
def test_what_cannot_be_read_acknowledges_nothing(payload):
    assert read_report("process", payload) == Report("process", None, {})


def test_what_ended_is_added_up():
    shown = {"key 5": 2, "key 6": 40}
    reports = {"a": Report("host:1", 7, shown), "b": Report("host:2", 7, {"key 5": 1, "user 5": 9})}
    assert in_force(reports, credentials=[Credential("key", 5), Credential("key", 5)]).ended == 3


def test_while_redis_is_down_the_workers_that_are_remembered_have_not_acknowledged(caplog):
    proof = in_force(None, processes=4)
    assert (proof.workers, proof.acknowledged) == (4, 0)
    assert "4 that Redis does not show" in caplog.text
