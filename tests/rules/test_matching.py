"""Which rule lets a request proceed: the first that matches, whatever the pattern costs elsewhere."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway_project.errors import ValidationError
from rules.matching import REMEMBERED_MODELS, RuleBook, RuleSnapshot
from rules.patterns import compile_pattern

PATTERNS = [
    "",
    "gpt-5",
    "gpt-.*",
    ".*",
    "GPT-5",
    "(?i)gpt-5",
    "gpt|claude",
    "claude-[0-9]+",
    "g",
    "^gpt-5$",
    "modèle.*",
]
MODELS = ["gpt-5", "gpt-5-mini", "claude-4", "claude", "GPT-5", "g", "modèle-1", "a/gpt-5", "gpt-5\n", ""]
USERS, GROUPS, PROVIDERS = range(1, 4), range(1, 4), range(1, 4)


def rule(number, pattern="", user=None, group=None, everyone=False, provider=None):
    return RuleSnapshot(
        number, f"rule {number}", compile_pattern(pattern) if pattern else None, user, group, everyone, provider
    )


def first(rules, model="gpt-5", user=1, groups=(), providers=(1,)):
    found = RuleBook(rules).first(user_id=user, group_ids=groups, model=model, provider_ids=providers)
    return found.id if found else None


def naive(rules, model, user, groups, providers):
    """The specification, word by word."""
    for each in sorted(rules, key=lambda row: row.id):
        mine = each.everyone or each.user_id == user or (each.group_id is not None and each.group_id in groups)
        matches = each.pattern is None or re.fullmatch(each.pattern.pattern, model) is not None
        if mine and matches and (each.provider_id is None or each.provider_id in providers):
            return each.id
    return None


def some(values):
    return st.none() | st.sampled_from(values)


RULES = st.lists(
    st.builds(
        lambda pattern, whose, provider: (pattern, whose, provider),
        st.sampled_from(PATTERNS),
        st.sampled_from(
            [{}, {"everyone": True}, *({"user": n} for n in USERS), *({"group": n} for n in GROUPS)],
        ),
        some(PROVIDERS),
    ),
    max_size=8,
)


@given(
    RULES,
    st.randoms(),
    st.sampled_from(MODELS),
    st.sampled_from(USERS),
    st.sets(st.sampled_from(GROUPS)),
    st.sets(st.sampled_from(PROVIDERS)),
)
@settings(max_examples=300, deadline=None)
def test_the_first_rule_is_the_one_that_the_specification_names(given_rules, random, model, user, groups, providers):
    rules = [rule(n, pattern, provider=p, **whose) for n, (pattern, whose, p) in enumerate(given_rules, 1)]
    random.shuffle(rules)
    assert first(rules, model, user, groups, providers) == naive(rules, model, user, groups, providers)


def test_without_rules_everything_is_denied():
    assert first([]) is None


def test_a_rule_for_neither_user_nor_group_is_for_nobody():
    assert first([rule(1)]) is None


def test_the_order_is_that_of_the_ids_across_user_groups_and_everyone():
    rules = [rule(4, everyone=True), rule(2, group=7), rule(3, user=1), rule(1, user=2)]
    assert first(rules, groups=[7]) == 2
    assert first(rules) == 3
    assert first(rules, user=9) == 4


@pytest.mark.parametrize(
    ("pattern", "model", "matches"),
    [
        ("gpt", "gpt-5", False),
        ("gpt.*", "gpt-5", True),
        (".*5", "gpt-5", True),
        ("gpt-5", "xgpt-5", False),
        ("a|gpt", "gpt-5", False),
        ("^gpt-5$", "gpt-5\n", False),
        ("gpt.5", "gpt-5", True),
        ("gpt\\.5", "gpt-5", False),
        ("", "anything at all", True),
        ("(?i)GPT-5", "gpt-5", True),
        ("GPT-5", "gpt-5", False),
    ],
)
def test_a_pattern_matches_the_whole_name_or_not_at_all(pattern, model, matches):
    assert (first([rule(1, pattern, everyone=True)], model) == 1) is matches


def test_a_rule_that_names_a_provider_counts_only_where_that_is_a_candidate():
    rules = [rule(1, everyone=True, provider=2), rule(2, everyone=True)]
    assert first(rules, providers=[1, 2]) == 1
    assert first(rules, providers=[1]) == 2
    assert first(rules[:1], providers=[1]) is None
    assert first(rules[1:], providers=[]) == 2


EVIL = ["(a+)+$", "(a|a)*b", "(.*a){20}", "(a*)*(b*)*c", "([a-zA-Z]+)*x", "(?:a?){50}a{50}"]


@pytest.mark.parametrize("pattern", EVIL)
def test_no_pattern_takes_more_than_linear_time(pattern):
    book = RuleBook([rule(1, pattern, everyone=True)])
    begun = time.process_time()
    for number in range(50):
        book.first(user_id=1, group_ids=(), model="a" * 199 + f"!{number}", provider_ids=())
    assert time.process_time() - begun < 0.5


@pytest.mark.parametrize("pattern", ["(", "a**", "(?<=a)b", "(a)\\1", "((a{100}){100}){100}", "[z-a]", "\\"])
def test_what_takes_more_than_linear_time_or_memory_is_no_pattern(pattern):
    with pytest.raises(ValidationError) as refusal:
        compile_pattern(pattern)
    assert refusal.value.field == "regex"


@given(st.text(max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_text_is_a_pattern_or_refused(text):
    try:
        compile_pattern(text).fullmatch("gpt-5")
    except ValidationError:
        pass


def test_what_is_remembered_of_models_is_bounded_and_stays_right():
    book = RuleBook([rule(1, "gpt-.*5", everyone=True), rule(2, everyone=True)])
    for number in range(3 * REMEMBERED_MODELS):
        assert book.first(user_id=1, group_ids=(), model=f"gpt-{number}", provider_ids=()).id == (
            1 if number % 10 == 5 else 2
        )
        assert len(book._everyone._by_model) <= REMEMBERED_MODELS


def test_many_rules_of_others_cost_nothing():
    book = RuleBook([rule(n, "gpt-.*", user=n) for n in range(2, 20_000)] + [rule(20_000, everyone=True)])
    begun = time.process_time()
    for _ in range(10_000):
        assert book.first(user_id=1, group_ids=(), model="gpt-5", provider_ids=()).id == 20_000
    assert time.process_time() - begun < 1
