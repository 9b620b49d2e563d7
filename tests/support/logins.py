"""How tests log in: each helper sends one request and keeps what comes back."""

from http.cookies import SimpleCookie

from tests.support.management import PASSWORD, Client, body

# What a browser says of a request that a page of ours sends.
OWN = {"Sec-Fetch-Site": "same-origin"}


def by_password(client: Client, username="ann", password=PASSWORD, **options):
    request = body(grantType="password", userName=username, password=password)
    return client.send("POST", "/auth/login", json=request, **options)


def cookies_of(response) -> dict:
    """The cookies that an answer sets, by name; the client itself sends no Secure cookie over http."""
    jar = SimpleCookie()
    for line in response.raw.headers.getlist("Set-Cookie"):
        jar.load(line)
    return jar


def logged_in(client: Client, **options) -> dict[str, str]:
    """The two tokens of a login, by the names of their cookies."""
    response = by_password(client, **options)
    assert response.status_code == 200, response.text
    return {name: morsel.value for name, morsel in cookies_of(response).items()}


def by_refresh(client: Client, token: str, **options):
    request = body(grantType="Bearer", tokenType="refreshToken", refreshToken=token)
    return client.send("POST", "/auth/login", json=request, **options)


def with_cookies(client: Client, method: str, path: str, cookies: dict, headers: dict | None = None, **options):
    values = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
    return client.send(method, path, headers=values | (headers or {}), **options)


def works(client: Client, token: str) -> bool:
    status = client.with_credential(token).get("/features/").status_code
    assert status in (200, 401)
    return status == 200
