"""The parsers of bodies, of conversations at every API, of directories' rows, of signed tokens and of release feeds."""

import json
import time
from collections.abc import Iterator
from io import BytesIO

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scim2_models import Context, SCIMException

from accounts.scim.operations import patch_user, read_group, read_group_patch, read_user
from accounts.scim.resources import GROUP_SCHEMA, USER_SCHEMA, ScimUser
from accounts.sso.protocol.tokens import LOGOUT_EVENT, TokenRefused, read_id_token, read_logout_token
from gateway_project.errors import GatewayError, ValidationError
from gateway_project.server.bodies import PIECE_BYTES, read_body
from gateway_project.work.doors import ENDPOINTS
from gateway_project.work.tasks.releases import BadFeed, newest_release
from tests.support.oidc import CLIENT_ID, HostileIssuer
from tests.support.promises import parses

pytestmark = pytest.mark.embedded


def json_of(names: list[str], values: list[object]) -> st.SearchStrategy:
    """JSON whose members often have these names, and these values."""
    leaves = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False)
    leaves |= st.text(max_size=12) | st.sampled_from(values)
    members = st.sampled_from(names) | st.text(max_size=6)
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(members, inner, max_size=5), max_leaves=15
    )


# -- Conversations --------------------------------------------------------------------------------------------------

WORDS = [
    "user", "assistant", "system", "tool", "developer", "text", "image", "image_url", "tool_use", "tool_result",
    "function", "function_call", "function_call_output", "message", "reasoning", "thinking", "input_text",
    "output_text", "auto", "none", "any", "json_schema", "json_object", "{}", "data:image/png;base64,aGk=", "base64",
]  # fmt: skip
PARTS = json_of(
    ["role", "content", "type", "text", "tool_calls", "id", "name", "arguments", "input", "image_url", "url", "source",
     "data", "media_type", "tool_use_id", "call_id", "output", "thinking", "signature", "summary", "function",
     "parameters", "schema", "format", "cache_control", "encrypted_content", "status"], WORDS,
)  # fmt: skip
MESSAGES = st.lists(st.fixed_dictionaries({"role": st.sampled_from(WORDS), "content": PARTS}) | PARTS, max_size=4)
SHARED = ["max_tokens", "temperature", "stop", "stop_sequences", "tools", "tool_choice", "response_format", "n",
          "stream", "system", "instructions", "text", "thinking", "reasoning", "reasoning_effort", "metadata", "user",
          "top_p", "stream_options", "parallel_tool_calls", "previous_response_id", "store"]  # fmt: skip
CHATS = st.builds(
    lambda conversation, more: conversation | more,
    st.fixed_dictionaries({}, optional=dict.fromkeys(("messages", "input", "prompt"), MESSAGES | PARTS)),
    st.dictionaries(st.sampled_from(SHARED), PARTS, max_size=5),
)
DIALECTS = {endpoint.dialect.name: endpoint.dialect for endpoint in ENDPOINTS.values() if endpoint.operation == "chat"}


@parses
@pytest.mark.parametrize("name", DIALECTS)
def test_conversations_of_clients(name):
    @given(CHATS)
    def attempt(body):
        try:
            chat = DIALECTS[name].read_chat(body)
        except ValidationError:
            return
        assert chat.source

    attempt()


# -- Directories ----------------------------------------------------------------------------------------------------

ROWS = json_of(
    ["value", "type", "primary", "display", "$ref", "formatted", "givenName", "familyName", "op", "path"],
    ["work", "home", "true", "ann@example.org", "1", "9" * 30, "add", "replace", "remove", "members",
     'members[value eq "1"]', 'emails[type eq "work"].value', "displayName", "externalId", "active", "userName"],
)  # fmt: skip
OPERATIONS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "Replace", "remove"]) | ROWS},
    optional={"path": st.sampled_from(["members", "displayName", "emails", "active", 'members[value eq "1"]']) | ROWS,
              "value": ROWS},
)  # fmt: skip
PATCHES = st.fixed_dictionaries({"Operations": st.lists(OPERATIONS, min_size=1, max_size=4) | ROWS})
SCIM_REFUSALS = (SCIMException, GatewayError, pydantic.ValidationError)


def resources(schema: str, *names: str) -> st.SearchStrategy:
    """Resources of this schema, more or less, with these attributes."""
    return st.fixed_dictionaries({"schemas": st.just([str(schema)]) | ROWS}, optional=dict.fromkeys(names, ROWS))


