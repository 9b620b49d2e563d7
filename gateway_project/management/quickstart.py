"""Prepares an instance without questions: an administrator, a key, a rule, and providers.

Each of them leaves an entry in the log, as if it had been created through the API.
"""

import json
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.hashers import check_password
from django.db import models, transaction

from accounts.models import User
from accounts.services import create_user
from accounts.viewsets import UserViewSet
from gateway_project.api.audit import record_command
from gateway_project.api.viewsets import ApiViewSet
from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from gateway_project.management.demo_port import DEMO_NAME
from keys import secrets as key_secrets
from keys.models import ApiKey
from keys.services import issue_key
from keys.viewsets import KeyViewSet
from providers.discovery import offered_models
from providers.models import ModelPrice, Provider
from providers.pricing.public_prices import load_prices
from providers.services import create_provider, set_price, update_provider
from providers.transport.transport import Transport
from providers.viewsets import PriceViewSet, ProviderViewSet
from rules.models import Rule
from rules.services import create_rule
from rules.viewsets import RuleViewSet

ADMIN_NAME = "admin"
KEY_NAME = "quickstart"
RULE_NAME = "Everyone may use every model"
DEMO_MODEL = "demo"
OLLAMA_PORT = 11434

Tell = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a user needs to begin; a secret is None if an earlier run created it and its text is lost.

    The model is None if no provider offers any.
    """

    baseUrl: str
    adminUser: str
    adminPassword: str | None
    apiKey: str | None
    model: str | None


@dataclass(frozen=True, slots=True)
class Vendor:
    """A provider that is created if an environment variable has a credential for it."""

    variable: str
    name: str
    url: str
    format_name: str
    auth_method: str
    models: tuple[str, ...]  # if it does not answer

    def base_url(self, environment: Mapping[str, str]) -> str:
        """Its address, or the one that a variable such as OPENAI_BASE_URL sets for its own SDK."""
        return environment.get(self.variable.replace("_API_KEY", "_BASE_URL"), "").strip() or self.url


VENDORS = (
    Vendor("OPENAI_API_KEY", "openai", "https://api.openai.com/v1", "openai", "bearer", ("gpt-5", "gpt-5-mini")),
    Vendor(
        "ANTHROPIC_API_KEY",
        "anthropic",
        "https://api.anthropic.com/v1",
        "anthropic",
        "x-api-key",
        ("claude-opus-4-7", "claude-sonnet-4-6"),
    ),
    Vendor(
        "GEMINI_API_KEY",
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta",
        "gemini",
        "x-goog-api-key",
        ("gemini-3-pro", "gemini-3-flash"),
    ),
    Vendor(
        "MISTRAL_API_KEY",
        "mistral",
        "https://api.mistral.ai/v1",
        "mistral",
        "bearer",
        ("mistral-large-latest", "mistral-small-latest"),
    ),
)


def prepare_installation(environment: Mapping[str, str] = os.environ, tell: Tell = lambda _: None) -> Prepared:
    """Create what is missing and change nothing that exists; a second run returns the same.

    `tell` is called with a sentence for each thing that needs an explanation.
    """
    providers = _providers(environment, tell)  # outside of the transaction, since it sends requests to them
    with transaction.atomic():
        admin, password = _admin(tell)
        api_key = _key(admin, tell)
        if not Rule.objects.exists():
            rule = create_rule(name=RULE_NAME, user_id=0, description="Created by quickstart.")
            _record(RuleViewSet, rule)
        demo_url = None if settings.GATEWAY_MODE == "production" else _demo_provider()
        _prices()
        for name, options in providers.items():
            if not Provider.objects.filter(name=name).exists():
                _create(name, options, tell)
    prepared = Prepared(settings.GATEWAY_BASE_URL, admin.username, password, api_key, _model())
    _remember(prepared, demo_url)
    return prepared


def _admin(tell: Tell) -> tuple[User, str | None]:
    """The first administrator, with the password of an earlier run if it is still valid."""
    admin = User.objects.admins().usable().order_by("id").first()
    if admin is None:
        new_password = secrets.token_urlsafe(15)
        admin = create_user(username=ADMIN_NAME, password=new_password, roles=["admin", "user"])
        _record(UserViewSet, admin)
        return admin, new_password
    earlier = _earlier_output()
    password = earlier.get("adminPassword") if earlier.get("adminUser") == admin.username else None
    if password and check_password(password, admin.password):
        return admin, password
    tell(
        f"This machine does not know the password of {admin.username}. `manage.py changepassword {admin.username}` "
        "sets a new one."
    )
    return admin, None


def _key(owner: User, tell: Tell) -> str | None:
    """The key of an earlier run, None if its text is lost; a new key if there is none."""
    live = ApiKey.objects.live().of(owner).filter(name=KEY_NAME)
    text = _earlier_output().get("apiKey") or ""
    if parsed := key_secrets.parse_key(text):
        key = live.usable().filter(public_id=parsed[0]).first()
        if key and key_secrets.digests_match(bytes(key.digest), parsed[1]):
            return text
    if not live.exists():
        issued = issue_key(owner=owner, name=KEY_NAME, created_by=owner)
        _record(KeyViewSet, issued.key)
        return issued.text
    tell(
        f"This machine does not know a valid key {KEY_NAME!r}: the key was rotated, locked or created elsewhere. "
        "Rotate it in the console, or delete it and run quickstart again."
    )
    return None


def _demo_provider() -> str | None:
    """Create the demonstration provider, or set its address to the port in use unless a user has changed the address.

    Returns the address that quickstart has set; None if that is not known.
    """
    url = f"http://127.0.0.1:{settings.GATEWAY_DEMO_PORT}/v1"
    earlier_url = _earlier_output().get("demoUrl")
    demo = Provider.objects.filter(name=DEMO_NAME).first()
    if demo is None:
        demo = create_provider(name=DEMO_NAME, url=url, format_name="openai", auth_method="none", models=[DEMO_MODEL])
        _record(ProviderViewSet, demo)
        # The price of a small model, so that pages have costs to show; nobody charges it.
        price = set_price(provider=demo, model=DEMO_MODEL, currency="USD", input=Decimal(1), output=Decimal(4))
        _record(PriceViewSet, price)
    elif demo.url != earlier_url:
        return earlier_url
    elif earlier_url != url:
        update_provider(demo, url=url)
    return url


def _prices() -> None:
    if not ModelPrice.objects.filter(provider=None).exists():
        load_prices()


def _record(viewset: type[ApiViewSet[models.Model]], row: models.Model) -> None:
    """Write to the log what was created, without its secrets."""
    record_command("create", viewset.resource_name, row.pk, after=viewset.serialize_row(row))


def _model() -> str | None:
    """A model to begin with: the demonstration provider's, or the first one of another provider."""
    enabled = Provider.objects.enabled()
    if enabled.offering(DEMO_MODEL).exists():
        return DEMO_MODEL
    return (
        enabled.filter(models__isnull=False).order_by("id", "models__id").values_list("models__name", flat=True).first()
    )


