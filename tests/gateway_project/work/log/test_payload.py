"""What an entry keeps of request and answer: each is masked as it would be alone, and before it is cut."""

import pytest

from gateway_project.work.log.payload import masked_parts
from gateway_project.work.log.secret_masking import LOOK_AHEAD_BYTES, mask_secrets
from tests.support.snapshot_records import provider

MAX_BYTES = 100
END = MAX_BYTES + LOOK_AHEAD_BYTES
CREDENTIAL = "an-own-credential-0123456789"
PROVIDER = provider(1, credential=CREDENTIAL)


def alone(body):
    return mask_secrets(PROVIDER.redact_body(body, END), MAX_BYTES)[:MAX_BYTES]


def kept(request, answer, provider=PROVIDER):
    first, second = masked_parts(request, answer, MAX_BYTES, provider, is_stream=False)
    return first[:MAX_BYTES], second[:MAX_BYTES]


@pytest.mark.parametrize("secret", [CREDENTIAL.encode(), b"sk-abcdefghijklmnopqrst", b"s\\u006b-abcdefghijklmnopqrst"])
@pytest.mark.parametrize("position", [0, 50, MAX_BYTES - 5, MAX_BYTES, END - 30, END - 5, END])
def test_each_is_masked_as_it_is_alone(secret, position):
    body, other = b" " * position + secret + b" " * 50, b'{"text": "hello"}'
    assert kept(body, other) == (alone(body), other)
    assert kept(other, body) == (other, alone(body))
    assert secret[:12] not in alone(body)


def test_a_credential_that_only_both_together_have_is_none():
    for request, answer in ((b'{"password": ', b'"hunter2"}'), (b"sk-abcdefgh", b"ijklmnopqrst")):
        assert kept(request, answer) == (request, answer)


def test_a_credential_that_ends_where_the_kept_part_ends_is_masked():
    body = b" " * (MAX_BYTES - 20) + b"AKIAIOSFODNN7EXAMPLE"
    assert kept(body, b"") == (alone(body), b"") == (b" " * (MAX_BYTES - 20) + b"AKIA***", b"")


def test_a_request_without_a_provider_is_masked_too():
    assert kept(b"sk-abcdefghijklmnopqrst", b"", None) == (b"sk-***", b"")
    assert kept(CREDENTIAL.encode(), b"", None) == (CREDENTIAL.encode(), b"")


def test_a_stream_is_masked_over_its_events():
    events = b'data: {"content": "sk-abcdefgh"}\n\ndata: {"content": "ijklmnopqrst"}\n\n'
    _, masked = masked_parts(b"", events, MAX_BYTES, PROVIDER, is_stream=True)
    assert b"abcdefgh" not in masked
    assert b"ijklmnop" not in masked
