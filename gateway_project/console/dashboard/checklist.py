"""The first steps of a new installation: each ticks itself, and with the first answered request they disappear."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from django.urls import reverse

from accounts.models import User
from keys.models import ApiKey
from providers.models import Model, Provider
from rules.models import Effect, Rule
from telemetry.models import UsageHour


class Step(NamedTuple):
    """A step: its title, why it is needed, the page below admin: where it is done, and whether it is done."""

    title: str
    reason: str
    page: str
    check: Callable[[], bool]


class TickedStep(NamedTuple):
    title: str
    reason: str
    address: str
    is_done: bool


def _has_provider() -> bool:
    return Provider.objects.enabled().exists()


def _has_model() -> bool:
    return Model.objects.filter(provider__enabled=True).exists()


def _has_users() -> bool:
    return len(User.objects.live()[:2]) > 1


def _has_rule() -> bool:
    return Rule.objects.enabled().filter(effect=Effect.ALLOW).exists()


def _has_key() -> bool:
    return ApiKey.objects.usable().exists()


def _was_used() -> bool:
    return UsageHour.objects.filter(completed__gt=0).exists()


STEPS = (
    Step("Add a provider", "A provider answers the requests.", "providers_provider_add", _has_provider),
    Step("Add models", "Fetch the models on the provider's page.", "providers_provider_changelist", _has_model),
    Step("Create users", "Users are the people and programs that send requests.", "accounts_user_add", _has_users),
    Step("Create a rule", "Without a rule the gateway denies every request.", "rules_rule_add", _has_rule),
    Step("Issue a key", "Clients send a key with each request.", "keys_apikey_add", _has_key),
    Step("Send the first request", "Use the playground, or your own client.", "playground", _was_used),
)
# Whether this process has seen a request that was answered: from then on nothing is looked up.
_uses: set[bool] = set()


def first_steps() -> Sequence[TickedStep]:
    """All steps with what is done; none once a request was answered."""
    if _uses or _was_used():
        _uses.add(True)
        return ()
    return [TickedStep(step.title, step.reason, reverse(f"admin:{step.page}"), step.check()) for step in STEPS]
