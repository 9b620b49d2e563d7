"""Keys and users in the snapshot: what is loaded, and what a change loads again."""

import math
import time
import tracemalloc
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from accounts.models import Feature, Group, Role, User
from accounts.services import create_user
from gateway_project.work.snapshot import loading
from gateway_project.work.snapshot.records import Snapshot
from keys.models import ApiKey
from keys.services import issue_key, rotate_key
from providers.services import (
    create_provider,
)
from tests.support.pace import slowness
from tests.support.snapshot_loading import loaded

pytestmark = pytest.mark.django_db


def many_keys(owner, number, **options):
    rows = [
        ApiKey(owner=owner, name=f"k{n}", public_id=f"p{n:09d}", digest=b"x" * 32, permissions=["work"], **options)
        for n in range(number)
    ]
    return ApiKey.objects.bulk_create(rows, batch_size=2_000)


def test_a_key_is_what_its_row_says(ann):
    provider = create_provider(name="p", url="https://api.example.org", format_name="openai")
    expiry = datetime(2030, 1, 1, tzinfo=UTC)
    issued = issue_key(owner=ann, name="laptop", expiry=expiry, provider=provider)
    key = loaded().keys[issued.key.public_id]
    assert (key.id, key.name, key.owner_id, key.provider_id) == (issued.key.id, "laptop", ann.id, provider.id)
    assert (key.expires, key.locked, key.permissions) == (expiry.timestamp(), False, frozenset({"work"}))
    assert key.digest == bytes(issued.key.digest)
    assert type(key.digest) is bytes


def test_a_locked_key_is_known_as_locked_and_a_deleted_one_not_at_all(ann):
    locked, deleted, lasting = (issue_key(owner=ann, name=name).key for name in "abc")
    ApiKey.objects.filter(id=locked.id).update(locked_time=timezone.now())
    ApiKey.objects.filter(id=deleted.id).update(is_deleted=True)
    ApiKey.objects.filter(id=lasting.id).update(expiry=None)
    keys = loaded().keys
    assert keys[locked.public_id].locked
    assert deleted.public_id not in keys
    assert keys[lasting.public_id].expires == math.inf


def test_some_keys_are_brought_up_to_date_and_the_others_left(ann, snapshot):
    rest, changed, removed = (issue_key(owner=ann, name=name).key for name in "abc")
    loading.load_rows(snapshot, "key", {0})
    before = snapshot.keys[rest.public_id]
    ApiKey.objects.filter(id=changed.id).update(name="new")
    ApiKey.objects.filter(id=removed.id).delete()
    loading.load_rows(snapshot, "key", {changed.id, removed.id, 999_999})
    assert snapshot.keys[rest.public_id] is before
    assert snapshot.keys[changed.public_id].name == "new"
    assert removed.public_id not in snapshot.keys


def test_a_rotated_key_is_known_by_both_of_its_secrets_and_no_third(ann):
    key = issue_key(owner=ann, name="laptop").key
    snapshot, ids, digests = loaded(), [key.public_id], [bytes(key.digest)]
    for _ in range(2):
        rotate_key(key, overlap=timedelta(hours=1))
        ids.append(key.public_id)
        digests.append(bytes(key.digest))
        loading.load_rows(snapshot, "key", {key.id})
    for memory in (snapshot, loaded()):
        assert {public_id: values.digest for public_id, values in memory.keys.items()} == dict(
            zip(ids[1:], digests[1:], strict=True)
        )
        assert {values.id for values in memory.keys.values()} == memory.public_ids.keys() == {key.id}
        assert memory.keys[ids[1]].expires == key.former_until.timestamp()
        assert memory.keys[ids[2]].expires == key.expiry.timestamp()
    for public_id in ids:
        empty = Snapshot()
        loading.load_wanted_keys(empty, {public_id})
        assert empty.keys.keys() == (set() if public_id == ids[0] else set(ids[1:]))
    ApiKey.objects.update(is_deleted=True)
    loading.load_rows(snapshot, "key", {key.id})
    assert (snapshot.keys, snapshot.public_ids) == ({}, {})


