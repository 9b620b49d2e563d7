"""What a click can do about a problem of the rule book: a change by the service of its resource, and its audit.

No click opens access. A rule that would is only prepared: disabled, for an administrator to check and to enable.
"""

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import count
from typing import Any, NamedTuple

from django.db.models import Model as Row

from accounts.models import Group
from gateway_project.api.viewsets import ApiViewSet
from gateway_project.errors import NotFound
from keys.models import ApiKey
from keys.services import update_key
from keys.viewsets import KeyViewSet
from providers.models import Model
from rules.aliases.models import Alias
from rules.aliases.services import update_alias
from rules.aliases.viewsets import AliasViewSet
from rules.models import Effect, Rule
from rules.services import create_rule, update_rule
from rules.viewsets import RuleViewSet

MAX_NAME_LENGTH = 100


class Action(StrEnum):
    """What a fix does."""

    DISABLE_RULE = "disableRule"
    OPEN_RULE = "openRule"
    CREATE_GROUP_RULE = "createGroupRule"
    CREATE_MODEL_RULE = "createModelRule"
    CREATE_ALIAS_RULE = "createAliasRule"
    LOCK_KEY = "lockKey"
    DISABLE_ALIAS = "disableAlias"

    @property
    def label(self) -> str:
        return LABELS[self]


LABELS = {
    Action.DISABLE_RULE: "Disable the rule",
    Action.OPEN_RULE: "Open the rule",
    Action.CREATE_GROUP_RULE: "Prepare a disabled rule for the group",
    Action.CREATE_MODEL_RULE: "Prepare a disabled rule for the model",
    Action.CREATE_ALIAS_RULE: "Prepare a disabled rule for the alias",
    Action.LOCK_KEY: "Lock the key",
    Action.DISABLE_ALIAS: "Disable the alias",
}


class Fix(NamedTuple):
    """An action and the id of the row that it is about: of the rule, group, model, key or alias."""

    action: Action
    id: int


class Fixed(NamedTuple):
    """What was changed: for the audit, and for the page that shows it. Without an operation nothing was."""

    viewset: type[ApiViewSet[Any]]
    operation: str
    row: Row
    before: object = None
    attributes: tuple[str, ...] = ()


def apply_fix(fix: Fix) -> Fixed:
    """Make the change. Raises GatewayError, NotFound if what it is about is gone."""
    rows, apply = FIXES[fix.action]
    row = rows._default_manager.filter(pk=fix.id).first()
    if row is None:
        raise NotFound(f"No {rows._meta.verbose_name} with id {fix.id}.")
    return apply(row)


def _disable_rule(rule: Rule) -> Fixed:
    before = RuleViewSet.serialize_row(rule)
    update_rule(rule, enabled=False)
    return Fixed(RuleViewSet, "update", rule, before, ("enabled",))


def _open_rule(rule: Rule) -> Fixed:
    return Fixed(RuleViewSet, "", rule)


def _create_group_rule(group: Group) -> Fixed:
    return _prepare_rule(f"Group {group.name}", ("groupId",), group_id=group.pk)


def _create_model_rule(model: Model) -> Fixed:
    name, pattern = f"Model {model.provider.name}/{model.name}", re.escape(model.name)
    return _prepare_rule(name, ("regex", "providerId"), regex=pattern, provider_id=model.provider_id)


def _create_alias_rule(alias: Alias) -> Fixed:
    pattern = ".*".join(map(re.escape, alias.name.split("*")))
    return _prepare_rule(f"Alias {alias.name}", ("regex",), regex=pattern)


def _prepare_rule(
    name: str,
    attributes: tuple[str, ...],
    *,
    regex: str = "",
    group_id: int | None = None,
    provider_id: int | None = None,
) -> Fixed:
    """A disabled rule for this group, or with this pattern and provider: the first that there is, else a new one."""
    disabled = Rule.objects.filter(enabled=False, effect=Effect.ALLOW).order_by("pk")
    same = disabled.filter(group=group_id) if group_id else disabled.filter(regex=regex, provider=provider_id)
    if (rule := same.first()) is not None:
        return Fixed(RuleViewSet, "", rule)
    rule = create_rule(name=_free_name(name), enabled=False, regex=regex, group_id=group_id, provider_id=provider_id)
    return Fixed(RuleViewSet, "create", rule, None, ("name", "enabled", *attributes))


def _free_name(text: str) -> str:
    """A name that no rule has."""
    return next(name for name in _names(text) if not Rule.objects.filter(name=name).exists())


def _names(text: str) -> Iterator[str]:
    for number in count(1):
        end = f" {number}" if number > 1 else ""
        yield text[: MAX_NAME_LENGTH - len(end)].strip() + end


def _lock_key(key: ApiKey) -> Fixed:
    before = KeyViewSet.serialize_row(key)
    update_key(key, locked=True)
    return Fixed(KeyViewSet, "update", key, before, ("locked",))


def _disable_alias(alias: Alias) -> Fixed:
    before = AliasViewSet.serialize_row(alias)
    update_alias(alias, enabled=False)
    return Fixed(AliasViewSet, "update", alias, before, ("enabled",))


FIXES: dict[Action, tuple[type[Row], Callable[[Any], Fixed]]] = {
    Action.DISABLE_RULE: (Rule, _disable_rule),
    Action.OPEN_RULE: (Rule, _open_rule),
    Action.CREATE_GROUP_RULE: (Group, _create_group_rule),
    Action.CREATE_MODEL_RULE: (Model, _create_model_rule),
    Action.CREATE_ALIAS_RULE: (Alias, _create_alias_rule),
    Action.LOCK_KEY: (ApiKey, _lock_key),
    Action.DISABLE_ALIAS: (Alias, _disable_alias),
}
