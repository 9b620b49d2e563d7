"""OpenAI's Responses: items read, answers and events written, each as OpenAI's own SDK reads them."""

import json

import pytest

from gateway_project.errors import ProviderError, ValidationError
from gateway_project.work.doors.openai.responses import OpenAIResponses
from providers.formats import Usage
from providers.formats.json_values import read_json
from providers.formats.neutral.chat import OutputFormat, Thinking, Tool, ToolChoice
from providers.formats.neutral.deltas import (
    AnswerEnd,
    AnswerStart,
    CallDelta,
    CallStart,
    ImageDelta,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
)
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
from providers.formats.neutral.reply import Reply
from providers.formats.sse import data_of, events_in
from tests.support.doors.openai_types import validate_response, validated_event
from tests.support.formats.samples import request

pytestmark = pytest.mark.embedded

DIALECT = OpenAIResponses()
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}
THOUGHT = Reasoning("Hm.", "s", source="anthropic")
SIGNED = ToolCall("c", "weather", "{}", "sig")


def read(given="Hi", **parameters):
    return DIALECT.read_chat({"model": "m", "input": given, **parameters})


def work(**body):
    return request({"model": "m", "input": "Hi", **body}, door=True, dialect=DIALECT)


class TestInput:
    def test_a_string_is_what_the_user_says_and_instructions_stand_before_it(self):
        assert read("Hi", instructions="Be brief.").messages == [
            Message("system", [Text("Be brief.")]),
            Message("user", [Text("Hi")]),
        ]

    def test_items_become_turns_and_what_the_model_said_in_a_row_is_one(self):
        items = [
            {"role": "developer", "content": "Be brief."},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
            {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "gAAA"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me see."}]},
            {"type": "function_call", "id": "fc", "call_id": "c", "name": "weather", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "Sunny"},
            {"type": "function_call_output", "call_id": "d", "output": [{"type": "input_text", "text": "Rain"}]},
        ]
        assert read(items).messages == [
            Message("system", [Text("Be brief.")]),
            Message("user", [Text("Weather?")]),
            Message(
                "assistant",
                [
                    Reasoning(data="gAAA", source="openai-responses"),
                    Text("Let me see."),
                    ToolCall("c", "weather", "{}"),
                ],
            ),
            Message("tool", [ToolResult("c", [Text("Sunny")], "weather")]),
            Message("tool", [ToolResult("d", [Text("Rain")])]),
        ]

    @pytest.mark.parametrize(
        ("part", "expected"),
        [
            ({"type": "input_image", "image_url": "https://x/y", "detail": "low"}, Image("https://x/y", detail="low")),
            (
                {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"},
                Image(data="aGk=", media_type="image/png", detail="auto"),
            ),
            ({"type": "input_image", "file_id": "f"}, File(id="f")),
            (
                {"type": "input_file", "file_data": "data:application/pdf;base64,aGk=", "filename": "a.pdf"},
                File("aGk=", "application/pdf", "a.pdf"),
            ),
            ({"type": "input_file", "file_url": "https://x/a.pdf"}, File(url="https://x/a.pdf")),
            ({"type": "input_file", "file_id": "f"}, File(id="f")),
            ({"type": "refusal", "refusal": "No."}, Refusal("No.")),
            ({"type": "input_hologram"}, Verbatim({"type": "input_hologram"}, "openai-responses")),
        ],
    )
    def test_parts(self, part, expected):
        assert read([{"role": "user", "content": [part]}]).messages[0].parts == [expected]

    def test_a_refusal_that_a_function_gave_is_its_words(self):
        values = {"type": "function_call_output", "call_id": "c", "output": [{"type": "refusal", "refusal": "No."}]}
        assert read([values]).messages == [Message("tool", [ToolResult("c", [Text("No.")])])]


class TestParameters:
    def test_those_that_are_known(self):
        chat = read(
            max_output_tokens=7, temperature=0.5, top_p=1, parallel_tool_calls=False, user="u",
            reasoning={"effort": "low", "summary": "auto"}, tools=[WEATHER], store=False, truncation="disabled",
            include=["reasoning.encrypted_content"], metadata={"a": "b"}, background=False,
            tool_choice={"type": "function", "name": "weather"}, text={"verbosity": "low"}, novel=1,
        )  # fmt: skip
        assert (chat.max_tokens, chat.temperature, chat.top_p, chat.parallel_tools, chat.user) == (
            7,
            0.5,
            1,
            False,
            "u",
        )
        assert (chat.thinking, chat.tools) == (Thinking("low"), [Tool("weather", "", SCHEMA, True)])
        assert chat.tool_choice == ToolChoice("tool", "weather")
        assert chat.extra == {"verbosity": "low", "novel": 1}

    def test_a_format(self):
        values = {"type": "json_schema", "name": "a", "schema": SCHEMA, "strict": True}
        assert read(text={"format": values}).output == OutputFormat("schema", SCHEMA, "a", True)
        assert read(text={"format": {"type": "json_object"}}).output == OutputFormat("json")
        assert read(text={"format": {"type": "text"}}).output is None

    def test_what_others_do_not_have_meets_the_policy(self):
        search, choice = {"type": "web_search"}, {"type": "web_search"}
        chat = read(tools=[search], tool_choice=choice, truncation="auto", include=["web_search_call.action.sources"])
        assert chat.extra == {
            "tools.web_search": [search],
            "tool_choice.web_search": choice,
            "truncation": "auto",
            "include": ["web_search_call.action.sources"],
        }

    @pytest.mark.parametrize(
        "body",
        [
            {"previous_response_id": "resp_1"},
            {"conversation": "conv_1"},
            {"store": True},
            {"background": True},
            {"prompt": {"id": "pmpt_1"}},
        ],
    )
    def test_a_request_for_a_stored_conversation_is_refused(self, body):
        with pytest.raises(ValidationError, match="Send the whole conversation in input") as caught:
            read(**body)
        assert caught.value.field == next(iter(body))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": [5]}, "input"),
        ({"input": [{"role": "robot", "content": "Hi"}]}, "input[0].role"),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0].image_url"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0]"),
        ({"input": [{"type": ["message"]}]}, "input[0].type"),
        ({"input": [{"type": "function_call", "name": "f"}]}, "input[0].call_id"),
        ({"input": [{"type": "function_call_output", "call_id": "c"}]}, "input[0].output"),
        ({"input": [{"type": "reasoning", "summary": [{}]}]}, "input[0].summary[0].text"),
        ({"instructions": 5}, "instructions"),
        ({"max_output_tokens": "many"}, "max_output_tokens"),
        ({"max_output_tokens": 10**400}, "max_output_tokens"),
        ({"tools": [{"type": "function", "function": {"name": "nested"}}]}, "tools[0].name"),
        ({"tool_choice": "perhaps"}, "tool_choice"),
        ({"text": {"format": {"type": "json_schema", "name": "a"}}}, "text.format.schema"),
        ({"text": "short"}, "text"),
        ({"reasoning": "low"}, "reasoning"),
        ({"include": 5}, "include"),
    ],
)
def test_what_is_wrong_is_told_by_its_name(body, field):
    with pytest.raises(ValidationError) as caught:
        DIALECT.read_chat({"model": "m", "input": "Hi", **body})
    assert caught.value.field == field


