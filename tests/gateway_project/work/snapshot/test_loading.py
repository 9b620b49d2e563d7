"""What is read into memory says what the tables say, in bounded memory and time."""

import math
import time
import tracemalloc
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from accounts.models import Feature, Group, Role, User
from accounts.services import create_user
from gateway_project.work.limits.kinds import Subject
from gateway_project.work.snapshot import loading
from gateway_project.work.snapshot.records import Snapshot
from keys.models import ApiKey
from keys.services import issue_key, rotate_key
from licensing.models import Limit
from providers.models import Provider
from providers.pricing.facts import NOTHING_KNOWN
from providers.sealing import reseal_credentials
from providers.services import (
    add_credential,
    add_model,
    change_model,
    change_price,
    create_provider,
    end_price,
    set_price,
    update_provider,
)
from rules.aliases.drafts import MirrorDraft, TargetDraft
from rules.aliases.services import create_alias
from rules.models import Rule
from rules.services import create_rule
from tests.support.pace import slowness

pytestmark = pytest.mark.django_db


@pytest.fixture
def snapshot():
    return Snapshot()


@pytest.fixture
def ann():
    return create_user(username="ann", password="a long pass phrase")


def loaded(kind="key"):
    snapshot = Snapshot()
    loading.load_rows(snapshot, kind, {0})
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


def test_rules_come_enabled_and_compiled_and_a_broken_one_matches_nothing(ann, caplog):
    good, broken, off = (create_rule(name=name, user_id=0, regex="gpt.*") for name in ("good", "broken", "off"))
    Rule.objects.filter(id=broken.id).update(regex="(")
    Rule.objects.filter(id=off.id).update(enabled=False)
    snapshot = loaded("rule")
    assert snapshot.rule_rows.keys() == {good.id}
    assert "broken" in caplog.text
    assert snapshot.rules.judge("gpt-5", (), user_id=1, group_ids=())[0].id == good.id


def test_one_that_denies_and_is_broken_denies_every_model_of_its_audience(caplog):
    create_rule(name="all", user_id=0)
    broken = create_rule(name="no", group_id=Group.objects.create(name="team").pk, effect="deny", regex="gpt.*")
    Rule.objects.filter(id=broken.id).update(regex="(")
    rules = loaded("rule").rules
    assert "no denies every model" in caplog.text
    assert rules.judge("claude", (), user_id=1, group_ids=[broken.group_id])[0] is None
    assert rules.judge("claude", (), user_id=1, group_ids=())[0].name == "all"


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


def test_a_change_of_one_provider_leaves_the_others(snapshot):
    rows = [create_provider(name=name, url="https://api.example.org", format_name="openai") for name in "abc"]
    loading.load_rows(snapshot, "provider", {0})
    first, second, third = (row.id for row in rows)
    before = dict(snapshot.providers)
    Provider.objects.update(priority=7)
    loading.load_rows(snapshot, "provider", {second})
    assert [snapshot.providers[row.id].priority for row in rows] == [before[first].priority, 7, before[third].priority]
    assert snapshot.providers[third] is before[third]
    add_model(provider=rows[0], name="m")
    Provider.objects.filter(id=third).delete()
    loading.load_rows(snapshot, "provider", {first, third})
    assert list(snapshot.providers) == [first, second]
    assert [target.provider.id for target in snapshot.targets_for("m")] == [first]


def test_a_provider_with_a_value_that_nothing_knows_is_left_out_and_said(caplog):
    row = create_provider(name="newer", url="https://api.example.org", format_name="openai")
    create_provider(name="fine", url="https://api.example.org", format_name="openai")
    Provider.objects.filter(id=row.id).update(cache_scope="team")
    assert set(loaded("provider").providers_by_name) == {"fine"}
    assert "newer" in caplog.text


def test_an_alias_follows_the_names_of_its_models(snapshot):
    provider = create_provider(name="p", url="https://api.example.org", format_name="openai", models=["a", "m"])
    model, mirrored = provider.models.order_by("name")
    create_alias(name="al", targets=[TargetDraft(provider.id, "a")], mirror=MirrorDraft(provider.id, "m", 0.1))
    loading.load_all(snapshot)
    change_model(model, name="b")
    change_model(mirrored, name="n")
    add_model(provider=provider, name="a")
    loading.load_rows(snapshot, "provider", {provider.id})
    alias = snapshot.aliases.resolve("al")
    assert [one.target.model for tier in alias.tiers for one in tier] == ["b"]
    assert alias.mirror.target.model == "n"


