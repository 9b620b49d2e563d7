"""Amounts of money as pages show them."""

from decimal import Decimal


def money(amount: Decimal, currency: str) -> str:
    """In hundredths; what is less than one in millionths: cents say nothing of a day that cost a thousandth of one."""
    return f"{amount:,.{6 if 0 < amount < 1 else 2}f} {currency}".rstrip()


def exactly(amount: Decimal | None, currency: str) -> str:
    """To the last digit; '' where it is not known."""
    return "" if amount is None else f"{amount.normalize():f} {currency}".rstrip()
