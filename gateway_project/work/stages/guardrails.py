"""Requests and whole answers on their way through the pipeline: searched, changed or refused."""

from time import perf_counter

from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.guardrails.answers import guard_whole_answer
from gateway_project.work.guardrails.requests import choose_guardrails, search_request

NAME = "guardrails"  # in Server-Timing and the log


def guard_request(exchange: Exchange, gateway: Gateway) -> None:
    """Search the request; take out of it what guardrails redact. Raises GuardrailBlocked."""
    if gateway.snapshot.guardrails is None:
        return
    guarding = choose_guardrails(exchange, gateway)
    if guarding is not None and (side := guarding.applicable.requests) is not None:
        started_at = perf_counter()
        try:
            search_request(exchange, gateway, guarding, side)
        finally:
            exchange.record_timing(NAME, started_at)


def guard_answer(exchange: Exchange, gateway: Gateway) -> None:
    """Search a whole answer, the provider's or a cached one, for the caller who gets it. Raises GuardrailBlocked."""
    if exchange.guarding is None:
        return
    started_at = perf_counter()
    try:
        guard_whole_answer(exchange, gateway, exchange.guarding)
    finally:
        exchange.record_timing(NAME, started_at)
