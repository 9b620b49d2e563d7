"""Usage as a resource: added up by what one asks, one's own or everybody's, as JSON or for a spreadsheet."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connection

from accounts.models import Group
from gateway_project.api.names import camel
from keys.services import issue_key
from providers.services import create_provider, set_price
from telemetry.journal.batches import insert_log_entries
from telemetry.usage import dashboard_sums, statistics
from telemetry.usage.models import LATENCY_MS
from telemetry.usage.statistics import percentile
from tests.support.management import PASSWORD, new_admin, new_user, refused
from tests.support.usage_entries import HOUR, WITHIN, done, paid

pytestmark = pytest.mark.django_db(transaction=True)


def usage_rows(client, query=""):
    """The flat rows of an answer without what is null or 0."""
    response = client.get(f"/stats/usage/?{WITHIN}&{query}", flat=True)
    assert response.status_code == 200, response.text
    return [
        {name: value for name, value in row.items() if value not in (None, 0, [])} for row in response.json()["data"]
    ]


def columns_of(client, query, *names):
    return [tuple(row.get(name) for name in names) for row in usage_rows(client, query)]


class TestAddingUp:
    def test_a_row_tells_all_there_is(self, admin):
        insert_log_entries(
            [
                paid("0.5", duration_ms=100.0, first_byte_ms=40.0),
                paid("0.25", duration_ms=300.0, cache_read_tokens=3, cache_write_tokens=2, reasoning_tokens=1),
                paid("1.5", currency="EUR", status="estimated", usage_estimated=True, duration_ms=200.0),
                paid(0, cache_status="HIT", duration_ms=2.0, saved_cost="0.5"),
                done("r", outcome="failed", cost_status="unknown"),
                done("r", outcome="denied", provider_id=None),
                done("r", outcome="client_closed"),
            ]
        )
        (row,) = usage_rows(admin)
        latencies = [row.pop(name) for name in ("p50Ms", "p95Ms")]
        assert 60 < latencies[0] < 200 < latencies[1] < 320
        assert row == {
            "id": 1, "day": "2027-01-15", "requests": 7, "completed": 4, "errors": 1, "denied": 1,
            "clientClosed": 1, "cacheHits": 1, "inputTokens": 30, "outputTokens": 15, "cacheReadTokens": 3,
            "cacheWriteTokens": 2, "reasoningTokens": 1, "savedTokens": 15, "estimatedRequests": 1,
            "attempts": 7, "unknownCostRequests": 1,
            "averageMs": 150.5, "averageFirstByteMs": 40.0,
            "costs": [
                {"currency": "EUR", "known": "0", "estimated": "1.5", "saved": "0"},
                {"currency": "USD", "known": "0.75", "estimated": "0", "saved": "0.5"},
            ],
        }  # fmt: skip

    def test_who_was_asked_and_did_not_serve_has_no_part_in_it(self, admin):
        insert_log_entries([paid("1.5", currency="EUR", provider_id=1, attempts=2, asked_before=[2])])
        assert columns_of(admin, "by=provider", "providerId") == [(1,)]
        top = dashboard_sums.top(HOUR, "provider_id", dashboard_sums.WORK)
        assert [(row.name, row.sums["requests"], row.sums["tokens"]) for row in top] == [("1", 1, 15)]
        insert_log_entries([paid("0.5", provider_id=2)])
        costs = dict(columns_of(admin, "by=provider", "providerId", "costs"))
        assert [cost["currency"] for cost in costs[2]] == ["USD"]

    def test_by_day_and_by_hour(self, admin):
        moments = [HOUR, HOUR + timedelta(minutes=59), HOUR + timedelta(hours=1), HOUR + timedelta(days=1)]
        insert_log_entries([done("r", moment) for moment in moments])
        assert columns_of(admin, "by=day", "day", "requests") == [("2027-01-15", 3), ("2027-01-16", 1)]
        assert columns_of(admin, "by=hour", "hour", "requests") == [
            ("2027-01-15T08:00:00Z", 2), ("2027-01-15T09:00:00Z", 1), ("2027-01-16T08:00:00Z", 1),
        ]  # fmt: skip
        assert columns_of(admin, "by=day&sort=-requests", "requests") == [(3,), (1,)]
        assert columns_of(admin, "by=day&sort=-day", "requests") == [(1,), (3,)]

    def test_by_whom_and_what_with_their_names(self, admin):
        ann, group = new_user(), Group.objects.create(name="crew")
        key = issue_key(owner=ann, name="laptop").key
        provider = create_provider(name="p", url="https://api.example.org", format_name="openai")
        values = {"user_id": ann.pk, "key_id": key.pk, "provider_id": provider.pk, "group_ids": [group.pk]}
        insert_log_entries([done("r", **values), done("r", user_id=999_999, key_id=None, model="other")])
        attributes = {
            by: sorted(columns_of(admin, f"by={by}", f"{by}Id", f"{by}Name"), key=str)
            for by in ("user", "key", "group", "provider")
        }
        assert attributes == {
            "user": sorted([(ann.pk, ann.username), (999_999, None)], key=str),
            "key": sorted([(key.pk, "laptop"), (None, None)], key=str),
            "group": sorted([(group.pk, "crew"), (None, None)], key=str),
            "provider": sorted([(provider.pk, "p"), (1, None)], key=str) if provider.pk != 1 else [(1, "p")],
        }
        assert sorted(columns_of(admin, "by=model", "model", "requests")) == [("m", 1), ("other", 1)]

    def test_the_model_is_the_one_that_was_served(self, admin):
        """By whichever of its names it was asked for; one that is called so itself is another."""
        models = ["gpt", "auto", "p/auto"]
        values = create_provider(name="p", url="https://api.example.org", format_name="openai", models=models)
        names = ["gpt", "p/gpt", "auto", "p/auto", "p/gone"]
        insert_log_entries([done("r", provider_id=values.pk, model=name) for name in names])
        insert_log_entries([done("r", provider_id=values.pk + 1, model="p/gpt")])
        results = [("auto", 1), ("gone", 1), ("gpt", 2), ("p/auto", 1), ("p/gpt", 1)]
        assert sorted(columns_of(admin, "by=model", "model", "requests")) == results
        assert columns_of(admin, "by=provider,model&model=gpt", "providerId", "requests") == [(values.pk, 2)]
        assert columns_of(admin, "by=day&model=gpt", "requests") == [(2,)]
        assert ("gpt", 2) in [
            (row.name, row.sums["requests"]) for row in dashboard_sums.top(HOUR, "model", dashboard_sums.WORK)
        ]

    def test_who_is_in_two_groups_and_what_has_two_tags_counts_for_each(self, admin):
        insert_log_entries(
            [
                paid("0.5", group_ids=[1, 2], tags={"team": "x", "env": "live"}),
                paid("0.25", group_ids=[2], tags={"team": "x"}),
                paid("0.125"),
            ]
        )
        assert sorted(columns_of(admin, "by=group", "groupId", "requests"), key=str) == [(1, 1), (2, 2), (None, 1)]
        assert sorted(columns_of(admin, "by=tag", "tag", "requests"), key=str) == [
            ("env=live", 1), ("team=x", 2), (None, 1),
        ]  # fmt: skip
        both = {
            (row.get("groupId"), row.get("tag")): row["costs"][0]["known"] for row in usage_rows(admin, "by=group,tag")
        }
        assert both == {
            (1, "env=live"): "0.5", (1, "team=x"): "0.5", (2, "env=live"): "0.5", (2, "team=x"): "0.75",
            (None, None): "0.125",
        }  # fmt: skip

    def test_filters(self, admin):
        insert_log_entries(
            [
                done("r", user_id=1, key_id=11, provider_id=21, group_ids=[5, 6], model="a", tags={"team": "x y"}),
                done("r", user_id=2, key_id=12, provider_id=22, group_ids=[6], model="b", tags={"team": "z"}),
            ]
        )
        queries = ["userId=1", "keyId=12", "providerId=21", "groupId=6", "groupId=5", "model=b", "tag=team=x y"]
        queries += ["userId=1&model=b", "tag=nosuch=1"]
        results = [sum(row["requests"] for row in usage_rows(admin, query)) for query in queries]
        assert results == [1, 1, 1, 2, 1, 1, 1, 0, 0]

    def test_pages_and_sorting(self, admin):
        insert_log_entries([paid(number, model=f"m{number}") for number in range(5) for _ in range(number + 1)])
        assert columns_of(admin, "by=model&page[size]=2", "model") == [("m4",), ("m3",)]
        assert columns_of(admin, "by=model&page[size]=2&page[number]=3", "model") == [("m0",)]
        assert columns_of(admin, "by=model&sort=requests&page[size]=1", "model") == [("m0",)]
        assert columns_of(admin, "by=model&sort=-cost&page[size]=1", "model") == [("m4",)]
        assert columns_of(admin, "by=model&sort=model&page[size]=1", "model") == [("m0",)]
        meta = admin.get(f"/stats/usage/?{WITHIN}&by=model&page[size]=2").json()["meta"]
        assert meta == {
            "totalCount": 5, "pageNumber": 1, "pageSize": 2,
            "from": "2027-01-01T00:00:00Z", "to": "2027-02-01T00:00:00Z",
        }  # fmt: skip
        refused(admin.get(f"/stats/usage/?{WITHIN}&by=model&page[number]=9"), 400, "ValidationError", "page[number]")

    @pytest.mark.parametrize("sort", ["key", "-key"])
    def test_what_has_none_of_it_comes_last_in_either_direction(self, admin, sort):
        insert_log_entries([done("r", key_id=None), done("r", key_id=7)])
        assert columns_of(admin, f"by=key&sort={sort}", "keyId") == [(7,), (None,)]
        assert columns_of(admin, "by=day,key", "keyId") == [(7,), (None,)]

    def test_users_are_sorted_by_name(self, admin):
        ben, ann = new_user(username="ben"), new_user(username="Ann")
        insert_log_entries([done("r", user_id=ben.pk), done("r", user_id=ann.pk), done("r", user_id=999_999)])
        assert columns_of(admin, "by=user&sort=user", "userName") == [("Ann",), ("ben",), (None,)]
        assert columns_of(admin, "by=user&sort=-user", "userName") == [("ben",), ("Ann",), (None,)]

    @pytest.mark.parametrize("sort", statistics.LATENCIES)
    def test_latencies_are_sorted_as_they_are_shown(self, admin, sort):
        durations = {"none": [], "one": [3], "slow": [40_000], "split": [1, 2000], "spread": [5, 90, 700, 20_000]}
        entries = [
            done("r", model=model, duration_ms=ms, first_byte_ms=ms / 2)
            for model in durations
            for ms in durations[model]
        ]
        insert_log_entries([*entries, done("r", model="none", outcome="denied")])
        name = camel(sort)
        for sign, is_reversed in (("", False), ("-", True)):
            values = columns_of(admin, f"by=model&sort={sign}{name}", name)
            latencies = [value for [value] in values if value is not None]
            assert latencies == sorted(latencies, reverse=is_reversed)
            assert len(set(latencies)) == 4
            assert values[4:] == [(None,)]

    def test_full_hours_around_what_is_asked(self, admin):
        insert_log_entries([done("r", HOUR), done("r", HOUR + timedelta(hours=1))])
        response = admin.get("/stats/usage/?from=2027-01-15T08:30:00Z&to=2027-01-15T08:45:00Z", flat=True).json()
        assert (response["meta"]["from"], response["meta"]["to"]) == ("2027-01-15T08:00:00Z", "2027-01-15T09:00:00Z")
        assert [row["requests"] for row in response["data"]] == [1]

    def test_the_last_30_days_unless_told(self, admin):
        now = datetime.now(UTC)
        insert_log_entries([done("r", now), done("r", now - timedelta(days=28)), done("r", now - timedelta(days=31))])
        assert sum(row["requests"] for row in admin.rows("/stats/usage/")) == 2

    @pytest.mark.parametrize(
        ("query", "word"),
        [
            ("by=colour", "by"),
            ("by=day,user,model", "by"),
            ("by=day,day", "by"),
            ("by=", "by"),
            ("sort=colour", "sort"),
            ("by=day&sort=user", "sort"),
            ("tag=team", "tag"),
            ("format=xml", "format"),
            ("from=yesterday", "from"),
            ("from=2027-01-02&to=2027-01-01", "from"),
            ("userId=x", "userId"),
            ("colour=red", "colour"),
            ("page[size]=0", "page[size]"),
            ("page[number]=9999999999999999999", "page[number]"),
            ("to=0001-01-20", "to"),
            ("to=1969-12-31", "to"),
            ("from=0001-01-01&to=0001-01-02", "to"),
        ],
    )
    def test_what_cannot_be_asked(self, admin, query, word):
        refused(admin.get(f"/stats/usage/?{query}"), 400, "ValidationError", word)

    @pytest.mark.parametrize("query", ["from=0001-01-01", "from=0001-01-01&to=9999-12-31", "to=9999-12-31T23:59:59Z"])
    def test_the_edges_of_time_can_be_asked(self, admin, query):
        for path in ("usage", "unpriced"):
            assert admin.rows(f"/stats/{path}/?{query}") == []


class TestWho:
    def test_everybody_sees_their_own_and_who_may_sees_all(self, nobody):
        ann, viewer = new_user(), new_user("stats.view")
        insert_log_entries([done("r", user_id=ann.pk), done("r", user_id=ann.pk), done("r", user_id=viewer.pk)])
        assert columns_of(nobody.as_user(ann), "by=user", "userId", "requests") == [(ann.pk, 2)]
        assert columns_of(nobody.as_user(ann), f"userId={ann.pk}", "requests") == [(2,)]
        refused(nobody.as_user(ann).get(f"/stats/usage/?userId={viewer.pk}"), 403, "PermissionDenied", "stats.view")
        assert columns_of(nobody.as_user(viewer), "by=user", "requests") == [(2,), (1,)]
        refused(nobody.get("/stats/usage/"), 401, "AuthenticationFailed")


def test_models_with_traffic_and_no_price_are_listed(admin):
    provider = create_provider(name="p", url="https://api.example.org", format_name="openai")
    values = {"provider_id": provider.pk, "cost_status": "unknown", "input_tokens": 7}
    insert_log_entries(
        [done("r", model="new", **values), done("r", model="new", **values), done("r", model="priced by now", **values)]
    )
    insert_log_entries([paid(1, model="paid", provider_id=provider.pk), done("r", provider_id=None)])
    # Nothing was used of it: no price would tell what that cost.
    insert_log_entries([done("r", model="broke", provider_id=provider.pk, cost_status="unknown")])
    set_price(model="priced*", currency="USD", input=Decimal(1), output=Decimal(1))
    rows = admin.rows(f"/stats/unpriced/?{WITHIN}")
    assert rows == [
        {
            "id": 1, "providerId": provider.pk, "providerName": "p", "model": "new", "requests": 2,
            "unknownCostRequests": 2, "inputTokens": 14, "outputTokens": 0, "lastHour": "2027-01-15T08:00:00Z",
        }
    ]  # fmt: skip


def test_models_without_a_price_are_listed_by_the_name_that_a_price_is_for(admin):
    values = {"cost_status": "unknown", "input_tokens": 7}
    provider = create_provider(name="p", url="https://api.example.org", models=["new", "p/auto"], format_name="openai")
    names = ["new", "p/new", "p/new", "p/priced", "p/auto"]
    insert_log_entries([done("r", model=name, provider_id=provider.pk, **values) for name in names])
    set_price(model="priced", currency="USD", input=Decimal(1), output=Decimal(1))
    rows = admin.rows(f"/stats/unpriced/?{WITHIN}")
    results = [(row["model"], row["unknownCostRequests"], row["requests"], row["inputTokens"]) for row in rows]
    assert results == [("new", 3, 3, 21), ("p/auto", 1, 1, 7)]


def test_a_time_before_there_was_any_usage_is_refused(admin, client):
    refused(admin.get("/stats/unpriced/?to=0001-01-20"), 400, "ValidationError", "to")
    client.post("/admin/login/", {"username": new_admin().username, "password": PASSWORD})
    assert "Must not be before 1970" in client.get("/admin/statistics/?end=0001-01-05").text


@pytest.mark.skipif(connection.vendor != "postgresql", reason="only PostgreSQL stops a statement")
def test_what_takes_too_long_is_stopped(admin, monkeypatch):
    monkeypatch.setattr("telemetry.services.PAGE_MS", 20)
    monkeypatch.setitem(statistics._DIALECTS["postgresql"], "model", "model || pg_sleep(1)::text")
    insert_log_entries([done("r")])
    refused(admin.get(f"/stats/usage/?{WITHIN}&by=model"), 400, "ValidationError", "shorter period")


class TestPercentiles:
    def counts(self, **places):
        result = [0] * (len(LATENCY_MS) + 1)
        for place, count in places.items():
            result[int(place[1:])] = count
        return result

    def test_of_nothing_there_is_none(self):
        assert percentile(self.counts(), 0.5) is None

    def test_it_lies_between_the_bounds_of_its_place(self):
        counts = self.counts(p8=90, p12=10)
        assert LATENCY_MS[7] < percentile(counts, 0.5) < LATENCY_MS[8]
        assert LATENCY_MS[11] < percentile(counts, 0.95) < LATENCY_MS[12]

    def test_beyond_the_last_bound_it_is_that_bound(self):
        assert percentile(self.counts(p23=1), 0.95) == LATENCY_MS[-1]


@pytest.mark.parametrize("by", [("day", "user"), ("hour", "model"), ("day", "tag")])
@pytest.mark.parametrize("sorted_down", ["", "-"])
def test_rows_by_time_are_added_up_for_the_page_alone_and_are_the_same(monkeypatch, by, sorted_down):
    users = [new_user().pk for _ in range(3)]
    times = [HOUR + timedelta(hours=hours) for hours in (0, 1, 23, 50, 51)]
    insert_log_entries(
        [
            paid(number, at, user_id=user, model=f"model-{number % 2}", provider_id=1, tags={"team": f"{number}"})
            for at in times
            for number, user in enumerate(users)
        ]
    )
    query = statistics.UsageQuery(times[0], times[-1], by, {}, f"{sorted_down}{by[0]}")
    pages = [statistics.usage(query, first, 2) for first in range(0, 20, 2)]
    monkeypatch.setattr(statistics, "_has_many_rows_by_time", lambda query: False)
    whole = statistics.usage(query, 0, 100)
    assert [row for page in pages for row in page.rows] == whole.rows
    assert {page.total for page in pages if page.rows} == {whole.total} == {len(whole.rows)}
    assert len(whole.rows) >= 6
