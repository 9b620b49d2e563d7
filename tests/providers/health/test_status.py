"""How providers are, in one word."""

from datetime import UTC, datetime

import pytest

from providers.health.status import RECENT_SECONDS, Health, HealthState, LastError, ModelHealth, state_of

pytestmark = pytest.mark.either_store

NOW = 1_000_000.0
HEALTHY, FAILING = HealthState.HEALTHY, HealthState.FAILING
MOMENT = datetime(2026, 11, 24, 12, tzinfo=UTC)
RESTING = 'until <time datetime="2026-11-24T12:00:00Z">12:00:00 UTC</time>'


def latest(marks):
    """Results a second apart, + for success and - for failure, up to now."""
    return [(NOW - len(marks) + number, mark == "+") for number, mark in enumerate(marks)]


@pytest.mark.parametrize(
    ("marks", "state"),
    [
        ("", HealthState.UNKNOWN),
        ("+", HEALTHY),
        ("-", FAILING),
        ("+-----", FAILING),
        ("+++++-", HEALTHY),
        ("-+", FAILING),
        ("-----+++++", FAILING),
        ("----++++++", HEALTHY),
    ],
)
def test_it_fails_while_half_of_its_latest_attempts_do(marks, state):
    assert state_of(latest(marks), NOW) is state


def test_old_results_say_nothing_about_the_present():
    assert state_of([(NOW - RECENT_SECONDS, False)], NOW) is HealthState.UNKNOWN
    assert state_of([(NOW - RECENT_SECONDS, False), (NOW - RECENT_SECONDS + 1, True)], NOW) is HEALTHY


def model(name="m", state=HEALTHY, error=None):
    return ModelHealth(name, state, attempts=6, failures=5, last_error=error)


@pytest.mark.parametrize(
    ("health", "state"),
    [
        (Health(is_enabled=False, rests_until=MOMENT, models=(model(state=FAILING),)), HealthState.DISABLED),
        (Health(is_enabled=True, rests_until=MOMENT, models=(model(state=FAILING),)), HealthState.RESTING),
        (Health(is_enabled=True, models=(model(), model("n", FAILING))), FAILING),
        (Health(is_enabled=True, open_circuits=1, models=(model(),)), FAILING),
        (Health(is_enabled=True, models=(model(), model("n", HealthState.UNKNOWN))), HEALTHY),
        (Health(is_enabled=True, processes=2), HealthState.UNKNOWN),
        (Health(is_enabled=True), HealthState.UNKNOWN),
    ],
)
def test_the_worst_of_its_models_counts(health, state):
    assert health.state is state


@pytest.mark.parametrize(
    ("health", "badge"),
    [
        (Health(is_enabled=False, rests_until=MOMENT), ("Disabled", "", "")),
        (Health(is_enabled=True, rests_until=MOMENT), ("Resting", "warning", RESTING)),
        (Health(is_enabled=True, models=(model(),)), ("Healthy", "success", "")),
    ],
)
def test_its_state_is_a_badge_with_the_end_of_a_rest(health, badge):
    assert health.badge == badge


@pytest.mark.parametrize(
    ("state", "error", "badge"),
    [
        (HEALTHY, None, ("Healthy", "success", "")),
        (HealthState.UNKNOWN, None, ("Unknown", "info", "not asked in the last 10 minutes")),
        (FAILING, None, ("Failing", "danger", "3 of 4 attempts in the last 10 minutes")),
        (
            FAILING,
            LastError(MOMENT, "m", "ProviderTimeout", "late"),
            ("Failing", "danger", "3 of 4 attempts in the last 10 minutes, last error ProviderTimeout"),
        ),
    ],
)
def test_the_state_of_a_model_is_a_badge_too(state, error, badge):
    assert model(state=state, error=error)._replace(recent=4, recent_failures=3).badge == badge


def test_it_sums_its_models_and_knows_the_last_of_their_errors():
    early = LastError(MOMENT, "n", "ProviderError", "first")
    late = LastError(MOMENT.replace(hour=13), "m", "ProviderTimeout", "second")
    health = Health(is_enabled=True, models=(model(error=late), model("n", error=early), model("o")))
    assert (health.attempts, health.failures, health.last_error) == (18, 15, late)
    assert Health(is_enabled=True).last_error is None
