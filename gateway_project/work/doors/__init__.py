"""The doors that clients come in by: one line for each path, with whose clients they are and how they write.

A new one is a dialect (providers/formats/base.py: requests into the neutral form, answers out of it), where its
ecosystem is new a `ClientDoor` (base.py: key, errors, listings), and a line in ENTRANCES.
"""

import re
from typing import Any

from gateway_project.work.doors.anthropic.door import AnthropicDoor
from gateway_project.work.doors.anthropic.messages import AnthropicMessages
from gateway_project.work.doors.base import ClientDoor, Door, Entrance
from gateway_project.work.doors.openai.chat import OpenAIChat
from gateway_project.work.doors.openai.completion import OpenAICompletion
from gateway_project.work.doors.openai.door import AzureDoor, OpenAIDoor
from gateway_project.work.doors.openai.embedding import OpenAIEmbedding
from gateway_project.work.doors.openai.responses import OpenAIResponses
from providers.formats.base import Dialect

OPENAI, AZURE, ANTHROPIC = OpenAIDoor(), AzureDoor(), AnthropicDoor()
# What a body on /work is read as, by its operation.
DIALECTS: dict[str, Dialect] = {
    "chat": OpenAIChat(),
    "completion": OpenAICompletion(),
    "embedding": OpenAIEmbedding(),
}
MESSAGES = AnthropicMessages()
WORK = Entrance(Door())
ENTRANCES: dict[str, Entrance] = {
    "/work": WORK,
    "/v1/chat/completions": Entrance(OPENAI, "chat", DIALECTS["chat"], "Create a chat completion"),
    "/v1/responses": Entrance(OPENAI, "chat", OpenAIResponses(), "Create a response"),
    "/v1/completions": Entrance(OPENAI, "completion", DIALECTS["completion"], "Create a text completion"),
    "/v1/embeddings": Entrance(OPENAI, "embedding", DIALECTS["embedding"], "Create embeddings"),
    "/v1/messages": Entrance(ANTHROPIC, "chat", MESSAGES, "Create a message"),
    "/v1/messages/count_tokens": Entrance(ANTHROPIC, "count_tokens", MESSAGES, "Count the tokens of a conversation"),
}
ENTRANCES["/openai/responses"] = ENTRANCES["/v1/responses"]._replace(door=AZURE)
# Azure's paths, which contain the model, by their last part; the query parameter `api-version` is ignored.
DEPLOYMENT = r"/openai/deployments/(?P<model>[^/].*?)"
DEPLOYED = {
    path: ENTRANCES[f"/v1/{path}"]._replace(door=AZURE) for path in ("chat/completions", "completions", "embeddings")
}
DEPLOYED_PATH = re.compile(rf"{DEPLOYMENT}/({'|'.join(DEPLOYED)})")
# What tells clients apart on the paths that several ecosystems share (models, and those that do not exist).
TELL_TALES: dict[str, ClientDoor] = {
    "HTTP_ANTHROPIC_VERSION": ANTHROPIC,
    "HTTP_X_API_KEY": ANTHROPIC,
    "HTTP_API_KEY": AZURE,
}
ROOTS = ("/v1", "/openai")
BELOW_ROOTS = tuple(f"{root}/" for root in ROOTS)
MODELS = re.compile(rf"({'|'.join(ROOTS)})/models(/(?P<model>.+))?", re.DOTALL)


def is_ours(path: str) -> bool:
    """Whether a path is one for work or below the root of the doors."""
    return path in ENTRANCES or path.startswith(BELOW_ROOTS) or path in (*ROOTS, "/work/")


def entrance_of(path: str) -> Entrance | None:
    """The entrance at a path (without a slash at its end); None if there is none."""
    if entrance := ENTRANCES.get(path):
        return entrance
    if deployed := DEPLOYED_PATH.fullmatch(path):
        model, operation = deployed.groups()
        return DEPLOYED[operation]._replace(model=model)
    return None


def door_of(headers: dict[str, Any]) -> ClientDoor:
    """Whose client it is that sends these headers (WSGI's spelling), as far as they tell; else OpenAI's."""
    return next((door for name, door in TELL_TALES.items() if name in headers), OPENAI)
