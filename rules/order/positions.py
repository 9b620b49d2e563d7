"""New positions after one rule has moved, with as few changes as possible. Pure."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from rules.matching import DEFAULT_POSITION


class Place(NamedTuple):
    """Where a rule stands: rules are sorted by it."""

    position: int
    id: int


Positions = dict[int, int]


def renumber_rules(places: Sequence[Place], moved: int, *, highest: int) -> Positions:
    """The positions that change, by id, so that the sorted order becomes that of `places`.

    All but the place at index `moved` are in order already.
    """
    if _is_sorted(places):
        return {}
    former = {place.id: place.position for place in places}
    candidates = [_push_up(places, moved), _push_down(places, moved), _space_out(places, highest)]
    changes = [dict(candidate.items() - former.items()) for candidate in candidates]
    return min((change for change in changes if change and _is_within(change, highest)), key=len)


def _is_within(positions: Positions, highest: int) -> bool:
    return all(0 <= position <= highest for position in positions.values())


def _is_sorted(places: Sequence[Place]) -> bool:
    return all(first < second for first, second in pairwise(places))


def _push_down(places: Sequence[Place], moved: int) -> Positions:
    """The moved place comes right behind the one before it; those behind it give way."""
    before = places[moved - 1] if moved else Place(0, 0)
    return _push(places[moved:], before, lambda place, last: place > last, 1)


def _push_up(places: Sequence[Place], moved: int) -> Positions:
    """The moved place comes right before the one behind it; those before it give way."""
    if moved == len(places) - 1:
        return {}
    return _push(places[moved::-1], places[moved + 1], lambda place, last: place < last, -1)


def _push(places: Sequence[Place], last: Place, fits: Callable[[Place, Place], bool], step: int) -> Positions:
    """Give each place the position nearest to the last one, until one fits; the first is the moved one."""
    changes: Positions = {}
    for place in places:
        if changes and fits(place, last):
            break
        same = Place(last.position, place.id)
        last = same if fits(same, last) else Place(last.position + step, place.id)
        changes[place.id] = last.position
    return changes


def _space_out(places: Sequence[Place], highest: int) -> Positions:
    """New positions for all, evenly spaced."""
    step = max(1, min(DEFAULT_POSITION, highest // len(places)))
    return {place.id: number * step for number, place in enumerate(places)}
