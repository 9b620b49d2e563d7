"""Provides the functions of the pipeline that lower layers call (gateway_project/hooks.py).

The pipeline is imported by the first call and not when Django starts: most commands do not need it.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from gateway_project.revocation.receipts import await_in_force
from licensing.statistics import count_active_uses
from licensing.status import read_limit_statuses, read_unpriced
from providers.health.status import read_provider_health
from rules.access_tests.judging import judge_of
from rules.aliases.routing import read_alias_routing, resolve_aliases
from rules.guardrails.detection import check_parameters
from telemetry.journal.hooks import forget_cached_answers, ship_everything

if TYPE_CHECKING:
    from gateway_project.change_feed.cuts import Credential
    from gateway_project.json_types import JsonObject
    from gateway_project.revocation.receipts import InForce
    from licensing.models import Limit, LimitStatus, UnpricedWork
    from licensing.statistics import Uses
    from providers.health.status import Health
    from providers.models import Provider
    from rules.access_tests.judging import Judge
    from rules.access_tests.models import AccessTest
    from rules.aliases.routing import RoutedTarget
    from rules.offers import OfferedAlias, OfferedProvider


def provide_hooks() -> None:
    """Provide all of them."""
    count_active_uses.provide(_count_active_uses)
    read_limit_statuses.provide(_read_limit_statuses)
    read_unpriced.provide(_read_unpriced)
    read_provider_health.provide(_read_provider_health)
    read_alias_routing.provide(_read_alias_routing)
    resolve_aliases.provide(_resolve_aliases)
    judge_of.provide(_judge_of)
    check_parameters.provide(_check_parameters)
    forget_cached_answers.provide(_forget_cached_answers)
    ship_everything.provide(_ship_everything)
    await_in_force.provide(_await_in_force)


def _count_active_uses() -> "Uses":
    from gateway_project.work import runtime

    return runtime.count_active_uses()


def _read_limit_statuses(limits: "Sequence[Limit]") -> "list[LimitStatus]":
    from gateway_project.work import runtime

    return runtime.read_limit_statuses(limits)


def _read_unpriced(limits: "Sequence[Limit]") -> "list[UnpricedWork | None]":
    from gateway_project.work.limits.unpriced import unpriced_work

    return unpriced_work(limits)


def _read_provider_health(providers: "Sequence[Provider]", with_usage: bool) -> "list[Health]":
    from gateway_project.work import runtime

    return runtime.read_provider_health(providers, with_usage)


def _read_alias_routing(alias_id: int) -> "list[RoutedTarget] | None":
    from gateway_project.work import runtime

    return runtime.read_alias_routing(alias_id)


def _resolve_aliases(providers: "Mapping[int, OfferedProvider]") -> "list[OfferedAlias]":
    from gateway_project.work.snapshot.loading import resolve_stored_aliases

    return resolve_stored_aliases(providers)


def _judge_of(tests: "Sequence[AccessTest]") -> "Judge":
    from gateway_project.work.access_tests.judging import StoredJudge

    return StoredJudge(tests)


def _check_parameters(kind: str, parameters: "JsonObject") -> None:
    from gateway_project.work.guardrails.remote.compilation import compile_guardrail

    compile_guardrail(kind, parameters)


def _forget_cached_answers(keys: Collection[str]) -> bool:
    from gateway_project.work import runtime

    return runtime.forget_cached_answers(keys)


def _ship_everything() -> bool:
    from gateway_project.work import runtime

    return runtime.ship_everything()


def _await_in_force(change: int, credentials: "Collection[Credential]", seconds: float) -> "InForce":
    from gateway_project.work import runtime

    return runtime.await_in_force(change, credentials, seconds)
