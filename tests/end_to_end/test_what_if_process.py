"""What-ifs in a running gateway: a process of their own works on them, also after the one before it has died."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import requests
from django.utils import timezone

from rules.models import WhatIf
from rules.what_if.services import begin_what_if, claim_next
from tests.support.management import new_admin, token_of

pytestmark = [pytest.mark.either_store, pytest.mark.long]

SECONDS = 60  # a process starts, and others look every ten seconds


def period():
    now = timezone.now()
    return {"start": now - timedelta(days=1), "end": now + timedelta(hours=1)}


def wait_until_done(world, number):
    world.until(lambda: WhatIf.objects.get(pk=number).state != "running", SECONDS)
    return WhatIf.objects.get(pk=number)


def children_of(pid: int) -> list[int]:
    return [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]


def command_of(pid: int) -> list[str]:
    return [word.decode() for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]


def processes_of(gateway, number: int) -> Iterator[int]:
    """Children of the gateway's workers that work on this what-if."""
    for worker in gateway.workers():
        for child in children_of(worker):
            try:
                words = command_of(child)
            except OSError:
                continue  # it has ended
            if ["what-if", "--run", str(number)] == words[2:5]:
                yield child


def test_one_that_is_begun_at_the_api_is_worked_on(world, provider):
    world.entry(world.ask())
    attributes = {name: moment.isoformat() for name, moment in period().items()}
    attributes["rules"] = [{"name": world.name("no"), "effect": "deny", "userId": world.user.pk}]
    headers = {"Authorization": f"Bearer {token_of(new_admin())}"}
    response = requests.post(
        f"{world.gateway.url}/what-if/", json={"data": {"attributes": attributes}}, headers=headers, timeout=30
    )
    assert response.status_code == 202, response.text
    number = int(response.headers["WhatIfId"])
    observations: set[tuple[int, str]] = set()

    def is_seen() -> bool:
        state = WhatIf.objects.get(pk=number).state
        observations.update((pid, state) for pid in processes_of(world.gateway, number))
        return bool(observations) or state != "running"

    world.until(is_seen, SECONDS)
    ((pid, state),) = observations
    assert state == "running"
    assert pid not in world.gateway.workers()
    what_if = wait_until_done(world, number)
    assert (what_if.state, what_if.error, what_if.progress) == ("done", "", 1)
    (row,) = [one for one in what_if.result["byUser"] if one["userId"] == world.user.pk]
    assert row["newlyDenied"] == 1


def test_what_a_dead_process_has_claimed_is_adopted(world):
    what_if = begin_what_if(user_id=None, user_name="", draft={}, **period())
    claimed = claim_next() or WhatIf.objects.get(pk=what_if.pk)
    WhatIf.objects.filter(pk=claimed.pk).update(claimed_until=timezone.now() - timedelta(minutes=1))
    assert wait_until_done(world, what_if.pk).state == "done"
    assert WhatIf.objects.get(pk=what_if.pk).claims == 2
