"""What a rule lets through, and the rules that can never match or never matter, as the pipeline judges."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway_project.errors import RuleDenied
from gateway_project.work.exchange import Decision, Identity, RequestOptions
from gateway_project.work.routing.aliases import AliasBook, AliasRow, Condition, TargetRow
from gateway_project.work.snapshot.records import Caller, Snapshot
from gateway_project.work.stages.rules import apply_rules
from providers.catalogue import servable_targets
from rules.linter import NO_PARENTS, RuleDraft, covered_aliases, covered_links, covered_models, problems_of, survey_one
from rules.matching import RuleSnapshot
from rules.offers import OfferedProvider, Offers
from rules.patterns import compile_pattern
from rules.snapshots import LAST
from tests.support.snapshot_records import provider as provider_snapshot
from tests.support.thoroughness import number_of

pytestmark = pytest.mark.either_store

EAST = OfferedProvider(1, "east", frozenset({"gpt-5", "gpt-5-mini"}), "openai")
WEST = OfferedProvider(2, "west", frozenset({"gpt-5"}), "openai")
OFFERS = Offers([EAST, WEST])
EVERYONE, ANN, STAFF, NOBODY = {"everyone": True}, {"user_id": 1}, {"group_id": 1}, {}


def rule(number=9, regex="", audience=EVERYONE, provider=None, denies=False, position=100) -> RuleSnapshot:
    whose = {"user_id": None, "group_id": None, "everyone": False} | audience
    pattern = compile_pattern(regex) if regex else None
    whose |= {"provider_id": provider, "denies": denies, "position": position}
    return RuleSnapshot(id=number, name=f"r{number}", pattern=pattern, **whose)


def warnings_about(drawn, *others, offers=OFFERS, parents=NO_PARENTS, nobody="", links=(), enabled=True) -> str:
    draft = RuleDraft(drawn, enabled, links)
    problems = problems_of(draft, survey_one(draft, others, offers, parents), nobody=nobody)
    return " ".join(problem.message for problem in problems)


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
    assert "has no effect: 'r10' allows" in warnings_about(rule(audience=ANN), rule(10, position=99))
    assert "has no effect" in warnings_about(rule(LAST, audience=ANN), earlier)  # one that is not stored yet comes last


def test_the_rules_of_a_group_are_for_the_groups_below_it():
    org, team = {"group_id": 1}, {"group_id": 3}
    parents = {3: 2, 2: 1}  # org is above a department, which is above team
    assert "has no effect: 'r1' allows" in warnings_about(rule(audience=team), rule(1, audience=org), parents=parents)
    denial = rule(1, audience=org, denies=True)
    assert "Rules that deny refuse everything" in warnings_about(rule(audience=team), denial, parents=parents)
    assert covered_models(RuleDraft(rule(audience=team)), [denial], OFFERS, parents) == []
    linked = warnings_about(rule(audience=team), denial, parents=parents, links={1})
    assert "Rules that deny refuse everything" in linked


def test_the_rules_of_a_group_are_not_for_those_above_or_beside_it():
    parents = {3: 1, 4: 1}
    for group in (1, 4):
        one = rule(audience={"group_id": group})
        assert warnings_about(one, rule(1, audience={"group_id": 3}), parents=parents) == ""
        assert warnings_about(one, rule(1, audience={"group_id": 3}, denies=True), parents=parents) == ""


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
        rule(1, position=101),  # so does this
        rule(1, audience=STAFF),
        rule(1, audience=NOBODY),
        rule(1, provider=1),
        rule(1, "gpt-5"),
    ],
)
def test_one_that_reaches_less_hides_nothing(other):
    assert warnings_about(rule(audience=ANN), other) == ""


def test_rules_that_deny_make_one_allow_less_or_nothing():
    assert (
        "Rules that deny refuse everything that the rule matches: the rule currently allows nothing."
        in warnings_about(rule(regex="gpt-5", audience=ANN), rule(10, denies=True))
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


# -- Aliases ---------------------------------------------------------------------------------------------


def alias_row(name, *targets, number=1, nested=()) -> AliasRow:
    """An alias with these targets: pairs of a provider and a model, perhaps with a condition."""
    rows = [TargetRow(provider, model, None, 1, 0, *condition) for provider, model, *condition in targets]
    rows += [TargetRow(None, "", one, 1, 0) for one in nested]
    return AliasRow(number, name, "weighted", frozenset(), tuple(rows))


def offers_with(*aliases: AliasRow, providers=(EAST, WEST)) -> Offers:
    return Offers(providers, AliasBook(aliases, {one.id: one for one in providers}).offered_aliases())


FAST = offers_with(alias_row("fast", (1, "gpt-5-mini")))


def test_a_rule_for_the_name_of_an_alias_matters():
    assert warnings_about(rule(regex="fast"), offers=FAST) == ""
    assert warnings_about(rule(regex="fast", denies=True), offers=FAST) == ""
    for denies in (False, True):
        models = rule(1, "gpt.*", denies=denies)
        assert warnings_about(rule(regex="fast|gpt-5", denies=denies), models, offers=FAST) == ""
        earlier = rule(1, "fast|x", denies=denies)
        assert "has no effect: 'r1'" in warnings_about(rule(regex="fast", denies=denies), earlier, offers=FAST)
    assert "refuse everything that the rule matches" in warnings_about(
        rule(regex="fast"), rule(1, "fast", denies=True), offers=FAST
    )
    assert covered_models(RuleDraft(rule(regex="fast")), (), FAST) == []
    assert covered_aliases(RuleDraft(rule(regex="fast")), (), FAST) == ["fast"]
    assert covered_aliases(RuleDraft(rule(regex="fast")), [rule(1, "fast", denies=True)], FAST) == []


def test_a_rule_for_a_provider_matters_where_an_alias_has_a_target_there():
    assert warnings_about(rule(regex="fast", provider=1), offers=FAST) == ""
    for denies, verb in ((False, "allows"), (True, "denies")):
        assert f"{verb} nothing" in warnings_about(rule(regex="fast", provider=2, denies=denies), offers=FAST)
    both = offers_with(alias_row("fast", (1, "gpt-5"), (2, "gpt-5")))
    assert warnings_about(rule(regex="fast"), rule(1, "fast", provider=1), offers=both) == ""
    parts = [rule(1, "fast", provider=1), rule(2, "fast", provider=2)]
    assert "has no effect" in warnings_about(rule(regex="fast"), *parts, offers=both)
    nested = offers_with(alias_row("fast", (1, "gpt-5")), alias_row("outer", number=2, nested=[1]))
    assert warnings_about(rule(regex="outer", provider=1), offers=nested) == ""
    nowhere = offers_with(alias_row("fast", (1, "gone")))
    assert "allows nothing" in warnings_about(rule(regex="fast"), offers=nowhere)


PATTERNS_OF_ALIAS = ["gpt-6", "gpt-.*", "g.*", "x|gpt-6", ".*-6", "(gpt|x)-6", "(?i)GPT-6", ""]


@pytest.mark.parametrize("regex", PATTERNS_OF_ALIAS)
@pytest.mark.parametrize("denies", [False, True])
def test_a_rule_that_may_match_a_name_of_an_alias_with_stars_matters(regex, denies):
    offers = offers_with(alias_row("gpt-*", (2, "gpt-5")))
    earlier = rule(1, "gpt-5|gpt-5-mini|gpt-[56].*|.*", denies=denies)
    drawn, at_west = rule(regex=regex, denies=denies), rule(regex=regex, provider=2, denies=denies)
    assert warnings_about(drawn, offers=offers) == warnings_about(drawn, earlier, offers=offers) == ""
    assert warnings_about(at_west, earlier, offers=offers) == ""
    assert covered_aliases(RuleDraft(drawn), (), offers) == ["gpt-*"]
    for same in (rule(1, denies=denies), rule(1, regex, denies=denies)):
        assert "has no effect" in warnings_about(drawn, same, offers=offers)


@pytest.mark.parametrize("regex", ["claude.*", "claude-3", "gpt6", "gpt", "llama|claude.*"])
def test_a_rule_that_matches_no_name_of_an_alias_with_stars_is_said_to_do_nothing(regex):
    offers = offers_with(alias_row("gpt-*", (2, "gpt-5")))
    assert "No model or alias of an enabled provider matches" in warnings_about(rule(regex=regex), offers=offers)
    assert "denies nothing" in warnings_about(rule(regex="gpt-7", provider=1, denies=True), offers=offers)


def test_a_rule_that_denies_matters_at_a_provider_that_cannot_serve():
    odd = OfferedProvider(3, "odd", frozenset({"gpt-5"}), None)
    offers = offers_with(alias_row("fast", (1, "gpt-5"), (3, "gpt-5")), providers=(EAST, WEST, odd))
    for regex in ("fast", "gpt-5"):
        assert warnings_about(rule(regex=regex, provider=3, denies=True), offers=offers) == ""
        assert "allows nothing" in warnings_about(rule(regex=regex, provider=3), offers=offers)


# -- The pipeline's own judgement of whatever may be asked ----------------------------------------------

MODELS = ["gpt-5", "gpt-5-mini", "claude", "east/gpt-5", "org/large"]
NAMES = [*MODELS, "east/claude", "west/gpt-5", "west/west/gpt-5", "nosuch", "gpt-6", "fast", "east/", "/", ""]
PATTERNS = ["", ".*", "gpt-5", "gpt.*", "gpt-5|gpt-5-mini", "claude", "east/.*", "nosuch", "west/.*", "zzz",
            "fast", "fast|claude", "gpt-6"]  # fmt: skip
AUDIENCES = [EVERYONE, NOBODY, *({"user_id": n} for n in (1, 2)), *({"group_id": n} for n in (1, 2))]
CALLERS = [Caller(1, "ann", True, frozenset(), (1, 2)), Caller(2, "ben", True, frozenset(), (2,)),
           Caller(3, "cyd", True, frozenset(), ())]  # fmt: skip
PROVIDERS = {1: "east", 2: "west", 3: "north"}

rows = st.lists(
    st.tuples(
        st.sampled_from(PATTERNS), st.sampled_from(AUDIENCES), st.none() | st.sampled_from([1, 2, 3]),
        st.sampled_from([False, False, True]), st.sampled_from([99, 100, 101]),
    ),
    min_size=1, max_size=5,
)  # fmt: skip
catalogues = st.dictionaries(
    st.sampled_from(list(PROVIDERS)),
    st.tuples(st.frozensets(st.sampled_from(MODELS), max_size=3), st.sampled_from(["openai", "openai", None])),
)
conditions = st.sampled_from(
    [Condition()] * 3 + [Condition(group_id=1), Condition(user_id=2), Condition((("a", "b"),))]
)
alias_names = st.sampled_from(["fast", "fast", "gpt-5", "gpt-*", "*", "east/gpt-5", "outer"])
alias_targets = st.lists(st.tuples(st.sampled_from(list(PROVIDERS)), st.sampled_from(MODELS), conditions), max_size=3)
aliases = st.dictionaries(alias_names, alias_targets, max_size=3).map(
    lambda drawn: [
        alias_row(name, *targets, number=number, nested=[1] if name == "outer" and number > 1 else [])
        for number, (name, targets) in enumerate(drawn.items(), 1)
    ]
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
    return exchange.decision.rule.id if servable_targets(exchange.decision.allowed) else None


def results_of_all_requests(rules, providers, keys, aliases=()) -> list[int | None]:
    """By which rule each request goes to a provider, as the pipeline judges."""
    snapshot = Snapshot()
    snapshot.put_rules(rules)
    snapshot.put_providers(
        provider_snapshot(one.id, *one.models, name=one.name, header_name=one.name, format=one.format)
        for one in providers
    )
    snapshot.put_aliases(aliases)
    return rules_that_let_something_in(snapshot, keys)


# Rules and requests that are all about the same few aliases.
ALIASES = {
    "fast": [alias_row("fast", (1, "gpt-5"))],
    "of both": [alias_row("fast", (1, "gpt-5"), (2, "gpt-5"))],
    "stars": [alias_row("gpt-*", (2, "gpt-5"))],
    "nested": [alias_row("gpt-*", (1, "gpt-5")), alias_row("fast", (2, "gpt-5"), number=2, nested=[1])],
    "for some": [alias_row("fast", (1, "gpt-5", Condition(user_id=1)), (2, "gpt-5", Condition(group_id=1)))],
}
rows_about_aliases = st.lists(
    st.tuples(
        st.sampled_from(["", "fast", "fast", "fast|gpt-5", "gpt-5", "gpt-6", "gpt-.*"]),
        st.sampled_from([EVERYONE, EVERYONE, ANN, STAFF]), st.sampled_from([None, None, 1, 2]), st.booleans(),
        st.sampled_from([99, 100, 101]),
    ),
    min_size=1, max_size=4,
)  # fmt: skip


def assert_nothing_is_changed_by(rules, providers, keys, aliases) -> None:
    """Each rule that is said to do nothing can be taken away."""
    offers = offers_with(*aliases, providers=providers)
    results = results_of_all_requests(rules, providers, keys, aliases)
    for one in rules:
        sentences = warnings_about(one, *rules, offers=offers, links=linked_providers(one, keys))
        if not any(verdict in sentences for verdict in ("s nothing", "no effect", "to nobody")):
            continue
        others = results_of_all_requests([other for other in rules if other is not one], providers, keys, aliases)
        if one.denies:
            assert others == results, (one, sentences)
        else:
            assert one.id not in results, (one, sentences)
            lost = [number for number, other in zip(results, others, strict=True) if number not in (None, other)]
            assert not lost, (one, sentences)


@pytest.mark.long
@given(rows, catalogues, linked_keys, aliases)
@settings(max_examples=number_of(250), deadline=None)
def test_what_is_said_to_do_nothing_changes_no_request(rows, catalogue, keys, aliases):
    rules = [rule(number, *row) for number, row in enumerate(rows, 1)]
    providers = [
        OfferedProvider(number, PROVIDERS[number], models, format) for number, (models, format) in catalogue.items()
    ]
    assert_nothing_is_changed_by(rules, providers, keys, aliases)


@pytest.mark.long
@given(rows_about_aliases, linked_keys, st.sampled_from(list(ALIASES)))
@settings(max_examples=number_of(250), deadline=None)
def test_what_is_said_to_do_nothing_changes_no_request_for_an_alias(rows, keys, aliases):
    rules = [rule(number, *row) for number, row in enumerate(rows, 1)]
    assert_nothing_is_changed_by(rules, [EAST, WEST], keys, ALIASES[aliases])
