"""Work for an alias: who may ask for it, which target serves, and what is recorded."""

import threading
import time

import pytest

from providers.services import update_provider
from rules.aliases.drafts import TargetDraft
from rules.aliases.services import delete_alias, update_alias
from rules.services import delete_rule
from telemetry.models import CacheEntry
from tests.support.aliases import ask, asked, models, refused_as, target, targets
from tests.support.management import Client, new_admin, refused
from tests.support.metrics import samples
from tests.support.provider_answers import Answer

pytestmark = pytest.mark.embedded


class TestNames:
    def test_the_provider_gets_its_own_name_and_the_client_learns_who_served(self, world, trio):
        alias = world.alias(*targets(world, *trio))
        response = ask(world, alias)
        assert models(trio[0]) == [f"{world.model}-a"]
        headers = response.headers
        assert headers["X-Svc-Model"] == f"{world.model}-a"
        assert headers["X-Svc-Provider"] == world.row(trio[0]).name
        assert headers["X-Svc-Attempts"] == "1"

    def test_an_alias_comes_before_a_model_of_the_same_name(self, world, trio):
        world.alias(*targets(world, trio[1]), name=f"{world.model}-a")
        assert ask(world, f"{world.model}-a").status_code == 200
        assert asked(*trio) == (0, 1, 0)

    def test_the_most_specific_pattern_applies(self, world, trio):
        name = world.name("family")
        world.alias(*targets(world, trio[0]), name=f"{name}*")
        world.alias(*targets(world, trio[1]), name=f"{name}-large*")
        world.alias(*targets(world, trio[2]), name=f"{name}-large-exact")
        for suffix, counts in (("-small", (1, 0, 0)), ("-large-9", (1, 1, 0)), ("-large-exact", (1, 1, 1))):
            assert ask(world, f"{name}{suffix}").status_code == 200
            assert asked(*trio) == counts

    def test_an_alias_in_an_alias_serves_with_its_targets(self, world, trio):
        inner = world.alias(*targets(world, *trio[:2]))
        outer = world.alias(TargetDraft(alias=inner.name), target(world, trio[2], tier=1))
        trio[0].default = trio[1].default = Answer(status=500)
        assert ask(world, outer).status_code == 200
        assert asked(*trio) == (1, 1, 1)

    def test_changes_hold_within_a_second(self, world, trio):
        alias = world.alias(*targets(world, trio[0]))
        assert ask(world, alias, "one").status_code == 200
        update_alias(alias, targets=targets(world, trio[1]))
        world.settle()
        assert ask(world, alias, "two").status_code == 200
        assert asked(*trio) == (1, 1, 0)
        update_alias(alias, enabled=False)
        world.settle()
        refused_as(ask(world, alias, "three"), 400, "ProviderNotSelected")
        update_alias(alias, enabled=True)
        update_provider(world.row(trio[1]), enabled=False)
        world.settle()
        refused_as(ask(world, alias, "four"), 400, "ProviderNotSelected", alias.name)
        delete_alias(alias)
        world.settle()
        refused_as(ask(world, alias, "five"), 400, "ProviderNotSelected")

    def test_a_list_of_models_has_the_aliases_that_serve(self, world, trio):
        world.alias(*targets(world, trio[0]), name=world.name("shown"))
        shown = world.alias(*targets(world, trio[0])).name
        pattern = world.alias(*targets(world, trio[0]), name=world.name("family") + "*").name
        empty, off = world.alias().name, world.alias(*targets(world, trio[0]), enabled=False).name
        names = {row["id"] for row in world.get("/v1/models").json()["data"]}
        assert shown in names
        assert not names & {pattern, empty, off}
        assert world.get(f"/v1/models/{shown}").json()["id"] == shown
        assert world.get(f"/v1/models/{pattern.replace('*', 'x')}").status_code == 200
        assert world.get(f"/v1/models/{empty}").status_code == 404


