"""Begins a what-if, for the API and for the console."""

from datetime import datetime

from django.db import transaction

from gateway_project.json_types import JsonObject
from gateway_project.work.runtime import running_gateway
from gateway_project.work.what_if.drafts import read_draft
from gateway_project.work.what_if.trial import check_draft
from rules.what_if.models import WhatIf
from rules.what_if.services import begin_what_if


def begin_comparison(document: JsonObject, start: datetime, end: datetime, *, user_id: int, user_name: str) -> WhatIf:
    """Check a draft and have it tried on the requests of a period. Raises ValidationError and Conflict."""
    check_draft(read_draft(document))
    what_if = begin_what_if(user_id=user_id, user_name=user_name, start=start, end=end, draft=document)
    if (gateway := running_gateway()) is not None:
        transaction.on_commit(gateway.what_if_starter.wake)
    return what_if
