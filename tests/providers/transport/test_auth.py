"""How a credential travels: in which header, or in the address."""

import base64

import pytest

from providers.models import AuthMethod
from providers.transport import auth

pytestmark = pytest.mark.either_store

SECRET = "sk-1234"
ADDRESS = "https://api.example.org/v1/chat"


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("bearer", {"Authorization": "Bearer sk-1234"}),
        ("x-api-key", {"x-api-key": SECRET}),
        ("api-key", {"api-key": SECRET}),
        ("x-goog-api-key", {"x-goog-api-key": SECRET}),
        ("query", {}),
        ("none", {}),
    ],
)
def test_each_method_has_its_header(method, headers):
    assert auth.headers(method, SECRET) == headers


def test_basic_carries_user_and_password_of_any_alphabet():
    header = auth.headers("basic", "üser:pass:word")["Authorization"]
    assert base64.b64decode(header.removeprefix("Basic ")).decode() == "üser:pass:word"


def test_the_address_carries_the_key_for_the_method_query_alone():
    assert auth.url("query", "a b&c=d/é", ADDRESS) == f"{ADDRESS}?key=a%20b%26c%3Dd%2F%C3%A9"
    assert auth.url("query", "k", f"{ADDRESS}?x=1") == f"{ADDRESS}?x=1&key=k"
    for method in set(AuthMethod.values) - {"query"}:
        assert auth.url(method, SECRET, ADDRESS) == ADDRESS


@pytest.mark.parametrize("method", AuthMethod.values)
def test_without_a_credential_nothing_is_sent(method):
    assert auth.headers(method, "") == {}
    assert auth.url(method, "", ADDRESS) == ADDRESS


@pytest.mark.parametrize("method", AuthMethod.values)
def test_every_method_there_is_carries_the_credential_or_says_that_it_cannot(method):
    try:
        sent = f"{auth.headers(method, SECRET)} {auth.url(method, SECRET, ADDRESS)}"
    except auth.CredentialUnusable:
        assert method == "aws-sigv4"  # signs every request anew
        return
    hidden = base64.b64encode(SECRET.encode()).decode()
    assert (SECRET in sent or hidden in sent) == (method != "none")
