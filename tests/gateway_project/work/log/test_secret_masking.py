"""What looks like a credential is masked, wherever it stands; what does not is kept."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_project.work.log.secret_masking import (
    LOOK_AHEAD_BYTES,
    mask_secrets,
    mask_secrets_in_each,
    mask_secrets_in_message,
)
from keys.secrets import generate

BY_FORM = {
    "svc_": generate().text,
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
    kept = mask_secrets(raw, 1000)[:1000]
    assert secret[4:12].encode() not in kept


def test_what_is_far_beyond_the_kept_part_is_not_looked_at():
    assert len(mask_secrets(b"x" * 10_000_000, 100)) == 100 + LOOK_AHEAD_BYTES


@pytest.mark.parametrize("prefix", BY_FORM)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_of_several_texts_each_is_masked_as_it_is_alone(prefix, place):
    secret, texts = BY_FORM[prefix], [b"nothing", b"", b"to hide"]
    texts[place] = secret.encode()
    assert mask_secrets_in_each(texts, 1000) == [mask_secrets(text, 1000) for text in texts]
    assert secret.encode() not in mask_secrets_in_each(texts, 1000)[place]


def test_a_credential_is_not_seen_across_two_texts():
    texts = [b'{"password": ', b'"hunter2"}']
    assert mask_secrets_in_each(texts, 1000) == texts
