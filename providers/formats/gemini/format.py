"""Google Gemini's generateContent and batchEmbedContents (Developer API v1beta; python-genai, August 2026)."""

from gateway_project.errors import GatewayError, ProviderError, ValidationError
from gateway_project.json_types import JsonObject
from providers.formats.base import (
    COUNT_TOKENS,
    DEFAULT_OPTIONS,
    Answer,
    Options,
    OutgoingRequest,
    StreamReader,
    WorkRequest,
    read_object,
)
from providers.formats.gemini.grounding import GROUNDING, StreamedGrounding, citations_of
from providers.formats.gemini.request import CONFIG, NAME, resource, written_chat
from providers.formats.json_stream import JsonStreamReader
from providers.formats.json_values import as_dict, as_list, as_text, dumped, read_json
from providers.formats.neutral import (
    Began,
    CallBegan,
    CallDelta,
    Chat,
    Embedding,
    Finished,
    Image,
    ImageDelta,
    Part,
    Reasoning,
    ReasoningDelta,
    Reply,
    Text,
    TextDelta,
    ToolCall,
    Vectors,
    Verbatim,
)
from providers.formats.parts import (
    arguments_text,
    derived_call_id,
    normalise_reason,
    require_texts,
    text_of,
)
from providers.formats.translated import TranslatedFormat
from providers.formats.usage import Usage, count, count_or_zero
from providers.transport.retry_after import retry_after as seconds_of

ACTIONS = {"embedding": "batchEmbedContents", COUNT_TOKENS: "countTokens"}
FINISH_REASONS = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "MALFORMED_FUNCTION_CALL": "error",
    "UNEXPECTED_TOOL_CALL": "error",
    "TOO_MANY_TOOL_CALLS": "error",
    "NO_IMAGE": "error",
    "OTHER": "error",
} | dict.fromkeys(
    (
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "LANGUAGE",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "IMAGE_OTHER",
    ),
    "filter",
)


class Gemini(TranslatedFormat):
    """Conversations as contents of parts; the model's name is part of the path."""

    name = NAME
    strict = True
    counts_tokens = True
    translated_parameters = frozenset({*CONFIG, "tools", "tool_choice", "output", "thinking"})
    native_parameters = frozenset({"generationConfig", "safetySettings", "toolConfig", "cachedContent", "serviceTier"})
    native_tools = frozenset({"googleSearch", "googleMaps", "urlContext", "codeExecution", "fileSearch", "computerUse"})
    translated_embedding_parameters = frozenset({"dimensions"})
    native_embedding_parameters = frozenset({"taskType", "title"})

    def path(self, work: WorkRequest, model: str) -> str:
        action = ACTIONS.get(work.operation) or ("streamGenerateContent?alt=sse" if work.stream else "generateContent")
        return f"/{resource(model)}:{action}"

    def request(self, work: WorkRequest, model: str, options: Options = DEFAULT_OPTIONS) -> OutgoingRequest:
        if work.operation != COUNT_TOKENS:
            return super().request(work, model, options)
        counted = {"model": resource(model, quoted=False)} | self.chat_body(work, work.chat, model, options)
        return OutgoingRequest(self.path(work, model), dumped({"generateContentRequest": counted}))

    def answer(self, work: WorkRequest, body: bytes) -> Answer:
        if work.operation != COUNT_TOKENS:
            return super().answer(work, body)
        total = count(read_object(body).get("totalTokens"))
        if total is None:
            raise ProviderError("The provider answered 200 without a number of tokens.")
        return Answer(dumped({"input_tokens": total}))

    def chat_body(self, work: WorkRequest, chat: Chat, model: str, options: Options) -> JsonObject:
        if self.translates(work) and as_dict(chat.extra.get("generationConfig")).get("candidateCount") not in (None, 1):
            raise ValidationError(
                "generationConfig: this API returns one candidate; use /work to get several.",
                field="generationConfig",
            )
        return written_chat(chat, model)

    def read_reply(self, value: JsonObject) -> Reply:
        reply_id = as_text(value.get("responseId"))
        reply = Reply(id=reply_id, model=as_text(value.get("modelVersion")), usage=usage_of(value.get("usageMetadata")))
        candidate = _candidate(value)
        if candidate is None:
            reply.provider_finish_reason = _block_reason(value)
            if not reply.provider_finish_reason:
                raise ProviderError("The provider answered 200 without candidates.")
            reply.finish_reason = "filter"
            return reply
        begins: dict[int, int] = {}  # of a part's words among all of them
        words = 0
        for number, part in enumerate(_parts(candidate)):
            _add(reply.parts, read := _read_part(part, reply_id, number))
            begins[number], words = words, words + len(text_of(read))
        if grounding := candidate.get(GROUNDING):
            reply.citations, reply.dropped_kinds = citations_of(grounding, reply.text, begins)
        calls = any(isinstance(part, ToolCall) for part in reply.parts)
        reply.provider_finish_reason = as_text(candidate.get("finishReason"))
        reply.finish_reason = normalise_reason(FINISH_REASONS, reply.provider_finish_reason, called=calls)
        return reply

    def native_reader(self, work: WorkRequest) -> StreamReader:
        return GeminiReader(work)

    def embedding_body(self, work: WorkRequest, embedding: Embedding, model: str) -> JsonObject:
        about: JsonObject = {"model": resource(model, quoted=False)}
        if embedding.dimensions is not None:
            about["outputDimensionality"] = embedding.dimensions
        about |= self.native_embedding_values(embedding)
        return {"requests": [about | {"content": {"parts": [{"text": text}]}} for text in require_texts(embedding)]}

    def read_vectors(self, value: JsonObject) -> Vectors:
        items = as_list(value.get("embeddings"))
        vectors = [vector for item in items if isinstance(vector := as_dict(item).get("values"), list)]
        if not vectors or len(vectors) != len(items):
            raise ProviderError("The provider answered 200 without embeddings.")
        return Vectors(vectors, usage_of(value.get("usageMetadata")))

    def refusal(self, status: int, body: bytes, retry_after: float | None = None) -> GatewayError:
        details = _details(body)
        if any(detail.get("reason") == "API_KEY_INVALID" for detail in details):
            status = 401  # it comes with 400
        delays = [detail["retryDelay"] for detail in details if isinstance(detail.get("retryDelay"), str)]
        if retry_after is None and delays:
            retry_after = seconds_of({"retry-after": delays[0]})
        return super().refusal(status, body, retry_after)


