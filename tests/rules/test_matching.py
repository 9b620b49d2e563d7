"""Which rule lets a request proceed: the first that matches, whatever the pattern costs elsewhere."""

import re
import time
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway_project.errors import ValidationError
from providers.catalogue import Target
from rules.matching import REMEMBERED_MODELS, Mismatch, RuleBook, RuleSnapshot
from rules.patterns import compile_pattern
from tests.support.pace import slowness
from tests.support.promises import parses
from tests.support.thoroughness import number_of

pytestmark = pytest.mark.either_store

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


def rule(
    number, pattern="", user=None, group=None, everyone=False, provider=None, denies=False, enabled=True, position=100
):
    compiled = compile_pattern(pattern) if pattern else None
    return RuleSnapshot(number, f"rule {number}", compiled, user, group, everyone, provider, denies, enabled, position)


def offers_of(model, providers):
    return tuple(Target(SimpleNamespace(id=number), model) for number in providers)


def judged(book, model="gpt-5", user=1, groups=(), providers=(1,)):
    """The id of the rule that allows a request, and the providers that it allows."""
    result, allowed = book.judge(model, offers_of(model, providers), user_id=user, group_ids=groups)
    return result.id if result else None, [target.provider.id for target in allowed]


def first(rules, *request, **options):
    return judged(RuleBook(rules), *request, **options)[0]


def naive(rules, model, user, groups, providers):
    """The specification, word by word."""
    remaining = list(providers)
    matches = [
        one
        for one in sorted(rules, key=lambda row: (row.position, row.id))
        if one.enabled and fits(one, model, user, groups)
    ]
    for one in matches:
        if one.denies and (one.provider_id is None or one.provider_id in remaining):
            remaining = [number for number in remaining if one.provider_id not in (None, number)]
            if one.provider_id is None or not remaining:
                return None, []
    for one in matches:
        if not one.denies and (one.provider_id is None or one.provider_id in remaining):
            return one.id, [number for number in remaining if one.provider_id in (None, number)]
    return None, []


def fits(one, model, user, groups):
    mine = one.everyone or one.user_id == user or (one.group_id is not None and one.group_id in groups)
    return mine and (one.pattern is None or re.fullmatch(one.pattern.pattern, model) is not None)


def some(values):
    return st.none() | st.sampled_from(values)


AUDIENCES = [{}, {"everyone": True}, *({"user": n} for n in USERS), *({"group": n} for n in GROUPS)]
BOOKS = st.lists(
    st.builds(
        lambda pattern, whose, provider, denies, enabled, position: {
            "pattern": pattern, "provider": provider, "denies": denies, "enabled": enabled, "position": position,
            **whose,
        },
        st.sampled_from(PATTERNS), st.sampled_from(AUDIENCES), some(PROVIDERS), st.booleans(),
        st.sampled_from([True, True, False]), st.sampled_from([99, 100, 101]),
    ),
    max_size=8,
)  # fmt: skip
REQUESTS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS),
        "user": st.sampled_from(USERS),
        "groups": st.sets(st.sampled_from(GROUPS)),
        "providers": st.sets(st.sampled_from(PROVIDERS)),
    }
)


@pytest.mark.long
@given(BOOKS, st.randoms(), REQUESTS)
@settings(max_examples=number_of(500), deadline=None)
def test_the_first_rule_is_the_one_that_the_specification_names(rows, random, request):
    rules = [rule(number, **row) for number, row in enumerate(rows, 1)]
    random.shuffle(rules)
    assert judged(RuleBook(rules), **request) == naive(rules, **request)


class TestConsideredRules:
    @pytest.mark.long
    @given(BOOKS, REQUESTS)
    @settings(max_examples=number_of(500), deadline=None)
    def test_they_say_what_the_judgement_does(self, rows, request):
        rules = [rule(number, **row) for number, row in enumerate(rows, 1)]
        model, user, groups, providers = (request[name] for name in ("model", "user", "groups", "providers"))
        book, offers = RuleBook(rules), offers_of(model, providers)
        results = book.consider_rules(model, offers, user_id=user, group_ids=groups)
        assert [one.rule for one in results] == sorted(rules, key=lambda one: (not one.denies, one.position, one.id))
        matches = [one.rule for one in results if one.has_matched]
        allowing = [one for one in matches if not one.denies]
        assert len(allowing) <= 1
        remaining = [number for number in providers if number not in {one.provider_id for one in matches if one.denies}]
        allowed = [number for number in remaining if one_of(allowing) in (None, number)] if allowing else []
        assert judged(book, **request) == (allowing[0].id if allowing else None, allowed)

    @pytest.mark.long
    @given(BOOKS, REQUESTS)
    @settings(max_examples=number_of(500), deadline=None)
    def test_without_one_that_does_not_match_the_judgement_is_the_same(self, rows, request):
        rules = [rule(number, **row) for number, row in enumerate(rows, 1)]
        model, user, groups, providers = (request[name] for name in ("model", "user", "groups", "providers"))
        results = RuleBook(rules).consider_rules(model, offers_of(model, providers), user_id=user, group_ids=groups)
        relevant = [one.rule for one in results if one.has_matched]
        assert judged(RuleBook(rules), **request) == judged(RuleBook(relevant), **request)
        for one in results:
            assert (one.mismatch is Mismatch.DISABLED) == (not one.rule.enabled)
            if one.mismatch in (Mismatch.USER, Mismatch.GROUP, Mismatch.NOBODY, Mismatch.MODEL):
                assert not fits(one.rule, model, user, groups)
            elif one.rule.enabled:
                assert fits(one.rule, model, user, groups)

    def test_each_has_its_reason(self):
        rules = {
            Mismatch.USER: rule(1, user=2, denies=True),
            Mismatch.PROVIDER: rule(2, everyone=True, provider=2, denies=True),
            Mismatch.DISABLED: rule(3, everyone=True, enabled=False),
            Mismatch.GROUP: rule(4, group=1),
            Mismatch.NOBODY: rule(5),
            Mismatch.MODEL: rule(6, "claude", everyone=True),
            None: rule(7, user=1),
            Mismatch.DECIDED: rule(8, everyone=True),
        }
        results = RuleBook(rules.values()).consider_rules("gpt-5", offers_of("gpt-5", [1]), user_id=1, group_ids=[7])
        assert results == [(one, mismatch) for mismatch, one in rules.items()]


