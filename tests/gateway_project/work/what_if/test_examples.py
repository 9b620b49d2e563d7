"""The entries behind each number: those of requests that are alike, up to a bound, and the paths of all of them."""

import io
import json
from datetime import timedelta
from decimal import Decimal

import pytest
from django.core.management import call_command
from django.utils import timezone

from accounts.services import create_group
from gateway_project.work.what_if import examples, outcome, traffic
from providers.services import create_provider
from telemetry.models import LogEntry
from tests.gateway_project.work.what_if.test_viewsets import MOMENT, allowed, bob, provider, result_of, served

pytestmark = pytest.mark.either_store
__all__ = ["allowed", "bob", "provider", "served"]

NO = {"name": "no", "effect": "deny"}


def ids(entries):
    return [entry.pk for entry in entries]


def denying(user, **values):
    return {"rules": [NO | {"userId": user.pk} | values]}


def test_each_of_several_that_are_alike_is_an_entry(admin, served, bob):
    entries = served(3)
    result = result_of(admin, **denying(bob))
    assert result["examples"]["newlyDenied"] == ids(entries)
    assert [row["examples"]["newlyDenied"] for row in (*result["byUser"], *result["byModel"])] == [ids(entries)] * 2


def test_others_with_another_key_model_tag_or_part_of_the_period_are_told_apart(admin, served, bob, provider):
    """An entry stands behind the number of its own user, model and change alone."""
    tagged = served(2, tags={"team": "red", "stage": "beta"})
    other = served(2, model="m2", served_model="m2", begin=MOMENT + timedelta(hours=1))
    without = served(2, provider_id=None, served_model=None, key_id=7, begin=MOMENT + timedelta(hours=2))
    later = served(2, begin=MOMENT + timedelta(hours=11))
    result = result_of(admin, **denying(bob, regex="m1"))
    assert result["examples"]["newlyDenied"] == ids([*tagged, *without, *later])
    (row,) = result["byModel"]
    assert row["model"] == "m1"
    assert len(set(row["examples"]["newlyDenied"]) & set(ids([*tagged, *without, *later]))) == 5
    assert not set(ids(other)) & set(result["examples"]["newlyDenied"])


def test_there_are_at_most_so_many_and_they_are_looked_up_once(admin, served, bob, django_assert_max_num_queries):
    entries = served(50)
    result = result_of(admin, **denying(bob))
    assert result["examples"]["newlyDenied"] == ids(entries[: traffic.MAX_EXAMPLES])
    assert result["byUser"][0]["examples"]["newlyDenied"] == ids(entries[: outcome.MAX_ROW_EXAMPLES])
    (group,) = traffic.traffic_of(MOMENT, MOMENT + timedelta(hours=6))
    with django_assert_max_num_queries(1):
        collection = examples.Examples(["a", "b"], 30)
        for number in ("a", "b", "a"):
            collection.add(number, group)
    assert collection.sorted_ids()["b"] == ids(entries[: traffic.MAX_EXAMPLES])


def test_nothing_is_looked_up_for_what_does_not_change(served, django_assert_num_queries):
    served(50)
    with django_assert_num_queries(1):
        (group,) = traffic.traffic_of(MOMENT, MOMENT + timedelta(hours=6))
        counts = outcome.Counts()
        counts.add(group, outcome.Judgement())
    assert counts.document()["examples"]["newlyDenied"] == []


def test_requests_of_another_price_for_long_ones_are_not_among_them(served):
    short, long = served(2), served(2, input_tokens=2000, begin=MOMENT + timedelta(hours=1))
    groups = list(traffic.traffic_of(MOMENT, MOMENT + timedelta(hours=6), [1000]))
    assert sorted(group.entries(20) for group in groups) == [ids(short), ids(long)]


def test_what_a_limit_refuses_has_its_entries(admin, served, bob):
    entries = served(5, every=1)
    limit = {"userId": bob.pk, "measure": "requests", "window": "minute", "amount": 3}
    result = result_of(admin, limits=[limit])
    assert result["examples"]["refusedByLimits"] == result["examples"]["newlyDenied"] == ids(entries[3:])
    assert result["byModel"][0]["examples"]["refusedByLimits"] == ids(entries[3:])


