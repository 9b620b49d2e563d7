"""OpenAI's chat shape: requests read, answers and streams written."""

import json
import time
import tracemalloc

import pytest

from gateway_project.errors import ValidationError
from gateway_project.work.doors import DIALECTS
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
from tests.support.formats.samples import request
from tests.support.pace import slowness

pytestmark = pytest.mark.embedded

CHAT = DIALECTS["chat"]
PICTURE = "data:image/png;base64,aGk="
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA, "strict": True}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Lisbon"}'}}


def read(*messages, **parameters):
    return CHAT.read_chat(
        {"model": "m", "messages": list(messages) or [{"role": "user", "content": "Hi"}], **parameters}
    )


def parts(content, role="user", **fields):
    """The parts that one message's content is read as."""
    return read({"role": role, "content": content, **fields}).messages[0].parts


class TestMessages:
    def test_each_role_has_its_place_and_developers_are_the_system(self):
        chat = read(
            {"role": "developer", "content": "Be brief."},
            {"role": "system", "content": [{"type": "text", "text": "Be kind."}]},
            {"role": "user", "content": "Weather?", "name": "ann"},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": "Sunny"},
        )
        assert chat.messages == [
            Message("system", [Text("Be brief.")]),
            Message("system", [Text("Be kind.")]),
            Message("user", [Text("Weather?")], "ann"),
            Message("assistant", [ToolCall("call_1", "weather", '{"city": "Lisbon"}')]),
            Message("tool", [ToolResult("call_1", [Text("Sunny")], "weather")]),
        ]
        assert chat.source == "openai-chat"

    @pytest.mark.parametrize(
        ("part", "expected"),
        [
            ({"type": "text", "text": "Hi"}, Text("Hi")),
            (
                {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}},
                Text("Hi", {"type": "ephemeral"}),
            ),
            ({"type": "image_url", "image_url": {"url": "https://x/y.png"}}, Image("https://x/y.png")),
            (
                {"type": "image_url", "image_url": {"url": PICTURE, "detail": "low"}},
                Image(data="aGk=", media_type="image/png", detail="low"),
            ),
            (
                {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}},
                File("aGk=", "audio/mpeg"),
            ),
            (
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,aGk=", "filename": "a.pdf"}},
                File("aGk=", "application/pdf", "a.pdf"),
            ),
            ({"type": "file", "file": {"file_id": "file-1"}}, File(id="file-1")),
            ({"type": "hologram", "x": 1}, Verbatim({"type": "hologram", "x": 1}, "openai-chat")),
        ],
    )
    def test_parts(self, part, expected):
        assert parts([part]) == [expected]

    def test_an_address_of_very_many_options_takes_the_memory_of_a_few(self):
        url = "data:" + ";" * 1_000_000 + ",x"
        tracemalloc.start()
        with pytest.raises(ValidationError):
            parts([{"type": "image_url", "image_url": {"url": url}}])
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 5 * len(url)

    def test_an_assistants_refusal_and_thoughts(self):
        assert parts("Hi", "assistant", reasoning_content="Hm.") == [Reasoning("Hm."), Text("Hi")]
        assert parts("Hi", "assistant", reasoning="Hm.") == [Reasoning("Hm."), Text("Hi")]
        assert parts(None, "assistant", refusal="No.") == [Refusal("No.")]

    def test_thoughts_come_back_with_their_proofs(self):
        details = [
            {"type": "reasoning.text", "text": "H", "format": "anthropic", "index": 0},
            {"type": "reasoning.text", "text": "m.", "format": "anthropic", "index": 0},
            {"type": "reasoning.text", "text": "", "signature": "s", "format": "anthropic", "index": 0},
            {"type": "reasoning.encrypted", "data": "d", "format": "anthropic", "index": 1},
        ]
        assert parts(None, "assistant", reasoning_content="Hm.", reasoning_details=details) == [
            Reasoning("Hm.", "s", source="anthropic"),
            Reasoning(data="d", source="anthropic"),
        ]

    def test_many_pieces_of_one_thought_take_linear_time(self):
        details = [{"type": "reasoning.text", "index": 0, "text": "x" * 300, "data": "y" * 300}] * 20_000
        begun = time.process_time()
        assert len(parts(None, "assistant", reasoning_details=details)[0].text) == 6_000_000
        assert time.process_time() - begun < 2 * slowness()

    @pytest.mark.parametrize(
        ("message", "expected"),
        [
            ({"audio": {"id": "audio_1", "data": "aGk=", "transcript": "Hi"}, "content": None}, Text("Hi")),
            ({"audio": {"id": "audio_1"}}, Verbatim({"type": "audio", "id": "audio_1"}, "openai-chat")),
            ({"audio": {"id": "audio_1"}, "content": "Hi"}, Text("Hi")),
            ({"audio": None, "content": "Hi"}, Text("Hi")),
        ],
    )
    def test_what_an_assistant_has_spoken_is_its_words_or_for_its_provider_alone(self, message, expected):
        assert read({"role": "assistant", **message}).messages[0].parts == [expected]

    def test_a_refusal_that_a_tool_gave_is_its_words(self):
        refusal = [{"type": "refusal", "refusal": "I will not."}]
        result = read({"role": "tool", "tool_call_id": "call_1", "content": refusal}).messages[0].parts[0]
        assert result.parts == [Text("I will not.")]

    def test_a_calls_signature_comes_back(self):
        signed = CALL | {"extra_content": {"google": {"thought_signature": "sig"}}}
        assert parts(None, "assistant", tool_calls=[signed])[0].signature == "sig"


