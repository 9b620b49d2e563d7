"""Secrets with unique values, and their use and misuse by all the ways into the gateway."""

import base64
import json
import time
from collections.abc import Callable
from urllib.parse import quote

import requests

from accounts.sso.models import IdentityProvider
from keys.services import rotate_key
from providers.services import add_credential
from rules.guardrails.services import create_guardrail
from tests.support.licences import Vendor
from tests.support.logins import by_password, by_refresh, cookies_of
from tests.support.management import Client, new_admin
from tests.support.pace import patience
from tests.support.running import free_port
from tests.support.second_factor import new_app
from tests.support.world import World

# Each is long enough to be nowhere by chance.
SECRETS = {
    "credential": "sk-canary-bearer-9fK2mQ7xW4vT",
    "basic credential": "canary-user:canary-basic-5hR8nB3zL6pY",
    "query credential": "canary-query-7jD1sG9wE2cU",
    "further credential": "sk-canary-further-3gB7nT2kX9qL",
    "unused credential": "canary-refused-4tV6yH8kM1qA",
    "password": "canary pass phrase 3bN5xZ7rJ9",
    "new password": "canary pass phrase 8wC2vF4gK6",
    "wrong password": "canary guess 1pL3mS5tD7",
    "metrics token": "canary-metrics-6yU8iO0aQ2eW4rT",
    "SCIM token": "canary-scim-4wE6rT8yU0iO2pA5sD7fG9hJ1kL3z",
    "signing secret": "canary-secret-key-2zX4cV6bN8mL0kJ1hG3fD5sA7qW9eR",
    "redis password": "canary-redis-0oI9uY7tR5eW3qA1",
    "database password": "canary-postgres-8iK6jH4gF2dS",
    "prompt": "canary prompt 5qW7eR9tY1uI3",
    "former signing secret": "canary-former-secret-key-9wQ7eR5tY3uI1oP0aS8dF6gH4jK2",
    "token key": "canary-token-key-1aZ3sX5dC7fV9gB2hN4jM6kL8pO0iU",
    "former token key": "canary-former-token-key-0pL9oK8iJ7uH6yG5tF4rD3eS2wA1",
    "encryption key": "canary-encryption-key-3eD5rF7tG9yH1uJ2iK4oL6pZ8xC0",
    "former encryption key": "canary-former-encryption-key-7vB9nM1qW3eR5tY2uI4oP6aS8",
    "client secret of the settings": "canary-oidc-settings-6hJ8kL0zX2cV4bN",
    "client secret of a provider": "canary-oidc-provider-5tG7yH9uJ1iK3oL",
    "secret of a guardrail": "canary-guardrail-2wS4xD6cF8vG0bH",
}


