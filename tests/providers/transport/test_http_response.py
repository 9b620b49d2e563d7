"""A provider's bytes read as hostile data: whatever it sends, the answer is whole, or an error that says why."""

import socket
import threading
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.transport.http_response import MAX_HEAD_BYTES, HTTPResponse, InvalidResponse, NoResponse, Truncated
from tests.support.promises import promise
from tests.support.provider import NO_LINGER
from tests.support.thoroughness import number_of

pytestmark = pytest.mark.either_store

LENGTH = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n" + b'{"a": 12}'
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n" + b'{"a"\r\n5;x=y\r\n: 12}\r\n0\r\nTrailer: x\r\n\r\n'
)
CLOSED = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b'{"a": 12}'
BODY = b'{"a": 12}'


class Provider:
    """A socket pair: what is said on one side is a reply on the other."""

    def __init__(self, *said, limit=10_000, ends=True):
        self.ours, self.theirs = socket.socketpair()
        self.received = 0
        self.reply = HTTPResponse(self.ours, limit=limit, on_bytes=self.hear)
        threading.Thread(target=self.say, args=[said, ends], daemon=True).start()

    def hear(self):
        self.received += 1

    def say(self, said, ends):
        with suppress(OSError):  # the reader may have had enough
            for piece in said:
                self.theirs.sendall(piece)
            if ends:
                self.theirs.shutdown(socket.SHUT_WR)

    def __enter__(self):
        return self.reply

    def __exit__(self, *exc):
        self.ours.close()
        self.theirs.close()


def whole(*said, **options):
    with Provider(*said, **options) as reply:
        reply.read_head()
        return reply.status, reply.read(), reply.is_complete, reply.reusable


def bytewise(said):
    return [bytes([byte]) for byte in said]


@pytest.mark.parametrize("pieces", [lambda said: [said], bytewise], ids=["at once", "byte by byte"])
@pytest.mark.parametrize(
    ("said", "settled"), [(LENGTH, True), (CHUNKED, True), (CLOSED, False)], ids=["length", "chunked", "closed"]
)
def test_every_framing_gives_the_body_and_says_whether_it_is_surely_whole(said, settled, pieces):
    assert whole(*pieces(said)) == (200, BODY, settled, settled)


def test_headers_are_known_before_the_body_comes():
    with Provider(LENGTH[:-9], ends=False) as reply:
        reply.read_head()
        assert (reply.status, reply.headers["content-type"]) == (200, "application/json")


