"""Cohere's chat and embed, version 2 of its API (cohere-python, August 2026)."""

from collections.abc import Callable

from gateway_project.errors import GatewayError, ProviderError, ValidationError
from gateway_project.json_types import JsonObject
from providers.formats.base import Options, StreamReader, WorkRequest
from providers.formats.cohere.embedding import FLOATS, read_texts, written_texts
from providers.formats.json_stream import JsonStreamReader, stream_error
from providers.formats.json_values import as_dict, as_list, as_text
from providers.formats.neutral import (
    Began,
    CallBegan,
    CallDelta,
    Chat,
    Embedding,
    Finished,
    Image,
    Message,
    Part,
    Reasoning,
    ReasoningDelta,
    Refusal,
    Reply,
    Text,
    TextDelta,
    Thinking,
    ToolCall,
    ToolResult,
    Vectors,
    Verbatim,
)
from providers.formats.openai.request import image_url
from providers.formats.parts import (
    answers_as_text,
    check_stop_count,
    function_of,
    normalise_reason,
    read_function_call,
    result_text,
    results_as_text,
    split_results,
    text_of,
    text_of_turn,
    unsupported_part,
)
from providers.formats.translated import TranslatedFormat
from providers.formats.usage import Usage, count

NAME = "cohere"
PATHS = {"chat": "/chat", "completion": "/chat", "embedding": "/embed"}
MOST_STOPS = 5
# Its bounds of nucleus sampling; everyone else's go from 0 to 1.
LEAST_P, MOST_P = 0.01, 0.99
BLOCKED_TOKEN = 498
NOT_CITED = "OFF"
FINISH_REASONS = {
    "COMPLETE": "stop",
    "STOP_SEQUENCE": "stop",
    "MAX_TOKENS": "length",
    "TOOL_CALL": "tool",
    "ERROR": "error",
    "TIMEOUT": "error",
}
PARAMETERS = {
    "max_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "p",
    "top_k": "k",
    "stop": "stop_sequences",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}


class Cohere(TranslatedFormat):
    """Messages like OpenAI's; thoughts are items of the content, or a plan in front of calls."""

    name = NAME
    strict = True
    translated_parameters = frozenset({*PARAMETERS, "tools", "tool_choice", "output", "thinking"})
    native_parameters = frozenset(
        {"documents", "citation_options", "safety_mode", "strict_tools", "thinking", "logprobs", "priority"}
    )
    translated_embedding_parameters = frozenset({"dimensions"})
    native_embedding_parameters = frozenset({"input_type", "embedding_types", "truncate", "max_tokens", "priority"})

    def path(self, work: WorkRequest, model: str) -> str:
        return PATHS[work.operation]

    def chat_body(self, work: WorkRequest, chat: Chat, model: str, options: Options) -> JsonObject:
        check_stop_count(chat, MOST_STOPS)
        messages = answers_as_text(results_as_text(chat.messages))
        turns = [turn for message in messages for turn in _written(message)]
        body: JsonObject = {"model": model, "messages": turns, "stream": work.stream}
        values = {theirs: getattr(chat, ours) for ours, theirs in PARAMETERS.items()}
        body |= {name: value for name, value in values.items() if value not in (None, [])}
        if "p" in body:
            body["p"] = min(max(body["p"], LEAST_P), MOST_P)
        if chat.tools:
            body |= _tools(chat)
        if chat.output is not None:
            schema = {} if chat.output.schema is None else {"json_schema": chat.output.schema}
            body["response_format"] = {"type": "json_object", **schema}
        if chat.thinking is not None and (thinking := _thinking(chat.thinking)):
            body["thinking"] = thinking
        if self.translates(work):
            body |= _no_citations(chat)
        return body

    def read_reply(self, value: JsonObject) -> Reply:
        message = value.get("message")
        if not isinstance(message, dict):
            raise ProviderError("The provider answered 200 without a message.")
        reply = Reply(id=as_text(value.get("id")), usage=usage_of(value.get("usage")))
        if plan := as_text(message.get("tool_plan")):
            reply.parts.append(Reasoning(plan, source=NAME))
        reply.parts += _read_items(message.get("content"))
        reply.parts += [_call(call, reply.id, n) for n, call in enumerate(_objects(message.get("tool_calls")))]
        if citations := message.get("citations"):
            reply.parts.append(Verbatim({"citations": citations}, NAME))
        reply.provider_finish_reason = as_text(value.get("finish_reason"))
        reply.finish_reason = normalise_reason(FINISH_REASONS, reply.provider_finish_reason)
        return reply

    def native_reader(self, work: WorkRequest) -> StreamReader:
        return CohereReader(work)

    def embedding_body(self, work: WorkRequest, embedding: Embedding, model: str) -> JsonObject:
        body: JsonObject = {"model": model, **written_texts(embedding)}
        if embedding.dimensions is not None:
            body["output_dimension"] = embedding.dimensions
        body |= self.native_embedding_values(embedding)
        if self.translates(work):
            body["embedding_types"] = FLOATS
        return body

    def read_vectors(self, value: JsonObject) -> Vectors:
        billed = as_dict(as_dict(value.get("meta")).get("billed_units"))
        tokens = _count(billed.get("input_tokens"))
        return Vectors(read_texts(value), None if tokens is None else Usage(tokens))

    def refusal(self, status: int, body: bytes, retry_after: float | None = None) -> GatewayError:
        return super().refusal(401 if status == BLOCKED_TOKEN else status, body, retry_after)


