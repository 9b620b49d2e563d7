"""A whole answer of OpenAI's chat completions, or of a compatible server, as a neutral reply."""

from gateway_project.errors import ProviderError
from gateway_project.json_types import JsonObject
from providers.formats.base import ClientResponse
from providers.formats.json_values import as_dict, as_list, as_text
from providers.formats.neutral.messages import Image, Part, Reasoning, Refusal, Text, ToolCall
from providers.formats.neutral.reply import FinishReason, Reply
from providers.formats.openai.annotations import citations_in
from providers.formats.openai.request import THOUGHTS
from providers.formats.parts import arguments_text, derived_call_id, normalise_reason
from providers.formats.usage import Usage, money, read_count

# Any other reason is reported as "other", never as "stop".
FINISH_REASONS = {
    "stop": FinishReason.STOP,
    "eos": FinishReason.STOP,  # Together
    "length": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL,
    "function_call": FinishReason.TOOL,
    "content_filter": FinishReason.FILTER,
    "error": FinishReason.ERROR,  # OpenRouter
}
SOURCE = "openai"
AUDIO = "audio"


def read_reply(value: JsonObject) -> Reply:
    """The first choice of an answer as a reply. Raises ProviderError if there is none."""
    choice = first_choice(value)
    message = _message_of(choice)
    calls = _calls(message, as_text(value.get("id")))
    reason = as_text(choice.get("finish_reason"))
    return Reply(
        [*_read_thoughts(message), *_content_parts(message), *calls],
        finish_reason(reason, called=bool(calls)),
        reason,
        usage_of(value.get("usage")),
        as_text(value.get("id")),
        as_text(value.get("model")),
        citations=citations_in(message.get("annotations")),
        dropped_kinds=[AUDIO] if message.get(AUDIO) else [],
    )


def unchanged_answer(body: bytes, value: JsonObject) -> ClientResponse:
    """The answer for a client that gets the body as it is: of its message only the text is read.

    Raises ProviderError if there is none.
    """
    choice = first_choice(value)
    message = _message_of(choice)
    reason, has_called = as_text(choice.get("finish_reason")), bool(as_list(message.get("tool_calls")))
    return ClientResponse(
        body,
        text=_text_of(message),
        usage=usage_of(value.get("usage")),
        finish_reason=finish_reason(reason, called=has_called),
        provider_finish_reason=reason,
    )


def read_completion(value: JsonObject) -> Reply:
    """The same for an answer to a text completion."""
    choice = first_choice(value)
    if not isinstance(text := choice.get("text"), str):
        raise ProviderError("The provider answered 200 without text.")
    reason, usage = as_text(choice.get("finish_reason")), usage_of(value.get("usage"))
    about = as_text(value.get("id")), as_text(value.get("model"))
    return Reply([Text(text)], finish_reason(reason), reason, usage, *about)


def check_one_choice(value: JsonObject) -> None:
    """Raise ProviderError for several choices: a stream made from the answer has only one."""
    if len(as_list(value.get("choices"))) > 1:
        raise ProviderError("The provider answered a request for a stream with several complete choices.")


def first_choice(value: JsonObject) -> JsonObject:
    """The first choice of an answer. Raises ProviderError if there is none."""
    choices = value.get("choices")
    if not isinstance(choices, list) or set(map(type, choices)) != {dict}:
        raise ProviderError("The provider answered 200 without choices.")
    choice: JsonObject = choices[0]
    return choice


def _message_of(choice: JsonObject) -> JsonObject:
    message = choice.get("message")
    if not isinstance(message, dict):
        raise ProviderError("The provider answered 200 without a message.")
    return message


def finish_reason(reason: str, *, called: bool = False) -> FinishReason:
    """The reason normalised. Some servers say `stop` although the model has made calls."""
    return normalise_reason(FINISH_REASONS, reason, called=called)


