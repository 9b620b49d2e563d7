"""Which keys of a key set count."""

import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from accounts.trusted_issuers.jwks import (
    ALGORITHMS,
    MAX_KEYS,
    BadKeySet,
    has_private_members,
    public_keys,
    read_key_set,
)
from tests.support.issuers import Issuer, rsa_key

pytestmark = pytest.mark.embedded


def jwk(key=None, **changes):
    """The public part of a key, P-256 unless told; members that are None are left out."""
    public = (key or ec.generate_private_key(ec.SECP256R1())).public_key()
    kinds = {"RSAPublicKey": RSAAlgorithm, "ECPublicKey": ECAlgorithm, "Ed25519PublicKey": OKPAlgorithm}
    document = json.loads(kinds[type(public).__name__].to_jwk(public)) | {"kid": "k"} | changes
    return {name: value for name, value in document.items() if value is not None}


def problem(*rows):
    keys, problems = read_key_set({"keys": list(rows)})
    assert keys == ()
    return problems[0]


def algorithms(row):
    (key,) = public_keys(read_key_set({"keys": [row]}).keys, ALGORITHMS).values()
    return key.algorithms


def test_a_key_verifies_the_algorithms_of_its_type_and_curve():
    assert algorithms(jwk()) == {"ES256"}
    assert algorithms(jwk(ec.generate_private_key(ec.SECP384R1()))) == {"ES384"}
    assert algorithms(jwk(ed25519.Ed25519PrivateKey.generate())) == {"EdDSA"}
    assert algorithms(jwk(rsa_key(), key_ops=None)) == {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
    assert algorithms(jwk(rsa_key(), alg="PS256")) == {"PS256"}


def test_an_algorithm_that_the_issuer_may_not_use_makes_a_key_useless():
    assert public_keys(read_key_set(Issuer().jwks).keys, ["RS256"]) == {}


def test_keys_for_encryption_are_no_problem():
    keys, problems = read_key_set({"keys": [jwk(use="enc"), jwk(kid="other")]})
    assert ([key["kid"] for key in keys], problems) == (["other"], ())


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"kty": "oct", "kid": "k", "k": "c2VjcmV0"}, "symmetric"),
        (jwk(kid=None), "no kid"),
        (jwk(kid=""), "no kid"),
        (jwk(kid="x" * 501), "no kid"),
        (jwk(kid="a\0b"), "cannot be read"),
        (jwk(kid=5), "cannot be read"),
        (jwk(alg="RS256"), "fits none of"),
        (jwk(crv="P-512"), "fits none of"),
        (jwk(ec.generate_private_key(ec.SECP256K1())), "fits none of"),
        (jwk(rsa_key(), alg="RSA-OAEP"), "fits none of"),
        (jwk(rsa_key("short", 1024)), "1024 bits"),
        (jwk(x="AAAA"), "cannot be read"),
        (jwk(x=5), "cannot be read"),
        (jwk(y=None), "cannot be read"),
        (jwk(rsa_key(), n=""), "cannot be read"),
        ({"kty": "RSA", "kid": "k"}, "cannot be read"),
        ({}, "no kid"),
    ],
)
def test_what_is_wrong_with_a_key_is_said(row, words):
    assert words in problem(row)


def test_two_keys_with_one_id_do_not_count_and_a_repeated_one_does():
    assert "the same kid as another key" in problem(jwk(), jwk())
    row = jwk()
    assert read_key_set({"keys": [row, {**row, "x5t": "another thumbprint"}]}).problems == ()


@pytest.mark.parametrize(
    "document", [None, [], {}, {"keys": {}}, {"keys": [1]}, {"keys": [{}] * (MAX_KEYS + 1)}, "keys", {"keys": None}]
)
def test_what_is_no_key_set_is_refused(document):
    with pytest.raises(BadKeySet):
        read_key_set(document)


def test_only_public_members_are_kept():
    private = json.loads(ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()))) | {"kid": "k", "x5c": ["MIIB"]}
    assert has_private_members({"keys": [private]})
    (row,) = read_key_set({"keys": [private]}).keys
    assert row.keys() == {"kid", "kty", "crv", "x", "y"}
