"""Previews the effect of a rule before it is stored."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from django.db.models import Count, QuerySet
from django.utils.text import capfirst

from accounts.group_tree import with_ancestors, with_descendants
from accounts.models import Group, User
from gateway_project.errors import ValidationError
from gateway_project.wording import plural
from keys.models import ApiKey
from providers.catalogue import Target
from providers.formats import FORMATS
from providers.models import Provider
from rules.aliases.routing import resolve_aliases
from rules.linter import (
    EVERYONE,
    Audience,
    Problem,
    RuleDraft,
    RuleProblem,
    Survey,
    covered_aliases,
    covered_links,
    covered_models,
    problems_of,
    survey_one,
)
from rules.matching import RuleSnapshot
from rules.models import Rule
from rules.offers import OfferedAlias, OfferedProvider, Offers
from rules.snapshots import judged_snapshot_of, snapshot_of

MAX_SHOWN = 50

Links = Mapping[Audience | None, Collection[int]]


@dataclass(frozen=True, slots=True)
class Preview:
    """The audience in words, what the rule allows or denies, and its warnings.

    Of an alias with stars the rule matches some names, perhaps. `linked_providers` are those that keys of the audience
    are linked to.
    """

    audience: str
    models: list[Target] = field(default_factory=list)
    linked_providers: list[OfferedProvider] = field(default_factory=list)
    warnings: list[RuleProblem] = field(default_factory=list)
    denies: bool = False
    aliases: list[OfferedAlias] = field(default_factory=list)

    @property
    def more(self) -> int:
        """How many models are not shown."""
        return max(0, len(self.models) - MAX_SHOWN)

    @property
    def shown(self) -> list[Target]:
        return self.models[:MAX_SHOWN]

    @property
    def more_aliases(self) -> int:
        """How many aliases are not shown."""
        return max(0, len(self.aliases) - MAX_SHOWN)

    @property
    def shown_aliases(self) -> list[OfferedAlias]:
        return self.aliases[:MAX_SHOWN]


def preview(rule: Rule) -> Preview:
    """The effect of a rule, stored or not, on the present users, keys and models."""
    offers, parents = load_offers(), Group.objects.parents()
    others = _enabled_rules([rule], parents)
    try:
        draft = draft_of(rule, linked_providers([rule], parents))
    except ValidationError as error:
        return Preview(_describe_audience(rule), warnings=[_describe_unreadable(error)])
    others = [other for other in others if other.id != draft.rule.id]
    links = [target.provider for target in covered_links(draft, others, offers, parents)]
    nobody = why_nobody(rule, load_empty_groups([rule], parents))
    problems = problems_of(draft, survey_one(draft, others, offers, parents), nobody=nobody)
    models = covered_models(draft, others, offers, parents)
    names = set(covered_aliases(draft, others, offers, parents))
    aliases = sorted((alias for alias in offers.aliases if alias.name in names), key=attrgetter("name"))
    return Preview(_describe_audience(rule), models, links, problems, rule.denies, aliases)


def warnings_of(rules: Sequence[Rule]) -> list[list[RuleProblem]]:
    """The problems of each rule."""
    parents = Group.objects.parents()
    empty_groups, links = load_empty_groups(rules, parents), linked_providers(rules, parents)
    drafts: dict[int, RuleDraft] = {}
    warnings: list[list[RuleProblem]] = [[] for _ in rules]
    for number, rule in enumerate(rules):
        try:
            drafts[number] = draft_of(rule, links)
        except ValidationError as error:
            warnings[number] = [_describe_unreadable(error)]
    verdicts = Survey(_enabled_rules(rules, parents), load_offers(), parents).verdicts(drafts.values())
    for (number, draft), verdict in zip(drafts.items(), verdicts, strict=True):
        warnings[number] = problems_of(draft, verdict, nobody=why_nobody(rules[number], empty_groups))
    return warnings


def _describe_unreadable(error: ValidationError) -> RuleProblem:
    """Of a pattern that is none."""
    return RuleProblem(Problem.UNREACHABLE, capfirst(error.message))


def _enabled_rules(rules: Iterable[Rule], parents: Mapping[int, int]) -> list[RuleSnapshot]:
    """The enabled rules for the users and groups of these rules, and for the groups above."""
    _, users, groups = _audiences_of(rules)
    enabled = Rule.objects.enabled().for_any_of(users, with_ancestors(groups, parents))
    return list(filter(None, map(judged_snapshot_of, enabled)))


def _audiences_of(rules: Iterable[Rule]) -> tuple[bool, list[int], list[int]]:
    """Whether one of them is for everyone, and the ids of the users and groups that others are for."""
    audiences = {audience for rule in rules if (audience := reach_of(rule)) is not None}
    users, groups = (
        [number for kind, number in audiences if kind == audience_kind] for audience_kind in ("user", "group")
    )
    return EVERYONE in audiences, users, groups


def load_empty_groups(rules: Iterable[Rule], parents: Mapping[int, int]) -> dict[int, str]:
    """The groups of these rules without a usable member, also below them: a sentence on each by its id."""
    groups = Group.objects.filter(pk__in={rule.group_id for rule in rules}).exclude(members__in=User.objects.usable())
    members = dict(groups.values_list("pk", Count("members")))
    return {
        group: f"The group has no {'usable ' if number else ''}members."
        for group, number in members.items()
        if group not in parents.values() or not _members_of(group, parents).exists()
    }


def _members_of(group_id: int, parents: Mapping[int, int]) -> QuerySet[User]:
    """The usable members of a group and of all groups below it."""
    return User.objects.usable().filter(groups__in=with_descendants([group_id], parents)).distinct()


def why_nobody(rule: Rule, empty_groups: Mapping[int, str]) -> str:
    """A sentence on why nobody in the rule's audience can send requests; '' if somebody can."""
    if rule.user is not None and not rule.user.is_usable:
        return f"The user is {'deleted' if rule.user.is_deleted else 'inactive'}: the rule allows nobody."
    return empty_groups.get(rule.group_id, "") if rule.group_id is not None else ""