class TestParameters:
    def test_all_that_are_known(self):
        chat = read(
            max_completion_tokens=7, temperature=0.5, top_p=1, top_k=4, stop="END", seed=0, n=2, presence_penalty=1,
            frequency_penalty=-1, parallel_tool_calls=False, user="u", reasoning_effort="low",
        )  # fmt: skip
        assert (chat.max_tokens, chat.temperature, chat.top_p, chat.top_k, chat.stop) == (7, 0.5, 1, 4, ["END"])
        assert (chat.seed, chat.choices, chat.presence_penalty, chat.frequency_penalty) == (0, 2, 1, -1)
        assert (chat.parallel_tools, chat.user, chat.thinking) == (False, "u", Thinking("low"))
        assert chat.extra == {}

    def test_a_seed_may_be_any_that_openai_takes(self):
        assert [read(seed=seed).seed for seed in (-(2**63), 2**63 - 1)] == [-(2**63), 2**63 - 1]

    def test_those_that_nobody_knows_are_kept_and_null_says_nothing(self):
        chat = read(logit_bias={"1": 2}, store=None, temperature=None, stop=None, tools=None)
        assert chat.extra == {"logit_bias": {"1": 2}}
        assert (chat.temperature, chat.stop, chat.tools) == (None, [], [])

    def test_tools_and_which_to_choose(self):
        chat = read(tools=[WEATHER], tool_choice={"type": "function", "function": {"name": "weather"}})
        assert chat.tools == [Tool("weather", "", SCHEMA, True)]
        assert chat.tool_choice == ToolChoice("tool", "weather")
        assert read(tool_choice="required").tool_choice == ToolChoice("required")

    def test_tools_of_other_kinds_meet_the_policy_for_what_is_unknown(self):
        custom = {"type": "custom", "custom": {"name": "x"}}
        choice = {"type": "custom", "custom": {"name": "x"}}
        chat = read(tools=[WEATHER, custom], tool_choice=choice)
        assert [tool.name for tool in chat.tools] == ["weather"]
        assert chat.extra == {"tools.custom": [custom], "tool_choice": choice}

    @pytest.mark.parametrize(
        ("value", "expected", "extra"),
        [
            ({"type": "text"}, None, {}),
            ({"type": "json_object"}, OutputFormat("json"), {}),
            (
                {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": True}},
                OutputFormat("schema", SCHEMA, "a", True),
                {},
            ),
            ({"type": "grammar"}, None, {"response_format": {"type": "grammar"}}),
        ],
    )
    def test_the_response_format(self, value, expected, extra):
        chat = read(response_format=value)
        assert (chat.output, chat.extra) == (expected, extra)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "Hi"}, "messages"),
        ({"messages": [5]}, "messages"),
        ({"messages": [{"content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "robot", "content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{"role": ["user"], "content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": ["Hi"]}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:x"}}]}]},
            "messages[0].content[0].image_url.url",
        ),
        ({"messages": [{"role": "tool", "content": "Hi"}]}, "messages[0].tool_call_id"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}]},
            "messages[0].tool_calls[0].id",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [CALL | {"function": {"name": "f", "arguments": {}}}]}]},
            "messages[0].tool_calls[0].function.arguments",
        ),
        ({"temperature": "warm"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": 10**400}, "max_tokens"),
        ({"seed": -(10**400)}, "seed"),
        ({"n": 2**63}, "n"),
        ({"temperature": 10**400}, "temperature"),
        ({"n": 0}, "n"),
        ({"stop": [1]}, "stop"),
        ({"tools": {}}, "tools"),
        ({"tools": [{}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "name": "flat"}]}, "tools[0].function"),
        ({"tool_choice": "perhaps"}, "tool_choice"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.function"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"reasoning_effort": 5}, "reasoning_effort"),
    ],
)
def test_what_is_wrong_is_told_by_its_name(body, field):
    defaults = {} if "messages" in body or not body else {"messages": [{"role": "user", "content": "Hi"}]}
    with pytest.raises(ValidationError) as caught:
        CHAT.read_chat({"model": "m", **defaults, **body})
    assert caught.value.field == field
    assert caught.value.message.startswith(f"{field} must be ")


