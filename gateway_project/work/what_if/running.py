"""Runs a comparison to its end: a draft from its document, and one that is stored, in a process of its own."""

import logging
from collections.abc import Callable
from datetime import datetime
from urllib.parse import urlencode

from accounts.models import Group
from gateway_project.background import BackgroundThread
from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from gateway_project.work.snapshot.loading import load_all
from gateway_project.work.snapshot.records import Snapshot
from gateway_project.work.what_if.drafts import GUARDRAILS, LIMITS, Draft, read_draft
from gateway_project.work.what_if.guardrails.trial import GuardrailTrial
from gateway_project.work.what_if.limits import LimitSides
from gateway_project.work.what_if.outcome import Outcome
from gateway_project.work.what_if.replay import Cancelled, Replay
from gateway_project.work.what_if.snapshots import draft_snapshot
from rules.what_if.models import WhatIf
from rules.what_if.services import fail_what_if, finish_what_if, keep_claim, release_claim
from telemetry.models import EntryType

log = logging.getLogger("gateway.tasks")

BEAT_SECONDS = 2.0
# Of the rows of a result, the member that says whose they are, and the filter of the log for it.
LOG_FILTERS = (("byUser", "userId", "id"), ("byGroup", "groupId", "groupId"), ("byModel", "model", "model"))
BROKEN = "An error of the gateway ended the what-if. The server's output has the details."


class Heartbeat(BackgroundThread):
    """Says every few seconds how far the work is, and learns whether anybody still wants it."""

    def __init__(self, claim: str) -> None:
        super().__init__("what-if", log, every=BEAT_SECONDS)
        self.claim, self.progress, self.is_wanted = claim, 0.0, True

    def run_once(self) -> None:
        self.is_wanted = self.is_wanted and keep_claim(self.claim, self.progress)

    def report(self, share: float) -> None:
        """Note how far the work is. Raises Cancelled if nobody wants it any more."""
        self.progress = round(share, 3)
        if not self.is_wanted:
            raise Cancelled


def compare_requests(draft: Draft, start: datetime, end: datetime, report: Callable[[float], None]) -> Outcome:
    """Judge the requests of a period now and with the draft. Raises ValidationError, and what `report` raises."""
    before = Snapshot()
    load_all(before)
    limits = LimitSides(draft, start) if draft.changes(LIMITS) else None
    guardrails = GuardrailTrial(draft) if draft.changes(GUARDRAILS) else None
    replay = Replay(before, draft_snapshot(before, draft), report, limits=limits, guardrails=guardrails)
    return replay.run(start, end)


def result_of(outcome: Outcome, start: datetime, end: datetime) -> JsonObject:
    """The outcome as data, with the names of groups, and the path of all requests and of each row's in the log."""
    result = outcome.document(dict(Group.objects.filter(pk__in=outcome.groups).values_list("pk", "name")))
    period = {"type": EntryType.WORK_REQUEST.value, "start": start.isoformat(), "end": end.isoformat()}
    result["log"] = f"/logs/?{urlencode(period)}"
    for rows, member, parameter in LOG_FILTERS:
        for row in result[rows]:
            row["log"] = f"/logs/?{urlencode(period | {parameter: row[member]})}"
    return result


def run_claimed(what_if: WhatIf) -> None:
    """Work on a what-if that this process has claimed, and store the result; leave it to others if interrupted."""
    heartbeat = Heartbeat(what_if.claim)
    heartbeat.start()
    try:
        outcome = compare_requests(read_draft(what_if.draft), what_if.start, what_if.end, heartbeat.report)
        finish_what_if(what_if.claim, result_of(outcome, what_if.start, what_if.end))
    except Cancelled:
        pass  # whoever cancelled it has written that
    except GatewayError as error:
        fail_what_if(what_if.claim, error.sentence)
    except Exception:  # the next one is worked on all the same
        log.exception("What-if %d failed.", what_if.pk)
        fail_what_if(what_if.claim, BROKEN)
    except BaseException:
        release_claim(what_if.claim)
        raise
    finally:
        heartbeat.stop()
