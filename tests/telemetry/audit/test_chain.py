"""The chain of hashes: any change, removal, insertion or exchange of rows is noticed, at the first such row."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from telemetry.audit.chain import BEGINNING, AuditRecord, Link, first_break, hash_record
from telemetry.audit.differences import Difference, differences

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)


def record(number: int) -> AuditRecord:
    return AuditRecord(
        NOON + timedelta(seconds=number), "ann", 7, None, "update", "rules", number, f"ann changed rules {number}.",
        '{"enabled":true}', '{"enabled":false}', "127.0.0.1", f"request-{number}",
    )  # fmt: skip


def chain(length: int) -> list[Link]:
    links, previous = [], BEGINNING
    for number in range(1, length + 1):
        digest = hash_record(record(number), previous)
        links.append(Link(number, record(number), previous, digest))
        previous = digest
    return links


def test_a_chain_as_it_was_written_holds():
    assert first_break(chain(20), BEGINNING) is None
    assert first_break([], BEGINNING) is None


@given(st.integers(0, 19), st.sampled_from(AuditRecord._fields))
def test_a_change_of_any_column_breaks_it_at_its_row(place, column):
    links = chain(20)
    link = links[place]
    value = getattr(link.record, column)
    if isinstance(value, datetime):
        other: object = value + timedelta(microseconds=1)
    else:
        other = f"{value} " if isinstance(value, str) else (value or 0) + 1
    links[place] = Link(link.id, link.record._replace(**{column: other}), link.previous_hash, link.hash)
    fault = first_break(links, BEGINNING)
    assert fault is not None
    assert fault.row_id == link.id


@given(st.integers(0, 18))
def test_a_removed_row_breaks_it_at_the_next(place):
    links = chain(20)
    removed = links.pop(place)
    fault = first_break(links, BEGINNING)
    assert fault is not None
    assert fault.row_id == removed.id + 1


@given(st.integers(0, 18))
def test_rows_in_another_order_break_it(place):
    links = chain(20)
    links[place], links[place + 1] = links[place + 1], links[place]
    assert first_break(links, BEGINNING) is not None


def test_a_changed_row_with_its_own_hash_made_anew_breaks_it_at_the_next():
    links = chain(5)
    other = links[2].record._replace(actor="bob")
    links[2] = Link(3, other, links[2].previous_hash, hash_record(other, links[2].previous_hash))
    fault = first_break(links, BEGINNING)
    assert fault is not None
    assert fault.row_id == 4


def test_texts_that_only_together_are_the_same_have_other_hashes():
    one = record(1)._replace(actor="ab", action="c")
    assert hash_record(one, BEGINNING) != hash_record(one._replace(actor="a", action="bc"), BEGINNING)


def test_only_attributes_that_differ_are_shown():
    before, after = '{"a": 1, "b": "x", "c": [1]}', '{"a": 1, "b": "y", "d": null}'
    assert differences(before, after) == [
        Difference("b", "x", "y"), Difference("c", "[\n  1\n]", ""), Difference("d", "", "null"),
    ]  # fmt: skip
    assert differences("null", '{"name": "x"}') == [Difference("name", "", "x")]
    assert differences("null", "null") == []
    assert differences("no JSON", "null") == [Difference("value", "no JSON", "")]
    assert differences('"old"', '"new"') == [Difference("value", "old", "new")]
