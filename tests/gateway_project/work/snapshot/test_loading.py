"""What is read into memory says what the tables say, in bounded memory and time."""

import math
import time
import tracemalloc
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from accounts.models import Feature, Group, User
from accounts.services import create_user
from gateway_project.work.limits.kinds import Subject
from gateway_project.work.snapshot import loading
from gateway_project.work.snapshot.records import Snapshot
from keys.models import ApiKey
from keys.services import issue_key, rotate_key
from licensing.models import Limit
from providers.models import Provider
from providers.services import change_price, create_provider, end_price, set_price
from rules.models import Rule
from rules.services import create_rule

pytestmark = pytest.mark.django_db


@pytest.fixture
def snapshot():
    return Snapshot()


@pytest.fixture
def ann():
    return create_user(username="ann", password="a long pass phrase")


def loaded(kind="key"):
    snapshot = Snapshot()
    loading.load(snapshot, kind, {0})
    return snapshot


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
    kept, changed, gone = (issue_key(owner=ann, name=name).key for name in "abc")
    loading.load(snapshot, "key", {0})
    before = snapshot.keys[kept.public_id]
    ApiKey.objects.filter(id=changed.id).update(name="new")
    ApiKey.objects.filter(id=gone.id).delete()
    loading.load(snapshot, "key", {changed.id, gone.id, 999_999})
    assert snapshot.keys[kept.public_id] is before
    assert snapshot.keys[changed.public_id].name == "new"
    assert gone.public_id not in snapshot.keys


def test_a_rotated_key_is_known_by_both_of_its_secrets_and_no_third(ann):
    key = issue_key(owner=ann, name="laptop").key
    snapshot, ids, digests = loaded(), [key.public_id], [bytes(key.digest)]
    for _ in range(2):
        rotate_key(key, overlap=timedelta(hours=1))
        ids.append(key.public_id)
        digests.append(bytes(key.digest))
        loading.load(snapshot, "key", {key.id})
    for memory in (snapshot, loaded()):
        assert {public_id: known.digest for public_id, known in memory.keys.items()} == dict(
            zip(ids[1:], digests[1:], strict=True)
        )
        assert {known.id for known in memory.keys.values()} == memory.public_ids.keys() == {key.id}
        assert memory.keys[ids[1]].expires == key.former_until.timestamp()
        assert memory.keys[ids[2]].expires == key.expiry.timestamp()
    for public_id in ids:
        empty = Snapshot()
        loading.load_wanted_keys(empty, {public_id})
        assert empty.keys.keys() == (set() if public_id == ids[0] else set(ids[1:]))
    ApiKey.objects.update(is_deleted=True)
    loading.load(snapshot, "key", {key.id})
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
    loading.load(snapshot, "key", {rotate_key(issued.key, overlap=timedelta(hours=1)).key.id})
    assert len(snapshot.keys) == 3
    loading.load_wanted_keys(snapshot, {keys[2].public_id, keys[3].public_id})
    assert {known.id for known in snapshot.keys.values()} == snapshot.public_ids.keys()


def test_memory_that_has_room_for_all_keys_is_complete(ann, settings):
    settings.GATEWAY_SNAPSHOT_KEYS = 4
    many_keys(ann, 3)
    assert loaded().keys_complete


def test_a_user_has_the_features_of_all_roles_and_all_groups(ann):
    group, other = Group.objects.create(name="a"), Group.objects.create(name="b")
    for each in (group, other):
        each.members.add(ann)
    caller = loaded("user").callers[ann.id]
    assert (caller.name, caller.usable) == ("ann", True)
    assert set(caller.group_ids) == {group.id, other.id}
    assert caller.features == {"work", "models.create"}


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
    loading.load(snapshot, "user", {0})
    before = snapshot.callers[bob.id]
    User.objects.filter(id=ann.id).update(is_active=False)
    loading.load(snapshot, "user", {ann.id, 999_999})
    assert snapshot.callers[bob.id] is before
    assert not snapshot.callers[ann.id].usable


def test_rules_come_enabled_and_compiled_and_a_broken_one_matches_nothing(ann, caplog):
    good, broken, off = (create_rule(name=name, user_id=0, regex="gpt.*") for name in ("good", "broken", "off"))
    Rule.objects.filter(id=broken.id).update(regex="(")
    Rule.objects.filter(id=off.id).update(enabled=False)
    snapshot = loaded("rule")
    assert snapshot.rule_rows.keys() == {good.id}
    assert "broken" in caplog.text
    assert snapshot.rules.first(user_id=1, group_ids=(), model="gpt-5", provider_ids=()).id == good.id


