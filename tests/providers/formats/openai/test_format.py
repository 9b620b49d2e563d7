"""OpenAI's format for clients of other shapes: conversations written as its API takes them."""

import json
import time

import pytest

from gateway_project.errors import ProviderError, ValidationError
from providers.formats import FORMATS, Options
from providers.formats.base import EVENT_STREAM
from providers.formats.dialect import Dialect, WorkRequest
from providers.formats.neutral.chat import Chat, OutputFormat, Thinking, Tool, ToolChoice
from providers.formats.neutral.deltas import CallStart
from providers.formats.neutral.messages import (
    File,
    Image,
    Message,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Verbatim,
)
from providers.formats.openai.stream import ChunkReader
from providers.formats.sse import data_of, events_in
from tests.support.doors.openai_types import validated_event
from tests.support.formats.samples import request, streams, whole
from tests.support.pace import slowness
from tests.support.recorded_samples import SHAPES

pytestmark = pytest.mark.embedded

RESPONSES = FORMATS["openai-responses"]
MESSAGES_BY_FORMAT = {"type": "output_text", "text": "Lisbon", "annotations": [], "logprobs": []}
PICTURE = Image(data="aGk=", media_type="image/png")


class Told(Dialect):
    """A client's shape of which only the conversation is known."""

    name = "told"

    def __init__(self, chat):
        self.told = chat

    def read_chat(self, body):
        return self.told


def recorded(name):
    return json.loads(next(sample for sample in whole("openai-responses") if sample.name == name).body)


def outgoing(chat, model="m", stream=False, policy="drop"):
    chat.messages = chat.messages or [Message("user", [Text("Hi")])]
    work = WorkRequest("chat", model, {}, b"{}", stream, Told(chat), True)
    return FORMATS["openai"].request(work, model, Options(policy))


def body(chat=None, **options):
    return json.loads(outgoing(chat or Chat(), **options).body)


def written(*messages):
    return body(Chat(list(messages)))["messages"]


def said(*parts):
    return written(Message("user", [Text("Hi")]), Message("assistant", list(parts)))[1:]


def chunk(*calls):
    return ChunkReader().read({"id": "c", "choices": [{"delta": {"tool_calls": list(calls)}}]})


