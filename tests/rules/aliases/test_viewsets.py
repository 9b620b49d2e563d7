"""Aliases over HTTP."""

import itertools

import pytest

from accounts.models import Group
from accounts.services import create_group, delete_group, delete_user
from providers.models import Model
from providers.services import change_model, create_provider, delete_provider
from rules.aliases import services
from rules.aliases.models import Alias, AliasTarget
from telemetry.models import LogEntry
from tests.support.hostile import try_wrong
from tests.support.management import new_user, refused

pytestmark = pytest.mark.either_store

_numbers = itertools.count()


@pytest.fixture
def provider(db):
    return create_provider(
        name=f"provider-{next(_numbers)}", url="https://api.example.org/v1", format_name="openai", models=["a", "b"]
    )


def make(client, name: str = "", **attributes) -> Alias:
    response = client.post("/aliases/", name=name or f"alias-{next(_numbers)}", **attributes)
    assert response.status_code == 201, response.text
    return Alias.objects.get(pk=response.headers["AliasId"])


def place(response) -> str:
    """The place of the mistake that the response names."""
    (error,) = response.json()["errors"]
    return error["source"]["pointer"].removeprefix("/data/attributes/")


def test_an_alias_is_listed_as_it_was_sent(admin, ann, provider):
    group = create_group(name=f"beta-{next(_numbers)}")
    make(admin, "inner", targets=[{"provider": provider.pk, "model": "b"}])
    match = {"tags": {"stage": "beta"}, "groupId": group.pk, "userId": ann.pk, "keyName": "laptop"}
    sent = {
        "name": "gpt-*",
        "description": "why",
        "enabled": False,
        "strategy": "sticky",
        "fallbackOn": ["budget", "error"],
        "targets": [
            {"provider": provider.pk, "model": "a", "weight": 95, "tier": 0, "match": match},
            {"alias": "inner", "weight": 0, "tier": 3, "match": None},
        ],
        "mirror": {"provider": provider.pk, "model": "a", "share": 0.25},
        "hedge": True,
    }
    alias = make(admin, **sent)
    (row,) = admin.rows("/aliases/?name=gpt-*")
    assert row == sent | {"id": alias.pk}
    assert admin.get(f"/aliases/{alias.pk}/", flat=True).json() == {"data": row}
    # What lists show can be sent back.
    assert admin.patch(f"/aliases/{alias.pk}/", **{name: row[name] for name in sent}).status_code == 200
    assert admin.rows("/aliases/?name=gpt-*") == [row]


def test_what_is_not_sent_has_a_default(admin, provider):
    make(admin, "plain", targets=[{"provider": provider.pk, "model": "a"}])
    (row,) = admin.rows("/aliases/?name=plain")
    assert {name: row[name] for name in row if name not in ("id", "name", "targets")} == {
        "description": "", "enabled": True, "strategy": "weighted", "fallbackOn": ["error", "rate_limited"],
        "mirror": None, "hedge": False,
    }  # fmt: skip
    assert row["targets"] == [{"provider": provider.pk, "model": "a", "weight": 1, "tier": 0, "match": None}]


def test_a_change_leaves_what_it_does_not_name(admin, provider):
    target = {"provider": provider.pk, "model": "a", "weight": 1, "tier": 0, "match": None}
    alias = make(admin, "before", targets=[target], strategy="fastest")
    assert admin.patch(f"/aliases/{alias.pk}/", name="after", enabled=False).status_code == 200
    (row,) = admin.rows("/aliases/?name=after")
    assert (row["strategy"], row["targets"], row["enabled"]) == ("fastest", [target], False)
    assert admin.patch(f"/aliases/{alias.pk}/", targets=[]).status_code == 200
    assert admin.rows("/aliases/?name=after")[0]["targets"] == []
    entry = LogEntry.objects.filter(message__contains="aliases").latest("id")
    assert str(alias.pk) in entry.message


