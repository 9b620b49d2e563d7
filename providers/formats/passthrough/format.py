"""Any JSON service: the body is posted to exactly the provider's URL, and the answer is returned unchanged."""

from collections.abc import Mapping

from gateway_project.errors import ProviderError, UnusableAnswer
from providers.formats.base import (
    DEFAULT_OPTIONS,
    ClientResponse,
    Format,
    Options,
    OutgoingRequest,
    StreamReader,
    error_in,
)
from providers.formats.dialect import WorkRequest
from providers.formats.json_values import as_dict, as_list, read_json
from providers.formats.kept_state import FILES, Kind, Reference, files_in, spellings_of
from providers.formats.openai.kept_state import names_item
from providers.formats.passthrough.reply import familiar_finish, familiar_text, familiar_usage
from providers.formats.passthrough.stream import PassthroughReader

STREAM_TYPES = {"text/event-stream", "application/x-ndjson", "application/jsonl", "application/stream+json"}
# Whatever the service is, these names may mean to it what they mean to OpenAI, Anthropic and Google.
KEPT = {
    **FILES,
    "previous_response_id": Kind.RESPONSE,
    "previous_interaction_id": Kind.RESPONSE,
    "previous_message_id": Kind.THREAD,
    "conversation": Kind.CONVERSATION,
    "container": Kind.CONTAINER,
    "container_id": Kind.CONTAINER,
    "prompt": Kind.PROMPT,
}
KEPT_SPELLINGS = spellings_of(KEPT)
REFERENCE_MEMBERS = {"type", "id", "status", "summary"}  # what an item may have that refers to one


class Passthrough(Format):
    """Requires only JSON; usage, text and finish reason are read from familiar places."""

    name = "passthrough"
    has_known_shape = False

    def request(self, work: WorkRequest, model: str, options: Options = DEFAULT_OPTIONS) -> OutgoingRequest:
        return OutgoingRequest("", work.body_for(model))

    def translates(self, work: WorkRequest) -> bool:
        return False  # the provider's shape is unknown

    def references(self, work: WorkRequest) -> tuple[Reference, ...]:
        """By the names of fields. Nothing is known of answers: what has to have an owner is refused."""
        items = enumerate(map(as_dict, as_list(work.body.get("input"))))
        bare = (
            Reference(Kind.ITEM, str(item["id"]), f"input[{number}].id")
            for number, item in items
            if item.keys() <= REFERENCE_MEMBERS and names_item(item)
        )
        return (*files_in(work.raw, work.body, KEPT, KEPT_SPELLINGS), *bare)

    def url(self, base: str, path: str) -> str:
        return base

    def is_stream(self, content_type: str) -> bool:
        return content_type.partition(";")[0].strip().lower() in STREAM_TYPES

    def answer_from_response(self, work: WorkRequest, headers: Mapping[str, str], body: bytes) -> ClientResponse:
        """Some services stream unless they are asked not to."""
        if self.is_stream(headers.get("content-type", "")) and not isinstance(read_json(body), dict | list):
            raise UnusableAnswer("The provider answered with a stream, but the request does not set `stream` to true.")
        return self.answer(work, body)

    def answer(self, work: WorkRequest, body: bytes) -> ClientResponse:
        value = read_json(body)
        if not isinstance(value, dict | list):
            raise ProviderError("The provider answered 200 with something that is not JSON.")
        answer = ClientResponse(body)
        if isinstance(value, dict):
            if error := error_in(value):
                raise error
            answer.usage, answer.text = familiar_usage(value), familiar_text(value)
            answer.provider_finish_reason, answer.finish_reason = familiar_finish(value)
        return answer

    def native_reader(self, work: WorkRequest) -> StreamReader:
        return PassthroughReader(work)
