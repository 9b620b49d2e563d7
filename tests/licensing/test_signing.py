"""Licence keys: what the vendor signed is read back, and nothing else is read at all."""

import base64
import hashlib
import hmac
import json
from dataclasses import replace
from datetime import date

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from licensing.signing import (
    MAX_LENGTH,
    MAX_LIFETIME_SECONDS,
    MAX_TEXT_LENGTH,
    MAX_USES,
    Claims,
    KeyRefused,
    new_key_pair,
    read_public_key,
    sign_licence,
    verify_licence,
)
from tests.support.promises import promise
from tests.support.thoroughness import number_of

pytestmark = pytest.mark.either_store

PRIVATE, PUBLIC = new_key_pair()
CLAIMS = Claims("enterprise", "Exämple Ltd", date(2030, 12, 31), 100, 60, id="l-1", issued=date(2026, 1, 2))
GOOD = sign_licence(CLAIMS, PRIVATE)
HEADER = {"alg": "EdDSA", "typ": "JWT"}
TOLD = {
    "type": "enterprise",
    "licensee": "Example Ltd",
    "expiry": "2030-12-31",
    "maxActiveUses": 100,
    "activeUseLifeTime": 60,
}


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(header: object = None, payload: object = None, *, key: str = PRIVATE) -> str:
    """A key that the holder of the private key made without our help; bytes go in as they are."""
    parts = (HEADER if header is None else header, TOLD if payload is None else payload)
    text = ".".join(encoded(part if isinstance(part, bytes) else json.dumps(part).encode()) for part in parts)
    raw = base64.urlsafe_b64decode(key + "=")
    return f"{text}.{encoded(Ed25519PrivateKey.from_private_bytes(raw).sign(text.encode()))}"


def refused(text: str, *words: str, public_key: str = PUBLIC) -> None:
    with pytest.raises(KeyRefused) as error:
        verify_licence(text, public_key)
    for word in words:
        assert word in str(error.value)


def test_what_was_signed_is_read_back():
    assert verify_licence(GOOD, PUBLIC) == CLAIMS


@pytest.mark.parametrize(
    "changes",
    [
        {"id": ""},
        {"issued": None},
        {"max_active_uses": 0, "active_use_life_time": 1},
        {"max_active_uses": MAX_USES, "active_use_life_time": MAX_LIFETIME_SECONDS},
        {"licensee": "x" * MAX_TEXT_LENGTH},
    ],
)
def test_so_is_whatever_may_be_left_out_and_the_least_and_most_of_it(changes):
    claims = replace(CLAIMS, **changes)
    assert verify_licence(sign_licence(claims, PRIVATE), PUBLIC) == claims


def test_any_signer_of_jws_makes_keys_that_are_read():
    claims = verify_licence(signed({"alg": "EdDSA"}), PUBLIC)
    assert (claims.licensee, claims.expiry, claims.id, claims.issued) == ("Example Ltd", date(2030, 12, 31), "", None)
    assert verify_licence(signed(payload=TOLD | {"edition": "later"}), PUBLIC) == claims


@promise("S15: no licence is forged", target="refused, the old one stays", suite="attack")
def test_a_key_of_another_vendor_is_refused():
    refused(sign_licence(CLAIMS, new_key_pair()[0]), "signature")
    refused(GOOD, "signature", public_key=new_key_pair()[1])


@pytest.mark.parametrize("place", range(0, len(GOOD), 7))
@promise("S15: no licence is forged", target="refused, the old one stays", suite="attack")
def test_a_key_that_was_altered_anywhere_is_refused(place):
    letter = "B" if GOOD[place] == "A" else "A"
    refused(GOOD[:place] + letter + GOOD[place + 1 :])


def forged_with_hmac() -> str:
    """The classic: the public key taken for a shared secret."""
    text = f"{encoded(json.dumps({'alg': 'HS256', 'typ': 'JWT'}).encode())}.{encoded(json.dumps(TOLD).encode())}"
    return f"{text}.{encoded(hmac.new(PUBLIC.encode(), text.encode(), hashlib.sha256).digest())}"


