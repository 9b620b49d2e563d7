"""Mistral's chat completions and embeddings: close to OpenAI's, and strict (mistralai/client-python, June 2026)."""

import re
from collections.abc import Sequence

from gateway_project.errors import GatewayError, ProviderError
from gateway_project.json_types import JsonObject
from providers.formats.base import Options, StreamReader, WorkRequest
from providers.formats.ids import fitting_id
from providers.formats.json_stream import JsonStreamReader, stream_error
from providers.formats.json_values import as_dict, as_list, as_text
from providers.formats.neutral import (
    Began,
    CallBegan,
    CallDelta,
    Chat,
    Embedding,
    File,
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
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Vectors,
    Verbatim,
)
from providers.formats.openai.embedding import check_embeddings
from providers.formats.openai.format import DONE
from providers.formats.openai.reply import usage_of
from providers.formats.openai.request import image_url, response_format_of
from providers.formats.openai.responses import DIALECT as RESPONSES
from providers.formats.parts import (
    answers_as_text,
    function_of,
    normalise_reason,
    read_function_call,
    require_texts,
    result_text,
    results_as_text,
    split_results,
    text_of_turn,
    unsupported_part,
)
from providers.formats.translated import TranslatedFormat, system_as_user
from providers.formats.usage import Usage, count

NAME = "mistral"
CALL_ID = re.compile(r"[A-Za-z0-9]{9}")
CALL_ID_LENGTH = 9
FINISH_REASONS = {
    "stop": "stop",
    "length": "length",
    "model_length": "length",
    "tool_calls": "tool",
    "error": "error",
}
PARAMETERS = {
    "max_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "stop": "stop",
    "seed": "random_seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "parallel_tools": "parallel_tool_calls",
}
# Chunks of its own that a body in OpenAI's shape may hold.
CHUNKS = {"document_url", "reference", "thinking"}


class Mistral(TranslatedFormat):
    """Messages like OpenAI's, in a stricter order and with shorter ids; whatever it does not know it refuses."""

    name = NAME
    strict = True
    translated_parameters = frozenset({*PARAMETERS, "tools", "tool_choice", "output", "thinking"})
    native_parameters = frozenset(
        {"random_seed", "safe_prompt", "prompt_mode", "prediction", "metadata", "prompt_cache_key", "guardrails"}
    )
    native_tools = frozenset(
        {"web_search", "web_search_premium", "code_interpreter", "image_generation", "document_library", "connector"}
    )
    translated_embedding_parameters = frozenset({"dimensions"})
    native_embedding_parameters = frozenset({"output_dtype", "metadata"})

    def native_tools_in(self, chat: Chat) -> dict[str, list[JsonObject]]:
        # Responses has tools of the same names, which are OpenAI's and have fields of their own.
        return {} if chat.source == RESPONSES else super().native_tools_in(chat)

    def path(self, work: WorkRequest, model: str) -> str:
        return "/embeddings" if work.operation == "embedding" else "/chat/completions"

    def chat_body(self, work: WorkRequest, chat: Chat, model: str, options: Options) -> JsonObject:
        body: JsonObject = {"model": model, "messages": _messages(chat), "stream": work.stream}
        values = {theirs: getattr(chat, ours) for ours, theirs in PARAMETERS.items()}
        body |= {name: value for name, value in values.items() if value not in (None, [])}
        if chat.tools:
            body["tools"] = [_tool(tool) for tool in chat.tools]
        if chat.tool_choice is not None:
            body["tool_choice"] = _choice(chat.tool_choice)
        if chat.output is not None:
            body["response_format"] = response_format_of(chat)
        if chat.thinking is not None and (effort := _effort(chat.thinking)):
            body["reasoning_effort"] = effort
        return body

    def read_reply(self, value: JsonObject) -> Reply:
        choices = as_list(value.get("choices"))
        choice = as_dict(choices[0]) if choices else {}
        messages = _said(choice)
        if not messages:
            raise ProviderError("The provider answered 200 without a message.")
        reply = Reply(id=as_text(value.get("id")), model=as_text(value.get("model")))
        reply.usage = usage_of(value.get("usage"))
        reply.parts = [part for message in messages for part in _read_content(message.get("content"))]
        calls = [call for call in as_list(messages[-1].get("tool_calls")) if isinstance(call, dict)]
        reply.parts += [_call(call, reply.id, number) for number, call in enumerate(calls)]
        reply.provider_finish_reason = as_text(choice.get("finish_reason"))
        reply.finish_reason = normalise_reason(FINISH_REASONS, reply.provider_finish_reason)
        return reply

    def native_reader(self, work: WorkRequest) -> StreamReader:
        return MistralReader(work)

    def embedding_body(self, work: WorkRequest, embedding: Embedding, model: str) -> JsonObject:
        body: JsonObject = {"model": model, "input": require_texts(embedding)}
        if embedding.dimensions is not None:
            body["output_dimension"] = embedding.dimensions
        if embedding.base64 and not self.translates(work):
            body["encoding_format"] = "base64"
        return body | self.native_embedding_values(embedding)

    def read_vectors(self, value: JsonObject) -> Vectors:
        vectors = [item["embedding"] for item in sorted(check_embeddings(value), key=_place)]
        tokens = count(as_dict(value.get("usage")).get("prompt_tokens"))
        return Vectors(vectors, None if tokens is None else Usage(tokens), as_text(value.get("model")))


