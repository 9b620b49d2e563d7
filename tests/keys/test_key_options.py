"""Restrictions of keys over HTTP: while a key is created, and later."""

from datetime import timedelta

import pytest
from django.utils import timezone

from keys.models import ApiKey
from keys.own_limits import SCHEMA
from keys.services import issue_key, update_key
from licensing.models import Limit, Measure, Unpriced, Window
from tests.support.management import new_user, refused

pytestmark = pytest.mark.either_store

OPTIONS = {
    "models": ["gpt-.*", "fast"],
    "networks": ["192.0.2.0/24", "2001:db8::/32"],
    "notBefore": "2026-01-01T00:00:00Z",
    "tags": {"team_a": "search", "costCentre": "7"},
    "maxTokensPerRequest": 500,
    "contentLogging": "redacted",
}
EMPTY = {
    "models": [],
    "networks": [],
    "notBefore": None,
    "tags": {},
    "maxTokensPerRequest": None,
    "contentLogging": "default",
}


def row_of(client, key_id):
    return client.get(f"/keys/{key_id}/", flat=True).json()["data"]


def test_they_are_stored_and_shown_in_both_shapes(admin):
    response = admin.post("/keys/", name="laptop", **OPTIONS)
    assert response.status_code == 201, response.text
    key = ApiKey.objects.get()
    assert {name: row_of(admin, key.pk)[name] for name in OPTIONS} == OPTIONS
    attributes = admin.get(f"/keys/{key.pk}/").json()["data"]["attributes"]
    assert {name: attributes[name] for name in OPTIONS} == OPTIONS


def test_a_key_has_none_by_default(as_ann):
    as_ann.post("/keys/", name="laptop")
    row = row_of(as_ann, ApiKey.objects.get().pk)
    assert {name: row[name] for name in EMPTY} == EMPTY


@pytest.mark.parametrize("name", OPTIONS)
def test_each_is_changed_alone_and_can_be_taken_away(admin, name):
    admin.post("/keys/", name="laptop")
    key = ApiKey.objects.get()
    assert admin.patch("/keys/", name="laptop", **{name: OPTIONS[name]}).status_code == 200
    row = row_of(admin, key.pk)
    assert {option: row[option] for option in EMPTY} == EMPTY | {name: OPTIONS[name]}
    assert admin.patch("/keys/", name="laptop", **{name: EMPTY[name]}).status_code == 200
    row = row_of(admin, key.pk)
    assert {option: row[option] for option in EMPTY} == EMPTY


@pytest.mark.parametrize(
    ("name", "value", "pointer"),
    [
        ("models", ["ok", "("], "models/1"),
        ("models", None, "models"),
        ("models", "gpt", "models"),
        ("networks", ["10.0.0.1/8"], "networks/0"),
        ("networks", {}, "networks"),
        ("notBefore", "soon", "notBefore"),
        ("notBefore", 5, "notBefore"),
        ("tags", {"a b": "c"}, "tags"),
        ("tags", ["a"], "tags"),
        ("maxTokensPerRequest", 0, "maxTokensPerRequest"),
        ("maxTokensPerRequest", "5", "maxTokensPerRequest"),
        ("maxTokensPerRequest", 10**10, "maxTokensPerRequest"),
        ("contentLogging", "full", "contentLogging"),
        ("contentLogging", None, "contentLogging"),
        ("permissions", [{"name": "no.such"}], "permissions"),
        ("limits", {}, "limits"),
        ("limits", ["a"], "limits/0"),
        ("limits", [{"measure": "requests", "window": "day"}], "limits/0/amount"),
        ("limits", [{"measure": "requests", "window": "day", "amount": 5, "no": 1}], "limits/0/no"),
        ("limits", [{"measure": "requests", "window": "day", "amount": 5, "no such": 1}], "limits/0"),
        ("limits", [{"measure": "requests", "amount": 5}], "limits/0/window"),
        ("limits", [{"measure": "requests", "window": "day", "amount": 0.5}], "limits/0/amount"),
    ],
)  # fmt: skip
def test_a_wrong_one_is_refused_by_its_name(admin, name, value, pointer):
    response = admin.post("/keys/", name="laptop", **{name: value})
    refused(response, 400, "ValidationError")
    assert [one["source"]["pointer"] for one in response.json()["errors"]] == [f"/data/attributes/{pointer}"]
    assert not ApiKey.objects.exists()
    if name != "limits":
        admin.post("/keys/", name="laptop")
        response = admin.patch("/keys/", name="laptop", **{name: value})
        refused(response, 400, "ValidationError")
        assert [one["source"]["pointer"] for one in response.json()["errors"]] == [f"/data/attributes/{pointer}"]


