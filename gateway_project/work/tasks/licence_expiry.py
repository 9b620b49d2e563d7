"""The periodic task that warns before the licence expires."""

import logging
import time
from datetime import UTC, datetime

from django.db import transaction

from gateway_project.console.notices import about_the_licence
from licensing.services import claim_warning
from telemetry.models import EntryType, LogEntry

log = logging.getLogger("gateway.licence")


def warn_of_expiry() -> None:
    """Write one Message entry per day; the first process of the installation writes it."""
    now = time.time()
    notice = about_the_licence(now)
    if notice is None:
        return
    with transaction.atomic():
        first = claim_warning(datetime.fromtimestamp(now, UTC).date())
        if first:
            LogEntry.objects.create(entry_type=EntryType.MESSAGE, severity=notice.severity, message=notice.text)
    if first:
        log.log(logging.ERROR if notice.severity == "error" else logging.WARNING, notice.text)
