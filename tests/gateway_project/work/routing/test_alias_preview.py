"""Which target of an alias would serve now, and why."""

import math
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway_project.work.doors import DIALECTS, WORK
from gateway_project.work.exchange import Decision, Exchange, Identity, RequestOptions
from gateway_project.work.routing.alias_preview import preview_alias
from gateway_project.work.routing.full_providers import FullProviders
from gateway_project.work.routing.readiness import first_to_ask
from gateway_project.work.routing.signals import Signals
from gateway_project.work.snapshot.records import Caller, Snapshot, Target, as_siblings
from gateway_project.work.stages.candidates import choose_candidates
from gateway_project.work.streaming.stream import ClientConnection
from providers.formats import WorkRequest
from providers.health.breakers import Breakers
from providers.health.rests import Rests
from providers.transport.calls import Call
from tests.gateway_project.work.routing.test_aliases import Condition, provider, row, to
from tests.support.thoroughness import number_of

pytestmark = pytest.mark.embedded

CAUSES = ("error", "rate_limited", "context_length", "content_filter", "budget")
SHARE = "serves its share of the requests"
BEHIND = "waits for the tiers before it to fail"


class Full(FullProviders):
    """The accounts whose limits are full."""

    def __init__(self):
        super().__init__()
        self.accounts = set()

    def is_full(self, account):
        return account.account in self.accounts

    def without_full(self, targets):
        return [target for target in targets if not self.is_full(target.provider)] or list(targets)


def new_gateway(credentials=1):
    """Three providers of the models a and b, the first of them with so many credentials."""
    snapshot = Snapshot()
    accounts = [provider(1, "a", "b", credential_id=number) for number in range(credentials)]
    snapshot.put_providers([as_siblings(accounts), *(provider(number, "a", "b") for number in (2, 3))])
    breakers = Breakers(failures=1, cooldown=60)
    parts = {"breakers": breakers, "rests": Rests(), "full_providers": Full(), "signals": Signals()}
    return SimpleNamespace(snapshot=snapshot, **parts)


@pytest.fixture
def gateway():
    return new_gateway()


def account(gateway, number, credential=0):
    return gateway.snapshot.providers[number].accounts[credential]


def rest(gateway, number, *, code=429, model="a", credential=0):
    gateway.rests.begin(Target(account(gateway, number, credential), model), code, 30)


def shown(gateway, *targets, **options):
    gateway.snapshot.put_aliases([row(5, "x", *targets, **options)])
    return [(one.provider, one.serves, one.reason) for one in preview_alias(gateway, 5)]


def test_the_first_tier_serves_and_the_others_wait(gateway):
    rows = shown(gateway, to(1, "a", 3), to(2, "a", 1), to(3, "a", tier=1))
    assert rows == [("p1", True, SHARE), ("p2", True, SHARE), ("p3", False, BEHIND)]
    assert [one.share for one in preview_alias(gateway, 5)] == [75, 25, 100]


def test_what_rests_or_fails_or_is_full_does_not_serve(gateway):
    rest(gateway, 1)
    gateway.breakers.record_failure(account(gateway, 2))
    gateway.full_providers.accounts.add((3, 0))
    rows = shown(gateway, to(1, "a"), to(2, "a"), to(3, "a", tier=1), to(3, "b", tier=2))
    assert [serves for _, serves, _ in rows] == [False, False, True, False]
    assert "Retry-After" in rows[0][2]
    assert "circuit is open" in rows[1][2]
    assert "used up; it is asked anyway" in rows[2][2]


def test_what_rests_leaves_its_share_to_the_others_of_its_tier(gateway):
    rest(gateway, 1)
    shown(gateway, to(1, "a", 2), to(2, "a", 3), to(3, "a", 1))
    assert [one.share for one in preview_alias(gateway, 5)] == [0, 75, 25]


def test_a_cause_that_is_not_listed_leads_to_no_other_tier(gateway):
    rest(gateway, 1)
    rows = shown(gateway, to(1, "a"), to(2, "a", tier=1), fallback_on=frozenset({"error"}))
    assert [serves for _, serves, _ in rows] == [False, False]
    assert "not in fallbackOn" in rows[1][2]
    assert shown(gateway, to(1, "a"), to(2, "a", tier=1))[1] == ("p2", True, SHARE)


