"""Stage 2: read the request: its body, its model, its operation and the X-Svc- headers."""

from gateway_project.api.strict_json import parse_object
from gateway_project.errors import UnsupportedMediaType, ValidationError
from gateway_project.json_types import JsonObject
from gateway_project.work.doors import DIALECTS
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.limits.output_bound import bound_output, most_tokens
from gateway_project.work.reading.body import receive_body
from gateway_project.work.reading.headers import forwarded_headers, read_headers, require_one_of
from providers.formats import WorkRequest
from providers.formats.dialect import COUNT_TOKENS, Dialect
from providers.formats.json_values import dump_value

OPERATION_OF = {"messages": "chat", "prompt": "completion", "input": "embedding"}
OPERATIONS = tuple(OPERATION_OF.values())
# At a door these are never streamed, whatever the body says; on /work the operation is only a guess.
NEVER_STREAMED = ("embedding", COUNT_TOKENS)
MODEL_LENGTH = 200
# Fields that the gateway evaluates; some providers ignore the case of names, and would decide differently.
READ_HERE = {"model", "stream"}


def read_request(exchange: Exchange, gateway: Gateway) -> None:
    """Set the request and what its headers ask for. Raises ValidationError, which names what is wrong."""
    headers = exchange.connection.environ
    if headers.get("CONTENT_TYPE", "").partition(";")[0].strip().lower() != "application/json":
        raise UnsupportedMediaType("Send the body as JSON, with the header Content-Type: application/json.")
    if "HTTP_CONTENT_ENCODING" in headers and headers["HTTP_CONTENT_ENCODING"].lower() != "identity":
        raise UnsupportedMediaType("Send the body uncompressed: Content-Encoding is not supported.")
    raw, endpoint = receive_body(exchange, gateway), exchange.endpoint
    body = parse_object(raw)
    if endpoint.model and body.get("model") != endpoint.model:
        body["model"] = endpoint.model
        raw = dump_value(body)
    for name in gateway.required_fields:
        if body.get(name) is None:
            raise ValidationError(f"The field {name} is missing.", field=name)
    for name in body:
        if name not in READ_HERE and name.casefold() in READ_HERE:
            text = f"The field {name} differs from {name.casefold()} only in upper and lower case."
            raise ValidationError(text, field=name)
    stream = body.get("stream")
    if stream is not None and type(stream) is not bool:
        raise ValidationError("stream must be true or false.", field="stream")
    operation = endpoint.operation or _operation(headers.get("HTTP_X_SVC_OPERATION"), body)
    dialect = endpoint.dialect or DIALECTS[operation]
    if added_bound := _bound_output(exchange, body, operation, dialect):
        raw = dump_value(body)
    streams = stream is True and endpoint.operation not in NEVER_STREAMED
    exchange.request = WorkRequest(
        operation,
        _model(body),
        body,
        raw,
        streams,
        dialect=dialect,
        via_door=endpoint.door.in_shape,
        id=exchange.request_id,
        created=int(exchange.started_at),
        added_bound=added_bound,
        headers=forwarded_headers(headers),
    )
    read_headers(exchange)


def _bound_output(exchange: Exchange, body: JsonObject, operation: str, dialect: Dialect) -> str:
    """Apply the key's bound of tokens; the name of the parameter that was added for it, or ""."""
    most = most_tokens(exchange.identity)
    return bound_output(body, dialect.output_bounds, most) if most and operation not in NEVER_STREAMED else ""


def _model(body: JsonObject) -> str:
    model = body.get("model")
    if not isinstance(model, str) or not model.strip():
        raise ValidationError("model must be a non-empty string: the name of the model to use.", field="model")
    if len(model) > MODEL_LENGTH or not model.isprintable():
        raise ValidationError(f"model must have at most {MODEL_LENGTH} printable characters.", field="model")
    return model


def _operation(header: str | None, body: JsonObject) -> str:
    if header:
        return require_one_of("X-Svc-Operation", header, OPERATIONS)
    for name, operation in OPERATION_OF.items():
        if name in body:
            return operation
    return "chat"
