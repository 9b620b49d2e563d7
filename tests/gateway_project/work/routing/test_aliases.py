"""What a name means: exact names, patterns, aliases in aliases, conditions; and that no alias opens what rules deny."""

import re
import time
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway_project.errors import RuleDenied
from gateway_project.work.exchange import Decision, Identity, RequestOptions
from gateway_project.work.routing.aliases import AliasBook, AliasRow, Condition, MirrorRow, NamePattern, TargetRow
from gateway_project.work.snapshot.records import Caller, Snapshot
from gateway_project.work.stages.rules import allowed_targets, apply_rules
from rules.aliases.models import MAX_STARS
from rules.matching import RuleSnapshot
from rules.patterns import compile_pattern
from tests.support.pace import slowness
from tests.support.snapshot_records import key, provider
from tests.support.thoroughness import number_of

pytestmark = pytest.mark.embedded

ANN = Caller(1, "ann", True, frozenset(), (7,))
ANYBODY = Condition()
EVERY_CAUSE = frozenset({"error", "rate_limited"})


def row(number, name, *targets, **options):
    defaults = {"strategy": "weighted", "fallback_on": EVERY_CAUSE}
    return AliasRow(number, name, targets=targets, **defaults | options)


def to(provider_id, model, weight=1, tier=0, condition=ANYBODY):
    return TargetRow(provider_id, model, None, weight, tier, condition)


def inside(alias_id, weight=1, tier=0, condition=ANYBODY):
    return TargetRow(None, "", alias_id, weight, tier, condition)


def book(*rows):
    providers = {number: provider(number, "a", "b", "c") for number in (1, 2, 3)}
    return AliasBook(rows, providers)


def shape(alias):
    """Provider, model and weight of each target, by tier."""
    return [[(*one.target.key, round(one.weight, 3)) for one in tier] for tier in alias.tiers]


class TestNames:
    def test_an_exact_name_comes_before_a_pattern_and_the_longest_pattern_before_others(self):
        names = ["gpt-5", "gpt-*", "gpt-5*", "*", "*-mini", "g*5*"]
        aliases = book(*(row(number, name) for number, name in enumerate(names, 1)))
        cases = {
            "gpt-5": "gpt-5", "gpt-4": "gpt-*", "gpt-5-x": "gpt-5*", "claude": "*", "o3-mini": "*-mini",
            "gpt-4-mini": "*-mini", "g15": "g*5*", "": "*",
        }  # fmt: skip
        assert {name: aliases.resolve(name).name for name in cases} == cases

    def test_a_name_that_no_alias_has_means_nothing(self):
        assert AliasBook().resolve("gpt-5") is None
        assert book(row(1, "fast"), row(2, "a*z")).resolve("gpt-5") is None
        assert book(row(1, "fast", enabled=False)).resolve("fast") is None
        assert book(row(1, "*", enabled=False)).resolve("fast") is None

    @pytest.mark.long
    @settings(max_examples=number_of(400))
    @given(st.text("ab*", max_size=8), st.text("ab", max_size=10))
    def test_a_pattern_fits_what_the_regular_expression_of_the_same_meaning_fits(self, name, text):
        expected = re.fullmatch(".*".join(map(re.escape, name.split("*"))), text) is not None
        if "*" in name:
            assert NamePattern(name, None).fits(text) == expected

    @pytest.mark.long
    def test_patterns_cost_little_whatever_name_is_sent(self):
        """The most patterns with the most stars, and names that fit almost: each is looked at once."""
        middle = "*".join(["a" * 40] * MAX_STARS)
        aliases = book(*(row(number, f"{middle}*b{number}") for number in range(200)))
        begun = time.perf_counter()
        for number in range(100):
            assert aliases.resolve("a" * 190 + f"x{number}") is None
        assert time.perf_counter() - begun < 1 * slowness()  # 20,000 comparisons
        for number in range(5000):
            aliases.resolve(f"name {number}")
        assert len(aliases._remembered) <= 2048