def load_offers() -> Offers:
    """The enabled providers with their models, and the enabled aliases with their targets."""
    providers = {
        row.pk: OfferedProvider(
            id=row.pk,
            name=row.name,
            models=frozenset(model.name for model in row.models.all()),
            format=FORMATS.get(row.format.name),
        )
        for row in Provider.objects.enabled().shown()
    }
    return Offers(providers.values(), resolve_aliases(providers))


def linked_providers(rules: Iterable[Rule], parents: Mapping[int, int]) -> Links:
    """The providers that the usable keys of each audience are linked to, by audience."""
    keys = ApiKey.objects.usable().exclude(provider=None)
    for_everyone, users, groups = _audiences_of(rules)
    links: dict[Audience | None, set[int]] = defaultdict(set)
    if for_everyone:
        links[EVERYONE].update(keys.order_by().values_list("provider_id", flat=True).distinct())
    if users:
        for user_id, provider_id in _pairs(keys, "owner_id", users):
            links["user", user_id].add(provider_id)
    if groups:
        for group_id, provider_id in _pairs(keys, "owner__groups", with_descendants(groups, parents)):
            for ancestor_id in with_ancestors([group_id], parents):
                links["group", ancestor_id].add(provider_id)
    return links


def _pairs(keys: QuerySet[ApiKey], owners: str, ids: Collection[int]) -> Iterable[tuple[int, int]]:
    """Which of these users or groups have keys that are linked to which provider."""
    return keys.filter(**{f"{owners}__in": ids}).order_by().values_list(owners, "provider_id").distinct()


def draft_of(rule: Rule, links: Links) -> RuleDraft:
    return RuleDraft(snapshot_of(rule), rule.enabled, frozenset(links.get(reach_of(rule), ())))


def reach_of(rule: Rule) -> Audience | None:
    if rule.everyone:
        return EVERYONE
    if rule.user_id is not None:
        return "user", rule.user_id
    return ("group", rule.group_id) if rule.group_id is not None else None


def _describe_audience(rule: Rule) -> str:
    if rule.everyone:
        return f"everyone ({plural(User.objects.usable().count(), 'usable user')})"
    if rule.user is not None:
        return f"the user {rule.user.username}" + ("" if rule.user.is_usable else ", who is inactive or deleted")
    return _members(rule.group) if rule.group is not None else "nobody"


def _members(group: Group) -> str:
    members = _members_of(group.pk, Group.objects.parents())
    names: list[str] = list(members.order_by("username").values_list("username", flat=True)[:11])
    names_shown = ", ".join(names[:10]) + (" and others" if len(names) > 10 else "")
    return f"the group {group.name} ({names_shown or 'no usable member'})"
