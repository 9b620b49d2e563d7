"""What the OpenAPI document says of work requests."""

from gateway_project import errors
from gateway_project.api import access
from gateway_project.api.openapi.endpoints import KEY, TOKEN, Answer, Operation
from gateway_project.api.openapi.responses import header
from gateway_project.work.doors.base import ClientDoor, Endpoint
from gateway_project.work.explain.api.serializers import ExplanationAnswer
from gateway_project.work.reading.headers import CACHE_CONTROLS, FORWARDED_HEADERS, STRATEGIES
from gateway_project.work.reading.request import MODEL_LENGTH, OPERATIONS

# The errors of work requests.
ERRORS = (
    errors.ValidationError,
    errors.ProviderNotSelected,
    errors.PayloadTooLarge,
    errors.UnsupportedMediaType,
    errors.RuleDenied,
    errors.LicenceInvalid,
    errors.RateLimited,
    errors.QuotaExceeded,
    errors.ActiveUseLimitReached,
    errors.ProviderRejected,
    errors.ProviderError,
    errors.ProviderOverloaded,
    errors.ProviderTimeout,
    errors.CacheMiss,
    errors.ServiceUnavailable,
)
HEADERS = {
    "X-Svc-Cache": {
        "description": "Whether the answer came from the cache. Explanations do not have this header or the following "
        "ones.",
        "required": False,
        "schema": {"enum": ["HIT", "MISS", "BYPASS"]},
    },
    "X-Svc-Provider": header("The provider that answered.", required=False),
    "X-Svc-Model": header("The model that answered, by its name in the gateway.", required=False),
    "X-Svc-Attempts": header("The number of calls to providers; 0 for an answer from the cache.", required=False),
    "X-Svc-Dropped": header(
        "Parameters that were not sent to the provider and, with the prefix `answer.`, parts of its answer that the "
        "client's API cannot express. A stream names the latter in a comment at its end.",
        required=False,
    ),
    "X-Svc-Added": header(
        "`name=value` of a parameter that the provider requires and the client did not send; not with answers from the "
        "cache.",
        required=False,
    ),
    "X-Svc-Estimate": header(
        "`tokens` if the gateway estimated the number of tokens because no provider counted them.", required=False
    ),
    "RateLimit": header("What is left of the limits that apply.", required=False),
    "RateLimit-Policy": header("The limits that apply.", required=False),
    "Server-Timing": header("How long each stage took, in milliseconds.", required=False),
}


def _header_parameter(name: str, description: str, **schema: object) -> dict[str, object]:
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema}


PARAMETERS = (
    _header_parameter(
        "X-Svc-Request-ID", "The id of the request in the log; an invalid one is replaced.", type="string"
    ),
    _header_parameter("X-Svc-Provider", "The provider to use, by name.", type="string"),
    _header_parameter("X-Svc-Fallback", "`off`: ask only one provider, whatever it answers.", enum=["off"]),
    _header_parameter(
        "X-Svc-Strategy",
        "The strategy that chooses one of several providers, instead of the alias's own.",
        enum=list(STRATEGIES),
    ),
    _header_parameter(
        "X-Svc-Session", "Requests of one session go to the same provider under the strategy `sticky`.", type="string"
    ),
    _header_parameter(
        "X-Svc-Operation",
        "The operation (default: by the body; with `messages` chat, with `prompt` completion, with `input` embedding).",
        enum=list(OPERATIONS),
    ),
    _header_parameter(
        "X-Svc-Cache",
        "`bypass`: neither read nor write; `refresh`: only write; `only`: answer from the cache or not at all.",
        enum=list(CACHE_CONTROLS),
    ),
    _header_parameter(
        "X-Svc-Cache-TTL",
        "The number of seconds for which the answer is cached.",
        type="integer",
        minimum=0,
        maximum=999_999_999,
    ),
    _header_parameter(
        "X-Svc-Timeout",
        "The time-out of the whole request, in seconds.",
        type="number",
        exclusiveMinimum=0,
        maximum=999_999_999,
    ),
    *(
        _header_parameter(name, "Passed on to Anthropic.", type="string", pattern="^[ -~]{0,1024}$")
        for name in FORWARDED_HEADERS
    ),
    _header_parameter("X-Svc-Tags", "`name=value, …`: at most 20, for the log.", type="string"),
)


def _query_parameter(name: str, description: str, **schema: object) -> dict[str, object]:
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}


