"""Positions after one rule has moved."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.order.positions import Place, renumber_rules

pytestmark = pytest.mark.either_store

HIGHEST = 6
PLACES = st.lists(
    st.integers(0, HIGHEST).flatmap(lambda position: st.tuples(st.just(position), st.integers(1, 50))),
    min_size=1,
    max_size=7,
    unique_by=lambda place: place[1],
)


@given(PLACES, st.data())
def test_the_order_becomes_the_one_that_is_asked_for(places, data):
    places = sorted(Place(*place) for place in places)
    moved = places.pop(data.draw(st.integers(0, len(places) - 1)))
    index = data.draw(st.integers(0, len(places)))
    places.insert(index, moved)
    positions = renumber_rules(places, index, highest=HIGHEST)
    after = [Place(positions.get(place.id, place.position), place.id) for place in places]
    assert after == sorted(after)
    assert all(0 <= place.position <= HIGHEST for place in after)


def test_only_as_many_rules_change_as_must():
    same = [Place(100, number) for number in range(1, 9)]
    assert renumber_rules([same[0], same[6], *same[1:6], same[7]], 1, highest=1000) == {1: 99, 7: 99}
    assert renumber_rules([*same[1:], same[0]], 7, highest=1000) == {1: 101}
    assert renumber_rules([same[7], *same[:7]], 0, highest=1000) == {8: 99}
    assert renumber_rules(same, 3, highest=1000) == {}


def test_at_the_ends_the_others_give_way():
    assert renumber_rules([Place(0, 3), Place(0, 1)], 0, highest=1000) == {1: 1}
    assert renumber_rules([Place(1000, 3), Place(1000, 2)], 0, highest=1000) == {3: 999}
