"""How full a limit is, in words and as a bar."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from licensing.fullness import fullness
from licensing.models import Limit, LimitStatus

pytestmark = pytest.mark.either_store

RESETS = datetime(2026, 12, 1, tzinfo=UTC)


def full(used, amount=100, measure="requests"):
    limit = Limit(measure=measure, window="month", amount=Decimal(amount))
    limit.currency = "USD"
    return fullness(limit, LimitStatus(used if used is None else Decimal(used), RESETS))


@pytest.mark.parametrize(
    ("used", "text", "kind", "width"),
    [
        (0, "0 % used", "success", 0),
        (89, "89 % used", "success", 89),
        (90, "90 % used", "warning", 90),
        ("99.9", "99 % used", "warning", 99),
        (100, "Used up", "danger", 100),
        (130, "Used up", "danger", 100),
        (None, "Unknown", "info", 0),
    ],
)
def test_a_limit_is_used_up_from_its_amount_on(used, text, kind, width):
    state = full(used)
    assert (state.badge.text, state.badge.kind, state.width) == (text, kind, width)


def test_it_says_used_of_total_and_when_it_resets():
    assert "130 of 100" in full(130).html
    assert ">2026-12-01 00:00</time> UTC" in full(130).html
    assert "1.1k" in full(1100, 2000, "tokens").html
    assert 'title="0.00123 USD">$0.0012</span> of $0.50' in full("0.00123", "0.5", "cost").html


def test_an_unlimited_limit_has_no_bar():
    state = full(5, 0)
    assert state.badge.text == "Unlimited"
    assert "<svg" not in state.html