def one_of(rules):
    return rules[0].provider_id


class TestRulesThatDeny:
    ALLOW = rule(1, everyone=True)

    def test_one_without_a_provider_refuses_whatever_allows_before_it(self):
        assert judged(RuleBook([self.ALLOW, rule(9, "gpt.*", user=1, denies=True)]), providers=[1, 2]) == (None, [])

    def test_one_with_a_provider_leaves_it_out(self):
        book = RuleBook([self.ALLOW, rule(9, group=4, provider=2, denies=True)])
        assert judged(book, groups=[4], providers=[1, 2, 3]) == (1, [1, 3])
        assert judged(book, groups=[4], providers=[2]) == (None, [])
        assert judged(book, providers=[2]) == (1, [2])

    def test_a_rule_that_allows_only_the_provider_does_not_match_then(self):
        book = RuleBook(
            [rule(1, everyone=True, provider=2), rule(2, everyone=True), rule(9, user=1, provider=2, denies=True)]
        )
        assert judged(book, providers=[1, 2]) == (2, [1])

    def test_an_alias_is_denied_by_its_name_and_its_targets_by_theirs(self):
        def of_alias(*denies):
            offers = offers_of("gpt-5", [1]) + offers_of("claude", [2])
            book = RuleBook([self.ALLOW, *denies])
            result, allowed = book.judge_alias("fast", offers, user_id=1, group_ids=())
            return result and result.id, [target.key for target in allowed]

        assert of_alias() == (1, [(1, "gpt-5"), (2, "claude")])
        assert of_alias(rule(2, "fast", everyone=True, denies=True)) == (None, [])
        assert of_alias(rule(2, "fast", everyone=True, provider=1, denies=True)) == (1, [(2, "claude")])
        assert of_alias(rule(2, "claude", everyone=True, denies=True)) == (1, [(1, "gpt-5")])
        assert of_alias(rule(2, "claude|gpt-5", everyone=True, denies=True)) == (None, [])


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
        judged(book, "a" * 199 + f"!{number}", providers=())
    assert time.process_time() - begun < 0.5 * slowness()


@pytest.mark.parametrize("pattern", ["(", "a**", "(?<=a)b", "(a)\\1", "((a{100}){100}){100}", "[z-a]", "\\"])
def test_what_takes_more_than_linear_time_or_memory_is_no_pattern(pattern):
    with pytest.raises(ValidationError) as refusal:
        compile_pattern(pattern)
    assert refusal.value.field == "regex"


@parses
@pytest.mark.long
@given(st.text(max_size=40))
@settings(max_examples=number_of(200), deadline=None)
def test_any_text_is_a_pattern_or_refused(text):
    try:
        compile_pattern(text).fullmatch("gpt-5")
    except ValidationError:
        pass


def test_what_is_remembered_of_models_is_bounded_and_stays_right():
    book = RuleBook([rule(1, "gpt-.*5", everyone=True), rule(2, everyone=True)])
    for number in range(3 * REMEMBERED_MODELS):
        assert judged(book, f"gpt-{number}", providers=())[0] == (1 if number % 10 == 5 else 2)
        assert len(book._allows._everyone._by_model) <= REMEMBERED_MODELS


@pytest.mark.long
def test_many_rules_of_others_cost_nothing():
    book = RuleBook([rule(n, "gpt-.*", user=n) for n in range(2, 20_000)] + [rule(20_000, everyone=True)])
    begun = time.process_time()
    for _ in range(10_000):
        assert judged(book, providers=())[0] == 20_000
    assert time.process_time() - begun < 1 * slowness()
