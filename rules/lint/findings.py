"""Looks for problems in the whole rule book, as it is stored."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from django.db.models import Q

from accounts.group_tree import with_ancestors
from accounts.models import Group, User
from gateway_project.errors import ValidationError
from gateway_project.name_patterns import Pattern, compile_pattern
from keys.models import ApiKey
from providers.models import Model
from rules.aliases.models import AliasTarget
from rules.lint.callers import AliasUsers, Caller, Key
from rules.lint.fixes import Action, Fix
from rules.lint.reach import Reach
from rules.linter import Problem, RuleDraft, Survey, problems_of
from rules.matching import RuleSnapshot
from rules.models import Rule
from rules.offers import Offers
from rules.preview import linked_providers, load_empty_groups, load_offers, reach_of, why_nobody
from rules.snapshots import judged_snapshot_of, snapshot_of

MAX_IDLE = 1000  # owners in a query; if more are idle, all keys are loaded


class Finding(NamedTuple):
    """A problem, of a rule unless `rule_id` is None, and what a click can do about it."""

    rule_id: int | None
    problem: Problem
    message: str
    fix: Fix


def find_problems() -> list[Finding]:
    """All problems: those of enabled rules by id, then those of groups, keys, models and aliases."""
    rules = list(Rule.objects.enabled().prefetch_related("user", "group").order_by("pk"))
    snapshots, unreadable = _snapshots_of(rules)
    offers, parents = load_offers(), Group.objects.parents()
    callers = _load_callers(parents)
    reach = Reach(snapshots.values(), offers)
    idle = [caller.id for caller in callers.values() if not reach.models_of(caller.id, caller.group_ids)]
    keys = _load_keys(idle)
    return [
        *unreadable,
        *_problems_of_rules(rules, snapshots, offers, parents),
        *_groups_without_rules(parents),
        *_keys_without_rules(keys, callers, reach, offers),
        *_models_for_nobody(callers, reach, offers),
        *_problems_of_aliases(AliasUsers(callers.values(), keys, reach), offers),
    ]


def _snapshots_of(rules: Iterable[Rule]) -> tuple[dict[int, RuleSnapshot], list[Finding]]:
    """The rules as requests are judged by them, by id, and those whose pattern cannot be read."""
    snapshots, unreadable = dict[int, RuleSnapshot](), list[Finding]()
    for rule in rules:
        try:
            snapshots[rule.pk] = snapshot_of(rule)
        except ValidationError as error:
            unreadable.append(_of_unreadable(rule, f"{error.message[:1].upper()}{error.message[1:]}"))
            if (judged := judged_snapshot_of(rule)) is not None:
                snapshots[rule.pk] = judged
    return snapshots, unreadable


def _of_unreadable(rule: Rule, reason: str) -> Finding:
    """The finding about a rule whose pattern cannot be read; one that denies is effective, and is not disabled."""
    if not rule.denies:
        return _of_rule(rule, Problem.UNREACHABLE, reason)
    message = f"Rule {rule.name}: {reason} Until it is corrected, the rule denies every model."
    return Finding(rule.pk, Problem.UNREACHABLE, message, Fix(Action.OPEN_RULE, rule.pk))


def _problems_of_rules(
    rules: Iterable[Rule],
    snapshots: dict[int, RuleSnapshot],
    offers: Offers,
    parents: Mapping[int, int],
) -> Iterator[Finding]:
    rules = [rule for rule in rules if rule.pk in snapshots]
    owners = set(ApiKey.objects.usable().order_by().values_list("owner_id", flat=True).distinct())
    links, empty_groups = linked_providers(rules, parents), load_empty_groups(rules, parents)
    drafts = [RuleDraft(snapshots[rule.pk], True, links.get(reach_of(rule), ())) for rule in rules]
    verdicts = Survey(snapshots.values(), offers, parents).verdicts(drafts)
    for rule, draft, verdict in zip(rules, drafts, verdicts, strict=True):
        for problem in problems_of(draft, verdict, nobody=why_nobody(rule, empty_groups)):
            yield _of_rule(rule, problem.problem, problem.message)
        # A rule that denies holds for a login as well: without it, the login could use more.
        if not rule.denies and rule.user is not None and rule.user.is_usable and rule.user_id not in owners:
            message = f"The user {rule.user.username} has no usable API key. The rule only helps requests with a login."
            yield _of_rule(rule, Problem.USER_WITHOUT_KEYS, message)


def _of_rule(rule: Rule, problem: Problem, message: str) -> Finding:
    return Finding(rule.pk, problem, f"Rule {rule.name}: {message}", Fix(Action.DISABLE_RULE, rule.pk))


def _groups_without_rules(parents: Mapping[int, int]) -> Iterator[Finding]:
    rules = Rule.objects.enabled().exclude(group=None).order_by()
    groups_with_rules = set(rules.values_list("group_id", flat=True).distinct())
    for group in Group.objects.exclude(pk__in=groups_with_rules).order_by("pk"):
        if not groups_with_rules.isdisjoint(with_ancestors([group.pk], parents)):
            continue
        message = f"Group {group.name}: no enabled rule is for this group or one above it."
        yield Finding(None, Problem.GROUP_WITHOUT_RULES, message, Fix(Action.CREATE_GROUP_RULE, group.pk))


def _keys_without_rules(keys: list[Key], callers: dict[int, Caller], reach: Reach, offers: Offers) -> Iterator[Finding]:
    for key in keys:
        caller = callers.get(key.owner_id)
        if caller is not None and not _may_work(key, caller, reach, offers):
            message = f"Key {key.name} of user {key.owner}: no rule lets this key use any model."
            yield Finding(None, Problem.KEY_WITHOUT_RULES, message, Fix(Action.LOCK_KEY, key.id))


def _may_work(key: Key, caller: Caller, reach: Reach, offers: Offers) -> bool:
    if key.provider_id is not None:
        is_served = offers.link_to(key.provider_id) is not None
        return is_served and reach.may_use_link(caller.id, caller.group_ids, key.provider_id)
    models = reach.models_of(caller.id, caller.group_ids)
    return bool(models & _own_models(key, offers)) if key.models else bool(models)


def _own_models(key: Key, offers: Offers) -> int:
    """The models that the key's own list names."""
    models = 0
    for pattern in _readable_patterns(key.models):
        models |= offers.sets.matching_targets(pattern)
    return models


