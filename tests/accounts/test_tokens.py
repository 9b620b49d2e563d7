"""An access token is good as it was issued, for a while; whatever is changed about it makes it nothing."""

import base64
import json
import time

import jwt
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from accounts.tokens import AUDIENCE, ISSUER, LEEWAY_SECONDS, AccessToken, issue_access, read_access
from tests.support.promises import promise

pytestmark = pytest.mark.either_store

SESSION = "0123456789abcdef" * 2


def claims(**changes):
    now = int(time.time())
    values = {"token_type": "access", "sub": "7", "sid": SESSION, "jti": "x", "iat": now, "exp": now + 900}
    values |= {"aud": AUDIENCE, "iss": ISSUER} | changes
    return {name: value for name, value in values.items() if value is not ...}


@pytest.fixture
def signed(settings):
    """Makes tokens with our own key: signed(sub="8") -> text."""

    def sign(key=None, algorithm="HS256", headers=None, **changes):
        return jwt.encode(claims(**changes), key or settings.GATEWAY_TOKEN_KEY, algorithm=algorithm, headers=headers)

    return sign


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_a_token_says_whose_it_is_and_of_which_session():
    assert read_access(issue_access(user_id=7, session=SESSION)) == AccessToken(7, SESSION)


def test_a_token_may_name_a_key():
    assert read_access(issue_access(user_id=7, session=SESSION, key="0123456789")).key == "0123456789"


def test_the_tokens_of_these_tests_would_be_good(signed):
    assert read_access(signed()) == AccessToken(7, SESSION)


def test_no_token_is_another(signed):
    assert issue_access(user_id=7, session=SESSION) != issue_access(user_id=7, session=SESSION)


def test_a_token_lives_as_long_as_the_setting_says(settings):
    settings.GATEWAY_ACCESS_TOKEN_SECONDS = 100
    payload = issue_access(user_id=7, session=SESSION).split(".")[1]
    body = json.loads(base64.urlsafe_b64decode(payload + "=="))
    assert body["exp"] - body["iat"] == 100
    assert body.keys() == {"token_type", "sub", "sid", "jti", "iat", "exp", "aud", "iss"}


@pytest.mark.parametrize(("since", "good"), [(LEEWAY_SECONDS // 2, True), (LEEWAY_SECONDS + 5, False), (10**6, False)])
def test_an_expired_token_is_nothing(signed, since, good):
    assert (read_access(signed(exp=int(time.time()) - since)) is not None) is good


@pytest.mark.parametrize(
    "changes",
    [
        {"token_type": "refresh"},
        {"token_type": ...},
        {"aud": "another-product"},
        {"aud": ...},
        {"iss": "another-product"},
        {"iss": ...},
        {"exp": ...},
        {"exp": "soon"},
        {"nbf": 10**11},
        {"sub": ...},
        {"sub": ""},
        {"sub": "-7"},
        {"sub": "7.0"},
        {"sub": "admin"},
        {"sub": "7 "},
        {"sid": ...},
        {"sid": 7},
        {"sid": SESSION.upper()},
        {"sid": SESSION[:-1]},
        {"sid": SESSION + "\n"},
        {"sid": f"{SESSION[:8]}-{SESSION[8:]}"},
        {"sid": [SESSION]},
    ],
)
def test_a_token_with_a_wrong_claim_is_nothing(signed, changes):
    assert read_access(signed(**changes)) is None


def test_a_number_that_no_user_can_have_is_nothing(signed):
    assert read_access(signed(sub="9" * 5000)) is None
    assert read_access(signed(sub="²")) is None


def test_another_key_signs_nothing(signed, settings):
    assert read_access(signed(key="another key that is long enough for HMAC")) is None
    assert read_access(signed(key=settings.SECRET_KEY)) is None


@pytest.mark.parametrize("algorithm", ["HS384", "HS512"])
@promise("S6: a token does not choose how it is checked", target="401", suite="attack")
def test_another_algorithm_is_nothing(signed, algorithm):
    assert read_access(signed(algorithm=algorithm)) is None


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", "", None, "RS256", "EdDSA"])
@promise("S6: a token does not choose how it is checked", target="401", suite="attack")
def test_a_token_without_our_signature_is_nothing(signed, algorithm):
    header, payload = part({"typ": "JWT", "alg": algorithm}), part(claims())
    signature = signed().rpartition(".")[2]
    for text in (f"{header}.{payload}.", f"{header}.{payload}", f"{header}.{payload}.{signature}"):
        assert read_access(text) is None


@promise("S6: a token does not choose how it is checked", target="401", suite="attack")
def test_nothing_in_a_header_makes_us_look_elsewhere_for_the_key(signed):
    for headers in ({"jku": "http://127.0.0.1:1/"}, {"kid": "../../dev/null"}, {"jwk": {"kty": "oct", "k": "AAAA"}}):
        assert read_access(signed(key="another key that is long enough for HMAC", headers=headers)) is None


@promise("S6: a token does not choose how it is checked", target="401", suite="attack")
def test_other_claims_under_an_old_signature_are_nothing(signed):
    header, _, signature = signed().split(".")
    assert read_access(f"{header}.{part(claims(sub='8'))}.{signature}") is None


@pytest.mark.parametrize(
    "text", ["", ".", "..", "a.b.c", "svc_abc", "Bearer x", "\0", "ä.ö.ü", "." * 1000, "a" * 100_000]
)
def test_what_is_no_token_is_nothing(text):
    assert read_access(text) is None


@pytest.mark.long
@given(st.data())
@hypothesis_settings(max_examples=150, deadline=None)
def test_a_token_with_one_character_changed_is_nothing(data):
    text = issue_access(user_id=7, session=SESSION)
    place = data.draw(st.integers(0, len(text) - 1))
    changed = text[:place] + data.draw(st.sampled_from("AZaz09-_.=\n ")) + text[place + 1 :]
    # The last character of base64 carries bits that mean nothing: the same bytes are the same token.
    if changed != text and place not in (len(text) - 1, text.rindex(".") - 1, text.index(".") - 1):
        assert read_access(changed) is None


@given(st.text(max_size=100))
@hypothesis_settings(max_examples=100, deadline=None)
@promise("A parser of arbitrary input ends well", target="a value or its own refusal", suite="attack")
def test_arbitrary_text_is_nothing(text):
    assert read_access(text) is None
