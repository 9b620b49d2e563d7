"""The text of an API key."""

import hashlib
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keys.secrets import BASE62, digests_match, generate_key, parse_key
from tests.support.promises import parses

pytestmark = pytest.mark.either_store


def base62(number: int, length: int) -> str:
    """The plain way to write a number, to hold the quick one against."""
    text = ""
    for _ in range(length):
        number, digit = divmod(number, 62)
        text = BASE62[digit] + text
    return text


def with_checksum(text: str) -> str:
    return text + base62(crc32(text.encode()), 6)


def test_a_new_key_has_the_documented_form():
    key = generate_key()
    assert len(key.text) == 64
    assert key.text.startswith(f"svc_{key.public_id}_")
    assert with_checksum(key.text[:-6]) == key.text
    assert set(key.text[4:14] + key.text[15:]) <= set(BASE62)


def test_parsing_gives_back_the_id_and_the_digest_of_the_secret_alone():
    key = generate_key()
    assert parse_key(key.text) == (key.public_id, key.digest)
    assert key.digest == hashlib.sha256(key.text[15:58].encode()).digest()


def test_no_two_keys_are_alike():
    keys = [generate_key() for _ in range(1000)]
    assert len({key.public_id for key in keys}) == len({key.digest for key in keys}) == 1000


def test_a_changed_character_anywhere_is_noticed():
    text = generate_key().text
    for place, character in enumerate(text):
        other = "a" if character != "a" else "b"
        assert parse_key(text[:place] + other + text[place + 1 :]) is None


GOOD = "svc_" + "0" * 10 + "_" + "0" * 43


def test_the_checksum_alone_makes_a_text_a_key():
    assert parse_key(with_checksum(GOOD)) is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "svc_",
        GOOD,
        with_checksum(GOOD) + "0",
        with_checksum(GOOD)[:-1],
        with_checksum(GOOD).upper(),
        " " + with_checksum(GOOD)[:-1],
        with_checksum(GOOD.replace("svc_", "srv_")),
        with_checksum("svc_" + "0" * 10 + "0" + "0" * 43),
        with_checksum("svc_" + "0" * 9 + "-" + "_" + "0" * 43),
        with_checksum("svc_" + "0" * 10 + "_" + "0" * 42 + "_"),
        with_checksum("svc_" + "0" * 10 + "_" + "0" * 42 + "é"),
        with_checksum("svc_" + "0" * 10 + "_" + "0" * 42 + "٣"),  # a digit to isalnum(), not to us
        with_checksum("svc_" + "0" * 10 + "_" + "0" * 42 + "\0"),
        None,
        7,
        with_checksum(GOOD).encode(),
        ["svc_"] * 64,
    ],
)
def test_what_is_malformed_is_nothing(text):
    assert parse_key(text) is None


@parses
@given(st.text(max_size=80))
def test_no_text_makes_it_raise(text):
    assert parse_key(text) is None
    assert parse_key(GOOD[:15] + text) is None


@given(st.integers(0, 2**32 - 1))
def test_the_checksum_is_plain_base62(number):
    from keys import secrets

    quick = secrets._PAIRS[number // 62**4] + secrets._PAIRS[number // 62**2 % 62**2]
    assert quick + secrets._PAIRS[number % 62**2] == base62(number, 6)


def test_digests_match_only_themselves():
    one, other = generate_key().digest, generate_key().digest
    assert digests_match(one, bytes(one))
    assert not digests_match(one, other)
    assert not digests_match(one, one[:-1])
