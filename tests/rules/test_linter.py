"""What a rule lets through, and the rules that can never match or never matter, as the pipeline judges."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway_project.errors import RuleDenied
from gateway_project.work.exchange import Decision, Identity, RequestOptions
from gateway_project.work.snapshot.records import Caller, Snapshot
from gateway_project.work.stages.rules import apply_rules
from providers.catalogue import servable
from rules.linter import OfferedProvider, Offers, RuleDraft, covered_links, covered_models, warnings
from rules.matching import RuleSnapshot
from rules.patterns import compile_pattern
from rules.snapshots import LAST
from tests.gateway_project.work.snapshot.test_records import provider as provider_snapshot

EAST = OfferedProvider(1, "east", frozenset({"gpt-5", "gpt-5-mini"}), "openai")
WEST = OfferedProvider(2, "west", frozenset({"gpt-5"}), "openai")
OFFERS = Offers([EAST, WEST])
EVERYONE, ANN, STAFF, NOBODY = {"everyone": True}, {"user_id": 1}, {"group_id": 1}, {}


def rule(number=9, regex="", audience=EVERYONE, provider=None, denies=False) -> RuleSnapshot:
    whose = {"user_id": None, "group_id": None, "everyone": False} | audience
    pattern = compile_pattern(regex) if regex else None
    return RuleSnapshot(id=number, name=f"r{number}", pattern=pattern, provider_id=provider, denies=denies, **whose)


def warnings_about(drawn, *others, offers=OFFERS, nobody="", links=(), enabled=True) -> str:
    return " ".join(warnings(RuleDraft(drawn, enabled, links), others, offers, nobody=nobody))


@pytest.mark.parametrize(
    ("drawn", "models"),
    [
        (rule(), [("east", "gpt-5"), ("west", "gpt-5"), ("east", "gpt-5-mini")]),
        (rule(regex="gpt-5"), [("east", "gpt-5"), ("west", "gpt-5")]),
        (rule(regex="gpt-5.*", provider=1), [("east", "gpt-5"), ("east", "gpt-5-mini")]),
        (rule(regex="gpt"), []),  # the whole name has to match
    ],
)
def test_it_lets_through_what_its_pattern_and_provider_cover(drawn, models):
    for audience in (EVERYONE, ANN, STAFF, NOBODY):
        draft = RuleDraft(rule(drawn.id, drawn.pattern.pattern if drawn.pattern else "", audience, drawn.provider_id))
        assert [(target.provider.name, target.model) for target in covered_models(draft, (), OFFERS)] == models


def test_a_provider_of_an_unknown_format_offers_nothing():
    offers = Offers([OfferedProvider(1, "odd", frozenset({"gpt-5"}), None)])
    assert (
        covered_models(RuleDraft(rule()), (), offers) == covered_links(RuleDraft(rule(), True, {1}), (), offers) == []
    )
    assert "currently allows nothing" in warnings_about(rule(), offers=offers, links={1})


def test_one_that_matters_is_not_warned_of():
    assert warnings_about(rule(regex="gpt-5"), rule(1, "claude.*"), rule(2, "gpt-5", ANN)) == ""


def test_what_can_never_match_says_why():
    assert "is not enabled" in warnings_about(rule(), enabled=False)
    assert (
        warnings_about(rule(audience=NOBODY), rule(1))
        == "The rule applies to nobody: choose a user, a group or everyone."
    )
    assert "no members" in warnings_about(rule(audience=STAFF), nobody="The group has no members.")
    assert "currently allows nothing" in warnings_about(rule(regex="claude"))
    assert "currently allows nothing" in warnings_about(rule(), offers=Offers())


@pytest.mark.parametrize("regex", ["", "claude.*"])
def test_a_linked_key_may_use_any_model_name(regex):
    models_elsewhere = Offers([OfferedProvider(1, "east", frozenset(), "openai"), WEST])
    assert warnings_about(rule(regex=regex, provider=1), offers=models_elsewhere, links={1}) == ""
    assert warnings_about(rule(regex="claude.*"), links={1, 2}) == ""
    linked = covered_links(RuleDraft(rule(regex=regex, provider=2), True, {1, 2}), (), OFFERS)
    assert [target.provider.name for target in linked] == ["west"]


def test_a_link_that_leads_nowhere_allows_nothing():
    assert "currently allows nothing" in warnings_about(rule(regex="claude.*"), links={3})  # of a disabled provider
    assert "currently allows nothing" in warnings_about(rule(regex="claude.*", provider=2), links={1})


@pytest.mark.parametrize("earlier", [rule(1), rule(1, "gpt.*", ANN), rule(1, "gpt-5|gpt-5-mini")])
def test_one_that_an_earlier_one_makes_needless_never_matters(earlier):
    assert "has no effect: 'r1' allows" in warnings_about(rule(audience=ANN), earlier)
    assert "has no effect" in warnings_about(rule(LAST, audience=ANN), earlier)  # one that is not stored yet comes last


def test_several_can_make_one_needless_together():
    parts = [rule(1, "gpt-5"), rule(2, "gpt-5-mini", ANN)]
    assert "has no effect: 'r1' and 'r2' allow the same requests" in warnings_about(rule(audience=ANN), *parts)
    assert warnings_about(rule(), *parts) == ""
    many = Offers([OfferedProvider(1, "east", frozenset("abcde"), "openai")])
    several = [rule(number, name) for number, name in enumerate("abcde", 1)]
    assert "'r1', 'r2', 'r3' and 2 more allow" in warnings_about(rule(), *several, offers=many)


def test_what_linked_keys_may_ask_is_made_needless_by_the_same_pattern_or_none_only():
    drawn = rule(regex="gpt.*", audience=ANN)
    assert warnings_about(drawn, rule(1, "gpt-5|gpt-5-mini"), links={1}) == ""
    assert warnings_about(drawn, rule(1, "gpt.*", provider=1), rule(2, "gpt-5"), links={2}) == ""
    for earlier in (rule(1), rule(1, "gpt.*")):
        assert "has no effect: 'r1' allows" in warnings_about(drawn, earlier, links={1})


@pytest.mark.parametrize(
    "other",
    [
        rule(10),  # it comes later
        rule(1, audience=STAFF),
        rule(1, audience=NOBODY),
        rule(1, provider=1),
        rule(1, "gpt-5"),
    ],
)
def test_one_that_reaches_less_hides_nothing(other):
    assert warnings_about(rule(audience=ANN), other) == ""


def test_rules_that_deny_make_one_allow_less_or_nothing():
    assert "Rules that deny refuse all that matches: the rule currently allows nothing." in warnings_about(
        rule(regex="gpt-5", audience=ANN), rule(10, denies=True)
    )
    for other in (
        rule(1, audience=STAFF, denies=True),
        rule(1, "gpt-5-mini", denies=True),
        rule(1, provider=1, denies=True),
    ):
        assert warnings_about(rule(audience=ANN), other) == ""
    assert "allows nothing" in warnings_about(
        rule(), rule(1, provider=1, denies=True), rule(2, provider=2, denies=True)
    )
    denied = covered_models(RuleDraft(rule()), [rule(1, "gpt-5", provider=1, denies=True)], OFFERS)
    assert [(target.provider.name, target.model) for target in denied] == [("west", "gpt-5"), ("east", "gpt-5-mini")]
    assert "allows nothing" not in warnings_about(rule(regex="claude.*"), rule(1, "claude-3", denies=True), links={1})
    assert "allows nothing" in warnings_about(rule(regex="claude.*"), rule(1, "claude.*", denies=True), links={1})


def test_one_that_denies_is_compared_with_those_that_deny():
    assert "currently denies nothing" in warnings_about(rule(regex="claude", denies=True))
    assert warnings_about(rule(denies=True), rule(1)) == warnings_about(rule(), rule(1, "gpt-5", denies=True)) == ""
    assert "has no effect: 'r1' denies the same requests" in warnings_about(rule(denies=True), rule(1, denies=True))
    parts = [rule(1, provider=1, denies=True), rule(2, provider=2, denies=True)]
    assert "has no effect: 'r1' and 'r2' deny the same requests" in warnings_about(rule(denies=True), *parts)


# -- The pipeline's own judgement of whatever may be asked ----------------------------------------------

MODELS = ["gpt-5", "gpt-5-mini", "claude", "east/gpt-5", "org/large"]
NAMES = [*MODELS, "east/claude", "west/gpt-5", "west/west/gpt-5", "nosuch", "gpt-6", "east/", "/", ""]
PATTERNS = ["", ".*", "gpt-5", "gpt.*", "gpt-5|gpt-5-mini", "claude", "east/.*", "nosuch", "west/.*", "zzz"]
AUDIENCES = [EVERYONE, NOBODY, *({"user_id": n} for n in (1, 2)), *({"group_id": n} for n in (1, 2))]
CALLERS = [Caller(1, "ann", True, frozenset(), (1, 2)), Caller(2, "ben", True, frozenset(), (2,)),
           Caller(3, "cyd", True, frozenset(), ())]  # fmt: skip
PROVIDERS = {1: "east", 2: "west", 3: "north"}

rows = st.lists(
    st.tuples(
        st.sampled_from(PATTERNS), st.sampled_from(AUDIENCES), st.none() | st.sampled_from([1, 2, 3]),
        st.sampled_from([False, False, True]),
    ),
    min_size=1, max_size=5,
)  # fmt: skip
catalogues = st.dictionaries(
    st.sampled_from(list(PROVIDERS)),
    st.tuples(st.frozensets(st.sampled_from(MODELS), max_size=3), st.sampled_from(["openai", "openai", None])),
)
linked_keys = st.frozensets(st.tuples(st.sampled_from([1, 2, 3]), st.sampled_from(list(PROVIDERS))), max_size=3)


def linked_providers(one: RuleSnapshot, keys) -> set[int]:
    """The providers to which the keys of the rule's audience are linked."""
    groups = {caller.id: caller.group_ids for caller in CALLERS}
    return {
        provider
        for owner, provider in keys
        if one.everyone or one.user_id == owner or (one.group_id is not None and one.group_id in groups[owner])
    }


