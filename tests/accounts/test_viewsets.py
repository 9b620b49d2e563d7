"""Roles, features and groups over HTTP, and what the log is told of changes."""

import pytest

from accounts.models import Feature, Group, Role, User
from rules.services import create_rule
from telemetry.models import LogEntry
from tests.support.accounts.values import WRONG, role
from tests.support.management import PASSWORD, body, new_admin, new_user, refused, token_of

pytestmark = pytest.mark.either_store


class TestRolesAndFeatures:
    def test_a_feature_is_created_and_found(self, admin, settings):
        response = admin.post("/features/", id=0, name="reports.view")
        row = Feature.objects.get(name="reports.view")
        assert (response.status_code, response.headers["FeatureId"]) == (201, str(row.pk))
        assert response.headers["Location"] == f"{settings.GATEWAY_BASE_URL}/features/{row.pk}/"
        refused(admin.post("/features/", name="reports.view"), 409, "Conflict", "reports.view")
        refused(admin.post("/features/", name="reports/view"), 400, "ValidationError", "name")

    @pytest.mark.parametrize("resource", ["features", "roles"])
    def test_a_name_keeps_its_case_and_is_taken_in_any(self, admin, resource):
        assert admin.post(f"/{resource}/", name="Team: EU-1 x").status_code == 201
        refused(admin.post(f"/{resource}/", name="team: eu-1 X"), 409, "Conflict", "team: eu-1 X")
        assert [row["name"] for row in admin.rows(f"/{resource}/?name=Team: EU-1 x")] == ["Team: EU-1 x"]

    def test_a_role_is_renamed_in_case_and_never_to_what_another_is_called(self, admin):
        one, other = Role.objects.create(name="one"), Role.objects.create(name="other")
        assert admin.patch(f"/roles/{one.pk}/", name="One").status_code == 200
        refused(admin.patch(f"/roles/{other.pk}/", name="ONE"), 409, "Conflict", "ONE")
        refused(admin.patch(f"/roles/{other.pk}/", name="x" * 65), 400, "ValidationError", "name")
        refused(admin.post("/roles/", name="ADMIN"), 409, "Conflict", "ADMIN")

    def test_a_role_with_an_older_name_can_be_changed_and_keeps_it(self, admin):
        old = Role.objects.create(name="Prüfer (" + "x" * 80)
        assert admin.patch(f"/roles/{old.pk}/", name=old.name, features=[]).status_code == 200
        refused(admin.patch(f"/roles/{old.pk}/", name="Prüfer"), 400, "ValidationError", "name")

    def test_an_id_that_is_sent_along_decides_nothing(self, admin):
        before = set(Feature.objects.values_list("pk", flat=True))
        assert admin.post("/features/", id=min(before), name="one.more").status_code == 201
        assert admin.post("/features/", id=str(min(before)), name="and.another").status_code == 201
        assert set(Feature.objects.values_list("pk", flat=True)) > before

    def test_a_role_gives_its_users_its_features_from_the_next_request_on(self, admin, nobody):
        ann = nobody.as_user(new_user(username="ann", roles=[]))
        refused(ann.get("/groups/"), 403, "PermissionDenied", "groups.view")
        view = Feature.objects.get(name="groups.view").pk
        response = admin.post("/roles/", name="viewers", features=[{"id": view}])
        roles = [{"id": int(response.headers["RoleId"])}]
        admin.patch(f"/users/?id={User.objects.get(username='ann').pk}", roles=roles)
        assert ann.get("/groups/").status_code == 200
        assert admin.patch(f"/roles/{roles[0]['id']}/", features=[]).status_code == 200
        refused(ann.get("/groups/"), 403, "PermissionDenied")

    def test_built_in_roles_keep_their_names(self, admin):
        refused(admin.patch(f"/roles/{role('admin')['id']}/", name="other"), 409, "Conflict", "admin")
        assert admin.patch(f"/roles/{role('user')['id']}/", name="user", features=[]).status_code == 200

    def test_the_role_admin_is_listed_with_every_feature(self, admin):
        admin.post("/features/", name="reports.view")
        (listed,) = admin.rows("/roles/?name=admin")
        assert listed["features"] == admin.rows("/features/?page[size]=100")

    def test_the_role_admin_keeps_every_feature(self, admin):
        path, features = f"/roles/{role('admin')['id']}/", admin.rows("/features/?page[size]=100")
        refused(admin.patch(path, features=[]), 409, "Conflict", "features", "every feature")
        refused(admin.patch(path, name="admin", features=[{"id": features[0]["id"]}]), 409, "Conflict", "features")
        refused(admin.patch(path, features=[{"id": 987654}]), 400, "ValidationError", "987654")
        assert admin.patch(path, name="admin", features=[{"id": row["id"]} for row in features]).status_code == 200


