"""The tables in memory at one moment: who may be asked for which model, and what is forgotten."""

import pytest

from gateway_project.work.snapshot.records import Snapshot
from providers.transport import auth
from rules.matching import RuleSnapshot
from tests.support.snapshot_records import key, provider


@pytest.fixture
def snapshot():
    return Snapshot()


def names(targets):
    return [(target.provider.name, target.model) for target in targets]


def test_every_provider_with_the_model_is_a_target(snapshot):
    snapshot.put_providers([provider(1, "fast", "slow"), provider(2, "fast")])
    assert names(snapshot.targets_for("fast")) == [("p1", "fast"), ("p2", "fast")]
    assert names(snapshot.targets_for("slow")) == [("p1", "slow")]
    assert snapshot.targets_for("nosuch") == ()


def test_a_providers_name_narrows_it_to_that_one_and_the_model_goes_bare(snapshot):
    snapshot.put_providers([provider(1, "fast"), provider(2, "fast", "org/large")])
    assert names(snapshot.targets_for("p2/fast")) == [("p2", "fast")]
    assert names(snapshot.targets_for("p2/org/large")) == [("p2", "org/large")]
    assert snapshot.targets_for("p1/org/large") == snapshot.targets_for("p3/fast") == snapshot.targets_for("p1/") == ()


def test_a_model_whose_own_name_has_a_slash_comes_first(snapshot):
    snapshot.put_providers([provider(1, "p2/fast"), provider(2, "fast")])
    assert names(snapshot.targets_for("p2/fast")) == [("p1", "p2/fast")]


def test_providers_that_are_gone_are_forgotten(snapshot):
    snapshot.put_providers([provider(1, "fast"), provider(2, "fast")])
    snapshot.put_providers([provider(2, "slow")])
    assert snapshot.targets_for("fast") == ()
    assert snapshot.providers.keys() == {2}
    assert snapshot.providers_by_name.keys() == {"p2"}


def test_a_key_is_dropped_by_its_id(snapshot):
    snapshot.put_key("a", key(1))
    snapshot.put_key("b", key(2))
    snapshot.drop_key(1)
    snapshot.drop_key(99)
    assert (snapshot.keys.keys(), snapshot.public_ids) == ({"b"}, {2: ("b",)})


def test_a_key_that_was_rotated_is_known_and_dropped_by_both_of_its_ids(snapshot):
    for public_id in ("new", "old", "older"):
        snapshot.put_key(public_id, key(1))
    snapshot.put_key("new", key(1))
    snapshot.drop_key(1, keep={"new", "old"})
    assert (snapshot.keys.keys(), snapshot.public_ids) == ({"new", "old"}, {1: ("new", "old")})
    snapshot.drop_key(1)
    assert (snapshot.keys, snapshot.public_ids) == ({}, {})


def test_rules_replace_one_another_as_a_whole(snapshot):
    rule = RuleSnapshot(1, "r", None, None, None, True, None)
    caller = {"user_id": 1, "group_ids": ()}
    snapshot.put_rules([rule])
    book = snapshot.rules
    snapshot.put_rules([])
    assert [rules.judge("m", (), **caller)[0] for rules in (book, snapshot.rules)] == [rule, None]


def test_no_credential_is_ever_printed():
    shown = repr(provider(1, "m", credential="sk-secret", auth_headers={"Authorization": "Bearer sk-secret"}))
    assert "sk-secret" not in shown
    assert "p1" in shown


def test_the_address_carries_the_path_of_the_format_and_a_key_in_the_query():
    assert provider(1).address("/chat/completions") == "https://api.example.org/v1/chat/completions"
    assert provider(1, auth_method="query", credential="a b").address("/x") == "https://api.example.org/v1/x?key=a%20b"


@pytest.mark.parametrize(
    ("method", "credential", "payload"),
    [
        ("bearer", "sk-0123456789", b"sk-0123456789"),
        ("x-api-key", 'say "0123456789"', b'say \\"0123456789\\"'),
        ("basic", "ann:a long one", b"YW5uOmEgbG9uZyBvbmU="),
        ("basic", "ann:??>>??>>??>>", b"YW5uOj8\\/Pj4\\/Pz4+Pz8+Pg=="),
        ("query", "a/long+secret", b"a%2Flong%2Bsecret"),
        ("aws-sigv4", "AKIAIOSFODNN7:wJalrXUtnFEMI/K7MDENG", b"wJalrXUtnFEMI\\/K7MDENG"),
    ],
)
def test_a_credential_is_found_in_a_body_in_every_form_in_which_it_is_sent(method, credential, payload):
    headers = {} if method == "aws-sigv4" else auth.headers(method, credential)
    row = provider(1, auth_method=method, credential=credential, auth_headers=headers)
    assert row.leaks_credential(b'{"text": "It is %b!"}' % payload)
    assert row.redact_body(b'{"text": "It is %b!"}' % payload, 1000) == '{"text": "It is …!"}'.encode()
    assert not row.leaks_credential(b'{"text": "It is none!"}')


@pytest.mark.parametrize("most", range(1, 20_010, 1111))
def test_nothing_of_it_is_left_where_a_body_is_cut(most):
    secret = "0123456789" * 2_000
    headers = provider(1, auth_headers=auth.headers("bearer", secret)).redact_body(b"it is " + secret.encode(), most)
    assert headers == "it is …".encode()[:most]


def test_a_provider_without_a_credential_or_with_a_mere_word_has_no_secret():
    for credential in ("", "none", "ollama"):
        row = provider(1, credential=credential)
        assert row.redact_body(b"none of ollama", 1000) == b"none of ollama"
        assert not row.leaks_credential(b"none of ollama")
