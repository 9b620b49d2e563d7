"""What providers claim of users, and the rules that give roles and groups for it. Pure.

A rule is a line: `groups contains llm-admins -> role admin`, `email_domain equals example.com -> group Staff` or
`always -> role user`; both arrows are accepted. Empty lines, and lines that begin with #, mean nothing.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from gateway_project.errors import ValidationError

MAX_RULES, MAX_LINE_LENGTH, MAX_VALUES = 200, 500, 5000
EMAIL_DOMAIN = "email_domain"  # derived from the claim of the e-mail address
EMAIL_VERIFIED = "email_verified"  # the claim that says whether the provider has verified the address
RULE = re.compile(
    r"(?:(?P<always>always)|(?P<claim>\S+)\s+(?P<test>contains|equals)\s+(?P<value>.+?))"
    r"\s*(?:→|->|=>)\s*(?P<kind>role|group)\s+(?P<name>.+)"
)
EXAMPLE = "a rule looks like this: groups contains llm-admins → role admin."


class GrantKind(StrEnum):
    """What a rule gives."""

    ROLE = "role"
    GROUP = "group"


class Grant(NamedTuple):
    """A role or a group, by its name."""

    kind: GrantKind
    name: str


class ClaimRule(NamedTuple):
    """Gives its grant to users who have a value in a claim; without a claim, to all users."""

    line: int
    grant: Grant
    claim: str = ""
    test: str = ""
    value: str = ""

    def matches(self, claims: Mapping[str, object], email_claim: str = "email") -> bool:
        """Whether the claims hold the value."""
        if not self.claim:
            return True
        if self.claim == EMAIL_DOMAIN:
            return email_domain(claims, email_claim) == self.value.lower()
        claim = claim_value(claims, self.claim)
        if self.test == "equals":
            return _text(claim) == self.value
        return self.value in [_text(one) for one in (claim if isinstance(claim, list) else [claim])[:MAX_VALUES]]


def read_rules(text: str) -> list[ClaimRule]:
    """The rules of a text; raises ValidationError, for the field `rules`, that names the first wrong line."""
    rules = []
    for number, line in enumerate(text.splitlines(), start=1):
        if (content := line.strip()) and not content.startswith("#"):
            rules.append(_rule(number, content))
    if len(rules) > MAX_RULES:
        raise ValidationError(f"must have at most {MAX_RULES} rules.", field="rules")
    return rules


def _rule(number: int, line: str) -> ClaimRule:
    match = RULE.fullmatch(line) if len(line) <= MAX_LINE_LENGTH else None
    if match is None:
        raise ValidationError(f"line {number} is not a rule; {EXAMPLE}", field="rules")
    grant = Grant(GrantKind(match["kind"]), _unquote_text(match["name"]))
    if match["always"]:
        return ClaimRule(number, grant)
    return ClaimRule(number, grant, match["claim"], match["test"], _unquote_text(match["value"]))


def grants_of(rules: Sequence[ClaimRule], claims: Mapping[str, object], email_claim: str) -> set[Grant]:
    """What the rules give for these claims."""
    return {rule.grant for rule in rules if rule.matches(claims, email_claim)}


def claim_value(claims: Mapping[str, object], name: str) -> object:
    """A claim by its name; one inside of others by their names with dots: realm_access.roles."""
    if name in claims or "." not in name:
        return claims.get(name)
    value: object = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def claim_text(claims: Mapping[str, object], name: str) -> str:
    """A claim that is a text, without blanks around it; '' for any other."""
    value = claim_value(claims, name) if name else None
    return value.strip() if isinstance(value, str) else ""


def email_domain(claims: Mapping[str, object], email_claim: str) -> str:
    """The domain of the e-mail address in lower case; '' if the provider says that the address is not verified."""
    verified = claims.get(EMAIL_VERIFIED, True)
    is_verified = verified is True or verified == "true"
    name, _, domain = claim_text(claims, email_claim).rpartition("@")
    return domain.lower() if is_verified and name and "@" not in name else ""


def _text(value: object) -> str | None:
    """A simple value as rules write it; None for any other."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else None


def _unquote_text(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
