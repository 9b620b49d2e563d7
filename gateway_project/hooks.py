"""Functions that a lower layer calls and an upper layer provides.

The module that calls a function declares a Hook for it, with its type; the app whose code has the function provides it
in AppConfig.ready(), or in load_console() if the console calls it. HOOKS lists them all:

| hook | called by | provided by |
|---|---|---|
| `store_change` | `gateway_project.api.audit` | `telemetry.audit.recording` |
| `require_licence` | `gateway_project.api.access` | `licensing.services` |
| `administered_groups` | `gateway_project.api.access` | `accounts.managing.groups` |
| `delete_keys_of` | `accounts.scim.services` | `keys.services` |
| `is_name_of_alias` | `providers.services` | `rules.aliases.querysets` |
| `read_costs_of_keys` | `keys.admin` | `telemetry.usage.key_costs` |
| `read_model_traffic` | `providers.console.listed_models` | `telemetry.usage.model_traffic` |
| `count_rules_of_model` | `providers.console.parts` | `rules.snapshots` |
| `set_own_limits` | `keys.viewsets`, `keys.admin` | `licensing.key_limits` |
| `has_live_login` | `gateway_project.console.site` | `accounts.console` |
| `second_step` | `gateway_project.console.site` | `accounts.second_factor.login_step` |
| `sign_on_choices` | `gateway_project.console.site` | `accounts.sso.login_providers` |
| `leave_provider` | `gateway_project.console.site` | `accounts.sso.logout` |
| `count_active_uses` | `licensing.statistics` | `gateway_project.work.runtime` |
| `read_limit_statuses` | `licensing.status` | `gateway_project.work.runtime` |
| `read_unpriced` | `licensing.status` | `gateway_project.work.limits.unpriced` |
| `read_alias_routing` | `rules.aliases.routing` | `gateway_project.work.runtime` |
| `watch_access` | `gateway_project.database.guarding` | `rules.access_tests.watching` |
| `judge_of` | `rules.access_tests.judging` | `gateway_project.work.access_tests.judging` |
| `resolve_aliases` | `rules.aliases.routing` | `gateway_project.work.snapshot.loading` |
| `check_parameters` | `rules.guardrails.detection` | `gateway_project.work.guardrails.remote.compilation` |
| `read_provider_health` | `providers.health.status` | `gateway_project.work.runtime` |
| `forget_cached_answers` | `telemetry.services` | `gateway_project.work.runtime` |
| `ship_everything` | `telemetry.services` | `gateway_project.work.runtime` |
| `await_in_force` | `gateway_project.revocation.receipts` | `gateway_project.work.runtime` |
"""

from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

HOOKS: "dict[str, Hook[..., Any]]" = {}


class Hook(Generic[_Arguments, _Result]):
    """A function that is provided when Django starts; raises RuntimeError when it is called before."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.function: Callable[_Arguments, _Result] | None = None
        HOOKS[name] = self

    def provide(self, function: Callable[_Arguments, _Result]) -> None:
        """Set the function that calls of this hook go to."""
        self.function = function

    def __call__(self, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        if self.function is None:
            raise RuntimeError(f"No app provides the hook {self.name}.")
        return self.function(*args, **kwargs)