class TestTargets:
    def test_tiers_are_in_order_and_targets_keep_theirs(self):
        aliases = book(row(1, "x", to(1, "a", tier=5), to(2, "b", 3), to(3, "c", 0), to(1, "b", tier=1)))
        assert shape(aliases.resolve("x")) == [[(2, "b", 3), (3, "c", 0)], [(1, "b", 1)], [(1, "a", 1)]]

    def test_a_target_without_its_provider_or_model_is_left_out(self):
        aliases = book(row(1, "x", to(9, "a"), to(1, "gone"), to(1, "a"), mirror=MirrorRow(9, "a", 0.5)))
        alias = aliases.resolve("x")
        assert shape(alias) == [[(1, "a", 1)]]
        assert alias.mirror is None

    def test_an_alias_in_an_alias_shares_its_weight_and_its_tier(self):
        inner = row(2, "inner", to(1, "a", 3), to(2, "a", 1), to(3, "a", tier=1))
        aliases = book(row(1, "outer", inside(2, 8, tier=1), to(3, "b", tier=1), to(2, "c"), to(3, "c", tier=2)), inner)
        assert shape(aliases.resolve("outer")) == [
            [(2, "c", 1)],
            [(1, "a", 6), (2, "a", 2), (3, "b", 1)],
            [(3, "a", 8)],
            [(3, "c", 1)],
        ]

    def test_a_disabled_alias_in_an_alias_serves_nothing(self):
        aliases = book(row(1, "outer", inside(2), to(3, "b")), row(2, "inner", to(1, "a"), enabled=False))
        assert shape(aliases.resolve("outer")) == [[(3, "b", 1)]]

    @pytest.mark.parametrize(
        "rows",
        [
            [row(1, "x", inside(1), to(1, "a"))],
            [row(1, "x", inside(2)), row(2, "y", inside(3), to(1, "a")), row(3, "z", inside(1))],
            [row(n, "x" if n == 1 else f"x{n}", inside(n + 1), to(1, "a")) for n in range(1, 9)],
            [row(1, "x", *[inside(2)] * 9), row(2, "y", *[to(1, "a")] * 9)],
        ],
    )
    def test_rows_that_nobody_could_write_serve_nothing(self, rows):
        aliases = book(*rows, row(99, "good", to(1, "a")))
        assert aliases.resolve("x").tiers == ()
        assert shape(aliases.resolve("good")) == [[(1, "a", 1)]]


class TestConditions:
    @pytest.mark.parametrize(
        ("condition", "holds"),
        [
            (Condition(), True),
            (Condition(group_id=7), True),
            (Condition(group_id=8), False),
            (Condition(user_id=1), True),
            (Condition(user_id=2), False),
            (Condition(user_id=1, key_name="k"), True),
            (Condition(user_id=1, key_name="other"), False),
            (Condition((("beta", "yes"),)), True),
            (Condition((("beta", "no"),)), False),
            (Condition((("beta", "yes"), ("team", "x"))), False),
            (Condition((("beta", "yes"),), 7, 1, "k"), True),
            (Condition((("beta", "yes"),), 7, 2, "k"), False),
        ],
    )
    def test_all_of_a_condition_must_hold(self, condition, holds):
        assert condition.holds(ANN, key(1), {"beta": "yes", "x": "y"}) is holds

    def test_a_login_has_no_key_and_tags_can_be_left_open(self):
        assert not Condition(key_name="k").holds(ANN, None, {})
        assert Condition((("beta", "no"),)).holds(ANN, None, None)

    def test_conditions_of_both_aliases_must_hold(self):
        beta = Condition((("beta", "1"),))
        aliases = book(
            row(1, "x", inside(2, condition=Condition(group_id=7))),
            row(2, "y", to(1, "a", condition=beta), to(2, "a"), to(3, "a", condition=Condition(group_id=8))),
        )
        alias = aliases.resolve("x")
        keys = [[one.target.key for one in tier] for tier in alias.tiers_for(ANN, None, {"beta": "1"})]
        assert keys == [[(1, "a"), (2, "a")]]
        assert alias.tiers_for(replace(ANN, group_ids=()), None, {"beta": "1"}) == ()

    def test_of_the_same_targets_the_first_that_fits_counts(self):
        beta = Condition((("beta", "1"),))
        alias = book(row(1, "x", to(1, "a", 9, condition=beta), to(1, "a", 2), to(2, "a"), to(1, "a", tier=1))).resolve(
            "x"
        )
        assert [[one.weight for one in tier] for tier in alias.tiers_for(ANN, None, {"beta": "1"})] == [[9, 1]]
        assert [[one.weight for one in tier] for tier in alias.tiers_for(ANN, None, {})] == [[2, 1]]


