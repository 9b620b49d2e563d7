"""Amounts of money as pages show them."""

from decimal import Decimal


def money(amount: Decimal, currency: str) -> str:
    """With two decimals; amounts below one with six, since a day may cost a thousandth of a cent."""
    return f"{amount:,.{6 if 0 < amount < 1 else 2}f} {currency}".rstrip()


def exactly(amount: Decimal | None, currency: str) -> str:
    """To the last digit; '' where it is not known."""
    return "" if amount is None else f"{amount.normalize():f} {currency}".rstrip()
