"""Ollama's own /api/chat and /api/embed (ollama, August 2026)."""

from collections.abc import Sequence, Set

from gateway_project.errors import ProviderError, ValidationError
from gateway_project.json_types import JsonObject
from providers.formats.base import Options, StreamReader, WorkRequest
from providers.formats.json_stream import JsonLinesReader
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
    ToolCall,
    ToolResult,
    Vectors,
)
from providers.formats.parts import (
    arguments_object,
    function_of,
    normalise_reason,
    read_function_call,
    require_texts,
    result_text,
    split_results,
    text_of_turn,
    unsupported_part,
)
from providers.formats.translated import TranslatedFormat
from providers.formats.usage import Usage, count, count_or_zero

NAME = "ollama"
PATHS = {"chat": "/chat", "completion": "/chat", "embedding": "/embed"}
STREAM_TYPE = "application/x-ndjson"
FINISH_REASONS = {"stop": "stop", "length": "length", "load": "pause"}
# Parameters that lie in `options`.
OPTIONS = {
    "max_tokens": "num_predict",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "stop": "stop",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
# As Ollama's own OpenAI face takes efforts that it does not know.
EFFORTS: dict[str, bool | str] = {"none": False, "minimal": "low", "xhigh": "max"}


class Ollama(TranslatedFormat):
    """Messages with their images beside them, and lines of JSON for a stream."""

    name = NAME
    translated_parameters = frozenset({*OPTIONS, "tools", "tool_choice", "output", "thinking"})
    native_parameters = frozenset(
        {"options", "format", "think", "keep_alive", "truncate", "shift", "logprobs", "top_logprobs"}
    )
    translated_embedding_parameters = frozenset({"dimensions"})
    native_embedding_parameters = frozenset({"options", "keep_alive", "truncate"})

    def path(self, work: WorkRequest, model: str) -> str:
        return PATHS[work.operation]

    def is_stream(self, content_type: str) -> bool:
        return content_type.partition(";")[0].strip().lower() == STREAM_TYPE

    def inapplicable_parameters(self, chat: Chat, model: str) -> Set[str]:
        # It can be kept from calling tools, by not telling it of any, and not be made to.
        forced = chat.tool_choice is not None and chat.tool_choice.kind in ("required", "tool")
        return frozenset({"tool_choice"} if forced else ())

    def chat_body(self, work: WorkRequest, chat: Chat, model: str, options: Options) -> JsonObject:
        messages = [written for message in chat.messages for written in _written(message)]
        body: JsonObject = {"model": model, "messages": messages, "stream": work.stream}
        values = {theirs: getattr(chat, ours) for ours, theirs in OPTIONS.items()}
        if parameters := {name: value for name, value in values.items() if value not in (None, [])}:
            body["options"] = parameters
        if chat.tools and not (chat.tool_choice is not None and chat.tool_choice.kind == "none"):
            body["tools"] = [function_of(tool) for tool in chat.tools]
        if chat.output is not None:
            body["format"] = "json" if chat.output.schema is None else chat.output.schema
        if chat.thinking is not None and (think := _think(chat.thinking)) is not None:
            body["think"] = think
        return body

    def read_reply(self, value: JsonObject) -> Reply:
        message = value.get("message")
        if not isinstance(message, dict):
            raise ProviderError("The provider answered 200 without a message.")
        reply = Reply(model=as_text(value.get("model")), usage=usage_of(value))
        if thought := as_text(message.get("thinking")):
            reply.parts.append(Reasoning(thought, source=NAME))
        if text := as_text(message.get("content")):
            reply.parts.append(Text(text))
        calls = [_call(call, value, number) for number, call in enumerate(_calls(message))]
        reply.parts += calls
        reply.provider_finish_reason = as_text(value.get("done_reason"))
        reply.finish_reason = normalise_reason(FINISH_REASONS, reply.provider_finish_reason, called=bool(calls))
        return reply

    def native_reader(self, work: WorkRequest) -> StreamReader:
        return OllamaReader(work)

    def embedding_body(self, work: WorkRequest, embedding: Embedding, model: str) -> JsonObject:
        body: JsonObject = {"model": model, "input": require_texts(embedding)}
        if embedding.dimensions is not None:
            body["dimensions"] = embedding.dimensions
        return body | self.native_embedding_values(embedding)

    def read_vectors(self, value: JsonObject) -> Vectors:
        vectors = value.get("embeddings")
        if not isinstance(vectors, list) or not all(isinstance(vector, list) for vector in vectors):
            raise ProviderError("The provider answered 200 without embeddings.")
        return Vectors(vectors, usage_of(value), as_text(value.get("model")))


class OllamaReader(JsonLinesReader):
    """Lines with the next piece each; the last one is `done`. A call comes whole, in a line of its own or not."""

    def __init__(self, work: WorkRequest) -> None:
        super().__init__(work)
        self._begun = False
        self._calls = 0

    def read(self, value: JsonObject) -> None:
        if not self._begun:
            self._begun = True
            self.emit(Began(model=as_text(value.get("model"))))
        message = as_dict(value.get("message"))
        if thought := as_text(message.get("thinking")):
            self.emit(ReasoningDelta(thought, source=NAME))
        if text := as_text(message.get("content")):
            self.emit(TextDelta(text))
        for call in _calls(message):
            self._read_call(_call(call, value, self._calls))
        if value.get("done") is True:
            self._read_end(value)

    def _read_call(self, call: ToolCall) -> None:
        # Counted here: parallel calls may all say that they are number 0.
        self.emit(CallBegan(self._calls, call.id, call.name))
        self.emit(CallDelta(self._calls, call.arguments))
        self._calls += 1

    def _read_end(self, value: JsonObject) -> None:
        reason = as_text(value.get("done_reason"))
        self.finish(normalise_reason(FINISH_REASONS, reason, called=self._calls > 0), reason)
        self.emit(Finished(self.finish_reason, reason))
        self.usage = usage_of(value)
        self.done = True


# --- What is asked for ---


def _written(message: Message) -> list[JsonObject]:
    """A message as Ollama takes it; each result of a tool is one of its own."""
    results, others = split_results(message)
    written = [_written_result(result) for result in results]
    return [*written, _written_turn(message.role, others)] if others or not results else written


def _written_turn(role: str, parts: list[Part]) -> JsonObject:
    written: JsonObject = {"role": role, "content": text_of_turn(role, parts)}
    if thoughts := "".join(part.text for part in parts if isinstance(part, Reasoning) and part.source == NAME):
        written["thinking"] = thoughts
    if calls := [part for part in parts if isinstance(part, ToolCall)]:
        written["tool_calls"] = [_written_call(call) for call in calls]
    if images := _images(parts):
        written["images"] = images
    return written


def _images(parts: Sequence[Part]) -> list[str]:
    """The base64 of images and sounds, which Ollama takes in the same place. Raises ValidationError for the rest."""
    images = []
    for part in parts:
        if isinstance(part, Image) or (isinstance(part, File) and part.media_type.startswith("audio/")):
            if not part.data:
                raise ValidationError(
                    "messages: this provider takes images inside the request only: "
                    "send data:TYPE;base64,… in place of an address."
                )
            images.append(part.data)
        elif not isinstance(part, Text | Refusal | Reasoning | ToolCall):
            raise unsupported_part(part)
    return images


def _written_call(call: ToolCall) -> JsonObject:
    return {"id": call.id, "function": {"name": call.name, "arguments": arguments_object(call)}}


def _written_result(result: ToolResult) -> JsonObject:
    written: JsonObject = {"role": "tool", "content": result_text(result), "tool_call_id": result.call_id}
    if result.name:
        written["tool_name"] = result.name
    if images := _images(result.parts):
        written["images"] = images
    return written


def _think(thinking: Thinking) -> bool | str | None:
    if thinking.enabled is False:
        return False
    if thinking.effort:
        return EFFORTS.get(thinking.effort, thinking.effort)
    return True if thinking.enabled or thinking.budget else None


# --- What is answered ---


def usage_of(value: JsonObject) -> Usage | None:
    """Its counts; that of the prompt leaves out what the server still had in its cache, and is missing when it is 0."""
    prompt, output = count(value.get("prompt_eval_count")), count(value.get("eval_count"))
    if prompt is None and output is None:
        return None
    return Usage(count_or_zero(value.get("prompt_eval_count")), output=output)


def _calls(message: JsonObject) -> list[JsonObject]:
    calls = as_list(message.get("tool_calls"))
    return [call for call in calls if isinstance(call, dict) and isinstance(call.get("function"), dict)]


def _call(call: JsonObject, value: JsonObject, number: int) -> ToolCall:
    """A call; where the server gave it no id, one that is the same whenever this answer is read."""
    return read_function_call(call, as_text(call.get("id")), as_text(value.get("created_at")), str(number))
