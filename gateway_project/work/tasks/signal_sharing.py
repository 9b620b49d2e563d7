"""The periodic task by which the processes share what they have measured of targets."""

import time
from collections.abc import Callable, Iterable, Iterator
from secrets import token_hex

import orjson

from gateway_project.work.gateway import Gateway
from gateway_project.work.routing.signals import STALE_SECONDS, Export, Row
from gateway_project.work.state.signal_board import SignalBoard, SlotBoard
from telemetry.metrics import slots


def signal_sharing(gateway: Gateway) -> Callable[[], None]:
    """The task; it does nothing while nobody wants measurements."""
    boards: tuple[SignalBoard, ...] = (gateway.state.signal_board, SlotBoard(slots.signals, slots.own_slot))
    process = token_hex(8)

    def share_signals() -> None:
        signals = gateway.signals
        if not (gateway.snapshot.aliases.needs_measurements or signals.has_measurements):
            return
        payload = orjson.dumps({"process": process, "at": time.time(), "rows": signals.export()})
        # The memory of this machine is newer than the store: it comes last.
        signals.merge(one for board in boards for one in _exports(board.swap(payload)))

    return share_signals


def _exports(payloads: Iterable[bytes]) -> Iterator[tuple[str, Export]]:
    """What other processes have shown of late; anything that cannot be read is left out."""
    for payload in payloads:
        try:
            document = orjson.loads(payload)
            process, shown_at, rows = str(document["process"]), float(document["at"]), document["rows"]
            export = [_row(*row) for row in rows]
        except (ValueError, TypeError, KeyError):
            continue
        if abs(time.time() - shown_at) < STALE_SECONDS:
            yield process, export


def _row(provider_id: int, model: str, is_streamed: bool, in_flight: int, *sums: float) -> Row:
    """A row with values of the right types. Raises ValueError or TypeError."""
    key = int(provider_id), str(model), bool(is_streamed)
    total, weight, failures, failures_weight, age = map(float, sums)
    return *key, int(in_flight), total, weight, failures, failures_weight, age