class TestGroups:
    @pytest.fixture
    def people(self, admin):
        return [new_user(username=name) for name in ("ann", "bob", "eve")]

    @pytest.fixture
    def team(self, people):
        group = Group.objects.create(name="team")
        group.members.set(people[:2])
        return group

    def members(self, *people):
        return [{"id": person.pk} for person in people]

    def test_a_group_is_created_with_its_members(self, nobody, people, settings):
        maker = nobody.as_user(new_user("groups.create"))
        response = maker.post("/groups/", name="team", members=self.members(*people[:2], people[0]))
        group = Group.objects.get(name="team")
        assert (response.status_code, response.headers["GroupId"]) == (201, str(group.pk))
        assert response.headers["Location"] == f"{settings.GATEWAY_BASE_URL}/groups/{group.pk}/"
        assert list(group.members.all()) == people[:2]
        refused(maker.get("/groups/"), 403, "PermissionDenied", "groups.view")
        refused(maker.post("/groups/", name="team"), 409, "Conflict", "team")
        refused(maker.post("/groups/", name="x", members=[{"id": 987654}]), 400, "ValidationError", "987654")
        assert not Group.objects.filter(name="x").exists()

    def test_groups_are_listed_by_what_is_asked(self, nobody, people, team):
        viewer = nobody.as_user(new_user("groups.view"))
        other = Group.objects.create(name="other")
        other.members.add(people[2])
        shown = {
            "id": team.pk,
            "name": "team",
            "members": [{"name": "ann", "id": people[0].pk}, {"name": "bob", "id": people[1].pk}],
            "parentId": None,
        }
        assert viewer.rows("/groups/")[0] == shown
        assert viewer.get(f"/groups/{team.pk}/", flat=True).json() == {"data": shown}
        for query, names in (
            ("", ["team", "other"]),
            (f"?id={other.pk}", ["other"]),
            ("?userName=ann", ["team"]),
            ("?userName=ANN", ["team"]),
            (f"?userId={people[2].pk}", ["other"]),
            ("?userName=ann&userId=0", []),
            (f"?name=team&id={other.pk}&userName=eve&userId=0", ["team"]),
            ("?name=TEAM", []),
        ):
            assert [row["name"] for row in viewer.rows(f"/groups/{query}")] == names
        refused(viewer.get("/groups/?name=team&userId=x"), 400, "ValidationError", "userId")
        refused(viewer.get("/groups/987654/"), 404, "NotFound")

    def test_an_update_replaces_what_it_names(self, nobody, people, team):
        changer = nobody.as_user(new_user("groups.modify"))
        assert changer.patch(f"/groups/{team.pk}/", members=self.members(people[2])).status_code == 200
        assert list(team.members.all()) == [people[2]]
        assert changer.patch(f"/groups/{team.pk}", name="crew").status_code == 200
        team.refresh_from_db()
        assert (team.name, list(team.members.all())) == ("crew", [people[2]])
        Group.objects.create(name="other")
        refused(changer.patch(f"/groups/{team.pk}/", name="other", members=[]), 409, "Conflict", "other")
        refused(changer.patch(f"/groups/{team.pk}/", name="x", members=[{"id": 987654}]), 400, "ValidationError")
        team.refresh_from_db()
        assert (team.name, list(team.members.all())) == ("crew", [people[2]])
        refused(changer.patch("/groups/987654/", name="x"), 404, "NotFound")

    def test_members_come_and_go_one_by_one(self, admin, people, team):
        path = f"/groups/{team.pk}/members/"
        shown = [{"name": person.username, "id": person.pk, "admin": False} for person in people]
        for flat in (True, False):
            assert admin.get(path, flat=flat).json() == {"data": shown[:2]}
        assert (admin.post(path, id=people[2].pk).status_code, admin.post(path, id=people[2].pk).status_code) == (
            201,
            201,
        )
        assert admin.get(path).json() == {"data": shown}
        assert admin.get(f"{path}?page[size]=2&page[number]=2").json() == {"data": shown[2:]}
        refused(admin.get(f"{path}?page[size]=2&page[number]=3"), 400, "ValidationError", "page[number]")
        refused(admin.post(path, id=987654), 400, "ValidationError", "987654")
        refused(admin.post(path), 400, "ValidationError", "id")
        for request in (body(name="x"), body(id=people[1].pk)):
            assert admin.delete(f"{path}{people[0].pk}/", json=request).status_code in (400, 409)
        assert admin.get(path).json() == {"data": shown}
        assert admin.delete(f"{path}{people[0].pk}/").json() == {}
        assert admin.get(path).json() == {"data": shown[1:]}
        refused(admin.delete(f"{path}{people[0].pk}/"), 404, "NotFound")
        for response in (admin.get("/groups/987654/members/"), admin.post("/groups/987654/members/", id=people[0].pk)):
            refused(response, 404, "NotFound", "987654")

    @pytest.mark.parametrize("name", ["name", "members"])
    def test_a_wrong_value_is_refused_or_harmless(self, admin, team, name):
        for number, value in enumerate(WRONG):
            created = admin.post("/groups/", **{"name": f"x{number}", name: value})
            changed = admin.patch(f"/groups/{team.pk}/", **{name: value})
            for response in (created, changed):
                if response.status_code not in (200, 201):
                    refused(response, 400, "ValidationError", name)

    def test_a_wrong_member_is_refused(self, admin, team):
        for value in WRONG:
            refused(admin.post(f"/groups/{team.pk}/members/", id=value), 400, "ValidationError", "id")

    def test_a_deleted_group_leaves_its_rules_to_nobody(self, admin, team):
        rule = create_rule(name="r", group_id=team.pk)
        assert admin.delete(f"/groups/{team.pk}/").json() == {}
        assert not Group.objects.exists()
        rule.refresh_from_db()
        assert (rule.group, rule.everyone) == (None, "")
        refused(admin.delete(f"/groups/{team.pk}/"), 404, "NotFound")

    def test_a_list_costs_the_same_number_of_queries_at_any_size(self, client, db, django_assert_num_queries):
        headers = {"Authorization": f"Bearer {token_of(new_admin())}"}
        people = [new_user() for _ in range(5)]
        for number in range(20):
            Group.objects.create(name=f"group{number}").members.set(people)
        for size in (1, 20):
            with django_assert_num_queries(6):  # session and user, roles, licence; count, page, members
                client.get(f"/groups/?page[size]={size}", headers=headers)


