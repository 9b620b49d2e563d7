"""Access requests over HTTP: asking, deciding, and who may."""

from decimal import Decimal
from threading import Thread

import pytest
from django.db import connection

from accounts.access_requests.models import AccessRequest
from accounts.models import Group
from accounts.services import add_member, create_group
from gateway_project.access_requests import services
from keys.services import issue_key
from licensing.models import Limit
from licensing.services import change_limit, set_limit
from providers.models import Provider
from providers.services import add_model
from rules.models import Rule
from rules.services import create_rule, update_rule
from telemetry.audit.models import AuditEntry
from tests.support.access_requests import LIMIT, MODEL, PATH, ask, in_an_hour, let_end, membership, row
from tests.support.hostile import try_wrong
from tests.support.management import new_admin, new_user, refused

pytestmark = pytest.mark.either_store


class TestAsking:
    def test_an_id_tells_nobody_the_name_of_a_group(self, as_ann, ann, nobody, boss, group):
        by_id = {"kind": "membership", "groupId": group.pk, "reason": "r"}
        answers = [as_ann.post(PATH, **by_id | {"groupId": number}) for number in (group.pk, 99999)]
        texts = {answer.json()["message"].replace(str(group.pk), "99999") for answer in answers}
        assert ([answer.status_code for answer in answers], len(texts)) == ([400, 400], 1)
        refused(
            as_ann.post(PATH, **membership(group) | {"groupName": "Elsewhere"}), 400, "ValidationError", "groupName"
        )
        refused(as_ann.post(PATH, **membership(group) | by_id), 400, "ValidationError", "groupName")
        viewer = nobody.as_user(new_user("groups.view"))
        assert viewer.post(PATH, **by_id).status_code == 201
        refused(nobody.as_user(boss).post(PATH, **by_id), 409, "Conflict", "groupId")

    def test_a_rule_with_the_name_of_a_grant_is_in_nobodys_way(self, as_ann, ann, admin):
        path = ask(as_ann, **MODEL)
        number = path.split("/")[2]
        create_rule(name=f"Access request {number}", user_id=0)
        assert admin.post(f"{path}grant/").status_code == 200
        assert Rule.objects.get(user=ann).name == f"Access request {number} (2)"

    def test_a_request_is_shown_with_all_it_has(self, as_ann, ann, admin):
        path = ask(as_ann, **MODEL)
        expected = {
            "id": int(path.split("/")[2]), "userId": ann.pk, "userName": "ann", "kind": "model", "model": "gpt-5",
            "providerId": None, "providerName": None, "groupId": None, "groupName": None, "measure": None,
            "window": None, "amount": None, "reason": MODEL["reason"], "state": "open", "note": "",
            "decidedAt": None, "decidedBy": None, "until": None, "endedAt": None,
        }  # fmt: skip
        for client in (as_ann, admin):
            assert {name: value for name, value in row(client, path).items() if name != "createdAt"} == expected
        assert [one["id"] for one in admin.rows(f"{PATH}?state=open&kind=model&userId={ann.pk}")] == [expected["id"]]
        assert admin.rows(f"{PATH}?state=refused") == []

    @pytest.mark.parametrize(
        ("attributes", "field"),
        [
            ({"kind": "model"}, "model"),
            ({"kind": "model", "model": "a\u200bb"}, "model"),
            ({"kind": "model", "model": "m", "providerId": 99999}, "providerId"),
            ({"kind": "model", "model": "m", "groupId": 1}, "groupId"),
            ({"kind": "membership"}, "groupId"),
            ({"kind": "membership", "groupId": 99999}, "groupId"),
            ({"kind": "limit", "measure": "requests", "window": "day"}, "amount"),
            ({"kind": "limit", "measure": "requests", "amount": 5}, "window"),
            ({"kind": "limit", "measure": "concurrent", "window": "day", "amount": 5}, "window"),
            ({"kind": "limit", "measure": "requests", "window": "day", "amount": 0}, "amount"),
            ({"kind": "limit", "measure": "requests", "window": "day", "amount": 1.5}, "amount"),
            ({"kind": "limit", "measure": "requests", "window": "day", "amount": 10**19}, "amount"),
            ({"kind": "everything"}, "kind"),
            ({"kind": "model", "model": "m", "reason": ""}, "reason"),
            ({"kind": "model", "model": "m", "reason": " "}, "reason"),
            ({"kind": "model", "model": "m", "reason": "a\0b"}, "reason"),
            ({"kind": "model", "model": "m", "reason": "x" * 2001}, "reason"),
            ({"kind": "model", "model": "m", "state": "granted"}, "state"),
            ({"kind": "model", "model": "m", "userId": 1}, "userId"),
        ],
    )
    def test_what_cannot_be_asked_for_is_refused_with_its_field(self, as_ann, attributes, field):
        refused(as_ann.post(PATH, **{"reason": "why"} | attributes), 400, "ValidationError", field)
        assert not AccessRequest.objects.exists()

    def test_wrong_bodies_are_no_faults(self, as_ann):
        try_wrong(lambda **attributes: as_ann.post(PATH, **attributes), (*MODEL, *LIMIT), lambda: dict(MODEL))

    def test_what_one_has_already_is_refused(self, as_ann, ann, group):
        add_member(group, user_id=ann.pk)
        refused(as_ann.post(PATH, **membership(group)), 409, "Conflict", "groupId")
        limit = set_limit(user=ann, measure="requests", window="day", amount=500)
        refused(as_ann.post(PATH, **LIMIT), 409, "Conflict", "amount", "500")
        change_limit(limit, amount=0)
        refused(as_ann.post(PATH, **LIMIT), 409, "Conflict", "amount", "unlimited")

    def test_a_model_that_a_rule_allows_already_is_refused(self, as_ann, ann, first_provider):
        add_model(provider=first_provider, name="gpt-5")
        rule = create_rule(name="gpt-5", user_id=ann.pk, regex="gpt-5", provider_id=first_provider.pk)
        for about in ({}, {"providerId": first_provider.pk}):
            refused(as_ann.post(PATH, **MODEL | about), 409, "Conflict", "model: a rule already allows")
        other = Provider.objects.create(name="other", url="http://127.0.0.1:9", format=first_provider.format)
        ask(as_ann, **MODEL | {"providerId": other.pk})
        update_rule(rule, enabled=False)
        ask(as_ann, **MODEL)

    def test_nor_is_a_limit_below_the_default_which_would_lower_it(self, as_ann, ann, settings):
        settings.GATEWAY_LIMITS = {**settings.GATEWAY_LIMITS, "user": {("requests", "day"): Decimal(500)}}
        refused(as_ann.post(PATH, **LIMIT), 409, "Conflict", "amount", "500")
        assert as_ann.post(PATH, **LIMIT | {"amount": 501}).status_code == 201
        AccessRequest.objects.all().delete()
        set_limit(user=ann, measure="requests", window="day", amount=100)  # overrides the default
        assert as_ann.post(PATH, **LIMIT | {"amount": 200}).status_code == 201

    def test_nor_is_one_below_what_users_without_a_limit_have(self, as_ann, settings):
        settings.GATEWAY_GUARDS = {**settings.GATEWAY_GUARDS, "user": {("concurrent", "none"): Decimal(32)}}
        concurrent = {"kind": "limit", "measure": "concurrent", "reason": "A migration."}
        refused(as_ann.post(PATH, **concurrent, amount=32), 409, "Conflict", "amount", "32")
        assert as_ann.post(PATH, **concurrent, amount=33).status_code == 201

    def test_a_request_that_a_new_default_has_overtaken_is_not_granted(self, as_ann, admin, settings):
        path = ask(as_ann, **LIMIT)
        settings.GATEWAY_LIMITS = {**settings.GATEWAY_LIMITS, "user": {("requests", "day"): Decimal(0)}}
        refused(admin.post(f"{path}grant/"), 409, "Conflict", "unlimited")
        assert not Limit.objects.exists()

    def test_the_number_of_open_requests_is_bounded(self, as_ann, settings):
        settings.GATEWAY_MAX_ACCESS_REQUESTS = 2
        first = ask(as_ann, **MODEL)
        refused(as_ann.post(PATH, **MODEL), 409, "Conflict", "open request for this")
        ask(as_ann, **LIMIT)
        refused(as_ann.post(PATH, **MODEL | {"model": "other"}), 409, "Conflict", "2 open requests")
        assert as_ann.post(f"{first}withdraw/").status_code == 200
        ask(as_ann, **MODEL | {"model": "other"})

    def test_a_key_asks_for_nothing(self, nobody):
        key = issue_key(owner=new_admin(), name="k", permissions=["work", "rules.modify"]).text
        refused(nobody.with_credential(key).post(PATH, **MODEL), 403, "PermissionDenied")


