"""The scripted provider does what its scripts say: every end-to-end test rests on it."""

import base64
import json
import struct
import threading
import time

import pytest
import requests

from tests.support.pace import patience
from tests.support.provider import ScriptedProvider, refusing_port

pytestmark = [pytest.mark.embedded, pytest.mark.long]

CHAT = {"model": "small", "messages": [{"role": "user", "content": "Capital of Portugal?"}]}


@pytest.fixture
def provider():
    with ScriptedProvider() as provider:
        yield provider


@pytest.fixture
def session():
    with requests.Session() as session:
        session.trust_env = False
        yield session


@pytest.fixture
def chat(provider, session):
    def post(body=CHAT, path="/chat/completions", **options):
        return session.post(provider.url + path, json=body, **{"timeout": 5, **options})

    return post


def post_once(url, timeout):
    """One request on a connection of its own, whatever proxies the environment names."""
    with requests.Session() as session:
        session.trust_env = False
        return session.post(url, json=CHAT, timeout=timeout)


def events_of(response):
    return [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]


def test_it_echoes_the_last_user_message(chat):
    answer = chat().json()
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "Capital of Portugal?"}
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6}


def test_it_remembers_what_it_saw(provider, chat):
    chat(headers={"X-Twice": "yes"})
    (observations,) = provider.wait_for(1)
    assert (observations.method, observations.path, observations.json) == ("POST", "/v1/chat/completions", CHAT)
    assert observations.headers["x-twice"] == "yes"
    assert ("X-Twice", "yes") in observations.raw_headers
    assert observations.closed_after is None


def test_a_body_in_chunks_is_read(provider, chat):
    data = iter([b'{"model":', b'"small"}'])
    assert chat(None, data=data).status_code == 200
    assert provider.seen[0].json == {"model": "small"}


def test_connections_are_kept_alive(provider, chat):
    for _ in range(3):
        chat()
    chat(CHAT | {"stream": True})
    assert provider.connections == 1


def test_answers_come_in_the_order_of_the_queue_then_the_default(provider, chat):
    provider.answers(text="Lisbon").answers(status=529, headers={"Retry-After": "7"}).answers(body={"a": 1})
    assert chat().json()["choices"][0]["message"]["content"] == "Lisbon"
    overloaded = chat()
    assert (overloaded.status_code, overloaded.headers["Retry-After"]) == (529, "7")
    assert overloaded.json()["error"]["type"] == "server_error"
    assert chat().json() == {"a": 1}
    assert chat().json()["choices"][0]["finish_reason"] == "stop"


def test_a_stream_says_the_text_word_by_word(chat):
    events = events_of(chat(CHAT | {"stream": True, "stream_options": {"include_usage": True}}))
    assert events.pop() == "[DONE]"
    *chunks, last, usage = map(json.loads, events)
    assert [c["choices"][0]["delta"]["content"] for c in chunks] == ["Capital", " of", " Portugal?"]
    assert last["choices"][0]["finish_reason"] == "stop"
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] == 6


def test_a_stream_without_include_usage_has_none(chat):
    assert "usage" not in chat(CHAT | {"stream": True}).text


def test_a_stream_can_lack_its_terminal_mark(provider, chat):
    provider.answers(no_terminal=True)
    assert "[DONE]" not in chat(CHAT | {"stream": True}).text


def test_scripted_chunks_are_sent_exactly(provider, chat):
    provider.answers(stream=[b"da", b"ta: \xff\n\n", ": comment\n\n", {"error": {}}])
    response = chat(CHAT | {"stream": True})
    assert response.content == b'data: \xff\n\n: comment\n\ndata: {"error": {}}\n\n'


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_every_framing_carries_the_same_body(provider, chat, framing):
    provider.answers(body=b"hello", framing=framing)
    assert chat().content == b"hello"


def test_completions_and_embeddings_have_their_own_shapes(chat):
    assert chat({"prompt": "a b"}, "/completions").json()["choices"][0]["text"] == "a b"
    data = chat({"input": ["a", "bb"]}, "/embeddings").json()["data"]
    assert [item["embedding"] for item in data] == [[0.5, -0.25, 1], [0.5, -0.25, 2]]
    (item,) = chat({"input": "a", "encoding_format": "base64"}, "/embeddings").json()["data"]
    assert struct.unpack("<3f", base64.b64decode(item["embedding"])) == (0.5, -0.25, 1)


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_cut_breaks_the_body_off(provider, chat, framing):
    provider.answers(body=b"0123456789", cut_after=4, framing=framing)
    response = chat(stream=True)
    assert response.raw.read1(4) == b"0123"
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        for _ in response.iter_content(1):
            pass


