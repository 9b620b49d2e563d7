"""Rules that admins of a group write: they take models away from the group and those below it, and add none."""

from accounts.managing.groups import administered_groups
from gateway_project.api.access import Caller
from gateway_project.errors import PermissionDenied
from rules.models import Effect, Rule
from rules.querysets import RuleQuerySet

VIEW, MODIFY = "rules.view", "rules.modify"


def visible_rules(caller: Caller) -> RuleQuerySet[Rule]:
    """All rules, or for admins of groups those that are for their groups."""
    rules = Rule.objects.shown()
    return rules if caller.has(VIEW) or caller.has(MODIFY) else rules.filter(group__in=administered_groups(caller))


def is_delegated(caller: Caller) -> bool:
    """Whether the caller writes rules as an admin of a group."""
    return not caller.has(MODIFY)


def check_own_rule(caller: Caller, rule: Rule) -> None:
    """Raise PermissionDenied unless the caller may change or delete this stored rule.

    Without rules.modify: only one that an admin of a group wrote last. Others may deny what the group must not use.
    """
    if not is_delegated(caller):
        return
    if not rule.is_delegated or rule.group_id not in administered_groups(caller):
        raise PermissionDenied(f"You can only change rules of admins of your groups. Other rules need {MODIFY}.")


def check_group_rule(caller: Caller, *, group_id: int | None, effect: str) -> None:
    """Raise PermissionDenied unless the caller may write a rule with this effect for this group."""
    if not is_delegated(caller):
        return
    if group_id not in administered_groups(caller):
        raise PermissionDenied("must be a group that you administer.", field="group_id")
    if effect != Effect.DENY:
        problem = "must be deny: admins of a group can only take models away from the group."
        raise PermissionDenied(problem, field="effect")
