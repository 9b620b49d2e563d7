"""Log entries of completed requests, and the times around them."""

from datetime import UTC, datetime, timedelta

from gateway_project.work.log.timestamps import timestamp
from tests.telemetry.conftest import entry

HOUR = datetime(2027, 1, 15, 8, tzinfo=UTC)
BEGIN, END = HOUR - timedelta(days=2), HOUR + timedelta(days=2)
# The month of the hour, as parameters of a request for usage.
WITHIN = "from=2027-01-01T00:00:00Z&to=2027-02-01T00:00:00Z"


def at(moment):
    return timestamp(moment.timestamp())


def done(request_id="r", moment=HOUR, **fields):
    """An entry of a completed request."""
    values = {"timestamp": at(moment), "outcome": "completed", "status": 200, "cache_status": "MISS", "attempts": 1}
    return entry(request_id, **values | {"provider_id": 1, "model": "m", "duration_ms": 5.0} | fields)


def paid(amount, moment=HOUR, currency="USD", status="known", **fields):
    tokens = {"input_tokens": 10, "output_tokens": 5}
    return done("r", moment, cost=str(amount), currency=currency, cost_status=status, **tokens | fields)
