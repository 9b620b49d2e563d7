"""What a process does in the background all the time, without the database."""

from typing import TYPE_CHECKING

from gateway_project.memory import hand_back
from gateway_project.work.chores import Chore
from gateway_project.work.vitals import vitals

if TYPE_CHECKING:
    from gateway_project.work.gateway import Gateway

TICK_SECONDS, PUBLISH_EVERY_SECONDS, TIDY_EVERY_SECONDS, FORGET_EVERY_SECONDS = 0.1, 1.0, 5.0, 60.0


def housekeeping(gateway: "Gateway") -> tuple[Chore, ...]:
    """They may wait for Redis or the disk, so that deadlines have a thread of their own."""
    metrics, state = gateway.metrics, gateway.state

    def fold() -> None:
        metrics.fold(gateway.snapshot.offering)

    def publish() -> None:
        metrics.publish(vitals(gateway))

    return (
        Chore(fold, every=0),
        Chore(gateway.journal.prepare, every=0),
        Chore(gateway.flights.renew, every=0),
        Chore(state.renew_holds, every=0),
        Chore(state.probe, every=0),
        Chore(publish, every=PUBLISH_EVERY_SECONDS),
        Chore(gateway.transport.close_idle, every=TIDY_EVERY_SECONDS),
        Chore(hand_back, every=TIDY_EVERY_SECONDS),
        Chore(state.tidy, every=FORGET_EVERY_SECONDS),
    )
