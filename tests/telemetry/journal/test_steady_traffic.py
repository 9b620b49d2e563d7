"""What steady traffic costs the database."""

import time

import pytest
from django.db import connection

from telemetry.models import LogEntry

PER_SECOND = 8
SECONDS = 3.0


@pytest.mark.servers
def test_steady_traffic_of_one_client_is_stored_in_at_most_eight_transactions_a_second(own_gateway):
    world = own_gateway(GATEWAY_LOG_INTERVAL="0.5", GATEWAY_KEY_REQUESTS_PER_MINUTE="0")
    world.provider()
    world.allow()
    started, number = time.monotonic(), 0
    while time.monotonic() - started < SECONDS:
        response = world.ask(f"number {number}")
        assert response.status_code == 200
        number += 1
    seconds = time.monotonic() - started
    assert number > 3 * PER_SECOND * SECONDS  # else so many transactions could not have come about
    world.entry(response)
    assert 0 < storing_transactions(world.user.pk) <= PER_SECOND * (seconds + 1)


def storing_transactions(user_id: int) -> int:
    """The transactions in which the log entries of a user were stored."""
    with connection.cursor() as cursor:
        cursor.execute(
            f'SELECT count(DISTINCT xmin::text) FROM "{LogEntry._meta.db_table}" WHERE user_id = %s', [user_id]
        )
        return cursor.fetchone()[0]
