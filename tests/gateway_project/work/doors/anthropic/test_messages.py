"""Anthropic's Messages: requests read, answers and streams written."""

import json

import pytest

from gateway_project.errors import ProviderError, QuotaExceeded, ValidationError
from gateway_project.work.doors import MESSAGES
from providers.formats import FORMATS, Usage
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
from providers.formats.neutral.reply import Citation, Reply
from providers.formats.sse import data_of, events_in
from tests.support.doors.anthropic_client import RESULT, work, written

pytestmark = pytest.mark.embedded

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Lisbon"}}


def read(*messages, **parameters):
    return work(**({"messages": list(messages)} if messages else {}), **parameters).chat


def parts(content, role="user"):
    """The parts that one message's content is read as."""
    return read({"role": role, "content": content}).messages[0].parts


def events(*deltas, usage=None):
    """The events that a client gets: what their data hold."""
    writer = MESSAGES.writer(work(stream=True))
    stream = b"".join([writer.write([delta]) for delta in deltas]) + writer.end(usage)
    for event in events_in(stream):
        assert event.startswith(f"event: {json.loads(data_of(event))['type']}\n".encode())
    return [json.loads(data_of(event)) for event in events_in(stream)]


class TestMessagesAreRead:
    def test_each_role_has_its_place_and_results_are_a_message_of_their_own(self):
        chat = read(
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": [{"type": "text", "text": "I look."}, CALL]},
            {"role": "user", "content": [RESULT | {"is_error": True}, {"type": "text", "text": "And?"}]},
            {"role": "system", "content": "Be quick."},
            system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        )
        assert chat.messages == [
            Message("system", [Text("Be brief.", {"type": "ephemeral"})]),
            Message("user", [Text("Weather?")]),
            Message("assistant", [Text("I look."), ToolCall("toolu_1", "weather", '{"city":"Lisbon"}')]),
            Message("tool", [ToolResult("toolu_1", [Text("Sunny")], "weather", is_error=True)]),
            Message("user", [Text("And?")]),
            Message("system", [Text("Be quick.")]),
        ]
        assert chat.source == "anthropic-messages"

    @pytest.mark.parametrize(
        ("block", "expected"),
        [
            ({"type": "text", "text": "Hi"}, Text("Hi")),
            ({"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}, Image("https://x/y.png")),
            (
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
                Image(data="aGk=", media_type="image/png"),
            ),
            (
                {"type": "document", "title": "a", "source": {"type": "url", "url": "https://x/y.pdf"}},
                File(url="https://x/y.pdf", media_type="application/pdf", name="a"),
            ),
            (
                {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="}},
                File("aGk=", "application/pdf"),
            ),
            ({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Hi"}}, Text("Hi")),
            (
                {"type": "document", "title": "A", "context": "B", "source": {"type": "text", "data": "Hi"}},
                Text("A\n\nB\n\nHi"),
            ),
            (
                {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
                Verbatim({"type": "image", "source": {"type": "file", "file_id": "file_1"}}, "anthropic"),
            ),
            ({"type": "search_result", "title": "x"}, Verbatim({"type": "search_result", "title": "x"}, "anthropic")),
            ({"type": "thinking", "thinking": "Hm.", "signature": "s"}, Reasoning("Hm.", "s", source="anthropic")),
            ({"type": "redacted_thinking", "data": "d"}, Reasoning(data="d", source="anthropic")),
            ({"type": "thinking", "thinking": "Hm.", "signature": "gateway:x:s"}, Reasoning("Hm.", "s", source="x")),
        ],
    )
    def test_parts(self, block, expected):
        assert parts([block]) == [expected]

    def test_a_result_may_hold_anything_or_nothing(self):
        picture = {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}
        assert parts([RESULT | {"content": [picture]}])[0].parts == [Image("https://x/y.png")]
        assert parts([{"type": "tool_result", "tool_use_id": "toolu_1"}])[0].parts == []


class TestParametersAreRead:
    def test_all_that_are_known(self):
        chat = read(
            temperature=0.5, top_p=1, top_k=4, stop_sequences=["END"], metadata={"user_id": "u"},
            thinking={"type": "enabled", "budget_tokens": 2000},
        )  # fmt: skip
        assert (chat.max_tokens, chat.temperature, chat.top_p, chat.top_k, chat.stop) == (9, 0.5, 1, 4, ["END"])
        assert (chat.user, chat.thinking, chat.extra) == ("u", Thinking(budget=2000, enabled=True), {})

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ({"thinking": {"type": "disabled"}}, Thinking(enabled=False)),
            ({"thinking": {"type": "adaptive"}}, Thinking(enabled=True)),
            (
                {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
                Thinking("low", enabled=True),
            ),
            ({"output_config": {"effort": "low"}}, Thinking("low")),
            ({}, None),
        ],
    )
    def test_thinking(self, value, expected):
        assert read(**value).thinking == expected

    def test_tools_and_which_to_choose(self):
        search = {"type": "web_search_20250305", "name": "web_search"}
        tool = {"name": "weather", "description": "In a city", "input_schema": SCHEMA}
        choice = {"type": "tool", "name": "weather", "disable_parallel_tool_use": True}
        chat = read(tools=[tool, search], tool_choice=choice)
        assert chat.tools == [Tool("weather", "In a city", SCHEMA)]
        assert (chat.tool_choice, chat.parallel_tools) == (ToolChoice("tool", "weather"), False)
        assert chat.extra == {"tools.web_search_20250305": [search]}
        assert read(tool_choice={"type": "any"}).tool_choice == ToolChoice("required")

    @pytest.mark.parametrize(
        "expected", [lambda it: {"output_config": {"format": it}}, lambda it: {"output_format": it}]
    )
    def test_a_schema_for_the_answer(self, expected):
        chat = read(**expected({"type": "json_schema", "schema": SCHEMA}))
        assert chat.extra == {}
        assert chat.output == OutputFormat("schema", SCHEMA, "answer", strict=True)

    @pytest.mark.parametrize(("tier", "name"), [("standard_only", "default"), ("auto", "auto")])
    def test_the_tier_has_openais_word(self, tier, name):
        assert read(service_tier=tier).extra == {"service_tier": name}

    def test_those_that_nobody_knows_are_kept(self):
        assert read(container="c", speed=None, metadata={"user_id": "u", "x": 1}).extra == {
            "container": "c",
            "metadata": {"user_id": "u", "x": 1},
        }

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({"messages": "Hi"}, "messages"),
            ({"messages": [5]}, "messages"),
            ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
            ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
            ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "messages[0].content[0].type"),
            ({"messages": [{"role": "user", "content": [CALL | {"input": "x"}]}]}, "messages[0].content[0].input"),
            ({"system": [RESULT]}, "system"),
            ({"max_tokens": "9"}, "max_tokens"),
            ({"max_tokens": 10**400}, "max_tokens"),
            ({"tools": [{"name": "weather"}]}, "tools[0].input_schema"),
            ({"tool_choice": {"type": "some"}}, "tool_choice.type"),
            ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
            ({"thinking": {"type": "enabled", "budget_tokens": 10**400}}, "thinking.budget_tokens"),
            ({"output_config": {"format": {"type": "xml"}}}, "output_config.format.type"),
            ({"output_format": {"type": "xml"}}, "output_format.type"),
            ({"thread": {"type": "create"}}, "thread"),
            ({"metadata": "u"}, "metadata"),
            ({"tools.web_search_20250305": 5}, "tools.web_search_20250305"),
        ],
    )
    def test_what_is_wrong_is_named(self, body, field):
        with pytest.raises(ValidationError) as caught:
            read(**body)
        assert caught.value.field == field
        assert field in caught.value.message


class TestAnswersAreWritten:
    def test_a_whole_message(self):
        reply = Reply(
            [Reasoning("Hm.", "s", source="x"), Text("Look."), ToolCall("call_1", "weather", '{"city": "Lisbon"}')],
            "tool", "tool_calls", Usage(10, 4, 2, 8, 3), "chatcmpl-1", "gpt-5",
        )  # fmt: skip
        assert written(reply) == {
            "id": "chatcmpl-1",
            "type": "message",
            "role": "assistant",
            "model": "gpt-5",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "gateway:x:s"},
                {"type": "text", "text": "Look."},
                {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Lisbon"}},
            ],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {
                "input_tokens": 10,
                "cache_creation_input_tokens": 2,
                "cache_read_input_tokens": 4,
                "output_tokens": 8,
                "output_tokens_details": {"thinking_tokens": 3},
            },
        }

    def test_what_a_provider_did_not_say_is_made_up_for(self):
        message = written(Reply([Text("Hi")], "stop"))
        assert (message["id"], message["model"], message["stop_reason"]) == ("msg_1", "m", "end_turn")
        assert message["usage"]["input_tokens"] == message["usage"]["output_tokens"] == 0

    @pytest.mark.parametrize(
        ("reply", "expected"),
        [
            (Reply(finish_reason="length"), "max_tokens"),
            (Reply(finish_reason="filter"), "refusal"),
            (Reply([Refusal("No.")], finish_reason="stop"), "refusal"),
            (Reply([Refusal("No.")], finish_reason="length"), "max_tokens"),
            (Reply(finish_reason="stop", stop_sequence="END"), "stop_sequence"),
            (Reply(finish_reason="other", provider_finish_reason="tired"), "tired"),
            (Reply(finish_reason="error"), "error"),
        ],
    )
    def test_why_it_stopped(self, reply, expected):
        assert written(reply)["stop_reason"] == expected

    def test_a_refusal_is_text_and_a_picture_a_block(self):
        assert written(Reply([Refusal("No."), Image("https://x")]))["content"] == [
            {"type": "text", "text": "No."},
            {"type": "image", "source": {"type": "url", "url": "https://x"}},
        ]

    @pytest.mark.parametrize("arguments", ["{city", r'{"city": "\ud800"}'])
    def test_arguments_that_are_no_object_are_the_providers_failure(self, arguments):
        with pytest.raises(ProviderError, match="weather"):
            written(Reply([ToolCall("call_1", "weather", arguments)]))

    def test_gemini_gets_the_signature_of_a_call_back(self):
        content = written(Reply([ToolCall("call_1", "weather", "", "sig")]))["content"]
        assert [block["type"] for block in content] == ["redacted_thinking", "tool_use"]
        assert parts(content, "assistant") == [ToolCall("call_1", "weather", "{}", "sig")]


def page(name, start=0, end=0):
    return Citation(f"https://{name}.example/", name.upper(), "", start, end)


def cited(content):
    """The text of each block, with the titles of what it cites."""
    return [(block["text"], [one["title"] for one in block.get("citations", ())]) for block in content]


class TestCitations:
    @pytest.mark.parametrize(
        ("citations", "expected"),
        [
            ([page("a", 4, 7)], [("One ", []), ("two", ["A"]), (" three", [])]),
            ([page("b", 8, 13), page("a", 0, 3)], [("One", ["A"]), (" two ", []), ("three", ["B"])]),
            ([page("a", 0, 7), page("b", 4, 13)], [("One two three", ["A", "B"])]),
            ([page("a", 4, 7), page("b", 4, 7)], [("One ", []), ("two", ["A", "B"]), (" three", [])]),
            ([page("a", 0, 3), page("b", 3, 7)], [("One", ["A"]), (" two", ["B"]), (" three", [])]),
            ([page("a")], [("One two three", ["A"])]),
            ([page("a", 8, 3), page("b", 99, 100)], [("One two three", ["A", "B"])]),
        ],
    )
    def test_a_text_is_cut_where_something_is_cited(self, citations, expected):
        assert cited(written(Reply([Text("One two three")], citations=citations))["content"]) == expected

    def test_each_text_has_its_own(self):
        reply = Reply([Text("One."), ToolCall("call_1", "now", "{}"), Text("Two.")], citations=[page("b", 4, 8)])
        first, _, last = written(reply)["content"]
        assert cited([first, last]) == [("One.", []), ("Two.", ["B"])]
        assert ("citations" in first, last["citations"][0]["encrypted_index"]) == (False, "gateway:")

    def test_in_a_stream_they_are_of_the_block_that_is_open(self):
        result = events(TextDelta("One."), page("a", 0, 4), CallStart(0, "call_1", "now"), page("b"), AnswerEnd("tool"))
        kinds = [event["content_block"]["type"] for event in result if event["type"] == "content_block_start"]
        assert kinds == ["text", "tool_use", "text"]
        results = [event for event in result if event.get("delta", {}).get("type") == "citations_delta"]
        assert [(event["index"], event["delta"]["citation"]["title"]) for event in results] == [(0, "A"), (2, "B")]

    def test_those_of_others_do_not_go_to_anthropic(self):
        own = {"type": "web_search_result_location", "url": "u", "encrypted_index": "E"}
        other, text = own | {"encrypted_index": "gateway:"}, {"type": "text", "text": "One."}
        blocks = [text | {"citations": [own, other]}, text | {"citations": [other]}, text | {"citations": [own]}]
        blocks += [{"type": "text", "text": "", "citations": [other]}, text | {"citations": None}]
        message = work(messages=[{"role": "assistant", "content": blocks}, {"role": "user", "content": "Hi"}])
        body = json.loads(FORMATS["anthropic"].request(message, "m").body)["messages"][0]["content"]
        assert body == [text | {"citations": [own]}, text | {"citations": None}, blocks[2], blocks[4]]


class TestStreamsAreWritten:
    def test_blocks_follow_each_other(self):
        result = events(
            AnswerStart("chatcmpl-1", "gpt-5"), ReasoningDelta("H", source="x", begins=True),
            ReasoningDelta("m.", source="x"), ReasoningDelta(signature="s", source="x"), TextDelta("Lis"),
            TextDelta("bon"), CallStart(0, "call_1", "now"), CallStart(1, "call_2", "weather"),
            CallDelta(1, '{"city":'), CallDelta(1, '"Lisbon"}'),
            AnswerEnd("tool", "tool_calls"), usage=Usage(10, None, None, 8),
        )  # fmt: skip
        assert [(event["type"], event.get("index")) for event in result] == [
            ("message_start", None),
            *(("content_block_start", 0), *[("content_block_delta", 0)] * 3, ("content_block_stop", 0)),
            *(("content_block_start", 1), *[("content_block_delta", 1)] * 2, ("content_block_stop", 1)),
            *(("content_block_start", 2), ("content_block_stop", 2)),
            *(("content_block_start", 3), *[("content_block_delta", 3)] * 2, ("content_block_stop", 3)),
            *(("message_delta", None), ("message_stop", None)),
        ]
        assert result[0]["message"]["id"] == "chatcmpl-1"
        assert result[4]["delta"] == {"type": "signature_delta", "signature": "gateway:x:s"}
        assert result[-2]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
        assert (result[-2]["usage"]["input_tokens"], result[-2]["usage"]["output_tokens"]) == (10, 8)

    def test_calls_that_come_mixed_end_with_all_of_their_arguments(self):
        """Clients run a tool once its block ends, with what it holds by then."""
        result = events(
            CallStart(0, "call_1", "weather"), CallStart(1, "call_2", "weather", "sig"), CallDelta(0, '{"city":'),
            CallDelta(1, '{"city":'), CallDelta(0, '"Lisbon"}'), CallDelta(1, '"Porto"}'),
            CallStart(2, "call_3", "now"), TextDelta("Wait."), CallStart(3, "call_4", "now"),
            CallStart(4, "call_5", "now"), AnswerEnd("tool", "tool_calls"),
        )  # fmt: skip
        assert [event["index"] for event in result[1:-2]] == sorted(event["index"] for event in result[1:-2])
        started = [event["content_block"] for event in result if event["type"] == "content_block_start"]
        assert [block.get("id", block["type"]) for block in started] == [
            *("call_1", "redacted_thinking", "call_2", "call_3", "text", "call_4", "call_5")
        ]
        pieces = [event for event in result if event.get("delta", {}).get("type") == "input_json_delta"]
        assert [(piece["index"], piece["delta"]["partial_json"]) for piece in pieces] == [
            *((0, '{"city":'), (0, '"Lisbon"}'), (2, '{"city":'), (2, '"Porto"}'))
        ]

    def test_a_call_that_is_whole_keeps_no_other_waiting(self):
        writer = MESSAGES.writer(work())
        writer.write([CallStart(0, "call_1", "weather"), CallDelta(0, '{"city":"Lisbon"}')])
        assert b"call_2" in writer.write([CallStart(1, "call_2", "weather")])

    def test_nothing_is_written_before_something_is_said(self):
        assert MESSAGES.writer(work()).write([AnswerStart("chatcmpl-1", "gpt-5")]) == b""

    def test_an_empty_stream_is_a_whole_message_too(self):
        assert [event["type"] for event in events(AnswerEnd("stop"))] == [
            "message_start",
            "message_delta",
            "message_stop",
        ]

    def test_a_picture_is_a_block(self):
        picture = Image(data="aGk=", media_type="image/png")
        deltas = [TextDelta("Here:"), ImageDelta(picture), TextDelta("Well?"), AnswerEnd("stop")]
        started = [event["content_block"] for event in events(*deltas) if event["type"] == "content_block_start"]
        assert [block["type"] for block in started] == ["text", "image", "text"]
        assert started[1:2] == written(Reply([picture]))["content"]

    def test_a_refusal_and_hidden_thoughts(self):
        result = events(ReasoningDelta(data="d", source="x", begins=True), RefusalDelta("No."), AnswerEnd("stop"))
        assert result[1]["content_block"] == {"type": "redacted_thinking", "data": "gateway:x:d"}
        assert result[4]["delta"] == {"type": "text_delta", "text": "No."}
        assert result[-2]["delta"]["stop_reason"] == "refusal"

    def test_a_broken_one_ends_with_an_error_that_the_sdk_raises_on(self):
        result = MESSAGES.writer(work()).end_with_error(QuotaExceeded("Enough."))
        assert result.startswith(b"event: error\ndata: ")
        error = {"type": "rate_limit_error", "message": "Enough."}
        assert json.loads(data_of(result)) == {"type": "error", "error": error, "request_id": "1"}

    def test_its_text_can_be_read_again(self):
        writer = MESSAGES.writer(work())
        stream = writer.write([ReasoningDelta("Hm."), TextDelta("Lis"), TextDelta("bon")]) + writer.end(None)
        assert MESSAGES.text(stream) == "Lisbon"
