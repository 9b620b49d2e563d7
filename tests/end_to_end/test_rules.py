"""Stage 3: rules only allow; the first that matches lets the request proceed."""

import time

import pytest

from providers.services import update_provider
from rules.aliases.drafts import TargetDraft
from rules.models import Rule
from tests.support.pace import patience

pytestmark = pytest.mark.either_store


def denied(response):
    """The response is a refusal by the rules."""
    assert (response.status_code, response.json()["exception"]) == (403, "RuleDenied"), response.text
    return response


def test_without_a_rule_everything_is_denied(world):
    provider = world.provider()
    response = denied(world.ask())
    assert world.model in response.json()["message"]
    assert provider.seen == []
    entry = world.entry(response)
    assert (entry.outcome, entry.status, entry.rule_id, entry.entry_source) == ("denied", 403, None, "Not Set")


def test_rules_for_others_do_not_help(world):
    world.provider()
    other = world.new_user()
    world.allow(user=other)
    world.allow(group=world.new_group(other))
    world.allow(user=None)
    denied(world.ask())


class TestWhomARuleIsFor:
    def test_a_rule_for_the_user(self, world):
        world.provider()
        rule = world.allow(user=world.user)
        response = world.ask()
        assert response.status_code == 200
        assert (world.entry(response).rule_id, world.entry(response).rule_name) == (rule.id, rule.name)

    def test_a_rule_for_a_group_counts_for_its_members_alone(self, world):
        world.provider()
        rule = world.allow(group=world.new_group(world.user, world.new_user()))
        response = world.ask()
        assert world.entry(response).rule_id == rule.id
        denied(world.ask(key=world.new_key(owner=world.new_user()).text))

    def test_a_user_in_many_groups_needs_a_rule_of_one(self, world):
        world.provider()
        groups = [world.new_group(world.user) for _ in range(3)]
        rule = world.allow(group=groups[1])
        assert world.entry(world.ask()).rule_id == rule.id

    @pytest.mark.parametrize("everyone", ["user", "group"])
    def test_a_rule_for_everyone(self, world, everyone):
        world.provider()
        rule = world.allow(everyone=everyone, regex=world.model)
        for owner in (world.user, world.new_user()):
            assert world.entry(world.ask(key=world.new_key(owner=owner).text)).rule_id == rule.id

    def test_a_disabled_rule_lets_nobody_through(self, world):
        world.provider()
        world.allow(enabled=False)
        denied(world.ask())


class TestOrder:
    def test_the_first_by_id_is_the_one_that_is_logged(self, world):
        world.provider()
        world.allow(regex="something-else")
        world.allow(enabled=False)
        first = world.allow(group=world.new_group(world.user))
        world.allow(everyone="user", regex=world.model)
        world.allow(user=world.user)
        assert world.entry(world.ask()).rule_id == first.id

    def test_the_next_one_steps_in_when_the_first_is_disabled(self, world):
        world.provider()
        first, second = world.allow(), world.allow()
        assert world.entry(world.ask()).rule_id == first.id
        Rule.objects.filter(pk=first.pk).update(enabled=False)
        world.until(lambda: world.entry(world.ask()).rule_id == second.id, 3)


class TestModels:
    @pytest.mark.parametrize(
        "pattern", ["", "{}", ".*", "model-.*", r"model-\d+", "other|{}", "(?i)MODEL-.*", "m.{{1,199}}", "^{}$"]
    )
    def test_a_pattern_that_matches_the_whole_name(self, world, pattern):
        world.provider()
        world.allow(regex=pattern.format(world.model) if pattern else "")
        assert world.ask().status_code == 200

    @pytest.mark.parametrize(
        "pattern", ["model", "odel-.*", "model-", "MODEL-.*", "other", "^$", "model-.*x", "model|x"]
    )
    def test_a_pattern_that_matches_less_than_the_whole_name(self, world, pattern):
        provider = world.provider()
        world.allow(regex=pattern)
        denied(world.ask())
        assert provider.seen == []

    def test_a_line_break_in_the_pattern_or_a_dot_does_not_widen_it(self, world):
        world.provider("gpt-4o", "gpt-4o-mini")
        world.allow(regex=r"gpt-4o\n?")
        assert world.ask(body={"model": "gpt-4o"}).status_code == 200
        denied(world.ask(body={"model": "gpt-4o-mini"}))

    def test_a_pattern_that_would_take_others_for_ever_takes_no_time(self, world):
        world.provider()
        world.allow(regex="(a+)+b|(a|a)*c|(.*)*d")
        begun = time.monotonic()
        denied(world.ask(body={"model": "a" * 200}))
        assert time.monotonic() - begun < patience(0.5)

    def test_a_pattern_that_no_longer_compiles_matches_nothing_and_harms_no_other_rule(self, world):
        world.provider()
        broken, good = world.allow(), world.allow()
        Rule.objects.filter(pk=broken.pk).update(regex=r"(?=x)\1")
        assert world.entry(world.ask()).rule_id == good.id

    def test_the_bare_name_is_what_counts_where_the_provider_is_written_before_it(self, world):
        provider = world.provider()
        world.allow(regex=world.model)
        assert world.ask(body={"model": f"{world.row(provider).name}/{world.model}"}).status_code == 200

    def test_a_rule_comes_before_the_question_who_offers_the_model(self, world):
        denied(world.ask())
        world.allow()
        response = world.soon(world.ask, 400)
        assert response.json()["exception"] == "ProviderNotSelected"