def test_an_item_that_nobody_kept_is_refused_with_what_to_send_instead():
    with pytest.raises(ValidationError, match="item_reference .* with store false"):
        DIALECT.read_chat({"model": "m", "input": [{"type": "item_reference", "id": "x"}]})


class TestAnswers:
    def write(self, *said, reason="stop", provider_reason="", usage=None, asked=None):
        answer = json.loads(
            DIALECT.write_reply(work(**(asked or {})), Reply(list(said), reason, provider_reason, usage, "x"))
        )
        validate_response(answer)
        return answer

    def test_text(self):
        values = {"instructions": "Be brief.", "metadata": {"a": "b"}, "temperature": 0, "tools": [WEATHER]}
        answer = self.write(Text("Lis"), Text("bon"), usage=Usage(10, 3, 2, 7, 1), asked=values)
        assert (answer["id"], answer["status"], answer["store"], answer["created_at"]) == (
            *("resp_x", "completed", False, 1787270400),
        )
        assert {name: answer[name] for name in values} == values
        (item,) = answer["output"]
        assert (item["type"], [part["text"] for part in item["content"]]) == ("message", ["Lis", "bon"])
        assert answer["usage"] == {
            "input_tokens": 15,
            "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 1},
            "total_tokens": 22,
        }

    def test_what_was_said_goes_out_as_it_would_come_back(self):
        texts = [
            THOUGHT,
            Reasoning(data="d", source="anthropic"),
            Text("Hi"),
            Refusal("No."),
            SIGNED,
            ToolCall("d", "now"),
        ]
        answer = self.write(*texts, reason="tool")
        assert [item["type"] for item in answer["output"]] == [
            *("reasoning", "reasoning", "message", "reasoning", "function_call", "function_call")
        ]
        assert len({item["id"] for item in answer["output"]}) == 6
        texts[-1] = ToolCall("d", "now", "{}")
        assert read(answer["output"]).messages == [Message("assistant", texts)]

    @pytest.mark.parametrize(
        ("reason", "provider_reason", "status", "why"),
        [
            ("stop", "end_turn", "completed", None),
            ("tool", "tool_use", "completed", None),
            ("length", "max_tokens", "incomplete", "max_output_tokens"),
            ("filter", "SAFETY", "incomplete", "content_filter"),
        ],
    )
    def test_how_it_ended(self, reason, provider_reason, status, why):
        answer = self.write(Text("Hi"), reason=reason, provider_reason=provider_reason)
        assert (answer["status"], (answer["incomplete_details"] or {}).get("reason")) == (status, why)

    def test_an_end_that_openai_does_not_know_is_not_called_complete(self):
        answer = json.loads(DIALECT.write_reply(work(), Reply([Text("Hi")], "pause", "pause_turn")))
        assert (answer["status"], answer["incomplete_details"]) == ("incomplete", {"reason": "pause_turn"})

    def test_an_answer_that_ended_in_an_error_failed(self):
        answer = self.write(reason="error", provider_reason="MALFORMED")
        assert (answer["status"], answer["error"]["code"]) == ("failed", "server_error")
        assert "MALFORMED" in answer["error"]["message"]

    @pytest.mark.parametrize("sealed", ["svc1.", "svc1.!", "svc1.eyJ4Ijox", "svc1.W10="])
    def test_a_seal_that_was_damaged_is_a_thought_of_nobody(self, sealed):
        item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": sealed}
        assert read([item]).messages[0].parts == [Reasoning("Hm.")]


