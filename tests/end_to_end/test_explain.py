"""A request that is explained: the decision and its reasons, and nothing happens."""

import re
import time
from datetime import timedelta

import pytest
from django.utils import timezone

from licensing.models import Limit
from providers.services import update_provider
from tests.support.explaining import EXPLAIN, SECRET, explain, reasons
from tests.support.management import new_admin, token_of

pytestmark = pytest.mark.either_store


def test_a_request_that_would_be_served(world, provider):
    world.price()
    document = explain(world, "What is the capital of Portugal?")
    assert document["sentences"][0] == "The request would be served."
    assert provider.seen == []
    name = world.row(provider).name
    assert [(row["provider"], row["model"], row["position"]) for row in document["candidates"]] == [
        (name, world.model, 1)
    ]
    assert document["caller"]["userId"] == world.user.pk
    assert document["caller"]["mayWork"] is True
    assert document["cache"]["verdict"] == "miss"
    assert len(document["cache"]["key"]) > 10
    assert document["estimate"]["inputTokens"] > 5
    assert float(document["estimate"]["cost"]) > 0
    assert document["estimate"]["currency"] == "USD"
    assert [row["matched"] for row in document["rules"]] == [True]


def test_the_outgoing_request_is_the_one_that_is_sent_without_its_secrets(world, provider):
    outgoing = explain(world, "Lisbon?")["outgoing"]
    assert world.ask("Lisbon?").status_code == 200
    (arrival,) = provider.seen
    assert outgoing["body"] == arrival.json
    assert outgoing["url"].endswith(arrival.path)
    assert outgoing["headers"]["Authorization"] == "Bearer ***"


@pytest.mark.parametrize(
    ("auth_method", "header", "mask"),
    [
        ("x-api-key", "x-api-key", "***"), ("basic", "Authorization", "Basic ***"), ("api-key", "api-key", "***"),
        ("x-goog-api-key", "x-goog-api-key", "***"), ("aws-sigv4", "Authorization", "***"),
        ("aws-sigv4", "x-amz-security-token", "***"),
    ],
)  # fmt: skip
def test_whatever_carries_the_credential_is_masked(world, auth_method, header, mask):
    is_signed = auth_method == "aws-sigv4"
    credential = f"AKIDEXAMPLE:{SECRET}:token-of-the-session:eu-west-1" if is_signed else f"user:{SECRET}"
    scripted = world.provider(auth_method=auth_method, credential=credential)
    world.allow()
    outgoing = explain(world)["outgoing"]
    headers = {name.lower(): value for name, value in outgoing["headers"].items()}
    assert headers[header.lower()] == mask
    assert not {"AKIDEXAMPLE", "Signature", "token-of-the-session"} & set(re.findall(r"[\w-]+", str(outgoing)))
    assert world.ask().status_code == 200
    (arrival,) = scripted.seen
    assert arrival.headers[header.lower()] not in ("", mask)  # it does carry something


def test_a_credential_in_the_url_is_masked(world):
    world.provider(auth_method="query", credential=SECRET)
    world.allow()
    assert explain(world)["outgoing"]["url"].endswith("…")


def test_a_secret_in_the_prompt_is_masked_as_in_the_log(world, provider):
    text = str(explain(world, "my key is sk-proj-abcdefghijklmnopqrstuv")["outgoing"]["body"])
    assert "abcdefghijklmnop" not in text