def _readable_patterns(patterns: list[str]) -> Iterator[Pattern]:
    """The patterns that can be read: one that cannot lets no model through."""
    for text in patterns:
        with suppress(ValidationError):
            yield compile_pattern(text)


def _models_for_nobody(callers: dict[int, Caller], reach: Reach, offers: Offers) -> Iterator[Finding]:
    reachable = 0
    for caller in callers.values():
        reachable |= reach.models_of(caller.id, caller.group_ids)
    unused = offers.model_names & ~reachable
    ids = _ids_of_models() if unused else {}
    for target in offers.sets.members(unused):
        number = ids.get(target.key)
        if number is not None:  # else it was deleted meanwhile
            message = f"Model {target.model} of provider {target.provider.name}: no rule lets anybody use it."
            yield Finding(None, Problem.MODEL_FOR_NOBODY, message, Fix(Action.CREATE_MODEL_RULE, number))


def _ids_of_models() -> dict[tuple[int, str], int]:
    return {(provider, name): pk for pk, provider, name in Model.objects.values_list("pk", "provider_id", "name")}


def _problems_of_aliases(users: AliasUsers, offers: Offers) -> Iterator[Finding]:
    for alias in offers.aliases:
        if not alias.can_serve:
            message = f"Alias {alias.name}: it leads to no model of an enabled provider."
            yield Finding(None, Problem.ALIAS_WITHOUT_TARGETS, message, Fix(Action.DISABLE_ALIAS, alias.id))
        elif not users.may_ask(alias):
            message = f"Alias {alias.name}: no rule lets anybody ask for this name."
            yield Finding(None, Problem.ALIAS_FOR_NOBODY, message, Fix(Action.CREATE_ALIAS_RULE, alias.id))
        elif not users.may_use(alias):
            message = f"Alias {alias.name}: whoever may ask for this name may use none of its targets."
            yield Finding(None, Problem.ALIAS_FOR_NOBODY, message, Fix(Action.DISABLE_ALIAS, alias.id))


def _load_callers(parents: Mapping[int, int]) -> dict[int, Caller]:
    """The usable users with the groups of each, and those above them, in two queries."""
    users = list(User.objects.usable().order_by("pk").values_list("pk", flat=True))
    groups = defaultdict(list)
    for user_id, group_id in Group.members.through._default_manager.values_list("user_id", "group_id"):
        groups[user_id].append(group_id)
    return {user_id: Caller(user_id, with_ancestors(groups.get(user_id, ()), parents)) for user_id in users}


def _load_keys(idle: Collection[int]) -> list[Key]:
    """The usable keys that are restricted, or that a target of an alias names, and all keys of the idle owners.

    Every other key may use what its owner may use. An idle owner may use no model.
    """
    keys = ApiKey.objects.usable().order_by("pk")
    if len(idle) <= MAX_IDLE:
        names = AliasTarget.objects.filter(match__has_key="keyName").values("match__keyName")
        narrowed = Q(provider__isnull=False) | ~Q(model_patterns=[])
        keys = keys.filter(narrowed | Q(name__in=[row["match__keyName"] for row in names]) | Q(owner__in=idle))
    columns = ("pk", "name", "owner__username", "owner_id", "provider_id", "model_patterns")
    return [Key(*row) for row in keys.values_list(*columns)]