class TestMessages:
    def test_a_conversation_with_calls(self):
        assert written(
            Message("system", [Text("Be brief."), Text("Be kind.")]),
            Message("user", [Text("Weather?")], "ann"),
            Message("assistant", [Text("Let me "), Text("see."), ToolCall("a", "now"), ToolCall("b", "w", '{"c":1}')]),
            Message("tool", [ToolResult("a", [Text("1"), Text("2")], "now"), ToolResult("b", [], "w", is_error=True)]),
        ) == [
            {"role": "system", "content": "Be brief.\n\nBe kind."},
            {"role": "user", "content": "Weather?", "name": "ann"},
            {
                "role": "assistant",
                "content": "Let me see.",
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "now", "arguments": "{}"}},
                    {"id": "b", "type": "function", "function": {"name": "w", "arguments": '{"c":1}'}},
                ],
            },
            {"role": "tool", "tool_call_id": "a", "content": "1\n2"},
            {"role": "tool", "tool_call_id": "b", "content": "Error: "},
        ]

    def test_pictures_stand_behind_all_results_and_before_what_a_user_says(self):
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
        first, second = ToolResult("a", [PICTURE, Text("seen")]), ToolResult("b", [Text("2")])
        assert written(Message("tool", [first]), Message("tool", [second]), Message("user", [Text("Go on.")])) == [
            {"role": "tool", "tool_call_id": "a", "content": "seen"},
            {"role": "tool", "tool_call_id": "b", "content": "2"},
            {"role": "user", "content": [picture]},
            {"role": "user", "content": "Go on."},
        ]
        assert written(Message("tool", [first]))[-1] == {"role": "user", "content": [picture]}

    def test_results_stand_before_what_a_user_says_beside_them(self):
        turns = written(Message("user", [Text("Go on."), ToolResult("b", [Text("2")])]))
        assert [turn["role"] for turn in turns] == ["tool", "user"]

    @pytest.mark.parametrize(
        ("part", "expected"),
        [
            (Image("x:y", detail="low"), {"type": "image_url", "image_url": {"url": "x:y", "detail": "low"}}),
            (File("aGk=", "audio/wav"), {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}),
            (
                File("aGk=", "application/pdf", "a.pdf"),
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}},
            ),
            (File(id="file-1"), {"type": "file", "file": {"file_id": "file-1"}}),
            (Verbatim({"type": "x"}, "openai-chat"), {"type": "x"}),
        ],
    )  # fmt: skip
    def test_parts_of_a_user(self, part, expected):
        assert written(Message("user", [part]))[0]["content"] == [expected]

    @pytest.mark.parametrize("part", [File(url="https://x/a.pdf"), Verbatim({"type": "document"}, "anthropic")])
    def test_what_has_no_place_is_refused(self, part):
        with pytest.raises(ValidationError, match="messages: "):
            written(Message("user", [part]))

    def test_thoughts_go_back_in_the_fields_they_came_in_and_to_nobody_else(self):
        text = Text("Hi")
        assert said(Reasoning("Hm.", source="openai"), text)[0]["reasoning_content"] == "Hm."
        assert said(Reasoning("Hm.", source="openai.reasoning"), text)[0]["reasoning"] == "Hm."
        (message,) = said(Reasoning("Hm.", "s", source="anthropic-claude-v1"), text)
        assert message["reasoning_details"] == [
            {"type": "reasoning.text", "text": "Hm.", "signature": "s", "format": "anthropic-claude-v1", "index": 0}
        ]
        assert said(Reasoning("Hm.", "s", source="anthropic"), text) == [{"role": "assistant", "content": "Hi"}]
        assert said(Reasoning("Hm.", "s", source="anthropic")) == []

    def test_many_thoughts_go_back_in_linear_time(self):
        begun = time.process_time()
        answer = said(Text("ok"), *[Reasoning("x" * 300, source="openai")] * 20_000)[0]
        assert len(answer["reasoning_content"]) == 6_000_000
        assert time.process_time() - begun < 2 * slowness()

    def test_a_refusal_and_a_signed_call(self):
        assert said(Refusal("No.")) == [{"role": "assistant", "content": None, "refusal": "No."}]
        signed = said(ToolCall("a", "f", "{}", "sig"))[0]["tool_calls"][0]
        assert signed["extra_content"] == {"google": {"thought_signature": "sig"}}


class TestCallsInPieces:
    @pytest.mark.long
    def test_many_calls_take_linear_time(self):
        calls = [{"id": f"call_{number}", "function": {"name": "f"}} for number in range(20_000)]
        begun = time.process_time()
        deltas = chunk(*calls, *calls)
        assert [delta.id for delta in deltas if isinstance(delta, CallStart)] == [call["id"] for call in calls]
        assert time.process_time() - begun < 2 * slowness()

    def test_arguments_that_wait_for_the_name_of_their_call_take_linear_time(self):
        begun = time.process_time()
        began, arguments = chunk(*[{"function": {"arguments": "x" * 300}}] * 20_000, {"function": {"name": "f"}})[1:]
        assert (began.name, len(arguments.arguments)) == ("f", 6_000_000)
        assert time.process_time() - begun < 2 * slowness()


