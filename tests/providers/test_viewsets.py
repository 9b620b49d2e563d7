"""Providers, models and formats over HTTP."""

import pytest

from keys.services import issue_key
from providers.credentials import decrypt
from providers.models import Model, Provider, ProviderFormat
from rules.aliases.services import create_alias
from rules.services import create_rule
from telemetry.models import LogEntry
from tests.support.hostile import try_wrong
from tests.support.management import body, new_user, refused
from tests.support.promises import promise
from tests.support.providers.values import SECRET, URL, format_id, good

pytestmark = pytest.mark.either_store


def opened(provider, settings) -> str:
    provider.refresh_from_db()
    return decrypt(provider.credential, origin=provider.origin, keys=settings.GATEWAY_ENCRYPTION_KEYS)


def test_a_new_provider_is_listed_to_every_user_with_its_credential_masked(admin, user, add_provider, settings):
    provider = add_provider(name="first", models=["fast", "slow", "fast"])
    (row,) = user.rows(f"/providers/?id={provider.pk}")
    models = [{"id": model.pk, "name": model.name} for model in provider.models.all()]
    assert [model["name"] for model in models] == ["fast", "slow"]
    assert row == {
        "id": provider.pk,
        "name": "first",
        "url": URL,
        "authMethod": "bearer",
        "apiKey": "…7890",
        "models": models,
        "formatName": "openai",
        "enabled": True,
        "priority": 100,
        "weight": 1,
        "cacheScope": "",
        "cacheTtlSeconds": None,
        "connectTimeoutSeconds": None,
        "firstByteTimeoutSeconds": None,
        "idleTimeoutSeconds": None,
        "totalTimeoutSeconds": None,
        "maxResponseBytes": None,
        "unknownParameters": "pass",
        "healthCheckSeconds": 0,
        "healthCheckAlways": False,
        "health": "unknown",
        "healthDetail": None,
    }
    one = user.get(f"/providers/{provider.pk}/", flat=True).json()["data"]
    assert one == row
    assert opened(provider, settings) == SECRET


def test_the_answer_to_a_create_leads_to_the_provider(admin, settings):
    response = admin.post("/providers/", **good())
    location = f"{settings.GATEWAY_BASE_URL}/providers/{response.headers['ProviderId']}/"
    assert response.json() == {}
    assert response.headers["Location"] == response.headers["Content-Location"] == location
    assert admin.get(location.removeprefix(admin.base)).status_code == 200


OPTIONS = {
    "enabled": False,
    "priority": 5,
    "weight": 3,
    "cacheScope": "user",
    "cacheTtlSeconds": 0,
    "connectTimeoutSeconds": 0.5,
    "firstByteTimeoutSeconds": 30,
    "idleTimeoutSeconds": 10.25,
    "totalTimeoutSeconds": 600,
    "maxResponseBytes": 10**10,
    "unknownParameters": "refuse",
}


def test_options_are_taken_on_create_and_on_update(admin, add_provider):
    made = add_provider(**OPTIONS)
    assert OPTIONS.items() <= admin.rows(f"/providers/?id={made.pk}")[0].items()
    other = add_provider()
    assert admin.patch(f"/providers/{other.pk}/", **OPTIONS).status_code == 200
    assert OPTIONS.items() <= admin.rows(f"/providers/?id={other.pk}")[0].items()
    assert admin.patch(f"/providers/{other.pk}/", cacheTtlSeconds=None, idleTimeoutSeconds=None).status_code == 200
    row = admin.rows(f"/providers/?id={other.pk}")[0]
    assert (row["cacheTtlSeconds"], row["idleTimeoutSeconds"], row["priority"]) == (None, None, 5)


@pytest.mark.parametrize("way", ["path", "data.id", "attributes.id"])
def test_an_update_changes_what_is_given_and_nothing_else(admin, add_provider, settings, way):
    provider = add_provider()
    document = body(name="renamed", formatId=str(format_id("anthropic")))
    if way == "data.id":
        document["data"]["id"] = str(provider.pk)
    elif way == "attributes.id":
        document["data"]["attributes"]["id"] = provider.pk
    path = f"/providers/{provider.pk}/" if way == "path" else "/providers/"
    response = admin.send("PATCH", path, json=document)
    assert (response.status_code, response.json()) == (200, {})
    provider.refresh_from_db()
    assert (provider.name, provider.format.name, provider.url) == ("renamed", "anthropic", URL)
    assert opened(provider, settings) == SECRET


