"""The question of a remote guardrail, and how it reads the answer. Pure."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from gateway_project.database.ids import MAX_ID
from gateway_project.json_types import JsonObject
from gateway_project.work.guardrails.detectors.base import Detector, Match
from gateway_project.work.guardrails.detectors.parameters import Parameters, invalid_parameter
from providers.formats.json_values import dump_value, read_json
from providers.transport.addresses import url_refusal

HTTP, PROVIDER = "http", "provider"
REMOTE_TYPES = (HTTP, PROVIDER)
DEFAULT_SECONDS, MAX_SECONDS = 2, 30
MAX_URL_LENGTH, MAX_SECRET_LENGTH, MAX_REASON_LENGTH = 2000, 1000, 100
MAX_CATEGORIES = 100


class Question(NamedTuple):
    """The texts of one direction of a request, and whose it is."""

    direction: str
    texts: list[str]
    model: str
    user_id: int
    key_id: int | None
    request_id: str


class Verdict(NamedTuple):
    """The verdict of a service on the texts. `categories`: why it blocks them; `texts`: their replacements."""

    categories: tuple[str, ...] = ()
    texts: list[str] | None = None
    has_failed: bool = False


ALLOWED, FAILED = Verdict(), Verdict(has_failed=True)


class Remote(Detector):
    """In the place of a detector: it searches nothing by itself. `service` asks somebody else."""

    longest = 0

    def __init__(self, type_: str, parameters: Mapping[str, object]) -> None:
        self.type, self.parameters = type_, parameters

    def scan(self, text: str, start: int = 0) -> list[Match]:
        return []


@dataclass(frozen=True, slots=True)
class Service:
    """What is asked, for how long; `account`, `url` and `credential` tell its breaker from others."""

    account: tuple[int, int]
    url: str  # empty: that of the provider
    credential: str = field(repr=False)  # by which requests are signed
    timeout_seconds: float
    provider_id: int = 0
    model: str = ""
    categories: frozenset[str] = frozenset()

    def body(self, question: Question) -> bytes:
        """The body of a request."""
        texts = list(question.texts)
        if self.provider_id:
            return dump_value({"model": self.model, "input": texts})
        return dump_value({
            "direction": question.direction,
            "texts": texts,
            "model": question.model,
            "userId": question.user_id,
            "keyId": question.key_id,
            "requestId": question.request_id,
        })  # fmt: skip

    def verdict(self, body: bytes, count: int) -> Verdict:
        """What an answer says of so many texts. Raises ValueError if it says nothing."""
        value = read_json(body)
        if not isinstance(value, dict):
            raise ValueError("The answer is not a JSON object.")
        return _moderation(value, self.categories) if self.provider_id else _decision(value, count)


def signature_headers(secret: str, message_id: str, at: int, body: bytes) -> dict[str, str]:
    """The headers of Standard Webhooks (version 1)."""
    headers = {"webhook-id": message_id, "webhook-timestamp": str(at)}
    if secret:
        signed = hmac.digest(_key_of(secret), f"{message_id}.{at}.".encode() + body, hashlib.sha256)
        headers["webhook-signature"] = f"v1,{base64.b64encode(signed).decode()}"
    return headers


def _key_of(secret: str) -> bytes:
    """The bytes of `whsec_` and base64; any other text stands for itself."""
    if secret.startswith("whsec_"):
        try:
            return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            pass
    return secret.encode()


def service_of(guardrail_id: int, type_: str, parameters: Mapping[str, object], credential: str) -> Service:
    """The service of parameters that were checked."""
    seconds = parameters.get("timeoutSeconds") or DEFAULT_SECONDS
    assert isinstance(seconds, int | float)
    account = (guardrail_id, 0)
    if type_ == HTTP:
        return Service(account, str(parameters["url"]), credential, float(seconds))
    categories, provider_id = parameters.get("categories") or (), parameters["provider"]
    assert isinstance(provider_id, int)
    assert isinstance(categories, Sequence)
    return Service(
        account, "", "", float(seconds), provider_id, str(parameters["model"]), frozenset(map(str, categories))
    )


def compile_http(members: Mapping[str, object]) -> Remote:
    parameters = Parameters(members, names=("url", "timeoutSeconds", "secret"))
    url = parameters.get("url")
    if not isinstance(url, str) or len(url) > MAX_URL_LENGTH or not _is_url(url):
        raise invalid_parameter("url", "must be a URL that begins with https:// or http://, without user and fragment.")
    if problem := url_refusal(url):
        raise invalid_parameter("url", problem)
    _check_seconds(parameters)
    secret = parameters.get("secret")
    if secret is not None and (
        not isinstance(secret, str) or len(secret) > MAX_SECRET_LENGTH or not secret.isprintable()
    ):
        raise invalid_parameter("secret", f"must be a text of at most {MAX_SECRET_LENGTH:,} printable characters.")
    return Remote(HTTP, members)


def compile_provider(members: Mapping[str, object]) -> Remote:
    parameters = Parameters(members, names=("provider", "model", "categories", "timeoutSeconds"))
    provider_id, model = parameters.get("provider"), parameters.get("model")
    if type(provider_id) is not int or not 0 < provider_id <= MAX_ID:
        raise invalid_parameter("provider", "must be the id of a provider.")
    if not isinstance(model, str) or not 0 < len(model) <= 200 or not model.isprintable():
        raise invalid_parameter("model", "must be the name of a moderation model.")
    parameters.texts("categories", most=MAX_CATEGORIES, longest=100)
    _check_seconds(parameters)
    return Remote(PROVIDER, members)


def _check_seconds(parameters: Parameters) -> None:
    seconds = parameters.get("timeoutSeconds")
    if seconds is None:
        return
    if type(seconds) not in (int, float) or not 0.1 <= seconds <= MAX_SECONDS:  # type: ignore[operator]
        raise invalid_parameter("timeoutSeconds", f"must be a number from 0.1 to {MAX_SECONDS}.")


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    is_plain = url.isascii() and url.isprintable() and " " not in url and not parts.fragment
    return is_plain and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None


def _decision(value: JsonObject, count: int) -> Verdict:
    action, reason, texts = value.get("action"), value.get("reason"), value.get("texts")
    if action == "allow":
        return ALLOWED
    if action == "block":
        category = reason if isinstance(reason, str) and reason.strip() else "blocked"
        return Verdict((category[:MAX_REASON_LENGTH],))
    if action != "replace" or not isinstance(texts, list) or len(texts) != count:
        raise ValueError("The answer's action must be allow, block, or replace with the same number of texts.")
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("The answer's texts must be strings.")
    return Verdict(texts=texts)


def _moderation(value: JsonObject, chosen_categories: frozenset[str]) -> Verdict:
    """The results of OpenAI's and Mistral's moderation endpoints; without chosen categories all of them count."""
    results = value.get("results")
    if not isinstance(results, list) or not all(isinstance(one, dict) for one in results):
        raise ValueError("The answer has no results.")
    flagged: dict[str, None] = {}
    for result in results:
        categories = result.get("categories")
        names = [name for name, holds in categories.items() if holds is True] if isinstance(categories, dict) else []
        flagged.update(dict.fromkeys(name for name in names if not chosen_categories or name in chosen_categories))
        if result.get("flagged") is True and not chosen_categories and not names:
            flagged["flagged"] = None
    return Verdict(tuple(flagged))