# -- No alias opens what no rule allows: against an oracle that knows nothing of the code ----------------

MODELS, PROVIDERS = ("a", "b", "c"), (1, 2, 3)
NAMES = ("x", "xy", "y", "a", "*", "x*", "*y", "b", "p1/a")
PATTERNS = ("", "a", "[ab]", "x.*", "x|a|b", ".*y", "[^a]*", "x", "c")
CALLERS = [ANN, Caller(2, "bob", True, frozenset(), ()), Caller(3, "eve", True, frozenset(), (7, 8))]
conditions = st.builds(
    Condition,
    st.sampled_from([(), (), (("beta", "1"),)]),
    st.sampled_from([None, None, 7, 8]),
    st.sampled_from([None, None, 1, 2]),
    st.sampled_from([None, None, None, "k"]),
)
direct = st.builds(
    to,
    st.sampled_from((*PROVIDERS, 4)),
    st.sampled_from((*MODELS, "d")),
    st.integers(0, 3),
    st.integers(0, 2),
    conditions,
)
nested = st.builds(inside, st.integers(1, 4), st.integers(0, 3), st.integers(0, 2), conditions)
alias_rows = st.lists(
    st.tuples(st.sampled_from(NAMES), st.lists(direct | direct | nested, max_size=4), st.booleans()),
    max_size=4,
    unique_by=lambda one: one[0],
)
rule_rows = st.lists(
    st.tuples(st.sampled_from(PATTERNS), st.sampled_from(["all", "user", "group"]), st.sampled_from([None, 1, 2, 3])),
    max_size=5,
)
requests = st.tuples(
    st.sampled_from(CALLERS),
    st.sampled_from(("x", "xy", "y", "zy", "a", "b", "q", "x*", "p1/a")),
    st.sampled_from([None, None, 1, 2]),  # the provider that the key is linked to
    st.sampled_from(["", "", "p1", "p2"]),  # X-Svc-Provider
    st.sampled_from([{}, {"beta": "1"}]),
)


def rules_of(rows):
    return [
        RuleSnapshot(
            number, f"r{number}", compile_pattern(pattern) if pattern else None, 1 if whom == "user" else None,
            7 if whom == "group" else None, whom == "all", provider_id,
        )
        for number, (pattern, whom, provider_id) in enumerate(rows, 1)
    ]  # fmt: skip


def reached(rows, number, caller, tags, key_name, path=()):
    """Every (provider, model) that the alias with this number leads to; None if it contains a cycle."""
    _, targets, enabled = rows[number - 1]
    if number in path:
        return None
    if path and not enabled:
        return set()
    pairs = set()
    for one in targets:
        condition = one.condition
        fits = (
            all(tags.get(name) == value for name, value in condition.tags)
            and condition.group_id in (None, *caller.group_ids)
            and condition.user_id in (None, caller.id)
            and condition.key_name in (None, key_name)
        )
        if one.nested_id is None:
            exists = one.provider_id in PROVIDERS and one.model in MODELS
            pairs |= {(one.provider_id, one.model)} if exists and fits else set()
        elif one.nested_id <= len(rows):
            if not rows[one.nested_id - 1][2]:
                continue
            inner = reached(rows, one.nested_id, caller, tags, key_name, (*path, number))
            if inner is None:
                return None
            pairs |= inner if fits else set()
    return pairs