@promise("S15: no licence is forged", target="refused, the old one stays", suite="attack")
def test_the_key_does_not_choose_how_it_is_checked():
    refused(forged_with_hmac())
    text = ".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "none"}, TOLD))
    for signature in ("", ".", ".AA"):
        refused(text + signature)


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"alg": "none"},
        {"alg": "HS256"},
        {"alg": "eddsa"},
        {"alg": ["EdDSA"]},
        {"alg": "EdDSA", "crit": ["exp"], "exp": 1},
        {"alg": "EdDSA", "jwk": {"kty": "OKP"}},
        {"alg": "EdDSA", "kid": "../../key"},
        {"alg": "EdDSA", "b64": False},
        b'{"alg":"EdDSA","alg":"none"}',
        b"[]",
        b"\xff",
    ],
)
@promise("S15: no licence is forged", target="refused, the old one stays", suite="attack")
def test_a_header_that_says_anything_else_is_refused_even_where_the_vendor_signed_it(header):
    refused(signed(header))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("type", ""),
        ("type", "  "),
        ("type", 5),
        ("type", "a\nb"),
        ("type", "x" * 201),
        ("licensee", None),
        ("licensee", ["Example"]),
        ("expiry", "2030-02-30"),
        ("expiry", "20301231"),
        ("expiry", "2030-12-31T00:00:00Z"),
        ("expiry", 1924905600),
        ("maxActiveUses", -1),
        ("maxActiveUses", "100"),
        ("maxActiveUses", True),
        ("maxActiveUses", 1.5),
        ("maxActiveUses", 10**10),
        ("activeUseLifeTime", 0),
        ("activeUseLifeTime", None),
        ("id", 7),
        ("issued", "yesterday"),
    ],
)
def test_a_claim_of_the_wrong_form_is_refused_and_named(name, value):
    refused(signed(payload=TOLD | {name: value}), name)


@pytest.mark.parametrize("name", TOLD)
def test_a_claim_that_is_missing_is_named(name):
    refused(signed(payload={key: value for key, value in TOLD.items() if key != name}), name)


def test_what_could_not_be_read_back_is_not_signed():
    with pytest.raises(KeyRefused, match="activeUseLifeTime"):
        sign_licence(Claims("t", "l", date(2030, 1, 1), 1, 0), PRIVATE)


@pytest.mark.parametrize("payload", [b"", b"[]", b"null", b'{"type":"a","type":"b"}', b"{" * 3000, b"\xff\xfe", b"{}x"])
def test_a_payload_that_is_no_object_is_refused(payload):
    refused(signed(payload=payload))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a.b",
        "a.b.c.d",
        f"{GOOD}\n",
        f" {GOOD}",
        f"{GOOD}=",
        GOOD.replace(".", "..", 1),
        GOOD.replace("-", "+").replace("_", "/") + "+",
        "é.é.é",
        "A" * (MAX_LENGTH + 1),
        "A." * 5000,
    ],
)
@promise("S15: no licence is forged", target="refused, the old one stays", suite="attack")
def test_what_is_no_compact_jws_is_refused(text):
    refused(text)


@promise("S15: no licence is forged", target="refused, the old one stays", suite="attack")
def test_a_signature_is_written_in_one_way_only():
    last = GOOD[-1]
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    neighbours = [letters[(letters.index(last) & ~15) + step] for step in range(16)]
    for letter in set(neighbours) - {last}:
        refused(GOOD[:-1] + letter)


@pytest.mark.parametrize("text", ["", "short", "A" * 43 + "=", "A" * 86, "é" * 43, "A" * 44])
def test_a_public_key_that_is_none_verifies_nothing(text):
    with pytest.raises(KeyRefused):
        read_public_key(text)
    refused(GOOD, public_key=text)


def test_a_private_key_that_is_none_signs_nothing():
    with pytest.raises(KeyRefused, match="private key"):
        sign_licence(CLAIMS, "nonsense")


@settings(max_examples=number_of(300), deadline=None)
@given(st.one_of(st.text(max_size=300), st.binary(max_size=300).map(encoded).map(lambda part: f"{part}.{part}.{part}")))
@promise("S15: no licence is forged", target="refused, the old one stays", suite="attack")
def test_nothing_that_is_not_signed_is_anything_but_refused(text):
    refused(text)


ANYTHING = st.one_of(st.none(), st.text(), st.integers(), st.booleans(), st.lists(st.integers()), st.floats(0, 9))


@settings(max_examples=number_of(200), deadline=None)
@given(st.dictionaries(st.sampled_from([*TOLD, "id", "issued", "x"]), ANYTHING))
def test_whatever_the_vendor_signed_is_read_or_refused(payload):
    try:
        assert isinstance(verify_licence(signed(payload=TOLD | payload), PUBLIC), Claims)
    except KeyRefused:
        pass