class TestParameters:
    def test_all_of_them(self):
        chat = Chat(
            tools=[Tool("f", "does", {"type": "object"}, True), Tool("g")], tool_choice=ToolChoice("tool", "f"),
            parallel_tools=False, temperature=0, top_p=0.5, stop=["END"], seed=0, choices=2, presence_penalty=1,
            frequency_penalty=2, output=OutputFormat("schema", {"type": "object"}, strict=True), user="u",
            thinking=Thinking("low"),
        )  # fmt: skip
        function = {
            "name": "f",
            "description": "does",
            "parameters": {"type": "object", "properties": {}},
            "strict": True,
        }
        assert body(chat) == {
            "model": "m",
            "messages": [{"role": "user", "content": "Hi"}],
            "tools": [{"type": "function", "function": function}, {"type": "function", "function": {"name": "g"}}],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "parallel_tool_calls": False,
            "temperature": 0,
            "top_p": 0.5,
            "stop": ["END"],
            "seed": 0,
            "n": 2,
            "presence_penalty": 1,
            "frequency_penalty": 2,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True},
            },
            "user": "u",
            "reasoning_effort": "low",
        }

    def test_a_stream_tells_its_usage(self):
        assert body(stream=True)["stream_options"] == {"include_usage": True}

    @pytest.mark.parametrize(
        ("model", "name"),
        [
            ("gpt-4o", "max_tokens"),
            ("llama-3", "max_tokens"),
            ("gpt-5-mini", "max_completion_tokens"),
            ("o3", "max_completion_tokens"),
            ("openai/gpt-10", "max_completion_tokens"),
        ],
    )
    def test_models_that_think_have_another_name_for_the_length(self, model, name):
        assert body(Chat(max_tokens=7), model=model)[name] == 7

    @pytest.mark.parametrize(("budget", "effort"), [(1024, "low"), (4096, "medium"), (30000, "high")])
    def test_a_budget_is_an_effort_for_models_that_think_and_dropped_for_others(self, budget, effort):
        thinking = Thinking(budget=budget)
        assert body(Chat(thinking=thinking), model="gpt-5")["reasoning_effort"] == effort
        sent = outgoing(Chat(thinking=thinking), model="llama-3")
        assert sent.dropped == ("reasoning_effort",)
        assert "reasoning_effort" not in json.loads(sent.body)

    def test_what_the_format_does_not_know_meets_the_policy(self):
        assert outgoing(Chat(top_k=3, extra={"novel": 1})).dropped == ("novel", "top_k")

    @pytest.mark.parametrize("policy", ["pass", "drop", "refuse"])
    def test_hints_that_it_does_not_know_are_left_out_whatever_the_policy(self, policy):
        chat = Chat(extra={"client_metadata": {"a": "b"}, "prompt_cache_key": "k"})
        sent = outgoing(chat, policy=policy)
        assert sent.dropped == ("client_metadata",)
        assert json.loads(sent.body)["prompt_cache_key"] == "k"

    def test_a_choice_among_no_tools_is_left_out(self):
        assert "tool_choice" not in body(Chat(tool_choice=ToolChoice("auto"), parallel_tools=True))


COMPLETION = {"id": "cmpl-1", "model": "m-2", "choices": [{"index": 0, "text": "Lisbon", "finish_reason": "length"}]}


class TestAnswersInPlaceOfStreams:
    """A client that waits for events gets some, whatever the provider made of `stream`."""

    def test_a_text_completion(self):
        asked = {"model": "m", "prompt": "Hi", "stream": True, "stream_options": {"include_usage": True}}
        work, counted = request(asked, "completion", door=True), {"prompt_tokens": 1, "completion_tokens": 2}
        answer = FORMATS["openai"].answer(work, json.dumps(COMPLETION | {"usage": counted}).encode())
        reader = FORMATS["openai"].reader(work)
        assert reader.feed(answer.body) == answer.body
        assert (reader.text(answer.body), reader.finish_reason, reader.done) == ("Lisbon", "length", True)
        assert (answer.content_type, answer.usage) == (EVENT_STREAM, reader.usage)
        assert b'"id":"cmpl-1"' in answer.body

    def test_on_work_it_comes_as_the_provider_gave_it(self):
        work, body = request({"model": "m", "prompt": "Hi", "stream": True}, "completion"), json.dumps(COMPLETION)
        answer = FORMATS["openai"].answer(work, body.encode())
        assert (answer.body, answer.content_type) == (body.encode(), "application/json")

    @pytest.mark.parametrize("operation", ["chat", "completion"])
    def test_of_several_choices_none_is_lost_in_silence(self, operation):
        choices = [{"index": at, "text": "a", "message": {"content": "a"}, "finish_reason": "stop"} for at in (0, 1)]
        asked = {"model": "m", "prompt": "Hi", "messages": [{"role": "user", "content": "Hi"}], "n": 2}
        body = json.dumps({"choices": choices}).encode()
        assert FORMATS["openai"].answer(request(asked, operation, door=True), body).body == body
        with pytest.raises(ProviderError, match="several complete choices"):
            FORMATS["openai"].answer(request(asked | {"stream": True}, operation, door=True), body)

    def test_a_response(self):
        items = [
            {
                "id": "ws_1",
                "type": "web_search_call",
                "status": "completed",
                "action": {"type": "search", "query": "q"},
            },
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [MESSAGES_BY_FORMAT],
            },
        ]
        response = recorded("responses_plain") | {"output": items}
        work = request({"model": "m", "input": "Hi", "stream": True}, door=True, dialect=SHAPES["openai-responses"])
        answer = RESPONSES.answer(work, json.dumps(response).encode())
        events = [json.loads(data_of(event)) for event in events_in(answer.body)]
        assert [validated_event(event).type for event in events] == [event["type"] for event in events]
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert events[-1] == {"type": "response.completed", "sequence_number": len(events) - 1, "response": response}
        assert [event["item"] for event in events if event["type"] == "response.output_item.done"] == items
        assert work.dialect.text(answer.body) == answer.text == "Lisbon"
        assert answer.content_type == EVENT_STREAM


