"""Requests for an alias are decided from memory: no SQL is executed on their way, whatever the alias does."""

import io
import json
import math
import time
from uuid import uuid4

import pytest
from django.db import connection

from gateway_project.work import pipeline
from gateway_project.work.doors import WORK
from gateway_project.work.exchange import Exchange
from gateway_project.work.routing.aliases import MirrorRow
from gateway_project.work.routing.strategies import Strategy
from gateway_project.work.runtime import make_gateway
from gateway_project.work.snapshot.records import Caller, KeySnapshot
from gateway_project.work.streaming.stream import ClientConnection
from keys.secrets import generate_key
from licensing.terms import Terms
from providers.transport.calls import Call
from providers.transport.transport import TransportLimits
from rules.matching import RuleSnapshot
from tests.gateway_project.work.routing.test_aliases import row, to
from tests.support.provider import ScriptedProvider
from tests.support.provider_answers import Answer
from tests.support.snapshot_records import provider

pytestmark = pytest.mark.either_store


@pytest.fixture
def upstreams():
    with ScriptedProvider() as first, ScriptedProvider() as second, ScriptedProvider() as mirror:
        yield first, second, mirror


@pytest.fixture
def gateway(settings, tmp_path, upstreams):
    """A gateway whose memory has a key, a rule, three providers and no database behind it."""
    settings.GATEWAY_JOURNAL_DIR = tmp_path
    settings.GATEWAY_REDIS_PREFIX = f"no-sql-{uuid4().hex}"
    settings.GATEWAY_PROVIDER_NETWORKS = ("127.0.0.0/8",)
    parts = make_gateway()
    parts.snapshot.terms = Terms("standard", 13, 600)
    parts.snapshot.callers = {1: Caller(1, "ann", True, frozenset({"work"}), ())}
    options = {"transport_limits": TransportLimits(5, 30, 30, 10**6), "total_seconds": 30}
    parts.snapshot.put_providers(
        [provider(number, "a", url=one.url, **options) for number, one in enumerate(upstreams, 1)]
    )
    parts.snapshot.put_rules([RuleSnapshot(1, "all", None, None, None, True, None)])
    parts.watcher.start()
    yield parts
    parts.mirrors.stop()
    parts.watcher.stop()
    parts.journal.close()


def ask(gateway, credential, prompt):
    """The exchange of a request, once its answer has been delivered."""
    body = json.dumps({"model": "x", "messages": [{"role": "user", "content": prompt}]}).encode()
    environ = {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body)), "REQUEST_METHOD": "POST"}
    environ |= {"CONTENT_TYPE": "application/json", "HTTP_AUTHORIZATION": f"Bearer {credential}"}
    call = Call(client=None, total_seconds=30)
    exchange = Exchange(ClientConnection(environ, None, "127.0.0.1"), uuid4().hex, WORK, call=call)
    delivery = pipeline.serve_request(exchange, gateway)
    assert delivery.status == 200, exchange.error
    list(delivery.body)
    delivery.body.close()
    return exchange


@pytest.mark.parametrize("strategy", Strategy)
def test_no_request_for_an_alias_executes_sql(gateway, upstreams, strategy, django_db_blocker):
    first, _, mirror = upstreams
    new = generate_key()
    key = KeySnapshot(1, "k", new.digest, 1, None, math.inf, False, frozenset({"work"}))
    gateway.snapshot.put_key(new.public_id, key)
    options = {"strategy": strategy.value, "hedge": True, "mirror": MirrorRow(3, "a", 1.0)}
    gateway.snapshot.put_aliases([row(5, "x", to(1, "a"), to(2, "a", tier=1), **options)])
    with django_db_blocker.block():  # in all threads, also in those that ask a second target
        with pytest.raises(RuntimeError, match="access"):
            connection.ensure_connection()
        for number in range(30):
            assert ask(gateway, new.text, f"{number}").attempts.count == 1
        first.answers(status=500)
        assert ask(gateway, new.text, "falls over").attempts.count == 2
        assert [ask(gateway, new.text, "the same").cache.status for _ in range(2)] == ["MISS", "HIT"]
        first.default = Answer(delay=0.5)
        assert ask(gateway, new.text, "hedged").attempts.count == 2
        deadline = time.monotonic() + 10
        while len(mirror.seen) < 33 and time.monotonic() < deadline:
            time.sleep(0.05)
    assert len(mirror.seen) == 33