class MistralReader(JsonStreamReader):
    """Chunks like OpenAI's, with the usage in the last one that says something."""

    def __init__(self, work: WorkRequest) -> None:
        super().__init__(work)
        self._id: str | None = None
        self._calls = 0
        self._numbers: dict[str | int, int] = {}  # of calls, by their id and, of the latest, by their index

    def is_end_mark(self, data: bytes) -> bool:
        return data.startswith(DONE)

    def error_in_event(self, value: JsonObject) -> GatewayError | None:
        return stream_error(value) if value.get("error") or value.get("object") == "error" else None

    def read(self, value: JsonObject) -> None:
        if self._id is None:
            self._id = as_text(value.get("id"))
            self.emit(Began(self._id, as_text(value.get("model"))))
        self.usage = usage_of(value.get("usage")) or self.usage
        for choice in as_list(value.get("choices")):
            if isinstance(choice, dict) and not choice.get("index"):  # the others are other answers
                self._read_choice(choice)

    def _read_choice(self, choice: JsonObject) -> None:
        delta = as_dict(choice.get("delta"))
        for part in _read_content(delta.get("content")):
            if isinstance(part, Text):
                self.emit(TextDelta(part.text))
            elif isinstance(part, Reasoning):
                self.emit(ReasoningDelta(part.text, part.signature, source=NAME))
            elif isinstance(part, Verbatim):
                self.drop(part.kind)
        for call in as_list(delta.get("tool_calls")):
            if isinstance(call, dict):
                self._read_call(call)
        if reason := as_text(choice.get("finish_reason")):
            self.finish(normalise_reason(FINISH_REASONS, reason), reason)
            self.emit(Finished(self.finish_reason, reason))

    def _read_call(self, piece: JsonObject) -> None:
        call, index = _call(piece, self._id or "", self._calls), piece.get("index")
        index = index if isinstance(index, int) else 0
        call_id = _call_id(piece)
        number = self._numbers.get(call_id or index)
        if number is None or (call.name and not call_id):  # what goes on with a call names it no more
            number = self._numbers[call.id] = self._numbers[index] = self._calls
            self._calls += 1
            self.emit(CallBegan(number, call.id, call.name))
        if call.arguments:
            self.emit(CallDelta(number, call.arguments))


# --- What is asked for ---


def _messages(chat: Chat) -> list[JsonObject]:
    """The messages in an order that Mistral takes; a last one of the model's is the beginning of its answer."""
    written: list[JsonObject] = []
    for message in answers_as_text(results_as_text(chat.messages)):
        # A system message behind an answer or a result is refused.
        late = message.role == "system" and written and written[-1]["role"] in ("assistant", "tool")
        written += _written(system_as_user(message) if late else message)
    if written and written[-1]["role"] == "assistant" and "tool_calls" not in written[-1]:
        written[-1]["prefix"] = True
    return written


def _written(message: Message) -> list[JsonObject]:
    """A message as Mistral takes it; each result of a tool is one of its own, and an empty answer none."""
    results, others = split_results(message)
    written = [_written_result(result) for result in results]
    if message.role == "assistant":
        return written + _written_answer(others)
    if not others and results:
        return written
    return [*written, {"role": message.role, "content": _content(message.role, others)}]


def _written_result(result: ToolResult) -> JsonObject:
    call_id = fitting_id(result.call_id, CALL_ID, CALL_ID_LENGTH)
    written: JsonObject = {"role": "tool", "tool_call_id": call_id, "content": result_text(result)}
    if result.name:
        written["name"] = result.name
    return written