class TestStreams:
    def events(self, written):
        results = []
        for event in events_in(written):
            value = read_json(data_of(event))
            assert event.startswith(f"event: {value['type']}\n".encode())
            results.append(value)
        assert [value["sequence_number"] for value in results] == list(range(len(results)))
        return results

    def stream(self, *deltas, usage=None):
        writer = DIALECT.writer(work(stream=True))
        written = b"".join(writer.write([delta]) for delta in deltas) + writer.end(usage)
        events = self.events(written)
        for event in events:
            validated_event(event)
        return events

    def test_text(self):
        deltas = [AnswerStart("x", "m-2"), TextDelta("Lis"), TextDelta("bon"), AnswerEnd("stop", "end_turn")]
        events = self.stream(*deltas, usage=Usage(1, output=2))
        assert [event["type"].removeprefix("response.") for event in events] == [
            *("created", "in_progress", "output_item.added", "content_part.added"),
            *("output_text.delta", "output_text.delta", "output_text.done", "content_part.done"),
            *("output_item.done", "completed"),
        ]
        last = events[-1]["response"]
        assert (last["id"], last["model"], last["status"]) == ("resp_x", "m-2", "completed")
        assert last["output"][0]["content"][0]["text"] == "Lisbon"
        assert last["usage"]["total_tokens"] == 3
        assert events[0]["response"]["status"] == "in_progress"

    def test_the_whole_response_at_the_end_is_what_an_answer_without_stream_would_be(self):
        parts = [THOUGHT, Text("Hi"), Refusal("No."), SIGNED, ToolCall("d", "now")]
        deltas = [
            ReasoningDelta("H", source="anthropic"), ReasoningDelta("m."), ReasoningDelta(signature="s"),
            TextDelta("Hi"), RefusalDelta("N"), RefusalDelta("o."), CallStart(0, "c", "weather", "sig"),
            CallDelta(0, "{}"), CallStart(1, "d", "now"), AnswerEnd("tool", "tool_use"),
        ]  # fmt: skip
        last = self.stream(AnswerStart("x", "m-2"), *deltas, usage=Usage(1, output=2))[-1]["response"]
        reply = Reply(parts, "tool", "tool_use", Usage(1, output=2), "x", "m-2")
        assert last == json.loads(DIALECT.write_reply(work(stream=True), reply))

    @pytest.mark.parametrize("picture", [Image(data="aGk=", media_type="image/png"), Image("https://x/y.png")])
    def test_a_picture_is_an_item_that_comes_back(self, picture):
        output = self.stream(TextDelta("Here:"), ImageDelta(picture), AnswerEnd("stop"))[-1]["response"]["output"]
        whole = json.loads(DIALECT.write_reply(work(), Reply([Text("Here:"), picture], "stop")))["output"]
        assert output == whole
        assert read(output).messages == [Message("assistant", [Text("Here:"), picture])]

    def test_every_item_is_added_and_done_and_calls_that_come_in_turns_stay_apart(self):
        events = self.stream(
            CallStart(0, "a", "weather"), CallStart(1, "b", "now"), CallDelta(0, '{"city":'), CallDelta(1, "{"),
            CallDelta(0, '"Lisbon"}'), CallDelta(1, "}"), AnswerEnd("tool"),
        )  # fmt: skip
        results = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        assert [(item["call_id"], item["arguments"]) for item in results] == [("a", '{"city":"Lisbon"}'), ("b", "{}")]
        added = [event["item"]["id"] for event in events if event["type"] == "response.output_item.added"]
        assert added == [item["id"] for item in results]

    def test_another_thought_is_another_item(self):
        deltas = [ReasoningDelta("a", source="s"), ReasoningDelta(data="d", source="s", begins=True), AnswerEnd("stop")]
        output = self.stream(*deltas)[-1]["response"]["output"]
        assert read(output).messages[0].parts == [Reasoning("a", source="s"), Reasoning(data="d", source="s")]

    @pytest.mark.parametrize(
        ("reason", "kind"), [("length", "incomplete"), ("filter", "incomplete"), ("error", "failed")]
    )
    def test_the_last_event_says_how_it_ended(self, reason, kind):
        assert self.stream(TextDelta("Hi"), AnswerEnd(reason))[-1]["type"] == f"response.{kind}"

    def test_a_stream_that_breaks_off_fails(self):
        writer = DIALECT.writer(work(stream=True))
        written = writer.write([TextDelta("Lis")]) + writer.end_with_error(ProviderError("It broke."))
        *_, failed, error = self.events(written)
        validated_event(failed)
        assert failed["response"]["error"] == {"code": "server_error", "message": "It broke."}
        assert (error["type"], error["message"], error["code"]) == ("error", "It broke.", "provider_error")
        assert error["error"]["message"] == "It broke."

    def test_its_text(self):
        writer = DIALECT.writer(work(stream=True))
        assert DIALECT.text(writer.write([TextDelta("Lis"), TextDelta("bon"), CallStart(0, "a", "f")])) == "Lisbon"
