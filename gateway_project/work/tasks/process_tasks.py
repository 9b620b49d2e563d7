"""The periodic tasks of a process that do not use the database."""

from gateway_project.background import PeriodicTask
from gateway_project.server.memory import release_free_memory
from gateway_project.work.gateway import Gateway
from gateway_project.work.log.entry import write_refusal_counts
from gateway_project.work.tasks.process_metrics import process_gauges
from gateway_project.work.tasks.signal_sharing import signal_sharing

SHARE_EVERY_SECONDS = 0.5  # of what was measured of targets
TICK_SECONDS, PUBLISH_EVERY_SECONDS, TIDY_EVERY_SECONDS, FORGET_EVERY_SECONDS = 0.1, 1.0, 5.0, 60.0
ANSWER_EVERY_SECONDS = 0.25  # the requests of other processes to ship at once


def process_tasks(gateway: Gateway) -> tuple[PeriodicTask, ...]:
    """The tasks; they run in a thread of their own, since they may wait for Redis or the disk."""
    metrics, state = gateway.metrics, gateway.state

    def fold() -> None:
        metrics.aggregate(gateway.snapshot.targets_by_model)

    def publish() -> None:
        metrics.publish(process_gauges(gateway))

    def write_counts() -> None:
        write_refusal_counts(gateway)

    return (
        PeriodicTask(fold, every=0),
        PeriodicTask(write_counts, every=1.0),
        PeriodicTask(gateway.journal.preallocate, every=0),
        PeriodicTask(gateway.flights.renew, every=0),
        PeriodicTask(state.renew_holds, every=0),
        PeriodicTask(state.probe, every=0),
        PeriodicTask(gateway.prompt_shipping.answer_requests, every=ANSWER_EVERY_SECONDS),
        PeriodicTask(gateway.acknowledger.publish, every=0),
        PeriodicTask(signal_sharing(gateway), every=SHARE_EVERY_SECONDS),
        PeriodicTask(publish, every=PUBLISH_EVERY_SECONDS),
        PeriodicTask(gateway.transport.close_idle, every=TIDY_EVERY_SECONDS),
        PeriodicTask(release_free_memory, every=TIDY_EVERY_SECONDS),
        PeriodicTask(state.tidy, every=FORGET_EVERY_SECONDS),
    )