class Artefacts:
    """All that was written or answered, by where it was found."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, bytes]] = []

    def add(self, place: str, content: bytes | str) -> None:
        self.parts.append((place, content if isinstance(content, bytes) else content.encode()))

    def labels(self, start: str) -> set[str]:
        """The places that begin with this text."""
        return {place for place, _ in self.parts if place.startswith(start)}

    def places_of(self, secret: str) -> set[str]:
        forms = spellings(secret)
        return {place for place, content in self.parts if any(form in content for form in forms)}


def spellings(secret: str) -> set[bytes]:
    """The secret as it is, and as base64, URLs, hexadecimal digits and JSON write it."""
    raw = secret.encode()
    shifted = {base64.b64encode(b"x" * pad + raw)[4 if pad else 0 : -4] for pad in range(3)}
    return {raw, quote(secret).encode(), quote(secret, safe="").encode(), raw.hex().encode(), raw[::-1],
            secret.replace(" ", "+").encode(), json.dumps(secret)[1:-1].encode(), *shifted}  # fmt: skip


def answers_into(artefacts: Artefacts) -> Callable[[requests.Response], requests.Response]:
    def record(response: requests.Response) -> requests.Response:
        place = f"answer {response.status_code}, {len(artefacts.parts)}"
        artefacts.add(place, f"{response.headers}\n{response.text}")
        return response

    return record


def use_providers(world: World, record: Callable) -> None:
    """Credentials of every kind, sent, refused, echoed, and to where nobody listens."""
    world.allow()
    methods = {"credential": "bearer", "basic credential": "basic", "query credential": "query"}
    for kind, method in methods.items():
        secret = SECRETS[kind]
        provider = world.provider(model := world.name("model"), auth_method=method, credential=secret)
        echo = {"error": {"message": f"Incorrect API key: {secret}", "param": {secret: secret}}}
        for status in (200, 400, 401, 403, 404, 429, 500):
            provider.answers(status=status, body=echo, headers={"X-Echo": secret, "Set-Cookie": f"key={secret}"})
        provider.answers(text=f"It is {secret}!").answers(body=secret.encode()).answers(cut_after=9)
        for path in ("/work", "/v1/chat/completions", "/v1/messages"):
            for stream in (False, True):
                body = {"model": model, "max_tokens": 9, "stream": stream,
                        "messages": [{"role": "user", "content": f"{SECRETS['prompt']} {kind}"}]}  # fmt: skip
                for _ in range(3):
                    record(world.post(body, path=path, headers={"X-Svc-Cache": "bypass"}))
        nowhere = f"http://127.0.0.1:{free_port()}/v1"
        world.provider(gone := world.name("model"), auth_method=method, credential=secret, url=nowhere)
        record(world.post({"model": gone, "messages": []}))
    use_further_credential(world, record)
    admin = Client(world.gateway.url).as_user(new_admin())
    wrong = SECRETS["unused credential"]
    record(admin.post("/providers/", name="x", url="ftp://x", apiKey=wrong, formatId=1))
    record(admin.post("/providers/", name="x", url="https://api.example.org", apiKey=f"{wrong}\n", formatId=1))
    record(admin.post("/providers/", name="x", url=f"https://{wrong}@api.example.org", apiKey=wrong, formatId=1))
    record(admin.post("/providers/", name="x", url="https://api.example.org", apiKey=[wrong], formatId=1))
    record(admin.post("/providers/", name="x", url="https://api.example.org", apiKey=wrong, formatId=1, more=1))
    assert record(admin.get("/providers/")).status_code == 200


def use_further_credential(world: World, record: Callable) -> None:
    """A further credential of a provider that repeats it, whichever it was asked with."""
    secret = SECRETS["further credential"]
    provider = world.provider(model := world.name("model"), credential=SECRETS["credential"])
    add_credential(provider=world.row(provider), name="further", credential=secret)
    time.sleep(patience(1))  # until every process knows it: one that does not yet, cannot tell it from other text
    for status in (200, 400, 401, 404, 500) * 2:
        provider.answers(status=status, body={"error": {"message": f"Incorrect API key: {secret}"}})
        record(world.ask(world.name("prompt"), body={"model": model}, headers={"X-Svc-Cache": "bypass"}))
    provider.answers(text=f"It is {secret}!")
    record(world.ask(world.name("prompt"), body={"model": model}))


def use_logins(world: World, record: Callable) -> dict[str, str]:
    """Passwords, tokens and cookies: good ones, wrong ones, used twice, and in the wrong place."""
    user = new_admin(password=SECRETS["password"])
    client = Client(world.gateway.url)
    cookies = {name: cookie.value for name, cookie in cookies_of(
        by_password(client, username=user.username, password=SECRETS["password"])).items()}  # fmt: skip
    for username, password in ((user.username, "wrong password"), ("nobody", "password"), ("nobody", "new password")):
        record(by_password(client, username=username, password=SECRETS[password]))
    record(client.post("/auth/login", grantType="password", userName=SECRETS["wrong password"]))
    record(client.post("/auth/login", grantType="password", password={"a": SECRETS["wrong password"]}))
    record(
        client.post("/auth/login", grantType="Bearer", tokenType="refreshToken", accessToken=cookies["SvcAuthCookie"])
    )
    record(client.send("POST", "/auth/login", data=json.dumps({"password": SECRETS["wrong password"]}).encode()[:-1]))
    own = client.with_credential(cookies["SvcUserCookie"])
    record(own.patch("/users/", newPassword="short", currentPassword=SECRETS["password"]))
    record(own.patch("/users/", newPassword=SECRETS["new password"], currentPassword=SECRETS["wrong password"]))
    assert own.patch("/users/", newPassword=SECRETS["new password"], currentPassword=SECRETS["password"]).ok
    refreshed = by_refresh(client, cookies["SvcAuthCookie"]).json()
    record(by_refresh(client, cookies["SvcAuthCookie"]))  # a second time: it ends the session
    for token in (*cookies.values(), refreshed["accessToken"]):
        record(client.with_credential(token).get("/users/"))
        record(client.with_credential(f"{token}x").get("/users/"))
        record(client.get("/users/", headers={"Cookie": f"SvcUserCookie={token}; SvcAuthCookie={token}"}))
        record(world.ask(key=token))
        record(world.ask(key=f"{token}x"))
    record(
        client.post("/auth/logout", grantType="Bearer", tokenType="accessToken", accessToken=refreshed["accessToken"])
    )
    return {
        "access token": cookies["SvcUserCookie"],
        "refresh token": cookies["SvcAuthCookie"],
        "second access token": refreshed["accessToken"],
        "second refresh token": refreshed["refreshToken"],
    }


def use_keys(world: World, record: Callable) -> dict[str, str]:
    """Keys: good, rotated, cut off, and in the wrong place."""
    issued = world.new_key()
    rotated = rotate_key(issued.key)
    client = Client(world.gateway.url)
    for key in (issued.text, rotated.text):
        for sent in (key, key[:-1], f"{key}x", key.upper(), f"{key[:-6]}AAAAAA"):
            record(world.ask(key=sent, body={"model": "none"}))
            record(client.with_credential(sent).get("/users/"))
        record(world.ask(key=key, headers={"X-Api-Key": key[::-1], "Api-Key": key}))
        record(client.get(f"/keys/?key={key}"))
        record(client.get(f"/nothing/{key}/"))
        record(client.get("/users/", headers={"Authorization": f"Basic {key}", "X-Api-Key": key, "Referer": key}))
        record(client.get("/users/", headers={"User-Agent": key, "Cookie": f"SvcUserCookie={key}"}))
        record(world.post({"model": world.model, "messages": [], "api_key": key}))
        record(world.post({"model": world.model, "messages": [], "api_key": key}, path=f"/work?api_key={key}"))
        record(world.ask(f"my key is {key}"))
    # What identifies a key is shown in lists; the part behind it is the secret.
    return {f"key {number}": text[12:] for number, text in enumerate((issued.text, rotated.text, world.key))}


def use_licence(world: World, vendor: Vendor, record: Callable) -> str:
    admin = Client(world.gateway.url).as_user(new_admin())
    licence = vendor.licence()
    for text in (licence[:-1], f"{licence}x", licence.replace(".", ""), licence):
        record(admin.post("/licence/", licenceKey=text))
    record(admin.get("/licence/"))
    return licence


def use_metrics(world: World, record: Callable) -> None:
    token, url = SECRETS["metrics token"], f"{world.gateway.url}/metrics"
    for credential in (token, f"{token}x", token[:-1]):
        record(requests.get(url, headers={"Authorization": f"Bearer {credential}"}, timeout=30))
    record(requests.get(f"{url}?token={token}", headers={"Host": "elsewhere"}, timeout=30))


def use_scim(world: World, record: Callable) -> None:
    token, url = SECRETS["SCIM token"], f"{world.gateway.url}/scim/v2/Users"
    for credential in (token, f"{token}x", token[:-1]):
        headers = {"Authorization": f"Bearer {credential}"}
        record(requests.get(url, headers=headers, timeout=30))
        record(requests.post(url, headers=headers, json={"schemas": [], "userName": "Ann"}, timeout=30))


def use_second_factor(world: World, record: Callable) -> dict[str, str]:
    """An app and recovery codes: right, wrong, used twice, in the wrong place; what belongs to the user is no find."""
    user = new_admin(password=SECRETS["password"])
    app = new_app(user)
    url, session = f"{world.gateway.url}/me", requests.Session()
    session.get(f"{url}/login/", timeout=30)

    def send(path: str, **fields: str) -> requests.Response:
        form = {"csrfmiddlewaretoken": session.cookies["csrftoken"]} | fields
        return record(session.post(f"{url}/{path}", data=form, timeout=30))

    send("login/", username=user.username, password=SECRETS["password"])
    for code in (app.secret, app.recovery_codes[0][:-1], f"{app.recovery_codes[0]}x", "000000", app.recovery_codes[0]):
        send("login/code/", code=code)
    for path in ("", "account/", "second-factor/", "second-factor/codes/"):
        record(session.get(f"{url}/{path}", timeout=30))
    client = Client(world.gateway.url)
    record(by_password(client, username=user.username, password=app.recovery_codes[1]))
    record(client.get(f"/users/?code={app.recovery_codes[1]}"))
    record(world.ask(key=app.secret))
    record(world.ask(key=app.recovery_codes[1]))
    code, other = app.recovery_codes[:2]
    return {"secret of an app": app.secret, "recovery code": code, "unused recovery code": other}


def use_single_sign_on(world: World, record: Callable) -> None:
    """Client secrets of identity providers and of a guardrail's service, to where nobody listens."""
    admin = Client(world.gateway.url).as_user(new_admin())
    issuer = f"http://127.0.0.1:{free_port()}"
    secret = SECRETS["client secret of a provider"]
    values = {"name": "Canary", "slug": "canary", "issuer": issuer, "clientId": "gateway", "clientSecret": secret}
    assert record(admin.post("/identity-providers/", **values)).status_code == 201
    record(admin.post("/identity-providers/", **values))
    record(admin.post("/identity-providers/", **(values | {"name": "x", "slug": "x", "clientSecret": [secret]})))
    record(admin.post("/identity-providers/", **(values | {"name": "y", "slug": "y", "issuer": secret})))
    record(admin.get("/identity-providers/"))
    for provider in IdentityProvider.objects.all():
        record(admin.post(f"/identity-providers/{provider.pk}/fetch-keys/"))
    for path in ("/me/login/", "/auth/sso/canary/", "/auth/sso/canary/callback/?code=x&state=x", "/auth/sso/default/"):
        record(requests.get(f"{world.gateway.url}{path}", timeout=30, allow_redirects=False))
    address = f"http://127.0.0.1:{free_port()}/check"
    parameters = {"url": address, "secret": SECRETS["secret of a guardrail"]}
    create_guardrail(name="canary", type="http", parameters=parameters)
    world.settle()
    record(world.ask("for the guardrail's service"))
    record(admin.get("/guardrails/"))
