"""What-ifs in a running gateway: a process of their own works on them, also after the one before it has died."""

from datetime import timedelta

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


def test_one_that_is_begun_at_the_api_is_worked_on(world, provider):
    world.entry(world.ask())
    attributes = {name: moment.isoformat() for name, moment in period().items()}
    attributes["rules"] = [{"name": world.name("no"), "effect": "deny", "userId": world.user.pk}]
    headers = {"Authorization": f"Bearer {token_of(new_admin())}"}
    response = requests.post(
        f"{world.gateway.url}/what-if/", json={"data": {"attributes": attributes}}, headers=headers, timeout=30
    )
    assert response.status_code == 202, response.text
    what_if = wait_until_done(world, response.headers["WhatIfId"])
    assert (what_if.state, what_if.error, what_if.progress) == ("done", "", 1)
    (row,) = [one for one in what_if.result["byUser"] if one["userId"] == world.user.pk]
    assert row["newlyDenied"] == 1


def test_what_a_dead_process_has_claimed_is_adopted(world):
    what_if = begin_what_if(user_id=None, user_name="", draft={}, **period())
    claimed = claim_next() or WhatIf.objects.get(pk=what_if.pk)
    WhatIf.objects.filter(pk=claimed.pk).update(claimed_until=timezone.now() - timedelta(minutes=1))
    assert wait_until_done(world, what_if.pk).state == "done"
    assert WhatIf.objects.get(pk=what_if.pk).claims == 2
