"""The log in the browser: found, read, exported, and never executed."""

import re

import pytest
from django.utils import timezone

from telemetry.audit.chain import AuditRecord
from telemetry.audit.models import AuditEntry
from telemetry.audit.recording import append_record
from telemetry.models import CacheEntry, EntryType, LogEntry
from tests.support.hostile import HOSTILE
from tests.support.thoroughness import first_of


@pytest.fixture
def entry(orm) -> LogEntry:
    message = LogEntry.objects.create(
        entry_type=EntryType.WORK_REQUEST,
        message=HOSTILE,
        model=f"={HOSTILE}",
        username=HOSTILE,
        outcome="completed",
        status=200,
        payload='{"request": {"messages": "' + HOSTILE.replace('"', "'") + '"}, "response": "hello"}',
        stages=[["auth", 0.0, 1.0], ["provider", 1.0, 9.0]],
        candidates=[[HOSTILE, "failed", f"ProviderError: {HOSTILE}"], ["west", "answered", ""]],
        rule_id=1,
        rule_name=HOSTILE,
        duration_ms=10.0,
        tags={"team": "blue"},
        correlation_id="browser-1",
    )
    yield message
    message.delete()


def test_an_entry_is_whole_and_shows_hostile_text_as_text(console, entry):
    window = console()
    for path in ("telemetry/logentry/", f"telemetry/logentry/{entry.pk}/change/", "telemetry/logentry/tail/"):
        window.open(path)
        assert window.check_looks() == {}
        assert window.page.title() != "owned"
        assert "<script>" in window.page.inner_text("#main")


def test_an_entry_tells_of_the_rule_and_of_each_provider_that_was_considered(console, entry):
    window = console()
    window.open(f"telemetry/logentry/{entry.pk}/change/")
    page = window.page
    rows = page.locator("[data-candidates] li").all_inner_texts()
    assert [row.split("\n")[:2] for row in rows] == [[HOSTILE, "Failed"], ["west", "Answered"]]
    assert page.locator("[data-axis] .console-axis span").all_inner_texts() == ["0.0", "2.5", "5.0", "7.5", "10.0"]
    assert f"ProviderError: {HOSTILE}" in rows[0]
    assert page.get_by_role("link", name=HOSTILE).first.get_attribute("href") == "/admin/rules/rule/1/change/"


@pytest.fixture
def slow_entry(orm) -> LogEntry:
    """An entry with two attempts, after five similar ones of which each took a tenth."""

    def call(name, begin, length, steps):
        return [1, name, 0, "m", 200, "", "", begin, length, None, "", "", steps]

    def create(scale, **values):
        stages = [["waiting", -2.0, 1.5], ["auth", 0.0, 1.0], ["provider", 1.0, 90.0 * scale], ["logging", 91.0, 0.5]]
        steps = [["connect", 41.0, 10.0 * scale], ["first_byte", 51.0, 40.0 * scale]]
        calls = [call("east", 1.0, 40.0, [["connect", 1.0, 40.0]]), call("west", 41.0, 50.0 * scale, steps)]
        kind = {"entry_type": EntryType.WORK_REQUEST, "provider_id": 1, "model": "compared", "outcome": "completed"}
        return LogEntry.objects.create(**kind, stages=stages, provider_calls=calls, duration_ms=91.0, **values)

    similar = [create(0.1) for _ in range(5)]
    other = create(0.1, stream=True)
    entry = create(1, correlation_id="browser-slow")
    yield entry
    for row in (*similar, other, entry):
        row.delete()


def test_the_waterfall_compares_each_step_with_similar_requests(console, slow_entry):
    window = console()
    window.open(f"telemetry/logentry/{slow_entry.pk}/change/")
    assert window.check_looks() == {}
    page = window.page
    assert "p50 and p95 of 5 similar requests" in page.inner_text("[data-sample]")
    titles = page.locator("[data-waterfall] h3").all_inner_texts()
    assert titles == ["Request", "Attempt 1: east", "Attempt 2: west"]
    (provider,) = (row for row in page.locator("[data-waterfall] li").all_inner_texts() if row.startswith("provider"))
    assert "p50 9.00 ms, p95 9.00 ms" in provider
    assert "above p95" in provider
    lefts = [float(bar.get_attribute("x")) for bar in page.locator("[data-waterfall] rect").all()]
    assert lefts[0] == 0  # the request waited before its time began
    assert lefts[-2] == pytest.approx(100 * 43 / 93.5, abs=0.1)  # connect of the second attempt


