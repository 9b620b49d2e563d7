"""GET /logs/{id}/explanation/: each request in the log says why it was served or refused."""

import pytest

from accounts.services import add_member
from rules.services import delete_rule, update_rule
from telemetry.models import EntryType, LogEntry, Outcome
from tests.end_to_end.test_explain import MEMBERS
from tests.support.management import new_admin, new_user, token_of

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
    assert document["cache"] == {"verdict": "miss", "key": entry.cache_hash, "scope": None, "ageSeconds": None}
    assert float(document["estimate"]["cost"]) == float(entry.cost)
    assert document["caller"]["mayWork"] is True
    assert document["leftOut"] == document["limits"] == []
    assert document["outgoing"] is None


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
    document = explanation(world, world.entry(world.ask("Once?")))
    assert document["cache"]["verdict"] == "hit"
    assert "A stored answer was served, and no provider was called." in document["sentences"]
    assert [row["reason"] for row in document["candidates"]] == ["Its stored answer was served."]


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