class TestRules:
    def test_rules_have_to_allow_the_name_and_the_target(self, world):
        first, second = world.provider(f"{world.model}-a"), world.provider(f"{world.model}-b")
        alias = world.alias(target(world, first), target(world, second, tier=1))
        refused_as(ask(world, alias), 403, "RuleDenied")
        name = world.allow(regex=alias.name)
        refused_as(ask(world, alias), 403, "RuleDenied", alias.name)  # and names no target
        second_model = world.allow(regex=f"{world.model}-b")
        assert ask(world, alias).status_code == 200
        assert asked(first, second) == (0, 1)
        delete_rule(name)
        world.settle()
        refused_as(ask(world, alias), 403, "RuleDenied")  # not even from the cache
        world.allow(regex=alias.name, provider=world.row(first))
        refused_as(ask(world, alias), 403, "RuleDenied")
        delete_rule(second_model)
        world.allow(regex=f"{world.model}-a", provider=world.row(second))
        refused_as(ask(world, alias), 403, "RuleDenied")
        world.allow(regex=f"{world.model}-a", provider=world.row(first))
        assert ask(world, alias).headers["X-Svc-Provider"] == world.row(first).name

    def test_the_list_of_models_hides_what_the_rules_do_not_allow(self, world):
        """An alias is shown to whom both its name and one of its targets are allowed."""
        provider = world.provider(f"{world.model}-a")
        alias = world.alias(target(world, provider))

        def is_shown():
            shown = alias.name in {row["id"] for row in world.get("/v1/models").json()["data"]}
            assert world.get(f"/v1/models/{alias.name}").status_code == (200 if shown else 404)
            return shown

        assert not is_shown()
        name = world.allow(regex=alias.name)
        assert not is_shown()
        model = world.allow(regex=f"{world.model}-a")
        assert is_shown()
        delete_rule(name)
        world.settle()
        assert not is_shown()
        world.allow(regex=alias.name)
        assert is_shown()
        delete_rule(model)
        world.settle()
        assert not is_shown()

    def test_no_fallback_reaches_what_rules_deny(self, world):
        first, second = world.provider(f"{world.model}-a"), world.provider(f"{world.model}-b")
        alias = world.alias(target(world, first), target(world, second, tier=1))
        world.allow(regex=f"{alias.name}|{world.model}-a")
        first.default = Answer(status=500)
        assert ask(world, alias).status_code == 502
        assert asked(first, second) == (1, 0)

    def test_a_linked_key_reaches_targets_of_its_provider_only(self, world, trio):
        alias = world.alias(*targets(world, trio[0], trio[1]))
        key = world.new_key(provider=world.row(trio[1])).text
        assert ask(world, alias, key=key).headers["X-Svc-Provider"] == world.row(trio[1]).name
        trio[1].default = Answer(status=500)
        assert ask(world, alias, "again", key=key).status_code == 502
        other = world.new_key(provider=world.row(trio[2])).text
        refused_as(ask(world, alias, key=other), 400, "ProviderNotSelected")
        assert asked(*trio) == (0, 2, 0)

    def test_the_provider_header_narrows_an_alias_too(self, world, trio):
        alias = world.alias(*targets(world, *trio))
        headers = {"X-Svc-Provider": world.row(trio[2]).name}
        assert ask(world, alias, headers=headers).headers["X-Svc-Model"] == f"{world.model}-c"
        assert asked(*trio) == (0, 0, 1)


