"""The explanation of a request that nobody has sent: the console and the command make one up."""

import io
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from gateway_project.api.audit import Actor
from gateway_project.json_types import JsonObject
from gateway_project.server.request_ids import new_request_id
from gateway_project.work.doors import endpoint_at
from gateway_project.work.doors.base import Endpoint
from gateway_project.work.exchange import Exchange
from gateway_project.work.explain.api.view import record_explanation
from gateway_project.work.explain.document import describe_decision
from gateway_project.work.explain.subjects import Subject, authentication_as
from gateway_project.work.explain.walk import walk_request
from gateway_project.work.gateway import Gateway
from gateway_project.work.streaming.stream import ClientConnection
from providers.formats.json_values import dump_value
from providers.transport.calls import Call

NO_HEADERS: Mapping[str, str] = MappingProxyType({})
PROMPT = "Hello!"
CHAT = {"messages": [{"role": "user", "content": PROMPT}]}
# The bodies of other paths than those of chats, besides the model.
SAMPLES: Mapping[str, JsonObject] = {
    "/v1/completions": {"prompt": PROMPT},
    "/v1/embeddings": {"input": PROMPT},
    "/v1/responses": {"input": PROMPT},
    "/openai/responses": {"input": PROMPT},
    "/v1/messages": {**CHAT, "max_tokens": 1000},
}


class Question(NamedTuple):
    """A request that nobody has sent. Headers have their usual spelling; an empty address is unknown."""

    subject: Subject
    path: str
    body: JsonObject
    headers: Mapping[str, str] = NO_HEADERS
    address: str = ""

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint at the path, which has to be one."""
        endpoint = endpoint_at(self.path)
        assert endpoint is not None, "whoever asks has chosen a path that exists"
        return endpoint


def sample_body(path: str) -> JsonObject:
    """A short request for a path, without its model."""
    return dict(SAMPLES.get(path, CHAT))


def explain_question(question: Question, gateway: Gateway, actor: Actor, name: str) -> JsonObject:
    """The explanation, with everything that admins may see; the log says that `name` asked."""
    request_id = actor.correlation_id or new_request_id()
    connection = ClientConnection(_environ(question), None, question.address)
    call = Call(client=None, total_seconds=gateway.total_seconds)
    exchange = Exchange(connection, request_id, question.endpoint, call=call)
    result = walk_request(exchange, gateway, authentication_as(question.subject))
    document = describe_decision(result, question.subject, with_all=True)
    record_explanation(actor, result, question.subject, name)
    return document


def _environ(question: Question) -> JsonObject:
    body = dump_value(question.body)
    headers = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in question.headers.items()}
    return headers | {
        "REQUEST_METHOD": "POST",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
    }
