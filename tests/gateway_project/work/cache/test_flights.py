"""Of identical requests at one moment one asks the provider, and the others get what it got."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from gateway_project.errors import ProviderError
from gateway_project.work.cache.flights import FlightPending, Flights
from providers.transport.calls import Call, End, Interrupted
from tests.support.pace import patience


@pytest.fixture
def flights(state):
    return Flights(state)


def new_call():
    return Call(client=None, total_seconds=10)


def begin(flights, state, key="k"):
    token = flights.token()
    assert state.admit((), key, token, read=True).leads
    return flights.lead(key, token)


def follow(flights, pool, key="k"):
    following = pool.submit(flights.follow, key, new_call())
    time.sleep(0.05)
    return following


@pytest.fixture
def pool():
    with ThreadPoolExecutor(20) as running:
        yield running


@pytest.mark.long
def test_who_follows_gets_the_answer_as_soon_as_it_is_there(flights, state, pool):
    flight = begin(flights, state)
    following = [follow(flights, pool) for _ in range(5)]
    begun = time.monotonic()
    flights.land(flight, b"value", 60)
    assert [each.result(30) for each in following] == [b"value"] * 5
    assert time.monotonic() - begun < patience(0.1)
    assert state.peek("k") == (b"value", False)


def test_an_answer_that_may_not_be_kept_is_handed_on_all_the_same(flights, state, pool):
    flight = begin(flights, state)
    following = follow(flights, pool)
    flights.land(flight, b"value", 0)
    assert following.result(30) == b"value"
    assert state.peek("k") == (None, False)


@pytest.mark.parametrize(("seconds", "kept"), [(1, b"value"), (0, None)])
def test_who_comes_after_the_landing_gets_what_was_kept(flights, state, seconds, kept):
    flights.land(begin(flights, state), b"value", seconds)
    assert flights.follow("k", new_call()) == kept


def test_who_follows_meets_the_error_of_its_leader(flights, state, pool):
    flight = begin(flights, state)
    following = [follow(flights, pool) for _ in range(3)]
    flights.land(flight, None, 0, ProviderError("It failed."))
    for each in following:
        with pytest.raises(ProviderError, match="It failed"):
            each.result(30)


@pytest.mark.long
def test_an_error_is_met_too_by_who_was_looking_up_when_it_came(flights, state):
    flight = begin(flights, state)

    class LookingUp(Call):
        looks = 0

        def check(self):
            self.looks += 1
            if self.looks == 2:  # between two slices of its waiting
                flights.land(flight, None, 0, ProviderError("It failed."))

    with pytest.raises(ProviderError, match="It failed"):
        flights.follow("k", LookingUp(client=None, total_seconds=10))


def test_when_a_leader_gives_up_the_next_one_leads(flights, state, pool):
    flight = begin(flights, state)
    following = follow(flights, pool)
    flights.land(flight, None, 0)
    assert following.result(30) is None
    begin(flights, state)


def test_who_follows_another_process_looks_until_the_answer_is_there(flights, state, pool):
    elsewhere = Flights(state)
    flight = begin(elsewhere, state)
    following = follow(flights, pool)
    elsewhere.land(flight, b"value", 60)
    assert following.result(30) == b"value"


def test_who_follows_another_process_stops_when_it_gives_up(flights, state, pool):
    elsewhere = Flights(state)
    flight = begin(elsewhere, state)
    following = follow(flights, pool)
    elsewhere.land(flight, None, 0)
    assert following.result(30) is None


@pytest.mark.long
@pytest.mark.parametrize("led_here", [True, False])
def test_who_follows_can_leave(flights, state, pool, led_here):
    begin(flights if led_here else Flights(state), state)
    call = new_call()
    following = pool.submit(flights.follow, "k", call)
    time.sleep(0.05)
    call.interrupt(End.CLIENT_CLOSED)
    with pytest.raises(Interrupted):
        following.result(30)


@pytest.mark.long
@pytest.mark.parametrize("led_here", [True, False])
def test_who_follows_can_look_up_in_between(flights, state, led_here):
    leading = flights if led_here else Flights(state)
    flight = begin(leading, state)
    for _ in range(2):
        with pytest.raises(FlightPending):
            flights.follow("k", new_call(), 0.1)
    leading.land(flight, b"value", 60)
    assert flights.follow("k", new_call(), 0.1) == b"value"


@pytest.mark.long
def test_an_error_that_comes_between_two_heartbeats_is_met_too(flights, state):
    flight = begin(flights, state)
    with pytest.raises(FlightPending) as still:
        flights.follow("k", new_call(), 0.1)
    flights.land(flight, None, 0, ProviderError("It failed."))
    with pytest.raises(ProviderError, match="It failed"):
        flights.follow("k", new_call(), 0.1, still.value.flight)


def test_flights_of_different_keys_have_nothing_to_do_with_each_other(flights, state, pool):
    first, second = begin(flights, state, "a"), begin(flights, state, "b")
    following = follow(flights, pool, "b")
    flights.land(first, b"a", 60)
    time.sleep(0.05)
    assert not following.done()
    flights.land(second, b"b", 60)
    assert following.result(30) == b"b"


def test_a_flight_that_landed_late_does_not_disturb_the_next(flights, state):
    first = begin(flights, state)
    state.release("k", first.token)
    second = begin(flights, state)
    flights.land(first, None, 0)
    assert state.peek("k") == (None, True)
    flights.land(second, b"value", 60)
    assert state.peek("k") == (b"value", False)


def test_tokens_are_never_the_same(flights):
    assert len({flights.token() for _ in range(10_000)}) == 10_000


class Counting:
    """A shared state that only counts how often it is asked to renew."""

    def __init__(self):
        self.renewed = []

    def renew_flight(self, key, token):
        self.renewed.append((key, token))


def test_flights_in_the_air_are_renewed_every_few_seconds():
    state = Counting()
    flights = Flights(state)
    flights.lead("k", "t")
    flights.renew()
    assert state.renewed == []
    flights._renewed -= 4
    flights.renew()
    flights.renew()
    assert state.renewed == [("k", "t")]


@pytest.mark.long
def test_nobody_in_another_process_waits_for_a_stream_that_is_too_long_to_be_cached(flights, state, pool):
    flight = begin(flights, state)
    elsewhere = follow(Flights(state), pool)
    live = SimpleNamespace(may_be_cached=True, has_begun=True)
    flights.begin(flight, live)
    flights.renew()
    assert state.peek("k") == (None, True)
    live.may_be_cached = False
    flights.renew()
    assert elsewhere.result(30) is None
    second = begin(flights, state)  # it asks for itself
    flights.renew()
    flights.land(flight, None, 0)
    assert state.peek("k") == (None, True)
    flights.land(second, b"value", 60)
    assert state.peek("k") == (b"value", False)


def test_a_hundred_requests_make_one_call(flights, state):
    calls, start = [], threading.Barrier(100)

    def serve(number):
        start.wait()
        while True:
            token = flights.token()
            admission = state.admit((), "k", token, read=True)
            if admission.leads:
                flight = flights.lead("k", token)
                calls.append(number)
                time.sleep(0.05)
                flights.land(flight, b"value", 60)
                return b"value"
            value = admission.value or flights.follow("k", new_call())
            if value is not None:
                return value

    with ThreadPoolExecutor(100) as pool:
        assert set(pool.map(serve, range(100))) == {b"value"}
    assert len(calls) == 1