def _add(parts: list[Part], read: list[Part]) -> None:
    """Add what was read; texts in a row are one: Google cuts them anywhere, and many clients read the first alone."""
    for part in read:
        if isinstance(part, Text) and parts and isinstance(last := parts[-1], Text):
            parts[-1] = Text(last.text + part.text)
        else:
            parts.append(part)


class GeminiReader(JsonStreamReader):
    """Each event is a whole answer with the next piece; the connection ends some time after a finish reason."""

    def __init__(self, work: WorkRequest) -> None:
        super().__init__(work)
        self._id = ""
        self._begun = False
        self._parts = self._calls = 0
        self._signed = False
        self._grounding = StreamedGrounding()

    def read(self, value: JsonObject) -> None:
        if not self._begun:
            self._begun, self._id = True, as_text(value.get("responseId"))
            self.emit(Began(self._id, as_text(value.get("modelVersion"))))
        self.usage = usage_of(value.get("usageMetadata")) or self.usage
        candidate = _candidate(value)
        if candidate is None:
            if reason := _block_reason(value):
                self.finish("filter", reason)
            return
        parts = _parts(candidate)
        if self.deltas is not None:  # what passes as it came is not kept
            self._ground(parts, candidate.get(GROUNDING))
        for part in parts:
            self._read_part(part)
        if reason := as_text(candidate.get("finishReason")):
            self.finish(normalise_reason(FINISH_REASONS, reason, called=self._calls > 0), reason)

    def end(self, is_complete: bool) -> bytes:
        rest = super().end(is_complete)
        if self.error is None and self.finish_reason:
            # Not before: some models give a reason with every piece.
            for citation in self._grounding.due(over=True):
                self.emit(citation)
            self.emit(Finished(self.finish_reason, self.provider_finish_reason))
            self.done = True
        return rest

    def _ground(self, parts: list[JsonObject], grounding: object) -> None:
        """Say what is cited before anything of the piece, which may end the words that citations belong to."""
        for part in filter(_is_answer, parts):
            self._grounding.add_text(part["text"])
        for kind in self._grounding.read(grounding):
            self.drop(kind)
        for citation in self._grounding.due():
            self.emit(citation)

    def _read_part(self, part: JsonObject) -> None:
        text, signature = part.get("text"), as_text(part.get("thoughtSignature"))
        if part.get("thought") is True:
            # A signature ends what it signs: what comes behind it is another thought.
            self.emit(ReasoningDelta(as_text(part.get("text")), signature, source=NAME, begins=self._signed))
            self._signed = bool(signature)
        elif isinstance(text, str):
            if text:
                self.emit(TextDelta(text))
            self._sign(signature)
        elif isinstance(part.get("functionCall"), dict):
            call = _call(part, self._id, self._parts)
            self.emit(CallBegan(self._calls, call.id, call.name, call.signature))
            self.emit(CallDelta(self._calls, call.arguments))
            self._calls += 1
        elif image := _image(part):
            self.emit(ImageDelta(image))
            self._sign(signature)
        else:
            self.drop(Verbatim(part, NAME).kind)
        self._parts += 1

    def _sign(self, signature: str) -> None:
        """What stood before is signed: a thought of its own says so."""
        if signature:
            self.emit(ReasoningDelta(signature=signature, source=NAME, begins=True))
            self._signed = True


