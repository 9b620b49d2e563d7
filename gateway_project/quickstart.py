"""Prepares an instance without asking: an administrator, a key, a rule, and providers to send work to.

Each of them leaves an entry in the log, as if it had been made through the API.
"""

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.db import models, transaction

from accounts.models import User
from accounts.services import create_user
from accounts.viewsets import UserViewSet
from gateway_project.jsonapi.audit import record_command
from gateway_project.jsonapi.viewsets import ApiViewSet
from keys.models import ApiKey
from keys.services import issue_key
from keys.viewsets import KeyViewSet
from providers.discovery import offered_models
from providers.models import ModelPrice, Provider
from providers.public_prices import load
from providers.services import create_provider, set_price
from providers.transport import Transport
from providers.viewsets import PriceViewSet, ProviderViewSet
from rules.models import Rule
from rules.services import create_rule
from rules.viewsets import RuleViewSet

ADMIN_NAME = "admin"
KEY_NAME = "quickstart"
RULE_NAME = "Everyone may use every model"
DEMO_NAME = "demo"
DEMO_MODEL = "demo"
OLLAMA_PORT = 11434


@dataclass(frozen=True, slots=True)
class Prepared:
    """What somebody needs to begin; a secret that was made earlier and is not known any more is None."""

    baseUrl: str
    adminUser: str
    adminPassword: str | None
    apiKey: str | None
    model: str


@dataclass(frozen=True, slots=True)
class Known:
    """A provider that an environment variable stands for."""

    variable: str
    name: str
    url: str
    format_name: str
    auth_method: str
    models: tuple[str, ...]  # where it cannot be asked

    def base_url(self, environment: Mapping[str, str]) -> str:
        """Its address, or the one that its own SDK is told by OPENAI_BASE_URL and the like."""
        return environment.get(self.variable.replace("_API_KEY", "_BASE_URL"), "").strip() or self.url


KNOWN = (
    Known("OPENAI_API_KEY", "openai", "https://api.openai.com/v1", "openai", "bearer", ("gpt-5", "gpt-5-mini")),
    Known(
        "ANTHROPIC_API_KEY",
        "anthropic",
        "https://api.anthropic.com/v1",
        "anthropic",
        "x-api-key",
        ("claude-opus-4-7", "claude-sonnet-4-6"),
    ),
    Known(
        "GEMINI_API_KEY",
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta",
        "gemini",
        "x-goog-api-key",
        ("gemini-3-pro", "gemini-3-flash"),
    ),
    Known(
        "MISTRAL_API_KEY",
        "mistral",
        "https://api.mistral.ai/v1",
        "mistral",
        "bearer",
        ("mistral-large-latest", "mistral-small-latest"),
    ),
)


def prepare(environment: Mapping[str, str] = os.environ) -> Prepared:
    """Make what is missing and change nothing that exists; run again it says the same."""
    found = _found_providers(environment)  # asks them: not inside a transaction
    with transaction.atomic():
        admin, password = _admin()
        api_key = _key(admin)
        if not Rule.objects.exists():
            rule = create_rule(name=RULE_NAME, everyone="user", description="Made by quickstart.")
            _record(RuleViewSet, rule)
        _demo_provider()
        _prices()
        for name, options in found.items():
            if not Provider.objects.filter(name=name).exists():
                _record(ProviderViewSet, create_provider(name=name, **options))
    prepared = Prepared(settings.GATEWAY_BASE_URL, admin.username, password, api_key, DEMO_MODEL)
    _remember(prepared)
    return prepared


def demo_port() -> int | None:
    """The port at which the demonstration provider is expected; None where the instance has none."""
    provider = Provider.objects.enabled().filter(name=DEMO_NAME, url__startswith="http://127.0.0.1:").first()
    return int(provider.origin.rpartition(":")[2]) if provider else None