def test_a_masked_credential_that_is_sent_back_changes_nothing(admin, add_provider, settings):
    provider = add_provider()
    shown = admin.rows(f"/providers/?id={provider.pk}")[0]["apiKey"]
    assert admin.patch(f"/providers/{provider.pk}/", apiKey=shown, priority=1).status_code == 200
    assert opened(provider, settings) == SECRET
    refused(admin.post("/providers/", **good(apiKey=shown)), 400, "ValidationError", "apiKey")


@pytest.mark.parametrize("literal", ["${OPENAI_KEY}", "os.environ/OPENAI_KEY", "user:password", " blanks "])
def test_a_credential_is_literal_text(admin, add_provider, settings, literal):
    provider = add_provider()
    assert admin.patch(f"/providers/{provider.pk}/", apiKey=literal).status_code == 200
    assert opened(provider, settings) == literal


@pytest.mark.parametrize(
    ("sent", "left"),
    [
        ({"url": "https://evil.example/v1"}, ""),
        ({"url": "https://evil.example/v1", "apiKey": "…7890"}, ""),
        ({"url": "https://api.example.org:444/v1"}, ""),
        ({"url": "http://api.example.org/v1"}, ""),
        ({"url": "https://api.example.org/v2"}, "…7890"),
        ({"url": "https://evil.example/v1", "apiKey": "sk-abcdefghijk"}, "…hijk"),
        ({"apiKey": ""}, ""),
    ],
)
@promise(
    "V-L20: a new address of a provider drops its credential", target="no credential at the new address", suite="attack"
)
def test_a_credential_never_follows_to_another_origin(admin, add_provider, sent, left):
    provider = add_provider()
    assert admin.patch(f"/providers/{provider.pk}/", **sent).status_code == 200
    assert admin.rows(f"/providers/?id={provider.pk}")[0]["apiKey"] == left


def test_a_taken_name_is_a_conflict_and_changes_nothing(admin, add_provider):
    add_provider(name="first")
    refused(admin.post("/providers/", **good(name="first")), 409, "Conflict", "first")
    second = add_provider(name="second")
    refused(admin.patch(f"/providers/{second.pk}/", name="first", priority=1), 409, "Conflict", "first")
    second.refresh_from_db()
    assert (second.name, second.priority) == ("second", 100)