class CohereReader(JsonStreamReader):
    """Events say their type; message-end is the last one that says anything."""

    def __init__(self, work: WorkRequest) -> None:
        super().__init__(work)
        self._calls: dict[int | None, int] = {}  # ours, by theirs

    def read(self, value: JsonObject) -> None:
        kind, delta = as_text(value.get("type")), as_dict(value.get("delta"))
        if kind == "message-start":
            self.emit(Began(as_text(value.get("id"))))
        elif kind == "message-end":
            self._read_end(delta)
        elif kind == "citation-start":
            self.drop("citations")
        elif read := READERS.get(kind):
            index = value.get("index")
            read(self, as_dict(delta.get("message")), index if isinstance(index, int) else None)

    def error_in_event(self, value: JsonObject) -> GatewayError | None:
        delta = as_dict(value.get("delta")) if value.get("type") == "message-end" else {}
        reason = delta.get("error") or value.get("error")
        if not reason:
            return None
        error = stream_error({"error": reason})
        error.usage = usage_of(delta.get("usage"))
        return error

    def _read_content(self, message: JsonObject, index: int | None) -> None:
        content = as_dict(message.get("content"))
        if thought := as_text(content.get("thinking")):
            self.emit(ReasoningDelta(thought, source=NAME))
        if text := as_text(content.get("text")):
            self.emit(TextDelta(text))

    def _read_plan(self, message: JsonObject, index: int | None) -> None:
        self.emit(ReasoningDelta(as_text(message.get("tool_plan")), source=NAME))

    def _read_call_start(self, message: JsonObject, index: int | None) -> None:
        number = self._calls[index] = len(self._calls)
        call = _call(as_dict(message.get("tool_calls")), "", number)
        self.emit(CallBegan(number, call.id, call.name))
        if call.arguments:
            self.emit(CallDelta(number, call.arguments))

    def _read_call_delta(self, message: JsonObject, index: int | None) -> None:
        function = as_dict(as_dict(message.get("tool_calls")).get("function"))
        if index in self._calls:
            self.emit(CallDelta(self._calls[index], as_text(function.get("arguments"))))

    def _read_end(self, delta: JsonObject) -> None:
        reason = as_text(delta.get("finish_reason"))
        self.finish(normalise_reason(FINISH_REASONS, reason), reason)
        self.emit(Finished(self.finish_reason, reason))
        self.usage = usage_of(delta.get("usage"))
        self.done = True


READERS: dict[str, Callable[[CohereReader, JsonObject, int | None], None]] = {
    "content-start": CohereReader._read_content,
    "content-delta": CohereReader._read_content,
    "tool-plan-delta": CohereReader._read_plan,
    "tool-call-start": CohereReader._read_call_start,
    "tool-call-delta": CohereReader._read_call_delta,
}


# --- What is asked for ---


def _written(message: Message) -> list[JsonObject]:
    """A message as Cohere takes it; each result of a tool is one of its own."""
    results, others = split_results(message)
    written = [_written_result(result) for result in results]
    if not others and results:
        return written
    turn = _written_answer(others) if message.role == "assistant" else {"content": _content(message.role, others)}
    return [*written, {"role": message.role, **turn}]


def _written_result(result: ToolResult) -> JsonObject:
    return {"role": "tool", "tool_call_id": result.call_id, "content": result_text(result)}


