"""A body is read whole or refused, and a long one asks for its memory first."""

from io import BytesIO

import pytest

from gateway_project.errors import PayloadTooLarge, ServiceUnavailable, ValidationError
from gateway_project.server.bodies import (
    GRACE_SECONDS,
    PIECE_BYTES,
    UNRESERVED_BYTES,
    MemoryBudget,
    body_timeout,
    read_body,
)
from tests.support.locking import guarded

MAX_BYTES = 12 * PIECE_BYTES


def environ_of(body, length=""):
    """The environment of a request with this body: of a stated length, or chunked where there is none."""
    chunked = {} if length else {"HTTP_TRANSFER_ENCODING": "Chunked"}
    return {"wsgi.input": BytesIO(body), "CONTENT_LENGTH": length} | chunked


@pytest.mark.parametrize("size", [0, 1, UNRESERVED_BYTES, UNRESERVED_BYTES + 1, 4 * PIECE_BYTES, MAX_BYTES])
def test_it_is_read_whole_and_asks_for_memory_beyond_what_is_free(size):
    body, request = b"x" * size, []
    assert read_body(environ_of(body, str(size)), MAX_BYTES, request.append) == body
    assert sum(request) == max(size - UNRESERVED_BYTES, 0)
    assert all(step <= PIECE_BYTES for step in request)
    request.clear()
    assert read_body(environ_of(body), MAX_BYTES, request.append) == body
    assert size - UNRESERVED_BYTES <= sum(request) <= size


@pytest.mark.parametrize(
    ("environ", "refusal"),
    [
        (environ_of(b"x" * (MAX_BYTES + 1), str(MAX_BYTES + 1)), PayloadTooLarge),
        (environ_of(b"x" * (MAX_BYTES + 1)), PayloadTooLarge),
        (environ_of(b"x", "-1"), PayloadTooLarge),
        (environ_of(b"x", "one"), PayloadTooLarge),
        (environ_of(b"x", "2"), ValidationError),
        ({"wsgi.input": None, "CONTENT_LENGTH": "1"}, ValidationError),
    ],
)
def test_what_is_too_long_or_does_not_come_is_refused(environ, refusal):
    with pytest.raises(refusal):
        read_body(environ, MAX_BYTES)


def test_without_a_length_and_without_chunks_there_is_no_body():
    assert read_body({"wsgi.input": BytesIO(b"of the next request")}, MAX_BYTES) == b""


@pytest.mark.parametrize("environ", [environ_of(b"x" * MAX_BYTES, str(MAX_BYTES)), environ_of(b"x" * MAX_BYTES)])
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


def test_what_is_announced_and_does_not_arrive_takes_no_memory():
    budget = MemoryBudget(MAX_BYTES)
    environ = environ_of(b"x", str(MAX_BYTES))
    with pytest.raises(ValidationError):
        read_body(environ, MAX_BYTES, budget.reserve)
    budget.reserve(MAX_BYTES)


def test_one_caller_has_a_share():
    budget = MemoryBudget(100, 25)
    budget.reserve(25, "ann")
    with pytest.raises(ServiceUnavailable, match="of your large requests"):
        budget.reserve(1, "ann")
    budget.reserve(25, "bob")
    budget.release(25, "ann")
    budget.reserve(25, "ann")


def test_each_piece_is_timed_by_what_has_arrived_with_it():
    sizes = []

    def timed(read, size):
        sizes.append(size)
        return read()

    size = 2 * PIECE_BYTES + 5
    read_body(environ_of(b"x" * size, str(size)), MAX_BYTES, timed=timed)
    assert sizes == [PIECE_BYTES, 2 * PIECE_BYTES, size]


def test_a_long_body_may_take_longer():
    assert body_timeout(1024 * 1024, 5, 64 * 1024) == 5 + GRACE_SECONDS + 16


def test_the_room_is_counted_under_its_lock():
    budget = MemoryBudget(MAX_BYTES)
    guarded(budget, budget._lock, "_reserved")
    budget.reserve(MAX_BYTES)
    budget.release(MAX_BYTES)