def rules_that_let_something_in(snapshot: Snapshot, keys) -> list[int | None]:
    """The ids of the rules by which each of the requests goes to a provider, as the pipeline judges."""
    results = []
    for caller in CALLERS:
        own = [
            SimpleNamespace(provider_id=provider, restrictions=None) for owner, provider in keys if owner == caller.id
        ]
        for key in (None, *own):
            for model in NAMES:
                for expected in ("", *PROVIDERS.values()):
                    results.append(rule_that_lets_in(snapshot, model, expected, caller, key))
    return results


def rule_that_lets_in(snapshot: Snapshot, model: str, expected: str, caller: Caller, key) -> int | None:
    """The id of the rule by which a request goes to a provider; None if it goes to none."""
    exchange = SimpleNamespace(
        model=model,
        identity=Identity(caller, key),
        options=RequestOptions(provider_name=expected),
        decision=Decision(),
    )
    try:
        apply_rules(exchange, SimpleNamespace(snapshot=snapshot))
    except RuleDenied:
        return None
    return exchange.decision.rule.id if servable(exchange.decision.allowed) else None


def results_of_all_requests(rules, providers, keys) -> list[int | None]:
    """By which rule each request goes to a provider, as the pipeline judges."""
    snapshot = Snapshot()
    snapshot.put_rules(rules)
    snapshot.put_providers(
        provider_snapshot(one.id, *one.models, name=one.name, header_name=one.name, format=one.format)
        for one in providers
    )
    return rules_that_let_something_in(snapshot, keys)


@given(rows, catalogues, linked_keys)
@settings(max_examples=250, deadline=None)
def test_what_is_said_to_allow_nothing_lets_no_request_in(rows, catalogue, keys):
    rules = [rule(number, *row) for number, row in enumerate(rows, 1)]
    providers = [
        OfferedProvider(number, PROVIDERS[number], models, format) for number, (models, format) in catalogue.items()
    ]
    results = results_of_all_requests(rules, providers, keys)
    for one in rules:
        sentences = warnings_about(one, *rules, offers=Offers(providers), links=linked_providers(one, keys))
        for verdict in ("allows nothing", "no effect", "to nobody"):
            assert not (verdict in sentences and one.id in results), (one, sentences)
        if one.denies and any(verdict in sentences for verdict in ("denies nothing", "no effect", "to nobody")):
            others = [other for other in rules if other is not one]
            assert results_of_all_requests(others, providers, keys) == results, (one, sentences)
