"""The page of a request shows its mirror beside it, and the page of the mirror the request."""

import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from html import unescape

import pytest

from telemetry.attempts import LoggedAttempt
from telemetry.models import LogEntry

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
MOMENT = datetime(2026, 11, 10, 12, tzinfo=UTC)


def recorded(kind, provider, text, **values):
    """An entry of a request for the alias `fast` and its answer."""
    response = {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}
    usual = {
        "entry_type": kind, "timestamp": MOMENT, "correlation_id": "r1", "user_id": 1, "alias": "fast", "model": "fast",
        "served_model": f"model of {provider}", "provider_name": provider, "outcome": "completed", "currency": "USD",
        "payload": json.dumps({"request": {"messages": []}, "response": response}), "input_tokens": 3,
        "output_tokens": 4,
    }  # fmt: skip
    return LogEntry.objects.create(**usual | values)


def sides(console, entry):
    """The rows of the table, cell by cell; None without the table."""
    page = console.get(f"/admin/telemetry/logentry/{entry.pk}/change/").text
    if "data-sides" not in page:
        return None
    table = page.partition("data-sides")[2].partition("</table>")[0]
    rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in table.split("<tr ")[2:]]
    return [[unescape(re.sub(r"<[^>]*>", "", cell)).strip() for cell in row] for row in rows]


def test_both_pages_show_both_the_original_first(console):
    original = recorded("WorkRequest", "east", "Lisbon", duration_ms=120.5, cost=Decimal("0.5"))
    mirror = recorded("Mirror", "west", "<b>Porto</b>", duration_ms=1234.0, cost=Decimal("2"))
    for entry in (original, mirror):
        first, second = sides(console, entry)
        assert first[:4] == ["Original", "east/model of east", "completed", "120.5 ms"]
        assert second[:4] == ["Mirror", "west/model of west", "completed", "1,234.0 ms"]
        assert (first[-1], second[-1]) == ("Lisbon", "<b>Porto</b>")
        assert "0.5" in first[5]
        assert "2" in second[5]


@pytest.mark.parametrize("other", [{"user_id": 2}, {"correlation_id": "r2"}, {"alias": "slow"}])
def test_nothing_else_stands_beside_it(console, other):
    original = recorded("WorkRequest", "east", "Lisbon")
    recorded("Mirror", "west", "Porto", **other)
    recorded("Message", "west", "Porto")
    assert sides(console, original) is None


def test_a_cost_that_is_not_known_leads_to_the_form_for_the_price(console):
    original = recorded("WorkRequest", "east", "Lisbon", cost_status="unknown", provider_id=7)
    recorded("Mirror", "west", "Porto", cost=Decimal("2"))
    page = console.get(f"/admin/telemetry/logentry/{original.pk}/change/").text.partition("data-sides")[2]
    address = "/admin/providers/modelprice/add/?model=model+of+east&amp;provider=7"
    assert re.findall('href="([^"]*modelprice[^"]*)"[^>]*>([^<]*)<', page) == [(address, "no price")]


def test_a_cost_leads_to_the_prices_of_its_model(console):
    """Whoever doubts a cost looks at the price."""
    entry = recorded("WorkRequest", "east", "Lisbon", cost=Decimal("2"), currency="USD")
    facts = console.get(f"/admin/telemetry/logentry/{entry.pk}/change/").context["facts"]
    address = "/admin/providers/modelprice/?for_model=east%2Fmodel+of+east&of=all"
    assert [(value, page) for name, value, page in facts if name == "Cost"] == [("$2.00", address)]
    assert console.get(address).status_code == 200


@pytest.mark.parametrize(
    ("verdict", "status", "shown"),
    [("off", "BYPASS", []), ("bypass", "BYPASS", ["BYPASS"]), ("miss", "MISS", ["MISS"]), (None, "BYPASS", ["BYPASS"])],
)
def test_the_cache_is_empty_where_it_was_not_asked(console, verdict, status, shown):
    decision = verdict and [verdict, None, None, None, None]
    entry = recorded("WorkRequest", "east", "Lisbon", cache_status=status, decision=decision)
    facts = console.get(f"/admin/telemetry/logentry/{entry.pk}/change/").context["facts"]
    assert [value for name, value, _ in facts if name == "Cache"] == shown


def test_a_request_that_timed_out_does_not_lack_a_price(console):
    entry = recorded("WorkRequest", "east", "", cost_status="unknown", provider_id=7, outcome="timeout")
    recorded("Mirror", "west", "Porto", cost=Decimal("2"))
    pages = (f"{entry.pk}/change/", "?timestamp_from_0=2026-11-01")
    for text in (console.get(f"/admin/telemetry/logentry/{page}").text for page in pages):
        assert "no price" not in text
        assert "/modelprice/add/" not in text.partition("<main")[2]
        assert re.search(">\\s*unknown\\s*<", text), "the cost is unknown"


@pytest.mark.parametrize(
    ("cause", "cost", "link", "text"),
    [
        ("", None, True, "for 1.0 ms, <a"),
        ("", "0.5", False, "for 1.0 ms, $0.50<"),
        ("", "0.0123456", False, 'for 1.0 ms, <span title="0.0123456 USD">$0.012</span><'),
        ("timeout", None, False, "for 1.0 ms, cost unknown<"),
    ],
)
def test_an_attempt_without_a_price_leads_to_the_form_for_it(console, cause, cost, link, text):
    attempt = LoggedAttempt(7, "east", 0, "m", 200, cause, "", 0.0, 1.0, cost, "USD", "known" if cost else "unknown")
    entry = recorded("WorkRequest", "east", "Lisbon", provider_calls=[list(attempt)], cost=Decimal(1))
    page = console.get(f"/admin/telemetry/logentry/{entry.pk}/change/").text
    attempts = page.partition("data-attempts")[2].partition("</ol>")[0]
    assert text in attempts
    assert ('href="/admin/providers/modelprice/add/?model=m&amp;provider=7">no price</a>' in attempts) == link


@pytest.mark.parametrize(("status", "has_link"), [("unknown", True), ("", False)])
def test_the_explanation_of_a_request_without_a_price_leads_to_the_form_for_it(console, status, has_link):
    entry = recorded("WorkRequest", "east", "Lisbon", cost_status=status, provider_id=7)
    page = console.get(f"/admin/explain/entry/{entry.pk}/").text
    address = "/admin/providers/modelprice/add/?model=model+of+east&amp;provider=7"
    assert (f'href="{address}">unknown</a>' in page) == has_link
