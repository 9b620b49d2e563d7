"""What a request cost: exact to the last digit, never silently nothing, and found without looking twice."""

from dataclasses import replace
from decimal import Decimal
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.formats.usage import MOST_TOKENS, Usage, money
from providers.pricing.prices import (
    ESTIMATED,
    KNOWN,
    UNKNOWN,
    Cost,
    Offer,
    Price,
    PriceBook,
    cost,
    cost_of,
    matches_pattern,
)

pytestmark = pytest.mark.either_store

PRICE = Price(
    "USD",
    input=Decimal("2.5"),
    output=Decimal(10),
    cache_read=Decimal("1.25"),
    cache_write=Decimal("3.125"),
    cache_write_hour=Decimal(5),
    reasoning=Decimal(12),
)
PLAIN = Price("USD", input=Decimal(3), output=Decimal(15))
LONG = Price("USD", input=Decimal(6), output=Decimal("22.5"), above_input_tokens=200_000)


def priced(amount, currency="USD"):
    return Price(currency, input=Decimal(amount), output=Decimal(amount))


class TestCost:
    def test_each_bucket_at_its_own_price(self):
        usage = Usage(input=40, cache_read=60, cache_write=8, output=30, reasoning=12)
        expected = Decimal(40 * 2500 + 60 * 1250 + 8 * 3125 + 18 * 10_000 + 12 * 12_000) / 10**9
        assert cost_of(usage, PRICE) == expected

    def test_what_is_kept_for_an_hour_has_a_price_of_its_own(self):
        usage = Usage(cache_write=8, cache_write_hour=3)
        assert cost_of(usage, PRICE) == Decimal(5 * 3125 + 3 * 5000) / 10**9
        assert cost_of(usage, replace(PRICE, cache_write_hour=None)) == Decimal(8 * 3125) / 10**9
        assert cost_of(usage._replace(cache_write_hour=9), PRICE) == Decimal(8 * 5000) / 10**9

    def test_what_has_no_price_of_its_own_costs_what_it_is_part_of(self):
        usage = Usage(input=1, cache_read=10, cache_write=100, output=50, reasoning=20)
        assert cost_of(usage, PLAIN) == Decimal(111 * 3 + 50 * 15) / 10**6

    def test_reasoning_that_nobody_reported_is_none(self):
        assert cost_of(Usage(output=10), PRICE) == Decimal("0.0001")

    def test_more_reasoning_than_output_is_not_charged_twice(self):
        assert cost_of(Usage(output=10, reasoning=15), PRICE) == Decimal("0.00012")

    def test_a_request_can_have_a_price_of_its_own(self):
        price = Price("EUR", Decimal(0), Decimal(0), request=Decimal("0.005"))
        assert cost_of(Usage(input=7), price) == Decimal("0.005")

    def test_long_input_costs_more_for_all_of_its_tokens(self):
        price = Price("USD", Decimal(3), Decimal(15), longer=LONG)
        assert cost_of(Usage(input=150_000, cache_read=50_000, output=10), price) == Decimal("0.60015")
        assert cost_of(Usage(input=150_001, cache_read=50_000, output=10), price) == Decimal("1.200231")

    def test_one_token_is_not_rounded_away(self):
        price = priced("0.000001")
        assert cost_of(Usage(input=1), price) == Decimal("0.000000000001")

    @given(st.lists(st.integers(0, MOST_TOKENS - 1), min_size=5, max_size=5), st.decimals(0, 999_999, places=6))
    def test_it_is_exact_for_every_number(self, tokens, amount):
        plain, read, write, output, reasoning = tokens
        price = priced(amount)
        exact = (plain + read + write + output) * int(amount * 10**6)
        assert int(cost_of(Usage(plain, read, write, output, reasoning), price).scaleb(12)) == exact


class TestHowSureItIs:
    usage = Usage(input=1_000_000, output=0)

    def test_known_where_usage_and_price_are(self):
        assert cost(self.usage, PLAIN) == Cost(Decimal(3), "USD", KNOWN)

    def test_estimated_where_the_usage_is(self):
        assert cost(self.usage, PLAIN, estimated=True) == Cost(Decimal(3), "USD", ESTIMATED)

    @pytest.mark.parametrize(("usage", "price"), [(None, PLAIN), (usage, None), (None, None)])
    def test_unknown_where_either_is_missing(self, usage, price):
        assert cost(usage, price) == (None, "", UNKNOWN)

    @pytest.mark.parametrize("price", [PLAIN, None])
    def test_the_providers_own_word_goes_before_the_table(self, price):
        assert cost(Usage(input=5, cost=Decimal("0.25")), price) == Cost(Decimal("0.25"), "USD", KNOWN)

    def test_nobody_is_believed_who_asks_for_millions(self):
        assert cost(Usage(input=MOST_TOKENS - 1), priced(999_999)).status == UNKNOWN


@pytest.mark.parametrize(
    ("told", "read"),
    [
        (0.00012, Decimal("0.00012")),
        (1e-9, Decimal("1e-9")),
        (0, Decimal(0)),
        (3, Decimal(3)),
        (-1, None),
        (inf, None),
        (float("nan"), None),
        (1e6, None),
        ("0.1", None),
        (True, None),
        (None, None),
        ([], None),
    ],
)
def test_a_cost_that_a_provider_reports_is_read_with_suspicion(told, read):
    assert money(told) == read