class TestTheLogOfChanges:
    def entry(self, response):
        return LogEntry.objects.get(correlation_id=response.headers["X-Svc-Request-ID"])

    def test_every_change_says_who_what_from_where_before_and_after(self, nobody):
        root = new_admin(username="root")
        client = nobody.as_user(root)
        response = client.post("/groups/", name="team")
        entry = self.entry(response)
        assert (entry.entry_type, entry.entry_source, entry.severity) == ("Message", "Not Set", "info")
        assert (entry.user_id, entry.username, entry.address) == (root.pk, "root", "127.0.0.1")
        team = int(response.headers["GroupId"])
        assert entry.message == f"root created groups {team}: name."
        assert '"before":null' in entry.payload
        entry = self.entry(client.patch(f"/groups/{team}/", name="crew"))
        assert entry.message == f"root changed groups {team}: name."
        assert f'"before":{{"id":{team},"name":"team","members":[],"parentId":null}}' in entry.payload
        assert f'"after":{{"id":{team},"name":"crew","members":[],"parentId":null}}' in entry.payload
        entry = self.entry(client.post(f"/groups/{team}/members/", id=root.pk))
        assert f'"after":{{"name":"root","id":{root.pk},"admin":false}}' in entry.payload
        entry = self.entry(client.delete(f"/groups/{team}/members/{root.pk}/"))
        assert '"after":null' in entry.payload
        entry = self.entry(client.delete(f"/groups/{team}/"))
        assert entry.message == f"root deleted groups {team}."

    def test_no_password_is_in_it(self, admin):
        created = admin.post("/users/", userName="ann", password="first secret")
        changed = admin.patch(f"/users/?id={created.headers['UserId']}", newPassword="second secret")
        assert "newPassword" in self.entry(changed).message
        for entry in LogEntry.objects.all():
            assert "secret" not in f"{entry.message}{entry.payload}"
            assert "argon2" not in f"{entry.message}{entry.payload}"

    def test_what_was_refused_or_read_leaves_no_entry(self, admin):
        admin.get("/users/")
        admin.post("/groups/", name="")
        admin.patch("/groups/987654/", name="x")
        admin.post("/users/", userName="ann", password=PASSWORD, roles=[{"id": 987654}])
        assert not LogEntry.objects.exists()
