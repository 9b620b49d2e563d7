"""Who may ask for an explanation of whose request, and what stays of the question."""

import json

import pytest

from keys.services import update_key
from telemetry.audit.models import AuditEntry
from telemetry.models import LogEntry
from tests.support.explaining import EXPLAIN, explain, reasons
from tests.support.management import new_admin, new_user, token_of

pytestmark = pytest.mark.either_store


class TestWhoMay:
    def test_nobody_without_a_credential(self, world, provider):
        for key in ("nonsense", world.key + "x"):
            response = world.ask(path=EXPLAIN, key=key)
            assert (response.status_code, response.json()["exception"]) == (401, "AuthenticationFailed")

    def test_an_admin_asks_about_anybody(self, world, provider):
        issued = world.new_key()
        admin = token_of(new_admin())
        document = explain(world, key=admin, query=f"&asUser={world.user.pk}&asKey={issued.key.name}")
        assert document["allowed"] is True
        assert (document["caller"]["userId"], document["caller"]["keyId"]) == (world.user.pk, issued.key.pk)

    def test_so_does_who_sees_all_logs_and_rules(self, world, provider):
        auditor = world.new_key(owner=new_admin(), permissions=["logs.view_all", "rules.view"])
        assert explain(world, key=auditor.text, query=f"&asUser={world.user.pk}")["allowed"] is True

    def test_others_do_not(self, world, provider):
        for credential in (world.key, token_of(new_user("logs.view_all")), token_of(new_user("rules.view"))):
            response = world.ask(path=f"{EXPLAIN}&asUser={new_user().pk}", key=credential)
            assert (response.status_code, response.json()["exception"]) == (403, "PermissionDenied")

    def test_a_login_asks_about_a_key_of_its_own(self, world, provider):
        issued = world.new_key()
        document = explain(world, key=token_of(world.user), query=f"&asKey={issued.key.name}")
        assert document["caller"]["keyName"] == issued.key.name

    @pytest.mark.parametrize("features", [["work"], ["work", "logs.view_all"], ["work", "rules.view"]])
    def test_a_key_names_no_other_credential_of_its_owner(self, world, provider, features):
        owner = new_admin()
        world.allow(user=owner)
        own = world.new_key(owner=owner, permissions=features)
        sibling = world.new_key(owner=owner, models=["secret-model"])
        for query in (f"&asKey={sibling.key.name}", f"&asUser={owner.pk}", f"&asUser={owner.pk}&asKey=none-of-this"):
            response = world.ask(path=f"{EXPLAIN}{query}", key=own.text)
            assert (response.status_code, response.json()["exception"]) == (403, "PermissionDenied"), query
            assert "secret-model" not in response.text
        for query in (f"&asKey={own.key.name}", f"&asUser={owner.pk}&asKey={own.key.name}"):
            assert explain(world, key=own.text, query=query)["caller"]["keyName"] == own.key.name

    def test_conditions_of_an_alias_tell_nothing_of_other_callers_and_keys(self, world, provider):
        other_user, group = world.new_user(), world.new_group(world.new_user())
        own, sibling = world.new_key(), world.new_key()
        matches = [
            {"userId": other_user.pk},
            {"groupId": group.pk, "tags": {"stage": "beta"}},
            {"userId": world.user.pk, "keyName": sibling.key.name},
            {"userId": world.user.pk, "keyName": own.key.name, "tags": {"stage": "new"}},
        ]
        targets = [world.target(world.provider(f"model-{number}"), f"model-{number}", match=match)
                   for number, match in enumerate(matches)]  # fmt: skip
        alias = world.alias(world.target(provider), *targets)

        def left_out(key, query=""):
            rows = explain(world, key=key, query=query, body={"model": alias.name})["leftOut"]
            conditions = {row["model"]: row["reason"].removeprefix("Its conditions do not hold: ") for row in rows}
            return [conditions[f"model-{number}"] for number in range(4)]

        own_condition = f"tag stage=new, user={world.user.pk}, key={own.key.name}."
        others = "it is for other callers."
        assert left_out(own.text) == [others, f"tag stage=beta; {others}", others, own_condition]
        siblings_condition = f"user={world.user.pk}, key={sibling.key.name}."
        assert left_out(token_of(world.user))[2:] == [siblings_condition, own_condition]
        query = f"&asUser={world.user.pk}&asKey={own.key.name}"
        assert left_out(token_of(new_admin()), query) == [
            f"user={other_user.pk}.", f"tag stage=beta, group={group.pk}.", siblings_condition, own_condition,
        ]  # fmt: skip

    def test_a_key_that_sees_all_names_siblings(self, world, provider):
        owner = new_admin()
        world.allow(user=owner)
        auditor = world.new_key(owner=owner, permissions=["logs.view_all", "rules.view"])
        sibling = world.new_key(owner=owner)
        document = explain(world, key=auditor.text, query=f"&asKey={sibling.key.name}")
        assert (document["caller"]["keyName"], document["allowed"]) == (sibling.key.name, True)

    def test_a_login_asks_about_no_key_of_another(self, world, provider):
        other = world.new_user()
        name = world.new_key(owner=other).key.name
        for query, status in ((f"&asUser={other.pk}&asKey={name}", 403), (f"&asKey={name}", 400)):
            assert world.ask(path=f"{EXPLAIN}{query}", key=token_of(world.user)).status_code == status

    def test_a_locked_key_says_so(self, world, provider):
        issued = world.new_key()
        update_key(issued.key, locked=True)
        world.settle()
        document = explain(world, key=token_of(new_admin()), query=f"&asUser={world.user.pk}&asKey={issued.key.name}")
        assert document["error"]["exception"] == "AuthenticationFailed"
        assert f"Key {issued.key.name} is locked, and has to be unlocked." in document["sentences"]

    def test_an_admin_sees_the_rules_for_others(self, world, provider):
        other = world.new_user()
        rule = world.allow(user=other)
        document = explain(world, key=token_of(new_admin()), query=f"&asUser={world.user.pk}")
        assert reasons(document)[rule.name] == (False, f"It is for user {other.username}.")
        assert document["otherRules"] == 0
        assert rule.name not in reasons(explain(world))

    @pytest.mark.parametrize(
        ("query", "parameter"),
        [
            ("explain=yes", "explain"), ("explain=true&asUser=bob", "asUser"), ("explain=true&explain=true", "explain"),
            ("explain=true&asKey=none-of-this", "asKey"), ("explain=true&fromAddress=here", "fromAddress"),
        ],
    )  # fmt: skip
    def test_what_is_wrong_in_the_query_is_named(self, world, provider, query, parameter):
        response = world.ask(path=f"/work?{query}", key=token_of(world.user))
        assert response.status_code == 400
        assert [problem["source"] for problem in response.json()["errors"]] == [{"parameter": parameter}]
        assert provider.seen == []

    def test_a_user_who_does_not_exist(self, world, provider):
        response = world.ask(path=f"{EXPLAIN}&asUser=99999999", key=token_of(new_admin()))
        assert response.status_code == 400

    def test_explain_false_sends_the_request(self, world, provider):
        response = world.ask(path="/work?explain=false")
        assert response.status_code == 200
        assert len(provider.seen) == 1
        world.entry(response)