def test_a_provider_whose_credential_cannot_be_read_is_left_out_and_said(caplog):
    row = create_provider(name="sealed", url="https://api.example.org", format_name="openai", credential="sk-secret")
    create_provider(name="fine", url="https://api.example.org", format_name="openai")
    Provider.objects.filter(id=row.id).update(credential="nonsense")
    assert set(loaded("provider").providers_by_name) == {"fine"}
    assert "sealed" in caplog.text
    assert "sk-secret" not in caplog.text


@pytest.fixture
def provider_of_accounts():
    row = create_provider(
        name="p", url="https://api.example.org/v1", format_name="openai", credential="sk-own-account", models=["m"]
    )
    add_credential(provider=row, name="second", credential="sk-second-account", weight=5)
    add_credential(provider=row, name="off", credential="sk-disabled-account", enabled=False)
    return row


def test_each_credential_in_use_is_an_account_and_masks_those_of_all(provider_of_accounts):
    snapshot = loaded("provider")
    first = snapshot.providers[provider_of_accounts.id]
    second_id = provider_of_accounts.credentials.get(name="second").id
    assert [account.account for account in first.siblings] == [(first.id, 0), (first.id, second_id)]
    assert [account.credential_weight for account in first.siblings] == [1, 5]
    assert [account.auth_headers["Authorization"] for account in first.siblings] == [
        "Bearer sk-own-account", "Bearer sk-second-account",
    ]  # fmt: skip
    for account in first.siblings:
        assert account.siblings is first.siblings
        assert account.redact("sk-own-account sk-second-account") == "… …"
        assert account.leaks_credential(b"sk-own-account")
        assert account.leaks_credential(b"sk-second-account")
    assert len(snapshot.targets_for("m")) == 1
    assert "sk-" not in repr(first)


def test_without_a_credential_of_its_own_a_provider_has_the_others(provider_of_accounts):
    update_provider(provider_of_accounts, credential="")
    provider = loaded("provider").providers[provider_of_accounts.id]
    assert (provider.credential, provider.siblings) == ("sk-second-account", ())
    provider_of_accounts.credentials.update(enabled=False)
    provider = loaded("provider").providers[provider_of_accounts.id]
    assert (provider.credential, provider.account) == ("", (provider.id, 0))


def test_a_credential_that_cannot_be_read_is_left_out_and_said(provider_of_accounts, caplog):
    provider_of_accounts.credentials.filter(name="second").update(credential="nonsense")
    provider = loaded("provider").providers[provider_of_accounts.id]
    assert (provider.credential, provider.siblings) == ("sk-own-account", ())
    assert "The credential second of provider p is not used" in caplog.text


def test_a_process_without_the_new_key_keeps_the_credentials_it_has(provider_of_accounts, settings):
    old, new = "the old key of more than thirty-two characters", "the new key of more than thirty-two characters"
    settings.GATEWAY_ENCRYPTION_KEYS = [new, *settings.GATEWAY_ENCRYPTION_KEYS]
    snapshot = loaded("provider")
    reseal_credentials()
    settings.GATEWAY_ENCRYPTION_KEYS = [old]
    loading.load_rows(snapshot, "provider", {0})
    provider = snapshot.providers[provider_of_accounts.id]
    assert [account.credential for account in provider.siblings] == ["sk-own-account", "sk-second-account"]


def test_limits_of_credentials_in_use_are_known(provider_of_accounts):
    second, off = (
        provider_of_accounts.credentials.filter(name="second"),
        provider_of_accounts.credentials.filter(name="off"),
    )
    for rows in (second, off):
        rows.update(requests_per_minute=5, tokens_per_minute=600, concurrent_requests=7)
    snapshot = loaded("provider")
    limits = snapshot.limits
    expected = {"requests a minute": 5, "tokens a minute": 600, "concurrent a none": 7}
    assert amounts(limits, "credential", second.get().id) == expected
    assert amounts(limits, "credential", off.get().id) == {}
    first, other = snapshot.providers[provider_of_accounts.id].siblings
    assert (len(limits.for_provider(first).checks), len(limits.for_provider(other).checks)) == (0, 3)
    assert limits.has_provider_limits
    assert not any(check.limit.header or check.limit.policy for check in limits.for_provider(other).checks)


