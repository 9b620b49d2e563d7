"""What keeps the server's own output readable."""

import logging

from gateway_project.server.logs import MAX_KINDS, EachOncePerMinute, OncePerMinute, SkipUnavailable


def test_one_record_a_minute_passes_with_its_first_line():
    seldom = OncePerMinute()
    records = [logging.makeLogRecord({"msg": "no connection to %s:\nis it there?", "args": (name,)}) for name in "abc"]
    assert [seldom.filter(record) for record in records] == [True, False, False]
    assert records[0].getMessage() == "no connection to a: (Further messages of this kind are suppressed for a minute.)"


def test_each_kind_of_record_passes_once_a_minute():
    seldom = EachOncePerMinute()
    records = [logging.makeLogRecord({"name": name, "msg": "%s: refused", "args": (0,)}) for name in "aabb"]
    records += [logging.makeLogRecord({"name": "a", "msg": "another kind"})]
    assert [seldom.filter(record) for record in records] == [True, False, True, False, True]


def test_kinds_that_clients_make_up_are_one_kind():
    seldom = EachOncePerMinute()
    records = [logging.makeLogRecord({"msg": f"a text of a client: {number}"}) for number in range(1000)]
    assert sum(seldom.filter(record) for record in records) == MAX_KINDS + 1


def test_refusals_for_want_of_room_are_no_news_and_failures_are():
    result = [logging.makeLogRecord({"status_code": status}) for status in (503, 500)] + [logging.makeLogRecord({})]
    assert [SkipUnavailable().filter(record) for record in result] == [False, True, True]
