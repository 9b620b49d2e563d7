"""Amounts and numbers for people: short, and exact on hover."""

from decimal import Decimal

import pytest
from django.template import Context, Template

from gateway_project.console.display.money import in_words, join_figures, money, price, short_count, without_price

pytestmark = pytest.mark.either_store


@pytest.mark.parametrize(
    ("amount", "currency", "text", "exact"),
    [
        ("0", "USD", "$0.00", "$0.00"),
        ("0.002194", "USD", "$0.0022", "0.002194 USD"),
        ("0.0000431", "USD", "$0.000043", "0.0000431 USD"),
        ("0.0996", "EUR", "€0.10", "0.0996 EUR"),
        ("0.5", "USD", "$0.50", "$0.50"),
        ("1234.5", "USD", "$1,234.50", "$1,234.50"),
        ("-0.0022", "USD", "-$0.0022", "-$0.0022"),
        ("0.0022", "CHF", "0.0022 CHF", "0.0022 CHF"),
        ("12.3456", "", "12.35", "12.3456"),
    ],
)
def test_money_has_a_currency_and_two_significant_digits(amount, currency, text, exact):
    figure = money(Decimal(amount), currency)
    assert (figure, figure.exact) == (text, exact)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"), (950, "950"), (1100, "1.1k"), (12_345, "12.3k"), (999_949, "999.9k"), (999_950, "1.0M"),
        (3_400_000_000, "3.4B"), (999, "999"),
    ],
)  # fmt: skip
def test_tokens_are_short_and_exact_on_hover(number, text):
    assert (short_count(number), short_count(number).exact) == (text, f"{number:,}")


def test_a_template_shows_the_exact_amount_on_hover_and_escapes_it():
    page = Template("{{ amount }} {{ whole }}").render(
        Context({"amount": money(Decimal("0.00123"), "<b>"), "whole": short_count(5)})
    )
    assert page == '<span title="0.00123 &lt;b&gt;">0.0012 &lt;b&gt;</span> 5'


def test_several_amounts_stand_beside_each_other():
    both = join_figures([money(Decimal("0.00123"), "USD"), money(Decimal(1), "EUR")])
    assert (both, both.exact) == ("$0.0012, €1.00", "0.00123 USD, €1.00")


def test_a_phrase_has_the_exact_figure_on_hover():
    phrase = in_words("+ {} written", short_count(1234))
    assert (phrase, phrase.exact) == ("+ 1.2k written", "+ 1,234 written")


def test_a_price_is_shown_to_the_last_digit():
    assert price(Decimal("2.500"), "USD") == "$2.5"


def test_what_a_cost_does_not_contain_is_said():
    assert [without_price(count) for count in (0, 1, 1200)] == [
        "",
        "+ 1 request without a price",
        "+ 1,200 requests without a price",
    ]
