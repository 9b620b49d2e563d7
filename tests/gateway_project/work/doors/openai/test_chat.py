"""OpenAI's chat shape: requests read, answers and streams written."""

import time
import tracemalloc

import pytest

from gateway_project.errors import ValidationError
from gateway_project.work.doors import DIALECTS
from providers.formats.neutral.chat import OutputFormat, Thinking, Tool, ToolChoice
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
