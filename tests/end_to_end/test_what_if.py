"""manage.py what-if: recorded requests are judged again by a draft of rules, and nothing is changed."""

import io
import json
from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command

from rules.models import Rule
from rules.services import create_rule, update_rule
from telemetry.models import LogEntry

pytestmark = pytest.mark.either_store


@pytest.fixture
def what_if(tmp_path):
    """The result for a draft, as data."""

    def run(draft, *words):
        file, output = tmp_path / "draft.json", io.StringIO()
        file.write_text(json.dumps(draft))
        call_command("what-if", str(file), *words, stdout=output)
        return output.getvalue()

    return run


def of_model(world, text):
    """The row of the world's model; {} if nothing would have changed for it."""
    return next((row for row in json.loads(text)["byModel"] if row["model"] == world.model), {})


def asked(world, count, **options):
    """The entries of so many requests."""
    return [world.entry(world.ask(f"{number}", **options)) for number in range(count)]


def test_requests_that_would_have_been_denied(world, provider, what_if):
    world.price()
    entries = asked(world, 3)
    draft = {"rules": [{"name": "no", "effect": "deny", "regex": world.model, "userId": world.user.pk}]}
    row = of_model(world, what_if(draft, "--json"))
    spent = sum((entry.cost for entry in entries), Decimal(0))
    assert (row["newlyDenied"], row["newlyAllowed"], row["rerouted"]) == (3, 0, 0)
    assert Decimal(row["costBefore"]["USD"]) == round(spent, 9)
    assert row["costAfter"] == {}
    document = json.loads(what_if(draft, "--json"))
    assert set(document["examples"]["newlyDenied"]) >= {entry.pk for entry in entries}
    assert row["examples"]["newlyDenied"] == [entry.pk for entry in entries]
    (user,) = [one for one in document["byUser"] if one["userId"] == world.user.pk]
    assert (user["userName"], user["newlyDenied"]) == (world.user.username, 3)
    assert document["newlyDenied"] >= 3
    assert not Rule.objects.filter(name="no").exists()


def test_requests_that_would_have_been_allowed(world, what_if):
    world.provider()
    asked(world, 2)
    text = what_if({"rules": [{"name": "yes", "userId": world.user.pk}]}, "--json")
    assert of_model(world, text)["newlyAllowed"] == 2
    assert "The cost of 2 requests under the draft is unknown." in json.loads(text)["unknown"]


def test_requests_that_another_provider_would_have_served(world, pair, what_if):
    for one, amount in zip(pair, (1, 10), strict=True):
        world.price(amount, amount, provider=world.row(one))
    first, second = (world.row(one) for one in pair)
    rule = Rule.objects.filter(user=world.user).get()
    entries = asked(world, 2, headers={"X-Svc-Provider": first.name})
    asked(world, 1, headers={"X-Svc-Provider": second.name})
    draft = {"rules": [{"id": rule.pk, "name": rule.name, "userId": world.user.pk, "providerId": second.pk}]}
    row = of_model(world, what_if(draft, "--json"))
    assert (row["rerouted"], row["newlyDenied"]) == (2, 0)
    tokens = sum(entry.input_tokens + entry.output_tokens for entry in entries)
    assert Decimal(row["costAfter"]["USD"]) == round(Decimal(tokens) * 10 / 1_000_000, 9)


def test_a_rule_that_would_be_deleted_or_disabled(world, provider, what_if):
    asked(world, 2)
    rule = Rule.objects.filter(user=world.user).get()
    disabled = {"rules": [{"id": rule.pk, "name": rule.name, "userId": world.user.pk, "enabled": False}]}
    for draft in ({"delete": {"rules": [rule.pk]}}, disabled):
        assert of_model(world, what_if(draft, "--json"))["newlyDenied"] == 2


def test_a_disabled_rule_that_would_be_enabled(world, what_if):
    world.provider()
    rule = world.allow(enabled=False)
    asked(world, 1)
    draft = {"rules": [{"id": rule.pk, "name": rule.name, "userId": world.user.pk}]}
    assert of_model(world, what_if(draft, "--json"))["newlyAllowed"] == 1


def test_an_alias_that_another_provider_would_have_served(world, pair, what_if):
    alias = world.alias(world.target(pair[0]))
    asked(world, 2, body={"model": alias.name})
    targets = [{"provider": world.row(pair[1]).pk, "model": world.model}]
    draft = {"aliases": [{"id": alias.pk, "name": alias.name, "targets": targets}]}
    rows = json.loads(what_if(draft, "--json"))["byModel"]
    (row,) = [one for one in rows if one["model"] == alias.name]
    assert (row["rerouted"], row["newlyDenied"]) == (2, 0)
    without = json.loads(what_if({"delete": {"aliases": [alias.pk]}}, "--json"))["byModel"]
    assert [one["newlyDenied"] for one in without if one["model"] == alias.name] == [2]