def _written_answer(parts: list[Part]) -> JsonObject:
    """A turn of the model's: its thoughts are the plan of its calls where it made any."""
    calls = [_written_call(part) for part in parts if isinstance(part, ToolCall)]
    thoughts = [part.text for part in parts if isinstance(part, Reasoning) and part.source == NAME and part.text]
    text, own = text_of(parts), _own(parts)
    if calls:
        plan = {"tool_plan": "".join(thoughts)} if thoughts else {}
        return {"tool_calls": calls} | plan | ({"content": text} if text else {}) | own
    items = [{"type": "thinking", "thinking": thought} for thought in thoughts]
    return {"content": [*items, {"type": "text", "text": text}] if items else text} | own


def _own(parts: list[Part]) -> JsonObject:
    """What Cohere itself said beside text, thoughts and calls. Raises ValidationError for what others did."""
    own: JsonObject = {}
    for part in parts:
        if isinstance(part, Verbatim) and part.source == NAME:
            own |= part.value
        elif not isinstance(part, Text | Refusal | Reasoning | ToolCall):
            raise unsupported_part(part)
    return own


def _content(role: str, parts: list[Part]) -> str | list[JsonObject]:
    """The words as a string, or a list of parts where there is more than words."""
    if all(isinstance(part, Text | Refusal) for part in parts):
        return text_of_turn(role, parts)
    return [_written_part(part) for part in parts]


def _written_part(part: Part) -> JsonObject:
    if isinstance(part, Text | Refusal):
        return {"type": "text", "text": part.text}
    if not isinstance(part, Image):
        raise unsupported_part(part)
    image = {"url": image_url(part)}
    if part.detail:
        image["detail"] = part.detail
    return {"type": "image_url", "image_url": image}


def _written_call(call: ToolCall) -> JsonObject:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments or "{}"}}


def _tools(chat: Chat) -> JsonObject:
    """Tools and the choice among them: to demand one of them is to offer no other."""
    choice, tools = chat.tool_choice, chat.tools
    if choice is not None and choice.kind == "tool":
        tools = [tool for tool in tools if tool.name == choice.name]
    written: JsonObject = {"tools": [function_of(tool) for tool in tools]}
    if choice is not None and choice.kind != "auto":
        written["tool_choice"] = "NONE" if choice.kind == "none" else "REQUIRED"
    if any(tool.strict for tool in tools):
        written["strict_tools"] = True
    return written


def _no_citations(chat: Chat) -> JsonObject:
    """What keeps it from citing documents and results, for which other shapes have no place."""
    if as_dict(chat.extra.get("citation_options")).get("mode", NOT_CITED) != NOT_CITED:
        raise ValidationError(
            "citation_options: this API has no place for citations; use /work to get them.",
            field="citation_options",
        )
    cites = "documents" in chat.extra or any(message.role == "tool" for message in chat.messages)
    return {"citation_options": {"mode": NOT_CITED}} if cites else {}


def _thinking(thinking: Thinking) -> JsonObject:
    """It thinks or does not, within a budget or without: efforts are all the same to it."""
    if thinking.enabled is False or thinking.effort == "none":
        return {"type": "disabled"}
    if thinking.budget is not None:
        return {"type": "enabled", "token_budget": thinking.budget}
    return {"type": "enabled"} if thinking.effort or thinking.enabled else {}


# --- What is answered ---


def usage_of(value: object) -> Usage | None:
    """Tokens as the model saw them; what Cohere bills (billed_units) leaves out its own preamble."""
    usage = as_dict(value)
    tokens = as_dict(usage.get("tokens"))
    prompt, output = _count(tokens.get("input_tokens")), _count(tokens.get("output_tokens"))
    if prompt is None and output is None:
        return None
    cached = _count(usage.get("cached_tokens"))
    if cached is not None and prompt is not None:
        cached = None if cached > prompt else cached  # the part exceeds the whole: believe the whole
        prompt -= cached or 0
    return Usage(prompt, cached, None, output)


def _count(value: object) -> int | None:
    """A number of tokens, which Cohere's description says to be a float."""
    return count(int(value) if isinstance(value, float) and value.is_integer() else value)


def _objects(value: object) -> list[JsonObject]:
    return [item for item in as_list(value) if isinstance(item, dict)]


def _read_items(items: object) -> list[Part]:
    return [
        Reasoning(as_text(item.get("thinking")), source=NAME)
        if item.get("type") == "thinking"
        else Text(as_text(item.get("text")))
        for item in _objects(items)
    ]


def _call(call: JsonObject, reply_id: str, number: int) -> ToolCall:
    return read_function_call(call, as_text(call.get("id")), reply_id, str(number))