class TestConditions:
    def test_a_canary_gets_its_share_of_the_tagged_requests_alone(self, world, trio):
        canary = target(world, trio[1], weight=1, match={"tags": {"stage": "beta"}})
        alias = world.alias(target(world, trio[0], weight=3), canary)
        for number in range(120):
            assert ask(world, alias, f"beta {number}", headers={"X-Svc-Tags": "stage=beta"}).status_code == 200
            assert ask(world, alias, f"other {number}", headers={"X-Svc-Tags": "stage=ga"}).status_code == 200
        assert sum(asked(*trio)) == 240
        assert 12 < asked(*trio)[1] < 52  # 30 are expected, with a standard deviation of 4.7

    def test_groups_users_and_keys_have_targets_of_their_own(self, world, trio):
        group = world.new_group(world.user)
        issued, stranger = world.new_key(), world.new_user()
        world.allow(user=stranger)
        alias = world.alias(
            target(world, trio[0], match={"userId": world.user.pk, "keyName": issued.key.name}),
            target(world, trio[1], tier=1, match={"groupId": group.pk}),
            target(world, trio[2], tier=2),
        )
        cases = [(issued.text, "a"), (world.key, "b"), (world.new_key(owner=stranger).text, "c")]
        for key, letter in cases:
            assert ask(world, alias, key=key).headers["X-Svc-Model"] == f"{world.model}-{letter}"

    def test_who_fits_no_target_is_not_served(self, world, trio):
        alias = world.alias(target(world, trio[0], match={"tags": {"a": "1"}}))
        refused_as(ask(world, alias), 400, "ProviderNotSelected", alias.name)
        assert ask(world, alias, headers={"X-Svc-Tags": "a=1"}).status_code == 200


class TestHeaders:
    def test_fallback_off_asks_one_target_of_the_first_tier(self, world, trio):
        alias = world.alias(*targets(world, *trio))
        trio[0].default = Answer(status=500)
        response = ask(world, alias, headers={"X-Svc-Fallback": "off"})
        assert (response.status_code, response.headers["X-Svc-Attempts"]) == (502, "1")
        assert asked(*trio) == (1, 0, 0)
        assert ask(world, alias, "with it").status_code == 200

    def test_fallback_off_holds_for_models_and_while_the_first_rests(self, world):
        world.allow()
        first, second = world.provider(priority=1), world.provider(priority=2)
        first.default = Answer(status=429, headers={"Retry-After": "30"})
        for number in range(3):
            response = world.ask(f"{number}", headers={"X-Svc-Fallback": "off"})
            assert response.status_code == 429
        assert asked(first, second) == (1, 0)

    def test_a_follower_without_fallback_gets_the_leaders_error(self, world, trio):
        alias = world.alias(*targets(world, *trio))
        trio[0].default = Answer(status=500, delay=0.6)
        responses = {}

        def send(name, headers):
            responses[name] = ask(world, alias, "the same", headers=headers)

        leader = threading.Thread(target=send, args=("leader", {}))
        leader.start()
        time.sleep(0.2)
        send("follower", {"X-Svc-Fallback": "off"})
        leader.join()
        assert responses["leader"].status_code == 200
        assert responses["follower"].status_code == 502

    @pytest.mark.parametrize(
        ("name", "value"),
        [("X-Svc-Fallback", "on"), ("X-Svc-Strategy", "best"), ("X-Svc-Session", "é"), ("X-Svc-Session", "x" * 1025)],
    )
    def test_a_wrong_header_is_refused_with_its_name(self, world, trio, name, value):
        response = ask(world, world.alias(*targets(world, *trio)), headers={name: value.encode("latin-1")})
        refused(response, 400, "ValidationError", name)
        assert asked(*trio) == (0, 0, 0)


class TestSameProvider:
    def test_two_models_of_one_provider_are_two_targets(self, world):
        world.allow()
        provider = world.provider("large", "small")
        alias = world.alias(world.target(provider, "large"), world.target(provider, "small", tier=1))
        provider.answers(status=500)
        response = ask(world, alias)
        assert response.headers["X-Svc-Model"] == "small"
        assert models(provider) == ["large", "small"]
        outcomes = [outcome for _, outcome, _ in world.entry(response).candidates]
        assert outcomes == ["failed", "answered"]

    @pytest.mark.parametrize(("status", "shared"), [(429, False), (503, True)])
    def test_a_limit_is_the_models_and_an_overload_the_providers(self, world, status, shared):
        world.allow()
        provider = world.provider("large", "small")
        alias = world.alias(world.target(provider, "large"), world.target(provider, "small", tier=1))
        provider.answers(status=status, headers={"Retry-After": "30"})
        for number in range(3):
            response = ask(world, alias, f"{number}")
            assert response.status_code == (status if shared else 200)
        assert models(provider) == (["large"] if shared else ["large", "small", "small", "small"])


