"""What a process does in the background, ten times a second."""

import logging
from typing import TYPE_CHECKING

from gateway_project.background import Background
from gateway_project.memory import hand_back
from gateway_project.work.vitals import vitals

if TYPE_CHECKING:
    from gateway_project.work.gateway import Gateway

log = logging.getLogger("gateway.housekeeping")

TICK_SECONDS = 0.1
PUBLISH_EVERY_TICKS, TIDY_EVERY_TICKS, FORGET_EVERY_TICKS = 10, 50, 600


class Housekeeping(Background):
    """It may wait for Redis or the disk, so that deadlines have a thread of their own."""

    def __init__(self, gateway: "Gateway") -> None:
        super().__init__("housekeeper", log, every=TICK_SECONDS)
        self._gateway = gateway
        self._ticks = 0

    def round(self) -> None:
        gateway = self._gateway
        self._ticks += 1
        gateway.metrics.fold(gateway.snapshot.offering)
        gateway.journal.prepare()
        gateway.flights.renew()
        gateway.state.renew_holds()
        gateway.state.probe()
        if self._ticks % PUBLISH_EVERY_TICKS == 0:
            gateway.metrics.publish(vitals(gateway))
        if self._ticks % TIDY_EVERY_TICKS == 0:
            gateway.transport.close_idle()
            hand_back()
        if self._ticks % FORGET_EVERY_TICKS == 0:
            gateway.state.tidy()
