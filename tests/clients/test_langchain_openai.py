"""LangChain's client of OpenAI, unmodified but for its base address."""

import pytest
from pydantic import BaseModel

from tests.support.clients import sdks
from tests.support.clients.recorded import CALLS, recorded, script
from tests.support.formats.samples import streams

pytestmark = pytest.mark.embedded

each = pytest.mark.parametrize("format_name", ["openai", "anthropic", "gemini"])
# Over chat completions, and over Responses.
both_ways = pytest.mark.parametrize("responses", [False, True], ids=["chat", "responses"])
QUESTION = "What is the capital of Portugal?"


@pytest.fixture
def weather():
    @sdks.langchain_tools.tool
    def weather(city: str) -> str:
        """The weather in a city"""
        return f"20 degrees in {city}"

    return weather


class Capital(BaseModel):
    """A capital"""

    city: str


@pytest.fixture
def provider(speaking, format_name):
    return speaking(format_name)


def model(world, **options):
    world.settle()
    address = {"base_url": f"{world.gateway.url}/v1", "api_key": world.key, "max_retries": 0}
    return sdks.langchain_openai.ChatOpenAI(model=world.model, max_tokens=4096, **address | options)


@each
@both_ways
def test_an_answer(world, provider, format_name, responses):
    sample = recorded(format_name, "plain")
    provider.answers(body=sample.body)
    answer = model(world, use_responses_api=responses).invoke(QUESTION)
    assert answer.text == sample.expect["text"]
    assert answer.usage_metadata["output_tokens"] == sample.expect["usage"]["output"]


@each
@both_ways
def test_a_stream(world, provider, format_name, responses):
    sample = recorded(format_name, "plain", streams)
    script(provider, sample)
    chunks = list(model(world, use_responses_api=responses).stream(QUESTION))
    assert "".join(chunk.text for chunk in chunks) == sample.expect["text"]


@each
@both_ways
def test_tools(world, provider, weather, format_name, responses):
    sample, answer = recorded(format_name, "parallel_tool_calls"), recorded(format_name, "plain")
    provider.answers(body=sample.body).answers(body=answer.body)
    able = model(world, use_responses_api=responses).bind_tools([weather])
    first = able.invoke(QUESTION)
    assert [[call["name"], call["args"]] for call in first.tool_calls] == sample.expect.get("calls", CALLS)
    messages = sdks.langchain_messages
    results = [messages.ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"]) for call in first.tool_calls]
    assert able.invoke([messages.HumanMessage(QUESTION), first, *results]).text == answer.expect["text"]
    assert "20 degrees in" in provider.seen[1].body.decode()


@each
def test_structured_output(world, provider, format_name):
    sample = recorded(format_name, "plain")
    text = sample.body.replace(sample.expect["text"].encode(), rb"{\"city\": \"Lisbon\"}")
    provider.answers(body=text)
    structured = model(world).with_structured_output(Capital, method="json_schema")
    assert structured.invoke(QUESTION) == Capital(city="Lisbon")


@each
def test_a_provider_that_limits(world, provider, format_name):
    sample = recorded(format_name, "limited")
    provider.answers(body=sample.body, status=429, headers=sample.about["headers"])
    with pytest.raises(sdks.openai.RateLimitError):
        model(world).invoke(QUESTION)


@each
def test_a_time_out(world, provider, format_name):
    provider.answers(silent=True)
    with pytest.raises(sdks.openai.APITimeoutError):
        model(world, timeout=0.5).invoke(QUESTION)


@pytest.mark.parametrize("format_name", ["openai"])
def test_embeddings(world, provider, format_name):
    """LangChain sends token ids, which need a provider with the same tokeniser, unless told to send text."""
    world.settle()
    address = {"base_url": f"{world.gateway.url}/v1", "api_key": world.key}
    embeddings = sdks.langchain_openai.OpenAIEmbeddings(model=world.model, check_embedding_ctx_length=False, **address)
    assert embeddings.embed_documents(["a", "b"]) == [[0.5, -0.25, 1.0], [0.5, -0.25, 1.0]]