class TestProviders:
    def test_a_rule_that_names_a_provider_lets_only_that_one_serve(self, world):
        first, second = world.provider(priority=1), world.provider(priority=2)
        world.allow(provider=world.row(second))
        assert world.ask().status_code == 200
        assert (len(first.seen), len(second.seen)) == (0, 1)

    def test_it_does_not_fall_over_to_another_either(self, world):
        named, other = world.provider(priority=1), world.provider(priority=2)
        named.answers(status=500)
        world.allow(provider=world.row(named))
        assert world.ask().status_code == 502
        assert other.seen == []

    def test_a_rule_for_a_provider_that_does_not_offer_the_model_does_not_match(self, world):
        world.provider()
        elsewhere = world.provider("another-model")
        world.allow(provider=world.row(elsewhere))
        denied(world.ask())

    def test_a_rule_for_a_disabled_provider_does_not_match(self, world):
        provider, other = world.provider(), world.provider()
        world.allow(provider=world.row(provider))
        update_provider(world.row(provider), enabled=False)
        denied(world.ask())
        assert (provider.seen, other.seen) == ([], [])

    def test_a_rule_for_another_provider_than_the_asked_one_does_not_match(self, world):
        request, named = world.provider(), world.provider()
        world.allow(provider=world.row(named))
        denied(world.ask(headers={"X-Svc-Provider": world.row(request).name}))
        denied(world.ask(body={"model": f"{world.row(request).name}/{world.model}"}))

    def test_a_key_that_is_linked_to_a_provider_needs_a_rule_for_it_too(self, world):
        linked, named = world.provider(), world.provider()
        world.allow(provider=world.row(named))
        denied(world.ask(key=world.new_key(provider=world.row(linked)).text))
        assert world.ask(key=world.new_key(provider=world.row(named)).text).status_code == 200

    def test_a_later_rule_without_a_provider_opens_all_of_them(self, world):
        first, second = world.provider(priority=1), world.provider(priority=2)
        world.allow(provider=world.row(second), regex="another-model")
        world.allow()
        assert world.ask().status_code == 200
        assert (len(first.seen), len(second.seen)) == (1, 0)


class TestRulesThatDeny:
    def test_one_without_a_provider_refuses_even_what_is_cached(self, world):
        provider = world.provider()
        world.allow()
        assert world.ask().status_code == 200
        world.allow(regex=world.model, effect="deny")
        response = denied(world.ask())
        assert response.json()["message"] == f"No rule allows {world.user.username} to use the model {world.model}."
        assert (world.entry(response).rule_id, len(provider.seen)) == (None, 1)

    def test_one_with_a_provider_leaves_it_out_its_cached_answers_too(self, world):
        first, second = world.provider(priority=1), world.provider(priority=2)
        rule = world.allow()
        assert world.ask().headers["X-Svc-Provider"] == world.row(first).name
        world.allow(everyone="user", regex=world.model, provider=world.row(first), effect="deny")
        response = world.ask()
        assert response.headers["X-Svc-Provider"] == world.row(second).name
        assert (world.entry(response).rule_id, len(first.seen), len(second.seen)) == (rule.id, 1, 1)
        denied(world.ask(headers={"X-Svc-Provider": world.row(first).name}))
        denied(world.ask(body={"model": f"{world.row(first).name}/{world.model}"}))

    def test_a_linked_key_and_the_list_of_models_obey_it(self, world):
        provider = world.provider(world.model, f"{world.model}-b")
        world.allow()
        key = world.new_key(provider=world.row(provider)).text
        world.allow(regex=f"{world.model}-b", provider=world.row(provider), effect="deny")
        assert world.ask(key=key).status_code == 200
        name = f"{world.model}-b"
        for spelling in (name, name.upper(), f" {name} "):
            denied(world.ask(key=key, body={"model": spelling}))
            denied(world.ask(key=key, body={"model": f"{world.row(provider).name}/{spelling}"}))
        for one in (key, world.key):
            models = {model["id"] for model in world.get("/v1/models", key=one).json()["data"]}
            assert models & {world.model, f"{world.model}-b"} == {world.model}

    def test_an_alias_leads_to_no_target_that_is_denied(self, world):
        first, second = world.provider(f"{world.model}-a"), world.provider(f"{world.model}-b")
        targets = [
            TargetDraft(world.row(one).pk, f"{world.model}-{name}", tier=tier)
            for tier, (one, name) in enumerate(((first, "a"), (second, "b")))
        ]
        alias = world.alias(*targets)
        world.allow()
        world.allow(regex=f"{world.model}-a", effect="deny")
        assert world.ask(body={"model": alias.name}).headers["X-Svc-Provider"] == world.row(second).name
        world.allow(regex=alias.name, effect="deny")
        denied(world.ask(body={"model": alias.name}))
        assert world.ask(body={"model": f"{world.model}-b"}).status_code == 200
