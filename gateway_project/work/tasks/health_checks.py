"""Active checks of providers, by one of all processes at a time; they count towards no caller and no limit."""

import logging
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress

from django.utils import timezone

from gateway_project.background import BackgroundThread
from gateway_project.work.failover.attempts import failure_event, subject_of
from gateway_project.work.failover.checking import CheckResult, check_target
from gateway_project.work.gateway import Gateway
from gateway_project.work.log.timestamps import timestamp
from gateway_project.work.snapshot.records import ProviderSnapshot, Target
from providers.health.checks import claim_check, store_result
from providers.health.status import RECENT_SECONDS, HealthState, state_of
from telemetry.journal.files import JournalFull
from telemetry.journal.records import empty_log_entry, to_record
from telemetry.metrics.attempts import AttemptStart, AttemptSuccess, Record

log = logging.getLogger("gateway.checks")

TICK_SECONDS = 1.0


class HealthChecker(BackgroundThread):
    """The thread that checks providers which have `healthCheckSeconds`, one after the other."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__("health checker", log, every=TICK_SECONDS)
        self._gateway = gateway
        self._due: dict[int, float] = {}  # by provider id, of this process's next try

    def run_once(self) -> None:
        due = [provider for provider in self._gateway.snapshot.providers.values() if self._is_due(provider)]
        if not due:
            return
        records = self._gateway.metrics.gather_attempts().by_provider()
        for provider in due:
            if self.stopped.is_set():
                return
            self._check(provider, records.get(provider.id, {}))

    def _is_due(self, provider: ProviderSnapshot) -> bool:
        """Whether it is time to see if it has to be checked."""
        seconds, now = provider.health_check_seconds, time.monotonic()
        if not seconds or now < self._due.get(provider.id, 0.0):
            return False
        self._due[provider.id] = now + seconds
        return True

    def _check(self, provider: ProviderSnapshot, records: Mapping[str, Record]) -> None:
        seconds = provider.health_check_seconds
        model = model_to_check(provider.models, records, seconds, always=provider.health_check_always)
        account = None if model is None else _account(provider, model, self._gateway)
        if account is None or model is None or not claim_check(provider.id, every=seconds, now=timezone.now()):
            return
        target = Target(account, model)
        self._gateway.metrics.note_attempt(AttemptStart(subject_of(target), is_check=True))
        self._note(check_target(target, self._gateway.transport, self._gateway.watcher))

    def _note(self, result: CheckResult) -> None:
        """Count the result, tell the circuit breaker, and log it if it differs from that of the last check."""
        gateway, (target, error, duration_ms) = self._gateway, result
        if error is None:
            gateway.breakers.record_success(target.provider)
            gateway.rests.record_success(target)
            gateway.metrics.note_attempt(AttemptSuccess(subject_of(target), time.time(), is_check=True))
        else:
            gateway.metrics.note_attempt(failure_event(target, error, error.message, is_broken=True, is_check=True))
        exception = error.exception if error is not None else ""
        if store_result(target.provider.id, model=target.model, exception=exception, duration_ms=duration_ms):
            with suppress(JournalFull):
                gateway.journal.append_event(to_record(_entry(result)))


def model_to_check(
    models: Collection[str], records: Mapping[str, Record], seconds: float, *, always: bool
) -> str | None:
    """The failing model that was asked least recently; with `always` any model, if none fails."""
    failing = list(_failing_models(models, records, max(RECENT_SECONDS, 2 * seconds)))
    candidates = failing or (sorted(models) if always else [])
    return min(candidates, key=lambda model: _last_asked(records.get(model)), default=None)


def _failing_models(models: Collection[str], records: Mapping[str, Record], within: float) -> Iterator[str]:
    """The models whose latest results are failures; a linked key may have had others fail, which are no model's."""
    now = time.time()
    for model in sorted(models):
        record = records.get(model)
        if record is not None and state_of(record.latest, now, within=within) is HealthState.FAILING:
            yield model


def _last_asked(record: Record | None) -> float:
    return record.latest[-1][0] if record is not None and record.latest else 0.0


def _account(provider: ProviderSnapshot, model: str, gateway: Gateway) -> ProviderSnapshot | None:
    """The account to ask with: one whose circuit is open first, and none that asked for a pause."""
    accounts = [account for account in provider.accounts if gateway.rests.current(Target(account, model)) is None]
    return next(filter(gateway.breakers.is_resting, accounts), accounts[0] if accounts else None)


def _entry(result: CheckResult) -> dict[str, object]:
    """The log entry of a check; it belongs to no user, so that only those who see all read it."""
    (provider, model), error, duration_ms = result
    words = f"answered within {duration_ms:.0f} ms" if error is None else f"failed: {error.message}"
    return empty_log_entry() | {
        "entry_type": "Message",
        "timestamp": timestamp(time.time()),
        "message": f"Health check: {model} of {provider.name} {words}",
        "severity": "info" if error is None else "warning",
        "exception": error.exception if error is not None else "",
        "model": model,
        "provider_id": provider.id,
        "provider_name": provider.name,
        "tags": {"check": "health"},
    }