@pytest.mark.parametrize(
    ("sent", "named"),
    [
        ({"formatId": 987654}, "formatId"),
        ({"formatName": "openai"}, "formatName"),
        ({"authMethod": "none such"}, "authMethod"),
        ({"url": "ftp://example.org"}, "url"),
        ({"url": "https://user:password@example.org"}, "url"),
        ({"models": ["ok", " not ok"]}, "name"),
        ({"models": "fast"}, "models"),
        ({"priority": -1}, "priority"),
        ({"weight": -1}, "weight"),
        ({"connectTimeoutSeconds": 0}, "connectTimeoutSeconds"),
        ({"totalTimeoutSeconds": 1e-300}, "totalTimeoutSeconds"),
        ({"apiKey": "a\nb"}, "apiKey"),
        ({"credential": "x"}, "credential"),
        ({"createdAt": "2020-01-01T00:00:00Z"}, "createdAt"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_written(admin, sent, named):
    before = Provider.objects.count()
    refused(admin.post("/providers/", **good(**sent)), 400, "ValidationError", named)
    assert Provider.objects.count() == before


@pytest.mark.exhaustive
@pytest.mark.timeout(400)  # a thousand requests, each a transaction
def test_wrong_values_are_never_a_fault_of_ours(admin, add_provider):
    names = [*good(), *OPTIONS, "id", "models"]
    try_wrong(lambda **sent: admin.post("/providers/", **sent), names, good)
    provider = add_provider()
    try_wrong(lambda **sent: admin.patch(f"/providers/{provider.pk}/", **sent), names, dict)


def test_a_provider_that_keys_or_rules_refer_to_is_not_deleted(admin, add_provider):
    provider = add_provider(name="first", models=["fast"])
    owner = new_user()
    for name in ("one", "two"):
        issue_key(owner=owner, name=name, provider=provider)
    create_rule(name="r", user_id=owner.pk, provider_id=provider.pk)
    refused(admin.delete(f"/providers/{provider.pk}/"), 409, "Conflict", "first", "2 API keys", "1 rule")
    provider.rules.all().delete()
    refused(admin.delete(f"/providers/{provider.pk}/"), 409, "Conflict", "2 API keys")
    provider.api_keys.update(provider=None)
    response = admin.delete(f"/providers/{provider.pk}/")
    assert (response.status_code, response.json()) == (200, {})
    assert not Model.objects.filter(name="fast").exists()
    refused(admin.delete(f"/providers/{provider.pk}/"), 404, "NotFound")


def test_whoever_lacks_providers_modify_changes_no_provider(user, add_provider):
    provider = add_provider()
    refused(user.post("/providers/", **good()), 403, "PermissionDenied", "providers.modify")
    refused(user.patch(f"/providers/{provider.pk}/", name="mine"), 403, "PermissionDenied")
    refused(user.delete(f"/providers/{provider.pk}/"), 403, "PermissionDenied")


def test_formats_are_listed_and_found(user):
    rows = user.rows("/formats/")
    assert rows == list(ProviderFormat.objects.values("id", "name"))
    assert user.rows("/formats/?name=gemini") == [row for row in rows if row["name"] == "gemini"]
    assert user.rows(f"/formats/?id={rows[0]['id']}") == rows[:1]
    assert user.rows("/formats/?name=none") == []
    assert user.get(f"/formats/{rows[0]['id']}/", flat=True).json() == {"data": rows[0]}


def test_every_change_is_told_to_the_log_without_the_credential(admin, add_provider):
    provider = add_provider(name="first")
    admin.patch(f"/providers/{provider.pk}/", apiKey="sk-another-secret", priority=7)
    model_id = admin.post(f"/providers/{provider.pk}/models/", name="fast").headers["ModelId"]
    admin.delete(f"/providers/{provider.pk}/")
    entries = list(LogEntry.objects.order_by("id"))
    assert [entry.message.split(" ", 1)[1] for entry in entries] == [
        f"created providers {provider.pk}: apiKey, authMethod, formatId, name, url.",
        f"changed providers {provider.pk}: apiKey, priority.",
        f"created models {model_id}: name.",
        f"deleted providers {provider.pk}.",
    ]
    told = "".join(entry.payload for entry in entries)
    assert SECRET not in told
    assert "another" not in told
    assert '"priority":7' in entries[1].payload


def test_a_list_of_providers_costs_the_same_at_any_length(client, add_provider, django_assert_num_queries):
    from tests.support.management import new_admin, token_of

    headers = {"Authorization": f"Bearer {token_of(new_admin())}"}
    for size in (1, 4):
        for _ in range(size):
            add_provider(models=["a", "b"])
        with django_assert_num_queries(5):  # session and user, roles, licence; rows, models
            client.get("/providers/", headers=headers)


def test_without_the_permission_users_rename_only_what_they_added(user, admin, add_provider):
    demo, other = add_provider(name="demo-provider", models=["demo"]), add_provider(models=["other"])
    path = f"/providers/{demo.pk}/models/"
    model = demo.models.get()
    refused(user.patch(f"{path}{model.pk}/", name="broken"), 403, "PermissionDenied", "providers.modify")
    for name in ("demo", "demo-provider/demo", "demo-provider/not-yet"):
        refused(user.post(f"/providers/{other.pk}/models/", name=name), 409, "Conflict", name)
    for alias in ("chat", "team-*"):
        create_alias(name=alias, enabled=False)
    for name in ("chat", "team-red"):
        refused(user.post(path, name=name), 409, "Conflict", "alias", name)
    own = int(user.post(path, name="mine").headers["ModelId"])
    refused(user.patch(f"{path}{own}/", name="chat"), 409, "Conflict", "alias")
    refused(user.patch(f"{path}{own}/", name="other"), 409, "Conflict", "other")
    assert user.patch(f"{path}{own}/", name="renamed").status_code == 200
    assert admin.patch(f"{path}{own}/", name="demo-2").status_code == 200
    assert [row["name"] for row in user.rows(path)] == ["demo", "demo-2"]


def test_the_permission_is_a_feature_for_users_and_keys(nobody, add_provider):
    first, second = add_provider(models=["fast"]), add_provider()
    model, owner = first.models.get(), new_user("models.create", "providers.modify")
    path = f"/providers/{first.pk}/models/{model.pk}/"
    few = nobody.with_credential(issue_key(owner=owner, name="few", permissions=["models.create"]).text)
    both = nobody.with_credential(
        issue_key(owner=owner, name="both", permissions=["models.create", "providers.modify"]).text
    )
    refused(few.patch(path, name="new"), 403, "PermissionDenied", "providers.modify")
    assert both.patch(path, name="new").status_code == 200
    assert nobody.as_user(owner).post(f"/providers/{second.pk}/models/", name="new").status_code == 201
