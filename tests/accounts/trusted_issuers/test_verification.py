"""Tokens of trusted issuers, verified from memory; and the attacks on them."""

import json
import time
from contextlib import suppress

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from accounts.trusted_issuers import book as book_module
from accounts.trusted_issuers.book import IssuerBook
from accounts.trusted_issuers.verification import MAX_TOKEN_LENGTH
from gateway_project.errors import AuthenticationFailed
from tests.support.issuers import AUDIENCE, SUBJECT, Issuer, rsa_key, segment

pytestmark = pytest.mark.embedded

USUAL = AuthenticationFailed.default_message
ALL = ("RS256", "RS512", "PS256", "ES256", "ES384", "EdDSA")


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


def book_of(*snapshots) -> IssuerBook:
    return IssuerBook(snapshots, {})


@pytest.fixture
def book(issuer) -> IssuerBook:
    return book_of(issuer.snapshot())


def refused(book: IssuerBook, token: str) -> str:
    """The message of the refusal."""
    with pytest.raises(AuthenticationFailed) as refusal:
        book.verify(token, time.time())
    return refusal.value.message


def test_a_token_of_a_cluster_names_its_service_account(book, issuer):
    token = book.verify(issuer.token(), time.time())
    assert (token.issuer, token.username) == ("cluster", SUBJECT)


@pytest.mark.parametrize("key", [rsa_key(), ec.generate_private_key(ec.SECP256R1())], ids=["RS256", "ES256"])
def test_both_default_algorithms_are_accepted(issuer, key):
    issuer.private_keys = {"one": key}
    assert book_of(issuer.snapshot()).verify(issuer.token(), time.time()) is not None


def test_an_audience_may_be_a_text_or_one_of_several(book, issuer):
    for audience in (AUDIENCE, [AUDIENCE], ["https://kubernetes.default.svc", AUDIENCE]):
        assert book.verify(issuer.token(aud=audience), time.time()) is not None


@pytest.mark.parametrize("text", ["", "nonsense", "a.b.c", "..", "svc.x", f"{segment({})}.{segment({})}.", "é.é.é"])
def test_a_text_that_is_no_token_of_an_issuer_is_left_to_logins(book, text):
    assert book.verify(text, time.time()) is None


def test_a_token_of_somebody_else_is_left_to_logins(book):
    assert book.verify(Issuer("https://issuer.example.org").token(), time.time()) is None


class TestSubjects:
    def test_subjects_name_users_by_exact_values_alone(self, issuer):
        book = book_of(issuer.snapshot(subjects={SUBJECT: "indexer"}, user_prefix="ignored-"))
        assert book.verify(issuer.token(), time.time()).username == "indexer"
        for other in (SUBJECT.upper(), f"{SUBJECT} ", f"{SUBJECT}x", "indexer"):
            assert "names no user" in refused(book, issuer.token(sub=other))

    def test_a_prefix_stands_before_the_claim(self, issuer):
        book = book_of(issuer.snapshot(user_claim="repository", user_prefix="github:"))
        assert book.verify(issuer.token(repository="acme/app"), time.time()).username == "github:acme/app"

    @pytest.mark.parametrize("value", ["", 5, True, ["ann"], {"a": 1}, "x" * 501])
    def test_a_claim_that_is_no_name_is_refused(self, book, issuer, value):
        assert refused(book, issuer.token(sub=None) if value == "" else _with_sub(issuer, value))

    def test_a_missing_claim_is_refused(self, issuer):
        book = book_of(issuer.snapshot(user_claim="email"))
        assert "email" in refused(book, issuer.token())


def _with_sub(issuer: Issuer, value: object) -> str:
    """PyJWT refuses to make such a token; others do not."""
    head = segment({"alg": "ES256", "kid": "first"})
    text = f"{head}.{segment(issuer.claims(sub=value))}"
    signature = jwt.algorithms.ECAlgorithm(jwt.algorithms.ECAlgorithm.SHA256)
    return f"{text}.{segment(signature.sign(text.encode(), issuer.private_keys['first']))}"


