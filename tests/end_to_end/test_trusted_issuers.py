"""Work with tokens of a trusted issuer, whose keys a running gateway fetches from a real server."""

import itertools
from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.services import create_group, create_service_account, delete_user, update_user
from accounts.trusted_issuers.models import TrustedIssuer
from accounts.trusted_issuers.services import create_trusted_issuer, delete_trusted_issuer, update_trusted_issuer
from licensing.services import set_limit
from tests.support.issuers import AUDIENCE, SUBJECT, IssuerServer
from tests.support.management import Client, new_admin, token_of

pytestmark = pytest.mark.either_store

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server():
    with IssuerServer() as server:
        yield server


@pytest.fixture
def issuer(world, server):
    """A row for the server, with an audience of its own; the subject of its tokens is the world's user."""
    audience = f"{AUDIENCE}-{next(_numbers)}"
    row = create_trusted_issuer(
        name=audience, issuer=server.url, audience=audience, subjects={SUBJECT: world.user.username}
    )
    wait_for_keys(world, row)
    yield row
    TrustedIssuer.objects.filter(pk=row.pk).delete()


def wait_for_keys(world, row):
    """Until the gateway has fetched the keys, and knows them."""
    world.until(lambda: list(TrustedIssuer.objects.get(pk=row.pk).key_ids) != [], seconds=10)
    world.settle()


@pytest.fixture
def token(server, issuer):
    return server.token(aud=issuer.audience)


def refused(response):
    assert response.status_code == 401, response.text
    assert response.headers["WWW-Authenticate"] == "Bearer"
    return response.json()["message"]


def test_a_service_account_of_a_cluster_sends_work_as_its_user(world, provider, token, issuer):
    response = world.ask(key=token)
    assert response.status_code == 200, response.text
    entry = world.entry(response)
    assert (entry.user_id, entry.username, entry.key_id) == (world.user.id, world.user.username, None)
    assert (entry.trusted_issuer, world.entry(world.ask()).trusted_issuer) == (issuer.name, None)
    admin = Client(world.gateway.url).as_user(new_admin())
    rows = admin.rows(f"/logs/?trustedIssuer={issuer.name}")
    assert [(row["id"], row["trustedIssuer"]) for row in rows] == [(entry.pk, issuer.name)]
    assert f"with a token of {issuer.name}." in admin.get(f"/logs/{entry.pk}/explanation/").text


def test_the_claim_can_be_the_name_of_a_service_account(world, provider, server, issuer):
    name = world.name("indexer")
    account = create_service_account(username=name, group_id=create_group(name=world.name("group")).pk)
    world.allow(user=account)
    update_trusted_issuer(issuer, subjects={}, user_claim="account", user_prefix=name[:-2])
    response = world.ask(key=server.token(aud=issuer.audience, account=name[-2:]))
    assert response.status_code == 200, response.text
    assert world.entry(response).user_id == account.pk


def test_sdks_take_a_token_as_their_key(world, provider, token):
    import anthropic  # here, as in the next test: each process that collects the tests would load the SDKs
    import openai

    world.settle()
    messages = [{"role": "user", "content": "Hello!"}]
    with openai.OpenAI(base_url=f"{world.gateway.url}/v1", api_key=token, max_retries=0) as client:
        assert client.chat.completions.create(model=world.model, messages=messages).choices
        assert world.model in [model.id for model in client.models.list()]
    azure = openai.AzureOpenAI(azure_endpoint=world.gateway.url, api_key=token, api_version="2024-10-21", max_retries=0)
    with azure as client:
        assert client.chat.completions.create(model=world.model, messages=messages).choices
    with anthropic.Anthropic(base_url=world.gateway.url, api_key=token, max_retries=0) as client:
        assert client.messages.create(model=world.model, messages=messages, max_tokens=100).content


def test_an_sdk_reads_why_a_token_is_refused(world, provider, server, issuer):
    import openai

    expired = server.token(aud=issuer.audience, exp=1)
    client = openai.OpenAI(base_url=f"{world.gateway.url}/v1", api_key=expired, max_retries=0)
    with client, pytest.raises(openai.AuthenticationError, match="expired"):
        client.models.list()


