"""Tokens are counted by a provider whose format can, otherwise estimated."""

from gateway_project.work.exchange import Exchange
from gateway_project.work.snapshot.records import Target
from gateway_project.work.token_estimates import input_tokens
from providers.formats import ClientResponse
from providers.formats.dialect import COUNT_TOKENS
from providers.formats.json_values import dump_value


def count_tokens(exchange: Exchange) -> None:
    """Answer a request for a count with an estimate if the first candidate cannot count. Raises ValidationError."""
    request = exchange.request
    assert request is not None
    if request.operation != COUNT_TOKENS:
        return
    candidates = [target for target in exchange.candidates if target not in exchange.limits.full_candidates]
    first = candidates[0]
    if _counts_tokens(first):
        exchange.attempts.targets = tuple(filter(_counts_tokens, candidates))
        return
    request.dialect.read_chat(request.body)  # raises ValidationError if it is no conversation
    exchange.attempts.target = first
    exchange.attempts.answer = ClientResponse(dump_value({"input_tokens": input_tokens(request)}), estimated=True)


def _counts_tokens(target: Target) -> bool:
    assert target.provider.format is not None, "a provider without a format is no candidate"
    return target.provider.format.counts_tokens