def test_filters(admin, provider):
    make(admin, "one", targets=[{"provider": provider.pk, "model": "a"}, {"provider": provider.pk, "model": "b"}])
    make(admin, "two", enabled=False)
    names = {
        "?name=one": ["one"], "?nameContains=O": ["one", "two"], "?enabled=false": ["two"],
        f"?providerId={provider.pk}": ["one"],
    }  # fmt: skip
    for query, expected in names.items():
        assert [row["name"] for row in admin.rows(f"/aliases/{query}")] == expected, query


WRONG_TARGETS = [
    ({"provider": 10**9, "model": "a"}, "targets/0/provider"),
    ({"model": "nosuch"}, "targets/0/model"),
    ({"model": "a", "weight": -1}, "targets/0/weight"),
    ({"model": "a", "weight": 1.5}, "targets/0/weight"),
    ({"model": "a", "weight": True}, "targets/0/weight"),
    ({"model": "a", "weight": 10**7}, "targets/0/weight"),
    ({"model": "a", "tier": -1}, "targets/0/tier"),
    ({"model": "a", "tier": 100}, "targets/0/tier"),
    ({"model": ""}, "targets/0/model"),
    ({"model": ["a"]}, "targets/0/model"),
    ({"model": "a\u202e"}, "targets/0/model"),
    ({"model": "a", "color": "red"}, "targets/0/color"),
    ({"model": "a", "match": {"groupId": 10**9}}, "targets/0/match/groupId"),
    ({"model": "a", "match": {"userId": 10**9}}, "targets/0/match/userId"),
    ({"model": "a", "match": {"userId": "1"}}, "targets/0/match/userId"),
    ({"model": "a", "match": {"keyName": "laptop"}}, "targets/0/match/keyName"),
    ({"model": "a", "match": {"tags": {"a": 1}}}, "targets/0/match/tags"),
    ({"model": "a", "match": {"tags": {"": "1"}}}, "targets/0/match/tags"),
    ({"model": "a", "match": {"tags": {f"t{n}": "1" for n in range(21)}}}, "targets/0/match/tags"),
    ({"model": "a", "match": {"tags": {"a": "b\u0000"}}}, "targets/0/match/tags"),
    ({"model": "a", "match": {"regex": "x"}}, "targets/0/match/regex"),
    ({"model": "a", "match": []}, "targets/0/match"),
    ({"model": "a", "alias": "x"}, "targets/0/alias"),
]


@pytest.mark.parametrize(("target", "field"), WRONG_TARGETS)
def test_a_wrong_target_is_refused_with_its_place(admin, provider, target, field):
    response = admin.post("/aliases/", name="wrong", targets=[{"provider": provider.pk} | target])
    refused(response, 400, "ValidationError")
    assert place(response) == field
    assert not Alias.objects.filter(name="wrong").exists()


@pytest.mark.parametrize(
    ("attributes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": " x"}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"name": "a**b"}, "name"),
        ({"name": "*a*b*c*d*"}, "name"),
        ({"name": "a\u200b"}, "name"),
        ({"strategy": "random"}, "strategy"),
        ({"fallbackOn": ["oops"]}, "fallbackOn"),
        ({"fallbackOn": ["error", "error"]}, "fallbackOn"),
        ({"fallbackOn": "error"}, "fallbackOn"),
        ({"targets": {}}, "targets"),
        ({"targets": None}, "targets"),
        ({"targets": [{}]}, "targets/0/provider"),
        ({"targets": [7]}, "targets/0"),
        ({"targets": [{"alias": "nosuch"}]}, "targets/0/alias"),
        ({"targets": [{"alias": "wrong"}]}, "targets/0/alias"),
        ({"mirror": {"provider": 1, "model": "a", "share": 0}}, "mirror/share"),
        ({"mirror": {"provider": 1, "model": "a", "share": 1.01}}, "mirror/share"),
        ({"mirror": {"provider": 10**9, "model": "a", "share": 0.5}}, "mirror/provider"),
        ({"mirror": []}, "mirror"),
        ({"hedge": 1}, "hedge"),
        ({"color": "red"}, "color"),
    ],
)
def test_a_wrong_attribute_is_refused_with_its_name(admin, attributes, field):
    response = admin.post("/aliases/", **{"name": "wrong"} | attributes)
    refused(response, 400, "ValidationError")
    assert place(response).startswith(field)
    assert not Alias.objects.exists()


