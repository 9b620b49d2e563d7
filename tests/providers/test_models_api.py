"""The models of providers over HTTP."""

import pytest

from providers.models import Model
from tests.support.hostile import try_wrong
from tests.support.management import new_user, refused
from tests.support.promises import promise
from tests.support.providers.values import good

pytestmark = pytest.mark.either_store


def test_models_are_made_renamed_and_removed(admin, user, add_provider, settings):
    provider = add_provider()
    path = f"/providers/{provider.pk}/models/"
    response = user.post(path, name="fast")
    model = provider.models.get()
    assert (response.status_code, response.headers["ModelId"]) == (201, str(model.pk))
    assert response.headers["Location"] == f"{settings.GATEWAY_BASE_URL}{path}{model.pk}/"
    known = {"contextLength": None, "maxOutputTokens": None, "inputModalities": [], "outputModalities": []}
    assert user.rows(path) == [{"id": model.pk, "name": "fast", "upstreamName": "fast"} | known]
    assert user.patch(f"{path}{model.pk}/", name="faster").json() == {}
    assert user.get(f"{path}{model.pk}/", flat=True).json()["data"]["name"] == "faster"
    refused(user.delete(f"{path}{model.pk}/"), 403, "PermissionDenied")
    assert admin.delete(f"{path}{model.pk}/").status_code == 200
    assert user.rows(path) == []


def test_a_model_knows_how_long_its_answers_can_be(admin, add_provider):
    path = f"/providers/{add_provider().pk}/models/"
    model_id = admin.post(path, name="claude-of-the-house", maxOutputTokens=32000).headers["ModelId"]
    assert admin.rows(path)[0]["maxOutputTokens"] == 32000
    assert admin.patch(f"{path}{model_id}/", name="another").json() == {}
    assert admin.rows(path)[0]["maxOutputTokens"] == 32000
    assert admin.patch(f"{path}{model_id}/", maxOutputTokens=None).json() == {}
    assert admin.rows(path)[0]["maxOutputTokens"] is None
    refused(admin.post(path, name="none", maxOutputTokens=0), 400, "ValidationError", "maxOutputTokens")


def test_who_may_name_models_cannot_cut_the_answers_of_others_short(admin, user, add_provider):
    path = f"/providers/{add_provider().pk}/models/"
    model_id = admin.post(path, name="claude-of-the-house", maxOutputTokens=32000).headers["ModelId"]
    for sent in ({"maxOutputTokens": 1}, {"maxOutputTokens": None}, {"name": "another", "maxOutputTokens": 1}):
        refused(user.patch(f"{path}{model_id}/", **sent), 403, "PermissionDenied", "maxOutputTokens")
    refused(user.post(path, name="mine", maxOutputTokens=1), 403, "PermissionDenied", "maxOutputTokens")
    assert [(row["name"], row["maxOutputTokens"]) for row in user.rows(path)] == [("claude-of-the-house", 32000)]
    refused(user.patch(f"{path}{model_id}/", name="claude", maxOutputTokens=32000), 403, "PermissionDenied", "name")
    assert admin.patch(f"{path}{model_id}/", name="claude", maxOutputTokens=32000).status_code == 200
    assert user.post(path, name="mine", maxOutputTokens=None).status_code == 201
    assert [(row["name"], row["maxOutputTokens"]) for row in user.rows(path)] == [("claude", 32000), ("mine", None)]
    assert admin.patch(f"{path}{model_id}/", name="another").json() == {}


def test_a_model_has_one_name_a_provider(admin, user, add_provider):
    first, second = add_provider(models=["fast", "slow"]), add_provider(models=["fast"])
    refused(user.post(f"/providers/{first.pk}/models/", name="fast"), 409, "Conflict", "fast")
    slow = first.models.get(name="slow")
    refused(admin.patch(f"/providers/{first.pk}/models/{slow.pk}/", name="fast"), 409, "Conflict", "fast")
    refused(user.post(f"/providers/{second.pk}/models/", name="slow"), 409, "Conflict", "slow")


def test_a_model_is_found_only_under_its_own_provider(admin, add_provider):
    first, second = add_provider(models=["fast"]), add_provider()
    path = f"/providers/{second.pk}/models/{first.models.get().pk}/"
    for response in (admin.get(path), admin.patch(path, name="x"), admin.delete(path)):
        refused(response, 404, "NotFound")
    assert first.models.get().name == "fast"
    for response in (admin.get("/providers/987654/models/"), admin.post("/providers/987654/models/", name="x")):
        refused(response, 404, "NotFound", "987654")


def test_models_take_the_permission_to_make_them(nobody, add_provider):
    path = f"/providers/{add_provider().pk}/models/"
    refused(nobody.as_user(new_user("work")).post(path, name="fast"), 403, "PermissionDenied", "models.create")
    refused(nobody.get(path), 401, "AuthenticationFailed")


