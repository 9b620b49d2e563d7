"""Stage 1: whose request is this, and may they send work?"""

import json
import uuid
from datetime import timedelta

import jwt
import pytest
from django.conf import settings as ours
from django.db import connection
from django.utils import timezone

from accounts import tokens
from accounts.models import Feature, Role, Session, User
from keys import secrets
from keys.models import ApiKey
from keys.services import issue_key, rotate_key
from licensing.services import set_limit
from rules.models import Rule
from tests.support.management import Client
from tests.support.promises import promise

pytestmark = pytest.mark.either_store


def refused(response):
    """The response is the one that every bad credential gets; its body."""
    assert response.status_code == 401, response.text
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert response.json()["exception"] == "AuthenticationFailed"
    return response.content


def session_of(user, **options):
    return Session.objects.create(user=user, expires_at=timezone.now() + timedelta(days=1), **options)


def token_of(user, session):
    return tokens.issue_access(user_id=user.id, session=session.id.hex)


def rows(statement, *values):
    """Change rows behind the product's back, as an operator with a database shell does."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        assert cursor.rowcount == 1


def wrong_secret(key):
    """The same key with another secret and the checksum that goes with it."""
    flipped = "A" if key[secrets.SECRET_START] != "A" else "B"
    text = key[: secrets.SECRET_START] + flipped + key[secrets.SECRET_START + 1 : secrets.SECRET_END]
    return text + secrets._checksum(text)


class TestKeys:
    def test_a_good_key_is_served_and_named_in_the_log(self, world, provider):
        response = world.ask()
        assert response.status_code == 200
        entry = world.entry(response)
        assert (entry.user_id, entry.username) == (world.user.id, world.user.username)
        key = ApiKey.objects.get(owner=world.user)
        assert (entry.key_id, entry.key_name) == (key.id, key.name)

    def test_a_request_without_a_credential_is_refused_and_logged_without_a_user(self, world, provider):
        response = world.ask(headers={"Authorization": ""})
        refused(response)
        assert provider.seen == []
        entry = world.entry(response)
        assert (entry.status, entry.outcome, entry.exception) == (401, "denied", "AuthenticationFailed")
        assert (entry.user_id, entry.username, entry.key_id) == (None, "", None)

    def test_a_request_without_the_header_is_refused(self, world, provider):
        response = world.raw(b"POST /work HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}")
        assert (response.status, response.headers["WWW-Authenticate"]) == (401, "Bearer")

    @pytest.mark.parametrize(
        "header",
        [
            "Bearer",
            "Bearer ",
            "Bearer  ",
            "Bearer svc_",
            "Bearer nonsense",
            "Bearer ' OR 1=1 --",
            "Bearer svc_' OR '1'='1",
            "Bearer svc_%00",
            "Bearer ..",
            "Basic dXNlcjpwYXNz",
            "Token abc",
            "bearer:abc",
            "Bearer \u00e9\u00fc",
            "Bearer eyJhbGciOiJub25lIn0.e30.",
        ],
    )
    def test_a_malformed_credential_is_refused(self, world, provider, header):
        refused(world.ask(headers={"Authorization": header.encode("latin-1")}))
        assert provider.seen == []

    def test_the_scheme_is_read_in_any_case(self, world, provider):
        assert world.ask(headers={"Authorization": f"bEARER {world.key}"}).status_code == 200

    def test_a_key_in_another_header_or_in_the_query_is_no_credential(self, world, provider):
        response = world.session.post(
            f"{world.gateway.url}/work?key={world.key}&api_key={world.key}",
            json={"model": world.model},
            headers={"X-Api-Key": world.key, "Cookie": f"SvcAuthCookie={world.key}"},
        )
        refused(response)

    @promise("V-L7: a key is known by all of its secret", target="the same 401", suite="attack")
    def test_an_unknown_a_wrong_and_a_mistyped_key_get_the_very_same_answer(self, world, provider):
        mistyped = world.key[:-1] + ("x" if world.key[-1] != "x" else "y")
        bodies = {
            refused(world.ask(key=secrets.generate_key().text)),
            refused(world.ask(key=wrong_secret(world.key))),
            refused(world.ask(key=mistyped)),
            refused(world.ask(key=f"{world.key}a")),
        }
        assert len(bodies) == 1
        assert provider.seen == []
        assert world.ask().status_code == 200

    @pytest.mark.parametrize(
        ("text", "status"),
        [
            (b"'" * 4000, 401),
            (b"svc_" + b"a" * 8000, 401),
            (b"svc_\xff\xfe", 401),
            # No HTTP server may take these for a header, RFC 9110, 5.5; the error still has our form.
            (b"svc_\x00", 400),
            (b"\x01\x02", 400),
            (b"svc_" + b"a" * 65536, 400),
        ],
    )
    @promise("V-L1, V-L2: a key is never SQL", target="401 in the form of every error", suite="attack")
    def test_hostile_bytes_as_a_key_are_refused_in_the_form_of_every_error(self, world, provider, text, status):
        response = world.raw(
            b"POST /work HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
            b"Authorization: Bearer " + text + b"\r\n\r\n{}"
        )
        assert (response.status, json.loads(response.text)["code"]) == (status, status)
        assert response.headers["X-Svc-Request-ID"]
        assert world.ask().status_code == 200

    def test_an_expired_key_is_refused(self, world, provider):
        issued = world.new_key()
        ApiKey.objects.filter(pk=issued.key.pk).update(expiry=world.expired())
        refused(world.soon(lambda: world.ask(key=issued.text), 401))

    def test_a_key_lapses_at_its_expiry_without_a_change_to_its_row(self, world, provider):
        key = world.new_key(expiry=timezone.now() + timedelta(seconds=4)).text
        assert world.ask(key=key).status_code == 200
        refused(world.soon(lambda: world.ask(key=key), 401, 6))

    def test_a_locked_key_is_refused_until_it_is_unlocked(self, world, provider):
        issued = world.new_key()
        keys = ApiKey.objects.filter(pk=issued.key.pk)
        keys.update(locked_time=timezone.now())
        refused(world.ask(key=issued.text))
        keys.update(locked_time=None)
        world.soon(lambda: world.ask(key=issued.text), 200)

    def test_a_deleted_key_is_refused(self, world, provider):
        issued = world.new_key()
        ApiKey.objects.filter(pk=issued.key.pk).update(is_deleted=True)
        refused(world.ask(key=issued.text))

    @pytest.mark.parametrize("state", [{"is_active": False}, {"is_deleted": True}])
    def test_the_key_of_an_inactive_or_deleted_owner_is_refused(self, world, provider, state):
        owner = world.new_user()
        key = world.new_key(owner=owner).text
        User.objects.filter(pk=owner.pk).update(**state)
        refused(world.ask(key=key))

    def test_a_new_key_works_at_once(self, world, provider):
        for _ in range(3):
            assert world.ask(key=world.new_key().text).status_code == 200

    def test_a_key_that_was_asked_for_before_it_existed_works_once_it_does(self, world, provider):
        new = secrets.generate_key()
        refused(world.ask(key=new.text))
        row = world.new_key().key
        ApiKey.objects.filter(pk=row.pk).update(public_id=new.public_id, digest=new.digest)
        world.soon(lambda: world.ask(key=new.text), 200)

    def test_a_rotated_key_is_accepted_with_both_secrets_and_has_its_limits_with_both(self, world, provider):
        issued = world.new_key()
        set_limit(key=issued.key, measure="requests", window="month", amount=3)
        assert world.ask(key=issued.text).status_code == 200
        new = rotate_key(issued.key, overlap=timedelta(days=1)).text
        assert [world.ask(key=text).status_code for text in (new, issued.text, new, issued.text)] == [
            200,
            200,
            429,
            429,
        ]

    def test_a_former_secret_ends_with_its_overlap_and_with_the_next_rotation(self, world, provider):
        first = world.new_key()
        second = rotate_key(first.key, overlap=timedelta(seconds=4))
        assert world.ask(key=second.text).status_code == world.ask(key=first.text).status_code == 200
        refused(world.soon(lambda: world.ask(key=first.text), 401, 6))
        third = rotate_key(second.key, overlap=timedelta(days=1))
        assert world.ask(key=third.text).status_code == world.ask(key=second.text).status_code == 200
        rotate_key(third.key, overlap=timedelta(days=1))
        refused(world.soon(lambda: world.ask(key=second.text), 401))

    def test_the_last_use_of_a_key_is_noted(self, world, provider):
        world.ask()
        key = ApiKey.objects.filter(owner=world.user)
        world.until(lambda: key.get().last_used is not None, 8)


class TestPermissions:
    def denied(self, response):
        assert (response.status_code, response.json()["exception"]) == (403, "PermissionDenied")
        return response

    def test_a_key_without_the_permission_work_is_denied(self, world, provider):
        response = self.denied(world.ask(key=world.new_key(permissions=["models.create"]).text))
        assert provider.seen == []
        entry = world.entry(response)
        assert (entry.status, entry.outcome, entry.user_id) == (403, "denied", world.user.id)

    def test_a_key_grants_nothing_that_its_owner_has_lost(self, world, provider):
        key = world.key
        assert world.ask().status_code == 200
        world.user.roles.clear()
        self.denied(world.soon(lambda: world.ask(key=key), 403))

    def test_an_admins_key_without_the_permission_is_denied(self, world, provider):
        admin = world.new_user(roles=["admin"])
        self.denied(world.ask(key=world.new_key(owner=admin, permissions=["logs.view_all"]).text))

    def test_a_role_grants_work_through_its_feature(self, world):
        role = Role.objects.create(name=world.name("role"))
        owner = world.new_user(roles=[role.name])
        world.provider()
        world.allow(user=owner)
        session = session_of(owner)
        self.denied(world.ask(key=token_of(owner, session)))
        role.features.add(Feature.objects.get(name="work"))
        world.soon(lambda: world.ask(key=token_of(owner, session)), 200)


class TestRevocationWithinOneSecond:
    def test_a_deleted_key(self, world, provider):
        assert world.ask().status_code == 200
        ApiKey.objects.filter(owner=world.user).update(is_deleted=True)
        world.soon(world.ask, 401)

    def test_a_key_changed_with_plain_sql(self, world, provider):
        issued = world.new_key()
        assert world.ask(key=issued.text).status_code == 200
        rows("UPDATE keys_apikey SET locked_time = %s WHERE id = %s", timezone.now(), issued.key.id)
        world.soon(lambda: world.ask(key=issued.text), 401)

    def test_a_key_row_removed_with_plain_sql(self, world, provider):
        issued = world.new_key()
        assert world.ask(key=issued.text).status_code == 200
        rows("DELETE FROM keys_apikey WHERE id = %s", issued.key.id)
        world.soon(lambda: world.ask(key=issued.text), 401)

    def test_a_key_whose_expiry_moves_into_the_past(self, world, provider):
        issued = world.new_key()
        assert world.ask(key=issued.text).status_code == 200
        issued.key.expiry = world.expired()
        issued.key.save()
        world.soon(lambda: world.ask(key=issued.text), 401)

    def test_a_user_made_inactive_and_active_again(self, world, provider):
        assert world.ask().status_code == 200
        User.objects.filter(pk=world.user.pk).update(is_active=False)
        world.soon(world.ask, 401)
        rows("UPDATE accounts_user SET is_active = TRUE WHERE id = %s", world.user.id)
        world.soon(world.ask, 200)

    def test_a_rule_disabled_and_enabled_again(self, world, provider):
        assert world.ask().status_code == 200
        Rule.objects.filter(user=world.user).update(enabled=False)
        world.soon(world.ask, 403)
        rows("UPDATE rules_rule SET enabled = TRUE WHERE user_id = %s", world.user.id)
        world.soon(world.ask, 200)

    def test_a_rule_deleted(self, world, provider):
        assert world.ask().status_code == 200
        Rule.objects.filter(user=world.user).delete()
        world.soon(world.ask, 403)

    def test_a_member_taken_out_of_the_group_that_a_rule_is_for(self, world):
        world.provider()
        group = world.new_group(world.user)
        world.allow(group=group)
        assert world.ask().status_code == 200
        group.members.remove(world.user)
        world.soon(world.ask, 403)


class TestAccessTokens:
    def test_a_good_token_is_served_and_logged_without_a_key(self, world, provider):
        response = world.ask(key=token_of(world.user, session_of(world.user)))
        assert response.status_code == 200
        entry = world.entry(response)
        assert (entry.username, entry.key_id) == (world.user.username, None)

    def test_a_token_is_refused_from_the_next_request_on_after_its_session_ended(self, world, provider):
        session = session_of(world.user)
        token = token_of(world.user, session)
        assert world.ask(key=token).status_code == 200
        Session.objects.filter(pk=session.pk).update(ended_at=timezone.now())
        refused(world.ask(key=token))

    def test_the_end_of_one_session_leaves_the_other_alone(self, world, provider):
        ended, other = session_of(world.user, ended_at=timezone.now()), session_of(world.user)
        refused(world.ask(key=token_of(world.user, ended)))
        assert world.ask(key=token_of(world.user, other)).status_code == 200

    def test_a_token_is_refused_when_its_session_is_over_or_unknown(self, world, provider):
        over = Session.objects.create(user=world.user, expires_at=world.expired())
        refused(world.ask(key=token_of(world.user, over)))
        refused(world.ask(key=tokens.issue_access(user_id=world.user.id, session=uuid.uuid4().hex)))

    def test_an_expired_token_is_refused(self, world, provider, settings):
        settings.GATEWAY_ACCESS_TOKEN_SECONDS = -60
        refused(world.ask(key=token_of(world.user, session_of(world.user))))

    def test_a_token_signed_with_another_key_is_refused(self, world, provider, settings):
        session = session_of(world.user)
        settings.GATEWAY_TOKEN_KEY = "f" * 64
        refused(world.ask(key=token_of(world.user, session)))

    @pytest.mark.parametrize(
        ("changes", "algorithm"),
        [
            ({}, "none"),
            ({}, "HS512"),
            ({"token_type": "refresh"}, "HS256"),
            ({"aud": "somebody else"}, "HS256"),
            ({"iss": "somebody else"}, "HS256"),
            ({"sid": "' OR 1=1"}, "HS256"),
            ({"sub": "1e0"}, "HS256"),
            ({"exp": None}, "HS256"),
        ],
    )
    def test_a_token_that_says_anything_else_is_refused(self, world, provider, changes, algorithm):
        session = session_of(world.user)
        good = token_of(world.user, session)
        claims = jwt.decode(good, options={"verify_signature": False}) | changes
        claims = {name: value for name, value in claims.items() if value is not None}
        key = None if algorithm == "none" else ours.GATEWAY_TOKEN_KEY
        refused(world.ask(key=jwt.encode(claims, key, algorithm)))
        assert world.ask(key=good).status_code == 200

    def test_a_token_cannot_borrow_another_users_session(self, world, provider):
        other = world.new_user()
        refused(world.ask(key=tokens.issue_access(user_id=world.user.id, session=session_of(other).id.hex)))

    def test_a_token_that_names_a_key_is_the_key_and_for_work_alone(self, world, provider):
        session, key = session_of(world.user), world.issued.key
        token = tokens.issue_access(user_id=world.user.id, session=session.id.hex, key=key.public_id)
        assert world.entry(world.ask(key=token)).key_id == key.pk
        assert Client(world.gateway.url, token).get("/users/?currentUser=true").status_code == 401
        ApiKey.objects.filter(pk=key.pk).update(locked_time=timezone.now())
        world.settle()
        refused(world.ask(key=token))

    def test_a_token_cannot_name_the_key_of_another(self, world, provider):
        session = session_of(world.user)
        for key in (issue_key(owner=world.new_user(), name="theirs").key.public_id, "0" * 10, "none"):
            refused(world.ask(key=tokens.issue_access(user_id=world.user.id, session=session.id.hex, key=key)))

    @pytest.mark.parametrize("state", [{"is_active": False}, {"is_deleted": True}])
    def test_the_token_of_an_inactive_or_deleted_user_is_refused(self, world, provider, state):
        token = token_of(world.user, session_of(world.user))
        assert world.ask(key=token).status_code == 200
        User.objects.filter(pk=world.user.pk).update(**state)
        refused(world.soon(lambda: world.ask(key=token), 401))

    def test_the_token_of_a_user_without_the_feature_work_is_denied(self, world, provider):
        user = world.new_user(roles=[])
        response = world.ask(key=token_of(user, session_of(user)))
        assert (response.status_code, response.json()["exception"]) == (403, "PermissionDenied")
