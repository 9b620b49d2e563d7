"""The attempts at providers as a log entry has them: a list for each, with these values."""

from collections.abc import Sequence
from typing import NamedTuple

Timing = tuple[str, float, float]  # name, begin since the request came, and length, in milliseconds


class LoggedAttempt(NamedTuple):
    """One sending of a request to a provider."""

    provider_id: int
    provider_name: str
    credential_id: int  # 0: the provider's own
    model: str  # the gateway's name of the model
    status: int  # 200, or that of the error
    cause: str  # why it failed; '' if it answered
    exception: str  # the name of the error; '' if it answered
    begin_ms: float  # since the request came
    duration_ms: float  # until it failed, or its answer was complete
    cost: str | None  # as far as it is known
    currency: str
    cost_status: str  # a value of CostStatus
    # [name, begin, length] of each step in milliseconds; empty in entries of versions that did not measure them.
    stages: Sequence[Timing] = ()


ATTEMPT_FIELDS = LoggedAttempt._fields
# Causes that are no failure of the provider: it answered, nobody waited for it, or it refused the request's content.
ANSWERED, INTERRUPTED, REJECTED = "", "interrupted", "rejected"
BLAMELESS = (ANSWERED, INTERRUPTED, REJECTED, "context_length", "content_filter")