def test_a_provider_comes_with_its_models_credential_and_patience(settings):
    row = create_provider(
        name="p", url="https://api.example.org/v1", format_name="openai", credential="sk-1", models=["a", "b"],
        connect_timeout_seconds=1.5, cache_ttl_seconds=0, auth_method="bearer",
    )  # fmt: skip
    provider = loaded("provider").providers[row.id]
    assert (provider.models, provider.credential, provider.format.name) == ({"a", "b"}, "sk-1", "openai")
    assert provider.auth_headers == {"Authorization": "Bearer sk-1"}
    assert (provider.transport_limits.connect, provider.transport_limits.idle) == (1.5, settings.GATEWAY_IDLE_TIMEOUT)
    assert (provider.cache_seconds, provider.cache_scope) == (0, settings.GATEWAY_CACHE_SCOPE)


def test_a_provider_whose_credential_cannot_be_read_is_left_out_and_said(caplog):
    row = create_provider(name="sealed", url="https://api.example.org", format_name="openai", credential="sk-secret")
    create_provider(name="fine", url="https://api.example.org", format_name="openai")
    Provider.objects.filter(id=row.id).update(credential="nonsense")
    assert set(loaded("provider").providers_by_name) == {"fine"}
    assert "sealed" in caplog.text
    assert "sk-secret" not in caplog.text


def test_a_disabled_provider_is_not_there():
    row = create_provider(name="p", url="https://api.example.org", format_name="openai", models=["m"])
    Provider.objects.filter(id=row.id).update(enabled=False)
    assert loaded("provider").targets_for("m") == ()


def test_a_providers_name_of_any_alphabet_can_be_a_header():
    row = create_provider(name="Küche €", url="https://api.example.org", format_name="openai")
    assert loaded("provider").providers[row.id].header_name.isascii()


def amounts(limits, kind, subject_id):
    checks = limits.checks_for(Subject(kind, subject_id))
    return {f"{check.limit.measure} a {check.limit.window}": check.amount for check in checks}


def test_limits_are_known_by_whose_they_are_and_of_what(ann):
    key = issue_key(owner=ann, name="k").key
    Limit.objects.create(key=key, measure="requests", window="minute", amount=7)
    Limit.objects.create(key=key, measure="requests", window="day", amount=8)
    Limit.objects.create(user=ann, measure="requests", window="minute", amount=9)
    limits = loaded("limit").limits
    assert amounts(limits, "key", key.id) == {"requests a minute": 7, "requests a day": 8}
    assert amounts(limits, "user", ann.id) == {"requests a minute": 9}
    assert amounts(limits, "key", 0) == {"requests a minute": 600}


def test_prices_that_hold_or_will_are_known_by_the_providers_address():
    row = create_provider(name="p", url="https://API.example.org:8443/v1", format_name="openai", models=["m"])
    amounts = {"currency": "USD", "input": Decimal(1), "output": Decimal(2)}
    gone, held = set_price(host="api.example.org", model="m", **amounts), set_price(model="*", **amounts)
    later = timezone.now() + timedelta(hours=1)
    change_price(held, input=Decimal(5), valid_from=later)
    snapshot = Snapshot()
    loading.load_all(snapshot)
    (target,) = snapshot.targets_for("m")
    assert target.provider.id == row.id
    assert snapshot.price(target, time.time()) == gone.price
    end_price(gone)
    loading.load(snapshot, "price", {0})
    assert snapshot.price(target, time.time() + 1) == held.price
    assert snapshot.price(target, later.timestamp()).input == 5


def test_everything_is_read_at_once(snapshot):
    loading.load_all(snapshot)
    assert snapshot.loaded


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_hundred_thousand_keys_load_in_seconds_and_a_kilobyte_each(ann, settings):
    many_keys(ann, 100_000, expiry=timezone.now())
    begun = time.perf_counter()
    assert len(loaded().keys) == 100_000
    assert time.perf_counter() - begun < 10
    tracemalloc.start()
    snapshot = loaded()
    kept, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(snapshot.keys) == 100_000
    assert kept / 100_000 < 700
    assert most / 100_000 < 2_500
