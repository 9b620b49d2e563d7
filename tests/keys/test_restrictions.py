"""What narrows a key: how it is read, and whom it lets through."""

from ipaddress import ip_network

import pytest

from gateway_project.errors import ValidationError
from keys.restrictions import (
    MAX_NETWORKS,
    MAX_PATTERNS,
    MAX_TAGS,
    ContentLogging,
    is_inside,
    read_models,
    read_networks,
    read_tags,
    restrictions_of,
)

pytestmark = pytest.mark.either_store


def restrictions(**values):
    defaults = {"models": [], "networks": [], "not_before": 0.0, "tags": {}, "max_tokens": None}
    return restrictions_of(**defaults | {"content_logging": "default"} | values)


def test_a_key_without_restrictions_has_no_object():
    assert restrictions() is None


@pytest.mark.parametrize(
    "values",
    [{"models": ["a"]}, {"networks": ["::1"]}, {"not_before": 1.0}, {"tags": {"a": ""}}, {"max_tokens": 1},
     {"content_logging": "none"}],
)  # fmt: skip
def test_a_key_with_any_has_one(values):
    assert restrictions(**values) is not None


def test_patterns_match_the_whole_name():
    narrowed = restrictions(models=["gpt-4.*", "small"])
    names = ("gpt-4o", "small", "smaller", "my-gpt-4o", "GPT-4o", "small\n", "")
    assert [name for name in names if narrowed.allow_model(name)] == ["gpt-4o", "small"]
    assert restrictions(tags={"a": "b"}).allow_model("whatever")


@pytest.mark.parametrize(
    ("network", "inside", "outside"),
    [
        ("192.0.2.0/24", ["192.0.2.1", "::ffff:192.0.2.1", "::ffff:c000:201"], ["192.0.3.1", "::192.0.2.1"]),
        ("192.0.2.7", ["192.0.2.7"], ["192.0.2.8"]),
        ("::ffff:192.0.2.0/120", ["192.0.2.1", "::ffff:192.0.2.1"], ["192.0.3.1"]),
        ("::ffff:192.0.2.7", ["192.0.2.7"], ["192.0.2.8"]),
        ("2001:db8::/32", ["2001:db8::1", "2001:DB8:0:0::1"], ["2001:db9::1", "192.0.2.1"]),
        ("0.0.0.0/0", ["192.0.2.1", "::ffff:192.0.2.1"], ["2001:db8::1"]),
        ("::/0", ["2001:db8::1"], ["192.0.2.1"]),
    ],
)  # fmt: skip
def test_addresses_of_both_families_are_compared_in_one_form(network, inside, outside):
    narrowed = restrictions(networks=read_networks([network]))
    assert [one for one in [*inside, *outside] if narrowed.allow_address(one)] == inside


@pytest.mark.parametrize("text", ["", "unix:", "localhost", "192.0.2.1:80", "192.0.2.1, 192.0.2.2", "0300.0.2.1", "\0"])
def test_what_is_no_address_is_in_no_network(text):
    assert not is_inside(text, [ip_network("0.0.0.0/0"), ip_network("::/0")])


def test_networks_are_stored_in_their_canonical_form_and_once():
    texts = ["192.0.2.1", "192.0.2.1/32", "192.0.2.0/255.255.255.0", "2001:DB8:0::/32", "::ffff:10.0.0.0/104"]
    assert read_networks(texts) == ["192.0.2.1/32", "192.0.2.0/24", "2001:db8::/32", "10.0.0.0/8"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "must be an array"),
        ("192.0.2.0/24", "must be an array"),
        ([7], "must be a text"),
        ([""], "must be a text"),
        (["192.0.2.0/33"], "must be a network such as"),
        (["example.org"], "must be a network such as"),
        (["fe80::1%eth0"], "without a zone"),
        (["192.0.2.1/24"], "write 192.0.2.0/24"),
        (["::1"] * (MAX_NETWORKS + 1), "at most 100"),
    ],
)  # fmt: skip
def test_what_is_no_list_of_networks_is_refused(value, words):
    with pytest.raises(ValidationError, match=words):
        read_networks(value)


@pytest.mark.parametrize(
    ("value", "field", "words"),
    [
        ({"gpt": 1}, "", "must be an array"),
        (["a", "("], "[1]", "valid RE2"),
        (["(?=a)b"], "[0]", "valid RE2"),
        (["a" * 1001], "[0]", "1 to 1000"),
        (["(((a{1,100}){1,100}){1,100}){1,100}"], "[0]", "valid RE2"),
        (["a\0"], "[0]", "must be a text"),
        (["a"] * (MAX_PATTERNS + 1), "", "at most 100"),
    ],
)  # fmt: skip
def test_what_is_no_list_of_patterns_is_refused_and_its_place_named(value, field, words):
    with pytest.raises(ValidationError, match=words) as refusal:
        read_models(value)
    assert refusal.value.field == field


@pytest.mark.parametrize(
    "value",
    [None, [], "team=search", {"": "a"}, {"a b": "c"}, {"a=": "c"}, {"a": 5}, {"a": None}, {"a": "b,c"}, {"a": "\n"},
     {"a": "\ud800"}, {"a": "b" * 257}, {"a" * 65: "b"}, {f"a{number}": "b" for number in range(MAX_TAGS + 1)}],
)  # fmt: skip
def test_what_is_no_object_of_tags_is_refused(value):
    with pytest.raises(ValidationError):
        read_tags(value)


@pytest.mark.parametrize(
    "values",
    [{"models": ["("]}, {"models": {"a": "b"}}, {"networks": ["nowhere"]}, {"networks": "0.0.0.0/0"}, {"tags": ["a"]},
     {"content_logging": "everything"}],
)  # fmt: skip
def test_a_stored_row_that_cannot_be_read_is_no_row_without_restrictions(values):
    with pytest.raises(ValidationError):
        restrictions(**values)


def test_the_kinds_of_content_logging_are_those_of_the_api():
    assert [kind.value for kind in ContentLogging] == ["default", "redacted", "none"]
