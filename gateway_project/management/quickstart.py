"""Prepares an instance without asking: an administrator, a key, a rule, and providers to send work to.

Each of them leaves an entry in the log, as if it had been made through the API.
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
from keys import secrets as key_secrets
from keys.models import ApiKey
from keys.services import issue_key
from keys.viewsets import KeyViewSet
from providers.discovery import offered_models
from providers.models import ModelPrice, Provider
from providers.pricing.public_prices import load
from providers.services import create_provider, set_price, update_provider
from providers.transport.transport import Transport
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

Tell = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What somebody needs to begin; a secret that was made earlier and is not known any more is None.

    So is the model where no provider offers any.
    """

    baseUrl: str
    adminUser: str
    adminPassword: str | None
    apiKey: str | None
    model: str | None


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


def prepare(environment: Mapping[str, str] = os.environ, tell: Tell = lambda _: None) -> Prepared:
    """Make what is missing and change nothing that exists; run again it says the same.

    `tell` is called with a sentence for each thing that somebody would wonder about.
    """
    found = _found_providers(environment, tell)  # asks them: not inside a transaction
    with transaction.atomic():
        admin, password = _admin(tell)
        api_key = _key(admin, tell)
        if not Rule.objects.exists():
            rule = create_rule(name=RULE_NAME, user_id=0, description="Made by quickstart.")
            _record(RuleViewSet, rule)
        demo_url = None if settings.GATEWAY_MODE == "production" else _demo_provider()
        _prices()
        for name, options in found.items():
            if not Provider.objects.filter(name=name).exists():
                _make(name, options, tell)
    prepared = Prepared(settings.GATEWAY_BASE_URL, admin.username, password, api_key, _model())
    _remember(prepared, demo_url)
    return prepared


def demo_port() -> int | None:
    """The port at which the demonstration provider is expected; None where the instance has none."""
    provider = Provider.objects.enabled().filter(name=DEMO_NAME, url__startswith="http://127.0.0.1:").first()
    return int(provider.origin.rpartition(":")[2]) if provider else None


def _admin(tell: Tell) -> tuple[User, str | None]:
    """The first administrator, with the password that was printed before as long as it is theirs."""
    admin = User.objects.admins().usable().order_by("id").first()
    if admin is None:
        password = secrets.token_urlsafe(15)
        admin = create_user(username=ADMIN_NAME, password=password, roles=["admin", "user"])
        _record(UserViewSet, admin)
        return admin, password
    remembered = _remembered()
    password = remembered.get("adminPassword") if remembered.get("adminUser") == admin.username else None
    if password and check_password(password, admin.password):
        return admin, password
    tell(f"The password of {admin.username} is not known: `manage.py changepassword {admin.username}` sets one.")
    return admin, None


def _key(owner: User, tell: Tell) -> str | None:
    """The key that was made before, None where its text is not known here any more; a new one where there is none."""
    live = ApiKey.objects.live().of(owner).filter(name=KEY_NAME)
    remembered = _remembered().get("apiKey")
    if parsed := key_secrets.parse(remembered):
        kept = live.usable().filter(public_id=parsed[0]).first()
        if kept and key_secrets.matches(bytes(kept.digest), parsed[1]):
            return remembered
    if not live.exists():
        issued = issue_key(owner=owner, name=KEY_NAME, created_by=owner)
        _record(KeyViewSet, issued.key)
        return issued.text
    tell(
        f"The key {KEY_NAME!r} has been rotated, locked or made elsewhere: its text is not known here, or no good. "
        "Rotate it in the console, or delete it and run quickstart again."
    )
    return None


def _demo_provider() -> str | None:
    """Bring the demonstration provider to the port in use, unless somebody else gave it its address.

    The address that it has from here, None where that is not known.
    """
    url = f"http://127.0.0.1:{settings.GATEWAY_DEMO_PORT}/v1"
    given = _remembered().get("demoUrl")
    demo = Provider.objects.filter(name=DEMO_NAME).first()
    if demo is None:
        demo = create_provider(name=DEMO_NAME, url=url, format_name="openai", auth_method="none", models=[DEMO_MODEL])
        _record(ProviderViewSet, demo)
        # What a small model costs, so that there is something to see; nobody charges it.
        price = set_price(provider=demo, model=DEMO_MODEL, currency="USD", input=Decimal(1), output=Decimal(4))
        _record(PriceViewSet, price)
    elif demo.url != given:
        return given
    elif given != url:
        update_provider(demo, url=url)
    return url


def _prices() -> None:
    if not ModelPrice.objects.filter(provider=None).exists():
        load()


def _record(viewset: type[ApiViewSet], row: models.Model) -> None:
    """Tell the log what was made, without its secrets."""
    record_command("create", viewset.resource_name, row.pk, after=viewset.serialize_row(row))


def _model() -> str | None:
    """A model to begin with: the demonstration's, else the first that a provider offers."""
    enabled = Provider.objects.enabled()
    if enabled.offering(DEMO_MODEL).exists():
        return DEMO_MODEL
    return (
        enabled.filter(models__isnull=False).order_by("id", "models__id").values_list("models__name", flat=True).first()
    )


def _found_providers(environment: Mapping[str, str], tell: Tell) -> dict[str, dict]:
    """The providers that the environment has credentials for, with the models they offer."""
    found = {}
    for known in KNOWN:
        credential, url = environment.get(known.variable, "").strip(), known.base_url(environment)
        if credential and (reason := _leads_here(url, credential)):
            tell(f"{known.variable} makes no provider: {reason}.")
        elif credential:
            found[known.name] = _options(url, known.format_name, known.auth_method, credential, known.models)
    if host := environment.get("OLLAMA_HOST", "").strip():
        found["ollama"] = _options(ollama_url(host), "ollama", "none", "", ())
    return found


def _leads_here(url: str, credential: str) -> str:
    """Why this would make the gateway its own provider, as what docs/clients.md exports would; '' if it would not."""
    if credential.startswith(key_secrets.PREFIX):
        return "it is a key of this gateway"
    here = (settings.GATEWAY_BASE_URL, f"http://127.0.0.1:{settings.PORT}", f"http://localhost:{settings.PORT}")
    if any(f"{url}/".startswith(f"{address}/") for address in here):
        return f"its base URL, {url}, is the gateway itself"
    return ""


def _make(name: str, options: dict, tell: Tell) -> None:
    try:
        _record(ProviderViewSet, create_provider(name=name, **options))
    except GatewayError as refused:
        tell(f"The environment names a provider {name}, which cannot be made: {refused.message}")
    else:
        count = len(options["models"])
        # Run again, quickstart asks it no more.
        later = "" if count else f" Once it answers, `Fetch models` on the console's page of {name} adds them."
        tell(f"The provider {name} is made of the environment: {options['url']}, {count} models.{later}")


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


def _remember(prepared: Prepared, demo_url: str | None) -> None:
    if settings.GATEWAY_MODE == "production":
        return
    _file().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _file().touch(mode=0o600)
    _file().write_text(json.dumps(asdict(prepared) | {"demoUrl": demo_url}))