def test_a_limit_of_one_model_leaves_the_other(gateway):
    rest(gateway, 1)
    assert [serves for _, serves, _ in shown(gateway, to(1, "a"), to(1, "b", tier=1))] == [False, True]
    rest(gateway, 1, code=503)
    assert [serves for _, serves, _ in shown(gateway, to(1, "a"), to(1, "b", tier=1))] == [False, False]


def test_one_that_was_limited_a_moment_ago_waits_while_another_can_serve(gateway):
    gateway.rests.pause(Target(account(gateway, 1), "a"))
    rows = shown(gateway, to(1, "a"), to(2, "a"))
    assert rows == [("p1", False, "the provider refused a request with it a moment ago (429)"), ("p2", True, SHARE)]
    assert shown(gateway, to(1, "a"))[0][:2] == ("p1", True)


def test_each_credential_is_judged_by_itself():
    gateway = new_gateway(credentials=2)
    rest(gateway, 1)
    targets = to(1, "a"), to(2, "a", tier=1)
    assert [serves for _, serves, _ in shown(gateway, *targets)] == [True, False]
    gateway.breakers.record_failure(account(gateway, 1, credential=1))
    rows = shown(gateway, *targets)
    assert [serves for _, serves, _ in rows] == [False, True]
    assert "Retry-After" in rows[0][2]
    assert "circuit is open" in rows[0][2]


def test_a_target_of_weight_0_serves_only_without_the_others(gateway):
    targets = to(1, "a"), to(2, "a", 0)
    assert shown(gateway, *targets) == [("p1", True, SHARE), ("p2", False, "serves if no other of its tier can")]
    rest(gateway, 1)
    assert shown(gateway, *targets)[1] == ("p2", True, SHARE)


def test_where_all_fail_the_last_one_is_asked_all_the_same(gateway):
    for number in (1, 2):
        gateway.breakers.record_failure(account(gateway, number))
    rows = shown(gateway, to(1, "a"), to(2, "a", tier=1))
    assert [serves for _, serves, _ in rows] == [False, True]
    assert "asked anyway" in rows[1][2]
    rows = shown(gateway, to(1, "a"), to(2, "a", tier=1), fallback_on=frozenset({"rate_limited"}))
    assert [serves for _, serves, _ in rows] == [True, False]


def test_conditions_are_named_and_a_tier_of_conditions_serves_nobody_else(gateway):
    beta = Condition((("stage", "beta"),), 7)
    rows = shown(gateway, to(1, "a", condition=beta), to(2, "a", tier=1))
    assert rows[0][:2] == ("p1", False)
    assert rows[0][2] == "serves the requests that meet its conditions"
    assert rows[1][1] is True
    assert preview_alias(gateway, 5)[0].conditions == "tag stage=beta, group=7"


def test_the_same_target_counts_where_it_comes_first(gateway):
    rows = shown(gateway, to(1, "a"), to(1, "a", tier=1), to(2, "a", tier=1))
    assert [serves for _, serves, _ in rows] == [True, False, False]
    assert rows[1][2] == "the same target comes before it"


def measure(gateway, number, *, seconds, is_streamed=True):
    at = gateway.signals.clock
    gateway.signals.clock = lambda: 100.0
    sending = gateway.signals.begin((number, "a", is_streamed))
    gateway.signals.clock = lambda: 100.0 + seconds
    sending.note_first_token()
    sending.end()
    gateway.signals.clock = at


def test_the_fastest_is_the_one_whose_streams_are(gateway):
    for is_streamed, times in ((True, (2, 1)), (False, (1, 2))):
        for number, seconds in zip((1, 2), times, strict=True):
            measure(gateway, number, seconds=seconds, is_streamed=is_streamed)
    rows = shown(gateway, to(1, "a"), to(2, "a"), strategy="fastest")
    assert rows == [("p1", False, "the strategy prefers another target"), ("p2", True, SHARE)]