def test_memory_holds_the_keys_that_were_used_last(ann, settings):
    settings.GATEWAY_SNAPSHOT_KEYS = 3
    keys = many_keys(ann, 6)
    for age, key in enumerate(keys[:4]):
        ApiKey.objects.filter(id=key.id).update(last_used=timezone.now() - timedelta(hours=age))
    snapshot = loaded()
    assert snapshot.keys.keys() == {key.public_id for key in keys[:3]}
    assert not snapshot.keys_complete


def test_a_key_that_comes_to_a_full_memory_takes_the_place_of_the_longest_unused(ann, settings):
    settings.GATEWAY_SNAPSHOT_KEYS = 3
    keys = many_keys(ann, 4)
    for age, key in enumerate(keys):
        ApiKey.objects.filter(id=key.id).update(last_used=timezone.now() - timedelta(hours=age))
    snapshot = loaded()
    loading.load_wanted_keys(snapshot, {keys[3].public_id, "nosuch"})
    assert snapshot.keys.keys() == {keys[number].public_id for number in (0, 1, 3)}
    assert snapshot.public_ids.keys() == {keys[number].id for number in (0, 1, 3)}
    issued = issue_key(owner=ann, name="rotated")
    loading.load_rows(snapshot, "key", {rotate_key(issued.key, overlap=timedelta(hours=1)).key.id})
    assert len(snapshot.keys) == 3
    loading.load_wanted_keys(snapshot, {keys[2].public_id, keys[3].public_id})
    assert {values.id for values in snapshot.keys.values()} == snapshot.public_ids.keys()


def test_memory_that_has_room_for_all_keys_is_complete(ann, settings):
    settings.GATEWAY_SNAPSHOT_KEYS = 4
    keys = many_keys(ann, 3)
    assert loaded().keys_complete
    unreadable, _ = [issue_key(owner=ann, name=name).key for name in "ab"]
    ApiKey.objects.filter(id=unreadable.id).update(permissions={"not": "a list"})
    assert not loaded().keys_complete, "one that cannot be read takes a place, and another one is left out"
    assert keys[0].public_id not in loaded().keys


def test_a_key_that_is_looked_up_comes_with_its_owner(snapshot):
    loading.load_all(snapshot)
    owner = create_user(username="new", password="a long pass phrase")
    key = issue_key(owner=owner, name="k").key
    loading.load_wanted_keys(snapshot, {key.public_id})
    assert snapshot.keys[key.public_id].owner_id in snapshot.callers


def test_a_user_has_the_features_of_all_roles_and_all_groups(ann):
    group, other = Group.objects.create(name="a"), Group.objects.create(name="b")
    for each in (group, other):
        each.members.add(ann)
    caller = loaded("user").callers[ann.id]
    assert (caller.name, caller.usable) == ("ann", True)
    assert set(caller.group_ids) == {group.id, other.id}
    assert caller.features == {"work", "models.create"}


def test_a_change_of_a_group_loads_who_is_or_was_in_it_or_below(ann, snapshot):
    upper, lower, other = (Group.objects.create(name=name) for name in ("upper", "lower", "other"))
    bob = create_user(username="bob", password="a long pass phrase")
    lower.members.add(ann)
    other.members.add(bob)
    loading.load_all(snapshot)
    unchanged = snapshot.callers[bob.id]
    Group.objects.filter(id=lower.id).update(parent=upper)
    loading.load_rows(snapshot, "group", {lower.id})
    assert set(snapshot.callers[ann.id].group_ids) == {lower.id, upper.id}
    Group.objects.filter(id=upper.id).update(parent=other)
    loading.load_rows(snapshot, "group", {upper.id})
    assert set(snapshot.callers[ann.id].group_ids) == {lower.id, upper.id, other.id}
    Group.objects.filter(id=upper.id).update(parent=None)
    loading.load_rows(snapshot, "group", {upper.id})
    Group.objects.filter(id=lower.id).delete()
    loading.load_rows(snapshot, "group", {lower.id})
    assert snapshot.callers[ann.id].group_ids == ()
    assert snapshot.callers[bob.id] is unchanged
    loading.load_rows(snapshot, "group", {0})
    assert snapshot.callers[bob.id].group_ids == (other.id,)


