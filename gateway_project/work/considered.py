"""Which providers were considered for a request, and what became of each: for whoever reads its log entry.

Stages note what only they know; the rest follows from the exchange once the request has ended.
"""

from typing import TYPE_CHECKING

from gateway_project.errors import GatewayError, UpstreamError
from gateway_project.work.snapshot import Target
from telemetry.models import Candidate

if TYPE_CHECKING:
    from gateway_project.work.exchange import Exchange

MOST, DETAIL_LENGTH = 20, 200
Became = tuple[str, str]  # a Candidate, and in words what more there is to say


def note(exchange: "Exchange", target: Target, became: Candidate, error: GatewayError | None = None) -> None:
    """Keep what became of one candidate, and the error that says why."""
    exchange.became[target.provider.id] = (became, _told(error))


def considered(exchange: "Exchange") -> list[tuple[str, str, str]]:
    """Name, result and detail of every provider with the model: those first that were to be tried, in their order."""
    targets = exchange.candidates
    if len(targets) < len(exchange.known):
        chosen = {target.provider.id for target in targets}
        targets = (*targets, *(target for target in exchange.known if target.provider.id not in chosen))
    return [(target.provider.name, *_became(target, exchange)) for target in targets[:MOST]]


def _became(target: Target, exchange: "Exchange") -> Became:
    number = target.provider.id
    if number in exchange.became:
        return exchange.became[number]
    if exchange.target is not None and number == exchange.target.provider.id:
        return _tried(exchange)
    if exchange.wanted_provider and not target.provider.goes_by(exchange.wanted_provider):
        return Candidate.NOT_WANTED, ""
    if exchange.rule is None or exchange.rule.provider_id not in (None, number):
        return Candidate.NOT_ALLOWED, ""
    if target.provider.format is None:
        return Candidate.UNFIT, f"This version does not know the format {target.provider.format_name}."
    if any(number == full.provider.id for full in exchange.passed_over):
        return Candidate.FULL, ""
    return Candidate.NOT_TRIED, ""


def _tried(exchange: "Exchange") -> Became:
    """Of the provider that was asked last, or whose stored answer was served."""
    error = exchange.error
    if exchange.stored is not None:
        return Candidate.STORED, ""
    if error is None:
        return Candidate.ANSWERED, ""
    if not exchange.attempts:
        return Candidate.NOT_TRIED, ""
    return Candidate.FAILED if isinstance(error, UpstreamError) else Candidate.INTERRUPTED, _told(error)


def _told(error: GatewayError | None) -> str:
    return f"{error.exception}: {error.message}"[:DETAIL_LENGTH] if error is not None else ""