def test_rules_and_limits_are_those_of_the_user(world, server, issuer, token):
    provider = world.provider()
    assert world.ask(key=token).json()["exception"] == "RuleDenied"
    world.allow()
    set_limit(user_id=world.user.pk, measure="requests", window="minute", amount=1)
    statuses = {world.ask(key=token).status_code for _ in range(3)}
    assert 429 in statuses
    assert len(provider.seen) <= 1


def test_a_user_without_the_feature_sends_no_work(world, provider, token):
    update_user(world.user, role_ids=[])
    world.settle()
    assert world.ask(key=token).json()["exception"] == "PermissionDenied"


def test_other_credentials_work_beside_it(world, provider, issuer):
    assert world.ask().status_code == 200
    assert world.ask(key=token_of(world.user)).status_code == 200
    refused(world.ask(key="nonsense"))


def test_a_subject_without_a_user_is_refused(world, provider, server, issuer):
    assert "names no user" in refused(world.ask(key=server.token(aud=issuer.audience, sub="somebody")))
    update_trusted_issuer(issuer, subjects={})
    world.settle()
    assert "not name an active user" in refused(world.ask(key=server.token(aud=issuer.audience, sub="somebody")))


def test_a_user_who_is_disabled_or_deleted_is_refused_at_once(world, provider, token):
    assert world.ask(key=token).status_code == 200
    update_user(world.user, is_active=False)
    world.settle()
    refused(world.ask(key=token))
    update_user(world.user, is_active=True)
    world.settle()
    assert world.ask(key=token).status_code == 200
    delete_user(world.user)
    world.settle()
    refused(world.ask(key=token))


def test_an_issuer_that_is_disabled_changed_or_deleted_is_refused_at_once(world, provider, issuer, token):
    assert world.ask(key=token).status_code == 200
    for changes in ({"enabled": False}, {"enabled": True, "audience": f"{issuer.audience}-other"}):
        before = issuer.audience
        update_trusted_issuer(issuer, **changes)
        world.settle()
        refused(world.ask(key=token))
        update_trusted_issuer(issuer, audience=before)
    world.settle()
    assert world.ask(key=token).status_code == 200
    delete_trusted_issuer(issuer)
    world.settle()
    refused(world.ask(key=token))


def test_the_token_of_an_admin_opens_work_and_nothing_else(world, server, issuer):
    admin = new_admin()
    world.provider()
    world.allow(user=admin)
    update_trusted_issuer(issuer, subjects={SUBJECT: admin.username})
    world.settle()
    token = server.token(aud=issuer.audience)
    assert world.ask(key=token).status_code == 200
    for path in ("/users/", "/keys/", "/logs/", "/trusted-issuers/"):
        refused(world.get(path, key=token))
    other = f"/work?explain=true&asUser={world.user.pk}"
    assert world.ask(key=token, path=other).json()["exception"] == "PermissionDenied"
    world.allow(user=world.user, name=f"secret rule {world.number}")
    own = world.ask(key=token, path="/work?explain=true")
    assert own.json()["data"]["allowed"] is True
    assert f"User {admin.username} sends it with a token of {issuer.name}." in own.json()["data"]["sentences"]
    assert "secret rule" not in own.text


def test_a_rotation_at_the_issuer_is_followed(world, provider, server, issuer):
    former = server.token(aud=issuer.audience)
    assert world.ask(key=former).status_code == 200
    server.rotate(world.name("key"))
    current = server.token(aud=issuer.audience)
    # As if the last fetch had been a minute ago.
    minute_ago = timezone.now() - timedelta(seconds=60)
    TrustedIssuer.objects.filter(pk=issuer.pk).update(fetch_begun_at=minute_ago)
    response = world.ask(key=current)
    assert "send the request again" in refused(response)
    assert response.headers["Retry-After"] == "5"
    world.soon(lambda: world.ask(key=current), 200, seconds=10)
    refused(world.ask(key=former))


def test_a_flood_of_unknown_keys_reaches_the_issuer_at_most_once(world, provider, server, issuer, token):
    before = server.fetches
    for number in range(100):
        refused(world.ask(key=server.token(aud=issuer.audience, headers={"kid": f"unknown-{number}"})))
    assert world.ask(key=token).status_code == 200
    assert server.fetches - before <= 1
    assert provider.wait_for(1)
