"""What callers may use, as the judgement of requests says it, and how long it takes for a large rule book."""

import random
import time
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.coverage import TargetSets
from rules.lint.reach import Reach
from rules.linter import RuleDraft, Survey, problems_of
from rules.matching import RuleBook, RuleSnapshot
from rules.offers import OfferedAlias, OfferedProvider, Offers
from rules.patterns import compile_pattern
from tests.rules.test_linter import CALLERS, PROVIDERS, aliases, catalogues, offers_with, rows, rule
from tests.support.thoroughness import number_of

pytestmark = pytest.mark.either_store

NAMES = ["", "a", "a-1", "a.1", "ab", "abc", "a\\b", "b", "gpt-4", "gpt-4o", "gpt-4.1", "gpt.4", "Ab", "é", "a|b"]
ALIAS_NAMES = ["fast", "gpt-5", "gpt-6", "gpt-x", "outer", "east/gpt-5", "claude", "nosuch", "zzz", "other"]
PIECES = [
    "a",
    "b",
    "gpt-4",
    ".",
    ".*",
    r"\.",
    "|",
    "?",
    "+",
    "o",
    "(a|b)",
    "[ab]",
    "(?i)",
    "^",
    "$",
    "-",
    "é",
    r"\\",
    "{2}",
]


@given(rows, catalogues, aliases)
@settings(max_examples=number_of(250), deadline=None)
def test_callers_may_use_what_the_rule_book_allows(rows, catalogue, aliases):
    rules = [rule(number, *row) for number, row in enumerate(rows, 1)]
    providers = [
        OfferedProvider(number, PROVIDERS[number], models, kind) for number, (models, kind) in catalogue.items()
    ]
    offers = offers_with(*aliases, providers=providers)
    book, reach = RuleBook(rules), Reach(rules, offers)
    for caller in CALLERS:
        allowed = [one for one in offers.models if book.allows(one, user_id=caller.id, group_ids=caller.group_ids)]
        assert list(offers.sets.members(reach.models_of(caller.id, caller.group_ids))) == allowed
        for number in offers.providers:
            names = ["gpt-5", "gpt-5-mini", "claude", "nosuch", "zzz", "east/x", "west/x", "other"]
            targets = [target for name in names for target in offers.linked_targets(name, number)]
            is_allowed = any(book.allows(one, user_id=caller.id, group_ids=caller.group_ids) for one in targets)
            assert reach.may_use_link(caller.id, caller.group_ids, number) or not is_allowed
        for alias in offers.aliases:
            usable = reach.targets_of(reach.audiences_of(caller.id, caller.group_ids), alias)
            assert usable == usable_targets(alias, caller, book) or (alias.is_pattern and usable)


def usable_targets(alias: OfferedAlias, caller, book: RuleBook) -> list:
    """The targets with which the rules let the caller ask for the alias, by some name that fits it."""
    names = [name for name in ALIAS_NAMES if alias.fits(name)]
    return [
        one
        for one in alias.targets
        if one.target.provider.format is not None
        and any(
            book.judge_alias(name, (one.target,), user_id=caller.id, group_ids=caller.group_ids)[1] for name in names
        )
    ]


@pytest.mark.long
@given(st.lists(st.sampled_from(PIECES), max_size=5).map("".join), st.booleans())
@settings(max_examples=number_of(1000), deadline=None)
def test_a_pattern_covers_the_names_that_it_matches(text, with_line_break):
    try:
        pattern = compile_pattern(text)
    except Exception:
        return
    names = sorted([*NAMES, "a\nb"] if with_line_break else NAMES)
    provider = SimpleNamespace(id=1)
    sets = TargetSets([SimpleNamespace(provider=provider, model=name) for name in names])
    assert [one.model for one in sets.members(sets.matching_targets(pattern))] == [
        name for name in names if pattern.fullmatch(name)
    ]


def large_book(number_of_rules: int, number_of_models: int) -> tuple[list[RuleSnapshot], Offers]:
    """Rules with different patterns of every usual sort, for everyone, users and groups; one in ten denies."""
    chance = random.Random(1)
    makers = ["openai", "acme", "mistral", "local", "vendor"]
    models = [
        f"{chance.choice(makers)}/model-{number}-{chance.choice(['mini', 'large'])}"
        for number in range(number_of_models)
    ]
    offers = Offers(
        OfferedProvider(number, f"p{number}", frozenset(models[number::4]), "openai") for number in range(4)
    )
    kinds = [
        lambda: chance.choice(models),
        lambda: f"{chance.choice(makers)}/model-{chance.randrange(1000)}.*",
        lambda: f"{chance.choice(models)}|{chance.choice(models)}",
        lambda: f"{chance.choice(makers)}/.*-{chance.choice(['mini', 'large'])}",
        lambda: f"{chance.choice(makers)}/model-[{chance.randrange(9)}].*-(mini|large)",
        lambda: "",
    ]
    audiences = [
        {"everyone": True},
        *({"user_id": number} for number in range(1000)),
        *({"group_id": number} for number in range(200)),
    ]
    return [
        rule(
            number,
            chance.choice(kinds)(),
            chance.choice(audiences),
            chance.choice([None, None, 0, 1, 2, 3]),
            number % 10 == 0,
        )
        for number in range(1, number_of_rules + 1)
    ], offers


@pytest.mark.slow
def test_ten_thousand_rules_and_a_thousand_models_take_two_seconds():
    rules, offers = large_book(10_000, 1000)
    drafts = [RuleDraft(one, linked_provider_ids={0, 1}) for one in rules]
    began = time.process_time()  # of this process alone: others may work on the machine
    verdicts = Survey(rules, offers).verdicts(drafts)
    problems = [problems_of(draft, verdict, nobody="") for draft, verdict in zip(drafts, verdicts, strict=True)]
    reach = Reach(rules, offers)
    used = 0
    for user_id in range(10_000):
        used |= reach.models_of(user_id, (user_id % 200, user_id % 7))
    seconds = time.process_time() - began
    assert sum(map(bool, problems)) > 1000
    assert used
    assert seconds < 2
