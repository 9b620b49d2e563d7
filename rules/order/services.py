"""Moves a rule in the order of judging."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from django.db.models import QuerySet
from django.utils import timezone

from gateway_project.database.guarding import Access, guarded_change
from gateway_project.errors import NotFound, ValidationError
from rules.guardrails.models import MAX_POSITION
from rules.models import Rule
from rules.order.positions import Place, Positions, renumber_rules
from rules.versions.recording import record_first_versions, record_new_positions

BATCH = 500  # rules of one statement


class Direction(StrEnum):
    """Where a rule moves: by one place, or beside another rule."""

    UP = "up"
    DOWN = "down"
    BEFORE = "before"
    AFTER = "after"


class MovedRule(NamedTuple):
    """A rule with its new position, and the position that it had."""

    rule: Rule
    former_position: int


@guarded_change(Access.RULES)
def move_rule(*, rule_id: int, direction: Direction, neighbour_id: int | None = None) -> list[MovedRule]:
    """Move a rule among those of its effect: by one place, or right before or after a neighbour.

    Other rules get new positions where there is no room; all rules that did are returned. A rule keeps whoever may
    change it. Raises NotFound, and ValidationError if the neighbour has another effect.
    """
    rule = Rule.objects.filter(pk=rule_id).first()
    if rule is None:
        raise NotFound(f"No rule with id {rule_id}.")
    peers = Rule.objects.filter(effect=rule.effect)
    places = _lock_places(peers)
    moved = next((place for place in places if place.id == rule_id), None)
    if moved is None:
        raise NotFound(f"No rule with id {rule_id}.")
    index = _index(places, places.index(moved), direction, neighbour_id)
    places.remove(moved)
    places.insert(index, moved)
    positions = renumber_rules(places, index, highest=MAX_POSITION)
    return _store(list(peers.filter(pk__in=positions).in_order_of_judging()), positions)


def _lock_places(peers: QuerySet[Rule]) -> list[Place]:
    """The places in order; two moves at once wait for each other."""
    rows = peers.select_for_update().order_by("pk").values_list("position", "pk")
    return sorted(Place(position, pk) for position, pk in rows)


def _index(places: list[Place], index: int, direction: Direction, neighbour_id: int | None) -> int:
    """The index of the moved rule among the others, without itself."""
    if direction == Direction.UP:
        return max(0, index - 1)
    if direction == Direction.DOWN:
        return min(len(places) - 1, index + 1)
    ids = [place.id for place in places if place.id != places[index].id]
    if neighbour_id not in ids:
        raise ValidationError(
            "A rule can only move among the rules with the same effect: rules that deny are checked first."
        )
    return ids.index(neighbour_id) + (direction == Direction.AFTER)


def _store(rules: Sequence[Rule], positions: Positions) -> list[MovedRule]:
    """Write new positions and versions; the number of queries hardly depends on the number of rules."""
    record_first_versions(rules)
    moves = [MovedRule(rule, rule.position) for rule in rules]
    moment = timezone.now()
    for rule in rules:
        rule.position, rule.updated_at = positions[rule.pk], moment
    Rule.objects.bulk_update(rules, ["position", "updated_at"], batch_size=BATCH)
    record_new_positions(rules)
    return moves