def test_audit_entries_have_no_prompt(world, provider):
    response = world.ask("a very private question", path=EXPLAIN)
    entry = world.entry(response, kind="Message")
    assert "private" not in entry.payload
    row = AuditEntry.objects.get(request_id=response.headers["X-Svc-Request-ID"])
    assert (row.action, row.resource, row.message) == ("explain", "work", entry.message)
    assert "private" not in f"{row.before}{row.after}"
    assert LogEntry.objects.filter(correlation_id=response.headers["X-Svc-Request-ID"]).count() == 1


def test_the_audit_keeps_whose_request_was_looked_at(world, provider):
    user, issued = world.user, world.new_key()
    world.settle()
    options = {"key": token_of(new_admin()), "path": f"{EXPLAIN}&asUser={user.pk}&asKey={issued.key.name}"}
    for model, is_allowed in ((world.model, True), ("x" * 150, False)):
        response = world.ask(body={"model": model}, **options)
        row = AuditEntry.objects.get(request_id=response.headers["X-Svc-Request-ID"])
        expected = {"userId": user.pk, "keyName": issued.key.name, "model": model, "allowed": is_allowed}
        assert json.loads(row.after) == expected


def test_who_asks_too_often_is_refused(own_gateway):
    world = own_gateway(GATEWAY_WRITES_PER_MINUTE="3")
    world.provider()
    world.allow()
    statuses = [world.ask(path=EXPLAIN).status_code for _ in range(8)]
    assert statuses[:3] == [200, 200, 200]
    assert 429 in statuses