def _admin() -> tuple[User, str | None]:
    admin = User.objects.admins().usable().order_by("id").first()
    if admin is not None:
        remembered = _remembered()
        return admin, remembered.get("adminPassword") if remembered.get("adminUser") == admin.username else None
    password = secrets.token_urlsafe(15)
    admin = create_user(username=ADMIN_NAME, password=password, roles=["admin", "user"])
    _record(UserViewSet, admin)
    return admin, password


def _key(owner: User) -> str | None:
    """The key that was made before, None where its text is not known here any more; a new one where there is none."""
    live = ApiKey.objects.live().of(owner).filter(name=KEY_NAME)
    remembered = _remembered().get("apiKey")
    if remembered and live.filter(public_id=remembered[4:14]).exists():
        return remembered
    if live.exists():
        return None
    issued = issue_key(owner=owner, name=KEY_NAME, created_by=owner)
    _record(KeyViewSet, issued.key)
    return issued.text


def _demo_provider() -> None:
    if Provider.objects.filter(name=DEMO_NAME).exists():
        return
    url = f"http://127.0.0.1:{settings.GATEWAY_DEMO_PORT}/v1"
    demo = create_provider(name=DEMO_NAME, url=url, format_name="openai", auth_method="none", models=[DEMO_MODEL])
    _record(ProviderViewSet, demo)
    # What a small model costs, so that there is something to see; nobody charges it.
    price = set_price(provider=demo, model=DEMO_MODEL, currency="USD", input=Decimal(1), output=Decimal(4))
    _record(PriceViewSet, price)


def _prices() -> None:
    if not ModelPrice.objects.filter(provider=None).exists():
        load()


def _record(viewset: type[ApiViewSet], row: models.Model) -> None:
    """Tell the log what was made, without its secrets."""
    record_command("create", viewset.resource_name, row.pk, after=viewset.as_listed(row))


def _found_providers(environment: Mapping[str, str]) -> dict[str, dict]:
    """The providers that the environment has credentials for, with the models they offer."""
    found = {
        known.name: _options(
            known.base_url(environment), known.format_name, known.auth_method, credential, known.models
        )
        for known in KNOWN
        if (credential := environment.get(known.variable, "").strip())
    }
    if host := environment.get("OLLAMA_HOST", "").strip():
        found["ollama"] = _options(ollama_url(host), "ollama", "none", "", ())
    return found


def ollama_url(host: str) -> str:
    """The base address that OLLAMA_HOST stands for, as Ollama reads it: also what a server listens on, in part."""
    scheme, slashes, rest = host.rstrip("/").rpartition("://")
    try:
        parts = urlsplit(f"//{rest}")
        port = parts.port or (None if slashes else OLLAMA_PORT)
    except ValueError:
        return f"http://{host}"  # refused where providers are made, which say why
    name = parts.hostname if parts.hostname not in (None, "0.0.0.0", "::") else "127.0.0.1"  # noqa: S104
    place = f"[{name}]" if ":" in name else name
    return f"{scheme or 'http'}://{place}{f':{port}' if port else ''}{parts.path}/api"


def _options(url: str, format_name: str, auth_method: str, credential: str, models: tuple[str, ...]) -> dict:
    transport = Transport(networks=settings.GATEWAY_PROVIDER_NETWORKS, heartbeat_seconds=15)
    offered = offered_models(transport, url=url, auth_method=auth_method, credential=credential)
    return {
        "url": url,
        "format_name": format_name,
        "auth_method": auth_method,
        "credential": credential,
        "models": offered or models,
    }


def _file() -> Path:
    return settings.VAR_DIR / "secrets" / "quickstart.json"


def _remembered() -> dict:
    """What an earlier run on this machine printed; a production instance keeps no such file."""
    try:
        return json.loads(_file().read_text())
    except (OSError, ValueError):
        return {}


def _remember(prepared: Prepared) -> None:
    if settings.GATEWAY_MODE == "production":
        return
    _file().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _file().touch(mode=0o600)
    _file().write_text(json.dumps(asdict(prepared)))