class TestAttacks:
    def test_unsigned_tokens_are_refused(self, book, issuer):
        claims = segment(issuer.claims())
        for name in ("none", "None", "NONE", "nOnE", "", None):
            head = segment({"alg": name, "typ": "JWT", "kid": "first"})
            for signature in ("", segment(b"x")):
                assert refused(book, f"{head}.{claims}.{signature}") == USUAL
        assert refused(book, f"{segment({'kid': 'first'})}.{claims}.") == USUAL

    @pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
    def test_a_public_key_is_no_secret_for_a_symmetric_signature(self, issuer, algorithm):
        """Key confusion: the attacker knows the public key."""
        issuer.private_keys = {"first": rsa_key()}
        book = book_of(issuer.snapshot(ALL))
        public = rsa_key().public_key()
        pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        text = f"{segment({'alg': algorithm, 'kid': 'first'})}.{segment(issuer.claims())}"
        for secret in (pem, pem.strip(), json.dumps(issuer.jwks["keys"][0]).encode()):
            family = jwt.algorithms.HMACAlgorithm(getattr(jwt.algorithms.HMACAlgorithm, f"SHA{algorithm[2:]}"))
            assert refused(book, f"{text}.{segment(family.sign(text.encode(), secret))}") == USUAL

    def test_an_algorithm_beside_the_list_is_refused(self, issuer):
        issuer.private_keys = {"first": rsa_key()}
        book = book_of(issuer.snapshot(("ES256",)))
        assert "is unknown" in refused(book, issuer.token())

    def test_a_key_verifies_only_its_own_algorithm(self, issuer):
        issuer.private_keys = {"first": rsa_key()}
        book = book_of(issuer.snapshot(ALL))
        token = jwt.encode(issuer.claims(), rsa_key(), "RS512", headers={"kid": "first"})
        assert refused(book, token) == USUAL

    def test_another_key_of_the_same_id_signs_nothing(self, book, issuer):
        assert refused(book, issuer.token(key=ec.generate_private_key(ec.SECP256R1()))) == USUAL

    def test_a_changed_token_is_refused(self, book, issuer):
        head, _, signature = issuer.token().split(".")
        assert refused(book, f"{head}.{segment(issuer.claims(sub='ann'))}.{signature}") == USUAL

    @pytest.mark.parametrize("audience", ["other", ["other"], [], None, [None], 5, f"{AUDIENCE} ", [[AUDIENCE]]])
    def test_a_token_for_another_audience_is_refused(self, book, issuer, audience):
        assert refused(book, issuer.token(aud=audience))

    @pytest.mark.parametrize("change", ["/", "/x", " ", "\0"])
    def test_an_issuer_that_is_similar_is_another_one(self, book, issuer, change):
        assert book.verify(issuer.token(iss=issuer.url + change), time.time()) is None

    def test_the_last_of_two_issuers_in_one_token_does_not_count_for_the_first(self, issuer):
        """Parsers differ in which of two members they take: it has to be one that signed."""
        evil = Issuer("https://evil.example.org")
        book = book_of(issuer.snapshot(), evil.snapshot(id=2, name="evil"))
        for urls in ((issuer.url, evil.url), (evil.url, issuer.url)):
            claims = json.dumps(evil.claims(iss=None))[1:-1]
            text = "{" + "".join(f'"iss": "{url}", ' for url in urls) + claims + "}"
            signed = f"{segment({'alg': 'ES256', 'kid': 'first'})}.{segment(text.encode())}"
            family = jwt.algorithms.ECAlgorithm(jwt.algorithms.ECAlgorithm.SHA256)
            token = f"{signed}.{segment(family.sign(signed.encode(), evil.private_keys['first']))}"
            if urls[-1] == evil.url:
                assert book.verify(token, time.time()).issuer == "evil"
            else:
                assert refused(book, token) == USUAL

    def test_times_are_checked(self, book, issuer):
        now = int(time.time())
        assert "expired" in refused(book, issuer.token(exp=now - 31))
        assert "not valid yet" in refused(book, issuer.token(nbf=now + 60))
        assert "not valid yet" in refused(book, issuer.token(iat=now + 60))
        assert "older" in refused(book, issuer.token(iat=now - 86_431, exp=now + 9**9))
        assert book.verify(issuer.token(exp=now - 10, nbf=now + 10), time.time()) is not None  # within the leeway

    @pytest.mark.parametrize("name", ["exp", "iat", "aud"])
    def test_a_token_needs_its_claims(self, book, issuer, name):
        assert name in refused(book, issuer.token(**{name: None}))

    @pytest.mark.parametrize("value", ["9999999999", "0", True, [], {}, "x"])
    @pytest.mark.parametrize("name", ["exp", "iat", "nbf"])
    def test_a_time_that_is_no_number_is_refused(self, book, issuer, name, value):
        assert refused(book, issuer.token(**{name: value}))

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400], ids=["nan", "inf", "huge"])
    def test_what_is_no_json_is_no_token(self, book, issuer, value):
        assert book.verify(issuer.token(exp=value), time.time()) is None

    def test_keys_in_the_token_are_ignored(self, book, issuer):
        """jku, x5u, jwk and x5c say where the attacker's key is."""
        evil = Issuer()
        headers = {"jku": "https://evil.example.org/keys", "x5u": "https://evil.example.org/cert", "x5c": ["MIIB"]}
        headers["jwk"] = evil.jwks["keys"][0]
        assert refused(book, evil.token(headers=headers)) == USUAL
        assert book.verify(issuer.token(headers=headers), time.time()) is not None

    def test_extensions_that_must_be_understood_are_refused(self, book, issuer):
        assert refused(book, issuer.token(headers={"crit": ["b64"], "exp": 1})) == USUAL

    @pytest.mark.parametrize("key_id", [None, 5, ["first"], {"a": 1}])
    def test_a_key_id_is_a_text(self, book, issuer, key_id):
        head = segment({"alg": "ES256", "kid": key_id})
        assert refused(book, f"{head}.{segment(issuer.claims())}.{segment(b'x' * 64)}") == USUAL

    @pytest.mark.parametrize("algorithm", [None, 5, True, ["ES256"], {"a": 1}, []])
    def test_an_algorithm_is_a_text(self, book, issuer, algorithm):
        head = segment({"alg": algorithm, "kid": "first"})
        assert refused(book, f"{head}.{segment(issuer.claims())}.{segment(b'x' * 64)}") == USUAL

    @pytest.mark.parametrize("value", [None, 5, True, ["x"], {"a": 1}])
    def test_other_members_of_any_type_are_no_fault(self, book, issuer, value):
        for name in ("typ", "crit", "b64", "cty"):
            with suppress(AuthenticationFailed):
                book.verify(issuer.token(headers={name: value}), time.time())
        for name in ("iss", "aud", "sub", "nbf", "jti"):
            claims = segment({**issuer.claims(), name: value})
            with suppress(AuthenticationFailed):
                book.verify(f"{segment({'alg': 'ES256', 'kid': 'first'})}.{claims}.{segment(b'x' * 64)}", time.time())

    def test_a_huge_token_is_refused_unread(self, book, issuer):
        token = issuer.token(padding="x" * MAX_TOKEN_LENGTH)
        assert refused(book, token) == USUAL
        assert refused(book, "x" * (MAX_TOKEN_LENGTH + 1)) == USUAL

    def test_deeply_nested_parts_are_refused(self, book, issuer):
        for deep in (b"[" * 5000, b'{"a":' * 900 + b"1" + b"}" * 900):
            head = f"{segment({'alg': 'ES256', 'kid': 'first'})}.{segment(deep)}.x"
            assert book.verify(head, time.time()) is None
            head = f"{segment(deep)}.{segment({'iss': issuer.url})}.x"
            with suppress(AuthenticationFailed):
                assert book.verify(head, time.time()) is None

    def test_an_issuers_key_signs_for_no_other_issuer(self, issuer):
        other = Issuer("https://issuer.example.org")
        book = book_of(issuer.snapshot(), other.snapshot(id=2))
        assert refused(book, issuer.token(iss=other.url, key=issuer.private_keys["first"])) == USUAL