class TestNothingHappens:
    def test_no_entry_of_a_request_and_one_of_who_asked(self, world, provider):
        response = world.ask(path=EXPLAIN)
        entry = world.entry(response, kind="Message")
        assert entry.message == (
            f"{world.user.username} had a request of {world.user.username} with key {entry.key_name} for the model "
            f"{world.model} explained: it would be served."
        )
        time.sleep(0.3)
        assert world.entries(correlation_id=response.headers["X-Svc-Request-ID"]) == 0

    def test_limits_are_shown_and_not_taken_from(self, world, provider):
        issued = world.new_key()
        for measure, window, amount in (("requests", "minute", 3), ("tokens", "day", 1000), ("concurrent", "none", 1)):
            Limit.objects.create(key=issued.key, measure=measure, window=window, amount=amount)
        world.settle()
        for _ in range(5):
            rows = explain(world, key=issued.text, body={"max_tokens": 10})["limits"]
        name = issued.key.name
        by_name = {row["limit"]: row for row in rows}
        assert by_name[f"request limit of key {name}"]["name"] == f"requests:key:{issued.key.pk}:minute"
        assert by_name[f"request limit of key {name}"]["used"] == 0
        assert by_name[f"request limit of key {name}"]["remaining"] == 3
        assert by_name[f"daily token limit of key {name}"]["reserved"] == 0
        assert by_name[f"daily token limit of key {name}"]["resets"].endswith("T00:00:00Z")
        assert by_name[f"concurrent request limit of key {name}"]["resets"] is None
        assert world.ask(key=issued.text, body={"max_tokens": 10}).status_code == 200
        rows = {row["limit"]: row for row in explain(world, key=issued.text)["limits"]}
        assert rows[f"request limit of key {name}"]["used"] == 1

    def test_nothing_is_stored_and_what_is_stored_is_seen(self, world, provider):
        issued = world.new_key()
        assert explain(world, "Once?", key=issued.text)["cache"]["verdict"] == "miss"
        assert world.ask("Once?", key=issued.text).headers["X-Svc-Cache"] == "MISS"
        document = explain(world, "Once?", key=issued.text)
        assert document["cache"]["verdict"] == "hit"
        assert document["outgoing"] is None
        assert document["estimate"]["cost"] == "0"
        world.until(lambda: explain(world, "Once?", key=issued.text)["cache"]["ageSeconds"] is not None)
        assert explain(world, "Once?", headers={"X-Svc-Cache": "bypass"})["cache"]["verdict"] == "bypass"
        assert explain(world, "Once?", headers={"X-Svc-Cache": "refresh"})["cache"]["verdict"] == "refresh"

    def test_no_active_use_begins(self, world, provider):
        admin = token_of(new_admin())
        user = world.new_user()
        world.allow(user=user)

        def used() -> int:
            limits = explain(world, key=admin, query=f"&asUser={user.pk}")["limits"]
            (uses,) = [one["used"] for one in limits if "licence" in one["limit"]]
            return uses

        world.until(lambda: used() == 0)  # the uses of earlier requests have ended
        for _ in range(3):
            explain(world, key=world.new_key(owner=user).text)
        assert used() == 0


class TestRefusals:
    def test_no_rule(self, world):
        world.provider()
        world.allow(name="only the other", regex="other-.*")
        world.allow(user=world.new_user())
        document = explain(world)
        assert document["error"]["exception"] == "RuleDenied"
        assert document["error"]["code"] == 403
        assert document["outgoing"] is None
        assert reasons(document)["only the other"] == (
            False,
            f"Its pattern other-.* does not match the model {world.model}.",
        )
        assert document["otherRules"] >= 1
        assert any("has to allow the model" in one for one in document["sentences"])
        assert "Rule only the other allows only models that match other-.*." in document["sentences"]

    def test_a_disabled_rule_is_named(self, world):
        world.provider()
        rule = world.allow(enabled=False)
        document = explain(world)
        assert document["error"]["exception"] == "RuleDenied"
        assert reasons(document)[rule.name] == (False, "It is disabled.")
        assert f"Rule {rule.name} is disabled." in document["sentences"]

    def test_rules_that_would_not_help_are_no_remedy(self, world):
        world.provider()
        others, another = world.allow(user=world.new_user(), enabled=False), world.allow(regex="other", enabled=False)
        document = explain(world, key=token_of(new_admin()), query=f"&asUser={world.user.pk}")
        assert {others.name, another.name} <= reasons(document).keys()
        assert not any(f"Rule {one.name} is disabled." in document["sentences"] for one in (others, another))

    def test_a_limit(self, world, provider):
        issued = world.new_key()
        Limit.objects.create(key=issued.key, measure="requests", window="minute", amount=1)
        world.settle()
        world.ask(key=issued.text)
        document = explain(world, key=issued.text)
        assert document["error"]["exception"] == "RateLimited"
        assert document["error"]["message"] == world.ask(key=issued.text).json()["message"]

    def test_a_model_that_nobody_offers(self, world, provider):
        document = explain(world, body={"model": "nobody-has-this"})
        assert document["error"]["exception"] == "ProviderNotSelected"
        assert "An enabled provider has to offer the model nobody-has-this." in document["sentences"]

    def test_a_body_that_is_none(self, world, provider):
        response = world.post(b"{", path=EXPLAIN)
        document = response.json()["data"]
        assert (response.status_code, document["error"]["code"]) == (200, 400)

    def test_a_key_without_the_permission(self, world, provider):
        document = explain(world, key=world.new_key(permissions=["models.create"]).text)
        assert document["error"]["exception"] == "PermissionDenied"
        assert document["caller"]["mayWork"] is False

    def test_a_disabled_provider_is_named(self, world, provider):
        second = world.provider()
        update_provider(world.row(second), enabled=False)
        world.settle()
        rows = explain(world)["leftOut"]
        assert rows == [
            {"provider": world.row(second).name, "model": world.model, "reason": "The provider is disabled."}
        ]

    def test_only_a_stored_answer(self, world, provider):
        document = explain(world, "never asked", headers={"X-Svc-Cache": "only"})
        assert document["error"]["exception"] == "CacheMiss"