def test_a_model_has_a_name_at_its_provider_and_facts():
    row = create_provider(name="p", url="https://api.example.org", format_name="openai", models=["plain"])
    add_model(provider=row, name="fast", upstream_name="gpt-4o", context_length=5)
    provider = loaded("provider").providers[row.id]
    assert [provider.upstream_name(name) for name in ("fast", "plain", "other")] == ["gpt-4o", "plain", "other"]
    assert provider.facts["fast"] == (5, 16_384, ("text", "image", "file"), ("text",))
    assert provider.facts["plain"] == NOTHING_KNOWN


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
    assert amounts(limits, "user", ann.id) == {"requests a minute": 9, "concurrent a none": 150}
    assert amounts(limits, "login", ann.id) == {"requests a minute": 600}
    assert amounts(limits, "key", 0) == {"requests a minute": 600}


def test_a_change_of_one_limit_leaves_the_others(snapshot):
    group = Group.objects.create(name="team")
    values = {"group": group, "measure": "requests", "amount": 7}
    first, second = (Limit.objects.create(window=window, **values) for window in ("day", "month"))
    loading.load_all(snapshot)
    before = snapshot.limit_rows[second.id]
    Limit.objects.update(amount=9)
    loading.load_rows(snapshot, "limit", {first.id})
    assert amounts(snapshot.limits, "group", group.id) == {"requests a day": 9, "requests a month": 7}
    assert snapshot.limit_rows[second.id] is before
    Limit.objects.all().delete()
    loading.load_rows(snapshot, "limit", {first.id})
    assert amounts(snapshot.limits, "group", group.id) == {"requests a month": 7}


def test_limits_have_the_names_that_groups_and_keys_have_now(ann, snapshot):
    group, key = Group.objects.create(name="old"), issue_key(owner=ann, name="old").key
    group.members.add(ann)
    for subject in ({"group": group}, {"key": key}):
        Limit.objects.create(measure="requests", window="day", amount=7, **subject)
    loading.load_all(snapshot)
    Group.objects.update(name="new")
    ApiKey.objects.update(name="new")
    loading.load_rows(snapshot, "group", {group.id})
    loading.load_rows(snapshot, "key", {key.id})
    limits = snapshot.limits.for_caller(snapshot.keys[key.public_id], snapshot.callers[ann.id])
    names = {check.limit.subject.kind: check.limit.name for check in limits.checks}
    assert (names["group"], names["key"]) == ("new", "new")


def test_default_limits_have_the_names_that_users_and_providers_have_now(ann, snapshot, settings):
    settings.GATEWAY_LIMITS = {kind: {("requests", "day"): Decimal(7)} for kind in ("user", "provider")}
    provider = create_provider(name="old", url="https://api.example.org", format_name="openai")
    loading.load_all(snapshot)

    def names():
        limits = snapshot.limits
        checks = [*limits.for_caller(None, snapshot.callers[ann.id]).checks]
        checks += limits.for_provider(snapshot.providers[provider.id]).checks
        return {check.limit.subject.kind: check.limit.name for check in checks}

    assert (names()["user"], names()["provider"]) == ("ann", "old")
    User.objects.filter(id=ann.id).update(username="eve")
    Provider.objects.update(name="new")
    loading.load_rows(snapshot, "user", {ann.id})
    loading.load_rows(snapshot, "provider", {provider.id})
    assert (names()["user"], names()["provider"]) == ("eve", "new")


def test_a_change_of_a_provider_leaves_all_limits(provider_of_accounts, snapshot):
    loading.load_all(snapshot)
    before = snapshot.limits
    loading.load_rows(snapshot, "provider", {provider_of_accounts.id})
    assert snapshot.limits is before


def test_prices_that_hold_or_will_are_known_by_the_providers_address():
    row = create_provider(name="p", url="https://API.example.org:8443/v1", format_name="openai", models=["m"])
    amounts = {"currency": "USD", "input": Decimal(1), "output": Decimal(2)}
    removed, any_host = set_price(host="api.example.org", model="m", **amounts), set_price(model="*", **amounts)
    later = timezone.now() + timedelta(hours=1)
    change_price(any_host, input=Decimal(5), valid_from=later)
    snapshot = Snapshot()
    loading.load_all(snapshot)
    (target,) = snapshot.targets_for("m")
    assert target.provider.id == row.id
    assert snapshot.price(target, time.time()) == removed.price
    end_price(removed)
    loading.load_rows(snapshot, "price", {0})
    assert snapshot.price(target, time.time() + 1) == any_host.price
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
    assert time.perf_counter() - begun < 10 * slowness()
    tracemalloc.start()
    snapshot = loaded()
    rest, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(snapshot.keys) == 100_000
    assert rest / 100_000 < 700
    assert most / 100_000 < 2_500
