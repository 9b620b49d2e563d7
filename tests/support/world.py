"""What one end-to-end test arranges in a running gateway: users, keys, rules, providers; all with names of its own."""

import itertools
import json
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from http.client import HTTPResponse
from typing import Any, ClassVar

import requests
from django.utils import timezone

from accounts.models import Group, User
from accounts.services import create_user
from keys.secrets import generate_key
from keys.services import IssuedKey, issue_key
from licensing.models import Limit
from providers.models import ModelPrice, Provider
from providers.services import create_provider, set_price
from rules.aliases.drafts import TargetDraft
from rules.aliases.models import Alias
from rules.aliases.services import create_alias
from rules.models import Rule
from rules.services import create_rule, delete_rule
from telemetry.models import LogEntry
from tests.support.pace import patience
from tests.support.provider import ScriptedProvider
from tests.support.running import RunningGateway

_numbers = itertools.count(1)
# Limits that are there to be counted; every process knows of a limit that was set so long ago.
AMPLE, LONG_AGO = 10**9, datetime(2020, 1, 1, tzinfo=UTC)
# Doors and /work: each response of theirs has its log entry.
WORK_PATHS = ("/work", "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages")


def withdraw_rules_for_everyone() -> None:
    """They would hold for the users of the tests that follow."""
    for rule in Rule.objects.exclude(everyone=""):
        delete_rule(rule)


