"""Claim rules: how they are read, and what they match."""

import pytest

from accounts.sso.claim_rules import Grant, GrantKind, claim_value, email_domain, grants_of, read_rules
from gateway_project.errors import ValidationError

pytestmark = pytest.mark.either_store

ADMIN = Grant(GrantKind.ROLE, "admin")


def grants(text: str, **claims: object) -> set[str]:
    return {grant.name for grant in grants_of(read_rules(text), claims, "email")}


@pytest.mark.parametrize(
    "line",
    [
        "groups contains llm-admins → role admin",
        "groups contains llm-admins -> role admin",
        "  groups   contains  llm-admins=>role admin ",
        "groups contains 'llm-admins' -> role \"admin\"",
        "# a comment\n\ngroups contains llm-admins → role admin",
    ],
)
def test_both_arrows_blanks_and_quotes(line):
    (rule,) = read_rules(line)
    assert (rule.claim, rule.test, rule.value, rule.grant) == ("groups", "contains", "llm-admins", ADMIN)


@pytest.mark.parametrize(
    "line",
    ["groups", "groups contains x", "groups contains → role a", "groups has x → role a", "always → admin", "→ role a",
     "always role a", "groups contains x → role ", "always → feature work", "a" * 501 + " equals b → role c"],
)  # fmt: skip
def test_a_line_that_is_no_rule_is_named(line):
    with pytest.raises(ValidationError, match="line 2") as error:
        read_rules(f"always → role user\n{line}")
    assert error.value.field == "rules"


def test_there_are_not_too_many():
    with pytest.raises(ValidationError, match="200"):
        read_rules("always → role user\n" * 201)


def test_contains_is_about_lists_and_equals_about_values():
    text = "groups contains a b → role one\ngroups equals a → group two\nflag equals true → role three"
    assert grants(text, groups=["x", "a b"]) == {"one"}
    assert grants(text, groups="a b") == {"one"}
    assert grants(text, groups="a") == {"two"}
    assert grants(text, groups=["a"], flag=True) == {"three"}
    assert grants(text, groups="xa bx") == grants(text, groups={"a b": 1}) == grants(text, groups=None) == set()
    assert grants("n equals 5 → role x", n=5) == {"x"}


def test_a_claim_inside_of_others():
    claims = {"realm_access": {"roles": ["llm"]}, "https://example.com/groups": ["a"], "x": "text"}
    assert claim_value(claims, "realm_access.roles") == ["llm"]
    assert claim_value(claims, "https://example.com/groups") == ["a"]
    assert claim_value(claims, "x.y") is claim_value(claims, "nothing.at.all") is None
    assert grants("realm_access.roles contains llm → role user", **claims) == {"user"}


@pytest.mark.parametrize(
    ("claims", "domain"),
    [
        ({"email": "ann@Example.COM"}, "example.com"),
        ({"email": "ann@example.com", "email_verified": True}, "example.com"),
        ({"email": "ann@example.com", "email_verified": "true"}, "example.com"),
        ({"email": "ann@example.com", "email_verified": False}, ""),
        ({"email": "ann@example.com", "email_verified": "false"}, ""),
        ({"email": "ann@example.com", "email_verified": None}, ""),
        ({"email": "ann@evil.example@example.com"}, ""),
        ({"email": "@example.com"}, ""),
        ({"email": ["ann@example.com"]}, ""),
        ({}, ""),
    ],
)
def test_the_domain_of_an_address_that_is_not_denied_to_be_verified(claims, domain):
    assert email_domain(claims, "email") == domain


def test_a_claim_of_this_name_is_not_the_domain():
    text = "email_domain equals Example.com → group Staff"
    assert grants(text, email_domain="example.com") == set()
    assert grants(text, email="ann@example.com") == {"Staff"}


def test_always():
    assert grants("always → role user") == {"user"}