def test_a_key_ends_after_it_begins(as_ann):
    soon, later = ((timezone.now() + timedelta(days=days)).isoformat() for days in (1, 2))
    response = as_ann.post("/keys/", name="a", notBefore=later, expiry=soon)
    refused(response, 400, "ValidationError", "notBefore", "before the expiry")
    assert as_ann.post("/keys/", name="a", notBefore=soon, expiry=later).status_code == 201
    earlier = (timezone.now() + timedelta(hours=1)).isoformat()
    refused(as_ann.patch("/keys/", name="a", expiry=earlier), 400, "ValidationError", "expiry", "after notBefore")
    assert as_ann.patch("/keys/", name="a", notBefore=None, expiry=earlier).status_code == 200


class TestExpiryAndPermissions:
    def test_the_expiry_moves_both_ways_and_away(self, as_ann):
        as_ann.post("/keys/", name="a")
        for expiry in ("2100-01-01T00:00:00Z", "2099-01-01T00:00:00Z", None):
            assert as_ann.patch("/keys/", name="a", expiry=expiry).status_code == 200
            assert row_of(as_ann, ApiKey.objects.get().pk)["expiry"] == expiry

    def test_it_lies_in_the_future_and_within_the_bound(self, as_ann, settings):
        as_ann.post("/keys/", name="a")
        refused(as_ann.patch("/keys/", name="a", expiry="2020-01-01T00:00:00Z"), 400, "ValidationError", "future")
        settings.GATEWAY_KEY_MAX_DAYS = 30
        for expiry in (None, "2100-01-01T00:00:00Z"):
            refused(as_ann.patch("/keys/", name="a", expiry=expiry), 400, "ValidationError", "30 days")

    def test_an_expired_key_stays_expired(self, as_ann):
        as_ann.post("/keys/", name="a")
        as_ann.patch("/keys/", name="a", expire=True)
        refused(as_ann.patch("/keys/", name="a", expiry="2100-01-01T00:00:00Z"), 409, "Conflict", "Issue a new one")
        refused(as_ann.patch("/keys/", name="a", expiry=None, expire=True), 400, "ValidationError", "either")

    def test_permissions_are_at_most_the_owners(self, as_ann, ann):
        as_ann.post("/keys/", name="a")
        names = [{"name": "models.create"}, {"name": "WORK"}]
        assert as_ann.patch("/keys/", name="a", permissions=names).status_code == 200
        assert ApiKey.objects.get().permissions == ["models.create", "work"]
        response = as_ann.patch("/keys/", name="a", permissions=[{"name": "rules.view"}])
        refused(response, 403, "PermissionDenied", "rules.view")
        assert ApiKey.objects.get().permissions == ["models.create", "work"]

    def test_an_admin_gives_another_users_key_no_more_than_that_user_has(self, admin, ann):
        key = issue_key(owner=ann, name="a").key
        refused(admin.patch("/keys/", id=key.pk, permissions=[{"name": "rules.view"}]), 403, "PermissionDenied")
        assert admin.patch("/keys/", id=key.pk, permissions=[{"name": "models.create"}]).status_code == 200

    def test_a_whole_row_can_be_sent_back(self, admin, as_ann, ann):
        key = issue_key(owner=ann, name="a", models=["gpt-.*"], content_logging="none").key
        row = row_of(as_ann, key.pk)
        assert as_ann.patch("/keys/", **row).status_code == 200
        assert row_of(as_ann, key.pk) == row