class TestKeys:
    def test_an_unknown_key_is_asked_for_once(self, book, issuer):
        token = issuer.token(key_id="first", headers={"kid": "new"})
        for _ in range(3):
            assert "again" in refused(book, token)
        assert list(book.wanted_keys) == [1]

    def test_a_refusal_for_an_unknown_key_says_when_to_come_back(self, book, issuer):
        with pytest.raises(AuthenticationFailed) as refusal:
            book.verify(issuer.token(headers={"kid": "new"}), time.time())
        assert refusal.value.headers["Retry-After"] == "5"

    def test_keys_that_an_administrator_stored_are_not_fetched(self, issuer):
        book = book_of(issuer.snapshot(has_own_keys=True))
        assert "again" not in refused(book, issuer.token(headers={"kid": "new"}))
        assert book.wanted_keys == {}

    def test_two_clusters_with_the_same_name_are_told_apart_by_audience_and_key(self, issuer):
        other = Issuer()
        other.rotate("second")
        first = issuer.snapshot(name="east")
        second = other.snapshot(id=2, name="west", audience="west")
        book = book_of(first, second)
        assert book.verify(issuer.token(), time.time()).issuer == "east"
        assert book.verify(other.token(aud="west"), time.time()).issuer == "west"
        assert book.verify(other.token(aud=[AUDIENCE, "west"]), time.time()).issuer == "west"
        assert refused(book, issuer.token(aud="west"))  # a key of the one, the audience of the other
        assert refused(book, other.token())


class TestMemory:
    def test_a_token_is_verified_once(self, book, issuer, monkeypatch):
        token = issuer.token()
        first = book.verify(token, time.time())
        book.issuers[0].keys.clear()
        assert book.verify(token, time.time()) is first

    def test_a_remembered_token_expires(self, book, issuer):
        token, now = issuer.token(), time.time()
        assert book.verify(token, now) is not None
        with pytest.raises(AuthenticationFailed):
            book.verify(token, now + 3700)
        with pytest.raises(AuthenticationFailed):
            book.verify(token, now - 60)

    def test_a_remembered_token_gets_too_old(self, issuer):
        book = book_of(issuer.snapshot(max_age_seconds=60))
        token, now = issuer.token(), time.time()
        assert book.verify(token, now + 80) is not None
        with pytest.raises(AuthenticationFailed):
            book.verify(token, now + 95)

    def test_memory_is_bounded(self, book, issuer, monkeypatch):
        monkeypatch.setattr(book_module, "MAX_VERIFIED", 10)
        for number in range(25):
            assert book.verify(issuer.token(jti=str(number)), time.time()) is not None
        assert len(book._verified) <= 10