def usage_of(value: object) -> Usage | None:
    """Usage in disjoint buckets. OpenAI counts cached input in `prompt_tokens`."""
    if not isinstance(value, dict):
        return None
    prompt, output = read_count(value.get("prompt_tokens")), read_count(value.get("completion_tokens"))
    if prompt is None and output is None:
        return None
    rest, read, write, reasoning = prompt, None, None, None
    if isinstance(inside := value.get("prompt_tokens_details"), dict):
        read, write = read_count(inside.get("cached_tokens")), read_count(inside.get("cache_write_tokens"))
    if prompt is not None and (read or write):
        rest = prompt - (read or 0) - (write or 0)
        if rest < 0:  # the parts exceed the whole: believe the whole
            rest, read, write = prompt, None, None
    if isinstance(details := value.get("completion_tokens_details"), dict):
        reasoning = read_count(details.get("reasoning_tokens"))
    total = read_count(value.get("total_tokens"))
    if total is not None and prompt is not None and output is not None:
        # Of xAI, and of Google's endpoint for clients of OpenAI, only the total contains the thoughts.
        output = max(output, total - prompt)
    return Usage(rest, read, write, output, reasoning, cost=money(value.get("cost")))  # OpenRouter's


def text_in(content: object) -> str:
    """The text of a content: a string, or the texts in a list of parts."""
    if isinstance(content, str):
        return content
    parts = [as_dict(part) for part in as_list(content)]
    return "".join(as_text(part.get("text")) for part in parts if part.get("type") == "text")


def _content_parts(message: JsonObject) -> list[Part]:
    text = _text_of(message)
    parts: list[Part] = [Text(text)] if text or message.get("content") is not None else []
    if refusal := as_text(message.get("refusal")):
        parts.append(Refusal(refusal))
    return [*parts, *images_in(message)]


def _text_of(message: JsonObject) -> str:
    """The text of a message, or what it says in an audio answer."""
    content = message.get("content")
    return transcript_in(message) if content is None else text_in(content)


def transcript_in(message: JsonObject) -> str:
    """The transcript of an audio answer, or of a piece of one."""
    return as_text(as_dict(message.get(AUDIO)).get("transcript"))


def images_in(message: JsonObject) -> list[Image]:
    """Images in OpenRouter's shape."""
    image_urls = (as_dict(as_dict(image).get("image_url")) for image in as_list(message.get("images")))
    return [_image(url) for value in image_urls if (url := as_text(value.get("url")))]


def _image(url: str) -> Image:
    about, comma, data = url.partition(";base64,")
    return Image(data=data, media_type=about.removeprefix("data:")) if comma else Image(url)


def _read_thoughts(message: JsonObject) -> list[Part]:
    if details := [as_dict(detail) for detail in as_list(message.get("reasoning_details"))]:
        return [read_thought(detail) for detail in details]
    texts = ((source, as_text(message.get(name))) for source, name in THOUGHTS.items())
    return next(([Reasoning(text, source=source)] for source, text in texts if text), [])


def read_thought(detail: JsonObject) -> Reasoning:
    return Reasoning(
        as_text(detail.get("text")) or as_text(detail.get("summary")),
        as_text(detail.get("signature")),
        as_text(detail.get("data")),
        as_text(detail.get("format")) or SOURCE,
        as_text(detail.get("id")),
    )


def _calls(message: JsonObject, reply_id: str) -> list[Part]:
    calls = [as_dict(call) for call in as_list(message.get("tool_calls"))]
    return [_call(call, derived_call_id(reply_id, str(number))) for number, call in enumerate(calls)]


def _call(call: JsonObject, spare_id: str) -> ToolCall:
    function = as_dict(call.get("function"))
    return ToolCall(
        as_text(call.get("id")) or spare_id,
        as_text(function.get("name")),
        arguments_text(function.get("arguments")),
        signature_of(call),
    )


def signature_of(call: JsonObject) -> str:
    """The signature of a call in Google's OpenAI-compatible API."""
    return as_text(as_dict(as_dict(call.get("extra_content")).get("google")).get("thought_signature"))
