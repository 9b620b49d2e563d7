"""GET /providers/ says how each provider is: from attempts, whoever answered in the end."""

import pytest

from providers.services import update_provider
from tests.support.management import Client, new_admin
from tests.support.metrics import samples
from tests.support.provider_answers import Answer
from tests.support.streaming import error_in, part, read

pytestmark = pytest.mark.either_store


@pytest.fixture
def admin(world):
    return Client(world.gateway.url).as_user(new_admin())


@pytest.fixture
def shown(world, admin):
    """A provider as the API shows it, alone and in the list."""

    def of(scripted):
        row = world.row(scripted)
        (listed,) = admin.rows(f"/providers/?id={row.pk}")
        assert admin.get(f"/providers/{row.pk}/").json()["data"]["attributes"]["health"] == listed["health"]
        return listed

    return of


def test_one_that_fails_while_another_answers_shows_as_failing(world, pair, shown, admin):
    first, second = pair
    assert world.ask("this one works").status_code == 200
    assert shown(first)["health"] == "healthy"
    assert shown(second)["health"] == "unknown"
    first.default = Answer(status=500)
    for number in range(5):
        assert world.ask(f"{number}").headers["X-Svc-Provider"] == world.row(second).name
    provider = shown(first)
    assert provider["health"] == "failing"
    detail = provider["healthDetail"]
    assert (detail["attempts"], detail["failures"], detail["openCircuits"]) == (6, 5, 1)
    error = detail["lastError"]
    assert (error["exception"], error["model"]) == ("ProviderError", world.model)
    assert error["message"]
    (model,) = detail["models"]
    assert model == {
        "model": world.model, "health": "failing", "attempts": 6, "failures": 5, "checks": 0, "failedChecks": 0,
        "lastError": error,
    }  # fmt: skip
    assert shown(second)["health"] == "healthy"
    name = world.row(first).name
    health = {word: value for (word, provider), value in samples(world, "provider_health").items() if provider == name}
    assert health == {"failing": 1}
    assert samples(world, "provider_model_failing")[world.model, name] == 1
    assert samples(world, "provider_failures_total")["ProviderError", world.model, name] == 5
    for request_id, _ in world.answers:
        world.entry(request_id)
    (usage,) = admin.rows(f"/stats/usage?by=provider&providerId={world.row(first).pk}")
    assert (usage["requests"], usage["attempts"], usage["failedAttempts"], usage["health"]) == (1, 6, 5, "failing")


def test_it_is_healthy_again_once_it_answers(world, provider, shown):
    provider.default = Answer(status=500)
    assert world.ask("first").status_code == 502
    assert shown(provider)["health"] == "failing"
    provider.default = Answer()
    for number in range(2):
        assert world.ask(f"again {number}").status_code == 200
    assert shown(provider)["health"] == "healthy"
    assert shown(provider)["healthDetail"]["lastError"]["exception"] == "ProviderError"


def test_one_that_asked_for_a_pause_rests(world, pair, shown):
    pair[0].default = Answer(status=503, headers={"Retry-After": "60"})
    assert world.ask().status_code == 200
    provider = shown(pair[0])
    assert provider["health"] == "resting"
    assert provider["healthDetail"]["restsUntil"]
    assert provider["healthDetail"]["openCircuits"] == 0


def test_one_that_is_disabled(world, provider, shown):
    assert world.ask().status_code == 200
    update_provider(world.row(provider), enabled=False)
    assert shown(provider)["health"] == "disabled"


def test_requests_that_it_refuses_and_clients_that_leave_are_no_failures(world, provider, shown):
    provider.answers(status=400)
    assert world.ask("refused").status_code == 400
    provider.answers(silent=True)
    client = world.send({"messages": [{"role": "user", "content": "leaves"}]}, head="X-Svc-Request-ID: has-left")
    world.until(lambda: len(provider.seen) == 2)
    client.close()
    assert world.entry("has-left").outcome == "client_closed"
    detail = shown(provider)["healthDetail"]
    assert (shown(provider)["health"], detail["attempts"], detail["failures"]) == ("healthy", 2, 0)


def test_a_deadline_of_the_client_does_not_speak_against_the_provider(world, provider, shown):
    provider.answers(delay=5)
    assert world.ask(headers={"X-Svc-Timeout": "0.3"}).status_code == 504
    assert shown(provider)["health"] == "unknown"


def test_who_is_no_admin_sees_the_word_and_no_details(world, pair, admin):
    pair[0].default = Answer(status=500)
    assert world.ask().status_code == 200
    client = Client(world.gateway.url).as_user(world.user)
    row = world.row(pair[0])
    (listed,) = client.rows(f"/providers/?id={row.pk}")
    assert (listed["health"], listed["healthDetail"]) == ("failing", None)
    alone = client.get(f"/providers/{row.pk}/").json()
    assert "ProviderError" not in str(alone)
    assert "failing" in str(alone)


def test_internal_addresses_and_exceptions_are_for_admins_alone(world, admin, shown):
    world.allow()
    world.provider(url="http://127.0.0.1:1/v1")
    response = world.ask()
    assert response.status_code == 502
    assert "127.0.0.1" not in response.text
    rows = [one for one in admin.rows("/providers/") if one["health"] == "failing" and one["url"].endswith(":1/v1")]
    assert "ConnectionRefusedError" in rows[-1]["healthDetail"]["lastError"]["message"]
    client = Client(world.gateway.url).as_user(world.user)
    assert "ConnectionRefusedError" not in client.get("/providers/").text


def test_the_credential_is_in_no_error(world, provider, shown):
    provider.default = Answer(status=401, body={"error": {"message": "sk-secret-of-the-provider is not valid"}})
    assert world.ask().status_code == 502
    assert "sk-secret" not in str(shown(provider))


def test_health_is_read_only_and_no_part_of_the_log_of_changes(world, provider, admin):
    row = world.row(provider)
    assert world.ask().status_code == 200
    whole = admin.get(f"/providers/{row.pk}/").json()["data"]["attributes"]
    writable = {name: value for name, value in whole.items() if name not in ("formatName", "models")}
    assert admin.patch(f"/providers/{row.pk}/", **writable | {"priority": 7}).status_code == 200
    assert admin.patch(f"/providers/{row.pk}/", priority=8, health="disabled").status_code in (200, 400)
    row.refresh_from_db()
    changes = [
        entry for entry in admin.rows("/logs/?type=Message&search=providers") if '"healthDetail"' in entry["payload"]
    ]
    assert changes == []


REFUSAL = {"error": {"message": "logit_bias: token id out of vocabulary", "type": "BadRequestError", "code": 400}}


@pytest.mark.parametrize("opening", [[], [part("a")]], ids=["first", "midway"])
def test_a_refusal_inside_a_stream_is_not_its_failure(world, pair, shown, opening):
    first, second = pair
    first.default = Answer(stream=[*opening, REFUSAL])
    for number in range(5):
        response = world.stream(f"{number}")
        error = error_in(read(response)) if response.status_code == 200 else response.json()
        assert (error["code"], error["exception"]) == (400, "ProviderRejected")
        assert world.entry(response).outcome == "failed"
    assert not second.seen
    assert (shown(first)["health"], shown(first)["healthDetail"]["openCircuits"]) == ("healthy", 0)


def test_a_refusal_as_a_whole_answer_is_not_its_failure(world, pair, shown):
    first, second = pair
    first.default = Answer(body=REFUSAL)
    for number in range(5):
        assert world.ask(f"{number}").status_code == 400
    assert not second.seen
    assert (shown(first)["health"], shown(first)["healthDetail"]["openCircuits"]) == ("healthy", 0)
