"""When a provider wants to be asked again, however it spells it."""

from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.transport.retry_after import LEAST_SECONDS, MOST_SECONDS, retry_after
from tests.support.promises import parses
from tests.support.thoroughness import number_of

pytestmark = pytest.mark.either_store


def said(text):
    return retry_after({"retry-after": text})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7),
        (" 7 ", 7),
        ("2.5", 2.5),
        ("31s", 31),
        ("1.5s", 1.5),
        ("6m0s", 360),
        ("1m30s", 90),
        ("0h1m30.5s", 90.5),
        ("1500ms", 1.5),
        ("1m0.5s", 60.5),
        ("12ms", LEAST_SECONDS),
        ("0", LEAST_SECONDS),
        ("7200", MOST_SECONDS),
        ("24h0m0s", MOST_SECONDS),
        ("9" * 400 + "s", MOST_SECONDS),
    ],
)
def test_a_number_or_a_duration_is_so_many_seconds(text, seconds):
    assert said(text) == seconds


@pytest.mark.parametrize(
    "spelled",
    [
        format_datetime,
        lambda moment: format_datetime(moment, usegmt=True),
        lambda moment: moment.isoformat(),
        lambda moment: moment.isoformat().replace("+00:00", "Z"),
        lambda moment: moment.astimezone(timezone(timedelta(hours=5))).isoformat(),
    ],
)
def test_a_date_is_the_seconds_until_then(spelled):
    assert said(spelled(datetime.now(UTC) + timedelta(seconds=100))) == pytest.approx(100, abs=3)


def test_a_date_that_has_passed_is_soon_and_one_far_away_is_bounded():
    assert said("Wed, 21 Oct 2015 07:28:00 GMT") == LEAST_SECONDS
    assert said("Fri, 31 Dec 9999 23:59:59 GMT") == MOST_SECONDS


def test_the_milliseconds_of_openai_are_the_more_exact():
    assert retry_after({"retry-after-ms": "1500", "retry-after": "2"}) == 1.5
    assert retry_after({"retry-after-ms": "soon", "retry-after": "2"}) == 2


@pytest.mark.parametrize(
    "text",
    ["", "soon", "-5", "1e3", "nan", "inf", "0x10", "5 min", "٣", "²s", "s", "1d", "7,7"]
    + ["Wed, 21 Oct 99999999999999999999 07:28:00 GMT"],
)
def test_what_is_no_time_is_none(text):
    assert said(text) is None


def test_who_says_nothing_says_nothing():
    assert retry_after({}) is None


@parses
@given(st.text(st.characters(max_codepoint=255), max_size=40) | st.from_regex(r"\A[0-9hms.:TZ+-]{0,30}\Z"))
@settings(max_examples=number_of(300), deadline=None)
def test_whatever_is_said_is_none_or_within_bounds(text):
    for headers in ({"retry-after": text}, {"retry-after-ms": text}):
        seconds = retry_after(headers)
        assert seconds is None or LEAST_SECONDS <= seconds <= MOST_SECONDS
