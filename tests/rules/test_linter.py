"""What a rule lets through, and the rules that can never match or never matter."""

import pytest

from rules.linter import OfferedModel, RuleDraft, covered, warnings
from rules.patterns import compile_pattern

EAST, WEST = OfferedModel(1, "east", "gpt-5"), OfferedModel(2, "west", "gpt-5")
SMALL = OfferedModel(1, "east", "gpt-5-mini")
OFFERS = [EAST, WEST, SMALL]
EVERYONE, ANN, STAFF = ("everyone", 0), ("user", 1), ("group", 1)


def rule(number=9, regex="", audience=EVERYONE, provider=None, **more) -> RuleDraft:
    return RuleDraft(number, compile_pattern(regex) if regex else None, audience, provider, name=f"r{number}", **more)


def told(drawn, *others, offers=OFFERS, nobody="") -> str:
    return " ".join(warnings(drawn, others, offers, nobody=nobody))


@pytest.mark.parametrize(
    ("drawn", "models"),
    [
        (rule(), OFFERS),
        (rule(regex="gpt-5"), [EAST, WEST]),
        (rule(regex="gpt-5.*", provider=1), [EAST, SMALL]),
        (rule(regex="gpt"), []),  # the whole name has to match
    ],
)
def test_it_lets_through_what_its_pattern_and_provider_cover(drawn, models):
    assert covered(drawn, OFFERS) == models


def test_one_that_matters_is_not_warned_of():
    assert told(rule(regex="gpt-5"), rule(1, "claude.*"), rule(2, "gpt-5", ANN)) == ""


def test_what_can_never_match_says_why():
    assert "is not enabled" in told(rule(enabled=False))
    assert "to nobody" in told(rule(audience=None))
    assert "no members" in told(rule(audience=STAFF), nobody="The group has no members.")
    assert "currently allows nothing" in told(rule(regex="claude"))
    assert "currently allows nothing" in told(rule(), offers=[])


@pytest.mark.parametrize("earlier", [rule(1), rule(1, "gpt.*", ANN), rule(1, "gpt-5|gpt-5-mini")])
def test_one_that_an_earlier_one_makes_needless_never_matters(earlier):
    assert "has no effect: 'r1' allows" in told(rule(audience=ANN), earlier)
    assert "has no effect" in told(rule(None, audience=ANN), earlier)  # one that is not stored yet comes last


@pytest.mark.parametrize(
    "other",
    [
        rule(10),  # it comes later
        rule(1, enabled=False),
        rule(1, audience=STAFF),
        rule(1, audience=None),
        rule(1, provider=1),
        rule(1, "gpt-5"),
    ],
)
def test_one_that_reaches_less_hides_nothing(other):
    assert told(rule(audience=ANN), other) == ""