def test_two_aliases_have_different_names(admin):
    make(admin, "same")
    response = admin.post("/aliases/", name="same")
    refused(response, 409, "Conflict")
    assert place(response) == "name"
    other = make(admin, "other")
    refused(admin.patch(f"/aliases/{other.pk}/", name="same"), 409, "Conflict", "name")
    make(admin, "e\u0301")
    refused(admin.post("/aliases/", name="\u00e9"), 409, "Conflict", "name")  # the same in composed form


class TestNesting:
    def refuse_targets(self, response, *words):
        refused(response, 400, "ValidationError", *words)
        assert place(response).startswith("targets")

    def test_a_cycle_is_refused_wherever_it_closes(self, admin):
        first = make(admin, "n-1")
        for number in (2, 3, 4):
            make(admin, f"n-{number}", targets=[{"alias": f"n-{number - 1}"}])
        for name in ("n-2", "n-3", "n-4"):
            self.refuse_targets(admin.patch(f"/aliases/{first.pk}/", targets=[{"alias": name}]), "cycle", "n-1", name)
        self.refuse_targets(admin.patch(f"/aliases/{first.pk}/", targets=[{"alias": "n-1"}]), "itself")
        assert not AliasTarget.objects.filter(alias=first).exists()

    def test_depth_is_bounded_from_below_and_from_above(self, admin):
        deepest = make(admin, "n-1")
        for number in range(2, 6):
            make(admin, f"n-{number}", targets=[{"alias": f"n-{number - 1}"}])
        self.refuse_targets(admin.post("/aliases/", name="n-6", targets=[{"alias": "n-5"}]), "deeper than 5")
        make(admin, "leaf")
        self.refuse_targets(admin.patch(f"/aliases/{deepest.pk}/", targets=[{"alias": "leaf"}]), "deeper than 5")

    def test_the_number_of_targets_is_bounded_with_those_of_aliases(self, admin, provider):
        one = {"provider": provider.pk, "model": "a"}
        self.refuse_targets(admin.post("/aliases/", name="many", targets=[one] * 65), "64")
        small = make(admin, "small", targets=[one] * 8)
        make(admin, "large", targets=[{"alias": "small"}] * 8)
        self.refuse_targets(admin.post("/aliases/", name="many", targets=[{"alias": "large"}, one]), "'many'", "64")
        # An alias inside of others cannot grow beyond what they may have.
        self.refuse_targets(admin.patch(f"/aliases/{small.pk}/", targets=[one] * 9), "'large'", "64")

    def test_aliases_without_targets_do_not_make_the_check_long(self, admin):
        make(admin, "n-1")
        for number in range(2, 5):
            response = admin.post("/aliases/", name=f"n-{number}", targets=[{"alias": f"n-{number - 1}"}] * 64)
            assert response.status_code == (201 if number == 2 else 400)

    def test_two_changes_one_after_the_other_make_no_cycle(self, admin):
        """Those at the same moment are in test_concurrency.py."""
        one, two = make(admin, "n-1"), make(admin, "n-2")
        assert admin.patch(f"/aliases/{one.pk}/", targets=[{"alias": "n-2"}]).status_code == 200
        self.refuse_targets(admin.patch(f"/aliases/{two.pk}/", targets=[{"alias": "n-1"}]), "cycle")


