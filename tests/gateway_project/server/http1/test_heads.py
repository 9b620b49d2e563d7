"""Heads that are read at once are read as gunicorn reads them; all others are left to it."""

import socket
from itertools import product

import pytest
from gunicorn.config import Config
from gunicorn.http import wsgi
from gunicorn.http.errors import InvalidResponseHeader, InvalidResponseHeaderName, ParseException
from gunicorn.http.message import Request
from gunicorn.http.unreader import IterUnreader
from hypothesis import given
from hypothesis import strategies as st

from gateway_project.server.http1 import heads, messages
from gateway_project.server.http1.heads import CONTENT_LENGTH, are_usual, date_at, settle_config, usual_headers

PEER = ("192.0.2.1", 1234)
LINE = b"POST /work HTTP/1.1\r\n"
# Pieces that lines of headers are made of, the good with the bad.
NAMES = [b"Host", b"host", b"Content-Type", b"Content-Length", b"Transfer-Encoding", b"Expect", b"X-A", b"X_A", b"X A"]
NAMES += [
    b"",
    b" X",
    b"X ",
    b"X\t",
    b"X\x00",
    b"\xdf",
    b"X:Y",
    b"X-Forwarded-Proto",
    b"Connection",
    b"!#$%&'*+-.^`|~9a",
]
VALUES = [b"", b"a", b" a ", b"\ta\t", b"a\tb", b"a b", b"a:b", b"\xe9", b"a\x00", b"a\x7f", b"a\rb", b"a\nb", b"5"]
VALUES += [
    b"100-continue",
    b"chunked",
    b"gzip",
    b"close",
    b"keep-alive",
    b"https",
    b"a\r\n b",
    b"x" * 8185,
    b"x" * 8190,
]
TARGETS = [b"/work", b"/work?key=1", b"*", b"http://a/b", b"a:1", b"", b"/\xe9", b"/a#b", b"//a/b", b"/%41"]


def config(**values):
    cfg = Config()
    for name, value in ({"forwarded_allow_ips": "", "header_map": "refuse"} | values).items():
        cfg.set(name, value)
    return cfg


CONFIG = config()
GUNICORNS_RESPONSE = messages.JoinedResponse.__base__


def outcome(kind, head, peer=PEER, cfg=CONFIG):
    """What a class of requests reads of a head, or the class of its error."""
    try:
        request = kind(cfg, IterUnreader(iter([head])), peer)
    except (ParseException, StopIteration) as error:
        return type(error)
    parts = request.method, request.uri, request.path, request.query, request.fragment, request.version
    reader = request.body.reader
    length = getattr(reader, "length", None)
    return parts, request.headers, request.scheme, request._expected_100_continue, type(reader), length


def read_alike(head, **options):
    """Whether both read it alike, the second time too, when the line is known."""
    expected = outcome(Request, head, **options)
    # Other transfer codings are refused here on purpose.
    return all(outcome(messages.GatewayRequest, head, **options) == expected for _ in range(2))


def head_of(*lines, first=LINE):
    return first + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


@pytest.mark.parametrize("name", NAMES)
def test_a_header_of_any_name_and_value_is_read_as_gunicorn_reads_it(name):
    for value in VALUES:
        if (name, value) != (b"Transfer-Encoding", b"gzip"):  # refused before its reader is chosen
            head = head_of(b"Host: h", name + b":" + value)
            assert read_alike(head), head


def test_two_headers_are_read_as_gunicorn_reads_them():
    for first, second in product(NAMES, repeat=2):
        head = head_of(first + b": 5", second + b": 5")
        assert read_alike(head), head


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("method", [b"GET", b"POST", b"post", b"OPTIONS", b"G T", b"", b"CONNECT"])
@pytest.mark.parametrize("version", [b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"http/1.1", b"HTTP/1.1 "])
def test_each_request_line_is_read_as_gunicorn_reads_it(method, target, version):
    head = head_of(b"Host: h", first=method + b" " + target + b" " + version + b"\r\n")
    assert read_alike(head)


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from([b":", b": ", b"", b" :"]), st.sampled_from(VALUES))))
def test_random_heads_are_read_as_gunicorn_reads_them(parts):
    if not any(name == b"Transfer-Encoding" and value != b"chunked" for name, _, value in parts):
        head = head_of(*(b"".join(part) for part in parts))
        assert read_alike(head), head


@given(st.binary(max_size=200))
def test_random_bytes_are_read_as_gunicorn_reads_them(data):
    if b"transfer-encoding" not in data.lower():
        assert read_alike(LINE + data + b"\r\n\r\n")


