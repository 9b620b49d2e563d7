"""Amounts of money and numbers of tokens for people: short, and exact where the pointer rests on them."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal

from django.utils.html import format_html
from django.utils.safestring import SafeString

from gateway_project.wording import plural

SYMBOLS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "INR": "₹"}
NOT_COUNTED = "not counted in time"  # instead of what a query took too long for
TWO_DIGITS = Context(prec=2)
UNITS = ((Decimal(10**12), "T"), (Decimal(10**9), "B"), (Decimal(10**6), "M"), (Decimal(1000), "k"))


class Figure(str):
    """A short text that shows an exact one on hover, where a template or a table of the console shows it."""

    __slots__ = ("exact",)
    exact: str

    def __new__(cls, text: str, exact: str) -> "Figure":
        figure = super().__new__(cls, text)
        figure.exact = exact
        return figure

    def __str__(self) -> str:
        return self

    def __html__(self) -> SafeString:
        text = str.__str__(self)
        return (
            format_html("{}", text)
            if text == self.exact
            else format_html('<span title="{}">{}</span>', self.exact, text)
        )


def money(amount: Decimal, currency: str) -> Figure:
    """With two decimals, or as many as show two significant digits: a day may cost a thousandth of a cent."""
    rounded = TWO_DIGITS.create_decimal(abs(amount))
    decimals = max(2, 1 - rounded.adjusted()) if rounded else 2
    text, sign = f"{abs(amount):,.{decimals}f}", "-" if amount < 0 else ""
    label = f"{sign}{SYMBOLS[currency]}{text}" if currency in SYMBOLS else f"{sign}{text} {currency}".rstrip()
    return Figure(
        label, label if Decimal(f"{abs(amount):.{decimals}f}") == abs(amount) else exact_money(amount, currency)
    )


def exact_money(amount: Decimal | None, currency: str) -> str:
    """An amount to the last digit; '' if it is not known."""
    return "" if amount is None else f"{amount.normalize():f} {currency}".rstrip()


def grouped_money(amount: Decimal, currency: str) -> str:
    """The same with separators for thousands."""
    return f"{amount.normalize():,f} {currency}".rstrip()


def price(amount: Decimal, currency: str) -> Figure:
    """The price of something, to the last digit: prices are compared and copied."""
    text = f"{amount.normalize():,f}"
    label = f"{SYMBOLS[currency]}{text}" if currency in SYMBOLS else f"{text} {currency}".rstrip()
    return Figure(label, exact_money(amount, currency))


def short_count(number: int) -> Figure:
    """A number of tokens: 950, 1.1k, 12.3M."""
    for size, unit in UNITS:
        if abs(number) >= size:
            return Figure(f"{number / size:.1f}{unit}", f"{number:,}")
        if abs(number) >= size - size / 20000:  # it is rounded up to one of these
            return Figure(f"1.0{unit}", f"{number:,}")
    return Figure(f"{number:,}", f"{number:,}")


def in_words(words: str, figure: Figure) -> Figure:
    """A figure in the place of {} in a phrase, with the exact one on hover of the whole."""
    return Figure(words.format(figure), words.format(figure.exact))


def join_figures(figures: Sequence[Figure]) -> str:
    """Several figures with commas between them."""
    return Figure(", ".join(figures), ", ".join(figure.exact for figure in figures))


def amounts(costs: Mapping[str, Decimal], usual_currency: Callable[[], str]) -> str:
    """An amount in each currency; without any it is nothing in the usual currency, if there is one."""
    figures = [money(amount, currency) for currency, amount in costs.items()]
    return join_figures(figures or [_zero(usual_currency())])


def _zero(currency: str) -> Figure:
    return money(Decimal(), currency) if currency else Figure("0", "0")


def without_price(count: int) -> str:
    """The requests that a cost does not contain because their model had no price; '' for none."""
    return f"+ {plural(count, 'request')} without a price" if count else ""


def missing_costs(sums: Mapping[str, int]) -> tuple[str, str]:
    """What the cost of these sums does not contain: the requests without a price, and the others of unknown cost."""
    unpriced = sums["unpriced_requests"]
    return without_price(unpriced), of_unknown_cost(sums["unknown_cost_requests"] - unpriced)


def of_unknown_cost(count: int) -> str:
    """The requests that a cost does not contain for another reason: they ended without an answer; '' for none."""
    return f"+ {plural(count, 'request')} of unknown cost" if count else ""
