"""Log and cache entries over HTTP."""

import json
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from django.core.cache import caches
from django.db import connection

from gateway_project.work.log.timestamps import timestamp
from keys.services import issue_key
from telemetry.journal.batches import insert_log_entries
from telemetry.journal.hooks import forget_cached_answers
from telemetry.models import CacheEntry, LogEntry
from telemetry.retention import partitions
from tests.support.management import body, new_user, refused, token_of
from tests.support.promises import promise
from tests.telemetry.conftest import entry

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
POSTGRESQL = connection.vendor == "postgresql"


def log(hours: int = 0, **given) -> LogEntry:
    return LogEntry.objects.create(
        **({"timestamp": NOON + timedelta(hours=hours), "entry_type": "WorkRequest"} | given)
    )


def stored(name: str, hours: int = 0, **given) -> CacheEntry:
    moment = NOON + timedelta(hours=hours)
    return CacheEntry.objects.create(
        **({"request_hash": name, "created_at": moment, "expires_at": moment + timedelta(hours=1)} | given)
    )


def ids(client, path: str) -> list[int]:
    return [row["id"] for row in client.rows(path)]


def test_a_log_entry_is_listed_with_the_fields_of_the_specification(admin):
    entry = log(
        correlation_id="r-1", entry_source="Worker", message="It was served.", payload="{}", user_id=7, username="ann"
    )
    (row,) = admin.rows("/logs/")
    assert {
        "id": entry.pk,
        "correlationId": "r-1",
        "entrySource": "Worker",
        "entryType": "WorkRequest",
        "message": "It was served.",
        "payload": "{}",
        "timeStamp": "2026-03-01T12:00:00Z",
        "userId": 7,
        "username": "ann",
    }.items() <= row.items()
    assert admin.get(f"/logs/{entry.pk}/", flat=True).json() == {"data": row}


def test_a_stored_response_is_listed_with_all_that_is_known_of_it(admin):
    entry = stored("h", user_id=7, username="ann", response="Lisbon", model="fast", provider_id=3, provider_name="p")
    (row,) = admin.rows("/cache/")
    assert row == {
        "id": entry.pk,
        "hash": "h",
        "response": "Lisbon",
        "contentType": "",
        "userId": 7,
        "username": "ann",
        "timeStamp": "2026-03-01T12:00:00Z",
        "expiry": "2026-03-01T13:00:00Z",
        "providerId": 3,
        "providerName": "p",
        "model": "fast",
        "servedModel": None,
        "size": 0,
        "hits": 0,
        "lastHitAt": None,
    }
    assert admin.get(f"/cache/{entry.pk}/", flat=True).json() == {"data": row}


def test_the_newest_come_first_whenever_they_arrived(admin):
    late, early, middle = log(hours=3), log(hours=1), log(hours=2)
    assert ids(admin, "/logs/") == [late.pk, middle.pk, early.pk]
    first, second = stored("a", hours=1), stored("b", hours=2)
    assert ids(admin, "/cache/") == [second.pk, first.pk]


def test_a_page_has_what_happened_at_the_very_second_it_ends_with(admin):
    """SQLite compares times as texts, so that both writers have to write a full second in the same way."""
    insert_log_entries([entry("first"), entry("exact", timestamp=timestamp(1_800_000_002.0))])
    log(timestamp=datetime.fromtimestamp(1_800_000_001, UTC), correlation_id="from the console")
    names = [row["correlationId"] for row in admin.rows("/logs/?page[size]=2")]
    assert names == ["exact", "from the console"]
    assert [row["correlationId"] for row in admin.rows("/logs/?page[size]=2&page[number]=2")] == ["first"]


def test_pages(admin):
    LogEntry.objects.bulk_create(LogEntry(timestamp=NOON, correlation_id=str(number)) for number in range(45))
    first = admin.get("/logs/?page[size]=20").json()
    assert first["meta"] == {"totalCount": 45, "pageNumber": 1, "pageSize": 20}
    pages = [ids(admin, f"/logs/?page[size]=20&page[number]={number}") for number in (1, 2, 3)]
    assert [len(page) for page in pages] == [20, 20, 5]
    assert [one for page in pages for one in page] == list(
        LogEntry.objects.order_by("-id").values_list("id", flat=True)
    )
    refused(admin.get("/logs/?page[size]=20&page[number]=4"), 400, "ValidationError", "page[number]")
    whole = admin.get("/logs/?page[size]=45").json()["links"]
    assert (whole.get("next"), whole["last"]) == (None, "/logs/?page%5Bsize%5D=45&page%5Bnumber%5D=1")
    for number in ("9" * 18, "9" * 19):
        refused(admin.get(f"/logs/?page[number]={number}"), 400, "ValidationError")
    LogEntry.objects.all().delete()
    empty = admin.get("/logs/").json()
    assert (empty["data"], empty["meta"]) == ([], {"totalCount": 0, "pageNumber": 1, "pageSize": 20})