def _written_answer(parts: list[Part]) -> list[JsonObject]:
    calls = [_written_call(part) for part in parts if isinstance(part, ToolCall)]
    thoughts = [_written_thought(part) for part in parts if isinstance(part, Reasoning) and part.source == NAME]
    others = [part for part in parts if not isinstance(part, ToolCall | Reasoning)]
    content = [*thoughts, *_chunks(others)] if thoughts else _content("assistant", others)
    answer = ({"content": content} if content else {}) | ({"tool_calls": calls} if calls else {})
    return [{"role": "assistant", **answer}] if answer else []


def _written_call(call: ToolCall) -> JsonObject:
    function = {"name": call.name, "arguments": call.arguments or "{}"}
    return {"id": fitting_id(call.id, CALL_ID, CALL_ID_LENGTH), "type": "function", "function": function}


def _written_thought(thought: Reasoning) -> JsonObject:
    written: JsonObject = {"type": "thinking", "thinking": [{"type": "text", "text": thought.text}]}
    if thought.signature:
        written["signature"] = thought.signature
    return written


def _content(role: str, parts: Sequence[Part]) -> str | list[JsonObject]:
    """The words as a string, or chunks where there is more than words."""
    return text_of_turn(role, parts) if all(isinstance(part, Text | Refusal) for part in parts) else _chunks(parts)


def _chunks(parts: Sequence[Part]) -> list[JsonObject]:
    return [_chunk(part) for part in parts]


def _chunk(part: Part) -> JsonObject:
    match part:
        case Text() | Refusal():
            return {"type": "text", "text": part.text}
        case Image():
            image = {"url": image_url(part)}
            return {"type": "image_url", "image_url": image | ({"detail": part.detail} if part.detail else {})}
        case File():
            return _file(part)
        case Verbatim(value={"type": str(kind)}) if kind in CHUNKS:
            return part.value
    raise unsupported_part(part)


def _file(part: File) -> JsonObject:
    if part.id:
        return {"type": "file", "file_id": part.id}
    if part.media_type.startswith("audio/"):
        return {"type": "input_audio", "input_audio": part.data or part.url}
    document = {"type": "document_url", "document_url": part.url or f"data:{part.media_type};base64,{part.data}"}
    return document | ({"document_name": part.name} if part.name else {})


def _tool(tool: Tool) -> JsonObject:
    written = function_of(tool)
    if tool.strict is not None:
        written["function"]["strict"] = tool.strict
    return written


def _choice(choice: ToolChoice) -> str | JsonObject:
    if choice.kind == "tool":
        return {"type": "function", "function": {"name": choice.name}}
    return "any" if choice.kind == "required" else choice.kind


def _effort(thinking: Thinking) -> str:
    """Its efforts are named like OpenAI's; it knows no budget."""
    if thinking.enabled is False:
        return "none"
    if thinking.effort:
        return "xhigh" if thinking.effort == "max" else thinking.effort
    return "high" if thinking.enabled or thinking.budget else ""


# --- What is answered ---


def _said(choice: JsonObject) -> list[JsonObject]:
    """The model's message, or all of them where it ran tools of the provider's own between them."""
    if isinstance(message := choice.get("message"), dict):
        return [message]
    messages = [as_dict(message) for message in as_list(choice.get("messages"))]
    return [message for message in messages if message.get("role") == "assistant"]


def _read_content(content: object) -> list[Part]:
    if isinstance(content, str):
        return [Text(content)] if content else []
    return [_read_chunk(chunk) for chunk in as_list(content) if isinstance(chunk, dict)]


def _read_chunk(chunk: JsonObject) -> Part:
    if chunk.get("type") == "text":
        return Text(as_text(chunk.get("text")))
    if chunk.get("type") == "thinking":
        pieces = as_list(chunk.get("thinking"))
        text = "".join(as_text(as_dict(piece).get("text")) for piece in pieces)
        return Reasoning(text, as_text(chunk.get("signature")), source=NAME)
    return Verbatim(chunk, NAME)


def _place(item: JsonObject) -> int:
    """Which of the inputs an embedding is of."""
    index = item.get("index")
    return index if isinstance(index, int) else 0


def _call_id(call: JsonObject) -> str:
    """The id in a call; "null" stands for none."""
    call_id = as_text(call.get("id"))
    return "" if call_id == "null" else call_id


def _call(call: JsonObject, reply_id: str, number: int) -> ToolCall:
    return read_function_call(call, _call_id(call), reply_id, str(number))
