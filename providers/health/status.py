"""How providers are at this moment, as the processes of this machine see them."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from django.utils.html import format_html

from gateway_project.console.display.badges import Badge
from gateway_project.console.display.times import utc_time
from gateway_project.hooks import Hook
from gateway_project.json_types import JsonObject
from providers.models import Provider

# For so long a result says something about the present.
RECENT_SECONDS = 600.0
NOT_ASKED = "not asked in the last 10 minutes"


class HealthState(StrEnum):
    """One word on a provider, or on a model of it."""

    HEALTHY = "healthy"
    FAILING = "failing"  # of its latest attempts at least half failed, or its circuit is open
    RESTING = "resting"  # it sent Retry-After
    DISABLED = "disabled"
    UNKNOWN = "unknown"  # it was not asked of late


class LastError(NamedTuple):
    """The last failure. The message may name internal addresses: only administrators read it."""

    at: datetime
    model: str
    exception: str
    message: str


class ModelHealth(NamedTuple):
    """One model of a provider: attempts and active checks since the gateway started."""

    model: str
    state: HealthState
    attempts: int
    failures: int
    checks: int = 0
    failed_checks: int = 0
    last_error: LastError | None = None
    recent: int = 0  # attempts and checks of the last RECENT_SECONDS, in full minutes
    recent_failures: int = 0

    @property
    def badge(self) -> Badge:
        """The state in words, with the reason, as that of a provider."""
        return Badge(self.state.value.capitalize(), KINDS[self.state], _reason_of_model(self))


class Health(NamedTuple):
    """One provider as the processes of this machine see it, and what it served of late."""

    is_enabled: bool
    processes: int = 0  # that know it: they learn of a change within a second
    open_circuits: int = 0  # of them those that do not ask it, because it failed, while another provider can serve
    rests_until: datetime | None = None  # because it sent Retry-After; the latest of the processes
    models: tuple[ModelHealth, ...] = ()
    # Since the beginning of the last hour (telemetry.usage.statistics); None without requests, or if nobody asked.
    usage: JsonObject | None = None

    @property
    def state(self) -> HealthState:
        """The provider in one word: it fails if one of its models does."""
        if not self.is_enabled:
            return HealthState.DISABLED
        if self.rests_until:
            return HealthState.RESTING
        states = {model.state for model in self.models}
        if self.open_circuits or HealthState.FAILING in states:
            return HealthState.FAILING
        return HealthState.HEALTHY if HealthState.HEALTHY in states else HealthState.UNKNOWN

    @property
    def attempts(self) -> int:
        return sum(model.attempts for model in self.models)

    @property
    def failures(self) -> int:
        return sum(model.failures for model in self.models)

    @property
    def badge(self) -> Badge:
        """The state in words, as all pages show it, with the reason."""
        return Badge(self.state.value.capitalize(), KINDS[self.state], _reason(self))

    @property
    def last_error(self) -> LastError | None:
        return max((model.last_error for model in self.models if model.last_error), default=None)


KINDS = {
    HealthState.HEALTHY: "success",
    HealthState.FAILING: "danger",
    HealthState.RESTING: "warning",
    HealthState.DISABLED: "",
    HealthState.UNKNOWN: "info",
}


def _reason(health: Health) -> str:
    """Why a provider has its state; '' where the word says it all."""
    if health.state is HealthState.RESTING and health.rests_until:
        return format_html("until {}", utc_time(health.rests_until, "%H:%M:%S UTC"))
    if health.state is HealthState.UNKNOWN:
        return NOT_ASKED
    if health.state is not HealthState.FAILING:
        return ""
    failing = [model for model in health.models if model.state is HealthState.FAILING] or health.models
    return _failures(failing, health.last_error)


def _reason_of_model(model: ModelHealth) -> str:
    if model.state is HealthState.UNKNOWN:
        return NOT_ASKED
    return _failures([model], model.last_error) if model.state is HealthState.FAILING else ""


def _failures(failing: Iterable[ModelHealth], last_error: LastError | None) -> str:
    """How many of the latest attempts failed, and how the last one did."""
    recent = [(model.recent, model.recent_failures) for model in failing]
    attempts, failures = sum(number for number, _ in recent), sum(number for _, number in recent)
    reason = f"{failures} of {attempts} attempts in the last 10 minutes" if attempts else "its circuit is open"
    return f"{reason}, last error {last_error.exception}" if last_error else reason


def recent_results(results: Iterable[tuple[float, bool]], now: float, *, within: float = RECENT_SECONDS) -> list[bool]:
    """Whether each attempt of the latest ones that are recent succeeded."""
    return [succeeded for at, succeeded in results if at > now - within]


def state_of(results: Iterable[tuple[float, bool]], now: float, *, within: float = RECENT_SECONDS) -> HealthState:
    """The state that follows from the latest results: pairs of a time and whether the attempt succeeded."""
    recent = recent_results(results, now, within=within)
    if not recent:
        return HealthState.UNKNOWN
    return HealthState.FAILING if 2 * recent.count(False) >= len(recent) else HealthState.HEALTHY


# The health of each provider, over all processes of this machine; with what it served of late, if that is asked for.
read_provider_health: Hook[[Sequence[Provider], bool], list[Health]] = Hook("read_provider_health")


def health_of(providers: Sequence[Provider], *, with_usage: bool = False) -> list[Health]:
    """The health of each provider."""
    return read_provider_health(providers, with_usage) if providers else []
