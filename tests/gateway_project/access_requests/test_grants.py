"""What granting an access request creates, over HTTP."""

import pytest
import re2

from accounts.services import add_member, update_user
from gateway_project.access_requests.ending import end_due_requests
from licensing.models import Limit
from licensing.services import change_limit, set_limit
from rules.access_tests.services import create_access_test
from rules.models import Rule
from rules.services import update_rule
from telemetry.audit.models import AuditEntry
from tests.support.access_requests import LIMIT, MODEL, PATH, ask, in_an_hour, let_end, membership, row
from tests.support.management import new_user, refused

pytestmark = pytest.mark.either_store


class TestGranting:
    def test_a_model_becomes_a_rule_for_the_user_alone(self, as_ann, ann, admin, first_provider):
        path = ask(as_ann, **MODEL | {"model": "gpt-5.1 (beta)", "providerId": first_provider.pk})
        assert admin.post(f"{path}grant/", note="Fine.").status_code == 200
        rule = Rule.objects.get()
        assert (rule.user, rule.provider, rule.effect, rule.enabled) == (ann, first_provider, "allow", True)
        assert re2.fullmatch(rule.regex, "gpt-5.1 (beta)")
        assert not re2.fullmatch(rule.regex, "gpt-5x1 (beta)")
        shown = row(as_ann, path)
        assert (shown["state"], shown["note"], shown["until"]) == ("granted", "Fine.", None)
        assert shown["decidedBy"].startswith("admin")
        assert admin.post(f"{path}end/").status_code == 200
        assert not Rule.objects.exists()
        assert row(as_ann, path)["state"] == "ended"

    def test_a_membership_ends_at_its_time(self, as_ann, ann, admin, group):
        path = ask(as_ann, **membership(group))
        assert admin.post(f"{path}grant/", until=in_an_hour()).status_code == 200
        assert group.members.contains(ann)
        assert end_due_requests() == 0
        let_end(path)
        assert not group.members.contains(ann)
        assert end_due_requests() == 0

    def test_whoever_became_an_admin_of_the_group_stays(self, as_ann, ann, admin, nobody, boss, group):
        path = ask(as_ann, **membership(group))
        assert nobody.as_user(boss).post(f"{path}grant/", until=in_an_hour()).status_code == 200
        add_member(group, user_id=ann.pk, is_admin=True)
        refused(nobody.as_user(boss).post(f"{path}end/"), 403, "PermissionDenied")
        let_end(path)
        assert group.members.contains(ann)

    def test_who_came_back_by_another_way_stays(self, as_ann, ann, admin, group):
        path = ask(as_ann, **membership(group))
        admin.post(f"{path}grant/", until=in_an_hour())
        group.members.remove(ann)
        add_member(group, user_id=ann.pk)
        let_end(path)
        assert group.members.contains(ann)

    @pytest.mark.parametrize("former", [None, 100])
    def test_a_limit_gets_its_former_amount_back(self, as_ann, ann, admin, former):
        if former:
            set_limit(user=ann, measure="requests", window="day", amount=former)
        path = ask(as_ann, **LIMIT)
        assert admin.post(f"{path}grant/", until=in_an_hour()).status_code == 200
        assert Limit.objects.get(user=ann).amount == 500
        higher = ask(as_ann, **LIMIT | {"amount": 900})
        refused(admin.post(f"{higher}grant/"), 409, "Conflict", "End that grant first")
        let_end(path)
        assert [limit.amount for limit in Limit.objects.filter(user=ann)] == ([former] if former else [])
        assert admin.post(f"{higher}grant/").status_code == 200

    def test_a_limit_that_was_changed_since_stays(self, as_ann, ann, admin):
        path = ask(as_ann, **LIMIT)
        admin.post(f"{path}grant/", until=in_an_hour())
        change_limit(Limit.objects.get(user=ann), amount=50)
        let_end(path)
        assert Limit.objects.get(user=ann).amount == 50

    def test_a_rule_that_became_one_for_others_stays(self, as_ann, admin):
        path = ask(as_ann, **MODEL)
        admin.post(f"{path}grant/", until=in_an_hour())
        update_rule(Rule.objects.get(), user_id=new_user().pk)
        let_end(path)
        assert Rule.objects.exists()

    @pytest.mark.parametrize("changes", [{"effect": "deny"}, {"regex": "gpt-.*"}])
    def test_a_rule_that_says_something_else_now_stays(self, as_ann, admin, changes):
        path = ask(as_ann, **MODEL)
        admin.post(f"{path}grant/", until=in_an_hour())
        update_rule(Rule.objects.get(), **changes)
        let_end(path)
        assert Rule.objects.exists()

    def test_what_is_gone_cannot_be_granted(self, as_ann, admin, group, first_provider):
        about_group = ask(as_ann, **membership(group))
        about_provider = ask(as_ann, **MODEL | {"providerId": first_provider.pk})
        group.delete()
        first_provider.delete()
        refused(admin.post(f"{about_group}grant/"), 400, "ValidationError", "groupId")
        refused(admin.post(f"{about_provider}grant/"), 400, "ValidationError", "providerId")
        assert {one["state"] for one in admin.rows(PATH)} == {"open"}
        assert admin.post(f"{about_group}refuse/").status_code == 200

    def test_nothing_is_granted_to_a_user_who_is_inactive(self, as_ann, ann, admin):
        path = ask(as_ann, **MODEL)
        update_user(ann, is_active=False)
        refused(admin.post(f"{path}grant/"), 409, "Conflict", "inactive")

    @pytest.mark.parametrize("until", ["2020-01-01T00:00:00Z", "soon", 5, "2030-02-30T00:00:00Z"])
    def test_a_time_that_is_none_is_refused(self, as_ann, admin, until):
        path = ask(as_ann, **MODEL)
        refused(admin.post(f"{path}grant/", until=until), 400, "ValidationError", "until")
        refused(admin.post(f"{path}refuse/", note="x" * 2001), 400, "ValidationError", "note")
        assert not Rule.objects.exists()

    def test_an_access_test_keeps_from_granting_and_not_from_ending(self, as_ann, ann, admin, first_provider):
        first_provider.models.create(name="gpt-5")
        test = create_access_test(name="t", user_id=ann.pk, model="gpt-5", expected="denied")
        path = ask(as_ann, **MODEL)
        response = admin.post(f"{path}grant/", until=in_an_hour())
        assert (response.status_code, response.json()["exception"]) == (409, "AccessTestFailed")
        assert row(admin, path)["state"] == "open"
        test.delete()
        assert admin.post(f"{path}grant/", until=in_an_hour()).status_code == 200
        create_access_test(name="t", user_id=ann.pk, model="gpt-5", expected="allowed")
        let_end(path)
        assert not Rule.objects.exists()
        assert AuditEntry.objects.filter(action="override", message__contains="has ended").exists()
