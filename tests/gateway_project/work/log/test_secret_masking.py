"""What looks like a credential is masked, wherever it stands; what does not is kept."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_project.work.log.secret_masking import (
    LOOK_AHEAD_BYTES,
    has_secrets,
    mask_secrets,
    mask_secrets_in_message,
)
from keys.secrets import generate_key

pytestmark = pytest.mark.embedded

BY_FORM = {
    "svc_": generate_key().text,
    "sk-": "sk-abcdefghijklmnopqrst",
    "sk-ant-": "sk-ant-api03-Zm9vYmFyYmF6cXV4",
    "AKIA": "AKIAIOSFODNN7EXAMPLE",
    "AIza": "AIzaSyA-1234567890abcdefghijklmnopqrstu",
    "ghp_": "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "github_pat_": "github_pat_11ABCDEFG0abcdefghijkl",
    "xoxb-": "xoxb-123456789012-abcdefghijkl",
    "eyJ": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "Bearer": "Bearer abcdefghijklmnopqrstuvwxyz",
    "-----BEGIN PRIVATE KEY-----": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg==\n-----END PRIVATE KEY-----",
}
NAMES = ["api_key", "apiKey", "x-api-key", "authorization", "Password", "client_secret", "access_token", "token"]


@pytest.mark.parametrize("prefix", BY_FORM)
@pytest.mark.parametrize("text", ["{}", "Here: {}", "{} is it", "({})"])
def test_a_credential_is_known_by_its_form(prefix, text):
    secret = BY_FORM[prefix]
    document = json.dumps({"messages": [{"role": "user", "content": text.format(secret)}]}).encode()
    masked = mask_secrets(document, len(document))
    assert secret.removeprefix(prefix).strip().encode() not in masked
    assert json.loads(masked)["messages"][0]["content"].startswith(text.partition("{")[0] + prefix)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", ["hunter2", 'with "quotes" and \\ and ünïcode', "x" * 5000])
def test_the_value_of_a_member_is_known_by_its_name(name, value):
    inner = {"deep": [{name: value, "kept": 1}]}
    document = {**inner, "arguments": json.dumps(inner, ensure_ascii=False)}
    for indent in (None, 2):
        raw = json.dumps(document, indent=indent, ensure_ascii=False).encode()
        masked = json.loads(mask_secrets(raw, len(raw)))
        assert masked["deep"] == [{name: "***", "kept": 1}]
        assert value not in masked["arguments"]


@pytest.mark.parametrize(
    "text",
    [
        '{"max_tokens": 100, "prompt_tokens": 5, "token_count": "5", "token": 7}',
        '{"content": "a risk-based, task-oriented approach to sk-learn"}',
        '{"content": "the password is a secret, and the token too"}',
        "Bearer of good news",
    ],
)
def test_what_is_no_credential_is_kept(text):
    assert mask_secrets(text.encode(), 1000) == text.encode()
    assert mask_secrets_in_message(text) == text


@given(st.integers(0, 60))
def test_a_credential_that_the_end_of_the_kept_part_cuts_in_two_is_masked(inside):
    secret = BY_FORM["svc_"]
    raw = b"x" * (1000 - inside) + b" " + secret.encode() + b" " + b"y" * LOOK_AHEAD_BYTES * 2
    rest = mask_secrets(raw, 1000)[:1000]
    assert secret[4:12].encode() not in rest


@pytest.mark.parametrize("prefix", BY_FORM)
@pytest.mark.parametrize("before", ["\n", "\t", "\0", "key:\r\n", "é\n"])
def test_a_credential_after_a_control_character_is_masked(prefix, before):
    secret = BY_FORM[prefix]
    for document in ({"content": before + secret}, {"arguments": json.dumps({"content": before + secret})}):
        raw = json.dumps(document).encode()
        masked = mask_secrets(raw, len(raw))
        assert secret.removeprefix(prefix).strip().split("\n")[0].encode() not in masked
        assert prefix in str(json.loads(masked))


def escaped(text: str) -> str:
    return "".join(f"\\u{ord(letter):04X}" for letter in text)


@pytest.mark.parametrize("prefix", BY_FORM)
def test_a_credential_in_escapes_is_masked(prefix):
    secret = BY_FORM[prefix].partition("\n")[0]
    for length in (1, 5, len(secret)):
        raw = f'{{"content": "It is {escaped(secret[:length])}{secret[length:]}!", "é": "\\u00e9"}}'.encode()
        if prefix.startswith("-----"):
            raw = raw.replace(b"!", b"\\nMIIEvQIBADANBg==")
        masked = mask_secrets(raw, len(raw))
        assert json.loads(masked)["content"].startswith(f"It is {prefix}")
        assert "***" in json.loads(masked)["content"]


def test_a_member_with_an_escaped_name_is_known():
    raw = b'{"p\\u0061ssword": "hunter2", "arguments": "{\\"\\\\u0061pi_key\\": \\"hunter2\\"}"}'
    assert b"hunter2" not in mask_secrets(raw, len(raw))


@given(st.text(st.sampled_from('\\u0041"fz'), max_size=30))
def test_escapes_that_hide_nothing_are_kept_as_they_are(text):
    raw = json.dumps({"content": text}).encode()
    assert mask_secrets(raw, len(raw)) == raw


PIECES = {
    "OpenAI": lambda text, at: {"choices": [{"index": at, "delta": {"content": text}}]},
    "OpenAI's calls": lambda text, at: {
        "choices": [{"index": 0, "delta": {"tool_calls": [{"index": at, "function": {"arguments": text}}]}}]
    },
    "OpenAI's Responses": lambda text, at: {"type": "response.output_text.delta", "output_index": at, "delta": text},
    "Anthropic": lambda text, at: {"index": at, "delta": {"type": "text_delta", "text": text}},
    "Anthropic's calls": lambda text, at: {"index": at, "delta": {"type": "input_json_delta", "partial_json": text}},
    "Gemini": lambda text, at: {"candidates": [{"content": {"parts": [{"text": text}]}, "index": at}]},
}


def stream(*pieces: bytes) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(piece).encode() for piece in pieces)


@pytest.mark.parametrize("kind", PIECES)
@pytest.mark.parametrize("prefix", BY_FORM)
@pytest.mark.parametrize("size", [1, 3, 11])
def test_a_credential_that_is_split_over_the_events_of_a_stream_is_masked(kind, prefix, size):
    text, piece = f"It is {BY_FORM[prefix]}", PIECES[kind]
    parts = [text[start : start + size] for start in range(0, len(text), size)]
    raw = stream(*(piece(part, 0) for part in parts))
    masked = mask_secrets(raw, len(raw), is_stream=True)
    assert masked.count(b"***") == 1
    assert len(masked) < len(raw)
    lines = zip(raw.split(b"\n\n"), masked.split(b"\n\n"), strict=True)
    changed = [(json.loads(old[6:]), json.loads(new[6:])) for old, new in lines if old != new]
    assert len(changed) >= (len(BY_FORM[prefix]) - len(prefix)) // size - 1


@pytest.mark.parametrize("kind", PIECES)
def test_pieces_that_take_turns_are_put_together_by_their_index(kind):
    secret, piece = BY_FORM["sk-ant-"], PIECES[kind]
    raw = stream(*(piece(letter, at) for letter in f"It is {secret}!" for at in (0, 1)))
    masked = mask_secrets(raw, len(raw), is_stream=True)
    assert masked.count(b"***") == 2


def test_a_member_whose_value_comes_in_pieces_is_known_by_its_name():
    arguments = json.dumps({"user": "ann", "api_key": "hunter2"})
    raw = stream(*(PIECES["OpenAI's calls"](letter, 0) for letter in arguments))
    masked = mask_secrets(raw, len(raw), is_stream=True)
    calls = [json.loads(line[6:])["choices"][0]["delta"]["tool_calls"][0] for line in masked.split(b"\n\n") if line]
    assert json.loads("".join(call["function"]["arguments"] for call in calls)) == {"user": "ann", "api_key": "***"}


@given(
    st.lists(
        st.sampled_from(["a", " ", "sk", "-", "key", '"', "\\", "\n", "é", "pass", "word", ":", "***"]), max_size=40
    )
)
def test_a_stream_without_credentials_is_kept_as_it_is(words):
    raw = stream(*(PIECES["OpenAI"](word, len(word) % 2) for word in words))
    assert mask_secrets(raw, len(raw), is_stream=True) == raw


def test_what_is_far_beyond_the_kept_part_is_not_looked_at():
    assert len(mask_secrets(b"x" * 10_000_000, 100)) == 100 + LOOK_AHEAD_BYTES


@pytest.mark.parametrize("prefix", BY_FORM)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_credential_in_one_of_several_texts_is_noticed_in_all_of_them_together(prefix, place):
    secret, texts = BY_FORM[prefix], [b"nothing", b"", b"to mask"]
    assert not has_secrets(b"\n".join(texts))
    texts[place] = secret.encode()
    assert has_secrets(b"\n".join(texts))


def test_a_credential_in_escapes_is_noticed():
    escaped = b'"' + b"".join(b"\\u%04x" % letter for letter in BY_FORM["sk-"].encode()) + b'"'
    assert has_secrets(b"nothing\n" + escaped)
    assert mask_secrets(escaped, 1000) == b'"sk-***"'
