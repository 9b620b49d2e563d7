"""Anthropic's own SDK, unmodified but for its base address, over providers of every format."""

import asyncio

import pytest

from tests.support.clients import sdks
from tests.support.clients.recorded import CALLS, each_format, recorded, script
from tests.support.formats.samples import streams, whole

pytestmark = pytest.mark.embedded

ASKED = {"max_tokens": 4096, "messages": [{"role": "user", "content": "What is the capital of Portugal?"}]}
WEATHER = {
    "name": "weather",
    "description": "The weather in a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


@pytest.fixture
def client(world):
    """The SDK with the gateway's address and a key of the gateway's; it does not try again by itself."""
    with sdks.anthropic.Anthropic(base_url=world.gateway.url, api_key=world.key, max_retries=0) as client:
        yield client


def ask(client, world, **asked):
    world.settle()
    return client.messages.create(model=world.model, **ASKED | asked)


def stream(client, world, provider, sample, **asked):
    """The message that the SDK gathers from a recorded stream."""
    script(provider, sample)
    world.settle()
    with client.messages.stream(model=world.model, **ASKED | asked) as events:
        text = "".join(events.text_stream)
        message = events.get_final_message()
    assert text == sample.expect["text"] == text_of(message)
    return message


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


def calls_of(message):
    return [[block.name, block.input] for block in message.content if block.type == "tool_use"]


def check_usage(message, sample):
    usage = sample.expect["usage"]
    result = message.usage
    results = (
        result.input_tokens,
        result.cache_read_input_tokens,
        result.cache_creation_input_tokens,
        result.output_tokens,
    )
    assert results == tuple(usage[name] or 0 for name in ("input", "cache_read", "cache_write", "output"))


@each_format
def test_a_message(client, world, speaking, format_name):
    sample, provider = recorded(format_name, "plain"), speaking(format_name)
    provider.answers(body=sample.body)
    message = ask(client, world, system="Be brief.", stop_sequences=["END"], metadata={"user_id": "u"})
    assert (text_of(message), message.stop_reason) == (sample.expect["text"], "end_turn")
    check_usage(message, sample)
    assert "Be brief." in provider.seen[0].body.decode()


@each_format
def test_a_stream(client, world, speaking, format_name):
    sample = recorded(format_name, "plain", streams)
    message = stream(client, world, speaking(format_name), sample)
    assert message.stop_reason == "end_turn"
    check_usage(message, sample)


@each_format
def test_tools(client, world, speaking, format_name):
    sample, provider = recorded(format_name, "parallel_tool_calls"), speaking(format_name)
    answer = recorded(format_name, "plain")
    provider.answers(body=sample.body).answers(body=answer.body)
    first = ask(client, world, tools=[WEATHER])
    assert (calls_of(first), first.stop_reason) == (sample.expect.get("calls", CALLS), "tool_use")
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": f"{20 + number} degrees"}
        for number, block in enumerate(block for block in first.content if block.type == "tool_use")
    ]
    turns = [{"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
    second = ask(client, world, tools=[WEATHER], messages=[*ASKED["messages"], *turns])
    assert text_of(second) == answer.expect["text"]
    request = provider.seen[1].body.decode()
    assert request.index("20 degrees") < request.index("21 degrees")


@each_format
def test_tools_in_a_stream(client, world, speaking, format_name):
    sample = recorded(format_name, "parallel_tool_calls", streams)
    message = stream(client, world, speaking(format_name), sample, tools=[WEATHER])
    assert (calls_of(message), message.stop_reason) == (sample.expect.get("calls", CALLS), "tool_use")


@pytest.mark.parametrize("kind", [whole, streams])
def test_thoughts_go_back_to_their_maker_as_they_came(client, world, speaking, kind):
    sample, provider = recorded("anthropic", "reasoning", kind), speaking("anthropic")
    values = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    if kind is streams:
        first = stream(client, world, provider, sample, **values)
    else:
        provider.answers(body=sample.body)
        first = ask(client, world, **values)
    assert first.content[0].thinking == sample.expect["reasoning"]
    provider.answers(body=recorded("anthropic", "plain").body)
    ask(client, world, messages=[*ASKED["messages"], {"role": "assistant", "content": first.content}], **values)
    assert provider.seen[1].json["messages"][1]["content"][0] == {
        "type": "thinking",
        "thinking": "Portugal: Lisbon.",
        "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3h",
    }


def test_thoughts_of_another_provider_are_kept_from_anthropic(client, world, speaking):
    message = {"role": "assistant", "content": "Lisbon", "reasoning_content": "Portugal: Lisbon."}
    speaking("openai").answers(body={"choices": [{"message": message, "finish_reason": "stop"}]})
    first = ask(client, world)
    assert [block.type for block in first.content] == ["thinking", "text"]
    provider = speaking("anthropic", name=world.name("other"))
    provider.answers(body=recorded("anthropic", "plain").body)
    turns = [*ASKED["messages"], {"role": "assistant", "content": first.content}, {"role": "user", "content": "And?"}]
    model = f"{world.row(provider).name}/{world.model}"
    world.settle()
    client.messages.create(model=model, **ASKED | {"messages": turns})
    assert [block["type"] for block in provider.seen[0].json["messages"][1]["content"]] == ["text"]


@pytest.mark.parametrize(("signature", "payload"), [("c2ln", "c2ln"), (None, "skip_thought_signature_validator")])
def test_pictures_go_back_with_a_signature(client, world, speaking, signature, payload):
    part = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    signed = part | ({"thoughtSignature": signature} if signature else {})
    provider = speaking("gemini")
    provider.answers(body={"candidates": [{"content": {"parts": [signed]}, "finishReason": "STOP"}]})
    provider.answers(body=recorded("gemini", "plain").body)
    first = ask(client, world)
    turns = [{"role": "assistant", "content": first.content}, {"role": "user", "content": "Larger."}]
    ask(client, world, messages=[*ASKED["messages"], *turns])
    assert provider.seen[1].json["contents"][1]["parts"] == [part | {"thoughtSignature": payload}]


def test_a_text_that_gemini_cut_anywhere_is_one_block(client, world, speaking):
    parts = [{"text": "Lis"}, {"text": "bon"}, {"functionCall": {"name": "weather", "args": {}}}, {"text": "!"}]
    speaking("gemini").answers(body={"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]})
    assert [getattr(block, "text", block.type) for block in ask(client, world).content] == ["Lisbon", "tool_use", "!"]


def test_tokens_are_counted(client, world, speaking):
    speaking("anthropic").answers(body={"input_tokens": 14})
    world.settle()
    values = {name: value for name, value in ASKED.items() if name != "max_tokens"}
    assert client.messages.count_tokens(model=world.model, **values).input_tokens == 14


def test_betas_reach_the_provider(client, world, speaking):
    provider = speaking("anthropic")
    provider.answers(body=recorded("anthropic", "plain").body)
    world.settle()
    client.beta.messages.create(model=world.model, betas=["context-1m-2025-08-07"], **ASKED)
    assert provider.seen[0].headers["anthropic-beta"] == "context-1m-2025-08-07"
    assert provider.seen[0].headers["anthropic-version"] == client.default_headers["anthropic-version"]


def weather(city: str) -> str:
    """The weather in a city"""
    return f"20 degrees in {city}"


def run_tools(client, world):
    """What the SDK's own loop of calls and results comes to; it asks the server to keep the conversation."""
    world.settle()
    tools = [sdks.anthropic.beta_tool(weather)]
    return client.beta.messages.tool_runner(model=world.model, tools=tools, **ASKED).until_done()


@pytest.mark.parametrize("format_name", ["openai", "gemini"])
def test_the_tool_runner_goes_on_by_itself_where_nobody_keeps_a_conversation(client, world, speaking, format_name):
    provider, answer = speaking(format_name), recorded(format_name, "plain")
    provider.answers(body=recorded(format_name, "parallel_tool_calls").body).answers(body=answer.body)
    assert text_of(run_tools(client, world)) == answer.expect["text"]
    assert "capital of Portugal" in provider.seen[1].body.decode()
    assert all(b'"thread"' not in observations.body for observations in provider.seen)


def test_the_tool_runner_begins_anew_where_the_provider_lost_the_conversation(client, world, speaking):
    provider, answer = speaking("anthropic"), recorded("anthropic", "plain")
    lost = {"type": "invalid_request_error", "message": "No such thread", "details": {"error_code": "thread_not_found"}}
    provider.answers(body=recorded("anthropic", "parallel_tool_calls").body)
    provider.answers(body={"type": "error", "error": lost}, status=400).answers(body=answer.body)
    assert text_of(run_tools(client, world)) == answer.expect["text"]
    kinds = [
        (observations.json["thread"]["type"], len(observations.json["messages"])) for observations in provider.seen
    ]
    assert kinds == [("create", 1), ("continue", 1), ("create", 3)]


def test_of_several_providers_none_is_asked_to_keep_a_conversation(client, world, speaking):
    providers, sample = [speaking("anthropic") for _ in range(2)], recorded("anthropic", "plain")
    for provider in providers:
        provider.answers(body=sample.body)
    assert text_of(run_tools(client, world)) == sample.expect["text"]
    assert [b'"thread"' in observations.body for provider in providers for observations in provider.seen] == [False]


def test_models_are_listed(client, world):
    world.allow(regex=f"{world.model}-[a-c]")
    world.provider(*(names := [f"{world.model}-{letter}" for letter in "abc"]))
    world.settle()
    assert [model.id for model in client.models.list(limit=2)] == names
    assert client.models.retrieve(names[1]).id == names[1]


def test_the_asynchronous_client(world, speaking):
    provider = speaking("openai").answers(text="Lisbon").answers(text="Lisbon is it")
    options = {"base_url": world.gateway.url, "api_key": world.key}
    world.settle()

    async def both():
        async with sdks.anthropic.AsyncAnthropic(**options) as client:
            message = await client.messages.create(model=world.model, **ASKED)
            async with client.messages.stream(model=world.model, **ASKED) as events:
                return text_of(message), await events.get_final_text()

    assert asyncio.run(both()) == ("Lisbon", "Lisbon is it")
    assert len(provider.seen) == 2


class TestErrors:
    def test_no_key(self, world):
        client = sdks.anthropic.Anthropic(base_url=world.gateway.url, api_key="nonsense", max_retries=0)
        with client, pytest.raises(sdks.anthropic.AuthenticationError) as caught:
            ask(client, world)
        assert (caught.value.type, caught.value.request_id is not None) == ("authentication_error", True)

    def test_no_rule(self, client, world):
        world.provider()
        with pytest.raises(sdks.anthropic.PermissionDeniedError, match="No rule allows"):
            ask(client, world)

    def test_a_request_that_is_wrong(self, client, world, speaking):
        speaking("openai")
        with pytest.raises(sdks.anthropic.BadRequestError, match=r"messages\[0\]\.role"):
            ask(client, world, messages=[{"role": "nobody", "content": "?"}])

    @each_format
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("bad_parameter", ["BadRequestError", "UnprocessableEntityError"]),
            ("bad_credential", ["InternalServerError"]),
            ("limited", ["RateLimitError"]),
            ("failed", ["InternalServerError"]),
            ("overloaded", ["OverloadedError"]),
        ],
    )
    def test_what_a_provider_refuses(self, client, world, speaking, format_name, name, expected):
        sample = recorded(format_name, name)
        refusal = {"status": sample.about["status"], "headers": sample.about["headers"]}
        speaking(format_name).answers(body=sample.body, **refusal)
        with pytest.raises(tuple(getattr(sdks.anthropic, kind) for kind in expected)) as caught:
            ask(client, world)
        assert sample.expect["says"] in caught.value.message

    @each_format
    def test_a_stream_that_fails_midway(self, client, world, speaking, format_name):
        sample = recorded(format_name, "error_midway", streams)
        provider = speaking(format_name)
        with pytest.raises(sdks.anthropic.APIStatusError) as caught:
            stream(client, world, provider, sample)
        assert caught.value.type in ("api_error", "overloaded_error", "rate_limit_error")

    def test_the_gateways_own_limit(self, own_gateway):
        world = own_gateway(GATEWAY_KEY_REQUESTS_PER_MINUTE="1")
        world.allow()
        world.provider()
        with sdks.anthropic.Anthropic(base_url=world.gateway.url, api_key=world.key, max_retries=0) as client:
            ask(client, world)
            with pytest.raises(sdks.anthropic.RateLimitError) as caught:
                ask(client, world)
        assert int(caught.value.response.headers["retry-after"]) >= 1

    def test_it_tries_again_by_itself(self, world, speaking):
        provider = speaking("openai").answers(status=503).answers(text="Lisbon")
        with sdks.anthropic.Anthropic(base_url=world.gateway.url, api_key=world.key, max_retries=1) as client:
            assert text_of(ask(client, world)) == "Lisbon"
        assert len(provider.seen) == 2


class TestTimeouts:
    def test_the_clients_own(self, client, world, speaking):
        provider = speaking("openai").answers(silent=True)
        world.settle()
        with pytest.raises(sdks.anthropic.APITimeoutError):
            client.messages.create(model=world.model, timeout=0.5, **ASKED)
        provider.seen[0].wait_closed()

    def test_the_one_that_it_gives_the_gateway(self, client, world, speaking):
        speaking("openai").answers(silent=True)
        with pytest.raises(sdks.anthropic.GatewayTimeoutError) as caught:
            ask(client, world, extra_headers={"X-Svc-Timeout": "0.5"})
        assert caught.value.type == "timeout_error"

    def test_a_silence_before_the_first_word_of_a_stream(self, client, world, speaking):
        speaking("openai").answers(silent=True)
        world.settle()
        message = client.messages.stream(model=world.model, **ASKED)
        with pytest.raises(sdks.anthropic.APIStatusError), message as events:
            events.get_final_text()
