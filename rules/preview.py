"""What a rule would do if it were stored as it stands in a form."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count

from accounts.models import Group, User
from gateway_project.errors import ValidationError
from providers.models import Model
from rules.linter import Drawn, Offer, covered, warnings
from rules.models import Rule
from rules.patterns import compile_pattern

MOST_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Preview:
    """Whom the rule is for, in words; the models it lets through; what to mind."""

    audience: str
    models: list[Offer] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def more(self) -> int:
        """How many models are not shown."""
        return max(0, len(self.models) - MOST_SHOWN)

    @property
    def shown(self) -> list[Offer]:
        return self.models[:MOST_SHOWN]


def preview(rule: Rule) -> Preview:
    """The effect of a rule, stored or not, on what there is at this moment."""
    offers = _offers()
    try:
        models = covered(_drawn(rule), offers)
    except ValidationError:
        models = []
    return Preview(_audience(rule), models, _warnings(rule, _nobodies([rule]), _tried(), offers))


def warnings_of(rules: Sequence[Rule], *, among: int) -> list[list[str]]:
    """What to mind of each rule, in sentences: why it lets nobody through, or nothing that another one does not.

    Others are looked for `among` so many of the rules that are tried first: ten thousand take a second.
    """
    nobodies, others, offers = _nobodies(rules), _tried(among), _offers()
    return [_warnings(rule, nobodies, others, offers) for rule in rules]


def _tried(most: int | None = None) -> list[Drawn]:
    return list(_readable(Rule.objects.enabled().order_by("id")[:most]))


def _warnings(rule: Rule, nobodies: Mapping[int, str], others: list[Drawn], offers: list[Offer]) -> list[str]:
    try:
        return warnings(_drawn(rule), others, offers, nobody=_nobody(rule, nobodies))
    except ValidationError as error:
        return [error.message.removeprefix("regex: ")]


def _nobodies(rules: Iterable[Rule]) -> dict[int, str]:
    """The groups of these rules, by id, of which no member can send anything, with a sentence on that: one query."""
    groups = Group.objects.filter(pk__in={rule.group_id for rule in rules}).exclude(members__in=User.objects.usable())
    members = groups.values_list("pk", Count("members"))
    return {group: f"The group has no {'usable ' if number else ''}members." for group, number in members}


def _nobody(rule: Rule, nobodies: Mapping[int, str]) -> str:
    """A sentence on why none of those whom the rule is for can send anything; '' if somebody can."""
    if rule.user is not None and not rule.user.is_usable:
        return f"The user is {'deleted' if rule.user.is_deleted else 'inactive'}: the rule lets nobody through."
    return nobodies.get(rule.group_id, "")


def _offers() -> list[Offer]:
    rows = Model.objects.filter(provider__enabled=True).order_by("name", "provider_id")
    return [Offer(*row) for row in rows.values_list("provider_id", "provider__name", "name")]


def _readable(rules: Iterable[Rule]) -> Iterator[Drawn]:
    """The rules whose pattern can be compiled: no others are tried."""
    for rule in rules:
        with suppress(ValidationError):
            yield _drawn(rule)


def _drawn(rule: Rule) -> Drawn:
    pattern = compile_pattern(rule.regex) if rule.regex else None
    return Drawn(rule.pk, pattern, _reach(rule), rule.provider_id, rule.enabled, rule.name)


def _reach(rule: Rule) -> tuple[str, int] | None:
    if rule.everyone:
        return "everyone", 0
    if rule.user_id is not None:
        return "user", rule.user_id
    return ("group", rule.group_id) if rule.group_id is not None else None


def _audience(rule: Rule) -> str:
    if rule.everyone:
        return f"everyone ({_counted(User.objects.usable().count(), 'usable user')})"
    if rule.user is not None:
        return f"the user {rule.user.username}" + ("" if rule.user.is_usable else ", who is inactive or deleted")
    return _members(rule.group) if rule.group is not None else "nobody"


def _members(group: Group) -> str:
    names: list[Any] = list(group.members.usable().order_by("username").values_list("username", flat=True)[:11])
    told = ", ".join(names[:10]) + (" and others" if len(names) > 10 else "")
    return f"the group {group.name} ({told or 'no usable member'})"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
