"""Why a target did not serve a request, and whether the next target may then be asked."""

from gateway_project.errors import (
    GatewayError,
    LimitError,
    ProviderError,
    ProviderOverloaded,
    ProviderRejected,
    ProviderTimeout,
    UpstreamError,
)
from providers.health.rests import TOO_MANY_REQUESTS
from rules.aliases.models import FallbackCause

# The causes after which the next provider of a model without an alias is asked.
OF_MODELS: frozenset[str] = frozenset((FallbackCause.ERROR, FallbackCause.RATE_LIMITED, FallbackCause.BUDGET))
# The codes by which providers refuse what they do not want to answer.
FILTER_CODES = frozenset(
    (
        *("content_filter", "content_filtered", "content_policy_violation"),
        *("responsibleaipolicyviolation", "responsible_ai_policy_violation", "data_inspection_failed"),
    )
)


def cause_of(error: GatewayError) -> FallbackCause | None:
    """The cause of an error; None if another target would not help: the request itself is wrong."""
    if isinstance(error, LimitError):
        return FallbackCause.BUDGET
    if isinstance(error, ProviderRejected):
        return _cause_of_rejection(error)
    if isinstance(error, ProviderOverloaded):
        return cause_of_status(error.code)
    return FallbackCause.ERROR if isinstance(error, ProviderError | ProviderTimeout) else None


def cause_of_status(code: int) -> FallbackCause:
    """The cause of an overload with this status."""
    return FallbackCause.RATE_LIMITED if code == TOO_MANY_REQUESTS else FallbackCause.ERROR


def is_about_account(error: UpstreamError) -> bool:
    """Whether another credential of the same provider may serve at once: this one is limited or refused."""
    if isinstance(error, ProviderOverloaded):
        return error.code == TOO_MANY_REQUESTS or error.retry_after is not None
    if isinstance(error, ProviderRejected):
        return error.refuses_account
    return not (error.may_have_worked or error.is_transient)


def _cause_of_rejection(error: ProviderRejected) -> FallbackCause | None:
    if error.context_length_phrase:
        return FallbackCause.CONTEXT_LENGTH
    if error.reason.lower() in FILTER_CODES:
        return FallbackCause.CONTENT_FILTER
    return FallbackCause.ERROR if error.code == ProviderRejected.PAYMENT_REQUIRED else None