class TestResponsesThatBreak:
    STREAM = next(sample for sample in streams("openai-responses") if sample.name == "responses_plain").body
    WORK = request({"model": "m", "input": "Hi", "stream": True}, door=True, dialect=SHAPES["openai-responses"])

    @pytest.mark.parametrize("events", [1, 2, 5, 6])
    def test_what_tells_it_goes_on_counting_and_names_the_same_response(self, events):
        reader = RESPONSES.reader(self.WORK)
        handed_on = reader.feed(b"".join(list(events_in(self.STREAM))[:events]) + b": keep-alive\n\n")
        written = handed_on + reader.end_with_error(ProviderError("It broke."))
        told = [json.loads(data_of(event)) for event in events_in(written) if data_of(event)]
        assert [event["sequence_number"] for event in told] == list(range(events + 2))
        assert [event["type"] for event in told[events:]] == ["response.failed", "error"]
        assert told[events]["response"]["id"] == told[0]["response"]["id"] == "resp_0abc"
        assert told[events]["response"]["status"] == "failed"

    def test_one_that_has_not_begun_begins(self):
        told = RESPONSES.reader(self.WORK).end_with_error(ProviderError("It broke."))
        assert [json.loads(data_of(event))["sequence_number"] for event in events_in(told)] == [0, 1, 2, 3]

    def test_servers_that_do_not_count(self):
        reader = RESPONSES.reader(self.WORK)
        reader.feed(b'data: {"type":"response.created","sequence_number":null,"response":{"id":"r"}}\n\n')
        told = [json.loads(data_of(event)) for event in events_in(reader.end_with_error(ProviderError("It broke.")))]
        assert [(event["type"], event["sequence_number"]) for event in told] == [("response.failed", 1), ("error", 2)]


class TestEmbeddings:
    VECTOR = [0.5, -2.0]

    @pytest.mark.parametrize(
        ("asked", "given", "got"),
        [
            ("base64", VECTOR, "AAAAPwAAAMA="),
            ("base64", "AAAAPwAAAMA=", "AAAAPwAAAMA="),
            ("float", "AAAAPwAAAMA=", VECTOR),
            (None, VECTOR, VECTOR),
        ],
    )
    def test_vectors_come_as_a_clients_sdk_asks_whatever_the_provider_gives(self, asked, given, got):
        answer = {"object": "list", "data": [{"index": 0, "embedding": given}], "novel": 1}
        work = WorkRequest("embedding", "m", {"encoding_format": asked}, b"", via_door=True)
        assert json.loads(FORMATS["openai"].answer(work, json.dumps(answer).encode()).body) == {
            **answer,
            "data": [{"index": 0, "embedding": got}],
        }