@pytest.mark.parametrize(
    ("pattern", "fits", "not_"),
    [
        ("gpt-5", ["gpt-5"], ["gpt-5-mini", "gpt-", ""]),
        ("gpt-5*", ["gpt-5", "gpt-5-mini"], ["gpt-4", "a gpt-5"]),
        ("*-latest", ["x-latest", "-latest"], ["latest", "x-latest-1"]),
        ("*claude*v2*", ["claude-v2", "us.claude.v2:1"], ["v2-claude", "claude"]),
        ("a*a", ["aa", "aba"], ["a"]),
        ("*", ["", "x"], []),
        ("ab*bc", ["abbc", "ab.bc"], ["abc"]),
    ],
)
def test_a_star_stands_for_any_characters(pattern, fits, not_):
    assert all(matches_pattern(pattern, text) for text in fits)
    assert not any(matches_pattern(pattern, text) for text in not_)


def test_a_hostile_pattern_takes_no_time():
    assert not matches_pattern("*a" * 500 + "*b", "a" * 100_000)


class TestBook:
    def of(self, *offers, provider=1, host="api.example.org", model="m", at=100.0):
        found = PriceBook(offers).price(provider, host, model, at)
        return None if found is None else found.input

    def test_nobody_said_anything(self):
        assert self.of() is None
        assert self.of(Offer(PLAIN, "other"), Offer(PLAIN, "m", provider_id=2), Offer(PLAIN, "m", host="x.org")) is None

    def test_the_closest_wins_a_provider_before_a_host_before_anywhere(self):
        offers = [
            Offer(priced(1), "*"),
            Offer(priced(2), "m*"),
            Offer(priced(3), "m"),
            Offer(priced(4), "*", host="*.example.org"),
            Offer(priced(5), "*", host="api.example.org"),
            Offer(priced(6), "m", host="api.example.org"),
            Offer(priced(7), "*", provider_id=1),
            Offer(priced(8), "m", provider_id=1),
        ]
        for number in range(1, 9):
            assert self.of(*offers[:number]) == self.of(*reversed(offers[:number])) == number

    def test_the_longer_pattern_is_the_closer_one(self):
        mini, family = Offer(priced(1), "gpt-4o-mini*"), Offer(priced(5), "gpt-4o*")
        assert self.of(mini, family, model="gpt-4o-mini-2024") == 1
        assert self.of(mini, family, model="gpt-4o-2024") == 5

    def test_capitals_do_not_matter(self):
        assert self.of(Offer(priced(1), "deepseek-ai/deepseek-v3"), model="deepseek-ai/DeepSeek-V3") == 1

    def test_a_price_holds_from_one_moment_until_another(self):
        book = PriceBook(
            [
                Offer(priced(1), "m", valid_from=10, valid_until=20),
                Offer(priced(2), "m", valid_from=20),
                Offer(priced(9), "*", valid_from=30),
            ]
        )
        at = {moment: book.price(1, "h", "m", moment) for moment in (9, 10, 19.9, 20, 31, 15)}
        assert {moment: price and price.input for moment, price in at.items()} == {
            9: None, 10: 1, 19.9: 1, 20: 2, 31: 2, 15: 1,
        }  # fmt: skip
        assert PriceBook([Offer(PLAIN, "m", valid_until=20)]).price(1, "h", "m", 20) is None

    def test_a_price_of_long_input_belongs_to_the_one_it_goes_on_from(self):
        found = PriceBook([Offer(LONG, "m"), Offer(PLAIN, "m"), Offer(priced(9), "*")]).price(1, "h", "m", 0)
        assert (found.for_input(200_000).input, found.for_input(200_001).input) == (3, 6)

    def test_a_price_of_long_input_alone_says_nothing_of_a_short_one(self):
        assert self.of(Offer(LONG, "m")) is None

    def test_a_price_of_long_input_alone_hides_no_price_that_says_less_closely_of_what(self):
        """As when a price for a provider ends, or was never set, and the one for its longer requests stays."""
        offers = [Offer(LONG, "m", provider_id=1), Offer(priced(4), "m", host="*.example.org"), Offer(LONG, "*")]
        assert self.of(*offers) == 4

    @pytest.mark.long
    def test_it_looks_once_and_remembers_only_so_many(self):
        book = PriceBook([Offer(PLAIN, "m*")])
        first = book.price(1, "h", "m1", 5)
        assert book.price(1, "h", "m1", 6) is first
        for number in range(25_000):
            book.price(1, "h", f"m{number}", 7)
        assert len(book._era.prices) <= 10_000


PUBLIC = {"is_public": True}


@pytest.mark.parametrize(
    ("offers", "expected"),
    [
        ([Offer(priced(1), "gpt-5", **PUBLIC)], 1),
        ([Offer(priced(1), "fast", **PUBLIC)], None),
        ([Offer(priced(1), "gpt-5", **PUBLIC), Offer(priced(2), "fast")], 2),
        ([Offer(priced(1), "gpt-5"), Offer(priced(2), "fast")], 2),
        ([Offer(priced(1), "gpt-5*", **PUBLIC), Offer(priced(2), "*")], 1),
        ([Offer(priced(1), "fast"), Offer(priced(2), "gpt-5", provider_id=1)], 2),
        ([Offer(priced(1), "fas*", provider_id=1), Offer(priced(2), "gpt-5", provider_id=1)], 1),
        ([Offer(priced(1), "fast", provider_id=2)], None),
    ],
)
def test_public_prices_are_of_the_providers_name_and_ours_of_either(offers, expected):
    price = PriceBook(offers).price(1, "h", "Fast", 0, "GPT-5")
    assert price == (None if expected is None else priced(expected))


def test_the_same_name_at_two_providers_can_mean_two_models():
    book = PriceBook([Offer(priced(1), "gpt-5", **PUBLIC), Offer(priced(2), "llama", **PUBLIC)])
    prices = [book.price(number, "h", "fast", 0, name) for number, name in ((1, "gpt-5"), (1, "llama"), (1, ""))]
    assert prices == [priced(1), priced(2), None]