class TestAnswers:
    def write(self, *said, reason="stop", provider_reason="", usage=None, **fields):
        reply = Reply(list(said), reason, provider_reason, usage, **fields)
        return json.loads(CHAT.write_reply(request({"model": "m"}, door=True), reply))

    def test_text(self):
        usage = Usage(10, 3, 2, 7, 1)
        assert self.write(Text("Lis"), Text("bon"), usage=usage, id="msg_1", model="m-2") == {
            "id": "msg_1",
            "object": "chat.completion",
            "created": 1787270400,
            "model": "m-2",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "Lisbon", "refusal": None},
                    "logprobs": None,
                    "finish_reason": "stop",
                }
            ],
            "usage": {
                "prompt_tokens": 15,
                "completion_tokens": 7,
                "total_tokens": 22,
                "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
        }

    def test_an_answer_without_id_and_model_has_the_requests(self):
        answer = self.write(Text("Lisbon"))
        assert (answer["id"], answer["model"]) == ("chatcmpl-request-1", "m")
        assert "usage" not in answer

    def test_calls_have_arguments_even_if_there_are_none(self):
        message = self.write(ToolCall("1", "now"), reason="tool")["choices"][0]["message"]
        assert message["content"] is None
        assert message["tool_calls"] == [
            {"id": "1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
        ]

    def test_what_was_thought_goes_out_as_it_would_come_back(self):
        texts = [Reasoning("Hm.", "s", source="anthropic"), Reasoning(data="d", source="anthropic"), Text("Hi")]
        signed = ToolCall("1", "f", "{}", "sig")
        message = self.write(*texts, signed)["choices"][0]["message"]
        assert message["reasoning_content"] == "Hm."
        assert read(message).messages[0].parts == [*texts, signed]

    @pytest.mark.parametrize(
        ("reason", "provider_reason", "expected"),
        [
            ("length", "max_tokens", "length"),
            ("tool", "tool_use", "tool_calls"),
            ("filter", "refusal", "content_filter"),
            ("pause", "pause_turn", "pause_turn"),
            ("other", "novel", "novel"),
            ("", "", None),
        ],
    )
    def test_a_reason_that_openai_does_not_know_is_not_called_stop(self, reason, provider_reason, expected):
        answer = self.write(Text("Hi"), reason=reason, provider_reason=provider_reason)
        assert answer["choices"][0]["finish_reason"] == expected

    def test_a_picture_and_a_refusal(self):
        message = self.write(Image(data="aGk=", media_type="image/png"), Refusal("No."))["choices"][0]["message"]
        assert (message["content"], message["refusal"]) == (None, "No.")
        assert message["images"] == [{"type": "image_url", "image_url": {"url": PICTURE}}]


class TestStreams:
    def stream(self, *deltas, usage=None, **body):
        work = request({"model": "m", "stream": True, **body}, door=True)
        writer = CHAT.writer(work)
        events = b"".join(writer.write([delta]) for delta in deltas) + writer.end(usage)
        assert events.endswith(b"data: [DONE]\n\n")
        return [read_json(data_of(event)) for event in events_in(events)][:-1]

    def test_the_role_comes_once_and_with_the_first_words(self):
        events = self.stream(AnswerStart("msg_1", "m-2"), TextDelta("Lis"), TextDelta("bon"), AnswerEnd("stop"))
        assert {(event["id"], event["model"], event["created"]) for event in events} == {("msg_1", "m-2", 1787270400)}
        assert [event["choices"][0]["delta"] for event in events] == [
            {"role": "assistant", "content": "Lis"},
            {"content": "bon"},
            {},
        ]
        assert [event["choices"][0]["finish_reason"] for event in events] == [None, None, "stop"]
        assert not any("usage" in event for event in events)

    def test_usage_comes_last_to_those_who_asked(self):
        values = {"stream_options": {"include_usage": True}}
        *events, last = self.stream(TextDelta("Hi"), AnswerEnd("stop"), usage=Usage(1, output=2), **values)
        assert [event["usage"] for event in events] == [None, None]
        assert last["choices"] == []
        assert last["usage"] == {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}

    def test_calls_have_id_and_name_once_and_arguments_in_any_case(self):
        events = self.stream(
            CallStart(0, "a", "weather"), CallDelta(0, '{"city":'), CallDelta(0, '"Lisbon"}'),
            CallStart(1, "b", "now", "sig"), AnswerEnd("tool"),
        )  # fmt: skip
        pieces = [event["choices"][0]["delta"].get("tool_calls", [None])[0] for event in events]
        assert pieces == [
            {"index": 0, "id": "a", "type": "function", "function": {"name": "weather", "arguments": ""}},
            {"index": 0, "function": {"arguments": '{"city":'}},
            {"index": 0, "function": {"arguments": '"Lisbon"}'}},
            {
                "index": 1,
                "id": "b",
                "type": "function",
                "function": {"name": "now", "arguments": ""},
                "extra_content": {"google": {"thought_signature": "sig"}},
            },
            {"index": 1, "function": {"arguments": "{}"}},
            None,
        ]

    def test_thoughts_and_refusals(self):
        events = self.stream(
            ReasoningDelta("Hm.", source="anthropic"), ReasoningDelta(signature="s", source="anthropic"),
            ReasoningDelta(data="d", source="anthropic", begins=True), RefusalDelta("No."), AnswerEnd("filter"),
        )  # fmt: skip
        deltas = [event["choices"][0]["delta"] for event in events]
        assert [delta.get("reasoning_content") for delta in deltas] == ["Hm.", None, None, None, None]
        details = [detail for delta in deltas for detail in delta.get("reasoning_details", ())]
        assert parts(None, "assistant", reasoning_details=details) == [
            Reasoning("Hm.", "s", source="anthropic"),
            Reasoning(data="d", source="anthropic"),
        ]
        assert deltas[3] == {"refusal": "No."}

    def test_what_says_the_same_of_all_pieces_comes_once_and_each_piece_has_an_index(self):
        """OpenAI's SDK joins the texts of what has one index, field by field."""
        picture = Image(data="aGk=", media_type="image/png")
        events = self.stream(
            ReasoningDelta("H", source="anthropic"), ReasoningDelta("m.", source="anthropic"),
            ReasoningDelta(data="d", source="anthropic", begins=True), ImageDelta(picture), ImageDelta(picture),
            AnswerEnd("stop"),
        )  # fmt: skip
        deltas = [event["choices"][0]["delta"] for event in events]
        details = [detail for delta in deltas for detail in delta.get("reasoning_details", ())]
        assert [(detail["index"], detail.get("format")) for detail in details] == [
            (0, "anthropic"),
            (0, None),
            (1, "anthropic"),
        ]
        assert [image["index"] for delta in deltas for image in delta.get("images", ())] == [0, 1]

    def test_a_stream_that_says_nothing_has_a_role_all_the_same(self):
        event = self.stream(AnswerEnd("stop"))[0]
        assert event["choices"][0]["delta"] == {"role": "assistant", "content": ""}