@pytest.mark.parametrize(("path", "make"), [("/logs/", log), ("/cache/", None)])
@promise("V-N3, S4: nobody reads the log of others", target="own entries alone", suite="attack")
def test_everybody_sees_their_own_entries_and_some_see_all(nobody, admin, as_ann, ann, path, make):
    make = make or (lambda **given: stored(f"{given['user_id']}", **given))
    mine, other, nobodys = make(user_id=ann.pk), make(user_id=ann.pk + 1), make(user_id=None)
    watcher = nobody.as_user(new_user(f"{path.strip('/')}.view_all"))
    key = nobody.with_credential(issue_key(owner=ann, name="k", permissions=["models.create"]).text)
    for client in (as_ann, key):
        assert ids(client, path) == [mine.pk]
        assert ids(client, f"{path}?id={ann.pk + 1}") == []
        assert client.get(f"{path}{mine.pk}/").status_code == 200
        refused(client.get(f"{path}{other.pk}/"), 404, "NotFound")
    for client in (watcher, admin):
        assert ids(client, path) == [nobodys.pk, other.pk, mine.pk]
        assert ids(client, f"{path}?id={ann.pk + 1}") == [other.pk]
        assert client.get(f"{path}{other.pk}/").status_code == 200


def test_logs_are_filtered_by_time_type_and_source(admin):
    first = log(hours=0, entry_source="Cache")
    second = log(hours=1, entry_type="Message")
    third = log(hours=2, entry_source="Worker")
    assert ids(admin, "/logs/?start=2026-03-01T13:00:00Z") == [third.pk, second.pk]
    assert ids(admin, "/logs/?end=2026-03-01T13:00:00Z") == [first.pk]
    assert ids(admin, "/logs/?start=2026-03-01T15:00:00%2B02:00&end=2026-03-01T14:00:00Z") == [second.pk]
    assert ids(admin, "/logs/?type=Message") == [second.pk]
    assert ids(admin, "/logs/?source=Worker") == [third.pk]
    assert ids(admin, "/logs/?source=Not Set&type=Message") == [second.pk]
    refused(admin.get("/logs/?type=message"), 400, "ValidationError", "type", "Not Set, Message, WorkRequest")
    refused(admin.get("/logs/?source=cache"), 400, "ValidationError", "source", "Not Set, Cache, Worker")


@promise("V-N2: no character of a search is a wildcard", target="found as written", suite="attack")
def test_search_finds_text_and_takes_no_character_for_a_wildcard(admin):
    model, payload, other = log(model="org/Fast_1"), log(payload="Is it 100% sure?"), log(correlation_id="r-1\\x")
    user, message = log(username="Ann"), log(message="The rule allows no such thing.")
    assert ids(admin, "/logs/?search=ann") == [user.pk]
    assert ids(admin, "/logs/?search=NO SUCH") == [message.pk]
    assert ids(admin, "/logs/?search=fast") == [model.pk]
    assert ids(admin, "/logs/?search=100%25") == [payload.pk]
    assert ids(admin, "/logs/?search=%25") == [payload.pk]
    assert ids(admin, "/logs/?search=_") == [model.pk]
    assert ids(admin, "/logs/?search=1%5Cx") == [other.pk]
    assert ids(admin, "/logs/?search='; DROP TABLE") == []
    entry = stored("h", model="fast", response="Lisbon")
    assert ids(admin, "/cache/?search=LISBON") == ids(admin, "/cache/?search=Fas") == [entry.pk]
    assert ids(admin, "/cache/?search=h") == []


@pytest.mark.parametrize("text", ['the "best"', "line one\nline two", "C:\\temp", "Grüße", "日本"])
@pytest.mark.parametrize("escaped", [True, False])
def test_search_finds_what_was_said_however_json_writes_it(admin, text, escaped):
    payload = json.dumps({"request": {"prompt": f"Tell me: {text}."}}, ensure_ascii=escaped)
    row, entry = log(payload=payload), stored("h", model="fast", response=payload)
    log(payload=json.dumps({"request": {"prompt": "the best"}}))
    assert ids(admin, f"/logs/?search={quote(text)}") == [row.pk]
    assert ids(admin, f"/cache/?search={quote(text)}") == [entry.pk]
    assert ids(admin, f"/logs/?search={quote(payload[:20])}")[-1] == row.pk  # and as it stands


