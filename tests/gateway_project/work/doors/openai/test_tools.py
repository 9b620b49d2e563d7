"""Which tool is to be called, out of chats and out of Responses."""

import pytest

from gateway_project.errors import ValidationError
from gateway_project.work.doors.openai.tools import take_choice
from providers.formats.neutral.chat import Chat, Tool, ToolChoice

pytestmark = pytest.mark.embedded

TOOLS = [Tool("weather"), Tool("time")]
HOSTED = {"type": "web_search"}


def function(name, *, nested):
    return {"type": "function", "function": {"name": name}} if nested else {"type": "function", "name": name}


def allowed(*tools, nested, mode="auto"):
    value = {"mode": mode, "tools": list(tools)}
    return {"type": "allowed_tools", "allowed_tools": value} if nested else {"type": "allowed_tools", **value}


def read(choice, *, nested):
    chat = Chat(tools=TOOLS, extra={"tool_choice": choice})
    take_choice(chat, nested=nested)
    return chat


@pytest.mark.parametrize("nested", [True, False])
class TestChoices:
    def test_a_word_or_a_function(self, nested):
        assert read("required", nested=nested).tool_choice == ToolChoice("required")
        chat = read(function("time", nested=nested), nested=nested)
        assert (chat.tool_choice, chat.extra) == (ToolChoice("tool", "time"), {})

    def test_some_of_the_tools(self, nested):
        chat = read(allowed(function("time", nested=nested), nested=nested, mode="required"), nested=nested)
        assert (chat.tool_choice, chat.extra) == (ToolChoice("required", allowed=["time"]), {})

    def test_those_among_which_one_is_no_function_meet_the_policy(self, nested):
        chat = read(allowed(function("time", nested=nested), HOSTED, nested=nested), nested=nested)
        name = "tool_choice" if nested else "tool_choice.allowed_tools"
        assert (chat.tool_choice, chat.extra.keys()) == (None, {name})

    @pytest.mark.parametrize("names", [["sums"], ["time", "sums"], []])
    def test_those_that_are_not_there_are_refused(self, nested, names):
        tools = [function(name, nested=nested) for name in names]
        with pytest.raises(ValidationError, match="tool_choice"):
            read(allowed(*tools, nested=nested), nested=nested)

    @pytest.mark.parametrize("choice", ["perhaps", 1, {"type": "function"}, {"type": "allowed_tools"}])
    def test_what_is_none_is_refused(self, nested, choice):
        with pytest.raises(ValidationError, match="tool_choice"):
            read(choice, nested=nested)
