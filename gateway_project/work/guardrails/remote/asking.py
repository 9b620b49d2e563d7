"""Asks the services of guardrails: several at once, each for a bounded time, and none that keeps failing."""

import logging
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import BoundedSemaphore
from time import perf_counter, time
from typing import NamedTuple

from gateway_project.errors import GatewayError, ProviderError
from gateway_project.work.guardrails.book import GuardrailSnapshot
from gateway_project.work.guardrails.remote.services import FAILED, Question, Service, Verdict, signature_headers
from gateway_project.work.snapshot.records import Snapshot
from gateway_project.work.streaming.watch import Watcher
from providers.health.breakers import Breakers
from providers.transport.calls import Call, Interrupted
from providers.transport.provider_response import NotReceived
from providers.transport.transport import ProviderRequest, Transport, TransportLimits

log = logging.getLogger("gateway.guardrails")

MAX_CALLS = 64  # at once, of a process
MAX_QUESTION_BYTES = 1024 * 1024
MAX_ANSWER_BYTES = 4 * 1024 * 1024
FAILURES, REST_SECONDS = 5, 10.0


class Means(NamedTuple):
    """What it takes to ask: parts of the gateway."""

    transport: Transport
    watcher: Watcher
    snapshot: Snapshot


class Answer(NamedTuple):
    """What the service of a guardrail says, and for how long it was asked."""

    guardrail: GuardrailSnapshot
    verdict: Verdict
    seconds: float


class RemoteGuardrails:
    """The calls of one process."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(MAX_CALLS, "guardrail")
        self._slots = BoundedSemaphore(MAX_CALLS)
        self._breakers = Breakers(failures=FAILURES, cooldown=REST_SECONDS)

    def ask(self, means: Means, guardrails: Sequence[GuardrailSnapshot], question: Question) -> list[Answer]:
        """What each of them says, in their order; they are asked in parallel."""
        first, *others = guardrails
        futures: list[Future[Answer]] = [self._pool.submit(self._ask, means, one, question) for one in others]
        return [self._ask(means, first, question), *(future.result() for future in futures)]

    def stop(self) -> None:
        """Ask nobody any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, means: Means, guardrail: GuardrailSnapshot, question: Question) -> Answer:
        begun, service = perf_counter(), guardrail.service
        assert service is not None
        verdict = FAILED
        if self._breakers.admits(service) and self._slots.acquire(blocking=False):
            try:
                verdict = self._verdict(means, guardrail, service, question)
            finally:
                self._slots.release()
        return Answer(guardrail, verdict, perf_counter() - begun)

    def _verdict(self, means: Means, guardrail: GuardrailSnapshot, service: Service, question: Question) -> Verdict:
        body = service.body(question)
        if len(body) > MAX_QUESTION_BYTES:  # no fault of the service
            log.warning("The guardrail %s cannot ask about %d bytes.", guardrail.name, len(body))
            return FAILED
        call = Call(client=None, total_seconds=service.timeout_seconds)
        try:
            with means.watcher.watching(call):
                answer = _send(means, service, body, f"{question.request_id}.{guardrail.id}", call)
            verdict = service.verdict(answer, len(question.texts))
        except (GatewayError, Interrupted, ValueError) as error:
            self._breakers.failed(service)
            log.warning("The guardrail %s cannot be asked: %s", guardrail.name, error)
            return FAILED
        self._breakers.succeeded(service)
        return verdict


def _send(means: Means, service: Service, body: bytes, message_id: str, call: Call) -> bytes:
    """The body of the answer. Raises GatewayError and Interrupted."""
    seconds = service.timeout_seconds
    limits = TransportLimits(seconds, seconds, seconds, MAX_ANSWER_BYTES)
    request = _request(means, service, body, message_id)
    try:
        response = means.transport.send(request, limits, call)
    except NotReceived:
        response = means.transport.send(request, limits, call, may_reuse=False)
    response.limit(MAX_ANSWER_BYTES)
    answer = response.read()
    if response.status != 200:
        raise ProviderError(f"It answered with status {response.status}.")
    return answer


def _request(means: Means, service: Service, body: bytes, message_id: str) -> ProviderRequest:
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    at = time()
    if not service.provider_id:
        headers |= signature_headers(service.credential, message_id, int(at), body)
        return ProviderRequest(service.url, body, headers)
    provider = means.snapshot.provider(service.provider_id)
    if provider is None or provider.format is None:
        raise ProviderError(f"There is no enabled provider with the id {service.provider_id}.")
    address = provider.address("/moderations")
    return ProviderRequest(address, body, {**provider.authentication(address, body, at), **headers})
