"""OpenAI's chat shape: answers and streams written."""

import json

import pytest

from providers.formats import Usage
from providers.formats.json_values import read_json
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
from providers.formats.neutral.messages import Image, Reasoning, Refusal, Text, ToolCall
from providers.formats.neutral.reply import Reply
from providers.formats.sse import data_of, events_in
from tests.gateway_project.work.doors.openai.test_chat import CHAT, PICTURE, parts, read
from tests.support.formats.samples import request

pytestmark = pytest.mark.embedded


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
