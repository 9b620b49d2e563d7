"""Previews the effect of a rule before it is stored."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from django.db.models import Count

from accounts.models import Group, User
from gateway_project.errors import ValidationError
from keys.models import ApiKey
from providers.catalogue import Target
from providers.formats import FORMATS
from providers.models import Provider
from rules.linter import LAST, OfferedProvider, Offers, RuleDraft, allowed_links, allowed_models, warnings
from rules.matching import RuleSnapshot
from rules.models import Rule
from rules.patterns import compile_pattern

MAX_SHOWN = 50

Audience = tuple[str, int]  # ("everyone", 0), ("user", id) or ("group", id)
EVERYONE: Audience = ("everyone", 0)
Links = Mapping[Audience | None, Collection[int]]


@dataclass(frozen=True, slots=True)
class Preview:
    """The audience in words, what the rule allows, and its warnings.

    `linked_providers` are the names of those that keys of the audience are linked to.
    """

    audience: str
    models: list[Target] = field(default_factory=list)
    linked_providers: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def more(self) -> int:
        """How many models are not shown."""
        return max(0, len(self.models) - MAX_SHOWN)

    @property
    def shown(self) -> list[Target]:
        return self.models[:MAX_SHOWN]


def preview(rule: Rule) -> Preview:
    """The effect of a rule, stored or not, on the present users, keys and models."""
    offers = _offers()
    try:
        draft = _draft(rule, _links([rule]))
    except ValidationError as error:
        return Preview(_audience(rule), warnings=[error.message])
    links = [target.provider.name for target in allowed_links(draft, offers)]
    problems = warnings(draft, _enabled_rules(), offers, nobody=_why_nobody(rule, _empty_groups([rule])))
    return Preview(_audience(rule), allowed_models(draft, offers), links, problems)


def warnings_of(rules: Sequence[Rule], *, among: int) -> list[list[str]]:
    """The warnings of each rule, in sentences (linter.warnings()).

    Each is compared with the first `among` enabled rules only: comparing ten thousand takes a second.
    """
    empty_groups, others, offers, links = _empty_groups(rules), _enabled_rules(among), _offers(), _links(rules)
    return [_warnings(rule, empty_groups, others, offers, links) for rule in rules]


def _enabled_rules(most: int | None = None) -> list[RuleSnapshot]:
    return list(_valid_rules(Rule.objects.enabled().order_by("id")[:most]))


def _warnings(
    rule: Rule, empty_groups: Mapping[int, str], others: list[RuleSnapshot], offers: Offers, links: Links
) -> list[str]:
    try:
        return warnings(_draft(rule, links), others, offers, nobody=_why_nobody(rule, empty_groups))
    except ValidationError as error:
        return [error.message]


def _empty_groups(rules: Iterable[Rule]) -> dict[int, str]:
    """The groups of these rules without a usable member: a sentence on each by its id; one query."""
    groups = Group.objects.filter(pk__in={rule.group_id for rule in rules}).exclude(members__in=User.objects.usable())
    members = groups.values_list("pk", Count("members"))
    return {group: f"The group has no {'usable ' if number else ''}members." for group, number in members}


def _why_nobody(rule: Rule, empty_groups: Mapping[int, str]) -> str:
    """A sentence on why nobody in the rule's audience can send requests; '' if somebody can."""
    if rule.user is not None and not rule.user.is_usable:
        return f"The user is {'deleted' if rule.user.is_deleted else 'inactive'}: the rule allows nobody."
    return empty_groups.get(rule.group_id, "") if rule.group_id is not None else ""


def _offers() -> Offers:
    return Offers(
        OfferedProvider(
            id=row.pk,
            name=row.name,
            models=frozenset(model.name for model in row.models.all()),
            format=FORMATS.get(row.format.name),
        )
        for row in Provider.objects.enabled().shown()
    )


def _links(rules: Iterable[Rule]) -> Links:
    """The providers that the usable keys of each audience are linked to, by audience."""
    keys = ApiKey.objects.usable().exclude(provider=None)
    audiences = {audience for rule in rules if (audience := _reach(rule)) is not None}
    users, groups = ([number for kind, number in audiences if kind == one] for one in ("user", "group"))
    links: dict[Audience | None, set[int]] = defaultdict(set)
    if EVERYONE in audiences:
        links[EVERYONE].update(keys.order_by().values_list("provider_id", flat=True).distinct())
    for kind, owners, ids in (("user", "owner_id", users), ("group", "owner__groups", groups)):
        pairs = keys.filter(**{f"{owners}__in": ids}).order_by().values_list(owners, "provider_id").distinct()
        for number, provider_id in pairs if ids else ():
            links[kind, number].add(provider_id)
    return links


def _valid_rules(rules: Iterable[Rule]) -> Iterator[RuleSnapshot]:
    """The rules whose pattern compiles; others never match."""
    for rule in rules:
        with suppress(ValidationError):
            yield _snapshot(rule)


def _draft(rule: Rule, links: Links) -> RuleDraft:
    return RuleDraft(_snapshot(rule), rule.enabled, frozenset(links.get(_reach(rule), ())))


def _snapshot(rule: Rule) -> RuleSnapshot:
    return RuleSnapshot(
        id=LAST if rule.pk is None else rule.pk,
        name=rule.name,
        pattern=compile_pattern(rule.regex) if rule.regex else None,
        user_id=rule.user_id,
        group_id=rule.group_id,
        everyone=bool(rule.everyone),
        provider_id=rule.provider_id,
    )


def _reach(rule: Rule) -> Audience | None:
    if rule.everyone:
        return EVERYONE
    if rule.user_id is not None:
        return "user", rule.user_id
    return ("group", rule.group_id) if rule.group_id is not None else None


def _audience(rule: Rule) -> str:
    if rule.everyone:
        return f"everyone ({_pluralized(User.objects.usable().count(), 'usable user')})"
    if rule.user is not None:
        return f"the user {rule.user.username}" + ("" if rule.user.is_usable else ", who is inactive or deleted")
    return _members(rule.group) if rule.group is not None else "nobody"


def _members(group: Group) -> str:
    names: list[str] = list(group.members.usable().order_by("username").values_list("username", flat=True)[:11])
    names_shown = ", ".join(names[:10]) + (" and others" if len(names) > 10 else "")
    return f"the group {group.name} ({names_shown or 'no usable member'})"


def _pluralized(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
