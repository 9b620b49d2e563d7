"""Every change to access rules."""

from collections.abc import Callable
from typing import TypedDict, TypeVar, Unpack

from django.conf import settings
from django.db.models import Model, Q, QuerySet

from accounts.models import Group, User
from gateway_project.database.guarding import Access, guarded_change
from gateway_project.database.saving import lock_id, lock_row, rows_by_id, save_or_refuse
from gateway_project.errors import Conflict, NotFound, ValidationError
from providers.models import Provider
from rules.matching import DEFAULT_POSITION
from rules.models import Effect, Everyone, Rule, RuleVersion
from rules.patterns import compile_pattern
from rules.versions.models import RuleChange
from rules.versions.recording import record_first_versions, record_version

Row = TypeVar("Row", bound=Model)


class RuleChanges(TypedDict, total=False):
    """The parameters of create_rule(), each of which an update may leave out."""

    name: str
    description: str
    enabled: bool
    effect: str
    position: int
    regex: str | None
    user_id: int | None
    group_id: int | None
    provider_id: int | None
    is_delegated: bool


@guarded_change(Access.RULES)
def create_rule(
    *,
    name: str,
    description: str = "",
    enabled: bool = True,
    effect: str = Effect.ALLOW,
    position: int = DEFAULT_POSITION,
    regex: str | None = "",
    user_id: int | None = None,
    group_id: int | None = None,
    provider_id: int | None = None,
    is_delegated: bool = False,
) -> Rule:
    """Create a rule; `user_id` or `group_id` 0 makes it one for everyone, `provider_id` 0 or None is any provider.

    `is_delegated` says that an admin of its group writes it; any other change takes it from them.
    Raises Conflict if the name exists, and ValidationError.
    """
    rule = Rule(name=name, description=description, enabled=enabled, effect=effect, is_delegated=is_delegated)
    _write(
        rule,
        {
            "is_delegated": is_delegated,
            "position": position,
            "regex": regex,
            "user_id": user_id,
            "group_id": group_id,
            "provider_id": provider_id,
        },
    )
    record_version(rule, RuleChange.CREATE)
    return rule


def allow_any_rule(rule: Rule) -> None:
    """The default of `check`: everybody who comes this far may."""


@guarded_change(Access.RULES)
def update_rule(rule: Rule, *, check: Callable[[Rule], None] = allow_any_rule, **changes: Unpack[RuleChanges]) -> None:
    """Store changes with the names of create_rule(); `user_id` or `group_id` None removes the present one.

    `check` gets the rule as it is stored, locked, and raises if it must not be changed. Raises Conflict and
    ValidationError as above, and NotFound if the rule is gone.
    """
    lock_row(rule, Rule.objects.all())
    check(rule)
    record_first_versions([rule])
    _write(rule, changes)
    record_version(rule, RuleChange.UPDATE)


@guarded_change(Access.RULES)
def delete_rule(rule: Rule, *, check: Callable[[Rule], None] = allow_any_rule) -> None:
    """Delete a rule: what only it allowed is denied from then on, and what only it denied is left to the others.

    Its versions stay. Raises NotFound if the rule is gone.
    """
    lock_row(rule, Rule.objects.all())
    check(rule)
    record_first_versions([rule])
    record_version(rule, RuleChange.DELETE)
    rule.delete()


@guarded_change(Access.RULES)
def restore_rule(*, rule_id: int, version: int) -> Rule:
    """Make a rule what it was in one of its versions; a deleted one gets its id, and so its place, back.

    Raises NotFound if there is no such version, Conflict if another rule has its name now, and ValidationError if
    what it refers to is gone.
    """
    former = RuleVersion.objects.of(rule_id).filter(number=version).first()
    if former is None:
        raise NotFound(f"There is no version {version} of a rule with id {rule_id}.")
    rule = Rule.objects.select_for_update().filter(pk=rule_id).first() or Rule(pk=rule_id)
    _write(rule, RuleChanges(**former.attributes))
    record_version(rule, RuleChange.RESTORE)
    return rule


def _write(rule: Rule, changes: RuleChanges) -> None:
    rule.name = changes.get("name", rule.name)
    rule.description = changes.get("description", rule.description)
    rule.enabled = changes.get("enabled", rule.enabled)
    rule.effect = changes.get("effect", rule.effect)
    rule.position = changes.get("position", rule.position)
    rule.is_delegated = changes.get("is_delegated", False)
    if "regex" in changes:
        rule.regex = changes["regex"] or ""
    if "provider_id" in changes:
        rule.provider = _row_or_none(Provider.objects.all(), changes["provider_id"] or None, "providerId")
    _set_audience(rule, changes)
    compile_pattern(rule.regex)
    _refuse_excess(rule)
    save_or_refuse(rule, conflict=f"A rule named {rule.name!r} exists already.")


def _refuse_excess(rule: Rule) -> None:
    """Raise Conflict if admins of the rule's group would have more rules than they may."""
    most = settings.GATEWAY_MAX_GROUP_RULES
    if not rule.is_delegated or rule.group_id is None or not most:
        return
    lock_id(Group.objects.all(), rule.group_id)  # a second rule of this group waits for the first one
    if Rule.objects.delegated_to(rule.group_id).exclude(pk=rule.pk).count() >= most:
        raise Conflict(f"Admins of a group may write at most {most:,} rules for it. Delete some first.")


def _set_audience(rule: Rule, changes: RuleChanges) -> None:
    """Set the rule's audience; what is not among the changes stays."""
    user_id = changes.get("user_id", 0 if rule.everyone == Everyone.USER else rule.user_id)
    group_id = changes.get("group_id", 0 if rule.everyone == Everyone.GROUP else rule.group_id)
    if user_id is not None and group_id is not None:
        raise ValidationError("userId, groupId: set at most one of them, and send null for the other.")
    rule.everyone = Everyone.USER if user_id == 0 else Everyone.GROUP if group_id == 0 else Everyone.NOT
    # A deleted user cannot be chosen, but a rule that is for one already can still be changed.
    users = User.objects.filter(Q(is_deleted=False) | Q(pk=rule.user_id))
    rule.user = _row_or_none(users, user_id or None, "userId")
    rule.group = _row_or_none(Group.objects.all(), group_id or None, "groupId")


def _row_or_none(rows: QuerySet[Row], row_id: int | None, field: str) -> Row | None:
    return None if row_id is None else rows_by_id(rows, [row_id], field=field)[0]