def _providers(environment: Mapping[str, str], tell: Tell) -> dict[str, JsonObject]:
    """The providers that the environment has credentials for, with the models they offer."""
    providers = {}
    for vendor in VENDORS:
        credential, url = environment.get(vendor.variable, "").strip(), vendor.base_url(environment)
        if credential and (reason := _leads_here(url, credential)):
            tell(f"No provider is created for {vendor.variable}: {reason}.")
        elif credential:
            providers[vendor.name] = _options(url, vendor.format_name, vendor.auth_method, credential, vendor.models)
    if host := environment.get("OLLAMA_HOST", "").strip():
        providers["ollama"] = _options(ollama_url(host), "ollama", "none", "", ())
    return providers


def _leads_here(url: str, credential: str) -> str:
    """Why this would make the gateway its own provider, as the exports in docs/clients.md would; '' if it would not."""
    if credential.startswith(key_secrets.PREFIX):
        return "it is a key of this gateway"
    own_addresses = (
        settings.GATEWAY_BASE_URL,
        f"http://127.0.0.1:{settings.PORT}",
        f"http://localhost:{settings.PORT}",
    )
    if any(f"{url}/".startswith(f"{address}/") for address in own_addresses):
        return f"its base URL, {url}, is the gateway itself"
    return ""


def _create(name: str, options: JsonObject, tell: Tell) -> None:
    try:
        _record(ProviderViewSet, create_provider(name=name, **options))
    except GatewayError as error:
        tell(f"The environment names a provider {name}, which cannot be created: {error.message}")
    else:
        count = len(options["models"])
        # The next run of quickstart will not ask the provider again.
        later = "" if count else f" Once it answers, `Fetch models` on the console's page of {name} adds them."
        noun = "model" if count == 1 else "models"
        tell(f"The provider {name} is created from the environment: {options['url']}, {count} {noun}.{later}")


def ollama_url(host: str) -> str:
    """The base URL that OLLAMA_HOST stands for, read as Ollama does: it may also be an address to listen on."""
    scheme, slashes, rest = host.rstrip("/").rpartition("://")
    try:
        parts = urlsplit(f"//{rest}")
        port = parts.port or (None if slashes else OLLAMA_PORT)
    except ValueError:
        return f"http://{host}"  # creating the provider refuses it and says why
    listens_everywhere = parts.hostname in (None, "0.0.0.0", "::")  # noqa: S104  # nosec B104  # compared, not bound
    name = "127.0.0.1" if listens_everywhere else str(parts.hostname)
    place = f"[{name}]" if ":" in name else name
    return f"{scheme or 'http'}://{place}{f':{port}' if port else ''}{parts.path}/api"


def _options(url: str, format_name: str, auth_method: str, credential: str, models: tuple[str, ...]) -> JsonObject:
    transport = Transport(networks=settings.GATEWAY_PROVIDER_NETWORKS, heartbeat_seconds=15)
    offered = offered_models(
        transport, url=url, auth_method=auth_method, credential=credential, format_name=format_name
    )
    return {
        "url": url,
        "format_name": format_name,
        "auth_method": auth_method,
        "credential": credential,
        "models": offered or models,
    }


def _file() -> Path:
    return settings.VAR_DIR / "secrets" / "quickstart.json"


def _earlier_output() -> JsonObject:
    """The output of an earlier run on this machine; a production instance has no such file."""
    try:
        return json.loads(_file().read_text())
    except (OSError, ValueError):
        return {}


def _remember(prepared: Prepared, demo_url: str | None) -> None:
    if settings.GATEWAY_MODE == "production":
        return
    _file().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _file().touch(mode=0o600)
    _file().write_text(json.dumps(asdict(prepared) | {"demoUrl": demo_url}))