def test_a_change_for_many_users_loads_all(ann, snapshot, monkeypatch):
    monkeypatch.setattr(loading, "LOAD_ALL_ABOVE", 1)
    group = Group.objects.create(name="all")
    bob = create_user(username="bob", password="a long pass phrase")
    loading.load_all(snapshot)
    unchanged = snapshot.callers[bob.id]
    group.members.add(ann)
    loading.load_rows(snapshot, "group", {group.id})
    assert snapshot.callers[ann.id].group_ids == (group.id,)
    assert snapshot.callers[bob.id] is unchanged
    group.members.add(bob)
    for kind, row in (("group", group), ("role", Role.objects.get(name="user"))):
        unchanged = snapshot.callers[bob.id]
        loading.load_rows(snapshot, kind, {row.id})
        assert snapshot.callers[bob.id] is not unchanged
    assert snapshot.callers[bob.id].group_ids == (group.id,)


def test_a_change_of_a_role_loads_who_has_it(ann, snapshot):
    role = Role.objects.create(name="reader")
    bob = create_user(username="bob", password="a long pass phrase")
    ann.roles.add(role)
    loading.load_all(snapshot)
    unchanged = snapshot.callers[bob.id]
    role.features.add(Feature.objects.get(name="logs.view_all"))
    loading.load_rows(snapshot, "role", {role.id})
    assert "logs.view_all" in snapshot.callers[ann.id].features
    assert snapshot.callers[bob.id] is unchanged


def test_roles_that_the_same_users_have_count_each_user_once(ann, snapshot, monkeypatch):
    monkeypatch.setattr(loading, "LOAD_ALL_ABOVE", 3)
    roles = [Role.objects.create(name=name) for name in ("reader", "writer")]
    users = [ann, *(create_user(username=name, password="a long pass phrase") for name in ("bob", "cem"))]
    for role in roles:
        role.features.add(Feature.objects.get(name="logs.view_all"))
    for user in users:
        user.roles.add(*roles[users.index(user) // 2 :])  # the last one has one of them
    loading.load_all(snapshot)
    Role.features.through.objects.filter(role__in=roles).delete()
    loading.load_rows(snapshot, "role", {role.id for role in roles})
    assert not any("logs.view_all" in snapshot.callers[user.id].features for user in users)


def test_an_admin_has_every_feature_there_is():
    admin = create_user(username="root", password="a long pass phrase", roles=["admin"])
    Feature.objects.create(name="new.feature")
    assert loaded("user").callers[admin.id].features == set(Feature.objects.values_list("name", flat=True))


@pytest.mark.parametrize("change", [{"is_active": False}, {"is_deleted": True}])
def test_a_user_who_is_inactive_or_deleted_is_known_as_unusable(ann, change):
    User.objects.filter(id=ann.id).update(**change)
    assert not loaded("user").callers[ann.id].usable


def test_one_users_change_leaves_the_others(ann, snapshot):
    bob = create_user(username="bob", password="a long pass phrase")
    loading.load_rows(snapshot, "user", {0})
    before = snapshot.callers[bob.id]
    User.objects.filter(id=ann.id).update(is_active=False)
    loading.load_rows(snapshot, "user", {ann.id, 999_999})
    assert snapshot.callers[bob.id] is before
    assert not snapshot.callers[ann.id].usable


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_hundred_thousand_keys_load_in_seconds_and_a_kilobyte_each(ann, settings):
    many_keys(ann, 100_000, expiry=timezone.now())
    begun = time.perf_counter()
    assert len(loaded().keys) == 100_000
    assert time.perf_counter() - begun < 10 * slowness()
    tracemalloc.start()
    snapshot = loaded()
    rest, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(snapshot.keys) == 100_000
    assert rest / 100_000 < 700
    assert most / 100_000 < 2_500
