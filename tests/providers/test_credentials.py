"""Encryption of provider credentials."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_project.key_file import KeyFile
from providers.credentials import CredentialUnreadable, KeyMissing, decrypt, encrypt, origin_of
from tests.support.promises import promise

pytestmark = pytest.mark.either_store

KEYS = ["first key, of more than thirty-two characters", "an older key of more than thirty-two characters"]
HERE = "https://api.example.org:443"


@given(st.text())
def test_what_was_sealed_opens_again(text):
    assert decrypt(encrypt(text, origin=HERE, keys=KEYS), origin=HERE, keys=KEYS) == text


def test_a_token_has_the_documented_form_and_never_twice_the_same():
    one, other = (encrypt("sk-1", origin=HERE, keys=KEYS) for _ in range(2))
    version, key_id, sealed = one.split(".")
    assert (version, len(key_id)) == ("v1", 8)
    assert len(base64.urlsafe_b64decode(sealed)) == 12 + len("sk-1") + 16
    assert one != other


def test_the_first_key_seals_and_every_key_opens():
    old = encrypt("sk-1", origin=HERE, keys=KEYS[1:])
    assert decrypt(old, origin=HERE, keys=KEYS) == "sk-1"
    new = encrypt("sk-1", origin=HERE, keys=KEYS)
    assert decrypt(new, origin=HERE, keys=KEYS[:1]) == "sk-1"
    with pytest.raises(CredentialUnreadable):
        decrypt(new, origin=HERE, keys=KEYS[1:])


def test_a_file_of_keys_that_cannot_be_read_is_a_key_that_is_missing(tmp_path):
    sealed = encrypt("sk-1", origin=HERE, keys=KEYS)
    with pytest.raises(KeyMissing, match="encryption keys cannot be read: .*No such file"):
        decrypt(sealed, origin=HERE, keys=KeyFile(tmp_path / "encryption_key"))


@promise("V-L26: a ciphertext opens in its own row alone", target="unreadable elsewhere", suite="attack")
def test_it_opens_for_no_other_origin():
    token = encrypt("sk-1", origin=HERE, keys=KEYS)
    for origin in ("http://api.example.org:443", "https://api.example.org:8443", "https://evil.example:443"):
        with pytest.raises(CredentialUnreadable):
            decrypt(token, origin=origin, keys=KEYS)


@promise("V-L26: an altered ciphertext opens nothing", target="unreadable", suite="attack")
def test_an_altered_token_opens_nothing():
    token = encrypt("sk-12345", origin=HERE, keys=KEYS)  # 36 bytes: no spare bits in its base64
    start = token.rindex(".") + 1
    for place in range(start, len(token)):
        other = "A" if token[place] != "A" else "B"
        with pytest.raises(CredentialUnreadable):
            decrypt(token[:place] + other + token[place + 1 :], origin=HERE, keys=KEYS)


@pytest.mark.parametrize("token", ["", "sk-1", "v1", "v1.", "v2.{id}.{sealed}", "v1.{id}.", "v1.{id}.*", "v1.{id}.é"])
def test_what_is_no_token_opens_nothing(token):
    _, key_id, sealed = encrypt("sk-1", origin=HERE, keys=KEYS).split(".")
    with pytest.raises(CredentialUnreadable):
        decrypt(token.format(id=key_id, sealed=sealed), origin=HERE, keys=KEYS)


def test_nothing_is_sealed_without_a_key():
    with pytest.raises(ValueError, match="no encryption key"):
        encrypt("sk-1", origin=HERE, keys=[])


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://api.example.org/v1", "https://api.example.org:443"),
        ("HTTPS://API.Example.ORG", "https://api.example.org:443"),
        ("http://localhost", "http://localhost:80"),
        ("http://localhost:11434/api?x=1", "http://localhost:11434"),
        ("https://[2001:DB8::1]/v1", "https://[2001:db8::1]:443"),
        ("https://[::1]:8443", "https://[::1]:8443"),
    ],
)
def test_an_origin_is_scheme_host_and_port(url, origin):
    assert origin_of(url) == origin


@pytest.mark.parametrize("url", ["", "api.example.org", "https://", "ftp://host", "https://host:x", "https://[::1"])
def test_a_url_without_an_origin_is_refused(url):
    with pytest.raises(ValueError, match="."):
        origin_of(url)
