"""A client of JSON:API that knows nothing of the gateway reads every list, follows its pages, and reports errors."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from accounts.access_requests.models import AccessRequest
from accounts.models import Feature, Group, Role
from accounts.sso.services import create_identity_provider, link_identity
from accounts.trusted_issuers.services import create_trusted_issuer
from gateway_project.api.audit import Actor, record
from gateway_project.api.routes import routes
from keys.services import issue_key
from licensing.services import set_limit
from providers.models import Model, ProviderFormat
from providers.services import add_credential, create_provider, set_price
from rules.access_tests.services import create_access_test
from rules.aliases.drafts import TargetDraft
from rules.aliases.services import create_alias
from rules.guardrails.models import Guardrail
from rules.guardrails.services import create_guardrail
from rules.models import Rule, WhatIf
from rules.services import create_rule, update_rule
from telemetry.journal.batches import insert_log_entries
from telemetry.models import GuardrailSample
from tests.support.management import new_user
from tests.support.usage_entries import HOUR, WITHIN, done
from tests.telemetry.guardrails.test_rollup import ran
from tests.telemetry.test_viewsets import log, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.either_store]

# The specification writes these out in a shape that is not JSON:API's: docs/management-api.md.
OF_ANOTHER_SHAPE = {"licence", "stats", "version", "members", "lint"}
QUERIES = {"usage": f"{WITHIN}&by=model&", "unpriced": f"{WITHIN}&", "guardrail-counts": f"{WITHIN}&"}
WITHOUT_ADDRESS = {*QUERIES, "versions", "samples"}  # of single rows


@pytest.fixture
def rows(ann, first_provider):
    """Several rows of everything."""
    for number in range(5):
        user = new_user()
        Role.objects.create(name=f"role {number}")
        Feature.objects.create(name=f"feature {number}")
        Group.objects.create(name=f"group {number}")
        create_provider(name=f"p{number}", format_name="openai", url="https://x.test/v1", auth_method="none", models=[])
        Model.objects.create(provider=first_provider, name=f"m{number}")
        add_credential(provider=first_provider, name=f"c{number}", credential=f"sk-of-account-{number}")
        amounts = {"currency": "USD", "input": Decimal(1), "output": Decimal(1)}
        set_price(provider=first_provider, model=f"priced{number}", **amounts)
        issue_key(owner=ann, name=f"key {number}")
        create_rule(name=f"rule {number}", user_id=user.pk)
        update_rule(Rule.objects.order_by("pk")[0], description=f"version {number}")
        create_alias(name=f"alias {number}", targets=[TargetDraft(first_provider.pk, f"m{number}")])
        create_trusted_issuer(name=f"issuer {number}", issuer=f"https://login{number}.example.org", audience="llm")
        create_access_test(name=f"access test {number}", user_id=user.pk, model=f"m{number}")
        AccessRequest.objects.create(user=user, kind="model", model=f"m{number}", reason="why")
        create_guardrail(name=f"guardrail {number}", type="words", parameters={"words": [f"w{number}"]})
        guardrail = Guardrail.objects.get(name="guardrail 0")
        GuardrailSample.objects.create(guardrail_id=guardrail.pk, expires_at=timezone.now() + timedelta(days=1))
        WhatIf.objects.create(start=HOUR, end=HOUR + timedelta(hours=1))
        issuer = f"https://login-{number}.example.com"
        create_identity_provider(name=f"corp {number}", slug=f"corp-{number}", issuer=issuer, client_id="gateway")
        link_identity(user_id=user.pk, issuer=issuer, subject="subject")
        set_limit(user=user, measure="requests", window="day", amount=Decimal(1))
        log(hours=number)
        record(Actor(), "update", "rules", number)
        stored(f"hash {number}", hours=number)
        insert_log_entries([done("r", HOUR, model=f"m{number}", provider_id=7, cost_status="unknown", input_tokens=1,
                                 guardrails=[ran(number)])])  # fmt: skip
    assert ProviderFormat.objects.count() > 4
    return first_provider


@pytest.fixture
def session(admin):
    from jsonapi_client import Session  # takes seconds to import: not in each process that collects tests

    with Session(admin.base, request_kwargs={"headers": dict(admin.session.headers), "timeout": 30}) as session:
        yield session


def lists(provider) -> dict[str, str]:
    """The paths of all lists by the type of their rows."""
    rule, guardrail = Rule.objects.get(name="rule 0"), Guardrail.objects.get(name="guardrail 0")
    ids = {"provider_id": provider.pk, "group_id": 1, "rule_id": rule.pk, "guardrail_id": guardrail.pk}
    return {route.resource: route.path.format(**ids).strip("/") for route in routes() if route.operation == "list"}


def test_it_reads_every_list_and_every_row(session, admin, rows):
    for resource, path in lists(rows).items():
        if resource in OF_ANOTHER_SHAPE:
            continue
        query = QUERIES.get(resource, "")
        expected = [str(row["id"]) for row in admin.rows(f"/{path}/?{query}page[size]=100")]
        assert len(expected) >= 5, path
        pages = list(session.iterate(path, modifier(f"{query}page[size]=2")))
        assert [row.id for row in pages] == expected, path
        assert {row.type for row in pages} == {resource}
        assert session.get(path, modifier(f"{query}page[size]=2")).meta.totalCount == len(expected)
        if resource not in WITHOUT_ADDRESS:
            one = session.get(path, expected[-1]).resource
            assert (one.type, one.id) == (resource, expected[-1])
            assert one.json["attributes"]


def test_it_reports_the_errors_of_every_resource(session, rows):
    for path in lists(rows).values():
        error = refusal(session, path, modifier("nosuch=1"))
        assert error["source"] == {"parameter": "nosuch"}
    for resource, path in lists(rows).items():
        if resource not in (*OF_ANOTHER_SHAPE, *WITHOUT_ADDRESS):
            assert refusal(session, path, "987654")["status"] == "404"
    assert refusal(session, "nosuch")["status"] == "404"


def modifier(query: str):
    """The client's object for a query string."""
    from jsonapi_client import Modifier

    return Modifier(query)


def refusal(session, path, which=None) -> dict:
    """The only error object of the refusal; the client names its title."""
    from jsonapi_client.exceptions import DocumentError

    with pytest.raises(DocumentError) as caught:
        session.get(path, which)
    (error,) = caught.value.response.json()["errors"]
    assert str(caught.value) == f"Error {error['status']}: {error['title']}"
    assert error["status"] == str(caught.value.errors["status_code"])
    return error
