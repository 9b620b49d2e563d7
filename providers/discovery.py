"""The models that a provider lists. Only administrators ask for them and see the errors."""

from itertools import islice
from urllib.parse import urljoin

import orjson

from gateway_project.errors import GatewayError, ProviderError
from providers.formats import FORMATS
from providers.transport import auth
from providers.transport.provider_response import explain_failure
from providers.transport.transport import RefusedAddress, Transport

SECONDS = 5
OK, REFUSALS = 200, (401, 403)
# Google and Anthropic give a first page of few.
WHOLE_LIST = {"x-goog-api-key": "pageSize=1000", "x-api-key": "limit=1000"}
PIECE_BYTES, MOST_PIECES = 16 * 1024, 256


def offered_models(
    transport: Transport, *, url: str, auth_method: str, credential: str, format_name: str = ""
) -> list[str]:
    """The model names in the provider's own list at `/models`, `/tags` (Ollama) or its format's; [] without one."""
    try:
        return ask_for_models(
            transport, url=url, auth_method=auth_method, credential=credential, format_name=format_name
        )
    except GatewayError:
        return []


def ask_for_models(
    transport: Transport, *, url: str, auth_method: str, credential: str, format_name: str = ""
) -> list[str]:
    """The same; raises ProviderError saying why there is no list, without the credential.

    The error's `field` is what a form has to change: `api_key`, `url`, or `models` for a method that cannot ask.
    """
    session = transport.session()
    try:
        session.headers.update(auth.headers(auth_method, credential))
    except auth.CredentialUnusable as error:
        raise ProviderError(f"The gateway cannot send a request to the provider: {error}.", field="models") from None
    if auth_method == "x-api-key":
        session.headers["anthropic-version"] = "2023-06-01"
    address, path = _list_address(url, auth_method, format_name)
    try:
        with session.get(address, timeout=SECONDS, allow_redirects=False, stream=True) as answer:
            if answer.status_code != OK:
                field = "api_key" if answer.status_code in REFUSALS else "url"
                raise ProviderError(_about_status(answer.status_code, path), field=field)
            return _names(orjson.loads(b"".join(islice(answer.iter_content(PIECE_BYTES), MOST_PIECES))))
    except RefusedAddress as refused:
        raise ProviderError(f"The gateway does not call the provider: {refused}.", field="url") from None
    except OSError as error:  # requests' errors are OSErrors
        raise ProviderError(f"The provider could not be reached: {_reason(error)}.", field="url") from None
    except ValueError:
        reason = f"The provider answered {path} with something that is not JSON."
        raise ProviderError(reason, field="url") from None


def _list_address(url: str, auth_method: str, format_name: str) -> tuple[str, str]:
    """Where the list is, always on the host of the provider's URL, and the path that messages name."""
    base, _, query = url.partition("?")
    base = base.rstrip("/")
    own_path, _, own_query = (FORMATS[format_name].models_path if format_name in FORMATS else "").partition("?")
    path = f"/{own_path}" if own_path else "/tags" if base.endswith("/api") else "/models"
    address = urljoin(base, own_path) if own_path else base + path
    parameters = "&".join(part for part in (query, own_query or WHOLE_LIST.get(auth_method, "")) if part)
    return (f"{address}?{parameters}" if parameters else address), path


def _about_status(status: int, path: str) -> str:
    if status in REFUSALS:
        return f"The provider refused the credential: it answered {path} with status {status}."
    if status == 404 or 300 <= status < 400:
        return f"The provider has no model list at {path} below its URL (status {status}): check the URL and its path."
    return f"The provider answered {path} with status {status}."


def _reason(error: BaseException) -> str:
    """The cause in the words of a failed request: the library wraps it several times."""
    while error.__context__ is not None:
        error = error.__context__
    return f"it did not answer within {SECONDS} s" if isinstance(error, TimeoutError) else explain_failure(error)


def _names(document: object) -> list[str]:
    rows = document.get("data") or document.get("models") if isinstance(document, dict) else document
    if not isinstance(rows, list):
        return []
    names = [row.get("id") or row.get("name") for row in rows if isinstance(row, dict)]
    return [name.removeprefix("models/") for name in names if isinstance(name, str) and 0 < len(name) <= 200]
