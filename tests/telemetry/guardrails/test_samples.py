"""Samples of what guardrails match: kept only where that is switched on, encrypted, audited, deleted in time."""

import json
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.conf import settings
from django.utils import timezone

from gateway_project.work.guardrails.book import Audience, GuardrailSnapshot, Side
from gateway_project.work.guardrails.detectors import Match, compile_detector
from gateway_project.work.guardrails.sampling import AROUND, MAX_MATCH, MAX_SAMPLES, add_samples
from gateway_project.work.guardrails.searching import Search
from gateway_project.work.guardrails.texts import Kind
from keys.services import update_key
from providers.credentials import encrypt
from rules.guardrails.services import create_guardrail, delete_guardrail, update_guardrail
from telemetry.audit.models import AuditEntry
from telemetry.guardrails.models import origin_of_samples
from telemetry.models import GuardrailSample, LogEntry
from telemetry.retention import deletion
from tests.support.management import new_user, token_of

ADDRESS = "bob@example.com"


@pytest.fixture
def guardrail(world):
    row = create_guardrail(name=world.name("guardrail"), type="pii", action="redact", samples=True, sample_days=3,
                           parameters={"kinds": ["email"]}, applies_to={"users": [world.user.pk]})  # fmt: skip
    world.allow()
    yield row
    delete_guardrail(row)


def ask(world, **members):
    body = {"model": world.model, "messages": [{"role": "user", "content": f"Write to {ADDRESS}."}], **members}
    return world.post(body)


def samples_of(guardrail, count):
    """The samples once there are so many."""
    deadline = time.monotonic() + 10
    while len(rows := list(GuardrailSample.objects.filter(guardrail_id=guardrail.pk))) < count:
        assert time.monotonic() < deadline, rows
        time.sleep(0.05)
    return rows


@pytest.mark.either_store
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_what_matches_is_kept_encrypted(world, guardrail, stream):
    world.provider().default.text = f"I have written to {ADDRESS} today."
    world._settled = False
    response = ask(world, stream=stream)
    entry = world.entry(response)
    assert ADDRESS not in entry.payload
    samples = {sample.direction: sample for sample in samples_of(guardrail, 2)}
    assert {sample.correlation_id for sample in samples.values()} == {entry.correlation_id}
    assert samples["request"].parts == ["Write to ", ADDRESS, "."]
    assert samples["response"].parts[1] == ADDRESS
    assert all(ADDRESS not in sample.sealed and sample.category == "email" for sample in samples.values())
    lifetime = samples["request"].expires_at - samples["request"].timestamp
    assert lifetime == timedelta(days=3)


@pytest.mark.either_store
def test_only_where_content_is_kept_and_while_it_is_switched_on(world, guardrail):
    world.provider().default.text = "Yes."
    update_key(world.issued.key, content_logging="redacted")
    world._settled = False
    world.entry(ask(world))
    update_key(world.issued.key, content_logging="default")
    update_guardrail(guardrail, samples=False)
    world._settled = False
    world.entry(ask(world))
    update_guardrail(guardrail, samples=True)
    world._settled = False
    entry = world.entry(ask(world, temperature=0.5))
    assert [sample.correlation_id for sample in samples_of(guardrail, 1)] == [entry.correlation_id]


@pytest.mark.django_db
def test_reading_needs_both_features_and_is_audited(client):
    row = create_guardrail(name="Addresses", type="pii", samples=True)
    path = f"/guardrails/{row.pk}/samples/"

    def get(*features):
        return client.get(path, headers={"Authorization": f"Bearer {token_of(new_user(*features))}"})

    assert get("logs.view_all").status_code == get("guardrails.modify").status_code == 403
    before = AuditEntry.objects.count()
    values = {"guardrail_id": row.pk, "category": "email", "direction": "request", "sealed": "v1.x.y"}
    later = timezone.now() + timedelta(days=1)
    sample = GuardrailSample.objects.create(**values, expires_at=later)
    GuardrailSample.objects.create(**values, expires_at=timezone.now())  # not deleted yet
    GuardrailSample.objects.create(guardrail_id=row.pk + 1)
    response = get("logs.view_all", "guardrails.modify")
    assert response.status_code == 200, response.content
    (document,) = response.json()["data"]
    assert (document["id"], document["attributes"]["text"]) == (str(sample.pk), None)
    assert AuditEntry.objects.filter(resource="samples", resource_id=row.pk).exists()
    assert AuditEntry.objects.count() > before


@pytest.mark.django_db
def test_old_samples_are_deleted(settings):
    now = timezone.now()
    settings.GATEWAY_PAYLOAD_DAYS = 2
    for age, days in ((0, 1), (0, -1), (3, 9)):
        GuardrailSample.objects.create(timestamp=now - timedelta(days=age), expires_at=now + timedelta(days=days))
    assert not deletion.delete_samples(now)
    assert [sample.expires_at > now for sample in GuardrailSample.objects.all()] == [True]


