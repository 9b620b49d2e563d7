"""What is read into memory says what the tables say, in bounded memory and time."""

import time
from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from accounts.models import Group
from gateway_project.work.snapshot import loading
from gateway_project.work.snapshot.records import Snapshot
from providers.models import Provider
from providers.pricing.facts import NOTHING_KNOWN
from providers.sealing import reseal_credentials
from providers.services import (
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
from tests.support.snapshot_loading import loaded

pytestmark = pytest.mark.django_db


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
