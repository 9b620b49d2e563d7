"""Every change to access rules."""

from typing import TypedDict, TypeVar, Unpack

from django.db import transaction
from django.db.models import Model, Q, QuerySet

from accounts.models import Group, User
from gateway_project.database.saving import lock_row, rows_by_id, save_or_refuse
from gateway_project.errors import ValidationError
from providers.models import Provider
from rules.models import Everyone, Rule
from rules.patterns import compile_pattern

Row = TypeVar("Row", bound=Model)


class RuleChanges(TypedDict, total=False):
    """The parameters of create_rule(), each of which an update may leave out."""

    name: str
    description: str
    enabled: bool
    regex: str | None
    user_id: int | None
    group_id: int | None
    provider_id: int | None


@transaction.atomic
def create_rule(
    *,
    name: str,
    description: str = "",
    enabled: bool = True,
    regex: str | None = "",
    user_id: int | None = None,
    group_id: int | None = None,
    provider_id: int | None = None,
) -> Rule:
    """Create a rule; `user_id` or `group_id` 0 makes it one for everyone, `provider_id` 0 or None is any provider.

    Raises Conflict if the name exists, and ValidationError.
    """
    rule = Rule(name=name, description=description, enabled=enabled)
    _write(rule, {"regex": regex, "user_id": user_id, "group_id": group_id, "provider_id": provider_id})
    return rule


@transaction.atomic
def update_rule(rule: Rule, **changes: Unpack[RuleChanges]) -> None:
    """Store changes with the names of create_rule(); `user_id` or `group_id` None removes the present one.

    Raises Conflict and ValidationError as above, and NotFound if the rule is gone.
    """
    lock_row(rule, Rule.objects.all())
    _write(rule, changes)


def delete_rule(rule: Rule) -> None:
    """Delete a rule; requests that only it allowed are denied from then on."""
    rule.delete()


def _write(rule: Rule, changes: RuleChanges) -> None:
    rule.name = changes.get("name", rule.name)
    rule.description = changes.get("description", rule.description)
    rule.enabled = changes.get("enabled", rule.enabled)
    if "regex" in changes:
        rule.regex = changes["regex"] or ""
    if "provider_id" in changes:
        rule.provider = _row_or_none(Provider.objects.all(), changes["provider_id"] or None, "providerId")
    _set_audience(rule, changes)
    compile_pattern(rule.regex)
    save_or_refuse(rule, conflict=f"A rule named {rule.name!r} exists already.")


def _set_audience(rule: Rule, changes: RuleChanges) -> None:
    """Set the rule's audience; what is not among the changes stays."""
    user_id = changes.get("user_id", 0 if rule.everyone == Everyone.USER else rule.user_id)
    group_id = changes.get("group_id", 0 if rule.everyone == Everyone.GROUP else rule.group_id)
    if user_id is not None and group_id is not None:
        raise ValidationError("userId, groupId: at most one of them is set; send null for the other.")
    rule.everyone = Everyone.USER if user_id == 0 else Everyone.GROUP if group_id == 0 else Everyone.NOT
    # A deleted user cannot be chosen, but a rule that is for one already can still be changed.
    users = User.objects.filter(Q(is_deleted=False) | Q(pk=rule.user_id))
    rule.user = _row_or_none(users, user_id or None, "userId")
    rule.group = _row_or_none(Group.objects.all(), group_id or None, "groupId")


def _row_or_none(rows: QuerySet[Row], row_id: int | None, field: str) -> Row | None:
    return None if row_id is None else rows_by_id(rows, [row_id], field=field)[0]
