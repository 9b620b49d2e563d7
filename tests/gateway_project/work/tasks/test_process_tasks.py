"""What a process does all the time: each thing, whatever becomes of the others."""

import errno
import threading

from gateway_project.background import PeriodicTasks
from gateway_project.work import runtime as gateway_of_process
from gateway_project.work.tasks.process_tasks import process_tasks


def test_a_disk_that_fails_keeps_nothing_else_from_being_done(settings, tmp_path, monkeypatch, caplog):
    settings.GATEWAY_JOURNAL_DIR = tmp_path
    gateway, renewed = gateway_of_process.make_gateway(), threading.Semaphore(0)

    def broken():
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(gateway.journal, "preallocate", broken)
    monkeypatch.setattr(gateway.state, "renew_holds", renewed.release)
    keeper = PeriodicTasks("housekeeper", process_tasks(gateway), every=0.01)
    keeper.start()
    assert all(renewed.acquire(timeout=10) for _ in range(5))
    keeper.stop()
    results = [record.getMessage() for record in caplog.records]
    assert results == [f"The task {broken.__qualname__.rpartition('.')[2]} failed. The gateway tries again."]
