"""The parsers of documents and texts of identity providers, directories and administrators, over arbitrary input.

Each function of ours whose name says that it reads or parses has a case here, or its test elsewhere is named: a new one
fails until it has.
"""

import ast
import json
from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from django.core.exceptions import ValidationError as InvalidInput
from django.http import QueryDict
from hypothesis import given
from hypothesis import strategies as st
from scim2_models import SCIMException

from accounts import tokens
from accounts.scim.operations import read_operations
from accounts.scim.queries import GROUP_ATTRIBUTES, USER_ATTRIBUTES, Query, read_filter
from accounts.sso.claim_rules import grants_of, read_rules
from accounts.sso.protocol.http import read_object
from accounts.sso.protocol.metadata import read_keys, read_metadata
from accounts.sso.views import read_next
from accounts.trusted_issuers.jwks import BadKeySet, has_private_members, public_keys, read_key_set
from accounts.trusted_issuers.values import read_algorithms, read_jwks, read_subjects
from accounts.trusted_issuers.verification import read_unverified
from gateway_project.api.fields import read_id
from gateway_project.console.forms import inputs
from gateway_project.errors import GatewayError
from gateway_project.server.connections import logins
from gateway_project.work.doors.openai.responses_items import read_sealed
from gateway_project.work.explain import options
from gateway_project.work.revocation.acknowledging import read_report
from gateway_project.work.tasks.releases import read_version
from gateway_project.work.what_if.drafts import read_draft
from keys import restrictions, secrets
from licensing.signing import read_public_key
from providers import demo
from providers.formats.anthropic.foreign import read_signature
from rules.access_tests.documents import ROOT as TESTS
from rules.access_tests.documents import read_document
from rules.aliases import drafts, lines
from rules.guardrails import audience
from telemetry.management.commands.verify_usage import parse_moment
from telemetry.usage.rollups import parse_timestamp
from tests.support.document_strategies import HEADS, JSON, KEY_SETS, OBJECTS, TEXTS
from tests.support.promises import parses
from tests.support.running import ROOT
from tests.test_structure import modules

pytestmark = pytest.mark.embedded


class Case(NamedTuple):
    """What a parser is given, and what it may raise."""

    read: Callable[[Any], Any]
    values: st.SearchStrategy
    refusals: tuple[type[Exception], ...] = (GatewayError,)


def use_key_set(document: object) -> None:
    """The way of a key set: read, stored, and used to verify."""
    has_private_members(document)
    keys = read_key_set(document).keys
    public_keys(keys, ["ES256", "RS256"])


