"""A body is read whole or refused, and a long one asks for its memory first."""

from io import BytesIO

import pytest

from gateway_project.errors import PayloadTooLarge, ServiceUnavailable, ValidationError
from gateway_project.server.bodies import (
    GRACE_SECONDS,
    READ_BYTES,
    UNRESERVED_BYTES,
    MemoryBudget,
    body_timeout,
    read_body,
)
from tests.support.locking import guarded

MAX_BYTES = 3 * READ_BYTES


def sent(body, length=""):
    """The environment of a request with this body: of a stated length, or chunked where there is none."""
    chunked = {} if length else {"HTTP_TRANSFER_ENCODING": "Chunked"}
    return {"wsgi.input": BytesIO(body), "CONTENT_LENGTH": length} | chunked


@pytest.mark.parametrize("size", [0, 1, UNRESERVED_BYTES, UNRESERVED_BYTES + 1, READ_BYTES, MAX_BYTES])
def test_it_is_read_whole_and_asks_for_memory_beyond_what_is_free(size):
    body, asked = b"x" * size, []
    assert read_body(sent(body, str(size)), MAX_BYTES, asked.append) == body
    assert asked == ([size] if size > UNRESERVED_BYTES else [])
    asked.clear()
    assert read_body(sent(body), MAX_BYTES, asked.append) == body
    assert sum(asked) == max(size - UNRESERVED_BYTES, 0)


@pytest.mark.parametrize(
    ("environ", "refusal"),
    [
        (sent(b"x" * (MAX_BYTES + 1), str(MAX_BYTES + 1)), PayloadTooLarge),
        (sent(b"x" * (MAX_BYTES + 1)), PayloadTooLarge),
        (sent(b"x", "-1"), PayloadTooLarge),
        (sent(b"x", "one"), PayloadTooLarge),
        (sent(b"x", "2"), ValidationError),
        ({"wsgi.input": None, "CONTENT_LENGTH": "1"}, ValidationError),
    ],
)
def test_what_is_too_long_or_does_not_come_is_refused(environ, refusal):
    with pytest.raises(refusal):
        read_body(environ, MAX_BYTES)


def test_without_a_length_and_without_chunks_there_is_no_body():
    assert read_body({"wsgi.input": BytesIO(b"of the next request")}, MAX_BYTES) == b""


@pytest.mark.parametrize("environ", [sent(b"x" * MAX_BYTES, str(MAX_BYTES)), sent(b"x" * MAX_BYTES)])
def test_where_there_is_no_memory_it_is_not_read_on(environ):
    with pytest.raises(ServiceUnavailable):
        read_body(environ, MAX_BYTES, MemoryBudget(UNRESERVED_BYTES).reserve)
    assert environ["wsgi.input"].tell() < MAX_BYTES


def test_all_long_bodies_together_have_so_much_room():
    budget = MemoryBudget(10)
    budget.reserve(6)
    with pytest.raises(ServiceUnavailable):
        budget.reserve(5)
    budget.reserve(4)
    budget.release(6)
    budget.reserve(6)
    with pytest.raises(ServiceUnavailable):
        budget.reserve(1)


@pytest.mark.parametrize(
    ("length", "seconds"), [("", 16), ("x", 16), (None, 16), ("0", 0), ("65536", 1), ("9" * 30, 16)]
)
def test_a_long_body_may_take_longer(length, seconds):
    assert body_timeout({"CONTENT_LENGTH": length}, 1024 * 1024, 5) == 5 + GRACE_SECONDS + seconds


def test_the_room_is_counted_under_its_lock():
    budget = MemoryBudget(MAX_BYTES)
    guarded(budget, budget._lock, "_reserved")
    budget.reserve(MAX_BYTES)
    budget.release(MAX_BYTES)
