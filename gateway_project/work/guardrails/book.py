"""Which guardrails search the requests and answers of a caller. Pure: of the snapshot, the caller and the decision."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gateway_project.work.guardrails.detectors import Detector
from gateway_project.work.guardrails.remote.services import Service
from providers.catalogue import Target
from rules.matching import RuleBook

# How many callers a book remembers its choice for.
REMEMBERED_CHOICES = 8192
REQUEST, RESPONSE = "request", "response"
BLOCK, REDACT, MONITOR = "block", "redact", "monitor"


@dataclass(frozen=True, slots=True)
class Audience:
    """Whom a guardrail is for: everyone, or whoever is in one of the sets."""

    everyone: bool = False
    groups: frozenset[int] = frozenset()
    users: frozenset[int] = frozenset()
    rules: frozenset[int] = frozenset()
    keys: frozenset[int] = frozenset()
    aliases: frozenset[str] = frozenset()

    def includes(self, caller: "CallerFacts") -> bool:
        """Whether requests with these facts are among them."""
        return (
            self.everyone
            or caller.user_id in self.users
            or caller.key_id in self.keys
            or not self.rules.isdisjoint(caller.rule_ids)
            or caller.alias in self.aliases
            or not self.groups.isdisjoint(caller.group_ids)
        )


@dataclass(frozen=True, slots=True)
class CallerFacts:
    """What decides which guardrails apply to a request; None and "" for what it does not have."""

    user_id: int
    group_ids: tuple[int, ...] = ()
    key_id: int | None = None
    rule_ids: frozenset[int] = frozenset()
    alias: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class GuardrailSnapshot:
    """An enabled guardrail. Guardrails with equal types and parameters share one detector, which runs once for all.

    `placeholders`: whether its redactions can be reversed in the answer.
    """

    id: int
    name: str
    position: int
    action: str
    source: str  # type and parameters
    detector: Detector
    audience: Audience
    is_for_requests: bool = True
    is_for_answers: bool = True
    placeholders: bool = False
    sample_days: int = 0  # how long samples of its matches are kept; 0: there are none
    service: Service | None = None  # that is asked in the place of its detector
    # What becomes of texts that its detector cannot search: blocked or passed on.
    fails_closed: bool = False


@dataclass(frozen=True)
class Side:
    """The guardrails for one direction of a request, in order of position, by detector."""

    guardrails: tuple[GuardrailSnapshot, ...]
    by_detector: tuple[tuple[Detector, tuple[GuardrailSnapshot, ...]], ...]

    @cached_property
    def remote(self) -> tuple[GuardrailSnapshot, ...]:
        """Those that ask a service."""
        return tuple(guardrail for guardrail in self.guardrails if guardrail.service is not None)

    @cached_property
    def monitors(self) -> tuple[GuardrailSnapshot, ...]:
        """Those of them for which nothing has to wait."""
        return tuple(guardrail for guardrail in self.remote if guardrail.action == MONITOR)

    @cached_property
    def deciding(self) -> tuple[GuardrailSnapshot, ...]:
        """Those of them that may block or change something."""
        return tuple(guardrail for guardrail in self.remote if guardrail.action != MONITOR)

    @cached_property
    def repairing(self) -> tuple[tuple[Detector, tuple[GuardrailSnapshot, ...]], ...]:
        """The detectors that let the model be asked once more."""
        return tuple(group for group in self.by_detector if group[0].repairs)

    @cached_property
    def has_placeholders(self) -> bool:
        """Whether what one of them redacts is put back into the answer."""
        return any(guardrail.placeholders and guardrail.action == REDACT for guardrail in self.guardrails)

    @cached_property
    def changes_texts(self) -> bool:
        """Whether any of them blocks or redacts."""
        return any(guardrail.action != MONITOR for guardrail in self.guardrails)


class Applicable:
    """The guardrails that apply to a caller's requests, and to the answers."""

    def __init__(self, guardrails: Iterable[GuardrailSnapshot]) -> None:
        self.guardrails = tuple(guardrails)

    @cached_property
    def requests(self) -> Side | None:
        """None if nothing searches requests."""
        return _side_of(guardrail for guardrail in self.guardrails if guardrail.is_for_requests)

    @cached_property
    def answers(self) -> Side | None:
        """None if nothing searches answers."""
        return _side_of(guardrail for guardrail in self.guardrails if guardrail.is_for_answers)


class GuardrailBook:
    """All enabled guardrails at one moment; immutable but for the choices that it remembers."""

    def __init__(self, guardrails: Iterable[GuardrailSnapshot]) -> None:
        self.guardrails = tuple(sorted(guardrails, key=lambda guardrail: (guardrail.position, guardrail.id)))
        self.names_rules = any(guardrail.audience.rules for guardrail in self.guardrails)
        self._choices: dict[CallerFacts, Applicable | None] = {}

    def applicable(self, caller: CallerFacts) -> Applicable | None:
        """Those that apply to requests with these facts; None if none does."""
        try:
            return self._choices[caller]
        except KeyError:
            pass
        guardrails = [guardrail for guardrail in self.guardrails if guardrail.audience.includes(caller)]
        if len(self._choices) >= REMEMBERED_CHOICES:
            self._choices.clear()
        choice = self._choices[caller] = Applicable(guardrails) if guardrails else None
        return choice


def rule_ids_of(
    rule_id: int | None, rules: RuleBook, targets: Iterable[Target[Any]], *, user_id: int, group_ids: Collection[int]
) -> frozenset[int]:
    """The rule that allows the name of an alias, and those that allow the targets by themselves."""
    own = (rule.id for rule in rules.rules_for(targets, user_id=user_id, group_ids=group_ids))
    return frozenset(own if rule_id is None else (rule_id, *own))


def audience_of(data: Mapping[str, object]) -> Audience:
    """The audience in a row's JSON; what is not as it should be is nobody."""
    return Audience(
        everyone=data.get("everyone") is True,
        groups=_references(data.get("groups"), int),
        users=_references(data.get("users"), int),
        rules=_references(data.get("rules"), int),
        keys=_references(data.get("keys"), int),
        aliases=_references(data.get("aliases"), str) - {""},
    )


def _references(data: object, kind: type) -> frozenset:  # type: ignore[type-arg]
    return frozenset(one for one in data if type(one) is kind) if isinstance(data, Collection) else frozenset()


def _side_of(guardrails: Iterable[GuardrailSnapshot]) -> Side | None:
    members = tuple(guardrails)
    by_detector: dict[int, tuple[Detector, list[GuardrailSnapshot]]] = {}
    for guardrail in members:
        if guardrail.service is not None:
            continue
        by_detector.setdefault(id(guardrail.detector), (guardrail.detector, []))[1].append(guardrail)
    groups = tuple((detector, tuple(group)) for detector, group in by_detector.values())
    return Side(members, groups) if members else None