def test_targets_that_are_equal_to_the_strategy_share_the_requests(gateway):
    for strategy in ("fastest", "cheapest", "least-busy"):
        assert [serves for _, serves, _ in shown(gateway, to(1, "a"), to(2, "a"), strategy=strategy)] == [True, True]
    gateway.signals.begin((1, "a", True))
    rows = shown(gateway, to(1, "a"), to(2, "a"), strategy="least-busy")
    assert [serves for _, serves, _ in rows] == [False, True]


def test_looking_changes_no_routing(gateway):
    for number, seconds in ((1, 1), (2, 5)):
        measure(gateway, number, seconds=seconds)
    before = gateway.signals._explorations, dict(gateway.signals._explored_at)
    for _ in range(50):
        assert shown(gateway, to(1, "a"), to(2, "a"), strategy="fastest")[0][1]
    assert (gateway.signals._explorations, gateway.signals._explored_at) == before


def test_an_alias_that_is_not_in_memory_has_no_preview(gateway):
    assert preview_alias(gateway, 6) is None


WEIGHTS, MODELS = st.sampled_from([0, 1, 2]), st.sampled_from("ab")
TARGETS = st.builds(to, st.sampled_from([1, 2, 3]), MODELS, WEIGHTS, st.integers(0, 2))
TROUBLES = st.sampled_from(["", "", "429", "503", "pause", "open", "full"])
STATES = st.fixed_dictionaries({(one, model): TROUBLES for one in [(1, 0), (1, 1), (2, 0), (3, 0)] for model in "ab"})


def disturb(gateway, states):
    for ((number, credential), model), trouble in states.items():
        one = account(gateway, number, credential)
        if trouble in ("429", "503"):
            rest(gateway, number, code=int(trouble), model=model, credential=credential)
        elif trouble == "pause":
            gateway.rests.pause(Target(one, model))
        elif trouble == "open":
            gateway.breakers.record_failure(one)
        elif trouble == "full":
            gateway.full_providers.accounts.add(one.account)


def candidates(gateway, prompt):
    """Those of a streamed request for the alias, as the stage chooses them."""
    alias = gateway.snapshot.aliases.by_id(5)
    body = {"model": "x", "stream": True, "messages": [{"role": "user", "content": prompt}]}
    call = Call(client=None, total_seconds=math.inf)
    exchange = Exchange(ClientConnection({}), "request", WORK, call=call)
    exchange.identity = Identity(Caller(1, "ann", True, frozenset(), ()))
    exchange.request = WorkRequest("chat", "x", body, b"", dialect=DIALECTS["chat"])
    exchange.options = RequestOptions()
    tiers = alias.tiers_for(exchange.identity.caller, None, {})
    offers = tuple(one.target for tier in tiers for one in tier)
    exchange.decision = Decision(alias, tiers, offers, offers)
    choose_candidates(exchange, gateway)
    return exchange.candidates


@pytest.mark.long
@settings(max_examples=number_of(250), deadline=None)
@given(
    st.lists(TARGETS, min_size=1, max_size=5),
    STATES,
    st.sets(st.sampled_from(CAUSES)),
    st.sampled_from(["weighted", "sticky", "least-busy", "cheapest"]),
    st.lists(st.sampled_from([1, 2, 3]), max_size=3),
)
def test_the_page_names_those_that_the_gateway_asks_first(targets, states, causes, strategy, in_flight):
    gateway = new_gateway(credentials=2)
    disturb(gateway, states)
    for number in in_flight:
        gateway.signals.begin((number, "a", True))
    rows = shown(gateway, *targets, strategy=strategy, fallback_on=frozenset(causes))
    serving = {(one.provider_id, one.model) for one in preview_alias(gateway, 5) if one.serves}
    first_targets = set()
    for number in range(2000):
        first = first_to_ask(candidates(gateway, f"{number}"), frozenset(causes), gateway)
        first_targets |= {first.key} if first is not None else set()
        if number >= 20 and serving <= first_targets:
            break
    assert serving == first_targets, (rows, first_targets)
