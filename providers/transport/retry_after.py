"""When a provider wants to be asked again, in the spellings that providers use."""

import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LEAST_SECONDS, MOST_SECONDS = 1.0, 3600.0
DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?\Z", re.ASCII)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds until the provider should be asked again, from 1 to 3600; None where it did not say.

    `retry-after-ms` (OpenAI) is the more exact; `retry-after` is seconds, a duration (1m30s) or a date.
    """
    seconds = _number(headers.get("retry-after-ms", ""))
    if seconds is not None:
        seconds /= 1000
    else:
        text = headers.get("retry-after", "").strip()
        seconds = _number(text)
        if seconds is None:
            seconds = _duration(text) if text.endswith("s") else _date(text)
    return None if seconds is None else min(max(seconds, LEAST_SECONDS), MOST_SECONDS)


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", text.strip(), re.ASCII) else None


def _duration(text: str) -> float | None:
    match = DURATION.match(text)
    if match is None:
        return None
    hours, minutes, seconds, milliseconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds + milliseconds / 1000


def _date(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text) if text[:1].isdigit() else parsedate_to_datetime(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - time.time()
    except (TypeError, ValueError, OverflowError):
        return None