class World:
    """Arranges rows with the product's own services and sends work; everything is new for each test.

    The first request with a new key makes the gateway look at the database, so that what was arranged
    before it is known to it.
    """

    alive: ClassVar[list["World"]] = []  # those of the test that runs
    counted: ClassVar[dict[str, str]] = {}  # limits of every user: measure and window; set by tests/fault/conftest.py

    def __init__(self, gateway: RunningGateway, resources: ExitStack) -> None:
        self.gateway = gateway
        self._resources = resources
        World.alive.append(self)
        resources.callback(World.alive.remove, self)
        self.answers: list[tuple[str, int]] = []  # request id and status of each response to work
        self.unanswered = 0  # requests without a whole response
        self.scripted: list[ScriptedProvider] = []
        self.users: list[User] = []
        self.limits_since: datetime | None = LONG_AGO  # since when; None for the moment at which they are set
        resources.callback(withdraw_rules_for_everyone)
        resources.callback(self.disable_providers)
        self.number = next(_numbers)
        self.session = resources.enter_context(requests.Session())
        self.model = f"model-{self.number}"
        self._user: User | None = None
        self._key: IssuedKey | None = None
        self._providers: dict[str, Provider] = {}
        self._settled = True

    def disable_providers(self) -> None:
        """Otherwise gateways would have the providers of all former tests in memory."""
        Provider.objects.filter(pk__in=[row.pk for row in self._providers.values()], enabled=True).update(enabled=False)

    def name(self, kind: str) -> str:
        return f"{kind}-{self.number}-{next(_numbers)}"

    @property
    def user(self) -> User:
        """The user that keys belong to unless told."""
        if self._user is None:
            self._user = self.new_user()
        return self._user

    @property
    def key(self) -> str:
        """The text of the key that requests are sent with unless told."""
        return self.issued.text

    @property
    def issued(self) -> IssuedKey:
        """The same key with its row."""
        if self._key is None:
            self._key = self.new_key()
        return self._key

    def new_user(self, **options: Any) -> User:
        user = create_user(username=self.name("user"), password="a long pass phrase", **options)
        since = {"bounds_since": self.limits_since} if self.limits_since else {}
        for measure, window in self.counted.items():
            Limit.objects.create(user=user, measure=measure, window=window, amount=AMPLE, **since)
        self.users.append(user)
        return user

    def new_key(self, **options: Any) -> IssuedKey:
        owner = options.pop("owner", None) or self.user
        return issue_key(owner=owner, name=self.name("key"), **options)

    def new_group(self, *members: User) -> Group:
        group = Group.objects.create(name=self.name("group"))
        group.members.set(members)
        return group

    def allow(self, **options: Any) -> Rule:
        """A rule; for the world's own user and every model unless told."""
        if not options.keys() & {"user", "group", "everyone"}:
            options["user"] = self.user
        everyone = {f"{options.pop('everyone')}_id": 0} if "everyone" in options else {}
        rows = {name: options.pop(name) for name in ("user", "group", "provider") if name in options}
        by_id = {f"{name}_id": row and row.pk for name, row in rows.items()}
        self._settled = False
        return create_rule(name=options.pop("name", self.name("rule")), **everyone, **by_id, **options)

    def provider(self, *models: str, **options: Any) -> ScriptedProvider:
        """A scripted provider, started and registered for these models (the world's one unless told)."""
        scripted = self._resources.enter_context(options.pop("scripted", None) or ScriptedProvider())
        options = {
            "url": scripted.url,
            "format_name": "openai",
            "auth_method": "bearer",
            "credential": "sk-secret-of-the-provider",
        } | options
        self._settled = False
        row = create_provider(name=options.pop("name", self.name("provider")), models=models or [self.model], **options)
        self._providers[scripted.url] = row
        self.scripted.append(scripted)
        return scripted

    def alias(self, *targets: ScriptedProvider | TargetDraft, **options: Any) -> Alias:
        """An alias; a target is a provider of the world's model, or what `target()` makes."""
        drafts = [one if isinstance(one, TargetDraft) else self.target(one) for one in targets]
        self._settled = False
        return create_alias(name=options.pop("name", self.name("alias")), targets=drafts, **options)

    def target(self, provider: ScriptedProvider, model: str = "", **options: Any) -> TargetDraft:
        """A target of an alias: a model of a provider, the world's one unless told."""
        return TargetDraft(self.row(provider).pk, model or self.model, **options)

    def price(self, amount: Any = 1, output: Any = 2, **options: Any) -> ModelPrice:
        """A price of the world's model, wherever it is served, unless told; for a million tokens, in dollars."""
        values = {"model": self.model, "currency": "USD", "input": Decimal(amount), "output": Decimal(output)}
        self._settled = False
        return set_price(**values | options)

    def row(self, provider: ScriptedProvider) -> Provider:
        """The database row of a scripted provider."""
        return self._providers[provider.url]

    def post(
        self, body: Any = None, *, key: str | None = None, headers: dict[str, str] | None = None, **options: Any
    ) -> requests.Response:
        """POST /work, or a door's `path`, with a JSON body (bytes go as they are)."""
        values = {"Authorization": f"Bearer {self.key if key is None else key}", **(headers or {})}
        if not self._settled:
            self.settle()
        if isinstance(body, bytes):
            values.setdefault("Content-Type", "application/json")
            options["data"] = body
        else:
            options["json"] = body
        path, timeout = options.pop("path", "/work"), options.pop("timeout", patience(10))
        try:
            response = self.session.post(f"{self.gateway.url}{path}", headers=values, timeout=timeout, **options)
        except requests.RequestException:
            self.unanswered += 1
            raise
        if path in WORK_PATHS:
            self.answers.append((response.headers["X-Svc-Request-ID"], response.status_code))
        return response

    def ask(self, prompt: str = "Hello!", **options: Any) -> requests.Response:
        """A chat request with one message; `model`, `stream` and other body fields go into `body`."""
        body = {"model": self.model, "messages": [{"role": "user", "content": prompt}]} | options.pop("body", {})
        return self.post(body, **options)

    def stream(self, prompt: str = "Hello!", **options: Any) -> requests.Response:
        """The same as a stream; iterate over the response."""
        options["body"] = {"stream": True} | options.get("body", {})
        return self.ask(prompt, stream=True, **options)

    def get(self, path: str, *, key: str | None = None, headers: dict[str, str] | None = None) -> requests.Response:
        """GET with the world's key unless told."""
        if not self._settled:
            self.settle()
        values = {"Authorization": f"Bearer {self.key if key is None else key}", **(headers or {})}
        return self.session.get(f"{self.gateway.url}{path}", headers=values, timeout=patience(10))

    def connect(self, head: str, body: bytes = b"", *, key: str | None = None) -> socket.socket:
        """A connection of its own on which this was sent: header lines joined with CRLF, and the body as it is.

        The request is POST /work with the world's key unless told; who opens it reads it, or leaves.
        """
        sock = self._resources.enter_context(socket.create_connection(("127.0.0.1", self.gateway.port), timeout=10))
        first = f"POST /work HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {self.key if key is None else key}\r\n"
        sock.sendall(f"{first}{head}\r\n\r\n".encode("latin-1") + body)
        return sock

    def send(self, body: dict[str, Any], head: str = "X-Svc-Tags: sent=raw", **options: Any) -> socket.socket:
        """A connection on which a whole chat request was sent, for clients that leave; `body` adds to it."""
        document = {"model": self.model, "messages": [{"role": "user", "content": "Hello!"}]} | body
        if not self._settled:
            self.settle()
        raw = json.dumps(document).encode()
        lines = f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n{head}"
        return self.connect(lines, raw, **options)

    def raw(self, sent: bytes) -> HTTPResponse:
        """The response to exactly these bytes."""
        with socket.create_connection(("127.0.0.1", self.gateway.port), timeout=10) as sock:
            sock.sendall(sent)
            return response_on(sock)

    def soon(self, ask: Callable[[], requests.Response], status: int, seconds: float = 1.0) -> requests.Response:
        """Ask again and again until this status comes, which has to happen in so many seconds."""
        deadline = time.monotonic() + patience(seconds)
        while True:
            begun = time.monotonic()
            response = ask()
            if response.status_code == status:
                return response
            assert begun < deadline, f"still {response.status_code} after {seconds} s: {response.text[:300]}"
            time.sleep(0.05)

    def until(self, holds: Callable[[], bool], seconds: float = 5) -> None:
        """Wait until something holds, which has to happen in so many seconds."""
        deadline = time.monotonic() + patience(seconds)
        while not holds():
            assert time.monotonic() < deadline, f"it does not hold after {seconds} s"
            time.sleep(0.05)

    def settle(self) -> None:
        """Make the gateway look at the database: an unknown key makes it, and answers when it has looked."""
        self._settled = True
        unknown = {"Authorization": f"Bearer {generate_key().text}", "Connection": "close"}
        assert requests.post(f"{self.gateway.url}/work", headers=unknown, timeout=patience(10)).status_code in (
            401,
            503,
        )

    def entry(self, response: requests.Response | str, kind: str = "WorkRequest", seconds: float = 8) -> LogEntry:
        """The log entry of a response (or of a request id), once it has been shipped."""
        request_id = response if isinstance(response, str) else response.headers["X-Svc-Request-ID"]
        deadline = time.monotonic() + patience(seconds)
        while time.monotonic() < deadline:
            entries = list(LogEntry.objects.filter(correlation_id=request_id, entry_type=kind))
            if entries:
                assert len(entries) == 1, f"{len(entries)} entries for one request"
                return entries[0]
            time.sleep(0.02)
        raise AssertionError(f"no {kind} entry for {request_id} within {seconds} s:\n{self.gateway.log()[-2000:]}")

    def entries(self, **filters: Any) -> int:
        """How many WorkRequest entries there are with these fields."""
        return LogEntry.objects.filter(entry_type="WorkRequest", **filters).count()

    def expired(self) -> Any:
        """A moment in the past, for expiries."""
        return timezone.now() - timedelta(minutes=1)


def ready(world: World) -> bool:
    """Whether the gateway says that its stores answer."""
    return requests.get(f"{world.gateway.url}/readyz", timeout=10).status_code == 200


def keys_of_users(world: World, count: int) -> list[str]:
    """The keys of so many users, one each."""
    return [world.new_key(owner=world.new_user()).text for _ in range(count)]


def limited_key(world: World, amount: int) -> str:
    """A key with so many requests a minute."""
    issued = world.new_key()
    Limit.objects.create(key=issued.key, measure="requests", window="minute", amount=amount)
    return issued.text


def sends(world: World, provider: ScriptedProvider) -> str:
    """The credential that a request made now arrives with."""
    prompt = world.name("prompt")
    assert world.ask(prompt).status_code == 200
    (observations,) = [
        observations for observations in list(provider.seen) if observations.json["messages"][-1]["content"] == prompt
    ]
    return observations.headers["authorization"]


def response_on(sock: socket.socket) -> HTTPResponse:
    """The whole response that arrives on a connection."""
    response = HTTPResponse(sock, method="POST")
    response.begin()
    response.text = response.read().decode()
    return response
