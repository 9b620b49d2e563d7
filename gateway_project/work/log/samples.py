"""The matches of a request's guardrails, as encrypted records for users who may see them."""

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

from django.conf import settings

from gateway_project.json_types import JsonObject
from gateway_project.work.exchange import Exchange, Guarding
from gateway_project.work.gateway import Gateway
from gateway_project.work.guardrails.book import REQUEST, RESPONSE
from gateway_project.work.guardrails.sampling import Sample
from gateway_project.work.log.content import content_kind
from gateway_project.work.log.timestamps import timestamp
from providers.credentials import encrypt
from telemetry.guardrails.models import origin_of_samples
from telemetry.journal.files import JournalFull
from telemetry.journal.records import to_record


def write_samples(exchange: Exchange, guarding: Guarding, gateway: Gateway) -> None:
    """Write the samples of a request, if its content may be kept; a full journal takes none."""
    samples = list(_samples(guarding))
    if samples and content_kind(exchange) == "full":
        with suppress(JournalFull):
            for sample, direction in samples:
                gateway.journal.append_sample(to_record(_record(exchange, sample, direction)))


def _samples(guarding: Guarding) -> Iterator[tuple[Sample, str]]:
    for search, direction in ((guarding.request_search, REQUEST), (guarding.answer_search, RESPONSE)):
        if search is not None:
            yield from ((sample, direction) for sample in search.samples)


def _record(exchange: Exchange, sample: Sample, direction: str) -> JsonObject:
    guardrail, caller = sample.guardrail, exchange.identity.caller
    text = json.dumps([sample.before, sample.match, sample.after])
    days = timedelta(days=guardrail.sample_days).total_seconds()
    return {
        "timestamp": timestamp(exchange.started_at),
        "expires_at": timestamp(exchange.started_at + days),
        "guardrail_id": guardrail.id,
        "correlation_id": exchange.request_id,
        "user_id": None if caller is None else caller.id,
        "direction": direction,
        "category": sample.category[:200],
        "sealed": encrypt(text, origin=origin_of_samples(guardrail.id), keys=settings.GATEWAY_ENCRYPTION_KEYS),
    }
