"""Members, limits, log and usage of a group, for whoever administers it."""

import csv
import io
from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import Group
from accounts.services import add_member, create_group, create_service_account, update_group
from keys.services import issue_key
from licensing.models import Limit
from licensing.services import set_limit
from telemetry.audit.models import AuditEntry
from telemetry.journal.batches import insert_log_entries
from tests.me.test_pages import logged
from tests.support.management import new_admin, new_user
from tests.support.usage_entries import done
from tests.support.user_pages import log_in

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
DAY = {"measure": "requests", "window": "day"}


@pytest.fixture
def own(group) -> str:
    return f"/me/groups/{group.pk}/"


@pytest.fixture
def below(group):
    return create_group(name="below", parent_id=group.pk)


def actions(resource: str) -> list[str]:
    entries = AuditEntry.objects.filter(resource=resource, actor="boss").order_by("pk")
    return list(entries.values_list("action", flat=True))


class TestMembers:
    def test_a_member_is_added_and_removed(self, browser, own, group, ann):
        assert browser.post(own, {"username": "ANN"}).status_code == 302
        assert group.members.contains(ann)
        assert f"{own}members/{ann.pk}/remove/" in browser.get(own).text
        assert browser.post(f"{own}members/{ann.pk}/remove/").status_code == 302
        assert not group.members.contains(ann)
        assert browser.post(f"{own}members/{ann.pk}/remove/").status_code == 404
        assert actions("members") == ["create", "destroy"]

    def test_who_cannot_be_added_is_said(self, browser, own, group):
        stranger = create_service_account(username="stranger", group_id=create_group(name="other").pk)
        deleted_user = new_user(is_deleted=True)
        for name in ("", "nobody-of-this-name", deleted_user.username, stranger.username, new_admin().username):
            response = browser.post(own, {"username": name})
            assert (response.status_code, 'role="alert"' in response.text) == (200, True), name
        assert group.members.count() == 1

    def test_a_service_account_of_the_group_stays(self, browser, own, group, account):
        assert f"{own}members/{account.pk}/" not in browser.get(own).text
        assert browser.post(f"{own}members/{account.pk}/remove/").status_code == 409
        assert group.members.contains(account)

    def test_admins_of_the_own_group_are_not_theirs_to_make(self, browser, own, group, boss, ann):
        add_member(group, user_id=ann.pk)
        peer = add_member(group, user_id=new_user().pk, is_admin=True)
        page = browser.get(own).text
        assert "/admin/" not in page
        assert f"{own}members/{peer.pk}/remove/" not in page
        for user, step, values in ((ann, "admin", {"admin": "true"}), (peer, "admin", {}), (peer, "remove", {})):
            assert browser.post(f"{own}members/{user.pk}/{step}/", values).status_code == 403
        assert set(group.admins.all()) == {boss, peer}

    def test_those_of_a_group_below_are(self, browser, below, ann):
        add_member(below, user_id=ann.pk)
        path = f"/me/groups/{below.pk}/members/{ann.pk}/admin/"
        assert path in browser.get(f"/me/groups/{below.pk}/").text
        assert browser.post(path, {"admin": "true"}).status_code == 302
        assert below.has_admin(ann)
        assert browser.post(path, {"admin": "false"}).status_code == 302
        assert not below.has_admin(ann)
        assert browser.post(path.replace(f"/{ann.pk}/", f"/{new_user().pk}/"), {"admin": "true"}).status_code == 404

    def test_an_admin_of_the_gateway_makes_them_in_the_own_group(self, group, own, ann):
        admin = add_member(group, user_id=new_admin().pk, is_admin=True)
        add_member(group, user_id=ann.pk)
        assert log_in(admin).post(f"{own}members/{ann.pk}/admin/", {"admin": "true"}).status_code == 302
        assert group.has_admin(ann)


