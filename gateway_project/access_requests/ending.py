"""Ends the grants whose time has come. Any number of processes may do it at once."""

import logging

from django.utils import timezone

from accounts.access_requests.models import AccessRequest
from gateway_project.access_requests.services import end_due_request
from gateway_project.api import audit
from gateway_project.database.guarding import override_access_tests
from gateway_project.database.saving import races_as_conflicts
from gateway_project.errors import GatewayError

log = logging.getLogger("gateway.access_requests")

ACTOR = audit.Actor(operator="gateway")
MOST = 100  # at once; the others follow in the next run


def end_due_requests() -> int:
    """End each grant that is due, in a transaction of its own; returns how many this process has ended.

    One that cannot be ended is logged and tried again; the others end.
    """
    due = AccessRequest.objects.due(timezone.now()).order_by("ends_at")
    return sum(map(_end, due.values_list("pk", flat=True)[:MOST]))


def _end(request_id: int) -> bool:
    # The grant said when it ends: no access test prevents that.
    reason = f"The grant of access request {request_id} has ended."
    try:
        with audit.acting_as(lambda: ACTOR), override_access_tests(reason, field="reason"), races_as_conflicts():
            return end_due_request(request_id, actor=ACTOR)
    except GatewayError as error:
        log.error("Access request %s could not be ended. The gateway tries again: %s", request_id, error.sentence)
        return False
