"""The doors: each path of a client API with its door (key, errors, lists of models) and its dialect.

To add a path, write a dialect (providers/formats/dialect.py), which reads requests and writes answers, and add a line
to ENDPOINTS. A new client API also needs a `ClientDoor` (base.py).
"""

import re
from wsgiref.types import WSGIEnvironment

from gateway_project.errors import NotFound
from gateway_project.work.doors.anthropic.door import AnthropicDoor
from gateway_project.work.doors.anthropic.messages import AnthropicMessages
from gateway_project.work.doors.base import ClientDoor, Door, Endpoint
from gateway_project.work.doors.openai.chat import OpenAIChat
from gateway_project.work.doors.openai.completion import OpenAICompletion
from gateway_project.work.doors.openai.door import AzureDoor, OpenAIDoor
from gateway_project.work.doors.openai.embedding import OpenAIEmbedding
from gateway_project.work.doors.openai.responses import OpenAIResponses
from gateway_project.work.log.secret_masking import mask_secrets_in_message
from providers.formats.dialect import Dialect

OPENAI, AZURE, ANTHROPIC = OpenAIDoor(), AzureDoor(), AnthropicDoor()
# The dialect of a body on /work, by its operation.
DIALECTS: dict[str, Dialect] = {
    "chat": OpenAIChat(),
    "completion": OpenAICompletion(),
    "embedding": OpenAIEmbedding(),
}
MESSAGES = AnthropicMessages()
WORK_PATH, WORK = "/work", Endpoint(Door())
ENDPOINTS: dict[str, Endpoint] = {
    WORK_PATH: WORK,
    "/v1/chat/completions": Endpoint(OPENAI, "chat", DIALECTS["chat"], "Create a chat completion"),
    "/v1/responses": Endpoint(OPENAI, "chat", OpenAIResponses(), "Create a response"),
    "/v1/completions": Endpoint(OPENAI, "completion", DIALECTS["completion"], "Create a text completion"),
    "/v1/embeddings": Endpoint(OPENAI, "embedding", DIALECTS["embedding"], "Create embeddings"),
    "/v1/messages": Endpoint(ANTHROPIC, "chat", MESSAGES, "Create a message"),
    "/v1/messages/count_tokens": Endpoint(ANTHROPIC, "count_tokens", MESSAGES, "Count the tokens of a conversation"),
}
ENDPOINTS["/openai/responses"] = ENDPOINTS["/v1/responses"]._replace(door=AZURE)
# Azure's paths, which contain the model, by their last part; the query parameter `api-version` is ignored.
DEPLOYMENT = r"/openai/deployments/(?P<model>[^/].*?)"
DEPLOYED = {
    path: ENDPOINTS[f"/v1/{path}"]._replace(door=AZURE) for path in ("chat/completions", "completions", "embeddings")
}
DEPLOYED_PATH = re.compile(rf"{DEPLOYMENT}/({'|'.join(DEPLOYED)})")
# The headers that tell clients apart on paths that several ecosystems share: models, and paths that do not exist.
DOOR_HEADERS: dict[str, ClientDoor] = {
    "HTTP_ANTHROPIC_VERSION": ANTHROPIC,
    "HTTP_X_API_KEY": ANTHROPIC,
    "HTTP_API_KEY": AZURE,
}
# The roots of the client APIs, each with the door of its list of models; anything below a root is for a client API.
ROOTS: dict[str, ClientDoor] = {"/v1": OPENAI, "/openai": AZURE}
BELOW_ROOTS = tuple(f"{root}/" for root in ROOTS)
MODELS = re.compile(rf"({'|'.join(ROOTS)})/models(/(?P<model>.+))?", re.DOTALL)


def is_work_path(path: str) -> bool:
    """Whether a path is for work requests, or below the root of a client API."""
    return path in ENDPOINTS or path.startswith(BELOW_ROOTS) or path in (*ROOTS, f"{WORK_PATH}/")


def endpoint_at(path: str) -> Endpoint | None:
    """The endpoint at a path (without a slash at its end); None if there is none."""
    if endpoint := ENDPOINTS.get(path):
        return endpoint
    if deployed := DEPLOYED_PATH.fullmatch(path):
        model, operation = deployed.groups()
        return DEPLOYED[operation]._replace(model=model)
    return None


def nothing_at(path: str) -> NotFound:
    """The error of a path that is not served. It names the right one if a base URL has /v1 twice, or lacks it."""
    name = path.removesuffix("/")
    while name.startswith("/v1/"):
        name = name.removeprefix("/v1")
    is_served = endpoint_at(f"/v1{name}") or MODELS.fullmatch(f"/v1{name}")
    hint = f" Did you mean /v1{name}?" if is_served else ""
    return NotFound(mask_secrets_in_message(f"There is nothing at {path}.{hint}"))


def door_of(headers: WSGIEnvironment) -> ClientDoor:
    """The door for a client that sends these headers (in WSGI's spelling); OpenAI's if they do not tell."""
    return next((door for name, door in DOOR_HEADERS.items() if name in headers), OPENAI)
