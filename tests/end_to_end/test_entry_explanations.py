"""GET /logs/{id}/explanation/: each request in the log says why it was served or refused."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from accounts.services import add_member
from licensing.models import Limit
from rules.guardrails.services import create_guardrail, delete_guardrail
from rules.services import delete_rule, update_rule
from telemetry.audit.models import AuditEntry
from telemetry.models import EntryType, LogEntry, Outcome
from tests.support.explaining import MEMBERS, explain
from tests.support.management import new_admin, new_user, token_of
from tests.support.pace import in_one_minute

pytestmark = pytest.mark.either_store


def explanation(world, entry, key=None):
    """The explanation of an entry, for an admin unless told."""
    response = world.get(f"/logs/{entry.pk}/explanation/", key=key or token_of(new_admin()))
    assert response.status_code == 200, response.text
    document = response.json()["data"]
    assert document.keys() == MEMBERS
    assert document["allowed"] == (document["error"] is None)
    assert all(one.endswith(".") for one in document["sentences"]), document["sentences"]
    return document


def rules(document):
    return {row["name"]: (row["matched"], row["reason"]) for row in document["rules"]}


def test_a_request_that_was_served(world, provider):
    world.price()
    entry = world.entry(world.ask())
    document = explanation(world, entry)
    name = world.row(provider).name
    assert document["sentences"][:4] == [
        "The request was served.",
        f"User {world.user.username} sent it with key {entry.key_name}.",
        f"Rule {entry.rule_name} allowed it.",
        f"Provider {name} was asked for {world.model} and answered.",
    ]
    assert document["candidates"] == [{"provider": name, "model": world.model, "reason": "It answered.", "position": 1}]
    assert rules(document)[entry.rule_name] == (True, "It allows the request.")
    assert document["cache"] == {"verdict": "miss", "key": entry.cache_hash, "scope": "global", "ageSeconds": None}
    assert float(document["estimate"]["cost"]) == float(entry.cost)
    assert document["caller"]["mayWork"] is True
    assert document["leftOut"] == document["guardrails"] == []
    assert document["outgoing"] is None
    assert "The log does not have the request that was sent to the provider." in document["sentences"]


def test_the_rules_are_those_of_that_moment(world):
    world.provider()
    narrow = world.allow(name=world.name("narrow"), regex="other-.*")
    entry, name = world.entry(world.ask()), narrow.name
    update_rule(narrow, regex=".*", name=world.name("wide"))
    world.allow(everyone="user")
    served = world.entry(world.ask("again"))
    before, after = explanation(world, entry), explanation(world, served)
    assert before["error"]["exception"] == "RuleDenied"
    assert before["sentences"][0].startswith("The request was refused with 403 RuleDenied: No rule allows")
    assert f"Rule {name} allows only models that match other-.*." in before["sentences"]
    assert rules(before)[name] == (False, f"Its pattern other-.* does not match the model {world.model}.")
    assert rules(after)[narrow.name] == (True, "It allows the request.")
    assert narrow.name not in rules(before)
    delete_rule(narrow)
    assert rules(explanation(world, entry)) == rules(before)
    assert rules(explanation(world, served))[narrow.name][0] is True


def test_a_rule_that_denied_it(world, provider):
    denying = world.allow(name=world.name("no"), effect="deny")
    document = explanation(world, world.entry(world.ask()))
    assert document["sentences"][1] == f"Rule {denying.name} denies it, and has to be changed or disabled."
    assert rules(document)[denying.name] == (True, "It refuses the request.")
    assert [row["reason"] for row in document["leftOut"]] == [
        "The rules, or the key's list of models, did not allow it."
    ]


def test_providers_that_failed_before_another_answered(world, pair):
    first, second = pair
    alias = world.alias(world.target(first), world.target(second, tier=1))
    first.answers(status=500)
    document = explanation(world, world.entry(world.ask(body={"model": alias.name})))
    names = [world.row(one).name for one in pair]
    assert [row["provider"] for row in document["candidates"]] == names
    assert [row["reason"] for row in document["candidates"]] == ["It failed: error, ProviderError.", "It answered."]
    assert f"The model {alias.name} was an alias." in document["sentences"]
    assert f"Provider {names[0]} was asked for {world.model} and failed (ProviderError)." in document["sentences"]


def test_a_stored_answer(world, provider):
    world.ask("Once?")
    entry = world.entry(world.ask("Once?"))
    world.until(lambda: explanation(world, entry)["cache"]["ageSeconds"] is not None)
    document = explanation(world, entry)
    assert document["cache"]["verdict"] == "hit"
    assert "A stored answer was served, and no provider was called." in document["sentences"]
    assert [row["reason"] for row in document["candidates"]] == ["Its stored answer was served."]


def limited_key(world, provider, *limits):
    """A key with limits, besides which its owner, a group of theirs and the provider have some."""
    issued, group = world.new_key(), world.new_group(world.user)
    Limit.objects.create(user=world.user, measure="tokens", window="minute", amount=50_000)
    Limit.objects.create(group=group, measure="requests", window="month", amount=900)
    Limit.objects.create(provider=world.row(provider), measure="tokens", window="day", amount=70_000)
    for measure, window, amount in limits:
        Limit.objects.create(key=issued.key, measure=measure, window=window, amount=amount)
    world.settle()
    return issued, group


LIMITS = ("requests", "minute", 3), ("tokens", "day", 10_000), ("cost", "month", 5), ("concurrent", "none", 2)


def test_an_entry_has_the_limits_that_the_request_met_with(world, provider):
    world.price()
    (issued, group), body = limited_key(world, provider, *LIMITS), {"max_tokens": 100}
    in_one_minute(10)
    for number in range(3):
        preview = explain(world, f"Number {number}?", key=issued.text, body=body)["limits"]
        entry = world.entry(world.ask(f"Number {number}?", key=issued.text, body=body))
        document = explanation(world, entry)
        rows = {row["limit"]: row for row in document["limits"]}
        assert rows == {row["limit"]: row for row in preview if row["amount"] is not None}
        assert rows[f"request limit of key {issued.key.name}"]["used"] == number
        assert {f"monthly request limit of group {group.name}", f"token limit of user {world.user.username}"} <= {*rows}
        assert f"{len(rows) - 1} limits of the caller had room." in document["sentences"]  # one is the provider's
        assert any(one.startswith("The estimate was ") for one in document["sentences"])
    refusal = explanation(world, world.entry(world.ask("Another?", key=issued.text, body=body)))
    assert refusal["error"]["exception"] == "RateLimited"
    row = next(one for one in refusal["limits"] if one["limit"] == f"request limit of key {issued.key.name}")
    assert (row["used"], row["remaining"], row["amount"]) == (3, 0, 3)
    assert not any("had room" in one for one in refusal["sentences"])


def test_what_others_have_reserved_is_in_an_entry(world, provider):
    issued, _ = limited_key(world, provider, ("tokens", "day", 10_000), ("concurrent", "none", 2))
    provider.answers(delay=3).answers(delay=2)
    ask = partial(world.ask, key=issued.text, body={"max_tokens": 100})
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, "First?")
        provider.wait_for(1)
        second = pool.submit(ask, "Second?")
        provider.wait_for(2)
        third = ask("Third?")
    entries = [world.entry(one) for one in (first.result(), second.result(), third)]
    documents = [{row["limit"]: row for row in explanation(world, entry)["limits"]} for entry in entries]
    tokens = [rows[f"daily token limit of key {issued.key.name}"]["reserved"] for rows in documents]
    assert tokens[0] == 0
    assert 0 < tokens[1] < tokens[2]
    uses = [rows[f"concurrent request limit of key {issued.key.name}"]["used"] for rows in documents]
    assert uses == [0, 1, 2]


def test_a_provider_that_was_full_is_in_an_entry(world, pair):
    alias = world.alias(world.target(pair[0]), world.target(pair[1], tier=1), fallback_on=["budget"])
    Limit.objects.create(provider=world.row(pair[0]), measure="requests", window="day", amount=1)
    world.settle()
    documents = [
        explanation(world, world.entry(world.ask(text, body={"model": alias.name}))) for text in ("One?", "Two?")
    ]
    name = world.row(pair[0]).name
    rows = [next(row for row in one["limits"] if name in row["limit"]) for one in documents]
    assert [(row["used"], row["remaining"]) for row in rows] == [(0, 1), (1, 0)]
    assert documents[1]["leftOut"] == [{"provider": name, "model": None, "reason": "One of its limits was used up."}]
    assert documents[1]["allowed"]


@pytest.mark.parametrize(
    ("headers", "verdict", "sentence"),
    [
        ({"X-Svc-Cache": "refresh"}, "refresh", "The request asked for a fresh answer."),
        ({"X-Svc-Cache": "bypass"}, "bypass", "The request bypassed the cache."),
    ],
)
def test_what_the_request_wanted_of_the_cache(world, provider, headers, verdict, sentence):
    preview = explain(world, headers=headers)["cache"]
    document = explanation(world, world.entry(world.ask(headers=headers)))
    assert document["cache"] == preview
    assert document["cache"]["verdict"] == verdict
    assert sentence in document["sentences"]


def test_a_refused_request_did_not_come_to_the_cache(world):
    world.provider()
    document = explanation(world, world.entry(world.ask()))
    assert (document["cache"]["verdict"], document["cache"]["key"]) == ("off", None)


def test_guardrails_that_ran(world, provider, request):
    guardrail = create_guardrail(
        name=world.name("mail"), type="pii", parameters={"kinds": ["email"]}, applies_to={"users": [world.user.pk]}
    )
    request.addfinalizer(lambda: delete_guardrail(guardrail))
    world.settle()
    document = explanation(world, world.entry(world.ask("Write to bob@example.com.")))
    assert document["error"]["exception"] == "GuardrailBlocked"
    assert document["guardrails"] == [
        {
            "id": guardrail.pk, "name": guardrail.name, "action": "block", "directions": ["request"],
            "repairs": False, "result": "blocked", "counts": {"email": 1},
        }
    ]  # fmt: skip
    assert f"Guardrail {guardrail.name} searched the request: blocked." in document["sentences"]


def test_a_guardrail_that_may_ask_once_more(world, provider, request):
    guardrail = create_guardrail(
        name=world.name("json"), type="json", action="monitor", direction="response", parameters={"repair": True},
        applies_to={"users": [world.user.pk]},
    )  # fmt: skip
    request.addfinalizer(lambda: delete_guardrail(guardrail))
    world.settle()
    entry = world.entry(world.ask())
    (row,) = explanation(world, entry)["guardrails"]
    assert (row["action"], row["repairs"], row["directions"]) == ("monitor", True, ["response"])
    (preview,) = explain(world)["guardrails"]
    assert {name: preview[name] for name in ("id", "action", "repairs")} == {
        name: row[name] for name in ("id", "action", "repairs")
    }


def test_an_entry_of_an_older_version_has_no_action(world):
    run = {"id": 5, "name": "old", "direction": "request", "result": "passed", "milliseconds": 1, "counts": {}}
    entry = LogEntry.objects.create(entry_type="WorkRequest", outcome="completed", model="m", guardrails=[run])
    (row,) = explanation(world, entry)["guardrails"]
    assert (row["action"], row["repairs"], row["result"]) == (None, None, "passed")
    entry.delete()


def test_what_was_not_recorded_is_named(world, provider):
    entry = LogEntry.objects.create(
        entry_type=EntryType.WORK_REQUEST, outcome="completed", model="m", user_id=world.user.pk, cache_status="HIT"
    )
    document = explanation(world, entry)
    assert document["limits"] == document["guardrails"] == []
    assert document["sentences"][-5:] == [
        "The log does not have the request that was sent to the provider.",
        "The log does not have the state of the limits.",
        "The log does not have an estimate, because no limit needed one.",
        "The log does not have the age of the stored answer.",
        "Reasons use today's names of users, groups and providers.",
    ]


def test_a_request_without_a_model_that_anybody_offers(world, provider):
    document = explanation(world, world.entry(world.ask(body={"model": "nobody-has-this"})))
    assert document["error"]["exception"] == "ProviderNotSelected"
    assert document["candidates"] == []


def test_an_unknown_credential(world, provider):
    document = explanation(world, world.entry(world.ask(key="nonsense")))
    assert document["error"]["code"] == 401
    assert document["rules"] == []
    assert document["caller"]["mayWork"] is None
    assert "Its credential was not accepted." in document["sentences"]


def test_the_recorded_rule_is_the_one_that_matches_now_as_then(world, pair):
    group = world.new_group(world.user)
    world.allow(group=group, regex="nothing")
    world.allow(group=group, regex=f"{world.model}", provider=world.row(pair[0]))
    for number in range(6):
        entry = world.entry(world.ask(f"{number}", headers={"X-Svc-Provider": world.row(pair[number % 2]).name}))
        document = explanation(world, entry)
        matching = [row["id"] for row in document["rules"] if row["matched"]]
        assert matching == ([] if entry.rule_id is None else [entry.rule_id])
        assert document["caller"]["groups"] == [{"id": group.pk, "name": group.name}]


class TestWhoMay:
    def test_the_owner_sees_the_rules_that_are_for_them(self, world, provider):
        others = world.allow(user=world.new_user())
        entry = world.entry(world.ask())
        own = explanation(world, entry, token_of(world.user))
        assert others.name not in rules(own)
        assert own["otherRules"] >= 1
        everything = explanation(world, entry)
        assert others.name in rules(everything)
        assert everything["otherRules"] == 0

    def test_an_admin_of_a_group_sees_what_happened_to_its_members(self, world, provider):
        group, head = world.new_group(world.user), new_user()
        add_member(group, user_id=head.pk, is_admin=True)
        world.settle()
        entry = world.entry(world.ask())
        assert explanation(world, entry, token_of(head))["allowed"] is True

    def test_nobody_else(self, world, provider):
        entry = world.entry(world.ask())
        for key, status in ((token_of(new_user()), 404), (world.key, 403), ("nonsense", 401)):
            assert world.get(f"/logs/{entry.pk}/explanation/", key=key).status_code == status

    def test_who_sees_all_logs_sees_it_without_the_rules_of_others(self, world, provider):
        others = world.allow(user=world.new_user())
        entry = world.entry(world.ask())
        document = explanation(world, entry, token_of(new_user("logs.view_all")))
        assert others.name not in rules(document)

    def test_an_entry_of_no_request_has_none(self, world, provider):
        entry = LogEntry.objects.create(entry_type=EntryType.MESSAGE, message="Something happened.")
        for number in (entry.pk, 999_999_999):
            assert world.get(f"/logs/{number}/explanation/", key=token_of(new_admin())).status_code == 404

    def test_whoever_reads_the_log_so_is_not_in_the_audit(self, world, provider):
        entry = world.entry(world.ask())
        response = world.get(f"/logs/{entry.pk}/explanation/", key=token_of(new_admin()))
        assert response.status_code == 200
        assert not AuditEntry.objects.filter(request_id=response.headers["X-Svc-Request-ID"]).exists()

    def test_it_has_no_parameters(self, world, provider):
        entry = world.entry(world.ask())
        response = world.get(f"/logs/{entry.pk}/explanation/?asUser=1", key=token_of(new_admin()))
        assert response.status_code == 400


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (Outcome.TRUNCATED, "The answer ended before it was complete"),
        (Outcome.CLIENT_CLOSED, "The client disconnected"),
        (Outcome.ABORTED, "The process that served the request ended"),
    ],
)
def test_each_ending_has_a_sentence(world, provider, outcome, words):
    entry = LogEntry.objects.create(
        entry_type=EntryType.WORK_REQUEST, outcome=outcome, model="m", user_id=1, candidates=[["gone", "failed", ""]]
    )
    document = explanation(world, entry)
    assert document["sentences"][0].startswith(words)
    assert document["candidates"][0]["provider"] == "gone"