EXPLAIN_PARAMETERS = (
    _query_parameter(
        "explain",
        "`true`: the request is not sent. The answer says what would happen to it, and why.",
        type="string",
        enum=["true", "false"],
    ),
    _query_parameter(
        "asUser",
        "The id of the user whose request is explained. Another user than the caller needs logs.view_all and "
        "rules.view.",
        type="string",
        pattern="^[0-9]{1,18}$",
    ),
    _query_parameter(
        "asKey",
        "The name of the user's key that would send the request. A caller with a key or a trusted issuer's token "
        "needs logs.view_all and rules.view to name another credential.",
        type="string",
    ),
    _query_parameter(
        "fromAddress",
        "The IP address from which the request would come, for keys that are restricted to networks.",
        type="string",
    ),
)
EXPLANATION = {"$ref": f"#/components/schemas/{ExplanationAnswer.__name__}"}


def _or_explanation(body: str, **schema: object) -> dict[str, object]:
    """An answer that is an explanation with `explain=true`."""
    return {"anyOf": [EXPLANATION, {"description": body, **schema}]}


BODY = {
    "type": "object",
    "description": "Any parameters that the provider accepts. The gateway itself evaluates `model` and `stream`.",
    "properties": {
        "model": {
            "type": "string",
            "minLength": 1,
            "maxLength": MODEL_LENGTH,
            "description": "The model to use; `provider/model` names the provider too.",
        },
        "stream": {"type": ["boolean", "null"], "description": "Whether the answer is streamed."},
        "messages": {"description": "A conversation."},
        "prompt": {"description": "A text to complete."},
        "input": {"description": "The texts to embed."},
    },
    "required": ["model"],
    "examples": [{"model": "demo", "messages": [{"role": "user", "content": "Hello!"}]}],
}
WORK = Operation(
    summary="Ask a model",
    description=(
        "The answer is the provider's own body. A stream is forwarded as it arrives; if it fails, an error "
        "event with the three fields of every error ends it. Identical requests are answered from the cache. With "
        "`explain=true` the request is not sent, and the answer is the explanation (docs/explain.md)."
    ),
    tag="work",
    who=access.WORK,
    parameters=(*PARAMETERS, *EXPLAIN_PARAMETERS),
    body=BODY,
    answers={
        "200": Answer(
            "The provider's answer, or a cached one.",
            {
                "application/json": _or_explanation("Without `explain=true`: the provider's own body."),
                "text/event-stream": {"type": "string", "description": "A stream, as the provider sends it."},
                "application/x-ndjson": {
                    "type": "string",
                    "description": "The same, if the provider streams lines of JSON.",
                },
            },
            HEADERS,
        )
    },
    errors=ERRORS,
    credentials=(KEY, TOKEN),
    components=(ExplanationAnswer,),
)


def endpoint_operation(endpoint: Endpoint, *, model_in_path: bool = False) -> Operation:
    """The operation of a client API's path; the vendor documents body and answers."""
    door = endpoint.door
    assert isinstance(door, ClientDoor), "/work has its own operation"
    shape = f"As {door.ecosystem} documents it"
    return Operation(
        summary=f"{endpoint.summary}, for clients of {door.ecosystem}",
        description=f"{shape}, whatever the provider's format: the same pipeline as `POST /work`.",
        tag=door.api,
        who=access.WORK,
        parameters=(
            *((MODEL_IN_PATH,) if model_in_path else ()),
            *(parameter for parameter in PARAMETERS if parameter["name"] != "X-Svc-Operation"),
            *EXPLAIN_PARAMETERS,
        ),
        body={"type": "object", "properties": {"model": BODY["properties"]["model"]}}
        | ({} if model_in_path else {"required": ["model"]}),
        answers={
            "200": Answer(
                f"{shape}.",
                {
                    "application/json": _or_explanation(f"Without `explain=true`: {shape.lower()}.", type="object"),
                    "text/event-stream": {"type": "string"},
                },
                HEADERS,
            )
        },
        failures=_failures(door),
        credentials=(KEY, TOKEN),
        components=(ExplanationAnswer,),
    )


def models_operation(door: ClientDoor, *, is_single: bool) -> Operation:
    """The operation that lists models, or gets one."""
    return Operation(
        summary="Get a model that the caller may use" if is_single else "List the models that the caller may use",
        description="Exactly the models that the rules allow, in the form that the client expects.",
        tag=door.api,
        who=access.WORK,
        parameters=(_in_path("id", "The model's name."),) if is_single else (),
        answers={"200": Answer(f"As {door.ecosystem} documents it.", {"application/json": {"type": "object"}})},
        failures=_failures(door),
        credentials=(KEY, TOKEN),
    )


def _in_path(name: str, description: str) -> dict[str, object]:
    return {"name": name, "in": "path", "required": True, "description": description, "schema": {"type": "string"}}


MODEL_IN_PATH = _in_path("model", "The model to use. It takes precedence over the model in the body.")


def _failures(door: ClientDoor) -> dict[str, Answer]:
    answer = Answer(f"An error in the shape of {door.ecosystem}.", {"application/json": {"type": "object"}})
    return {"4XX": answer, "5XX": answer}