class TestReferences:
    def test_what_an_alias_refers_to_stays(self, admin, provider):
        make(admin, "inner", targets=[{"provider": provider.pk, "model": "a"}])
        outer = make(admin, "outer", targets=[{"alias": "inner"}])
        inner = Alias.objects.get(name="inner")
        refused(admin.delete(f"/aliases/{inner.pk}/"), 409, "Conflict", "outer")
        refused(admin.delete(f"/providers/{provider.pk}/"), 409, "Conflict", "1 target of an alias")
        model = provider.models.get(name="a")
        refused(admin.delete(f"/providers/{provider.pk}/models/{model.pk}/"), 409, "Conflict", "1 target of an alias")
        assert admin.delete(f"/aliases/{outer.pk}/").status_code == 200
        assert admin.delete(f"/aliases/{inner.pk}/").status_code == 200
        assert admin.delete(f"/providers/{provider.pk}/models/{model.pk}/").status_code == 200
        delete_provider(provider)

    def test_a_mirror_keeps_its_model(self, admin, provider):
        make(admin, "m", mirror={"provider": provider.pk, "model": "b", "share": 1})
        model = provider.models.get(name="b")
        refused(admin.delete(f"/providers/{provider.pk}/models/{model.pk}/"), 409, "Conflict", "1 alias")

    def test_a_renamed_model_stays_a_target(self, admin, provider):
        make(admin, "m", targets=[{"provider": provider.pk, "model": "a"}])
        change_model(Model.objects.get(provider=provider, name="a"), name="new")
        assert admin.rows("/aliases/?name=m")[0]["targets"][0]["model"] == "new"

    def test_conditions_of_who_is_gone_can_stay_and_not_begin(self, admin, provider):
        group, user = Group.objects.create(name=f"g-{next(_numbers)}"), new_user()
        target = {"provider": provider.pk, "model": "a"}
        with_group, with_user = target | {"match": {"groupId": group.pk}}, target | {"match": {"userId": user.pk}}
        alias = make(admin, "m", targets=[with_group, with_user])
        group_id = group.pk
        delete_group(group)
        delete_user(user)
        assert admin.patch(f"/aliases/{alias.pk}/", targets=[with_group, with_user | {"weight": 3}]).status_code == 200
        refused(admin.post("/aliases/", name="n", targets=[with_group]), 400, "ValidationError", str(group_id))
        refused(admin.post("/aliases/", name="n", targets=[with_user]), 400, "ValidationError", str(user.pk))


def test_numbers_of_aliases_and_patterns_are_bounded(admin, monkeypatch):
    Alias.objects.bulk_create(Alias(name=f"p{number}*") for number in range(services.MAX_PATTERNS))
    response = admin.post("/aliases/", name="one-more-*")
    refused(response, 409, "Conflict", "200 aliases")
    assert place(response) == "name"
    plain = make(admin, "plain")
    refused(admin.patch(f"/aliases/{plain.pk}/", name="plain*"), 409, "Conflict", "200 aliases")
    Alias.objects.bulk_create(Alias(name=f"a{number}") for number in range(799))
    refused(admin.post("/aliases/", name="last"), 409, "Conflict", "1,000")


def test_no_value_is_a_fault_of_ours(admin, provider):
    names = ["name", "description", "enabled", "strategy", "fallbackOn", "targets", "mirror", "hedge"]
    try_wrong(lambda **attributes: admin.post("/aliases/", **attributes), names, lambda: {"name": f"a{next(_numbers)}"})
    for member in ("provider", "model", "alias", "weight", "tier", "match"):
        try_wrong(
            lambda **target: admin.post("/aliases/", name=f"a{next(_numbers)}", targets=[target]),
            [member],
            lambda: {"provider": provider.pk, "model": "a"},
        )
    for member in ("tags", "groupId", "userId", "keyName"):
        try_wrong(
            lambda provider_id=provider.pk, **match: admin.post(
                "/aliases/",
                name=f"a{next(_numbers)}",
                targets=[{"provider": provider_id, "model": "a", "match": match}],
            ),
            [member],
            dict,
        )


def test_who_may_change_providers_may_change_aliases(admin, provider):
    one = admin.as_user(new_user("providers.modify"))
    alias = make(one, "m", targets=[{"provider": provider.pk, "model": "a"}])
    assert one.rows("/aliases/")
    other = admin.as_user(new_user("work", "models.create", "rules.modify"))
    refused(other.get("/aliases/"), 403, "PermissionDenied", "providers.modify")
    refused(other.post("/aliases/", name="x"), 403, "PermissionDenied")
    refused(other.patch(f"/aliases/{alias.pk}/", enabled=False), 403, "PermissionDenied")
    refused(other.delete(f"/aliases/{alias.pk}/"), 403, "PermissionDenied")