class TestLimits:
    @pytest.mark.long
    def test_one_is_set_changed_and_deleted(self, browser, group, own, account, below):
        set_limit(group=group, amount=100, **DAY)
        key = issue_key(owner=account, name="nightly").key
        for subject in (f"service account:{account.pk}", f"key:{key.pk}", f"group:{below.pk}"):
            values = {"subject": subject, "measure": "requests", "window": "day"}
            for amount in ("101", "0", "-1", "x"):
                response = browser.post(f"{own}limits/new/", values | {"amount": amount})
                assert (response.status_code, 'role="alert"' in response.text) == (200, True)
            assert browser.post(f"{own}limits/new/", values | {"amount": "100"}).status_code == 302
            limit = Limit.objects.latest("id")
            assert f"/me/group-limits/{limit.pk}/" in browser.get(f"{own}limits/").text
            path = f"/me/group-limits/{limit.pk}/"
            digest = {"_seen": browser.get(path).context["form"].first_digest}
            assert "at most 100" in browser.post(path, digest | {"amount": "101"}).text
            response = browser.post(path, digest | {"amount": "50"})
            assert response.headers["Location"] == f"{own}limits/"
            assert Limit.objects.get(pk=limit.pk).amount == 50
            assert browser.post(f"/me/group-limits/{limit.pk}/delete/").status_code == 302
        assert Limit.objects.count() == 1
        assert actions("limits") == ["create", "update", "destroy"] * 3

    def test_of_concurrent_requests_and_strict_ones(self, browser, own, account):
        subject = {"subject": f"service account:{account.pk}", "window": "day", "amount": "5"}
        assert browser.post(f"{own}limits/new/", subject | {"measure": "concurrent"}).status_code == 302
        response = browser.post(f"{own}limits/new/", subject | {"measure": "tokens", "is_strict": "on"})
        assert response.status_code == 302
        limits = Limit.objects.filter(user=account).values_list("measure", "window", "is_strict")
        assert set(limits) == {("concurrent", "none", False), ("tokens", "day", True)}
        assert "Strict" in browser.post(f"{own}limits/new/", subject | {"measure": "requests", "is_strict": "on"}).text

    def test_the_own_groups_is_shown_and_stays(self, browser, group, own):
        limit = set_limit(group=group, amount=100, **DAY)
        page = browser.get(f"{own}limits/").text
        assert "100 requests per day" in page
        for step in ("", "delete/"):
            assert f"/me/group-limits/{limit.pk}/" not in page
            assert browser.post(f"/me/group-limits/{limit.pk}/{step}", {"amount": "1"}).status_code == 404
        limit.refresh_from_db()
        assert limit.amount == 100

    @pytest.mark.parametrize("kind", ["person", "key of a person", "own group", "another group", "account elsewhere"])
    def test_nobody_elses_is_set(self, browser, own, group, ann, kind):
        add_member(group, user_id=ann.pk)
        other = create_group(name="other")
        subject = {
            "person": f"service account:{ann.pk}",
            "key of a person": f"key:{issue_key(owner=ann, name='k').key.pk}",
            "own group": f"group:{group.pk}",
            "another group": f"group:{other.pk}",
            "account elsewhere": f"service account:{create_service_account(username='x', group_id=other.pk).pk}",
        }[kind]
        response = browser.post(f"{own}limits/new/", {**DAY, "subject": subject, "amount": "1"})
        assert 'role="alert"' in response.text
        assert not Limit.objects.exists()


class TestLog:
    def test_entries_are_those_of_the_group(self, browser, group, own, account, ann):
        body = '{"request": {"messages": "a question in the group"}, "response": "an answer"}'
        by_member = logged(ann, group_ids=[group.pk], payload=body, model="seen-model")
        by_account = logged(account, group_ids=[group.pk], key_name="nightly")
        others = [
            logged(ann, model="before-joining"),
            logged(ann, group_ids=[create_group(name="other").pk], model="of-another-group"),
            logged(ann, group_ids=[group.pk], entry_type="Message", model="a-message"),
        ]
        page = browser.get(f"{own}log/").text
        assert all(text in page for text in ("seen-model", "nightly", f"{own}log/{by_account.pk}/"))
        assert "a question in the group" in browser.get(f"{own}log/{by_member.pk}/").text
        for entry in others:
            assert entry.model not in page
            assert browser.get(f"{own}log/{entry.pk}/").status_code == 404

    def test_entries_are_filtered_by_days(self, browser, group, own, ann):
        other, now = create_group(name="other"), timezone.now()
        logged(ann, group_ids=[group.pk], model="new")
        logged(ann, group_ids=[group.pk], model="old", timestamp=now - timedelta(days=3))
        logged(ann, group_ids=[other.pk], model="theirs")
        page = browser.get(f"{own}log/", {"start": f"{now - timedelta(days=1):%Y-%m-%d}"})
        assert [row["entry"].model for row in page.context["rows"]] == ["new"]
        usage = browser.get(f"{own}usage/").context
        assert all(row["page"].startswith(f"{own}log/?start=") for row in usage["by_day"])

    def test_entries_of_a_group_below_are_in_both(self, browser, group, below, own, ann):
        entry = logged(ann, group_ids=[below.pk, group.pk])
        for group_id in (group.pk, below.pk):
            assert f"/log/{entry.pk}/" in browser.get(f"/me/groups/{group_id}/log/").text

    def test_a_former_member_stays_in_it_with_what_was_asked_as_a_member(self, browser, group, own, ann):
        entry = logged(ann, group_ids=[group.pk])
        update_group(Group.objects.get(pk=group.pk), member_ids=list(group.members.values_list("pk", flat=True)))
        assert f"{own}log/{entry.pk}/" in browser.get(f"{own}log/").text


class TestUsage:
    @pytest.fixture(autouse=True)
    def used(self, group, ann):
        now = timezone.now()
        facts = {"user_id": ann.pk, "cost": "0.5", "cost_status": "known", "currency": "USD"}
        entries = [
            done("a", now, model="fast", group_ids=[group.pk], **facts),
            done("b", now - timedelta(days=20), model="large", group_ids=[group.pk], **facts),
            done("c", now, model="elsewhere", group_ids=[], **facts),
        ]
        insert_log_entries(entries)

    def test_it_is_shown_by_day_model_and_member(self, browser, own):
        page = browser.get(f"{own}usage/").text
        assert all(text in page for text in ("fast", "large", "ann", f"{timezone.now():%Y-%m-%d}"))
        assert "elsewhere" not in page
        assert "large" not in browser.get(f"{own}usage/?days=7").text

    def test_it_is_downloaded(self, browser, own):
        response = browser.get(f"{own}usage/?days=30&format=csv")
        assert response.headers["Content-Type"].startswith("text/csv")
        rows = list(csv.DictReader(io.StringIO(response.text)))
        assert [row["model"] for row in rows] == ["large", "fast"]
        assert {row["requests"] for row in rows} == {"1"}
        assert len(list(csv.DictReader(io.StringIO(browser.get(f"{own}usage/?days=7&format=csv").text)))) == 1