@pytest.mark.parametrize("query", ["Übersetze", "übersetze", "ÜBERSETZE", "ÜBERsetze"])
@pytest.mark.parametrize("escaped", [True, False])
def test_search_knows_the_case_of_letters_beyond_ascii(admin, query, escaped):
    payload = json.dumps({"prompt": "Übersetze das, 100%!"}, ensure_ascii=escaped)
    row, entry = log(payload=payload), stored("h", response=payload)
    log(payload=json.dumps({"prompt": "Setze über."}, ensure_ascii=escaped))
    assert ids(admin, f"/logs/?search={quote(query)}") == [row.pk]
    assert ids(admin, f"/cache/?search={quote(query)}") == [entry.pk]


def test_a_letter_whose_upper_case_is_two_is_not_these_two(admin):
    mass, size = log(payload='{"prompt": "Mass"}'), log(payload='{"prompt": "Maß"}')
    assert ids(admin, f"/logs/?search={quote('maß')}") == [size.pk]
    assert ids(admin, "/logs/?search=mass") == [mass.pk]


@pytest.mark.parametrize("path", ["/logs/", "/cache/"])
@pytest.mark.parametrize(
    "query",
    [
        "start=x",
        "end=",
        "id=x",
        "search=a%00b",
        "nope=1",
        "userId=1",
        "start=1&start=2",
        "start=2026-03-02&end=2026-03-01",
    ],
)
def test_a_parameter_that_is_wrong_is_named(admin, path, query):
    refused(admin.get(f"{path}?{query}"), 400, "ValidationError", query.partition("=")[0])


@pytest.mark.parametrize("path", ["/logs/", "/cache/"])
def test_a_list_costs_the_same_at_any_length(client, ann, path):
    from django.test.utils import CaptureQueriesContext

    headers = {"Authorization": f"Bearer {token_of(ann)}"}
    counts = []
    for size in (2, 30):  # one is so few that it is looked for in the whole log at once
        LogEntry.objects.bulk_create(LogEntry(user_id=ann.pk) for _ in range(size))
        CacheEntry.objects.bulk_create(CacheEntry(request_hash=f"{size} {n}", user_id=ann.pk) for n in range(size))
        with CaptureQueriesContext(connection) as queries:
            assert client.get(f"{path}?page[size]=100", headers=headers).status_code == 200
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 14


@pytest.mark.skipif(not POSTGRESQL, reason="SQLite counts")
def test_a_long_list_is_counted_by_estimate_and_says_so(admin, monkeypatch):
    monkeypatch.setattr("telemetry.paging.MAX_COUNTED", 10)
    caches["process"].clear()
    LogEntry.objects.bulk_create(LogEntry(entry_type="Message") for _ in range(50))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE telemetry_logentry")
    for number in range(50):
        stored(str(number))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE telemetry_cacheentry")
    for path in ("/logs/", "/cache/"):
        for flat in (False, True):
            document = admin.get(path, flat=flat).json()
            assert document["meta"]["totalCountEstimated"] is True
            assert document["links"].keys() == {"self", "first", "next"}  # nobody knows the last one
    meta = admin.get("/logs/?type=Message&page[number]=2&page[size]=20").json()["meta"]
    assert 50 <= meta["totalCount"] < 60  # the planner expects a row of an empty partition
    assert meta["totalCountEstimated"] is True
    last = admin.get("/logs/?type=Message&page[number]=2&page[size]=30").json()["meta"]
    assert last == {"totalCount": 50, "pageNumber": 2, "pageSize": 30}
    assert "totalCountEstimated" not in admin.get("/logs/?type=WorkRequest").json()["meta"]
    refused(admin.get("/logs/?page[number]=90"), 400, "ValidationError", "page[number]")


@pytest.mark.servers  # only PostgreSQL stops a statement
@promise("V-N2: a search that takes long is stopped", target="400 in time", suite="attack")
def test_what_takes_too_long_is_stopped_and_says_what_to_do(admin, monkeypatch):
    log()
    slow = LogEntry.objects.extra(where=["pg_sleep(5) IS NOT NULL"])
    monkeypatch.setattr("telemetry.paging.PAGE_MS", 100)
    monkeypatch.setattr("telemetry.viewsets.LogViewSet.queryset", slow)
    refused(admin.get("/logs/"), 400, "ValidationError", "start")


