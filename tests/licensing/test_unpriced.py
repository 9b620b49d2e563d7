"""What cost limits do not count: requests without a price in their window."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import Group
from keys.services import issue_key
from licensing.models import UnpricedWork
from licensing.services import set_limit
from licensing.status import read_unpriced
from providers.services import create_provider
from telemetry.models import UsageHour
from telemetry.usage import rollups
from tests.support.management import new_user

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
LIST = "/admin/licensing/limit/"


@pytest.fixture
def provider():
    url = "https://llm.example.org/v1"
    return create_provider(name="p", url=url, format_name="openai", models=["small", "large"])


def use(provider, model: str, count: int, *, days_ago: int = 0, unanswered: int = 0, **whose) -> None:
    hour = timezone.now() - timedelta(days=days_ago)
    UsageHour.objects.create(
        hour=hour,
        provider_id=provider.pk,
        model=model,
        requests=count + unanswered,
        unknown_cost_requests=count + unanswered,
        unpriced_requests=count,
        **whose,
    )


def test_each_kind_of_subject_has_its_own_work_of_the_window(provider):
    ann, bob = new_user(), new_user()
    group = Group.objects.create(name="writers")
    key = issue_key(owner=ann, name="laptop").key
    use(provider, "small", 1, user_id=ann.pk, key_id=key.pk, group_ids=[group.pk])
    use(provider, "p/large", 30, user_id=ann.pk, key_id=key.pk, group_ids=[group.pk])
    use(provider, "large", 5, user_id=bob.pk)
    use(provider, "large", 100, days_ago=40, user_id=ann.pk)
    limits = [
        set_limit(measure="cost", window="month", amount=1, **subject)
        for subject in ({"user": ann}, {"user": bob}, {"group": group}, {"key": key}, {"provider": provider})
    ]
    large = ("large", provider.pk)
    assert read_unpriced(limits) == [
        UnpricedWork(31, *large), UnpricedWork(5, *large), UnpricedWork(31, *large), UnpricedWork(31, *large),
        UnpricedWork(36, *large),
    ]  # fmt: skip


def test_limits_of_other_measures_count_all_requests(provider):
    ann = new_user()
    use(provider, "small", 3, user_id=ann.pk)
    limits = [set_limit(user=ann, measure="requests", window="day", amount=9)]
    assert read_unpriced(limits) == [UnpricedWork()]
    assert read_unpriced([]) == []


def test_requests_that_ended_without_an_answer_do_not_lack_a_price(provider, console):
    ann = new_user()
    use(provider, "small", 0, unanswered=7, user_id=ann.pk)
    use(provider, "large", 1, unanswered=2, user_id=ann.pk)
    limit = set_limit(user=ann, measure="cost", window="month", amount=1)
    assert read_unpriced([limit]) == [UnpricedWork(1, "large", provider.pk, 9)]
    page = console.get(f"{LIST}{limit.pk}/change/").text
    assert ">+ 1 request without a price</a> + 9 requests of unknown cost" in page


def test_a_limit_that_counts_such_work_at_a_fixed_price_leaves_nothing_out(provider, console):
    ann = new_user()
    use(provider, "large", 31, user_id=ann.pk)
    limit = set_limit(user=ann, measure="cost", window="month", amount=1, unpriced="count", unpriced_price=2)
    ignoring = set_limit(user=ann, measure="cost", window="day", amount=1, unpriced="ignore")
    assert read_unpriced([limit, ignoring]) == [UnpricedWork(), UnpricedWork(31, "large", provider.pk)]
    assert "without a price</a>" not in console.get(f"{LIST}{limit.pk}/change/").text


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no statement timeout")
def test_what_a_query_is_too_slow_to_count_is_named(provider, console, monkeypatch):
    def slow_rows(start, end):
        usage, parameters = usage_rows(start, end)
        return f"(SELECT used.* FROM {usage}, pg_sleep(5)) AS used", parameters

    ann, usage_rows = new_user(), rollups.usage_rows
    issue_key(owner=ann, name="laptop")
    set_limit(user=ann, measure="requests", window="day", amount=9)
    set_limit(user=ann, measure="cost", window="month", amount=1)
    use(provider, "large", 31, user_id=ann.pk)
    monkeypatch.setattr(rollups, "usage_rows", slow_rows)
    assert console.get(LIST).text.count("requests of unknown cost: not counted in time") == 1
    assert console.get("/admin/keys/apikey/").text.count("not counted in time") == 1


@pytest.mark.long
def test_the_list_says_it_with_a_link_to_the_form_and_asks_once_for_all(console, provider):
    def page() -> tuple[str, int]:
        with CaptureQueriesContext(connection) as queries:
            text = console.get(LIST).text
        return text, len(queries)

    ann = new_user()
    use(provider, "large", 31, user_id=ann.pk)
    set_limit(user=ann, measure="cost", window="month", amount=1)
    page()
    text, count = page()
    assert "+ 31 requests without a price" in text
    assert f"/admin/providers/modelprice/add/?model=large&amp;provider={provider.pk}" in text
    for _ in range(5):
        set_limit(user=new_user(), measure="cost", window="month", amount=1)
    assert page()[1] == count
