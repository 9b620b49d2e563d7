"""Records on their way through the journal: a value for every column, and nothing that a database refuses."""

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.journal.records import CACHE_COLUMNS, LOG_COLUMNS, empty_cache_entry, empty_log_entry, to_record
from telemetry.models import CacheEntry, LogEntry
from tests.support.promises import parses
from tests.support.thoroughness import number_of

TEXT = st.text(st.characters(blacklist_categories=["Cs"]) | st.just("\0"), max_size=20)
VALUES = st.recursive(TEXT, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3))


def test_an_empty_entry_has_a_value_for_every_column_but_the_id():
    assert tuple(empty_log_entry()) == LOG_COLUMNS
    assert tuple(empty_cache_entry()) == CACHE_COLUMNS
    assert len(LOG_COLUMNS) == len(LogEntry._meta.concrete_fields) - 1
    assert len(CACHE_COLUMNS) == len(CacheEntry._meta.concrete_fields) - 1


def test_one_empty_entry_is_not_the_next():
    empty_log_entry()["message"] = "x"
    assert empty_log_entry()["message"] == ""


def test_an_entry_is_written_as_it_is():
    entry = {"message": 'Lisbon "is"\n\\u0000 told', "tags": {"a": "ä"}, "stages": [("auth", 0.5, None)]}
    assert orjson.loads(to_record(entry)) == entry | {"stages": [["auth", 0.5, None]]}


def test_the_character_that_postgresql_refuses_is_replaced_wherever_it_stands():
    entry = {"message": "a\0b", "tags": {"k\0": ["v\0"]}, "stages": [("\0", 1)], "status": 200}
    assert orjson.loads(to_record(entry)) == {
        "message": "a\ufffdb",
        "tags": {"k\ufffd": ["v\ufffd"]},
        "stages": [["\ufffd", 1]],
        "status": 200,
    }


@parses
@given(st.dictionaries(TEXT, VALUES, max_size=4))
@settings(max_examples=number_of(100), deadline=None)
def test_no_record_ever_holds_it(entry):
    assert "\0" not in repr(orjson.loads(to_record(entry))).replace("\\x00", "\0")