# -- Purging ---------------------------------------------------------------------------------------------

forgotten: list[str] = []


def forget(keys=()) -> bool:
    forgotten.extend(keys)
    return "stays" not in keys


@pytest.fixture
def forgets(monkeypatch):
    monkeypatch.setattr("telemetry.services.BATCH", 2)
    monkeypatch.setattr(forget_cached_answers, "function", forget)
    forgotten.clear()


def test_a_purge_removes_what_the_filters_select_everywhere(admin, forgets):
    for number in range(5):
        stored(f"h{number}", hours=number, user_id=number % 2, model="fast" if number < 3 else "slow")
    assert admin.delete("/cache/?id=1&search=fast").json() == {}
    assert forgotten == ["h1"]
    assert admin.delete("/cache/?start=2026-03-01T16:00:00Z").status_code == 200
    assert forgotten == ["h1", "h4"]
    assert admin.delete("/cache/").status_code == 200
    assert forgotten == ["h1", "h4", "h0", "h2", "h3"]
    assert not CacheEntry.objects.exists()
    assert admin.delete("/cache/").status_code == 200


def test_one_entry_is_purged_by_its_path(admin, forgets):
    entry, _ = stored("one"), stored("two")
    assert admin.delete(f"/cache/{entry.pk}/").status_code == 200
    assert forgotten == ["one"]
    refused(admin.delete(f"/cache/{entry.pk}/"), 404, "NotFound")


def test_filters_beside_the_path_are_not_ignored(admin, forgets):
    """Who purges the entry 5 "if it is that old" must not lose it when it is not."""
    entry = stored("h", hours=2, user_id=7, model="fast")
    for query in ("end=2026-03-01T12:00:00Z", "search=slow", "start=2027-01-01"):
        refused(admin.delete(f"/cache/{entry.pk}/?{query}"), 404, "NotFound", "selects")
    refused(admin.delete(f"/cache/{entry.pk}/?end=x"), 400, "ValidationError", "end")
    assert forgotten == []
    refused(admin.delete(f"/cache/{entry.pk}/?id=8"), 404, "NotFound", "selects")  # a user's, as in the list
    assert admin.delete(f"/cache/{entry.pk}/?id=7&search=fast&end=2027-01-01").status_code == 200
    assert forgotten == ["h"]


@pytest.mark.parametrize("query", ["nope=1", "start=x", "id=x", "page[size]=1", "id=1&id=2", "search=a%00b"])
def test_a_parameter_that_is_wrong_purges_nothing(admin, forgets, query):
    stored("h")
    refused(admin.delete(f"/cache/?{query}"), 400, "ValidationError", query.partition("=")[0])
    refused(admin.delete("/cache/", json=body(search="x")), 400, "ValidationError", "query")
    assert CacheEntry.objects.exists()


def test_while_the_cache_is_away_nothing_is_purged(admin, forgets):
    stored("goes"), stored("x"), stored("stays")
    refused(admin.delete("/cache/"), 503, "ServiceUnavailable")
    assert CacheEntry.objects.count() == 3
    assert not LogEntry.objects.exists()


def test_only_admins_purge_and_the_log_is_told(nobody, admin, forgets):
    stored("h")
    refused(nobody.as_user(new_user("cache.view_all")).delete("/cache/"), 403, "PermissionDenied", "admin")
    assert CacheEntry.objects.exists()
    admin.delete("/cache/?search=x&end=2027-01-01")
    entry = LogEntry.objects.get()
    assert entry.message.endswith(" deleted cache.")
    assert '"removed":0' in entry.payload
    assert '"search":"x"' in entry.payload


@pytest.mark.skipif(not POSTGRESQL, reason="only PostgreSQL has trigram indexes")
@pytest.mark.django_db(transaction=True)
def test_the_search_index_can_be_made_used_and_dropped():
    from django.core.management import call_command

    for _ in range(2):
        call_command("search_index", "on")
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        plan = LogEntry.objects.containing("lisbon").order_by().explain()
        cursor.execute("RESET enable_seqscan")
    assert plan.count("log_text") == 5 * len(partitions.tables())
    call_command("search_index", "off")
    assert "log_text" not in LogEntry.objects.containing("lisbon").explain()


@pytest.mark.skipif(POSTGRESQL, reason="PostgreSQL has trigram indexes")
def test_other_databases_have_no_search_index(db):
    from django.core.management import CommandError, call_command

    with pytest.raises(CommandError, match="PostgreSQL"):
        call_command("search_index", "on")