def test_what_a_guardrail_blocks_and_what_it_may_block_have_their_entries(admin, served):
    bodies = {"request": {"model": "m1", "messages": [{"role": "user", "content": "swordfish"}]}, "response": "Hi"}
    (blocked,) = served(1, payload=json.dumps(bodies))
    unknown = served(2, begin=MOMENT + timedelta(hours=1))
    result = result_of(admin, guardrails=[{"name": "g", "type": "words", "parameters": {"words": ["swordfish"]}}])
    assert result["examples"]["blockedByGuardrails"] == [blocked.pk]
    assert result["examples"]["unknownTexts"] == ids(unknown)


def test_what_is_not_judged_and_costs_that_are_unknown_have_their_entries(admin, served, bob):
    nobody = served(2, user_id=99_999_999)
    denied = {"outcome": "denied", "provider_id": None, "served_model": None, "cost": None, "currency": ""}
    others = served(2, model="m9", **denied, begin=MOMENT + timedelta(hours=1))
    create_provider(name="second", url="https://api.example.org/v1", format_name="openai", models=["m9"])
    admin.patch("/rules/{}/".format(admin.rows("/rules/")[0]["id"]), regex="m1")
    result = result_of(admin, rules=[{"name": "more", "userId": bob.pk, "regex": "m9"}])
    assert (result["skipped"], result["unknownCosts"], result["newlyAllowed"]) == (2, 2, 2)
    assert result["examples"]["skipped"] == ids(nobody)
    assert result["examples"]["unknownCosts"] == result["examples"]["newlyAllowed"] == ids(others)


def test_the_path_of_a_model_has_no_others(admin, served, bob):
    create_provider(name="second", url="https://api.example.org/v1", format_name="openai", models=["m10"])
    one, ten = served(2), served(2, model="m10", begin=MOMENT + timedelta(hours=1))
    result = result_of(admin, **denying(bob))
    paths = {row["model"]: row["log"] for row in result["byModel"]}
    for model, entries in (("m1", one), ("m10", ten)):
        assert [row["id"] for row in admin.rows(paths[model])] == ids(reversed(entries)), model
    assert [row["id"] for row in admin.rows(result["log"])] == ids(reversed([*one, *ten]))


def test_the_path_of_a_group_has_the_requests_of_its_members(admin, served, bob):
    group = create_group(name="team", member_ids=[bob.pk])
    entries = served(2, group_ids=[group.pk])
    served(2, begin=MOMENT + timedelta(hours=1))  # before Bob was a member
    (row,) = result_of(admin, **denying(bob))["byGroup"]
    assert [one["id"] for one in admin.rows(row["log"])] == ids(reversed(entries))


@pytest.fixture
def text_of(tmp_path):
    """What the command says of a draft."""

    def run(draft):
        file, output = tmp_path / "draft.json", io.StringIO()
        file.write_text(json.dumps(draft))
        call_command("what-if", str(file), "--days", "1", stdout=output)
        return output.getvalue()

    return run


def shown(entries):
    return f"(entries {', '.join(map(str, ids(entries)))})"


def test_the_command_says_causes_shares_and_entries(served, bob, text_of):
    begin = (timezone.now() - timedelta(hours=1)).replace(second=0)  # all of them in one minute
    (hit, *misses) = [*served(1, begin=begin, cache_status="HIT", cost=Decimal(0)), *served(3, begin=begin, every=1)]
    LogEntry.objects.create(entry_type="WorkRequest", user_id=99_999_999, model="m1")
    text = text_of(denying(bob))
    assert f"From the cache: 25.0% before {shown([hit])}, 0.0% after.\n" in text
    assert f"User bob: 4 newly denied {shown([hit, *misses])}, from the cache 25.0% before {shown([hit])}" in text
    assert "User no longer active: 1 (entries " in text
    limit = {"userId": bob.pk, "measure": "requests", "window": "minute", "amount": 3}
    text = text_of({"limits": [limit]})
    assert f"    of the newly denied requests: 1 refused by limits {shown(misses[-1:])}\n" in text
    assert f"Model m1: 1 newly denied {shown(misses[-1:])}, 1 refused by limits {shown(misses[-1:])}\n" in text
