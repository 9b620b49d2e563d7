"""Users over HTTP."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from accounts.models import Group, Session, User
from gateway_project.api.names import camel
from tests.support.accounts.values import WRONG, role
from tests.support.management import PASSWORD, body, new_admin, new_user, refused, token_of
from tests.support.promises import promise

pytestmark = pytest.mark.either_store

KNOWN = ["userName", "password", "displayName", "email", "active", "isDeleted", "roles"]


class TestCreatingUsers:
    def test_a_new_user_is_found_where_the_headers_say(self, admin, nobody, settings):
        response = admin.post(
            "/users/",
            userName="ann",
            password=PASSWORD,
            displayName="Ann",
            email="ann@example.org",
            active=True,
            isDeleted=False,
            roles=[role("user")],
        )
        ann = User.objects.get(username="ann")
        assert (response.status_code, response.json()) == (201, {})
        assert response.headers["UserId"] == str(ann.pk)
        assert response.headers["Location"] == f"{settings.GATEWAY_BASE_URL}/users/?id={ann.pk}"
        assert response.headers["Content-Location"] == response.headers["Location"]
        assert admin.rows(f"/users/?id={ann.pk}") == [
            {
                "id": ann.pk,
                "userName": "ann",
                "displayName": "Ann",
                "email": "ann@example.org",
                "active": True,
                "isDeleted": False,
                "kind": "person",
                "groupId": None,
                "roles": [role("user") | {"name": "user"}],
                "groups": [],
                "secondFactor": False,
            }
        ]
        assert ann.check_password(PASSWORD)

    def test_who_is_given_no_roles_is_a_user(self, admin):
        admin.post("/users/", userName="ann", password=PASSWORD)
        admin.post("/users/", userName="bob", password=PASSWORD, roles=[])
        admin.post("/users/", userName="eve", password=PASSWORD, active=False, isDeleted=True)
        rows = {row["userName"]: row for row in admin.rows("/users/")}
        assert [one["name"] for one in rows["ann"]["roles"]] == ["user"]
        assert rows["bob"]["roles"] == []
        assert (rows["eve"]["active"], rows["eve"]["isDeleted"]) == (False, True)

    def test_a_name_exists_once_in_any_case_deleted_users_included(self, admin):
        admin.post("/users/", userName="ann", password=PASSWORD, isDeleted=True)
        refused(admin.post("/users/", userName="ANN", password=PASSWORD), 409, "Conflict", "ANN")
        assert admin.post("/users/", userName="Émile", password=PASSWORD).status_code == 201
        refused(admin.post("/users/", userName="émile", password=PASSWORD), 409, "Conflict", "émile")

    @pytest.mark.parametrize("name", KNOWN)
    def test_a_wrong_value_is_refused_or_harmless(self, admin, name):
        for number, value in enumerate(WRONG):
            response = admin.post("/users/", **{"userName": f"ann{number}", "password": PASSWORD, name: value})
            if response.status_code != 201:
                assert PASSWORD not in refused(response, 400, "ValidationError", name)
                assert not User.objects.filter(username=f"ann{number}").exists()

    def test_missing_attributes_are_named(self, admin):
        refused(admin.post("/users/", displayName="x"), 400, "ValidationError", "userName", "password")

    @promise("V-L12, S5: only listed attributes can be written", target="400, nothing changed", suite="attack")
    def test_no_other_field_of_the_model_can_be_set(self, admin):
        fields = {field.name for field in User._meta.get_fields()}
        for name in (fields | {camel(field) for field in fields}) - set(KNOWN):
            response = admin.post("/users/", **{"userName": "ann", "password": PASSWORD, name: 1})
            refused(response, 400, "ValidationError", name)
        assert not User.objects.filter(username="ann").exists()


class TestListingUsers:
    @pytest.fixture
    def people(self, admin):
        return [
            new_user(username="ann"),
            new_user(username="Anne", is_active=False),
            new_user(username="bob", is_deleted=True),
            new_user(username="Émile"),
        ]

    @pytest.mark.parametrize(
        ("query", "names"),
        [
            ("userNameContains=ann", ["ann", "Anne"]),
            ("userNameContains=NE", ["Anne"]),
            ("userNameContains=%25", []),
            ("userNameContains=ÉM", ["Émile"]),
            ("userNameContains=e%CC%81m", ["Émile"]),
            ("isDeleted=true", ["bob"]),
            ("active=false", ["Anne"]),
            ("active=true&userNameContains=ann&isDeleted=false", ["ann"]),
            ("id=0", []),
        ],
    )
    def test_filters_narrow_the_list(self, admin, people, query, names):
        assert [row["userName"] for row in admin.rows(f"/users/?{query}")] == names

    def test_without_filters_everybody_is_listed(self, admin, people):
        assert len(admin.rows("/users/")) == 5

    @pytest.mark.parametrize("query", ["active=maybe", "active=1", "isDeleted=True", "currentUser=x", "userName=ann"])
    def test_a_wrong_filter_is_refused(self, admin, query):
        refused(admin.get(f"/users/?{query}"), 400, "ValidationError", query.partition("=")[0])

    def test_everybody_may_see_themself_and_only_admins_others(self, admin, nobody, people):
        ann = nobody.as_user(people[0])
        assert [row["id"] for row in ann.rows("/users/?currentUser=true")] == [people[0].pk]
        assert ann.rows(f"/users/?currentUser=true&id={people[1].pk}") == []
        for path in ("/users/", "/users/?currentUser=false", f"/users/?id={people[0].pk}", f"/users/{people[1].pk}/"):
            refused(ann.get(path), 403, "PermissionDenied")
        for query in ("currentUser=True", "currentUser=", "currentUser=false&currentUser=true"):
            refused(ann.get(f"/users/?{query}"), 400, "ValidationError", "currentUser")
        assert len(admin.rows("/users/?currentUser=false")) == 5
        assert len(admin.rows("/users/?currentUser=true")) == 1

    def test_a_user_has_a_path_of_their_own(self, admin, people):
        group = Group.objects.create(name="team")
        group.members.add(people[0])
        one = admin.get(f"/users/{people[0].pk}").json()["data"]
        assert (one["type"], one["id"]) == ("users", str(people[0].pk))
        assert one["attributes"]["groups"] == [{"id": group.pk, "name": "team"}]
        refused(admin.get("/users/987654/"), 404, "NotFound", "987654")

    @promise("V-L8, V-N5: no answer shows a password hash", target="0 fields", suite="attack")
    def test_the_list_shows_nothing_of_passwords(self, admin, people):
        text = admin.get("/users/").text
        assert "argon2" not in text
        assert "password" not in text.lower()

    @pytest.mark.long
    def test_a_list_costs_the_same_number_of_queries_at_any_size(self, client, db, django_assert_num_queries):
        headers = {"Authorization": f"Bearer {token_of(new_admin())}"}
        group = Group.objects.create(name="team")
        for number in range(30):
            group.members.add(new_user(username=f"user{number}"))
        for size in (1, 31):
            with django_assert_num_queries(7):  # session and user, roles, licence; count, page, roles, groups
                client.get(f"/users/?page[size]={size}", headers=headers)


class TestUpdatingUsers:
    def test_without_an_id_it_is_oneself(self, nobody, ann):
        client = nobody.as_user(ann)
        response = client.patch("/users/", displayName="Ann", email="ann@example.org")
        assert (response.status_code, response.json()) == (200, {})
        assert client.patch(f"/users/?id={ann.pk}", email="").status_code == 200
        assert client.patch(f"/users/{ann.pk}/", displayName="Annie").status_code == 200
        ann.refresh_from_db()
        assert (ann.display_name, ann.email) == ("Annie", "")

    @promise("V-N5: nobody changes others", target="403, nothing changed", suite="attack")
    def test_others_are_the_admins_to_change(self, admin, nobody, ann):
        bob = new_user(username="bob")
        client = nobody.as_user(bob)
        document = body(displayName="x")
        document["data"]["id"] = ann.pk
        for path, request in (
            (f"/users/?id={ann.pk}", body(displayName="x")),
            (f"/users/{ann.pk}/", body(displayName="x")),
            ("/users/", document),
            ("/users/", body(displayName="x", id=ann.pk)),
            ("/users/?id=987654", body(displayName="x")),
        ):
            refused(client.send("PATCH", path, json=request), 403, "PermissionDenied")
        ann.refresh_from_db()
        assert ann.display_name == ""
        assert admin.patch(f"/users/?id={ann.pk}", displayName="x", active=False).status_code == 200
        ann.refresh_from_db()
        assert (ann.display_name, ann.is_active) == ("x", False)
        refused(admin.patch("/users/?id=987654", displayName="x"), 404, "NotFound")

    @pytest.mark.parametrize("way", ["/users/{}/", "/users/?id={}", "data", "attributes"])
    def test_nobody_finds_out_which_users_there_are(self, nobody, ann, way):
        other, client = new_user(), nobody.as_user(ann)
        for user_id in (other.pk, 987654):
            request = body(displayName="x", **({"id": user_id} if way == "attributes" else {}))
            request["data"] |= {"id": str(user_id)} if way == "data" else {}
            path = way.format(user_id) if way.startswith("/") else "/users/"
            refused(client.send("PATCH", path, json=request), 403, "PermissionDenied", "owner")

    @promise("V-L12, V-K3: nobody gives themselves a role", target="403, nothing changed", suite="attack")
    def test_roles_are_the_admins_to_give_and_replace_the_set(self, admin, nobody, ann):
        refused(nobody.as_user(ann).patch("/users/", roles=[role("admin")]), 403, "PermissionDenied", "roles")
        [shown] = nobody.as_user(ann).rows("/users/?currentUser=true")
        assert nobody.as_user(ann).patch("/users/", **shown | {"displayName": "Ann"}).status_code == 200
        assert not User.objects.get(pk=ann.pk).is_admin
        assert admin.patch(f"/users/?id={ann.pk}", roles=[role("admin")]).status_code == 200
        assert [one.name for one in ann.roles.all()] == ["admin"]
        refused(admin.patch(f"/users/?id={ann.pk}", roles=[{"id": 987654}]), 400, "ValidationError", "987654")
        assert admin.patch(f"/users/?id={ann.pk}", roles=[]).status_code == 200
        assert not ann.roles.exists()

    def test_a_new_password_takes_the_current_one_and_ends_the_other_sessions(self, nobody, ann):
        here, there = token_of(ann), token_of(ann)
        client = nobody.with_credential(here)
        refused(client.patch("/users/", newPassword="another one"), 400, "ValidationError", "currentPassword")
        wrong = client.patch("/users/", newPassword="another one", currentPassword="wrong")
        assert "another" not in refused(wrong, 400, "ValidationError", "currentPassword")
        refused(client.patch("/users/", currentPassword=PASSWORD), 400, "ValidationError", "newPassword")
        assert nobody.with_credential(there).get("/features/").status_code == 200
        assert client.patch("/users/", newPassword="another one", currentPassword=PASSWORD).status_code == 200
        ann.refresh_from_db()
        assert ann.check_password("another one")
        assert client.get("/features/").status_code == 200
        assert nobody.with_credential(there).get("/features/").status_code == 401

    def test_the_current_password_cannot_be_guessed_through_an_open_session(self, nobody, ann, settings):
        settings.GATEWAY_LOGIN_FAILURES = 3
        client = nobody.as_user(ann)
        for _ in range(3):
            refused(client.patch("/users/", newPassword="eight or more", currentPassword="y"), 400, "ValidationError")
        refused(client.patch("/users/", newPassword="eight or more", currentPassword=PASSWORD), 429, "RateLimited")

    def test_a_password_has_eight_characters_or_more(self, admin, nobody, ann):
        short, enough = "7 chars", "8 chars!"
        refused(admin.post("/users/", userName="bob", password=short), 400, "ValidationError", "password:", "8")
        own = nobody.as_user(ann).patch("/users/", newPassword=short, currentPassword=PASSWORD)
        for response in (own, admin.patch(f"/users/{ann.pk}/", newPassword=short)):
            refused(response, 400, "ValidationError", "newPassword:", "8")
        assert admin.post("/users/", userName="bob", password=enough).status_code == 201
        assert admin.patch(f"/users/{ann.pk}/", newPassword=enough).status_code == 200

    def test_an_admin_sets_others_passwords_and_ends_all_their_sessions(self, admin, nobody, ann):
        token = token_of(ann)
        assert admin.patch(f"/users/?id={ann.pk}", newPassword="set by an admin").status_code == 200
        assert nobody.with_credential(token).get("/features/").status_code == 401
        ann.refresh_from_db()
        assert ann.check_password("set by an admin")

    def test_who_deactivates_themself_is_out_at_once_and_stays_out(self, nobody, ann):
        client = nobody.as_user(ann)
        assert client.patch("/users/", active=False).status_code == 200
        assert client.get("/features/").status_code == 401
        User.objects.update(is_active=True)
        assert client.get("/features/").status_code == 401
        assert not Session.objects.live().exists()

    @pytest.mark.parametrize("name", ["newPassword", "displayName", "email", "active", "roles", "id"])
    def test_a_wrong_value_is_refused_or_harmless(self, admin, ann, name):
        for value in WRONG:
            response = admin.patch(f"/users/?id={ann.pk}", **{name: value})
            if response.status_code != 200:
                assert response.status_code in (400, 409), response.text
                assert name in response.json()["message"]

    @promise("V-L12, S5: only listed attributes can be written", target="400, nothing changed", suite="attack")
    def test_no_other_field_of_the_model_can_be_set(self, admin, nobody, ann):
        before = User.objects.filter(pk=ann.pk).values().get()
        for client in (admin, nobody.as_user(ann)):
            for name in (
                "userName",
                "username",
                "password",
                "isDeleted",
                "isAdmin",
                "isStaff",
                "isSuperuser",
                "groups",
            ):
                refused(client.patch(f"/users/?id={ann.pk}", **{name: True}), 400, "ValidationError", name)
        assert User.objects.filter(pk=ann.pk).values().get() == before

    def test_an_empty_update_changes_nothing(self, nobody, ann):
        assert nobody.as_user(ann).patch("/users/").status_code == 200


class TestTheLastAdmin:
    @pytest.fixture
    def root(self, nobody):
        return new_admin(username="root")

    @pytest.fixture
    def client(self, nobody, root):
        return nobody.as_user(root)

    def test_stays(self, client, root):
        new_admin(username="gone", is_deleted=True)
        new_admin(username="away", is_active=False)
        for path in (f"/users/?id={root.pk}", "/users/"):
            refused(client.patch(path, active=False), 409, "Conflict", "admin")
            refused(client.patch(path, roles=[role("user")]), 409, "Conflict")
        refused(client.delete(f"/users/?id={root.pk}"), 409, "Conflict")
        assert client.get("/users/").status_code == 200
        assert client.patch("/users/", displayName="Root", roles=[role("admin")]).status_code == 200

    def test_of_two_one_may_go(self, client, root):
        other = new_admin(username="other")
        assert client.delete(f"/users/?id={other.pk}").status_code == 200
        refused(client.delete(f"/users/?id={root.pk}"), 409, "Conflict")

    def test_two_who_take_the_role_from_each_other_at_one_moment_do_not_both_succeed(self, client, nobody, root):
        other = new_admin(username="other")
        pairs = [(client, other.pk), (nobody.as_user(other), root.pk)]
        with ThreadPoolExecutor(2) as pool:
            codes = list(pool.map(lambda pair: pair[0].delete(f"/users/?id={pair[1]}").status_code, pairs))
        assert User.objects.usable().admins().count() == 1
        assert codes.count(200) == 1


class TestDeletingUsers:
    def test_a_deleted_user_stays_in_the_list_and_is_out_at_once(self, admin, nobody):
        ann = new_user(username="ann")
        client = nobody.as_user(ann)
        response = admin.delete(f"/users/?id={ann.pk}")
        assert (response.status_code, response.json()) == (200, {})
        assert client.get("/features/").status_code == 401
        assert [row["userName"] for row in admin.rows("/users/?isDeleted=true")] == ["ann"]
        assert admin.delete(f"/users/{ann.pk}/").status_code == 200

    def test_the_id_is_needed(self, admin):
        refused(admin.delete("/users/"), 400, "ValidationError", "id")
        refused(admin.delete("/users/?id=x"), 400, "ValidationError", "id")
        refused(admin.delete("/users/?id=987654"), 404, "NotFound")
        refused(admin.send("DELETE", "/users/", data=b"[]"), 400, "ValidationError")