def test_a_length_of_an_interim_answer_is_not_that_of_the_answer():
    interim = b"HTTP/1.1 103 Early Hints\r\nContent-Length: 0\r\n\r\n"
    with Provider(interim + b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nwhole") as reply:
        reply.read_head()
        assert reply.read() == b"whole"


@pytest.mark.parametrize("interim", [b"100 Continue", b"102 Processing", b"103 Early Hints"])
def test_an_interim_answer_is_not_the_answer(interim):
    said = b"HTTP/1.1 %b\r\nLink: </x>\r\n\r\n" % interim
    with Provider(said + said + LENGTH) as reply:
        reply.read_head()
        assert (reply.status, "link" in reply.headers) == (200, False)
        assert reply.read() == BODY


@pytest.mark.parametrize(("said", "framing"), [(LENGTH, "length"), (CHUNKED, "chunked")])
def test_an_answer_cut_off_at_any_byte_is_truncated(said, framing):
    for size in range(len(said)):
        with pytest.raises(InvalidResponse) as caught:
            whole(said[:size])
        assert type(caught.value) is (Truncated if size else NoResponse), size


def test_a_body_that_ends_with_the_connection_is_not_settled_at_any_byte():
    start = CLOSED.index(b"\r\n\r\n") + 4
    for size in range(start, len(CLOSED)):
        assert whole(CLOSED[:size]) == (200, CLOSED[start:size], False, False)


@pytest.mark.parametrize(("said", "error"), [(b"", NoResponse), (b"HTTP/1.1 200 OK\r\nContent-", Truncated)])
def test_a_reset_connection_is_no_reply_or_a_truncated_one(said, error):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    with ours:
        reply = HTTPResponse(ours, limit=100, on_bytes=lambda: reset(theirs))
        if said:
            theirs.sendall(said)
        else:
            reset(theirs)
        with pytest.raises(InvalidResponse, match="reset") as caught:
            reply.read_head()
        assert type(caught.value) is error


def reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
    sock.close()


@pytest.mark.parametrize(
    "said",
    [
        b"nonsense\r\n\r\n",
        b"<html>hello</html>",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"\x00" * 100,
        b"HTTP/1.1 two hundred\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-4\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{   }\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nBad Header: x\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    ],
)
def test_what_is_not_http_is_a_bad_reply(said):
    with pytest.raises(InvalidResponse):
        whole(said)


@promise("V-D2, V-T3: answers of providers are bounded", target="cut at the limit", suite="attack")
def test_headers_have_a_limit():
    with pytest.raises(InvalidResponse, match="headers"):
        whole(b"HTTP/1.1 200 OK\r\n" + b"X-Filler: %b\r\n" % (b"x" * 1000) * (MAX_HEAD_BYTES // 1000 + 5) + b"\r\n")


def test_a_body_that_comes_with_long_headers_is_none_of_them():
    filler = b"X-Filler: %b\r\n" % (b"x" * 1000) * (MAX_HEAD_BYTES // 1000 - 2)
    body = b"x" * (2 * MAX_HEAD_BYTES)
    said = b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (filler, len(body), body)
    assert whole(said, limit=len(body))[1] == body


def test_a_long_answer_may_come_in_small_chunks():
    said = b"5\r\nsmall\r\n" * MAX_HEAD_BYTES
    whole_answer = whole(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + said + b"0\r\n\r\n", limit=len(said)
    )
    assert whole_answer[1] == b"small" * MAX_HEAD_BYTES


@pytest.mark.parametrize("piece", [b"X-Trailer: x\r\n", b"X-Trailer: %b\r\n" % (b"x" * 1000)])
def test_trailers_have_a_limit(piece):
    with pytest.raises(InvalidResponse, match="belong to no answer"):
        whole(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n",
            piece * (2 * MAX_HEAD_BYTES // len(piece)),
        )


def test_endless_interim_answers_are_too_long_as_well():
    with pytest.raises(InvalidResponse, match="headers"):
        whole(*[b"HTTP/1.1 102 Processing\r\n\r\n" * 1000] * 10)


@pytest.mark.parametrize(
    "head", [b"Content-Length: 10001\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n2711\r\n", b"\r\n"]
)
@promise("V-D2, V-T3: answers of providers are bounded", target="cut at the limit", suite="attack")
def test_the_body_has_a_limit(head):
    with pytest.raises(InvalidResponse, match="longer than 10000"):
        whole(b"HTTP/1.1 200 OK\r\n" + head + b"x" * 10_001)


def test_the_limit_itself_is_allowed():
    said = b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n" + b"x" * 10_000
    assert whole(said)[1] == b"x" * 10_000


def test_pieces_come_as_they_arrive_and_add_up():
    with Provider(*bytewise(CHUNKED)) as reply:
        reply.read_head()
        assert b"".join(reply.pieces()) == BODY
        assert reply.is_complete


def test_a_stream_that_breaks_off_is_truncated_after_its_pieces():
    with Provider(CHUNKED[:-15]) as reply:
        reply.read_head()
        pieces = reply.pieces()
        assert next(pieces)
        with pytest.raises(Truncated):
            list(pieces)


def test_a_silence_is_told_as_an_empty_piece():
    provider = Provider(LENGTH[:-4], ends=False)
    provider.ours.setblocking(False)  # as a receive time-out does
    with provider as reply:
        while reply.status == 0:
            reply._receive()
        pieces = reply.pieces()
        assert next(pieces) == BODY[:-4]
        assert next(pieces) == b""
        provider.theirs.sendall(LENGTH[-4:])
        assert b"".join(pieces) == BODY[-4:]


def test_each_arrival_is_noted():
    provider = Provider(LENGTH)
    with provider as reply:
        reply.read_head()
        reply.read()
    assert provider.received >= 1


@pytest.mark.parametrize("surplus", [LENGTH, b"HTTP/1.1 200 OK\r\n", b"garbage", b"{}"])
def test_who_says_more_than_its_answer_is_not_asked_again(surplus):
    with Provider(LENGTH + surplus) as reply:
        reply.read_head()
        assert (reply.read(), reply.status, reply.is_complete) == (BODY, 200, True)
        assert not reply.reusable


@pytest.mark.parametrize(
    ("head", "reusable"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", False),
    ],
)
def test_a_connection_is_kept_only_where_both_sides_may(head, reusable):
    assert whole(head)[1:] == (b"", True, reusable)


@given(st.binary(max_size=400) | st.binary(max_size=60).map(lambda rest: LENGTH[:60] + rest))
@settings(max_examples=number_of(100), deadline=None)
@promise("A parser of arbitrary input ends well", target="a value or its own refusal", suite="attack")
def test_arbitrary_bytes_are_an_answer_or_a_bad_reply(said):
    try:
        whole(said)
    except InvalidResponse:
        pass


@given(st.sampled_from([LENGTH, CHUNKED]), st.data())
@settings(max_examples=number_of(150), deadline=None)
def test_a_damaged_answer_is_an_answer_or_a_bad_reply(said, data):
    damaged = bytearray(said)
    damaged[data.draw(st.integers(0, len(said) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert len(whole(bytes(damaged))[1]) <= len(said)
    except InvalidResponse:
        pass


IN_CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_who_reads_whole_chunks_elsewhere_tells_so_and_what_came_then():
    with Provider(IN_CHUNKS + b"2\r\nab\r\n", limit=9, ends=False) as reply:
        reply.read_head()
        pieces = reply.pieces()
        assert next(pieces) == b"ab"
        assert reply.at_chunk_boundary
        reply.record_forwarded(2, b"2\r\nef\r\n")  # "cd" was read elsewhere
        assert next(pieces) == b"ef"
        assert (reply.body_bytes, reply.at_chunk_boundary) == (6, True)
        reply.record_forwarded(3, b"1\r\nx\r\n")
        with pytest.raises(InvalidResponse, match="longer than 9 bytes"):
            next(pieces)


@pytest.mark.parametrize(
    "said",
    [
        IN_CHUNKS + b"4\r\nab",
        IN_CHUNKS + b"2\r\nab",
        IN_CHUNKS + b"2\r\nab\r",
        IN_CHUNKS + b"2\r\nab\r\n3",
        IN_CHUNKS + b"2\r\nab\r\n3\r\n",
        IN_CHUNKS + b"6\r\nab\r\n",
        IN_CHUNKS + b"ff\r\n\r\n\r\n",  # the end of a size's line, and two of the chunk's
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nab\r\n",
    ],
)
def test_nobody_else_reads_on_from_the_middle_of_something(said):
    with Provider(said, ends=False) as reply:
        reply.read_head()
        next(reply.pieces())
        assert not reply.at_chunk_boundary