def test_a_new_alias_takes_the_place_of_a_model(world, pair, what_if):
    first, second = (world.row(one) for one in pair)
    asked(world, 1, headers={"X-Svc-Provider": first.name})
    targets = [{"provider": second.pk, "model": world.model}]
    row = of_model(world, what_if({"aliases": [{"name": world.model, "targets": targets}]}, "--json"))
    assert row["rerouted"] == 1


def test_a_draft_that_changes_nothing(world, provider, what_if):
    asked(world, 1)
    assert of_model(world, what_if({}, "--json")) == {}
    rule = Rule.objects.filter(user=world.user).get()
    same = {"rules": [{"id": rule.pk, "name": "another name", "userId": world.user.pk}]}
    assert of_model(world, what_if(same, "--json")) == {}


@pytest.mark.parametrize("regex", ["model-.*", "nothing", ".*-1.*", ""])
@pytest.mark.parametrize("effect", ["allow", "deny"])
def test_what_it_says_is_what_happens_once_the_draft_is_saved(world, what_if, regex, effect):
    world.provider()
    rule = world.allow(regex="" if effect == "deny" else "other")
    before = world.ask("before")
    world.entry(before)
    values = {"name": world.name("draft"), "effect": effect, "regex": regex}
    row = of_model(world, what_if({"rules": [{**values, "userId": world.user.pk}]}, "--json"))
    saved = create_rule(**values, user_id=world.user.pk)
    world.settle()
    after = world.ask("after").status_code
    changes = {(200, 403): "newlyDenied", (403, 200): "newlyAllowed"}
    expected = changes.get((before.status_code, after))
    assert {name for name in changes.values() if row.get(name)} == ({expected} if expected else set())
    update_rule(saved, enabled=False)
    update_rule(rule, enabled=False)


def test_it_is_told_in_sentences(world, provider, what_if):
    (entry,) = asked(world, 1)
    text = what_if({"rules": [{"name": "no", "effect": "deny", "userId": world.user.pk}]}, "--days", "1")
    assert "requests of the last 1 day:" in text
    assert f"  1 newly denied (entries {entry.pk})\n" in text
    assert f"Model {world.model}: 1 newly denied (entries {entry.pk})\n" in text
    assert f"User {world.user.username}: 1 newly denied (entries {entry.pk})\n" in text
    assert "\nLimits, licence, cache and failures of providers are taken as they were.\n" in text


def test_who_is_not_active_now_is_not_judged(world, provider, what_if):
    entry = LogEntry.objects.create(entry_type="WorkRequest", user_id=99_999_999, model=world.model)
    document = json.loads(what_if({"rules": []}, "--json"))
    assert any("who are not active now were left out" in one for one in document["unknown"])
    entry.delete()


@pytest.mark.parametrize(
    ("draft", "problem"),
    [
        ([], "must be a JSON object"),
        ({"rule": []}, "rule: is unknown"),
        ({"prices": {}}, "prices: must be an array"),
        ({"aliases": [{"name": "a", "targets": [{"alias": "none-of-this"}]}]}, "no alias named none-of-this"),
        ({"aliases": [{"name": "a", "targets": [5]}]}, r"aliases\[0\].targets"),
        ({"aliases": [{"id": 99_999_999, "name": "a"}]}, "no row with id 99999999"),
        ({"rules": {}}, "rules: must be an array"),
        ({"rules": [5]}, r"rules\[0\]: must be an object"),
        ({"rules": [{"regex": "a"}]}, r"rules\[0\].name"),
        ({"rules": [{"name": "a", "colour": "red"}]}, r"rules\[0\].colour"),
        ({"rules": [{"name": "a", "regex": "("}]}, r"rules\[0\].regex"),
        ({"rules": [{"id": 99_999_999, "name": "a"}]}, "no row with id 99999999"),
        ({"rules": [{"name": "a", "userId": 99_999_999}]}, r"rules\[0\].userId: no user with id 99999999"),
        ({"rules": [{"name": "a", "providerId": 99_999_999}]}, r"rules\[0\].providerId: no provider with id 99999999"),
        ({"rules": [{"id": "5", "name": "a"}]}, r"rules\[0\].id"),
        ({"delete": {"rules": [99_999_999]}}, "no row with id 99999999"),
        ({"delete": {"users": [1]}}, "delete.users: is unknown"),
    ],
)
def test_what_is_wrong_in_a_draft_is_named(world, what_if, draft, problem):
    with pytest.raises(CommandError, match=problem):
        what_if(draft)


def test_files_and_days_that_do_not_fit(tmp_path, orm):
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("what-if", str(tmp_path / "none"))
    (deep := tmp_path / "deep").write_text("[" * 100_000)
    with pytest.raises(CommandError, match="cannot be read: maximum recursion depth"):
        call_command("what-if", str(deep))
    for days in ("0", "100000"):
        with pytest.raises(CommandError, match="--days must be"):
            call_command("what-if", str(tmp_path / "none"), "--days", days)
