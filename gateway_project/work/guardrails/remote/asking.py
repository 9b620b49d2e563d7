"""Asks the services of guardrails: several at once, each for a bounded time, and none that keeps failing."""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
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

MAX_CALLS = MAX_MONITORS = 64  # at once, of a process: of those that decide, and of those that only record
MAX_QUESTION_BYTES = 1024 * 1024
MAX_ANSWER_BYTES = 4 * 1024 * 1024
FAILURES, REST_SECONDS = 5, 10.0
REFUSALS = (400, 413, 422)  # statuses by which a service that works refuses a question


class QuestionRefused(ProviderError):
    """The service does not take this question: another one may be answered."""


class ServiceClients(NamedTuple):
    """What it takes to ask: parts of the gateway."""

    transport: Transport
    watcher: Watcher
    snapshot: Snapshot


class Answer(NamedTuple):
    """The verdict of a guardrail's service, and how long the call took."""

    guardrail: GuardrailSnapshot
    verdict: Verdict
    seconds: float


class Inquiry(NamedTuple):
    """A question as one service gets it: so many texts, and until when (perf_counter) its answer counts."""

    guardrail: GuardrailSnapshot
    service: Service
    body: bytes
    text_count: int
    message_id: str
    started_at: float
    deadline: float

    def failure(self) -> Answer:
        """The verdict without an answer, by the guardrail's fail mode."""
        return _failure(self.guardrail, self.started_at)


@dataclass(frozen=True, slots=True)
class LateAnswer:
    """The verdict of a service for which only the request's log entry waits."""

    guardrail: GuardrailSnapshot
    started_at: float
    future: Future[Answer]

    def result(self) -> Answer:
        """The answer; a failure if the service raises, or does not answer within its time-out."""
        service = self.guardrail.service
        assert service is not None
        try:
            return self.future.result(max(0.0, self.started_at + service.timeout_seconds - perf_counter()))
        except Exception as error:
            self.future.cancel()
            log.warning("The service of the guardrail %s gave no valid answer: %r", self.guardrail.name, error)
            return _failure(self.guardrail, self.started_at)