class TestContentLogging:
    def test_only_an_admin_hides_what_the_log_keeps(self, as_ann, admin, ann):
        refused(as_ann.post("/keys/", name="a", contentLogging="none"), 403, "PermissionDenied", "contentLogging")
        as_ann.post("/keys/", name="a")
        refused(as_ann.patch("/keys/", name="a", contentLogging="redacted"), 403, "PermissionDenied", "admin")
        key = ApiKey.objects.get()
        assert admin.patch("/keys/", id=key.pk, contentLogging="none").status_code == 200
        refused(as_ann.patch("/keys/", name="a", contentLogging="redacted"), 403, "PermissionDenied", "admin")
        assert as_ann.patch("/keys/", name="a", contentLogging="default").status_code == 200


class TestOwnLimits:
    def test_they_are_stored_with_the_key(self, as_ann):
        limits = [
            {"measure": "requests", "window": "day", "amount": 100},
            {"measure": "cost", "window": "month", "amount": "12.5", "strict": True},
            {"measure": "concurrent", "amount": 2},
        ]
        assert as_ann.post("/keys/", name="a", limits=limits).status_code == 201
        rows = Limit.objects.filter(key__name="a").values_list("measure", "window", "amount", "is_strict")
        assert {(measure, window, float(amount), strict) for measure, window, amount, strict in rows} == {
            ("requests", "day", 100.0, False),
            ("cost", "month", 12.5, True),
            ("concurrent", "none", 2.0, False),
        }

    def test_one_that_is_refused_leaves_no_key(self, as_ann):
        twice = [{"measure": "requests", "window": "day", "amount": 100}] * 2
        refused(as_ann.post("/keys/", name="a", limits=twice), 409, "Conflict")
        assert not ApiKey.objects.exists()
        assert not Limit.objects.filter(key__isnull=False).exists()

    @pytest.mark.parametrize(
        "limit",
        [
            {"measure": "requests", "window": "minute", "amount": 601},
            {"measure": "tokens", "window": "day", "amount": 0},
            {"measure": "cost", "window": "day", "amount": 5, "unpriced": "ignore"},
        ],
    )
    def test_only_an_admin_sets_wider_ones_than_the_defaults(self, as_ann, admin, limit):
        refused(as_ann.post("/keys/", name="a", limits=[limit]), 403, "PermissionDenied", "only an admin")
        assert admin.post("/keys/", name="a", limits=[limit]).status_code == 201

    def test_the_schema_has_the_values_of_limits(self):
        properties = SCHEMA["items"]["properties"]
        values = {name: properties[name]["enum"] for name in ("measure", "window", "unpriced")}
        assert values == {"measure": Measure.values, "window": Window.values, "unpriced": Unpriced.values}


class TestManagement:
    def key(self, **options):
        return issue_key(owner=new_user(), name="a", permissions=["models.create"], **options)

    def test_a_key_is_refused_outside_of_its_networks(self, nobody):
        assert nobody.with_credential(self.key(networks=["127.0.0.1", "::1"]).text).get("/keys/").status_code == 200
        answer = nobody.with_credential(self.key(networks=["192.0.2.0/24"]).text).get("/keys/")
        refused(answer, 403, "PermissionDenied", "may not be used from the address 127.0.0.1")

    def test_a_key_is_refused_before_its_beginning(self, nobody):
        issued = self.key(not_before=timezone.now() + timedelta(hours=1))
        refused(nobody.with_credential(issued.text).get("/keys/"), 401, "AuthenticationFailed")
        update_key(issued.key, not_before=timezone.now() - timedelta(hours=1))
        assert nobody.with_credential(issued.text).get("/keys/").status_code == 200
