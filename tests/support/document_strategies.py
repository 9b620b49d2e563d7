"""Hypothesis strategies of documents and texts that the parsers of the gateway read."""

from hypothesis import strategies as st

from tests.support.issuers import Issuer

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(
        [
            "",
            "sig",
            "RSA",
            "EC",
            "OKP",
            "oct",
            "P-256",
            "ES256",
            "none",
            "AQAB",
            "k",
            "x" * 600,
            "add",
            "\0",
            "replace",
            "remove",
            "members",
            'members[value eq "1"]',
            "https://x.example",
            "a" * 30,
            "1",
            "*",
        ]
    )
)
NAMES = st.sampled_from(
    [
        "keys",
        "kid",
        "kty",
        "use",
        "alg",
        "crv",
        "n",
        "e",
        "x",
        "y",
        "d",
        "k",
        "issuer",
        "authorization_endpoint",
        "token_endpoint",
        "jwks_uri",
        "token_endpoint_auth_methods_supported",
        "Operations",
        "op",
        "path",
        "value",
        "everyone",
        "users",
        "groups",
        "provider",
        "model",
        "alias",
        "weight",
        "tier",
        "match",
        "tags",
        "groupId",
        "userId",
        "keyName",
        "share",
        "rules",
        "limits",
        "delete",
        "name",
        "id",
        "regex",
        "active",
        "emails",
        "userName",
    ]
) | st.text(max_size=8)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5), max_leaves=12
)
OBJECTS = st.dictionaries(NAMES, JSON, max_size=6)
WORDS = st.sampled_from(
    [
        "userName",
        " eq ",
        " and ",
        " or ",
        "not ",
        "(",
        ")",
        "[",
        "]",
        '"ann"',
        '"',
        "\\",
        "5",
        "true",
        "pr",
        ".",
        "emails",
        "always",
        "->",
        "→",
        "=>",
        " role ",
        " group ",
        "contains",
        "equals",
        "groups",
        "\n",
        "#",
        "x" * 501,
        "p0/",
        "alias:",
        " | ",
        "weight=",
        "tier=",
        "tag a=b",
        "user=",
        "key=",
        "=",
        "\r\n",
        "\x85",
        "\u2028",
        "²",
        "9" * 30,
        "eyJhbGciOiJub25lIn0",
        "e30",
        "/me/",
        "//x",
        "\\x",
        "javascript:",
        "explain=true",
        "&",
        "asUser=1",
        "fromAddress=",
        "::1",
        "v1.2",
        "2026-01-01",
    ]
)
TEXTS = st.lists(WORDS | st.text(max_size=10), max_size=9).map("".join)
KEY_SETS = st.fixed_dictionaries(
    {"keys": st.lists(st.dictionaries(NAMES, LEAVES, max_size=8) | st.just(Issuer().jwks["keys"][0]), max_size=4)}
)
HEADS = st.lists(
    st.sampled_from(
        [
            b"POST ",
            b"GET ",
            b"/auth/login",
            b"/%61uth/login",
            b"/admin/login/",
            b" HTTP/1.1",
            b"\r\n",
            b"\r\n\r\n",
            b"\n",
            b"\r",
            b"Content-Length: ",
            b"5",
            b"9" * 30,
            b"-1",
            b"Transfer-Encoding: chunked",
            b"0\r\n\r\n",
            b"http://x",
            b"://",
            b"?",
            b"#",
            b"%",
            b"%zz",
            b"X-Forwarded-For: ",
            b"1.2.3.4",
            b",",
            b"\xff",
            b"\0",
        ]
    )
    | st.binary(max_size=12),
    max_size=14,
).map(b"".join)
