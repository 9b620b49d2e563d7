"""Provides the functions of the pipeline that lower layers call (gateway_project/hooks.py).

The pipeline is imported by the first call and not when Django starts: most commands do not need it.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from licensing.statistics import count_active_uses
from licensing.status import read_limit_statuses
from providers.health.status import read_provider_health
from telemetry.services import forget_cached_answers

if TYPE_CHECKING:
    from licensing.models import Limit
    from licensing.statistics import Uses
    from licensing.status import LimitStatus
    from providers.health.status import Health
    from providers.models import Provider


def provide_hooks() -> None:
    """Provide all of them."""
    count_active_uses.provide(_active_uses)
    read_limit_statuses.provide(_limit_statuses)
    read_provider_health.provide(_provider_health)
    forget_cached_answers.provide(_forget_answers)


def _active_uses() -> "Uses":
    from gateway_project.work import runtime

    return runtime.active_uses()


def _limit_statuses(limits: "Sequence[Limit]") -> "list[LimitStatus]":
    from gateway_project.work import runtime

    return runtime.limit_statuses(limits)


def _provider_health(providers: "Sequence[Provider]") -> "list[Health]":
    from gateway_project.work import runtime

    return runtime.provider_health(providers)


def _forget_answers(keys: Collection[str]) -> bool:
    from gateway_project.work import runtime

    return runtime.forget_answers(keys)
