"""Rules that judge a model, found without the judgement of each."""

import pytest

from rules.models import Rule
from rules.snapshots import judged_snapshot_of, rules_matching

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
REGEXES = [
    "",
    "gpt-4",
    "gpt-4.*",
    "gpt",
    r"gpt\-4o?",
    "g?pt-4",
    "(?i)GPT-4",
    "o1|gpt-4",
    "gpt-4|",
    "x.*",
    "[a-g]pt-4",
    "(",
]
NAMES = ["gpt-4", "gpt-4o", "o1", "", "x\ny"]


@pytest.mark.parametrize("name", NAMES)
def test_they_are_those_whose_judgement_is_about_it(name):
    Rule.objects.bulk_create(
        Rule(name=f"{effect} {number}", effect=effect, regex=regex, everyone="user")
        for effect in ("allow", "deny")
        for number, regex in enumerate(REGEXES)
    )
    snapshots = filter(None, map(judged_snapshot_of, Rule.objects.all()))
    judging = {one.id for one in snapshots if one.pattern is None or one.pattern.fullmatch(name)}
    assert set(rules_matching(Rule.objects.all(), name)) == judging
