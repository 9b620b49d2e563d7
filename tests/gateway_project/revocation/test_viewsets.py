"""`wait` and `cut` of the management API: read strictly, bounded, and kept in the audit."""

import json
import threading

import pytest

from gateway_project.models import Change
from gateway_project.revocation.receipts import InForce, waiters
from keys.models import ApiKey
from keys.services import issue_key
from telemetry.audit.models import AuditEntry
from tests.support.management import new_user, refused

pytestmark = pytest.mark.either_store


@pytest.fixture
def key(nobody) -> ApiKey:
    return issue_key(owner=new_user(), name="laptop").key


@pytest.mark.parametrize("name", ["wait", "cut"])
@pytest.mark.parametrize("value", ["", "yes", "1", "TRUE", "true&wait=true&cut=true"])
def test_only_true_and_false_are_taken(admin, key, name, value):
    refused(admin.delete(f"/keys/{key.pk}/?{name}={value}"), 400, "ValidationError", name)
    key.refresh_from_db()
    assert not key.is_deleted


def test_other_operations_know_neither(admin, key):
    refused(admin.send("POST", f"/keys/{key.pk}/rotate?wait=true"), 400, "ValidationError", "wait")
    refused(admin.delete("/providers/1/?wait=true"), 400, "ValidationError", "wait")


def test_without_them_nothing_is_ordered_and_nothing_answered(admin, key):
    assert admin.delete(f"/keys/{key.pk}/?wait=false&cut=false").json() == {}
    assert not Change.objects.filter(kind__startswith="cut_").exists()
    assert not AuditEntry.objects.filter(action__in=["cut", "revocation in force"]).exists()


def test_every_resource_answers_where_it_is_in_force(admin, key):
    user = key.owner
    group = admin.post("/groups/", name="team", members=[{"id": user.pk}]).headers["GroupId"]
    responses = [
        admin.patch(f"/keys/{key.pk}/?wait=true", locked=True),
        admin.delete(f"/keys/{key.pk}/?wait=true"),
        admin.delete(f"/keys/?user={user.pk}&wait=true"),  # nothing is left: what was changed before is waited for
        admin.delete(f"/groups/{group}/members/{user.pk}/?wait=true"),
        admin.patch(f"/groups/{group}/?wait=true", name="other"),
        admin.delete(f"/groups/{group}/?wait=true"),
        admin.patch(f"/users/{user.pk}/?wait=true", active=False),
        admin.delete(f"/users/{user.pk}/?wait=true"),
    ]
    for response in responses:
        assert response.status_code == 200, response.text
        assert response.json()["inForce"].keys() == {"workers", "acknowledged", "seconds"}
    receipts = AuditEntry.objects.filter(action="revocation in force").order_by("id")
    assert [row.resource for row in receipts] == ["keys"] * 3 + ["members"] + ["groups"] * 2 + ["users"] * 2
    assert [row.resource_id for row in receipts[:3]] == [key.pk, key.pk, None]
    assert json.loads(receipts[0].after) == responses[0].json()["inForce"]


def test_a_cut_is_ordered_with_the_change_and_kept_in_the_audit(admin, key):
    assert admin.delete(f"/keys/{key.pk}/?cut=true").json() == {}
    assert list(Change.objects.filter(kind="cut_key").values_list("row_id", flat=True)) == [key.pk]
    (row,) = AuditEntry.objects.filter(action="cut")
    assert row.message.endswith(f" ends the running requests of key {key.pk}.")
    assert json.loads(row.after) == {"credentials": [f"key {key.pk}"]}


def test_a_change_that_is_refused_orders_nothing(admin, nobody, key):
    refused(admin.delete("/keys/999999/?cut=true&wait=true"), 404, "NotFound")
    refused(nobody.as_user(new_user()).delete(f"/keys/{key.pk}/?cut=true"), 404, "NotFound")
    refused(nobody.delete(f"/keys/{key.pk}/?cut=true&wait=true"), 401, "AuthenticationFailed")
    assert not Change.objects.filter(kind="cut_key").exists()


def test_who_owns_a_key_may_end_what_it_runs(nobody, key):
    assert nobody.as_user(key.owner).delete(f"/keys/{key.pk}/?cut=true").status_code == 200
    assert Change.objects.filter(kind="cut_key", row_id=key.pk).exists()


def test_all_members_of_a_group_are_meant_as_they_were_before(admin, key):
    users = [new_user().pk for _ in range(3)]
    group = admin.post("/groups/", name="team", members=[{"id": pk} for pk in users]).headers["GroupId"]
    assert admin.patch(f"/groups/{group}/?cut=true", members=[{"id": users[0]}]).status_code == 200
    ordered = Change.objects.filter(kind="cut_user").values_list("row_id", flat=True)
    assert sorted(ordered) == sorted(users)


def test_too_many_who_wait_are_refused_before_anything_is_changed(admin, nobody, key, settings):
    settings.GATEWAY_THREADS = 16  # so two may wait
    other = nobody.as_user(new_user())
    own = issue_key(owner=new_user(), name="own").key
    with waiters.place(1), waiters.place(2):
        refused(admin.delete(f"/keys/{key.pk}/?wait=true"), 503, "ServiceUnavailable", "without wait")
        assert other.delete("/keys/?wait=false").status_code == 200
        assert admin.delete(f"/keys/{own.pk}/").status_code == 200
    key.refresh_from_db()
    assert not key.is_deleted
    assert admin.delete(f"/keys/{key.pk}/?wait=true").status_code == 200


def test_places_of_those_who_wait_are_given_back():
    def wait() -> None:
        with waiters.place(7):
            pass

    threads = [threading.Thread(target=wait) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert waiters._by_user.total() == 0


@pytest.mark.parametrize(
    ("in_force", "cuts", "sentence"),
    [
        (InForce(4, 4, 0.412), False, "In force on 4 of 4 workers after 0.4 s."),
        (InForce(1, 1, 0.02, 1), True, "In force on 1 of 1 worker after 0.0 s. 1 running request was ended."),
        (InForce(2, 1, 10.0, 0), True, "In force on 1 of 2 workers after 10.0 s. 0 running requests were ended."),
    ],
)
def test_it_is_said_in_plain_words(in_force, cuts, sentence):
    assert in_force.sentence(cuts=cuts) == sentence