class TestStates:
    @pytest.mark.parametrize("first", ["grant", "refuse", "withdraw"])
    @pytest.mark.parametrize("second", ["grant", "refuse", "withdraw"])
    def test_a_request_is_decided_once(self, as_ann, admin, first, second):
        path = ask(as_ann, **MODEL)
        clients = {"withdraw": as_ann}
        assert clients.get(first, admin).post(f"{path}{first}/").status_code == 200
        refused(clients.get(second, admin).post(f"{path}{second}/"), 409, "Conflict")
        assert Rule.objects.count() == (first == "grant")

    def test_only_what_is_granted_ends(self, as_ann, admin):
        path = ask(as_ann, **MODEL)
        refused(admin.post(f"{path}end/"), 409, "Conflict", "open")
        admin.post(f"{path}grant/")
        assert admin.post(f"{path}end/").status_code == 200
        refused(admin.post(f"{path}end/"), 409, "Conflict", "ended")

    def test_of_many_decisions_at_once_one_is_made(self, as_ann, admin):
        path = ask(as_ann, **MODEL)
        answers: list[int] = []
        clients = [admin.as_user(new_admin()) for _ in range(6)]

        def decide(client, decision):
            answers.append(client.post(f"{path}{decision}/").status_code)
            connection.close()

        threads = [
            Thread(target=decide, args=(client, ("grant", "refuse")[number % 2]))
            for number, client in enumerate(clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(answers) == [200, *[409] * 5]
        assert Rule.objects.count() == (row(admin, path)["state"] == "granted")

    def test_each_step_is_in_the_audit(self, as_ann, admin, group):
        path = ask(as_ann, **membership(group))
        admin.post(f"{path}grant/", until=in_an_hour())
        let_end(path)
        entries = AuditEntry.objects.order_by("pk").values_list("action", "resource", "actor")
        (*_, ask_entry, member_entry, grant_entry, removal_entry, end_entry) = list(entries)
        assert ask_entry == ("create", "access-requests", "ann")
        assert member_entry[:2] == ("create", "members")
        assert grant_entry[:2] == ("grant", "access-requests")
        assert removal_entry == ("destroy", "members", "gateway")
        assert end_entry == ("end", "access-requests", "gateway")


class TestWhoMay:
    """Nobody grants what they could not do themselves."""

    def test_others_do_not_see_it(self, as_ann, nobody, group):
        path = ask(as_ann, **membership(group))
        for stranger in (new_user(), new_user("work", "users.manage", "logs.view_all", "groups.view")):
            client = nobody.as_user(stranger)
            assert client.rows(PATH) == []
            for step in ("", "grant/", "refuse/", "withdraw/", "end/"):
                send = client.post if step else client.get
                refused(send(path + step), 404, "NotFound")
        assert row(as_ann, path)["state"] == "open"

    @pytest.mark.parametrize(
        ("feature", "visible"), [("rules.modify", {"model"}), ("groups.modify", {"membership"}), ("rules.view", set())]
    )
    def test_a_feature_decides_about_its_kind(self, as_ann, nobody, group, feature, visible):
        paths = {kind["kind"]: ask(as_ann, **kind) for kind in (MODEL, membership(group), LIMIT)}
        decider = new_user("work", feature)
        key = issue_key(owner=new_admin(), name="k", permissions=["work", feature, "stats.view"]).text
        for client in (nobody.as_user(decider), nobody.with_credential(key)):
            assert {one["kind"] for one in client.rows(PATH)} == visible
        client = nobody.as_user(decider)
        for kind, path in paths.items():
            expected = 200 if kind in visible else 404
            assert client.post(f"{path}grant/", until=in_an_hour()).status_code == expected, kind

    def test_an_admin_of_the_group_decides_about_its_members(self, as_ann, ann, nobody, boss, group):
        below = create_group(name="below", parent_id=group.pk)
        other = create_group(name="other")
        paths = [ask(as_ann, **membership(one)) for one in (group, below, other)]
        ask(as_ann, **MODEL)
        as_boss = nobody.as_user(boss)
        assert {one["groupName"] for one in as_boss.rows(PATH)} == {"search", "below"}
        assert [as_boss.post(f"{path}grant/").status_code for path in paths] == [200, 200, 404]
        assert set(Group.objects.filter(members=ann)) == {group, below}
        assert as_boss.post(f"{paths[0]}end/").status_code == 200
        key = issue_key(owner=boss, name="k", permissions=["work", "models.create"]).text
        assert nobody.with_credential(key).rows(PATH) == []

    def test_an_admin_of_a_group_lets_no_admin_in(self, nobody, boss, group):
        as_admin = nobody.as_user(new_admin())
        path = ask(as_admin, **membership(group))
        refused(nobody.as_user(boss).post(f"{path}grant/"), 403, "PermissionDenied")
        assert row(as_admin, path)["state"] == "open"

    def test_nobody_decides_about_their_own(self, admin):
        path = ask(admin, **MODEL)
        for step in ("grant", "refuse"):
            refused(admin.post(f"{path}{step}/"), 403, "PermissionDenied", "own request")

    def test_only_who_asked_withdraws(self, as_ann, admin):
        path = ask(as_ann, **MODEL)
        refused(admin.post(f"{path}withdraw/"), 403, "PermissionDenied")
        create_rule(name="r", regex="x", user_id=0)
        assert as_ann.post(f"{path}withdraw/").status_code == 200


def test_closed_requests_are_forgotten_at_some_time(as_ann, monkeypatch):
    monkeypatch.setattr(services, "MAX_CLOSED", 2)
    for number in range(5):
        path = ask(as_ann, **MODEL | {"model": f"m{number}"})
        as_ann.post(f"{path}withdraw/")
    assert [one["model"] for one in as_ann.rows(PATH)] == ["m4", "m3", "m2"]