class Threads:
    """Threads that call services, each with a slot: a call without a slot fails at once, so none waits for one."""

    def __init__(self, name: str, count: int) -> None:
        self.slots = BoundedSemaphore(count)
        self._pool = ThreadPoolExecutor(count, name)

    def begin(self, ask: Callable[[], Answer]) -> Future[Answer] | None:
        """The answer to come; None without a free slot or a thread."""
        if not self.slots.acquire(blocking=False):
            return None
        try:
            future = self._pool.submit(ask)
        except RuntimeError:  # the process stops, or has no thread left
            self.slots.release()
            return None
        future.add_done_callback(self._release)
        return future

    def stop(self) -> None:
        """Begin nothing any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _release(self, _: Future[Answer]) -> None:
        self.slots.release()


class RemoteGuardrails:
    """The calls of one process. Those that only record have threads of their own: who decides never waits for them."""

    def __init__(self) -> None:
        self._deciding, self._monitors = Threads("guardrail", MAX_CALLS), Threads("monitor", MAX_MONITORS)
        self._breakers = Breakers(failures=FAILURES, cooldown=REST_SECONDS)

    def ask(self, clients: ServiceClients, guardrails: Sequence[GuardrailSnapshot], question: Question) -> list[Answer]:
        """The verdict of each service, in order; they are called in parallel."""
        if not guardrails:
            return []
        first, *others = guardrails
        later = [self._begin(self._deciding, clients, guardrail, question) for guardrail in others]
        return [self._ask_here(clients, first, question), *(answer.result() for answer in later)]

    def ask_late(
        self, clients: ServiceClients, guardrails: Sequence[GuardrailSnapshot], question: Question
    ) -> list[LateAnswer]:
        """Call them in other threads without waiting."""
        return [self._begin(self._monitors, clients, guardrail, question) for guardrail in guardrails]

    def stop(self) -> None:
        """Begin no more calls."""
        self._deciding.stop()
        self._monitors.stop()

    def _begin(
        self, threads: Threads, clients: ServiceClients, guardrail: GuardrailSnapshot, question: Question
    ) -> LateAnswer:
        """Ask in another thread; what cannot be asked at once has failed."""
        started_at = perf_counter()
        inquiry = self._inquiry(guardrail, question, started_at)
        future = None if inquiry is None else threads.begin(partial(self._ask, clients, inquiry))
        if future is None:
            future = Future()
            future.set_result(_failure(guardrail, started_at))
        return LateAnswer(guardrail, started_at, future)

    def _ask_here(self, clients: ServiceClients, guardrail: GuardrailSnapshot, question: Question) -> Answer:
        started_at, slots = perf_counter(), self._deciding.slots
        inquiry = self._inquiry(guardrail, question, started_at)
        if inquiry is None or not slots.acquire(blocking=False):
            return _failure(guardrail, started_at)
        try:
            return self._ask(clients, inquiry)
        finally:
            slots.release()

    def _inquiry(self, guardrail: GuardrailSnapshot, question: Question, started_at: float) -> Inquiry | None:
        """The question for its service; None if the service rests, or cannot be asked about these texts."""
        service = guardrail.service
        assert service is not None
        if self._breakers.is_resting(service) or (body := _body(guardrail, service, question)) is None:
            return None
        # Each question has a new id: receivers take messages with the same id for one that was sent again.
        message_id, deadline = f"{question.request_id}.{token_hex(4)}", started_at + service.timeout_seconds
        return Inquiry(guardrail, service, body, len(question.texts), message_id, started_at, deadline)

    def _ask(self, clients: ServiceClients, inquiry: Inquiry) -> Answer:
        """The answer within the time that is left."""
        seconds, service = inquiry.deadline - perf_counter(), inquiry.service
        if seconds <= 0 or not self._breakers.admits(service):
            return inquiry.failure()
        call = Call(client=None, total_seconds=seconds)
        try:
            with clients.watcher.watch_call(call):
                answer = _send(clients, inquiry, call, seconds)
            verdict = service.verdict(answer, inquiry.text_count)
        except (GatewayError, Interrupted, ValueError) as error:
            note_outcome = (
                self._breakers.record_success if isinstance(error, QuestionRefused) else self._breakers.record_failure
            )
            note_outcome(service)
            log.warning("The service of the guardrail %s cannot be called: %s", inquiry.guardrail.name, error)
            return inquiry.failure()
        self._breakers.record_success(service)
        return Answer(inquiry.guardrail, verdict, perf_counter() - inquiry.started_at)


def _failure(guardrail: GuardrailSnapshot, started_at: float) -> Answer:
    return Answer(guardrail, FAILED, perf_counter() - started_at)


def _body(guardrail: GuardrailSnapshot, service: Service, question: Question) -> bytes | None:
    """The body to send; None if these texts cannot be sent, which is not a failure of the service."""
    size = sum(map(len, question.texts))  # the least that it can have: most of what is too long is not even written
    try:
        body = service.body(question) if size <= MAX_QUESTION_BYTES else b""
    except ValueError as error:
        log.warning("The guardrail %s cannot call its service: %s", guardrail.name, error)
        return None
    if (size := max(size, len(body))) <= MAX_QUESTION_BYTES:
        return body
    log.warning("The guardrail %s cannot send %d bytes to its service.", guardrail.name, size)
    return None


def _send(clients: ServiceClients, inquiry: Inquiry, call: Call, seconds: float) -> bytes:
    """The body of the answer. Raises GatewayError and Interrupted."""
    limits = TransportLimits(seconds, seconds, seconds, MAX_ANSWER_BYTES)
    request = _request(clients, inquiry.service, inquiry.body, inquiry.message_id)
    try:
        response = clients.transport.send(request, limits, call)
    except NotReceived:
        response = clients.transport.send(request, limits, call, may_reuse=False)
    response.limit(MAX_ANSWER_BYTES)
    answer = response.read()
    if response.status != 200:
        error = QuestionRefused if response.status in REFUSALS else ProviderError
        raise error(f"It answered with status {response.status}.")
    return answer


def _request(clients: ServiceClients, service: Service, body: bytes, message_id: str) -> ProviderRequest:
    at = time()
    if not service.provider_id:
        headers = signature_headers(service.credential, message_id, int(at), body)
        return ProviderRequest(service.url, body, headers)
    provider = clients.snapshot.provider(service.provider_id)
    if provider is None or provider.format is None:
        raise ProviderError(f"There is no enabled provider with the id {service.provider_id}.")
    address = provider.address("/moderations")
    return ProviderRequest(address, body, provider.authentication(address, body, at))
