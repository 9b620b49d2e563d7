"""The further credentials of a provider over HTTP."""

import itertools

import pytest

from providers.credentials import decrypt
from providers.models import Provider, ProviderCredential
from providers.services import create_provider, credentials
from telemetry.models import LogEntry
from tests.support.hostile import try_wrong
from tests.support.management import new_user, refused

pytestmark = pytest.mark.either_store

SECRET = "sk-1234567890"
GOOD = {"name": "second", "apiKey": SECRET}
LIMITS = {"requestsPerMinute": None, "tokensPerMinute": None, "concurrentRequests": None}
_numbers = itertools.count()


@pytest.fixture
def provider(admin):
    return create_provider(
        name=f"of-accounts-{next(_numbers)}",
        url="https://api.example.org/v1",
        format_name="openai",
        credential="sk-of-the-provider",
    )


@pytest.fixture
def path(provider):
    return f"/providers/{provider.pk}/credentials/"


def test_they_are_made_changed_and_removed(admin, provider, path, settings):
    response = admin.post(path, **GOOD)
    row = provider.credentials.get()
    assert (response.status_code, response.headers["CredentialId"]) == (201, str(row.pk))
    assert response.headers["Location"] == f"{settings.GATEWAY_BASE_URL}{path}{row.pk}/"
    shown = {"id": row.pk, "name": "second", "apiKey": "…7890", "weight": 1, "enabled": True} | LIMITS
    assert admin.rows(path) == [shown]
    assert admin.patch(f"{path}{row.pk}/", weight=5, enabled=False, apiKey="…7890").json() == {}
    assert admin.get(f"{path}{row.pk}/", flat=True).json()["data"] == shown | {"weight": 5, "enabled": False}
    assert provider.credentials.get().credential == row.credential
    assert admin.patch(f"{path}{row.pk}/", apiKey="sk-0987654321").json() == {}
    assert admin.rows(path)[0]["apiKey"] == "…4321"
    assert admin.delete(f"{path}{row.pk}/").status_code == 200
    assert admin.rows(path) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("name", ""), ("name", " x"), ("name", "x" * 101), ("apiKey", ""), ("apiKey", "…7890")),
        *(
            ("apiKey", "a\nb"),
            ("apiKey", None),
            ("apiKey", "x" * 20_001),
            ("weight", 0),
            ("weight", -1),
            ("weight", 2**31),
        ),
        *(("weight", 2**31), ("weight", "1"), ("enabled", 1), ("credential", "x")),
        *(("requestsPerMinute", 0), ("tokensPerMinute", 2**31), ("concurrentRequests", "1")),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_written(admin, provider, path, name, value):
    refused(admin.post(path, **GOOD | {name: value}), 400, "ValidationError", name)
    assert not provider.credentials.exists()
    assert admin.post(path, **GOOD).status_code == 201
    row = provider.credentials.get()
    if value != "…7890":
        refused(admin.patch(f"{path}{row.pk}/", **{name: value}), 400, "ValidationError", name)
    assert list(provider.credentials.values()) == [ProviderCredential.objects.values().get(pk=row.pk)]
    assert admin.rows(path)[0]["apiKey"] == "…7890"


@pytest.mark.exhaustive
def test_wrong_values_are_never_a_fault_of_ours(admin, path):
    try_wrong(
        lambda **sent: admin.post(path, **sent), ["name", "apiKey", "weight", "enabled", *LIMITS], lambda: dict(GOOD)
    )


def test_a_name_is_taken_once_a_provider(admin, provider, path):
    refused(admin.post(path, name="second"), 400, "ValidationError", "apiKey")
    for name in ("second", "third"):
        assert admin.post(path, **GOOD | {"name": name}).status_code == 201
    refused(admin.post(path, **GOOD), 409, "Conflict", "second")
    third = provider.credentials.get(name="third")
    refused(admin.patch(f"{path}{third.pk}/", name="second"), 409, "Conflict", "second")


def test_there_are_so_many_and_no_more(provider, monkeypatch):
    monkeypatch.setattr(credentials, "MOST_CREDENTIALS", 1)
    credentials.add_credential(provider=provider, name="second", credential=SECRET)
    with pytest.raises(credentials.Conflict, match="the maximum"):
        credentials.add_credential(provider=provider, name="third", credential=SECRET)


def test_they_are_found_only_under_their_own_provider(admin, path):
    admin.post(path, **GOOD)
    (row,) = admin.rows(path)
    other = create_provider(name=f"other-{next(_numbers)}", url="https://x.example", format_name="openai")
    for response in (
        admin.get(f"/providers/{other.pk}/credentials/{row['id']}/"),
        admin.patch(f"/providers/{other.pk}/credentials/{row['id']}/", weight=2),
        admin.delete(f"/providers/{other.pk}/credentials/{row['id']}/"),
        admin.get("/providers/987654/credentials/"),
    ):
        refused(response, 404, "NotFound")
    assert admin.rows(path) == [row]


def test_who_may_change_providers_sees_the_masks_alone(admin, user, path):
    last = LogEntry.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    admin.post(path, **GOOD)
    refused(user.get(path), 403, "PermissionDenied", "providers.modify")
    manager = user.as_user(new_user("providers.modify"))
    for client in (admin, manager):
        assert SECRET not in client.get(path).text
        assert client.rows(path)[0]["apiKey"] == "…7890"
    texts = [str(vars(entry)) for entry in LogEntry.objects.filter(pk__gt=last, message__contains="credentials")]
    assert len(texts) == 1
    assert SECRET not in texts[0]


def test_a_method_that_cannot_carry_one_of_them_is_refused(admin, provider, path):
    admin.post(path, **GOOD)
    wrong = admin.patch(f"/providers/{provider.pk}/", authMethod="basic", apiKey="user:password")
    refused(wrong, 400, "ValidationError", "authMethod", "second")
    assert Provider.objects.get(pk=provider.pk).auth_method == "bearer"


def test_a_new_origin_clears_them_and_they_can_be_entered_again(admin, provider, path, settings):
    admin.post(path, **GOOD)
    row = provider.credentials.get()
    moved = admin.patch(f"/providers/{provider.pk}/", url="https://elsewhere.example", apiKey="sk-another-key")
    assert moved.json() == {}
    assert [(row["name"], row["apiKey"]) for row in admin.rows(path)] == [("second", "")]
    assert admin.patch(f"{path}{row.pk}/", apiKey="", weight=2).json() == {}
    assert admin.patch(f"{path}{row.pk}/", apiKey=SECRET).json() == {}
    row.refresh_from_db()
    keys, origin = settings.GATEWAY_ENCRYPTION_KEYS, "https://elsewhere.example:443"
    assert decrypt(row.credential, origin=origin, keys=keys) == SECRET