class TestKeysOfTheirOwnRestrictions:
    def test_models_that_the_key_does_not_name(self, world):
        world.allow()
        world.provider("small", "large")
        issued = world.new_key(models=["small"])
        document = explain(world, key=issued.text, body={"model": "large"})
        assert document["error"]["exception"] == "PermissionDenied"
        assert document["sentences"][1] == f"The list of models of key {issued.key.name} has to name large."
        assert [row["reason"] for row in document["leftOut"]] == ["The key's list of models does not name it."]
        assert explain(world, key=issued.text, body={"model": "small"})["allowed"] is True

    def test_an_alias_without_a_target_that_the_key_names(self, world):
        world.allow()
        small, large = world.provider("small"), world.provider("large")
        alias = world.alias(world.target(small, "small"), world.target(large, "large", tier=1))
        issued = world.new_key(models=[alias.name])
        sentences = explain(world, key=issued.text, body={"model": alias.name})["sentences"]
        name = issued.key.name
        assert sentences[1] == f"The list of models of key {name} has to name a target of the alias: small or large."
        narrow = explain(world, key=world.new_key(models=[alias.name, "large"]).text, body={"model": alias.name})
        assert [row["model"] for row in narrow["candidates"]] == ["large"]
        assert [row["reason"] for row in narrow["leftOut"]] == ["The key's list of models does not name it."]

    def test_an_alias_without_a_target_for_the_request(self, world, pair):
        alias = world.alias(world.target(pair[0], match={"tags": {"stage": "beta"}}))
        document = explain(world, body={"model": alias.name})
        assert document["error"]["exception"] == "ProviderNotSelected"
        remedy = f"The alias {alias.name} needs an enabled target whose conditions the request meets."
        assert document["sentences"][1] == remedy
        linked = world.new_key(provider=world.row(pair[1]))
        tagged = {"X-Svc-Tags": "stage=beta"}
        document = explain(world, key=linked.text, body={"model": alias.name}, headers=tagged)
        assert document["error"]["exception"] == "ProviderNotSelected"
        remedy = (
            f"The alias {alias.name} needs an enabled target at the provider that key {linked.key.name} is linked to."
        )
        assert document["sentences"][1] == remedy

    def test_a_network_that_the_request_does_not_come_from(self, world, provider):
        issued = world.new_key(networks=["192.0.2.0/24", "2001:db8::/32"])
        document = explain(world, key=issued.text)
        assert document["error"]["exception"] == "PermissionDenied"
        assert document["rules"] == document["candidates"] == []
        assert document["sentences"][1] == (
            f"The networks of key {issued.key.name} have to contain 127.0.0.1. "
            "Now the key may only be used from 192.0.2.0/24, 2001:db8::/32."
        )

    def test_the_network_of_another_is_judged_if_an_address_is_named(self, world, provider):
        issued = world.new_key(networks=["192.0.2.0/24"])
        options = {"key": token_of(new_admin()), "query": f"&asUser={world.user.pk}&asKey={issued.key.name}"}
        unknown = explain(world, **options)
        assert unknown["allowed"] is True
        sentence = (
            "The key may only be used from 192.0.2.0/24. The address of the client is unknown and was not checked."
        )
        assert sentence in unknown["sentences"]
        query = options.pop("query")
        inside, outside = (
            explain(world, query=f"{query}&fromAddress={one}", **options) for one in ("192.0.2.7", "::1")
        )
        assert (inside["allowed"], outside["allowed"]) == (True, False)
        assert outside["error"]["message"].endswith("from the address ::1.")
        assert sentence not in inside["sentences"]
        assert explain(world, key=issued.text, query="&fromAddress=192.0.2.7")["allowed"] is True

    def test_a_key_that_has_not_begun(self, world, provider):
        issued = world.new_key(not_before=timezone.now() + timedelta(hours=1))
        world.settle()
        document = explain(world, key=token_of(world.user), query=f"&asKey={issued.key.name}")
        assert document["error"]["exception"] == "AuthenticationFailed"
        assert document["sentences"][1] == f"Key {issued.key.name} is not valid yet and needs an earlier beginning."

    def test_tokens_of_a_request(self, world, provider):
        issued = world.new_key(max_tokens_per_request=50)
        document = explain(world, key=issued.text, body={"max_tokens": 51})
        assert document["error"]["exception"] == "ValidationError"
        assert document["sentences"][1] == "The request has to be corrected at max_tokens."
        assert explain(world, key=issued.text)["outgoing"]["body"]["max_tokens"] == 50
        assert explain(world, key=issued.text)["estimate"]["outputTokens"] == 50

    def test_tags_of_the_key_choose_the_target(self, world, pair):
        first, second = pair
        alias = world.alias(world.target(first, match={"tags": {"team": "search"}}), world.target(second, tier=1))
        issued = world.new_key(tags={"team": "search"})
        document = explain(world, key=issued.text, body={"model": alias.name}, headers={"X-Svc-Tags": "team=x"})
        assert [row["provider"] for row in document["candidates"]] == [world.row(one).name for one in pair]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {}),
        ("/v1/responses", {"input": "Hello!"}),
        ("/v1/messages", {"max_tokens": 10}),
        ("/v1/messages/count_tokens", {}),
    ],
)
def test_the_client_apis_explain_too(world, provider, path, body):
    values = {"model": world.model, "messages": [{"role": "user", "content": "Hello!"}]} | body
    if "input" in body:
        del values["messages"]
    response = world.post(values, path=f"{path}?explain=true", headers={"anthropic-version": "2023-06-01"})
    assert response.status_code == 200, response.text
    assert response.json()["data"]["allowed"] is True
    assert provider.seen == []


