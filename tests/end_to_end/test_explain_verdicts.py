"""What an explanation says of the cache, of requests in flight and of aliases, and that the schema describes it."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy

import pytest

from licensing.models import Limit
from rules.guardrails.services import create_guardrail, delete_guardrail
from tests.support.explaining import explain, reasons
from tests.support.management import new_admin, token_of

pytestmark = pytest.mark.either_store

SECONDS = 4  # that a request takes whose flight is looked at


@pytest.fixture
def patient(world):
    """A provider that may take its time."""
    world.allow()
    return world.provider(first_byte_timeout_seconds=30, idle_timeout_seconds=30, total_timeout_seconds=30)


@contextmanager
def in_flight(world, provider, prompt, **options):
    """A request that the provider has, and has not answered."""
    world.settle()
    provider.answers(delay=SECONDS)
    with ThreadPoolExecutor(1) as pool:
        response = pool.submit(world.ask, prompt, **options)
        provider.wait_for(1)
        yield
        assert not response.done(), "it was answered before it was looked at"
        assert response.result().status_code == 200


def test_an_identical_request_that_is_in_flight(world, patient):
    world.price()
    with in_flight(world, patient, "Once?"):
        document = explain(world, "Once?")
        other = explain(world, "Another?")
    assert document["cache"]["verdict"] == "in flight"
    assert document["allowed"] is True
    assert document["outgoing"] is None
    assert document["estimate"]["cost"] == "0"
    assert "An identical request is in flight, and its answer would be used." in document["sentences"]
    assert other["cache"]["verdict"] == "miss"
    assert other["cache"]["key"] != document["cache"]["key"]
    assert float(other["estimate"]["cost"]) > 0
    assert len(patient.seen) == 1
    assert explain(world, "Once?")["cache"]["verdict"] == "hit"


@pytest.mark.parametrize(
    ("scope", "own_keys", "members", "others"),
    [
        ("global", "hit", "hit", "hit"),
        ("group", "hit", "hit", "miss"),
        ("user", "hit", "miss", "miss"),
        ("key", "miss", "miss", "miss"),
    ],
)
def test_who_shares_a_stored_answer(world, scope, own_keys, members, others):
    world.provider(cache_scope=scope)
    member, stranger = world.new_user(), world.new_user()
    world.new_group(world.user, member)
    for user in (world.user, member, stranger):
        world.allow(user=user)
    world.settle()
    assert world.ask("Once?").status_code == 200
    keys = [world.new_key().text, world.new_key(owner=member).text, world.new_key(owner=stranger).text]
    documents = [explain(world, "Once?", key=key)["cache"] for key in (world.key, *keys)]
    assert [one["verdict"] for one in documents] == ["hit", own_keys, members, others]
    assert {one["scope"] for one in documents} == {scope}


def test_what_others_have_reserved_is_shown_before_the_request(world, patient):
    world.price()
    issued = world.new_key()
    for measure, window, amount in (("tokens", "day", 10_000), ("cost", "month", 5), ("concurrent", "none", 2)):
        Limit.objects.create(key=issued.key, measure=measure, window=window, amount=amount)
    body, name = {"max_tokens": 100}, issued.key.name
    with in_flight(world, patient, "Once?", key=issued.text, body=body):
        rows = {row["limit"]: row for row in explain(world, "Another?", key=issued.text, body=body)["limits"]}
    tokens, cost = rows[f"daily token limit of key {name}"], rows[f"monthly cost limit of key {name}"]
    assert tokens["used"] == 0
    assert tokens["reserved"] > 100
    assert tokens["remaining"] == 10_000 - tokens["reserved"]
    assert float(cost["reserved"]) > 0
    assert rows[f"concurrent request limit of key {name}"]["used"] == 1
    after = {row["limit"]: row for row in explain(world, "Another?", key=issued.text, body=body)["limits"]}
    assert after[f"daily token limit of key {name}"]["reserved"] == 0
    assert after[f"daily token limit of key {name}"]["used"] > 0


def test_an_alias_whose_targets_no_rule_allows(world):
    alias = world.alias(world.provider())
    rule = world.allow(regex=alias.name)
    document = explain(world, body={"model": alias.name})
    assert document["error"]["exception"] == "RuleDenied"
    assert document["sentences"][1] == "Rules have to allow one of the alias's targets, too."
    assert not any("has to allow the model" in one for one in document["sentences"])
    assert reasons(document)[rule.name] == (
        True,
        "It allows the name of the alias, but no rule allows one of its targets.",
    )


@pytest.fixture
def schema(world):
    """Checks a document of explanations by the published schema, in which every member is named."""
    published = world.get("/schema/").json()
    strict = deepcopy(published["components"])
    for component in strict["schemas"].values():
        if "properties" in component:
            component["additionalProperties"] = False

    import jsonschema  # takes seconds: not in each process that collects tests

    def check(body, path="/work", method="post"):
        answer = published["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"]
        ((reference,),) = [[one for one in answer.get("anyOf", [answer]) if "$ref" in one]]
        jsonschema.validate(body, reference | {"components": strict})

    return check


def test_the_schema_describes_the_answer(world, provider, schema, request):
    from jsonschema import ValidationError

    guardrails = [
        create_guardrail(name=world.name(kind), type=kind, applies_to={"users": [world.user.pk]}, **options)
        for kind, options in (
            ("pii", {"parameters": {"kinds": ["email"]}}),
            ("json", {"direction": "response", "action": "monitor", "parameters": {"repair": True}}),
        )
    ]
    request.addfinalizer(lambda: [delete_guardrail(one) for one in guardrails])
    world.price()
    world.new_group(world.user)
    second, key = world.provider(), world.new_key()
    alias = world.alias(world.target(provider), world.target(second, match={"tags": {"stage": "beta"}}))
    for measure, window, amount in (("tokens", "day", 10_000), ("cost", "month", 5), ("concurrent", "none", 2)):
        Limit.objects.create(key=key.key, measure=measure, window=window, amount=amount)
    options = (
        {"key": key.text},
        {"body": {"model": alias.name}},
        {"body": {"model": "nobody-has-this"}},
        {"prompt": "Write to bob@example.com."},
        {"key": token_of(world.user), "headers": {"X-Svc-Cache": "bypass"}},
        {"key": token_of(new_admin()), "query": f"&asUser={world.user.pk}"},
    )
    documents = [explain(world, **one) for one in options]
    for document in documents:
        schema({"data": document})
    served, by_alias, unknown, blocked = documents[:4]
    assert {row["repairs"] for row in served["guardrails"]} == {True, False}
    assert served["outgoing"].keys() == {"url", "headers", "body"}
    assert by_alias["leftOut"]
    assert unknown["error"]["exception"] == "ProviderNotSelected"
    assert blocked["error"]["exception"] == "GuardrailBlocked"
    for member in served:
        with pytest.raises(ValidationError):
            schema({"data": {name: value for name, value in served.items() if name != member}})
    with pytest.raises(ValidationError):
        schema({"data": {**served, "outgoing": {**served["outgoing"], "headers": 5}}})


def test_the_schema_describes_those_of_client_apis_and_of_entries(world, provider, schema):
    chat = {"model": world.model, "messages": [{"role": "user", "content": "Hello!"}]}
    for path in ("/v1/chat/completions", "/v1/messages"):
        response = world.post(chat | {"max_tokens": 5}, path=f"{path}?explain=true")
        schema(response.json(), path)
    entry = world.entry(world.ask())
    response = world.get(f"/logs/{entry.pk}/explanation/", key=token_of(new_admin()))
    schema(response.json(), "/logs/{id}/explanation/", "get")
