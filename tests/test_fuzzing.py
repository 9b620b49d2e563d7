"""schemathesis asks a running gateway whatever its OpenAPI document allows, and what it does not allow.

No answer is a 5xx, and none has a status, media type, header or body that the document does not show.

The seed decides what is asked: 1, and with FUZZ_RUNS=20 each of 1 to 20 (`make fuzz`). Each test has a gateway of its
own, so that what a seed finds, it finds again.
"""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests

from accounts.models import User
from licensing.services import set_limit
from providers.models import PriceSource
from providers.services import set_price
from tests.support.management import JSON_API, Client, new_admin, token_of
from tests.support.promises import promise
from tests.support.running import RunningGateway, fresh_store
from tests.support.world import World

PROMISE = "F2: the API answers as its document says: {}"
TARGET = "0 answers with 5xx or outside of the schema"
JSON = "application/json"
CONFIGURATION = Path(__file__).parent / "schemathesis.toml"
LINE_LENGTH = 400  # of what is printed: bodies are as long as they like
SECONDS = 900  # on a machine that has much else to do; alone the longest takes three minutes
SEEDS = range(1, int(os.environ.get("FUZZ_RUNS", "1")) + 1)

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(960)]


def as_documented(requests_of: str) -> pytest.MarkDecorator:
    """A row of its own in the table for what one of these tests asks."""
    return promise(PROMISE.format(requests_of), target=TARGET, suite="attack")


class Fuzzed(NamedTuple):
    """A gateway of these tests' own, in which one of everything exists."""

    world: World
    admin: User  # the only one, whom nobody can delete, deactivate or strip
    document: dict[str, Any]

    def operations(self) -> int:
        return sum(map(len, self.document["paths"].values()))


@pytest.fixture(params=SEEDS)
def seed(request):
    return request.param


@pytest.fixture
def fuzzed(tmp_path_factory, django_db_blocker):
    with ExitStack() as resources:
        store = resources.enter_context(fresh_store(tmp_path_factory.mktemp("store")))
        resources.enter_context(django_db_blocker.unblock())
        resources.enter_context(store.used_by_orm())
        running = resources.enter_context(RunningGateway(store, tmp_path_factory.mktemp("fuzzed")))
        world = World(running, resources)
        world.provider("demo", world.model)
        world.allow(everyone="user")
        world.allow(group=world.new_group(world.user))
        set_limit(user=world.user, measure="requests", window="month", amount=Decimal(10**6))
        amounts = {"currency": "USD", "input": Decimal("2.5"), "output": Decimal(10)}
        set_price(host="api.example.org", model="large*", source=PriceSource.BUNDLED, **amounts)
        world.entry(world.ask())
        yield Fuzzed(world, new_admin(), requests.get(f"{running.url}/schema/", timeout=30).json())


def fuzz(fuzzed: Fuzzed, directory: Path, seed: int, media_type: str, *options: str, token: str = "") -> str:
    """What schemathesis says of a run with bodies and answers of one media type; fails if it found anything."""
    document = directory / "schema.json"
    document.write_text(json.dumps(with_bodies_as(media_type, fuzzed.document)))
    credential = ["-H", f"Authorization: Bearer {token}"] if token else []
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIGURATION), "run", str(document)),
        *("--url", fuzzed.world.gateway.url, "-H", f"Accept: {media_type}", *credential, "--no-color", *options),
        *("--seed", str(seed)),
    ]
    process = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=SECONDS)
    if process.returncode:
        lines = "\n".join(line[:LINE_LENGTH] for line in process.stdout.splitlines())
        pytest.fail(lines[-20_000:] + process.stderr[-2_000:], pytrace=False)
    return process.stdout


def with_bodies_as(media_type: str, document: dict[str, Any]) -> dict[str, Any]:
    """The document with requests in one media type, where there is a choice: each run tries another."""
    copied = json.loads(json.dumps(document))
    for methods in copied["paths"].values():
        for operation in methods.values():
            content = operation.get("requestBody", {}).get("content", {})
            if media_type in content:
                operation["requestBody"]["content"] = {media_type: content[media_type]}
    return copied


@pytest.fixture
def admin(fuzzed):
    """The token of an admin, who must still be there at the end: a run in which all is refused shows nothing."""
    yield (token := token_of(fuzzed.admin))
    client = Client(fuzzed.world.gateway.url, token)
    assert client.get("/users/?currentUser=true").status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS[:1], indirect=True)  # the edges are the same for each seed
@as_documented("every parameter at its edges, as an admin")
def test_an_admin_tries_the_edges_of_every_parameter(fuzzed, admin, tmp_path, seed):
    # What may be changed is what may be created; changes have their turn in the next test.
    rest_out = "^(authLogout|.*Update)$"
    options = ("--phases", "examples,coverage", "--exclude-operation-id-regex", rest_out)
    fuzz(fuzzed, tmp_path, seed, JSON_API, *options, token=admin)


@pytest.mark.slow
@as_documented("random requests about what was created, as an admin")
def test_an_admin_follows_what_was_created(fuzzed, admin, tmp_path, seed):
    options = ("--phases", "fuzzing,stateful", "--exclude-operation-id", "authLogout")
    text = fuzz(fuzzed, tmp_path, seed, JSON, *options, token=admin)
    assert f"Tested: {fuzzed.operations() - 1}" in text


@pytest.mark.slow
@as_documented("random requests without a credential")
def test_nobody_finds_out_anything(fuzzed, tmp_path, seed):
    text = fuzz(fuzzed, tmp_path, seed, JSON, "--phases", "fuzzing", "-n", "2")
    assert f"Tested: {fuzzed.operations()}" in text


@as_documented("logging out")
def test_logging_out(fuzzed, tmp_path, seed):
    token = token_of(fuzzed.admin)
    options = ("--phases", "coverage,fuzzing", "-n", "10", "--include-operation-id", "authLogout")
    fuzz(fuzzed, tmp_path, seed, JSON_API, *options, token=token)
