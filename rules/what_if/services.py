"""Every change to what-ifs: begun by a user, worked on by one process at a time, cancelled, and deleted with age."""

from datetime import datetime, timedelta
from uuid import uuid4

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from gateway_project.errors import Conflict, ValidationError
from gateway_project.json_types import JsonObject
from rules.what_if.models import State, WhatIf

MAX_PERIOD, KEPT_FOR = timedelta(days=366), timedelta(days=7)
CLAIM_FOR = timedelta(seconds=30)
MAX_WAITING, MAX_WAITING_OF_USER, MAX_KEPT_OF_USER, MAX_CLAIMS = 50, 5, 20, 3
DIED = f"The process that worked on it ended {MAX_CLAIMS} times without a result."


@transaction.atomic
def begin_what_if(*, user_id: int | None, user_name: str, start: datetime, end: datetime, draft: JsonObject) -> WhatIf:
    """Have a draft tried on the requests from start on and before end; a process works on it when it is its turn.

    The oldest results of the user go, so that a bounded number is kept. Raises ValidationError, and Conflict while too
    many are waiting.
    """
    now = timezone.now()
    _check_period(start, end, now)
    _check_waiting(user_id)
    newest = WhatIf.objects.of_user(user_id or 0).ended().values_list("pk", flat=True)[: MAX_KEPT_OF_USER - 1]
    WhatIf.objects.of_user(user_id or 0).ended().exclude(pk__in=list(newest)).delete()
    return WhatIf.objects.create(
        user_id=user_id, user_name=user_name, start=start, end=min(end, now), draft=draft, created_at=now
    )


def cancel_what_if(what_if: WhatIf) -> None:
    """Cancel one that is running: its process stops within seconds. One that has ended stays as it is."""
    _end(WhatIf.objects.running().filter(pk=what_if.pk), State.CANCELLED)


def claim_next() -> WhatIf | None:
    """The next one to work on, claimed for this process; None if none waits, or while another process works on one."""
    if not WhatIf.objects.running().exists():  # as it is nearly always
        return None
    now = timezone.now()
    _release_abandoned(now)
    if WhatIf.objects.claimed(now).exists():
        return None
    number = WhatIf.objects.waiting().values_list("pk", flat=True).first()
    claim = uuid4().hex
    if number is None or not _claim(number, claim, now):
        return None
    return WhatIf.objects.claimed_by(claim).first()


def keep_claim(claim: str, progress: float) -> bool:
    """Note how far it is, and that its process lives; False if it was cancelled, or claimed by another process."""
    until = timezone.now() + CLAIM_FOR
    return WhatIf.objects.claimed_by(claim).update(progress=progress, claimed_until=until) == 1


def release_claim(claim: str) -> None:
    """Leave it to another process, which begins again."""
    WhatIf.objects.claimed_by(claim).update(claim="", claimed_until=None, progress=0)


def finish_what_if(claim: str, result: JsonObject) -> bool:
    """Store the result; False if it was cancelled meanwhile."""
    return _end(WhatIf.objects.claimed_by(claim), State.DONE, result=result, progress=1)


def fail_what_if(claim: str, error: str) -> bool:
    """Store why there is no result."""
    return _end(WhatIf.objects.claimed_by(claim), State.FAILED, error=error)


def delete_old_results() -> None:
    """Delete what ended more than KEPT_FOR ago."""
    WhatIf.objects.ended_before(timezone.now() - KEPT_FOR).delete()


def _check_period(start: datetime, end: datetime, now: datetime) -> None:
    if start >= min(end, now):
        raise ValidationError("must be before the end, and in the past.", field="start")
    if end - start > MAX_PERIOD:
        raise ValidationError(f"must be at most {MAX_PERIOD.days} days after the start.", field="end")


def _check_waiting(user_id: int | None) -> None:
    running = WhatIf.objects.running()
    if running.of_user(user_id or 0).count() >= MAX_WAITING_OF_USER:
        raise Conflict(f"You have {MAX_WAITING_OF_USER} running what-ifs. Wait until one ends, or cancel one.")
    if running.count() >= MAX_WAITING:
        raise Conflict(f"{MAX_WAITING} what-ifs are waiting, the maximum. Try again later.")


def _claim(number: int, claim: str, now: datetime) -> bool:
    row = WhatIf.objects.waiting().filter(pk=number).first()
    if row is None:
        return False
    values = {"claim": claim, "claimed_until": now + CLAIM_FOR, "claims": row.claims + 1, "progress": 0}
    try:
        with transaction.atomic():
            return WhatIf.objects.waiting().filter(pk=number).update(**values, started_at=row.started_at or now) == 1
    except IntegrityError:  # another process has claimed another one at the same time
        return False


def _release_abandoned(now: datetime) -> None:
    abandoned = WhatIf.objects.abandoned(now)
    _end(abandoned.filter(claims__gte=MAX_CLAIMS), State.FAILED, error=DIED)
    abandoned.update(claim="", claimed_until=None, progress=0)


def _end(rows: QuerySet[WhatIf], state: State, **values: object) -> bool:
    ended = {"state": state, "claim": "", "claimed_until": None, "ended_at": timezone.now()}
    return rows.update(**ended, **values) > 0