@pytest.mark.exhaustive
def test_wrong_values_of_models_are_never_a_fault_of_ours(admin, add_provider):
    path = f"/providers/{add_provider(models=['fast']).pk}/models/"
    try_wrong(lambda **sent: admin.post(path, **sent), ["name", "id", "maxOutputTokens"], dict)
    names = ["name", "maxOutputTokens"]
    try_wrong(lambda **sent: admin.patch(f"{path}{Model.objects.first().pk}/", **sent), names, dict)


@promise("A provider has a bounded number of models", target="409 beyond the bound, 1,000 by default", suite="attack")
def test_a_provider_has_a_bounded_number_of_models(admin, add_provider, settings):
    settings.GATEWAY_MAX_MODELS_PER_PROVIDER = 2
    path = f"/providers/{add_provider(models=['one']).pk}/models/"
    assert admin.post(path, name="two").status_code == 201
    refused(admin.post(path, name="three"), 409, "Conflict", "2 models")
    refused(admin.post("/providers/", **good(models=["a", "b", "c"])), 400, "ValidationError", "models", "2")


KNOWN = {
    "contextLength": 128_000,
    "maxOutputTokens": 16_384,
    "inputModalities": ["text", "image", "file"],
    "outputModalities": ["text"],
}


def test_a_model_has_a_name_of_its_own_and_one_at_the_provider(admin, add_provider):
    path = f"/providers/{add_provider().pk}/models/"
    model_id = admin.post(path, name="fast", upstreamName="gpt-4o").headers["ModelId"]
    assert admin.rows(path) == [{"id": int(model_id), "name": "fast", "upstreamName": "gpt-4o"} | KNOWN]
    assert admin.patch(f"{path}{model_id}/", name="faster").json() == {}
    assert (admin.rows(path)[0]["name"], admin.rows(path)[0]["upstreamName"]) == ("faster", "gpt-4o")
    assert admin.patch(f"{path}{model_id}/", upstreamName="").json() == {}
    assert admin.rows(path)[0]["upstreamName"] == "faster"
    assert admin.patch(f"{path}{model_id}/", upstreamName="faster").json() == {}
    assert Model.objects.get(pk=model_id).upstream_name == ""
    for wrong in (" gpt", "a\0b", 5, "x" * 201):
        refused(admin.patch(f"{path}{model_id}/", upstreamName=wrong), 400, "ValidationError", "upstreamName")


def test_what_is_known_of_a_model_can_be_set(admin, add_provider):
    path = f"/providers/{add_provider(models=['gpt-4o']).pk}/models/"
    (row,) = admin.rows(path)
    assert {name: row[name] for name in KNOWN} == KNOWN
    own = {"contextLength": 32_000, "inputModalities": ["text"], "outputModalities": []}
    assert admin.patch(f"{path}{row['id']}/", **own).json() == {}
    assert {name: admin.rows(path)[0][name] for name in own} == own
    assert admin.patch(f"{path}{row['id']}/", **dict.fromkeys(own)).json() == {}
    assert {name: admin.rows(path)[0][name] for name in KNOWN} == KNOWN
    assert admin.patch(f"{path}{row['id']}/", **KNOWN | {"maxOutputTokens": None}).json() == {}
    model = Model.objects.get(pk=row["id"])
    assert (model.context_length, model.input_modalities, model.output_modalities) == (None, None, None)
    for wrong in (["smell"], ["text", "text"], "text", [1], {}):
        refused(admin.patch(f"{path}{row['id']}/", inputModalities=wrong), 400, "ValidationError", "inputModalities")
    for wrong in (0, -1, 2**31, "5", 1.5):
        refused(admin.patch(f"{path}{row['id']}/", contextLength=wrong), 400, "ValidationError", "contextLength")


def test_who_may_name_models_does_not_say_what_the_provider_is_asked_for(admin, user, add_provider):
    """Rules judge our names: a name of one's own for a dear model would get round them."""
    path = f"/providers/{add_provider().pk}/models/"
    for option, value in {"upstreamName": "gpt-4o", "contextLength": 5, "inputModalities": ["text"]}.items():
        refused(user.post(path, name="mine", **{option: value}), 403, "PermissionDenied", option)
    model_id = user.post(path, name="mine", upstreamName="mine", contextLength=None).headers["ModelId"]
    refused(user.patch(f"{path}{model_id}/", upstreamName="gpt-4o"), 403, "PermissionDenied", "upstreamName")
    shown = {name: value for name, value in user.rows(path)[0].items() if name != "id"}
    assert user.patch(f"{path}{model_id}/", **shown | {"name": "mine too"}).json() == {}
    assert user.rows(path)[0]["upstreamName"] == "mine too"
    manager = user.as_user(new_user("models.create", "providers.modify"))
    assert manager.patch(f"{path}{model_id}/", upstreamName="gpt-4o", contextLength=5).json() == {}
    refused(manager.patch(f"{path}{model_id}/", maxOutputTokens=5), 403, "PermissionDenied", "maxOutputTokens")
