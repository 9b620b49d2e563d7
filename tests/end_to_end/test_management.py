"""What is made through the management API serves work within a second, and what is taken away there serves none."""

import pytest

from tests.support.management import Client, new_admin, refused
from tests.support.provider import ScriptedProvider

pytestmark = pytest.mark.either_store


@pytest.fixture
def admin(world) -> Client:
    return Client(world.gateway.url).as_user(new_admin(username=world.name("admin")))


@pytest.fixture
def scripted():
    with ScriptedProvider() as provider:
        yield provider


def created_id(response, header: str = "") -> str:
    assert response.status_code == 201, response.text
    return response.headers[header] if header else response.json()["key"]


@pytest.fixture
def arranged(world, admin, scripted) -> dict[str, str]:
    """A provider, a rule for everyone and a key, all through the API."""
    format_id = admin.rows("/formats/?name=openai")[0]["id"]
    provider = admin.post(
        "/providers/",
        name=world.name("provider"),
        url=scripted.url,
        authMethod="bearer",
        apiKey="sk-through-the-api",
        formatId=format_id,
        models=[world.model],
    )
    rule = admin.post("/rules/", name=world.name("rule"), userId=0, regex=f"{world.model}.*")
    name = world.name("key")
    key = created_id(admin.post("/keys/", name=name))
    return {
        "provider": created_id(provider, "ProviderId"),
        "rule": created_id(rule, "RuleId"),
        "key": key,
        "name": name,
    }


def test_a_new_provider_key_and_rule_serve_work(world, scripted, arranged):
    response = world.soon(lambda: world.ask(key=arranged["key"]), 200)
    assert response.json()["choices"]
    assert scripted.seen[-1].headers["authorization"] == "Bearer sk-through-the-api"


def test_a_deleted_key_is_refused(world, admin, arranged):
    world.soon(lambda: world.ask(key=arranged["key"]), 200)
    assert admin.delete(f"/keys/?name={arranged['name']}").status_code == 200
    world.soon(lambda: world.ask(key=arranged["key"]), 401)


@pytest.mark.parametrize(("locked", "status"), [(True, 401), (False, 200)])
def test_a_locked_key_is_refused_until_it_is_unlocked(world, admin, arranged, locked, status):
    world.soon(lambda: world.ask(key=arranged["key"]), 200)
    admin.patch("/keys/", name=arranged["name"], locked=True)
    world.soon(lambda: world.ask(key=arranged["key"]), 401)
    admin.patch("/keys/", name=arranged["name"], locked=locked)
    world.soon(lambda: world.ask(key=arranged["key"]), status)


def test_an_expired_key_is_refused(world, admin, arranged):
    world.soon(lambda: world.ask(key=arranged["key"]), 200)
    admin.patch("/keys/", name=arranged["name"], expire="true")
    world.soon(lambda: world.ask(key=arranged["key"]), 401)


def test_a_rule_that_is_disabled_or_deleted_allows_nothing(world, admin, arranged):
    path = f"/rules/{arranged['rule']}/"
    world.soon(lambda: world.ask(key=arranged["key"]), 200)
    admin.patch(path, enabled=False)
    world.soon(lambda: world.ask(key=arranged["key"]), 403)
    admin.patch(path, enabled=True)
    world.soon(lambda: world.ask(key=arranged["key"]), 200)
    admin.delete(path)
    world.soon(lambda: world.ask(key=arranged["key"]), 403)


def test_a_model_is_offered_once_it_is_made_and_not_once_it_is_removed(world, admin, arranged):
    path, body = f"/providers/{arranged['provider']}/models/", {"model": f"{world.model}-2"}
    world.soon(lambda: world.ask(key=arranged["key"]), 200)
    refused(world.ask(key=arranged["key"], body=body), 400, "ProviderNotSelected")
    model = created_id(admin.post(path, name=f"{world.model}-2"), "ModelId")
    world.soon(lambda: world.ask(key=arranged["key"], body=body), 200)
    admin.delete(f"{path}{model}/")
    world.soon(lambda: world.ask(key=arranged["key"], body=body), 400)


def test_a_purged_answer_is_asked_of_the_provider_again(world, admin, scripted, arranged):
    first = world.soon(lambda: world.ask("What?", key=arranged["key"]), 200)
    assert world.ask("What?", key=arranged["key"]).headers["X-Svc-Cache"] == "HIT"
    path = f"/cache/?search={world.model}"
    world.until(lambda: len(admin.rows(path)) == 1)
    world.entry(first)
    assert admin.delete(path).status_code == 200
    assert admin.rows(path) == []
    assert world.ask("What?", key=arranged["key"]).headers["X-Svc-Cache"] == "MISS"


def test_a_request_is_found_in_the_log_through_the_api(world, admin, arranged):
    response = world.soon(lambda: world.ask("What?", key=arranged["key"]), 200)
    request_id = response.headers["X-Svc-Request-ID"]
    world.entry(response)
    (row,) = admin.rows(f"/logs/?search={request_id}&type=WorkRequest&source=Worker")
    assert (row["correlationId"], row["model"], row["keyName"]) == (request_id, world.model, arranged["name"])