USERS = resources(USER_SCHEMA, "userName", "displayName", "name", "emails", "active", "groups", "id", "externalId")
GROUPS = resources(GROUP_SCHEMA, "displayName", "members", "externalId", "id")
CREATION = Context.RESOURCE_CREATION_REQUEST
SCIM_READERS = {
    "users": (lambda body: read_user(body, CREATION, active=True), USERS),
    "changes of users": (lambda body: patch_user(ScimUser(user_name="ann", active=True), body), PATCHES),
    "groups": (lambda body: read_group(body, CREATION), GROUPS),
    "changes of groups": (read_group_patch, PATCHES),
}


@parses
@pytest.mark.parametrize("name", SCIM_READERS)
def test_rows_of_directories(name):
    read, bodies = SCIM_READERS[name]

    @given(bodies)
    def attempt(body):
        try:
            read(body)
        except SCIM_REFUSALS as refusal:
            str(refusal).encode("utf-8", "replace")

    attempt()


# -- Tokens ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def issuer(db) -> Iterator[HostileIssuer]:
    with HostileIssuer() as server:
        yield server


CLAIMS = json_of(["events", LOGOUT_EVENT, "aud", "sub"], [CLIENT_ID, "ann", "nonce", "x" * 300, LOGOUT_EVENT])
HEADERS = st.fixed_dictionaries(
    {}, optional={"typ": st.sampled_from(["JWT", "logout+jwt", "at+jwt"]), "kid": st.sampled_from(["first", "other"])}
)


def good_claims(issuer: str) -> dict[str, object]:
    """The claims of both kinds of tokens."""
    now = int(time.time())
    return {"iss": issuer, "aud": CLIENT_ID, "sub": "ann", "iat": now, "exp": now + 600, "nonce": "nonce", "jti": "one",
            "sid": "session", "events": {LOGOUT_EVENT: {}}, "azp": CLIENT_ID, "nbf": now, "auth_time": now,
            "at_hash": "x"}  # fmt: skip


def read_both(text: object, issuer: str) -> None:
    names = {"issuer": issuer, "client_id": CLIENT_ID}
    for read in (
        lambda: read_id_token(text, nonce="nonce", access_token="an access token", **names),
        lambda: read_logout_token(text, **names),
    ):
        try:
            claims = read()
        except TokenRefused:
            continue
        assert claims["iss"] == issuer
        assert claims.get("sub") or claims.get("sid")


@parses
def test_claims_that_the_provider_has_signed(issuer):
    good = good_claims(issuer.url)
    logout = issuer.sign({name: value for name, value in good.items() if name != "nonce"})
    assert read_logout_token(logout, issuer=issuer.url, client_id=CLIENT_ID)["jti"] == "one"
    wrong = {name: st.just(value) | CLAIMS for name, value in good.items()}

    @given(st.fixed_dictionaries({}, optional=wrong), HEADERS)
    def attempt(claims, header):
        issuer.header = header
        read_both(issuer.sign(claims), issuer.url)

    attempt()


@parses
def test_texts_that_are_no_tokens(issuer):
    good = issuer.sign({"sub": "ann"})
    pieces = st.sampled_from([*good.split("."), ".", "e30", "bnVsbA", "W10", "eyJhbGciOiJSUzI1NiJ9"]) | st.text(
        max_size=9
    )

    @given(st.lists(pieces, max_size=6).map("".join) | CLAIMS)
    def attempt(text):
        read_both(text, issuer.url)

    attempt()


# -- Bodies and feeds -----------------------------------------------------------------------------------------------

MAX_BYTES = 2 * PIECE_BYTES
LENGTHS = st.integers(-2, MAX_BYTES + 2).map(str) | st.sampled_from(["", "+1", "1_0", "²", "٣", "9" * 30, "0x1", " 1"])


@parses
@given(
    st.binary(max_size=60), st.integers(0, MAX_BYTES // 20), LENGTHS | st.text(max_size=5),
    st.sampled_from(["", "chunked", "gzip, Chunked", "identity"]) | st.text(max_size=9),
)  # fmt: skip
def test_bodies_of_any_length(piece, times, length, encoding):
    body = piece * times
    environ = {"wsgi.input": BytesIO(body), "CONTENT_LENGTH": length, "HTTP_TRANSFER_ENCODING": encoding}
    try:
        read = read_body(environ, MAX_BYTES)
    except GatewayError:
        return
    assert len(read) <= MAX_BYTES
    assert body.startswith(read)


RELEASES = json_of(["tag_name", "draft", "prerelease"], ["v1.2.3", "1.2", "v" + "9" * 5000, "v1.2.3-rc1", "v٣.1"])


@parses
@given(st.binary(max_size=40) | RELEASES.map(lambda feed: json.dumps(feed).encode()))
def test_documents_of_release_feeds(document):
    try:
        version = newest_release(document)
    except BadFeed:
        return
    assert all(isinstance(number, int) for number in version)
