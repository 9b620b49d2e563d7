"""The costs of keys in the console's list: of 30 days, all keys of a page by one query."""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.html import strip_tags

from keys.services import issue_key
from telemetry.models import UsageHour
from telemetry.usage.key_costs import costs_of_keys
from tests.support.management import new_user

pytestmark = pytest.mark.django_db
LIST = "/admin/keys/apikey/"


def spend(key_id, *, days_ago=0, **sums):
    UsageHour.objects.create(hour=timezone.now() - timedelta(days=days_ago), key_id=key_id, requests=1, **sums)


def test_costs_are_added_up_by_key_and_currency():
    spend(1, currency="USD", cost="0.5")
    spend(1, currency="USD", estimated_cost="0.25", days_ago=28)
    spend(1, currency="USD", cost="7", days_ago=31)
    spend(1, currency="EUR", cost="2")
    spend(3, currency="USD", cost="9")
    assert costs_of_keys([1, 2]) == {1: "€2.00, $0.75"}
    assert costs_of_keys([]) == {}


def test_work_without_a_price_leads_to_the_models_of_the_key(console):
    spend(2, currency="", unknown_cost_requests=3, unpriced_requests=3, model="fast")
    spend(3, currency="", unknown_cost_requests=3, unpriced_requests=1)
    spend(3, currency="USD", cost="9")
    costs = costs_of_keys([2, 3])
    assert strip_tags(costs[2]) == "+ 3 requests without a price"
    assert strip_tags(costs[3]) == "$9.00, + 1 request without a price, + 2 requests of unknown cost"
    page = console.get(unescape(re.search('href="([^"]*)"', costs[2])[1]))
    assert page.context["form"].errors == {}
    assert [[name.title for name in names] for names, _ in page.context["rows"]] == [["fast"]]


@pytest.mark.long
def test_the_list_shows_them_and_asks_once(console):
    def page():
        with CaptureQueriesContext(connection) as queries:
            text = console.get(LIST).text
        return text, len(queries)

    keys = [issue_key(owner=new_user(), name="laptop", created_by=None).key for _ in range(2)]
    spend(keys[0].pk, currency="USD", cost="0.0022")
    console.get(LIST)
    text, count = page()
    assert "Cost in 30 days" in text
    assert "$0.0022" in text
    for _ in range(8):
        issue_key(owner=new_user(), name="laptop", created_by=None)
    assert page()[1] == count