def test_a_stored_answer_tells_what_its_hits_saved(administrator, orm):
    row = CacheEntry.objects.create(request_hash="saved", model="m", cost="0.5", currency="USD", hits=3)
    for page in ("", f"{row.pk}/change/"):
        assert "$1.50" in administrator.get(f"telemetry/cacheentry/{page}").text
    row.delete()


def test_filters_find_it_and_the_export_holds_it(console, entry):
    window = console()
    window.open("telemetry/logentry/?tag=team%3Dblue")
    assert window.page.locator("#result_list tbody tr").count() == 1
    window.open("telemetry/logentry/?tag=team%3Dred")
    assert window.page.locator("#result_list tbody tr").count() == 0
    window.open("telemetry/logentry/?tag=team%3Dblue")
    with window.page.expect_download() as file:
        window.page.get_by_text("Export as CSV").click()
    rows = file.value.path().read_text().splitlines()
    assert rows[0].startswith("id,timestamp")
    assert "browser-1" in rows[1]
    assert "'=<script>" in rows[1]  # no spreadsheet takes it for a formula
    with window.page.expect_download() as file:
        window.page.get_by_text("Export as JSON Lines").click()
    assert '"correlation_id":"browser-1"' in file.value.path().read_text()


@pytest.mark.parametrize(
    ("fits", "not_this"),
    [
        ("user=finder", "user=other"),
        ("model_name=found-model", "model_name=found"),
        ("provider=found-provider", "provider=other"),
        ("key=found-key", "key=other"),
        ("request=browser-2", "request=browser-3"),
        ("outcome__exact=failed", "outcome__exact=completed"),
        ("severity__exact=error", "severity__exact=info"),
        ("entry_type__exact=WorkRequest", "entry_type__exact=Message"),
        ("cache_status__exact=MISS", "cache_status__exact=HIT"),
        ("q=found-model", "q=nowhere"),
        ("tag=team", "tag=crew"),
        ("tag=team%3Dred", "tag=team%3Dblue"),
        (
            "timestamp_from_0=2020-01-01&timestamp_from_1=00:00:00&timestamp_to_0=2020-01-02&timestamp_to_1=00:00:00",
            "timestamp_from_0=2020-01-02&timestamp_from_1=00:00:00&timestamp_to_0=2020-01-03&timestamp_to_1=00:00:00",
        ),
    ],
)
def test_each_filter_finds_what_fits_in_list_tail_and_export(administrator, orm, fits, not_this):
    row = LogEntry.objects.create(
        timestamp="2020-01-01T12:00Z", entry_type="WorkRequest", username="finder", model="found-model",
        provider_name="found-provider", key_name="found-key", correlation_id="browser-2", outcome="failed",
        severity="error", cache_status="MISS", tags={"team": "red"}, message="found it",
    )  # fmt: skip
    link = f"/admin/telemetry/logentry/{row.pk}/change/"
    only = "&request=browser-2" if "request=" not in fits else ""
    for query, result in ((fits + only, True), (not_this, False)):
        for page in ("", "tail/"):
            assert (link in administrator.get(f"telemetry/logentry/{page}?{query}").text) is result, query
        lines = administrator.get(f"telemetry/logentry/export.jsonl?{query}").text
        assert (f'{{"id":{row.pk},' in lines) is result, query
    row.delete()


LINES = """
names => Object.fromEntries(names.map(name => {
  const range = document.createRange();
  const cell = document.querySelector(`#result_list .field-${name}`);
  range.selectNodeContents(cell.querySelector("a") ?? cell);
  return [name, [new Set([...range.getClientRects()].map(line => line.top)).size, range.getBoundingClientRect().width]];
}))
"""
COLUMNS = ("key", "user", "model_name", "provider", "tokens", "price", "first_byte", "duration")


@pytest.fixture
def long_words(orm) -> LogEntry:
    row = LogEntry.objects.create(
        entry_type="WorkRequest", outcome="client_closed", cache_status="BYPASS", duration_ms=1234, cost="0.0021943",
        currency="USD", input_tokens=1300, output_tokens=1000, usage_estimated=True, username="alice.liddell",
        model="gpt-4o-mini-2024-07-18", tags={"team": "words"}, provider_name="openai-west", key_name="nightly-build",
        first_byte_ms=321, status=499, exception="ClientClosed",
    )  # fmt: skip
    yield row
    row.delete()