def meaning(rows, model):
    """The number of the alias that a name means."""
    fitting = [
        (name != model, -len(name.replace("*", "")), name.count("*"), name, number)
        for number, (name, _, enabled) in enumerate(rows, 1)
        if enabled and (name == model if "*" not in name else re.fullmatch(name.replace("*", ".*"), model))
    ]
    exact = [one for one in fitting if "*" not in one[3]]
    return min(exact or fitting)[-1] if fitting else None


def allows(rules, caller, name, provider_id):
    """Whether any rule lets the caller ask this provider for the name."""
    return any(
        (pattern == "" or re.fullmatch(pattern, name))
        and (whom == "all" or (whom == "user" and caller.id == 1) or (whom == "group" and 7 in caller.group_ids))
        and limited_to in (None, provider_id)
        for pattern, whom, limited_to in rules
    )


@pytest.mark.long
@settings(max_examples=number_of(1500))
@given(alias_rows, rule_rows, st.lists(requests, min_size=1, max_size=6))
def test_no_alias_opens_what_no_rule_allows(aliases, rules, asked):
    snapshot = Snapshot()
    snapshot.put_providers([provider(number, *MODELS) for number in PROVIDERS])
    snapshot.put_rules(rules_of(rules))
    snapshot.put_aliases(
        [row(n, name, *targets, enabled=enabled) for n, (name, targets, enabled) in enumerate(aliases, 1)]
    )
    for caller, name, linked, provider_name, tags in asked:
        number = meaning(aliases, name)
        if number is None:
            assert snapshot.aliases.resolve(name) is None
            continue
        pairs = reached(aliases, number, caller, tags, None if linked is None else "k") or set()
        may_serve = {
            (provider_id, model)
            for provider_id, model in pairs
            if linked in (None, provider_id)
            and provider_name in ("", f"p{provider_id}")
            and allows(rules, caller, name, provider_id)
            and allows(rules, caller, model, provider_id)
        }
        served = allowed_by_pipeline(snapshot, caller, name, linked, provider_name, tags)
        assert served <= may_serve
        assert bool(served) == bool(may_serve)


def allowed_by_pipeline(snapshot, caller, name, linked, provider_name, tags):
    exchange = SimpleNamespace(
        model=name,
        identity=Identity(caller, None if linked is None else replace(key(1), provider_id=linked)),
        options=RequestOptions(provider_name=provider_name, tags=tags),
        decision=Decision(),
    )
    try:
        apply_rules(exchange, SimpleNamespace(snapshot=snapshot))
    except RuleDenied:
        return set()
    assert len({target.key for target in exchange.decision.allowed}) == len(exchange.decision.allowed)
    return {target.key for target in exchange.decision.allowed}


def test_what_lists_show_needs_no_tags():
    snapshot = Snapshot()
    snapshot.put_providers([provider(1, "a"), provider(2, "b")])
    snapshot.put_aliases([row(1, "x", to(1, "a", condition=Condition((("beta", "1"),))), to(2, "b"))])
    snapshot.put_rules(rules_of([("", "all", None)]))
    assert Counter(target.key for target in allowed_targets("x", ANN, None, snapshot)) == {(1, "a"): 1, (2, "b"): 1}


def test_aliases_follow_their_providers():
    snapshot = Snapshot()
    snapshot.put_aliases([row(1, "x", to(1, "a"))])
    assert snapshot.aliases.resolve("x").tiers == ()
    snapshot.put_providers([provider(1, "a")])
    assert shape(snapshot.aliases.resolve("x")) == [[(1, "a", 1)]]
    snapshot.put_providers([provider(1, "b")])
    assert snapshot.aliases.resolve("x").tiers == ()
