"""Previews the effect of a rule before it is stored."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count

from accounts.models import Group, User
from gateway_project.errors import ValidationError
from providers.models import Model
from rules.linter import OfferedModel, RuleDraft, covered, warnings
from rules.models import Rule
from rules.patterns import compile_pattern

MAX_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Preview:
    """The audience in words, the models that the rule allows, and its warnings."""

    audience: str
    models: list[OfferedModel] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def more(self) -> int:
        """How many models are not shown."""
        return max(0, len(self.models) - MAX_SHOWN)

    @property
    def shown(self) -> list[OfferedModel]:
        return self.models[:MAX_SHOWN]


def preview(rule: Rule) -> Preview:
    """The effect of a rule, stored or not, on the present users and models."""
    offers = _offered_models()
    try:
        models = covered(_draft(rule), offers)
    except ValidationError:
        models = []
    return Preview(_audience(rule), models, _warnings(rule, _empty_groups([rule]), _enabled_drafts(), offers))


def warnings_of(rules: Sequence[Rule], *, among: int) -> list[list[str]]:
    """The warnings of each rule, in sentences (linter.warnings()).

    Each is compared with the first `among` enabled rules only: comparing ten thousand takes a second.
    """
    empty_groups, others, offers = _empty_groups(rules), _enabled_drafts(among), _offered_models()
    return [_warnings(rule, empty_groups, others, offers) for rule in rules]


def _enabled_drafts(most: int | None = None) -> list[RuleDraft]:
    return list(_valid_drafts(Rule.objects.enabled().order_by("id")[:most]))


def _warnings(
    rule: Rule, empty_groups: Mapping[int, str], others: list[RuleDraft], offers: list[OfferedModel]
) -> list[str]:
    try:
        return warnings(_draft(rule), others, offers, nobody=_why_nobody(rule, empty_groups))
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
    return empty_groups.get(rule.group_id, "")


def _offered_models() -> list[OfferedModel]:
    rows = Model.objects.filter(provider__enabled=True).order_by("name", "provider_id")
    return [OfferedModel(*row) for row in rows.values_list("provider_id", "provider__name", "name")]


def _valid_drafts(rules: Iterable[Rule]) -> Iterator[RuleDraft]:
    """The rules whose pattern compiles; others never match."""
    for rule in rules:
        with suppress(ValidationError):
            yield _draft(rule)


def _draft(rule: Rule) -> RuleDraft:
    pattern = compile_pattern(rule.regex) if rule.regex else None
    return RuleDraft(rule.pk, pattern, _reach(rule), rule.provider_id, rule.enabled, rule.name)


def _reach(rule: Rule) -> tuple[str, int] | None:
    if rule.everyone:
        return "everyone", 0
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
    names: list[Any] = list(group.members.usable().order_by("username").values_list("username", flat=True)[:11])
    names_shown = ", ".join(names[:10]) + (" and others" if len(names) > 10 else "")
    return f"the group {group.name} ({names_shown or 'no usable member'})"


def _pluralized(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