def test_the_limits_of_lines_are_gunicorns():
    cfg = config(limit_request_fields=3, limit_request_field_size=20)
    for lines in range(1, 6):
        assert read_alike(head_of(*[b"X-%d: a" % number for number in range(lines)]), cfg=cfg)
    for size in range(10, 30):
        assert read_alike(head_of(b"X: " + b"a" * size), cfg=cfg)


def test_what_a_peer_says_of_its_clients_is_left_to_gunicorn():
    head = head_of(b"Host: h", b"X-Forwarded-Proto: https")
    assert read_alike(head, peer="")  # a Unix socket, whose peers gunicorn hears
    assert outcome(messages.GatewayRequest, head, peer="")[2] == "https"
    listed = config(forwarded_allow_ips=PEER[0])
    assert read_alike(head, cfg=listed)
    assert outcome(messages.GatewayRequest, head, cfg=listed)[2] == "https"
    assert outcome(messages.GatewayRequest, head)[2] == "http"


def test_a_usual_head_is_read_at_once():
    assert usual_headers(b"Host: h\r\nX-A:  b \r\nx-b: c", 100, 8190) == [("HOST", "h"), ("X-A", "b"), ("X-B", "c")]
    for unusual in (b"", b"X_A: b", b"Expect: 100-continue", b"X-A: b\r\nx-a: c", b"A: b\r\n c", b"A: b\r\n\r\nC: d"):
        assert usual_headers(unusual, 100, 8190) is None


def test_a_line_with_a_query_is_not_kept_as_it_may_hold_a_key():
    lines = heads.RequestLines()
    for target in (b"/work", b"/v1beta/models/m:generateContent?key=secret", b"/" + b"a" * heads.MAX_LINE_BYTES):
        lines.keep(b"POST %b HTTP/1.1" % target, ("POST", "/", "/", "", "", (1, 1)))
    assert list(lines._lines) == [b"POST /work HTTP/1.1"]


def test_only_so_many_lines_are_kept():
    lines = heads.RequestLines()
    for number in range(heads.MAX_LINES + 10):
        lines.keep(b"GET /%d HTTP/1.1" % number, ("GET", "/", "/", "", "", (1, 1)))
    assert len(lines._lines) == heads.MAX_LINES


SENT = [[], [("X-A", "b")], [("X-A", " b "), (CONTENT_LENGTH, "5")], [("content-length", "5")], [("Server", "me")]]
SENT += [[("Connection", "close"), ("X-A", "b")], [("X-A", "b\r\nX-B: c")], [("X-A", "b"), ("X-B", "a\nb")]]
SENT += [[("X A", "b")], [("X-A", "\xe9")], [("X-A", "\u20ac")], [("", "b")], [("X-A", "")], [("Upgrade", "websocket")]]


def response_of(kind):
    request = Request(CONFIG, IterUnreader(iter([head_of(b"Host: h")])), PEER)
    kind.readers = None
    with socket.socket() as sock:
        return kind(request, sock, CONFIG)


@pytest.mark.parametrize("headers", SENT)
def test_an_applications_headers_are_sent_as_gunicorn_sends_them(headers):
    results = []
    for kind in (GUNICORNS_RESPONSE, messages.JoinedResponse):
        response = response_of(kind)
        try:
            response.start_response("200 OK", headers)
        except (InvalidResponseHeader, InvalidResponseHeaderName) as error:
            results.append(type(error))
        else:
            results.append((response.headers, response.response_length, response.chunked))
    assert results[0] == results[1]


def test_a_line_break_in_a_value_is_never_usual():
    assert are_usual([("X-A", "b"), ("X-B", "c")])
    assert not are_usual([("X-A", "b\nX-C: d"), ("X-B", "c")])
    assert not are_usual([("X-A", "b\n")])


def test_the_head_of_a_response_has_gunicorns_lines(monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1_700_000_000.9)
    written = []
    for kind in (GUNICORNS_RESPONSE, messages.JoinedResponse):
        response = response_of(kind)
        response.start_response("200 OK", [("X-A", "b")])
        written.append("".join(response.default_headers()))
    assert written[0] == written[1]
    assert "Date: Tue, 14 Nov 2023 22:13:20 GMT\r\n" in written[1]
    assert date_at(1_700_000_000) != date_at(1_700_000_001)


def test_settled_settings_are_gunicorns_own():
    cfg = config(keepalive=7)
    before = {name: getattr(cfg, name) for name in cfg.settings}
    settle_config(cfg)
    assert {name: getattr(cfg, name) for name in cfg.settings} == before
    assert vars(cfg)["keepalive"] == 7


def test_each_request_has_an_environment_of_its_own():
    first, second = heads.base_environ(CONFIG), heads.base_environ(CONFIG)
    first["HTTP_X"] = "a"
    assert "HTTP_X" not in second
    assert second.keys() == wsgi.base_environ(CONFIG).keys()