def test_samples_are_few_and_short():
    detector = compile_detector("pattern", {"patterns": ["x[0-9]+x"]})
    options = {"id": 1, "name": "x", "position": 1, "action": "monitor", "source": "", "detector": detector}
    guardrail = GuardrailSnapshot(**options, audience=Audience(everyone=True), sample_days=1)
    text = " ".join(f"x{'1' * length}x" for length in (1, 1, 300, 2, 3, 4, 5, 6))
    for snapshot, count in ((guardrail, MAX_SAMPLES), (GuardrailSnapshot(**options, audience=Audience()), 0)):
        search = Search(Side((snapshot,), ((detector, (snapshot,)),)))
        search.visit(text, Kind.TEXT)
        search.visit(text, Kind.TEXT)
        assert len(search.samples) == count
    search = Search(Side((guardrail,), ((detector, (guardrail,)),)))
    search.visit(text, Kind.TEXT)
    assert max(len(sample.match) for sample in search.samples) == MAX_MATCH
    assert max(len(sample.before) for sample in search.samples) == AROUND
    assert json.dumps(search.samples[0][1:]) == json.dumps(["pattern-1", "", "x1x", f" x1x x{'1' * 34}"])


@pytest.mark.parametrize("cut", [0, 4, 20])
def test_a_credential_is_masked_also_where_the_match_cuts_it(cut):
    key, samples = f"svc_{'k' * 10}_{'s' * 40}", []
    text, guardrail = f"My key is {key} today", SimpleNamespace(id=1)
    start = text.index(key) + cut
    add_samples(samples, guardrail, [Match(start, len(text), "x"), Match(len(text) - 6, len(text), "y")], text)
    assert len(samples) == 2
    for sample in samples:
        shown = f"{sample.before}{sample.match}{sample.after}"
        assert "sss" not in shown
        assert "***" in shown
        assert "today" in shown


def keep_sample(row, text="bob@example.com", **values):
    """A sample of a guardrail as the log writer stores it."""
    origin, keys = origin_of_samples(row.pk), settings.GATEWAY_ENCRYPTION_KEYS
    sealed = encrypt(json.dumps(["Write to ", text, "."]), origin=origin, keys=keys)
    values = {"category": "email", "direction": "request", "expires_at": timezone.now() + timedelta(days=1)} | values
    return GuardrailSample.objects.create(guardrail_id=row.pk, sealed=sealed, **values)


@pytest.mark.django_db
def test_the_console_shows_samples_with_their_entries_and_audits_each_reading(console):
    row, other = (create_guardrail(name=name, type="pii", samples=True) for name in ("Addresses", "Others"))
    user = new_user()
    entry = LogEntry.objects.create(entry_type="WorkRequest", correlation_id="c1", key_id=7, key_name="notebook")
    keep_sample(row, "<b>bob</b>@example.com", correlation_id="c1", user_id=user.pk)
    keep_sample(row, "old@example.com", expires_at=timezone.now() - timedelta(minutes=1))
    keep_sample(other, "eve@example.com")
    GuardrailSample.objects.create(guardrail_id=row.pk, expires_at=timezone.now() + timedelta(days=1), sealed="v1.x.y")
    page = console.get(f"/admin/guardrail-samples/?guardrail={row.pk}").text
    assert "Write to <mark>&lt;b&gt;bob&lt;/b&gt;@example.com</mark>." in page
    assert "The encryption key of this text is not configured." in page
    for text in (f"/admin/telemetry/logentry/{entry.pk}/change/", "notebook", user.username):
        assert text in page
    assert "old@example.com" not in page
    assert "eve@example.com" not in page
    assert AuditEntry.objects.filter(resource="samples", resource_id=row.pk).count() == 1
    assert "eve@example.com" in console.get("/admin/guardrail-samples/").text
    assert (
        f"/admin/guardrail-samples/?guardrail={row.pk}" in console.get(f"/admin/rules/guardrail/{row.pk}/change/").text
    )


@pytest.mark.django_db
def test_the_console_deletes_the_samples_of_one_guardrail(console):
    row, other = (create_guardrail(name=name, type="pii", samples=True) for name in ("Addresses", "Others"))
    for one in (row, row, other):
        keep_sample(one)
    path = f"/admin/guardrail-samples/{row.pk}/delete/"
    assert "Cancel" in console.get(path).text
    assert GuardrailSample.objects.count() == 3
    assert console.post(path).status_code == 302
    assert [sample.guardrail_id for sample in GuardrailSample.objects.all()] == [other.pk]
    assert AuditEntry.objects.filter(resource="samples", resource_id=row.pk, action="destroy").exists()


@pytest.mark.django_db
def test_nobody_sees_samples_without_a_login(client):
    row = create_guardrail(name="Addresses", type="pii", samples=True)
    keep_sample(row)
    for path in (f"?guardrail={row.pk}", f"{row.pk}/delete/"):
        response = client.get(f"/admin/guardrail-samples/{path}")
        assert response.status_code in (302, 403)
        assert "bob@example.com" not in response.text
