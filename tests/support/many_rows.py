"""Fills each table that the console or a user's own pages show, with as many rows as a test wants."""

from datetime import timedelta
from decimal import Decimal

from django.utils import timezone

from accounts.access_requests.models import AccessRequest
from accounts.models import Feature, Group, Role, User
from accounts.sso.services import create_identity_provider, link_identity
from accounts.trusted_issuers.services import create_trusted_issuer
from gateway_project.api.audit import Actor, record
from keys.models import ApiKey
from keys.services import issue_key
from licensing.services import set_limit
from providers.models import Provider
from providers.services import add_credential, add_model, create_provider, set_price
from rules.access_tests.services import create_access_test
from rules.aliases.drafts import TargetDraft
from rules.aliases.services import create_alias
from rules.guardrails.models import Guardrail
from rules.guardrails.services import create_guardrail
from rules.models import Rule
from rules.services import create_rule, update_rule
from telemetry.journal.batches import insert_log_entries
from telemetry.models import CacheEntry, GuardrailSample
from tests.support.management import new_user, token_of
from tests.support.usage_entries import done

PRICE = {"currency": "USD", "input": Decimal(1), "output": Decimal(2)}


def fill(user: User, first: int, last: int) -> None:
    """Rows with these numbers in each table; those that have an owner belong to this user."""
    for number in range(first, last):
        other = new_user()
        token_of(other)
        provider = _offer(number)
        group = _admit(user, other, number)
        key = _limit(user, group, provider, number)
        _govern(other, group, provider, number)
        _identify(other, number)
        _use(user, key, provider, number)


def _offer(number: int) -> Provider:
    """A provider with a model; the first provider gets another model, price and credential."""
    provider = create_provider(
        name=f"p{number}", format_name="openai", url="http://127.0.0.1:9/v1", models=[f"model-{number}"]
    )
    set_price(model=f"model-{number}", **PRICE)
    first = Provider.objects.get(name="p0")
    add_model(provider=first, name=f"another-{number}")
    set_price(provider=first, model=f"another-{number}", **PRICE)
    add_credential(provider=first, name=f"account {number}", credential=f"sk-of-account-{number}")
    create_alias(name=f"alias-{number}", targets=[TargetDraft(provider.pk, f"model-{number}")])
    return provider


def _admit(user: User, other: User, number: int) -> Group:
    """A group with both users; the first group gets a member and a group below it."""
    first = Group.objects.filter(name="group 0").first()
    group = Group.objects.create(name=f"group {number}", parent=first)
    group.members.set([user, other])
    group.admins.set([user])
    if first:
        first.members.add(other)
    Role.objects.create(name=f"role {number}")
    Feature.objects.create(name=f"feature {number}")
    return group


def _limit(user: User, group: Group, provider: Provider, number: int) -> ApiKey:
    key = issue_key(owner=user, name=f"key {number}").key
    for subject in ({"group": group}, {"key": key}, {"provider": provider}):
        set_limit(measure="requests", window="day", amount=1000, **subject)
    return key


def _govern(other: User, group: Group, provider: Provider, number: int) -> None:
    """Rules, the versions of the first one, access tests, guardrails with samples, and access requests."""
    create_rule(name=f"rule {number}", group_id=group.pk, provider_id=provider.pk)
    update_rule(Rule.objects.get(name="rule 0"), description=f"version {number}")
    create_access_test(name=f"test {number}", user_id=other.pk, model=f"nowhere-{number}", expected="denied")
    create_guardrail(name=f"guardrail {number}", type="words", parameters={"words": [f"word{number}"]})
    guardrail = Guardrail.objects.get(name="guardrail 0")
    GuardrailSample.objects.create(guardrail_id=guardrail.pk, expires_at=timezone.now() + timedelta(days=1))
    AccessRequest.objects.create(user=other, kind="model", model=f"model-{number}", reason="For the demonstration")


def _identify(other: User, number: int) -> None:
    issuer = f"https://login-{number}.example.com"
    create_identity_provider(name=f"corp {number}", slug=f"corp-{number}", issuer=issuer, client_id="gateway")
    link_identity(user_id=other.pk, issuer=issuer, subject="subject")
    create_trusted_issuer(name=f"issuer {number}", issuer=f"https://tokens-{number}.example.com", audience="gateway")


def _use(user: User, key: ApiKey, provider: Provider, number: int) -> None:
    """A request that was served, its answer in the cache, and a change in the audit."""
    moment = timezone.now() - timedelta(minutes=number)
    values = {"user_id": user.pk, "username": user.username, "key_id": key.pk, "key_name": key.name}
    values |= {"model": f"model-{number}", "provider_id": provider.pk, "provider_name": provider.name}
    values |= {"group_ids": list(user.groups.values_list("pk", flat=True)), "cost": "0.5", "currency": "USD"}
    insert_log_entries([done(f"counted-{number}", moment, cost_status="known", input_tokens=10, **values)])
    CacheEntry.objects.create(
        request_hash=f"counted-{number}", model=f"model-{number}", expires_at=moment + timedelta(days=1)
    )
    record(Actor(), "update", "rules", number)
