"""What a click can do about a problem of the rule book: a change by the service of its resource, and its audit."""

import re
from collections.abc import Callable
from enum import StrEnum
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
from rules.models import Rule
from rules.services import create_rule, update_rule
from rules.viewsets import RuleViewSet

MAX_NAME_LENGTH = 100


class Action(StrEnum):
    """What a fix does."""

    DISABLE_RULE = "disableRule"
    CREATE_GROUP_RULE = "createGroupRule"
    CREATE_MODEL_RULE = "createModelRule"
    LOCK_KEY = "lockKey"
    DISABLE_ALIAS = "disableAlias"

    @property
    def label(self) -> str:
        return LABELS[self]


LABELS = {
    Action.DISABLE_RULE: "Disable the rule",
    Action.CREATE_GROUP_RULE: "Create a disabled rule for the group",
    Action.CREATE_MODEL_RULE: "Create a disabled rule for the model",
    Action.LOCK_KEY: "Lock the key",
    Action.DISABLE_ALIAS: "Disable the alias",
}


class Fix(NamedTuple):
    """An action and the id of the row that it is about: of the rule, group, model, key or alias."""

    action: Action
    id: int


class Fixed(NamedTuple):
    """What was changed: for the audit, and for the page that shows it."""

    viewset: type[ApiViewSet[Any]]
    operation: str
    row: Row
    before: object
    attributes: tuple[str, ...]


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


def _create_group_rule(group: Group) -> Fixed:
    rule = create_rule(name=_name(f"Group {group.name}"), enabled=False, group_id=group.pk)
    return Fixed(RuleViewSet, "create", rule, None, ("name", "enabled", "groupId"))


def _create_model_rule(model: Model) -> Fixed:
    rule = create_rule(
        name=_name(f"Model {model.provider.name}/{model.name}"),
        enabled=False,
        regex=re.escape(model.name),
        provider_id=model.provider_id,
    )
    return Fixed(RuleViewSet, "create", rule, None, ("name", "enabled", "regex", "providerId"))


def _lock_key(key: ApiKey) -> Fixed:
    before = KeyViewSet.serialize_row(key)
    update_key(key, locked=True)
    return Fixed(KeyViewSet, "update", key, before, ("locked",))


def _disable_alias(alias: Alias) -> Fixed:
    before = AliasViewSet.serialize_row(alias)
    update_alias(alias, enabled=False)
    return Fixed(AliasViewSet, "update", alias, before, ("enabled",))


def _name(text: str) -> str:
    return text[:MAX_NAME_LENGTH].strip()


FIXES: dict[Action, tuple[type[Row], Callable[[Any], Fixed]]] = {
    Action.DISABLE_RULE: (Rule, _disable_rule),
    Action.CREATE_GROUP_RULE: (Group, _create_group_rule),
    Action.CREATE_MODEL_RULE: (Model, _create_model_rule),
    Action.LOCK_KEY: (ApiKey, _lock_key),
    Action.DISABLE_ALIAS: (Alias, _disable_alias),
}
