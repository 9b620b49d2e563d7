"""Each parser of what others send, over arbitrary input: a value, or its own refusal, and nothing else.

Documents are in test_document_parsers.py, bodies, conversations and signed tokens in test_body_parsers.py. Parsers with
property tests of their own carry the mark there: strict JSON, keys, tokens, licences, cache entries, answers and
streams of every format, event frames, HTTP answers, journals, logged JSON, addresses and `Retry-After`.
"""

import ipaddress
import time
from datetime import datetime
from types import SimpleNamespace

import pytest
from django.core.exceptions import ImproperlyConfigured
from hypothesis import given
from hypothesis import strategies as st

from gateway_project.api import filters
from gateway_project.env import Env
from gateway_project.errors import GatewayError, ValidationError
from gateway_project.server.proxies import TrustedProxies, read_address
from gateway_project.server.request_ids import ACCEPTED, decode_text, request_id
from gateway_project.work.doors import ENDPOINTS
from gateway_project.work.reading.headers import MAX_TAGS, read_headers
from gateway_project.work.state.redis.seals import Seals
from keys import secrets
from providers.credentials import origin_of
from providers.formats import FORMATS
from providers.formats.dialect import WorkRequest
from providers.services import checked_url
from rules.patterns import compile_pattern
from telemetry.journal.files import HEADER_BYTES, is_damaged, recover_records
from tests.support.pace import slowness
from tests.support.promises import parses

pytestmark = pytest.mark.embedded

# WSGI hands the bytes of a header on as Latin-1.
HEADERS = st.text(st.characters(max_codepoint=255), max_size=120)
WORDS = st.sampled_from(["team=blue", "=", ",", " ", "a=b", "1", "0.5", "9" * 30, "-1", "\u00b2", "Bearer ", "svc_"])
HEADER = HEADERS | st.lists(WORDS | HEADERS, max_size=6).map("".join)


def options_of(environ: dict[str, str]) -> SimpleNamespace:
    """What read_request takes from headers."""
    shortened: list[float] = []
    exchange = SimpleNamespace(
        connection=SimpleNamespace(environ=environ),
        identity=SimpleNamespace(key=None),
        options=SimpleNamespace(tags={}, provider_name="", cache_seconds=0),
        call=SimpleNamespace(shorten=shortened.append),
        shortened=shortened,
    )  # fmt: skip
    read_headers(exchange)
    return exchange


@parses
@given(st.dictionaries(st.sampled_from(["CACHE", "CACHE_TTL", "TIMEOUT", "TAGS", "PROVIDER"]), HEADER))
def test_headers_of_a_request(values):
    try:
        exchange = options_of({f"HTTP_X_SVC_{name}": value for name, value in values.items()})
    except ValidationError:
        return
    assert len(exchange.options.tags) <= MAX_TAGS
    assert all("\n" not in text and "\0" not in text for pair in exchange.options.tags.items() for text in pair)
    assert all(0 < seconds < 10**9 for seconds in exchange.shortened)


@parses
@given(HEADER)
def test_request_ids_and_texts_of_headers(text):
    assert ACCEPTED.fullmatch(request_id({"HTTP_X_SVC_REQUEST_ID": text}))
    decode_text(text).encode()


@parses
@given(HEADER, st.sampled_from(sorted(ENDPOINTS)))
def test_credentials_in_headers(text, name):
    names = ("HTTP_AUTHORIZATION", "HTTP_X_API_KEY", "HTTP_API_KEY")
    credential = ENDPOINTS[name].door.credential(dict.fromkeys(names, text))
    assert isinstance(credential, str)
    assert secrets.parse_key(credential) is None


KEYS = st.binary(max_size=10).map(lambda noise: secrets.generate_key().text + noise.hex()) | st.text(max_size=90)


@parses
@given(KEYS, st.integers(0, 70), st.text(max_size=3))
def test_keys_in_texts(text, place, noise):
    damaged = text[:place] + noise + text[place + len(noise) :]
    parsed = secrets.parse_key(damaged)
    assert parsed is None or damaged == text or len(damaged) == secrets.LENGTH
    shown = secrets.without_secrets(f"say {text} twice")
    assert text[secrets.SECRET_START : secrets.SECRET_END] not in shown or not text.startswith(secrets.PREFIX)


ADDRESSES = st.ip_addresses().map(str) | st.sampled_from(
    ["10.0.0.1", "::ffff:10.0.0.1", "[::1]:80", "10.0.0.1:80", "unknown", "_hidden", "fe80::1%eth0", "10.0.0.01", ""]
)


@parses
@given(st.lists(ADDRESSES | HEADERS, max_size=40).map(",".join), ADDRESSES)
def test_addresses_that_proxies_report(forwarded, peer):
    proxies = TrustedProxies([ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("::1/128")])
    environ = {"REMOTE_ADDR": peer, "HTTP_X_FORWARDED_FOR": forwarded, "HTTP_X_FORWARDED_PROTO": forwarded}
    proxies.resolve_client(environ)
    if environ["REMOTE_ADDR"] != peer:
        ipaddress.ip_address(environ["REMOTE_ADDR"])
    assert environ.get("wsgi.url_scheme", "http") in ("http", "https")
    assert read_address(forwarded) == "" or ipaddress.ip_address(read_address(forwarded))


@parses
@given(st.text(st.sampled_from("a(.*+?|)[]{}^$\\d1,9\n\u00e9\U0001f600"), max_size=60) | st.text(max_size=60))
def test_patterns_of_model_names(text):
    begun = time.process_time()
    try:
        pattern = compile_pattern(text)
    except ValidationError:
        return
    pattern.fullmatch("a" * 10_000 + "!")
    assert time.process_time() - begun < 2 * slowness()


