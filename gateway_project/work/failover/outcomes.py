"""The outcome of each provider that was considered for a request, as shown in its log entry.

Stages note what only they know; everything else follows from the exchange once the request has ended.
"""

from gateway_project.errors import GatewayError, UpstreamError
from gateway_project.work.exchange import Exchange, Outcome
from gateway_project.work.log.content import loggable_message
from gateway_project.work.log.secret_masking import mask_secrets_in_message
from gateway_project.work.snapshot.records import Target, target_key
from telemetry.models import Candidate

MAX_PROVIDERS, DETAIL_LENGTH = 20, 200


def note_outcome(exchange: Exchange, target: Target, outcome: Candidate, error: GatewayError | None = None) -> None:
    """Record the outcome of one candidate, with the error that explains it."""
    exchange.attempts.outcomes[target_key(target)] = (outcome, _detail(error, exchange))


def candidate_outcomes(exchange: Exchange, served: Target | None) -> list[tuple[str, str, str]]:
    """Name, outcome and detail of every provider with the model: the candidates first, in the order of trying."""
    targets, passed_over = exchange.candidates, exchange.selection.passed_over
    if len(exchange.decision.offers) > 1 or not targets:
        keys = {target.key for target in targets}
        targets = (*targets, *(target for target in exchange.decision.offers if target.key not in keys))
    if len(targets) == 1 and targets[0] is served and not exchange.attempts.outcomes and not passed_over:
        return [(served.provider.name, *_target_outcome(exchange))]
    return [(target.provider.name, *outcome_at(target, exchange)) for target in targets[:MAX_PROVIDERS]]


def outcome_at(target: Target, exchange: Exchange) -> Outcome:
    """What became of a target, so far, and a detail."""
    key = target_key(target)
    if key in exchange.attempts.outcomes:
        return exchange.attempts.outcomes[key]
    if key in exchange.selection.passed_over:
        return exchange.selection.passed_over[key], ""
    if (served := exchange.target) is not None and (target is served or key == target_key(served)):
        return _target_outcome(exchange)
    if exchange.options.provider_name and not target.provider.matches_name(exchange.options.provider_name):
        return Candidate.NOT_WANTED, ""
    if exchange.decision.rule is None or target.key not in {allowed.key for allowed in exchange.decision.allowed}:
        return Candidate.NOT_ALLOWED, ""
    if target.provider.format is None:
        return Candidate.UNFIT, f"This version does not know the format {target.provider.format_name}."
    if key in map(target_key, exchange.limits.full_candidates):
        return Candidate.FULL, ""
    return Candidate.NOT_TRIED, ""


def _target_outcome(exchange: Exchange) -> Outcome:
    """The outcome of the provider that was asked last, or whose cached answer was served."""
    error = exchange.error
    if exchange.cache.hit is not None:
        return Candidate.STORED, ""
    if error is None:
        return Candidate.ANSWERED, ""
    if not exchange.attempts.count and exchange.cache.subscription is None:
        return Candidate.NOT_TRIED, ""
    return Candidate.FAILED if isinstance(error, UpstreamError) else Candidate.INTERRUPTED, _detail(error, exchange)


def _detail(error: GatewayError | None, exchange: Exchange) -> str:
    if error is None:
        return ""
    return f"{error.exception}: {mask_secrets_in_message(loggable_message(error, exchange))}"[:DETAIL_LENGTH]