def test_a_reset_is_told_apart_from_an_end(provider, chat):
    provider.answers(body=b"0123456789", cut_after=4, reset=True)
    with pytest.raises(requests.RequestException, match="[Rr]eset"):
        chat()


def test_raw_bytes_are_sent_as_they_are(provider, chat):
    provider.answers(raw=b"SSH-2.0-OpenSSH\r\n").answers(raw=b"HTTP/1.1 299 Odd\r\nContent-Length: 2\r\n\r\nok")
    with pytest.raises(requests.ConnectionError):
        chat()
    assert chat().status_code == 299


def test_silence_lasts_until_the_client_leaves(provider, chat):
    provider.answers(silent=True)
    with pytest.raises(requests.ReadTimeout):
        chat(timeout=0.3)
    assert 0.2 < provider.seen[0].wait_closed() < patience(1.5)
    provider.wait_idle()


def test_a_client_that_leaves_between_chunks_is_noticed(provider, chat):
    provider.answers(stream=[{"n": 1}, {"n": 2}, {"n": 3}], silent_after=2)
    response = chat(stream=True)
    lines = response.iter_lines()
    assert [next(lines), next(lines), next(lines)] == [b'data: {"n": 1}', b"", b'data: {"n": 2}']
    assert not provider.seen[0].finished.wait(0.2)
    response.close()
    assert provider.seen[0].wait_closed() < patience(1.5)


def test_a_client_that_leaves_during_the_delay_is_noticed(provider, chat):
    provider.answers(delay=30)
    with pytest.raises(requests.ReadTimeout):
        chat(timeout=0.1)
    assert provider.seen[0].wait_closed() < patience(1)


def test_silence_ends_at_its_limit(provider, chat):
    provider.answers(silent=True, silent_limit=0.1)
    with pytest.raises(requests.ConnectionError):
        chat()
    assert provider.seen[0].closed_after is None


def test_delay_pace_and_drip_take_their_time(provider, chat):
    provider.answers(delay=0.2).answers(stream=["a", "b", "c"], pace=0.1).answers(body=b"abc", drip=0.1)
    for shortest in (0.2, 0.3, 0.2):
        started = time.monotonic()
        chat()
        assert shortest <= time.monotonic() - started < shortest + patience(0.5)


def test_an_oversized_body_has_exactly_so_many_bytes(provider, chat):
    provider.answers(oversize=3_000_000)
    response = chat()
    assert len(response.content) == 3_000_000
    assert set(response.json()) == {"filler"}


@pytest.mark.parametrize("closing", [True, "unannounced"])
def test_a_connection_can_be_closed_after_an_answer(provider, chat, closing):
    provider.answers(close_connection=closing)
    announced = chat().headers.get("Connection")
    assert announced == ("close" if closing is True else None)
    while provider._open:
        time.sleep(0.01)
    assert chat().status_code == 200
    assert provider.connections == 2


def test_nothing_listens_on_a_refusing_port(session):
    with pytest.raises(requests.ConnectionError, match="[Rr]efused"):
        session.post(f"http://127.0.0.1:{refusing_port()}/v1", timeout=2)


def test_stopping_ends_a_silent_answer_at_once():
    provider = ScriptedProvider().start()
    provider.answers(silent=True)
    failures = []

    def ask():
        try:
            post_once(provider.url, timeout=10)
        except requests.ConnectionError as failure:
            failures.append(failure)

    client = threading.Thread(target=ask)
    client.start()
    provider.wait_for(1)
    started = time.monotonic()
    provider.stop()
    client.join(timeout=30)
    assert failures
    assert time.monotonic() - started < patience(2)
    assert provider.seen[0].closed_after is None


@pytest.mark.slow
def test_a_thousand_connections_at_once(provider):
    provider.default.delay = 10  # a busy machine takes seconds to start them all
    codes = []

    def ask():
        codes.append(post_once(provider.url, timeout=60).status_code)

    clients = [threading.Thread(target=ask) for _ in range(1000)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert codes == [200] * 1000
    assert provider.peak_in_flight > 500
    provider.wait_idle()
