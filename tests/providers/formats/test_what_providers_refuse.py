"""Conversations that one provider takes, written so that another one, which is stricter, takes them too."""

import json

import pytest

from providers.formats import FORMATS
from tests.support.formats.samples import request
from tests.support.recorded_samples import SHAPES

pytestmark = pytest.mark.embedded

HELLO = {"role": "user", "content": "Hello!"}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}


def sent(format_name, shape="openai-chat", **body):
    """What the provider gets from a client of a client API."""
    work = request({"model": "m", "messages": [HELLO], **body}, door=True, dialect=SHAPES[shape])
    return json.loads(FORMATS[format_name].request(work, work.model).body)


@pytest.mark.parametrize("tools", [[], [{"googleSearch": {}}]])
@pytest.mark.parametrize("choice", ["auto", "none"])
def test_gemini_gets_a_choice_of_functions_only_with_functions(tools, choice):
    # "Function calling config is set without function_declarations."
    assert "toolConfig" not in sent("gemini", tools=tools, tool_choice=choice)
    assert "toolConfig" in sent("gemini", tools=[*tools, TOOL], tool_choice=choice)
