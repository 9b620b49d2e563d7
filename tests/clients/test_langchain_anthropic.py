"""LangChain's client of Anthropic, unmodified but for its base address."""

import pytest

from tests.support.clients import sdks
from tests.support.clients.recorded import CALLS, recorded
from tests.support.formats.samples import streams

pytestmark = pytest.mark.embedded

both = pytest.mark.parametrize("format_name", ["anthropic", "openai"])
QUESTION = "What is the capital of Portugal?"


@pytest.fixture
def weather():
    @sdks.langchain_tools.tool
    def weather(city: str) -> str:
        """The weather in a city"""
        return f"20 degrees in {city}"

    return weather


@pytest.fixture
def provider(world, format_name):
    world.allow()
    return world.provider(format_name=format_name)


def model(world, **options):
    world.settle()
    address = {"base_url": world.gateway.url, "api_key": world.key, "max_retries": 0}
    return sdks.langchain_anthropic.ChatAnthropic(model=world.model, max_tokens=4096, **address | options)


@pytest.fixture
def chat(world, provider):
    return model(world)


@both
def test_a_message(chat, provider, format_name):
    sample = recorded(format_name, "plain")
    provider.answers(body=sample.body)
    answer = chat.invoke(QUESTION)
    assert (answer.text, answer.response_metadata["stop_reason"]) == (sample.expect["text"], "end_turn")
    usage = sample.expect["usage"]
    request = sum(usage[name] or 0 for name in ("input", "cache_read", "cache_write"))
    assert (answer.usage_metadata["input_tokens"], answer.usage_metadata["output_tokens"]) == (request, usage["output"])


@both
def test_a_stream(chat, provider, format_name):
    sample = recorded(format_name, "plain", streams)
    provider.answers(stream=[sample.body])
    chunks = list(chat.stream(QUESTION))
    assert "".join(chunk.text for chunk in chunks) == sample.expect["text"]


@both
def test_tools(chat, provider, weather, format_name):
    sample, answer = recorded(format_name, "parallel_tool_calls"), recorded(format_name, "plain")
    provider.answers(body=sample.body).answers(body=answer.body)
    able = chat.bind_tools([weather])
    first = able.invoke(QUESTION)
    assert [[call["name"], call["args"]] for call in first.tool_calls] == CALLS
    messages = sdks.langchain_messages
    results = [messages.ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"]) for call in first.tool_calls]
    second = able.invoke([messages.HumanMessage(QUESTION), first, *results])
    assert second.text == answer.expect["text"]
    assert "20 degrees in Porto" in provider.seen[1].body.decode()


@both
def test_tools_in_a_stream(chat, provider, weather, format_name):
    sample = recorded(format_name, "parallel_tool_calls", streams)
    provider.answers(stream=[sample.body])
    first, *rest = chat.bind_tools([weather]).stream(QUESTION)
    whole = sum(rest, first)
    assert [[call["name"], call["args"]] for call in whole.tool_calls] == CALLS


@both
def test_a_provider_that_limits(chat, provider, format_name):
    sample = recorded(format_name, "limited")
    provider.answers(body=sample.body, status=429, headers=sample.about["headers"])
    with pytest.raises(sdks.anthropic.RateLimitError):
        chat.invoke(QUESTION)


@both
def test_a_time_out(world, provider, format_name):
    provider.answers(silent=True)
    with pytest.raises(sdks.anthropic.APITimeoutError):
        model(world, timeout=0.5).invoke(QUESTION)