CASES = {
    "accounts.scim.queries.read_filter": Case(
        lambda text: [read_filter(text, names) for names in (USER_ATTRIBUTES, GROUP_ATTRIBUTES)],
        TEXTS,
        (SCIMException, GatewayError),
    ),
    "accounts.scim.queries.Query.read": Case(
        lambda parameters: Query.read(parameters, {"username": "username"}),
        st.dictionaries(
            st.sampled_from(
                ["filter", "startIndex", "count", "sortBy", "sortOrder", "attributes", "excludedAttributes"]
            ),
            TEXTS,
        ),
        (SCIMException, GatewayError),
    ),
    "accounts.scim.operations.read_operations": Case(read_operations, OBJECTS, (SCIMException, GatewayError)),
    "accounts.sso.claim_rules.read_rules": Case(
        lambda text: grants_of(read_rules(text), {"groups": [text, 5], "email": text}, "email"), TEXTS
    ),
    "accounts.sso.protocol.http.read_object": Case(read_object, st.binary(max_size=60) | TEXTS.map(str.encode), ()),
    "accounts.sso.protocol.metadata.read_metadata": Case(
        lambda document: read_metadata("https://x.example", document | {"issuer": "https://x.example"}), OBJECTS
    ),
    "accounts.sso.protocol.metadata.read_keys": Case(read_keys, KEY_SETS | OBJECTS, ()),
    "accounts.sso.views.read_next": Case(lambda text: read_next(QueryDict(f"next={text}")), TEXTS),
    "accounts.tokens.read_access": Case(tokens.read_access, TEXTS, ()),
    "accounts.tokens.read_refresh": Case(tokens.read_refresh, TEXTS, ()),
    "accounts.trusted_issuers.jwks.read_key_set": Case(use_key_set, KEY_SETS | JSON, (BadKeySet,)),
    "accounts.trusted_issuers.values.read_algorithms": Case(read_algorithms, JSON),
    "accounts.trusted_issuers.values.read_subjects": Case(read_subjects, JSON),
    "accounts.trusted_issuers.values.read_jwks": Case(read_jwks, KEY_SETS | JSON),
    "accounts.trusted_issuers.verification.read_unverified": Case(read_unverified, TEXTS, ()),
    "gateway_project.api.fields.read_id": Case(read_id, TEXTS),
    "gateway_project.work.doors.openai.responses_items.read_sealed": Case(
        lambda text: [read_sealed(start + text, "thought") for start in ("", "gateway:")], TEXTS, ()
    ),
    "gateway_project.work.explain.options.read_options": Case(options.read_options, TEXTS),
    "gateway_project.console.forms.inputs.read_json_object": Case(
        lambda text: inputs.read_json_object(text, "text"), TEXTS | JSON.map(json.dumps), (InvalidInput,)
    ),
    "gateway_project.console.forms.inputs.read_stored_json": Case(
        lambda text: inputs.read_stored_json(text, "text"), TEXTS | JSON.map(json.dumps), (InvalidInput,)
    ),
    "gateway_project.work.explain.options.read_address": Case(options.read_address, TEXTS),
    "gateway_project.work.revocation.acknowledging.read_report": Case(
        lambda payload: read_report("p", payload), st.none() | st.binary(max_size=40) | TEXTS.map(str.encode), ()
    ),
    "gateway_project.work.tasks.releases.read_version": Case(read_version, TEXTS, ()),
    "gateway_project.work.what_if.drafts.read_draft": Case(read_draft, OBJECTS | JSON),
    "keys.restrictions.read_models": Case(restrictions.read_models, JSON),
    "keys.restrictions.read_networks": Case(restrictions.read_networks, JSON),
    "keys.restrictions.read_tags": Case(restrictions.read_tags, JSON),
    "keys.secrets.parse_key": Case(secrets.parse_key, TEXTS | JSON | st.just(secrets.generate_key().text), ()),
    "licensing.signing.read_public_key": Case(read_public_key, TEXTS, (GatewayError, ValueError)),
    "providers.demo.parse_request": Case(
        demo.parse_request,
        TEXTS.map(str.encode) | (OBJECTS | JSON).map(lambda value: json.dumps(value).encode()),
        (demo.BadRequest,),
    ),
    "providers.formats.anthropic.foreign.read_signature": Case(read_signature, TEXTS, ()),
    "rules.access_tests.documents.read_document": Case(
        read_document, TEXTS | JSON.map(lambda tests: json.dumps({TESTS: tests}))
    ),
    "rules.aliases.drafts.read_targets": Case(drafts.read_targets, st.lists(OBJECTS, max_size=3) | JSON),
    "rules.aliases.drafts.read_mirror": Case(drafts.read_mirror, OBJECTS | JSON),
    "rules.aliases.drafts.read_match": Case(drafts.read_match, OBJECTS | JSON),
    "rules.guardrails.audience.read_audience": Case(audience.read_audience, OBJECTS | JSON),
    "rules.guardrails.audience.read_parameters": Case(audience.read_parameters, JSON),
    "telemetry.management.commands.verify_usage.parse_moment": Case(parse_moment, TEXTS, (ArgumentTypeError,)),
    "telemetry.usage.rollups.parse_timestamp": Case(parse_timestamp, TEXTS, (ValueError,)),
}
ELSEWHERE = {
    "accounts.second_factor.pending.read_login": "the server's own session",
    "accounts.scim.operations": "test_body_parsers.py",
    "accounts.scim.handlers": "answers of handlers, which read rows",
    "accounts.sso.protocol.tokens": "test_body_parsers.py",
    "gateway_project.api.filters": "test_parsers.py",
    "gateway_project.api.strict_json": "tests/gateway_project/api/test_strict_json.py",
    "gateway_project.server.bodies": "test_body_parsers.py",
    "gateway_project.server.proxies": "test_parsers.py",
    "gateway_project.work.doors": "test_body_parsers.py",
    "gateway_project.work.failover.provider_response": "test_parsers.py and the formats",
    "gateway_project.work.guardrails.detectors.expressions": "patterns that RE2 accepts: test_window.py there",
    "gateway_project.work.reading": "test_parsers.py",
    "gateway_project.work.tasks.releases.read_feed": "fetches; its document: test_body_parsers.py",
    "providers.formats": "tests/providers/formats: contract, round trips and test_parsers.py",
    "providers.pricing.public_prices": "files of operators: tests/providers/pricing",
    "rules.aliases.lines.read_lines": "below: it asks for the names of providers",
    "telemetry.journal.files": "test_parsers.py and tests/telemetry/journal",
    "telemetry.audit.head": "reads the newest row",
    "gateway_project.work.runtime": "hooks, which read the state of this process",
}


@parses
@pytest.mark.parametrize("name", CASES)
def test_a_document_or_text(name):
    case = CASES[name]

    @given(case.values)
    def attempt(value: Any) -> None:
        try:
            case.read(value)
        except case.refusals as refusal:
            str(refusal).encode("utf-8", "replace")

    attempt()


@parses
@pytest.mark.django_db
def test_the_lines_of_targets(first_provider):
    @given(TEXTS)
    def attempt(text: str) -> None:
        try:
            targets = lines.read_lines(text.replace("p0", first_provider.name))
        except GatewayError:
            return
        assert len(targets) <= drafts.MAX_TARGETS

    attempt()


@parses
@given(HEADS, HEADS)
def test_what_the_accepting_thread_reads_of_logins(head, rest):
    """It decides for how long a connection is parked: more bytes never turn what is a login into none."""
    received = head + rest
    answers = [
        judge(received) for judge in (logins.is_login, logins.may_be_login, logins.is_whole, logins.is_judgeable)
    ]
    assert all(isinstance(answer, bool) for answer in answers)
    assert not logins.is_login(head) or logins.is_login(received)
    assert logins.may_be_login(received) or not logins.is_login(received)
    assert "\r" not in logins.forwarded_for(received)
    assert "\n" not in logins.forwarded_for(received)


def parsers() -> set[str]:
    """The functions of modules whose names say that they read or parse what they are given."""
    names: set[str] = set()
    for path in modules():
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith(("read_", "parse_")):
                names.add(f"{module}.{node.name}")
    return names


def test_every_parser_is_tried():
    names = parsers()
    assert {name for name in names - set(CASES) if not name.startswith(tuple(ELSEWHERE))} == set()
    assert [place for place in ELSEWHERE if not any(name.startswith(place) for name in names)] == []