def test_azures_path_and_header(world, provider):
    response = world.session.post(
        f"{world.gateway.url}/openai/deployments/{world.model}/chat/completions?api-version=1&explain=true",
        headers={"api-key": world.key},
        json={"messages": [{"role": "user", "content": "Hello!"}]},
    )
    assert response.json()["data"]["allowed"] is True
    assert provider.seen == []


def test_an_alias_and_what_is_left_out_of_it(world, pair):
    first, second = pair
    third = world.provider()
    alias = world.alias(
        world.target(first, weight=3),
        world.target(second, weight=1),
        world.target(third, match={"tags": {"stage": "beta"}}),
    )
    document = explain(world, body={"model": alias.name})
    assert {row["provider"] for row in document["candidates"]} == {world.row(one).name for one in pair}
    assert sorted(row["reason"].split("%")[0] for row in document["candidates"]) == ["It has 25 ", "It has 75 "]
    (row,) = document["leftOut"]
    assert row["provider"] == world.row(third).name
    assert "stage=beta" in row["reason"]


def test_what_rules_leave_out_of_an_alias_is_said_with_the_name_that_they_judged(world):
    first, second, third = (world.provider() for _ in range(3))
    alias = world.alias(first, second, third)
    world.allow(regex=world.model)
    allowing = world.allow(regex=alias.name, provider=world.row(first))
    denying = world.allow(regex=alias.name, provider=world.row(third), effect="deny")
    document = explain(world, body={"model": alias.name})
    assert [row["provider"] for row in document["candidates"]] == [world.row(first).name]
    assert {row["provider"]: row["reason"] for row in document["leftOut"]} == {
        world.row(second).name: f"Rule {allowing.name} decides, and it allows another provider.",
        world.row(third).name: f"Rule {denying.name} denies it.",
    }


def test_the_rule_that_decided_is_named_where_a_later_one_would_have_allowed_more(world, pair):
    allowing = world.allow(regex=world.model, provider=world.row(pair[0]), position=1)
    document = explain(world)
    assert [row["reason"] for row in document["leftOut"]] == [
        f"Rule {allowing.name} decides, and it allows another provider."
    ]