@parses
@given(st.lists(ADDRESSES | st.sampled_from(["10.0.0.0/8", "::/0", "1.2.3.4/33", "10.0.0.1/8", "x/8", "/"]) | HEADERS))
def test_lists_of_networks(items):
    text = ",".join(items).replace("\0", "")
    try:
        networks = Env({"N": text}).networks("N")
    except ImproperlyConfigured:
        return
    assert len(networks) == len([item for item in text.split(",") if item.strip()])


READERS = {
    "limits": lambda env: env.limits("N"),
    "integer": lambda env: env.integer("N", 1),
    "seconds": lambda env: env.seconds("N", 1),
    "flag": lambda env: env.flag("N", True),
    "address": lambda env: env.address("N", "http://x"),
    "location": lambda env: env.location("N"),
    "database": lambda env: env.database("N", "sqlite:///x"),
    "redis": lambda env: env.redis("N"),
    "host names": lambda env: env.host_names("N"),
}
MAY_HOLD_PASSWORDS = {"address", "location", "database", "redis"}
SETTINGS = st.text(max_size=40) | st.lists(
    st.sampled_from(["redis://", "postgresql://", "sqlite:///", "http://", "u:hunter2@", "host", ":5432", "/0", "?a=b",
                     "requests/day", "=", "5", ",", "[::1]", "[", "%zz", "1e999", "nan", "\u00b2"]), max_size=6
).map("".join)  # fmt: skip


@parses
@pytest.mark.parametrize("name", READERS)
def test_settings(name):
    @given(SETTINGS)
    def attempt(text):
        message = ""
        try:
            READERS[name](Env({"N": text}))
        except ImproperlyConfigured as error:
            message = str(error)
        assert name not in MAY_HOLD_PASSWORDS or "hunter2" not in message

    attempt()


URLS = st.lists(
    st.sampled_from(["http", "https", "ftp", ":", "//", "/", "host", "127.1", "[::1]", "[", "]", "@", "#", "?", "\\",
                     "%31", "\uff11", ":80", ":99999", ":x", " ", "\t", "api.example.org", "v1"]), max_size=9
).map("".join) | st.text(max_size=60)  # fmt: skip


@parses
@given(URLS)
def test_addresses_of_providers(text):
    try:
        url = checked_url(text)
    except ValidationError:
        return
    assert url == text
    assert origin_of(url).startswith(("http://", "https://"))
    assert url.isascii()


FILTERS = {
    "whole number": filters.IntegerFilter("id"), "boolean": filters.BooleanFilter("x"), "text": filters.TextFilter("x"),
    "moment": filters.DateTimeFilter("x"), "choice": filters.ChoiceFilter("x", ["a", "b"]),
}  # fmt: skip


@parses
@pytest.mark.parametrize("filter", FILTERS.values(), ids=FILTERS)
def test_parameters_of_lists(filter):
    @given(
        st.text(max_size=40) | st.sampled_from(["2026-01-01T00:00:00Z", "1e9", "9" * 30, "0001-01-01", "-0", "true"])
    )
    def attempt(text):
        try:
            value = filter.read(text)
        except ValueError:
            return
        assert not isinstance(value, datetime) or value.tzinfo is not None

    attempt()


@parses
@given(st.binary(max_size=200), st.lists(st.integers(0, 199), max_size=5))
def test_frames_of_a_journal(data, zeros):
    damaged = bytearray(data)
    for place in zeros:
        damaged[place : place + 1] = b"\0" if place < len(damaged) else b""
    records = list(recover_records(bytes(damaged)))
    assert sum(len(record.payload) + HEADER_BYTES for record in records) <= len(damaged)
    is_damaged(bytes(damaged))


@parses
@given(st.text(max_size=20), st.binary(max_size=40), st.integers(0, 55), st.integers(1, 255))
def test_seals_of_cached_answers(name, value, place, flip):
    seals = Seals("a secret")
    sealed = bytearray(seals.seal(name, value))
    assert seals.open(name, bytes(sealed)) == value
    if place < len(sealed):
        sealed[place] ^= flip
        assert seals.open(name, bytes(sealed)) == b""
    assert seals.open(f"{name}x", seals.seal(name, value)) == b""
    assert seals.open(name, value) == b""


STREAMED = st.lists(
    st.sampled_from([b"data: ", b"event: error\n", b"{", b"}", b'{"a":1}', b"[DONE]", b"\n", b"\r\n", b"\n\n", b"null",
                     b'{"choices":[', b'{"delta":{"content":"x"}}', b"]}", b'{"error":5}', b'{"type":"ping"}', b"\xff",
                     b'"usage":{"total_tokens":1e999}', b'{"candidates":[{}]}', b'{"message":{"content":[]}}'])
    | st.binary(max_size=20), max_size=12,
)  # fmt: skip


@parses
@pytest.mark.parametrize("name", sorted(FORMATS))
def test_streams_of_every_format(name):
    @given(STREAMED)
    def attempt(pieces):
        work = WorkRequest(operation="chat", model="m", body={"model": "m", "messages": []}, raw=b"{}", stream=True)
        reader = FORMATS[name].reader(work)
        try:
            for piece in pieces:
                reader.feed(piece)
            reader.end(is_complete=True)
        except GatewayError:
            return
        assert isinstance(reader.done, bool)

    attempt()
