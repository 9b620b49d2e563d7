"""The outcome of each provider that was considered for a request, as shown in its log entry.

Stages note what only they know; everything else follows from the exchange once the request has ended.
"""

from gateway_project.errors import GatewayError, UpstreamError
from gateway_project.work.exchange import Exchange, Outcome
from gateway_project.work.log.secret_masking import mask_secrets_in_message
from gateway_project.work.snapshot.records import Target
from telemetry.models import Candidate

MAX_PROVIDERS, DETAIL_LENGTH = 20, 200


def note_outcome(exchange: Exchange, target: Target, outcome: Candidate, error: GatewayError | None = None) -> None:
    """Record the outcome of one candidate, with the error that explains it."""
    exchange.candidate_outcomes[target.provider.id] = (outcome, _detail(error))


def candidate_outcomes(exchange: Exchange) -> list[tuple[str, str, str]]:
    """Name, outcome and detail of every provider with the model: the candidates first, in the order of trying."""
    targets = exchange.candidates
    if len(targets) < len(exchange.offers):
        chosen = {target.provider.id for target in targets}
        targets = (*targets, *(target for target in exchange.offers if target.provider.id not in chosen))
    return [(target.provider.name, *_outcome(target, exchange)) for target in targets[:MAX_PROVIDERS]]


def _outcome(target: Target, exchange: Exchange) -> Outcome:
    provider_id = target.provider.id
    if provider_id in exchange.candidate_outcomes:
        return exchange.candidate_outcomes[provider_id]
    if exchange.target is not None and provider_id == exchange.target.provider.id:
        return _target_outcome(exchange)
    if exchange.requested_provider and not target.provider.matches_name(exchange.requested_provider):
        return Candidate.NOT_WANTED, ""
    if exchange.rule is None or exchange.rule.provider_id not in (None, provider_id):
        return Candidate.NOT_ALLOWED, ""
    if target.provider.format is None:
        return Candidate.UNFIT, f"This version does not know the format {target.provider.format_name}."
    if any(provider_id == full.provider.id for full in exchange.full_candidates):
        return Candidate.FULL, ""
    return Candidate.NOT_TRIED, ""


def _target_outcome(exchange: Exchange) -> Outcome:
    """The outcome of the provider that was asked last, or whose cached answer was served."""
    error = exchange.error
    if exchange.cached_answer is not None:
        return Candidate.STORED, ""
    if error is None:
        return Candidate.ANSWERED, ""
    if not exchange.attempts and exchange.subscription is None:
        return Candidate.NOT_TRIED, ""
    return Candidate.FAILED if isinstance(error, UpstreamError) else Candidate.INTERRUPTED, _detail(error)


def _detail(error: GatewayError | None) -> str:
    return f"{error.exception}: {mask_secrets_in_message(error.message)}"[:DETAIL_LENGTH] if error is not None else ""
