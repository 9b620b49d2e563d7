"""What the slower of two targets has cost is in the bill."""

import math
from decimal import Decimal
from types import SimpleNamespace

import pytest

from gateway_project.work.bill import Bill
from gateway_project.work.billing import bill_of
from gateway_project.work.doors import DIALECTS, WORK
from gateway_project.work.exchange import Attempt, Attempts, Exchange
from gateway_project.work.failover.hedging import _book_loser
from gateway_project.work.snapshot.records import Target
from gateway_project.work.streaming.stream import ClientConnection
from providers.formats import ClientResponse, Usage, WorkRequest
from providers.pricing.prices import NOT_KNOWN, Cost, Price
from providers.transport.calls import Call
from tests.support.snapshot_records import provider

pytestmark = pytest.mark.embedded

LOSER, WINNER = (Target(provider(number, "a"), "a") for number in (1, 2))
USAGE = Usage(input=1000, output=500)


def dollars(amount):
    return Price("USD", Decimal(amount), Decimal(amount))


def exchange_of(attempts):
    exchange = Exchange(ClientConnection({}), "request", WORK, call=Call(client=None, total_seconds=math.inf))
    body = {"model": "a", "messages": [{"role": "user", "content": "word " * 100}]}
    exchange.request = WorkRequest("chat", "a", body, b"", dialect=DIALECTS["chat"])
    exchange.attempts = attempts
    return exchange


def bill(prices, *, ended, answer):
    """The bill of a request that the winner has served, and the loser's attempt."""
    snapshot = SimpleNamespace(price=lambda target, at: prices.get(target.key))
    attempt = Attempt(LOSER, 1.0, ended)
    loser = exchange_of(Attempts(sendings=[attempt], answer=answer))
    served = ClientResponse(b"{}", "application/json", usage=USAGE)
    exchange = exchange_of(Attempts(target=WINNER, sendings=[attempt, Attempt(WINNER, 1.0, 2.0)], answer=served))
    _book_loser(loser, exchange, snapshot)
    return bill_of(exchange, snapshot), attempt


def test_an_answer_that_came_just_too_late_is_booked_by_its_usage():
    prices = {LOSER.key: dollars(10), WINNER.key: dollars(1)}
    late = ClientResponse(b"{}", "application/json", usage=Usage(input=1000, output=1000))
    whole, attempt = bill(prices, ended=2.0, answer=late)
    assert attempt.cost == Cost(Decimal("0.02"), "USD", "known")
    assert attempt.error is not None
    assert (whole.cost, whole.cost_of_server.amount) == (Cost(Decimal("0.0215"), "USD", "known"), Decimal("0.0015"))


@pytest.mark.parametrize("answer", [None, ClientResponse(b"{}", "application/json")])
def test_without_a_usage_its_input_is_booked(answer):
    prices = {LOSER.key: dollars(10), WINNER.key: dollars(1)}
    whole, attempt = bill(prices, ended=2.0 if answer else 0.0, answer=answer)
    assert attempt.cost.status == whole.cost.status == "estimated"
    assert whole.cost.amount == Decimal("0.0015") + attempt.cost.amount > Decimal("0.0015")


@pytest.mark.parametrize("price", [None, Price("EUR", Decimal(1), Decimal(1))])
def test_what_cannot_be_added_makes_the_bill_an_estimate(price):
    prices = {WINNER.key: dollars(1)} | ({LOSER.key: price} if price else {})
    whole, attempt = bill(prices, ended=0.0, answer=None)
    assert whole.cost == Cost(Decimal("0.0015"), "USD", "estimated")
    assert attempt.cost == NOT_KNOWN or attempt.cost.currency == "EUR"


def test_an_unknown_cost_stays_unknown():
    whole, _ = bill({LOSER.key: dollars(1)}, ended=0.0, answer=None)
    assert whole == Bill(USAGE, False, NOT_KNOWN)