class TestRecords:
    def test_the_entry_has_both_names_and_the_price_of_the_model_that_served(self, world, trio):
        world.price(1, 2, model=f"{world.model}-b")
        alias = world.alias(*targets(world, *trio), name=world.name("family") + "-*")
        trio[0].answers(status=500)
        name = alias.name.replace("*", "large")
        response = ask(world, name)
        entry = world.entry(response)
        assert (entry.model, entry.alias, entry.served_model) == (name, alias.name, f"{world.model}-b")
        assert (entry.provider_name, entry.attempts) == (world.row(trio[1]).name, 2)
        assert f"{world.model}-a" in entry.provider_calls[0]
        assert entry.cost is not None
        assert entry.cost_status == "known"
        for status in ("MISS", "HIT"):
            again = world.entry(ask(world, name, "again"))
            assert (again.cache_status, again.alias, again.served_model) == (status, alias.name, f"{world.model}-a")

    def test_a_request_without_an_alias_has_its_own_name_and_that_of_the_model(self, world, trio):
        provider = world.row(trio[0]).name
        entry = world.entry(ask(world, f"{provider}/{world.model}-a"))
        assert (entry.model, entry.alias, entry.served_model) == (
            f"{provider}/{world.model}-a", None, f"{world.model}-a",
        )  # fmt: skip
        denied = world.entry(ask(world, "nobody-has-it"))
        assert (denied.alias, denied.served_model) == (None, None)

    def test_a_denied_request_names_the_alias_and_no_model(self, world):
        provider = world.provider(f"{world.model}-a")
        alias = world.alias(target(world, provider))
        entry = world.entry(refused_as(ask(world, alias), 403, "RuleDenied"))
        assert (entry.alias, entry.served_model, entry.provider_id) == (alias.name, None, None)

    def test_usage_is_told_apart_by_alias_and_by_the_model_that_served(self, world, trio):
        alias = world.alias(*targets(world, trio[0]))
        for name in (alias.name, f"{world.model}-a"):
            world.entry(ask(world, name))
        admin = Client(world.gateway.url).as_user(new_admin())
        rows = admin.rows(f"/stats/usage/?by=alias,model&userId={world.user.pk}")
        shown = {(row["alias"], row["model"]): row["requests"] for row in rows}
        assert shown == {(alias.name, f"{world.model}-a"): 1, (None, f"{world.model}-a"): 1}
        (row,) = admin.rows(f"/stats/usage/?by=model&alias={alias.name}")
        assert (row["model"], row["requests"]) == (f"{world.model}-a", 1)

    def test_an_unpriced_model_is_named_and_not_its_alias(self, world, trio):
        alias = world.alias(*targets(world, trio[0]))
        world.entry(ask(world, alias))
        admin = Client(world.gateway.url).as_user(new_admin())
        names = {row["model"] for row in admin.every_row("/stats/unpriced/")}
        assert f"{world.model}-a" in names
        assert alias.name not in names

    def test_metrics_have_the_model_that_served(self, world, trio):
        alias = world.alias(*targets(world, trio[0]))
        ask(world, alias)
        world.until(lambda: any(f"{world.model}-a" in labels for labels in samples(world, "requests_total")), 10)

    def test_lists_of_cached_answers_have_both_names(self, world, trio):
        alias = world.alias(*targets(world, trio[0]))
        entry = world.entry(ask(world, alias))
        world.until(lambda: CacheEntry.objects.filter(request_hash=entry.cache_hash).exists())
        row = CacheEntry.objects.get(request_hash=entry.cache_hash)
        assert (row.model, row.served_model) == (alias.name, f"{world.model}-a")