# --- What is answered ---


def usage_of(value: object) -> Usage | None:
    """Usage in disjoint buckets: thoughts stand beside the candidates, cached content inside the prompt."""
    if not isinstance(value, dict):
        return None
    prompt, output = count(value.get("promptTokenCount")), count(value.get("candidatesTokenCount"))
    thoughts, cached = count(value.get("thoughtsTokenCount")), count(value.get("cachedContentTokenCount"))
    if prompt is None and output is None and thoughts is None:
        return None
    if prompt is not None:
        if cached is not None and cached > prompt:  # the part exceeds the whole: believe the whole
            cached = None
        prompt += (count(value.get("toolUsePromptTokenCount")) or 0) - (cached or 0)
    visible, hidden = (count_or_zero(value.get(name)) for name in ("candidatesTokenCount", "thoughtsTokenCount"))
    return Usage(prompt, cached, None, None if visible is None or hidden is None else visible + hidden, thoughts)


def _candidate(value: JsonObject) -> JsonObject | None:
    """The first candidate, None where there is none."""
    candidates = value.get("candidates")
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    return first if isinstance(first, dict) else None


def _block_reason(value: JsonObject) -> str:
    return as_text(as_dict(value.get("promptFeedback")).get("blockReason"))


def _parts(candidate: JsonObject) -> list[JsonObject]:
    """What the model said; pictures that it only tried while thinking are neither thought nor answer elsewhere."""
    parts = as_dict(candidate.get("content")).get("parts")
    return [part for part in as_list(parts) if isinstance(part, dict) and not _is_draft(part)]


def _is_answer(part: JsonObject) -> bool:
    return isinstance(part.get("text"), str) and part.get("thought") is not True


def _is_draft(part: JsonObject) -> bool:
    return part.get("thought") is True and "inlineData" in part


def _read_part(part: JsonObject, reply_id: str, number: int) -> list[Part]:
    signature = as_text(part.get("thoughtSignature"))
    if part.get("thought") is True:
        return [Reasoning(as_text(part.get("text")), signature, source=NAME)]
    signed: list[Part] = [Reasoning(signature=signature, source=NAME)] if signature else []
    if isinstance(part.get("text"), str):
        return [Text(part["text"])] * bool(part["text"]) + signed
    if isinstance(part.get("functionCall"), dict):
        return [_call(part, reply_id, number)]
    if image := _image(part):
        return [image, *signed]
    return [Verbatim(part, NAME)]


def _image(part: JsonObject) -> Image | None:
    data = as_dict(part.get("inlineData"))
    kind = as_text(data.get("mimeType"))
    return Image(data=as_text(data.get("data")), media_type=kind) if kind.startswith("image/") else None


def _call(part: JsonObject, reply_id: str, number: int) -> ToolCall:
    """A call; where the provider gave it no id, one that is the same whenever this answer is read."""
    call = part["functionCall"]
    name, arguments = as_text(call.get("name")), arguments_text(call.get("args") or {})
    call_id = as_text(call.get("id")) or derived_call_id(reply_id, str(number), name, arguments)
    return ToolCall(call_id, name, arguments, as_text(part.get("thoughtSignature")))


def _details(body: bytes) -> list[JsonObject]:
    """The details of a refusal, which sometimes comes wrapped in a list."""
    value = read_json(body)
    error = as_dict(as_dict(value[0] if isinstance(value, list) and value else value).get("error"))
    return [detail for detail in as_list(error.get("details")) if isinstance(detail, dict)]