def test_no_word_of_a_request_breaks_and_figures_are_short(console, long_words):
    window = console()
    window.open("telemetry/logentry/?tag=team%3Dwords")
    cells = window.page.evaluate(LINES, COLUMNS)
    assert {name: lines for name, (lines, _) in cells.items()} == dict.fromkeys(COLUMNS, 1)
    row = window.page.locator("#result_list tbody tr")
    assert "1.3k in, 1.0k out (estimated)" in row.inner_text()
    assert "499 ClientClosed" in row.inner_text()
    assert row.locator(".field-price span").get_attribute("title") == "0.0021943 USD"


SENTENCE = "changed providers nine: its address, its priority, " * 6


@pytest.fixture
def long_message(orm) -> LogEntry:
    row = LogEntry.objects.create(
        entry_type="Message",
        severity="warning",
        message=SENTENCE,
        username="alice.liddell",
        correlation_id="long-words",
    )
    yield row
    row.delete()


@pytest.fixture
def long_audit_entry(orm) -> AuditEntry:
    record = AuditRecord(
        timezone.now(), "alice.liddell@example.org", 1, None, "update", "default-limits-of-new-users", 7, SENTENCE,
        "{}", "{}", "127.0.0.1", "long-words",
    )  # fmt: skip
    return append_record(record)


PHONE_LISTS = {
    "requests": ("telemetry/logentry/?tag=team%3Dwords", "price"),
    "messages": ("telemetry/logentry/?tab=messages&request=long-words", "short_message"),
    "audit": ("telemetry/auditentry/?request=long-words", "message"),
}


@pytest.mark.parametrize("tab", first_of(*PHONE_LISTS))
def test_an_entry_takes_two_lines_on_a_phone(console, long_words, long_message, long_audit_entry, tab):
    path, column = PHONE_LISTS[tab]
    window = console("phone")
    window.open(path)
    cells = window.page.locator("#result_list tbody tr :is(td, th)").all()
    tops = {round(cell.bounding_box()["y"] / 12) for cell in cells if cell.is_visible()}
    assert window.page.locator("#result_list tbody tr").first.bounding_box()["height"] < 80
    assert len(tops) >= 2
    assert window.page.locator(f"#result_list .field-{column}").first.is_visible()
    assert window.check() == []


BROKEN_WORDS = """cells => cells.flatMap(cell => {
  const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), words = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode())
    for (const { index, 0: word } of node.textContent.matchAll(/[^\\s-]+/g)) {
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      if (new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1) words.push(word);
    }
  return words;
})"""


def test_no_word_of_the_audit_and_of_live_breaks(console, long_words, long_message, long_audit_entry):
    window = console()
    for path, cells in {
        "telemetry/auditentry/?request=long-words": "#result_list tbody :is(td, th)",
        "telemetry/logentry/tail/?tag=team%3Dwords": "tbody[data-refresh] td",
        "telemetry/logentry/tail/?request=long-words": "tbody[data-refresh] td",
    }.items():
        window.open(path)
        assert window.page.locator(cells).evaluate_all(BROKEN_WORDS) == [], path
        assert window.check() == []


def test_messages_have_a_tab_without_what_stands_elsewhere(console, administrator, orm, world):
    world.provider()
    administrator.post(f"keys/apikey/{world.new_key().key.pk}/lock/", post="yes")
    LogEntry.objects.create(entry_type="Message", message="The provider answers again.", severity="info")
    failed = {"correlation_id": "twice", "exception": "ProviderError", "message": "It failed, once."}
    request = LogEntry.objects.create(entry_type="WorkRequest", outcome="failed", status=502, **failed)
    LogEntry.objects.create(entry_type="Message", severity="error", **failed)
    window = console()
    window.open("telemetry/logentry/?tab=messages")
    text = window.page.inner_text("#result_list")
    assert re.search(r"Info\s+The provider answers again.", text)
    assert "changed keys" not in text
    assert "It failed, once." not in text
    window.open("telemetry/logentry/?request=twice")
    assert window.page.locator("#result_list tbody tr").count() == 1
    assert f"/{request.pk}/" in window.page.locator("#result_list tbody a").first.get_attribute("href")
    window.page.click(".console-tabs >> text=Audit")
    assert "changed keys" in window.page.inner_text("#result_list")
    assert window.problems == []
