"""OpenAI's own SDK, unmodified but for its base address, over providers of every format."""

import asyncio
import json
from secrets import token_hex

import pytest
from pydantic import BaseModel

from providers.formats import FORMATS
from providers.models import Provider
from tests.support.clients import sdks
from tests.support.clients.openai_calls import ASKED, QUESTION, ask
from tests.support.clients.recorded import CALLS, each_format, recorded, script
from tests.support.formats.samples import streams, whole

pytestmark = pytest.mark.embedded

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "The weather", "parameters": SCHEMA}}
FLAT = {"type": "function", "name": "weather", "description": "The weather", "parameters": SCHEMA}
EMBEDDINGS = [
    (name, sample.name)
    for name in FORMATS
    for sample in whole(name)
    if sample.name == "embedding" or sample.name.startswith("embedding_of_cohere")
]


class Capital(BaseModel):
    city: str
    population: int


def respond(client, world, **asked):
    world.settle()
    return client.responses.create(model=world.model, **{"input": QUESTION, "max_output_tokens": 4096} | asked)


def calls_of(message):
    return [[call.function.name, json.loads(call.function.arguments)] for call in message.tool_calls]


def tokens(sample):
    """Input of every kind, and output."""
    usage = sample.expect["usage"]
    return sum(usage.get(name) or 0 for name in ("input", "cache_read", "cache_write")), usage["output"]


class TestChat:
    @each_format
    def test_an_answer(self, client, world, speaking, format_name):
        sample, provider = recorded(format_name, "plain"), speaking(format_name)
        provider.answers(body=sample.body)
        answer = ask(client, world, temperature=0.5, stop=["END"])
        choice = answer.choices[0]
        assert (choice.message.content, choice.finish_reason) == (sample.expect["text"], "stop")
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == tokens(sample)
        assert answer._request_id == world.entry(answer._request_id).correlation_id

    @each_format
    def test_a_stream(self, client, world, speaking, format_name):
        sample = recorded(format_name, "plain", streams)
        script(speaking(format_name), sample)
        *chunks, last = ask(client, world, stream=True, stream_options={"include_usage": True})
        text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
        assert text == sample.expect["text"]
        assert (last.usage.prompt_tokens, last.usage.completion_tokens) == tokens(sample)

    @each_format
    def test_a_stream_has_a_choice_in_every_chunk_unless_usage_was_asked_for(
        self, client, world, speaking, format_name
    ):
        script(speaking(format_name), recorded(format_name, "plain", streams))
        chunks = list(ask(client, world, stream=True))
        if format_name == "azure-openai":  # whose own first chunk tells of its filters, and passes as it is
            assert chunks.pop(0).prompt_filter_results
        assert all(chunk.choices for chunk in chunks)

    @each_format
    def test_tools(self, client, world, speaking, format_name):
        sample, answer = recorded(format_name, "parallel_tool_calls"), recorded(format_name, "plain")
        provider = speaking(format_name).answers(body=sample.body).answers(body=answer.body)
        first = ask(client, world, tools=[WEATHER]).choices[0]
        assert (calls_of(first.message), first.finish_reason) == (sample.expect.get("calls", CALLS), "tool_calls")
        results = [
            {"role": "tool", "tool_call_id": call.id, "content": f"{20 + number} degrees"}
            for number, call in enumerate(first.message.tool_calls)
        ]
        text = first.message.model_dump(exclude_none=True)
        second = ask(client, world, tools=[WEATHER], messages=[*ASKED["messages"], text, *results])
        assert second.choices[0].message.content == answer.expect["text"]
        request = provider.seen[1].body.decode()
        assert request.index("20 degrees") < request.index("21 degrees")

    @each_format
    def test_tools_in_a_stream(self, client, world, speaking, format_name):
        sample = recorded(format_name, "parallel_tool_calls", streams)
        script(speaking(format_name), sample)
        world.settle()
        with client.chat.completions.stream(model=world.model, tools=[WEATHER], **ASKED) as events:
            choice = events.get_final_completion().choices[0]
        assert (calls_of(choice.message), choice.finish_reason) == (sample.expect.get("calls", CALLS), "tool_calls")

    @pytest.mark.parametrize("format_name", ["anthropic", "bedrock", "gemini", "mistral", "cohere", "ollama"])
    def test_thoughts_that_the_sdk_gathers_from_a_stream_go_back_to_their_maker(
        self, client, world, speaking, format_name
    ):
        sample, provider = recorded(format_name, "reasoning", streams), speaking(format_name)
        script(provider, sample)
        world.settle()
        with client.chat.completions.stream(model=world.model, **ASKED) as events:
            text = events.get_final_completion().choices[0].message
        assert text.reasoning_content == sample.expect["reasoning"]
        provider.answers(body=recorded(format_name, "plain").body)
        turns = [*ASKED["messages"], text.model_dump(exclude_none=True), {"role": "user", "content": "And?"}]
        ask(client, world, messages=turns)
        assert sample.expect["reasoning"] in provider.seen[1].body.decode()

    def test_the_sdk_gathers_several_pictures_from_a_stream_and_they_go_back(self, client, world, speaking):
        part = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
        pieces = [{"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]}] * 2
        provider = speaking("gemini").answers(stream=pieces).answers(body=recorded("gemini", "plain").body)
        world.settle()
        with client.chat.completions.stream(model=world.model, **ASKED) as events:
            text = events.get_final_completion().choices[0].message
        assert [image["image_url"]["url"] for image in text.images] == ["data:image/png;base64,aGk="] * 2
        ask(client, world, messages=[*ASKED["messages"], text, {"role": "user", "content": "Bluer!"}])
        request = provider.seen[1].json["contents"][1]["parts"]
        assert [request_part["inlineData"] for request_part in request] == [part["inlineData"]] * 2

    @pytest.mark.parametrize("format_name", ["openai", "anthropic", "gemini"])
    def test_an_answer_that_is_parsed(self, client, world, speaking, format_name):
        text = Capital(city="Lisbon", population=550_000).model_dump_json()
        sample = recorded(format_name, "plain")
        spoken, capital = sample.expect["text"], json.dumps(text)[1:-1]
        provider = speaking(format_name).answers(body=sample.body.replace(spoken.encode(), capital.encode()))
        world.settle()
        answer = client.chat.completions.parse(model=world.model, response_format=Capital, **ASKED)
        assert answer.choices[0].message.parsed == Capital(city="Lisbon", population=550_000)
        assert "population" in provider.seen[0].body.decode()

    @pytest.mark.parametrize("format_name", ["anthropic", "cohere", "gemini", "mistral"])
    def test_parameters_that_a_new_provider_would_refuse_do_not_reach_it(self, client, world, speaking, format_name):
        provider = speaking(format_name).answers(body=recorded(format_name, "plain").body)
        world.settle()
        answer = client.chat.completions.with_raw_response.create(
            model=world.model, n=2, logprobs=True, logit_bias={"1": 2}, service_tier="flex", **ASKED
        )
        dropped = answer.headers["X-Svc-Dropped"].split(", ")
        assert {"logit_bias", "n"} <= set(dropped) <= {"logit_bias", "logprobs", "n", "service_tier"}
        assert provider.seen[0].json.keys().isdisjoint(dropped)

    def test_a_text_completion(self, client, world, speaking):
        speaking("anthropic").answers(body=recorded("anthropic", "plain").body)
        world.settle()
        answer = client.completions.create(model=world.model, prompt=QUESTION, max_tokens=9)
        assert answer.choices[0].text == recorded("anthropic", "plain").expect["text"]

    def test_the_asynchronous_client(self, world, speaking):
        sample = recorded("anthropic", "plain", streams)
        script(speaking("anthropic"), sample)
        options = {"base_url": f"{world.gateway.url}/v1", "api_key": world.key}
        world.settle()

        async def said():
            async with sdks.openai.AsyncOpenAI(**options) as client:
                chunks = await client.chat.completions.create(model=world.model, stream=True, **ASKED)
                return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks])

        assert asyncio.run(said()) == sample.expect["text"]


class TestResponses:
    @each_format
    def test_an_answer(self, client, world, speaking, format_name):
        kind = "responses_plain" if format_name == "openai-responses" else "plain"
        sample = recorded(format_name, kind)
        speaking(format_name).answers(body=sample.body)
        answer = respond(client, world, instructions="Be brief.")
        assert (answer.output_text, answer.status) == (sample.expect["text"], "completed")
        assert (answer.usage.input_tokens, answer.usage.output_tokens) == tokens(sample)

    @each_format
    def test_a_stream(self, client, world, speaking, format_name):
        kind = "responses_plain" if format_name == "openai-responses" else "plain"
        sample = recorded(format_name, kind, streams)
        script(speaking(format_name), sample)
        world.settle()
        with client.responses.stream(model=world.model, input=QUESTION, max_output_tokens=4096) as events:
            text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
            answer = events.get_final_response()
        assert text == answer.output_text == sample.expect["text"]
        assert (answer.usage.input_tokens, answer.usage.output_tokens) == tokens(sample)

    @pytest.mark.parametrize("format_name", ["openai", "anthropic", "gemini"])
    def test_tools_and_their_results(self, client, world, speaking, format_name):
        sample, answer = recorded(format_name, "parallel_tool_calls"), recorded(format_name, "plain")
        provider = speaking(format_name).answers(body=sample.body).answers(body=answer.body)
        first = respond(client, world, tools=[FLAT])
        calls = [item for item in first.output if item.type == "function_call"]
        assert [[call.name, json.loads(call.arguments)] for call in calls] == sample.expect.get("calls", CALLS)
        results = [
            {"type": "function_call_output", "call_id": call.call_id, "output": f"{20 + number} degrees"}
            for number, call in enumerate(calls)
        ]
        texts = [item.model_dump(exclude_none=True) for item in first.output]
        turns = [{"role": "user", "content": QUESTION}, *texts, *results]
        assert respond(client, world, tools=[FLAT], input=turns).output_text == answer.expect["text"]
        assert "21 degrees" in provider.seen[1].body.decode()

    def test_thoughts_go_back_to_their_maker_as_they_came(self, client, world, speaking):
        sample, provider = recorded("anthropic", "reasoning"), speaking("anthropic")
        provider.answers(body=sample.body).answers(body=recorded("anthropic", "plain").body)
        first = respond(client, world, reasoning={"effort": "low"})
        assert first.output[0].summary[0].text == sample.expect["reasoning"]
        turns = [{"role": "user", "content": QUESTION}, *first.output, {"role": "user", "content": "And?"}]
        respond(client, world, input=turns, reasoning={"effort": "low"})
        body = json.loads(sample.body)["content"][0]
        assert provider.seen[1].json["messages"][1]["content"][0] == body

    @pytest.mark.parametrize("stream", [False, True])
    def test_pictures_go_back_with_their_signature(self, client, world, speaking, stream):
        """Gemini 3 refuses a picture in a turn of its own without it."""
        part = {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thoughtSignature": "c2ln"}
        answer = {"candidates": [{"content": {"parts": [{"text": "Here:"}, part]}, "finishReason": "STOP"}]}
        provider = speaking("gemini").answers(**({"stream": [answer]} if stream else {"body": answer}))
        provider.answers(body=recorded("gemini", "plain").body)
        world.settle()
        values = {"model": world.model, "input": QUESTION}
        if stream:
            with client.responses.stream(**values) as events:
                first = events.get_final_response()
        else:
            first = client.responses.create(**values)
        turns = [{"role": "user", "content": QUESTION}, *first.output, {"role": "user", "content": "Larger."}]
        respond(client, world, input=turns)
        assert provider.seen[1].json["contents"][1]["parts"] == [{"text": "Here:"}, part]

    def test_azures_own_are_reached_with_the_clients_bytes(self, client, world):
        """Azure's v1 API has them where OpenAI has: the format is the same, the address and the header are not."""
        world.allow()
        provider = world.provider(format_name="openai-responses", auth_method="api-key")
        address = provider.url.removesuffix("/v1") + "/openai/v1"
        Provider.objects.filter(pk=world.row(provider).pk).update(url=address)
        body = json.loads(recorded("openai-responses", "responses_plain").body)
        for identifier in (
            f"resp_{token_hex(8)}" for _ in range(2)
        ):  # the sample's own id is the first user's who got it
            provider.answers(body=body | {"id": identifier})
        first = respond(client, world, input="Before that", store=True)
        answer = respond(client, world, previous_response_id=first.id, store=True)
        assert answer.output_text == recorded("openai-responses", "responses_plain").expect["text"]
        request = provider.seen[1]
        assert (request.path, request.headers["api-key"]) == ("/openai/v1/responses", "sk-secret-of-the-provider")
        assert request.json["previous_response_id"] == first.id

    def test_a_stream_of_its_own_that_breaks_off_is_told_in_its_numbers(self, client, world, speaking):
        script(speaking("openai-responses"), recorded("openai-responses", "responses_cut_off", streams))
        numbers = []
        with pytest.raises(sdks.openai.APIError, match="terminal mark|provider"):
            for event in respond(client, world, stream=True):
                numbers.append(event.sequence_number)
        assert numbers == list(range(len(numbers)))
        assert event.type == "response.failed"

    def test_a_stream_that_fails_midway(self, client, world, speaking):
        script(speaking("anthropic"), recorded("anthropic", "error_midway", streams))
        with pytest.raises(sdks.openai.APIError, match="The provider failed in the middle of its answer"):
            list(respond(client, world, stream=True))


@pytest.mark.parametrize("name", EMBEDDINGS, ids="-".join)
@pytest.mark.parametrize("encoding", [{}, {"encoding_format": "float"}])
def test_embeddings(client, world, speaking, name, encoding):
    sample, usage = recorded(*name), recorded(*name).expect["usage"]
    model = f"{world.model}.{sample.model}"  # what is known of some models goes by their names
    speaking(sample.format.name, model).answers(body=sample.body, headers=sample.about["headers"])
    world.settle()
    request = sample.about["work"]["input"]
    answer = client.embeddings.create(model=model, input=request, **encoding)
    assert len(answer.data) == (len(request) if isinstance(request, list) else 1)
    assert all(isinstance(number, float) for item in answer.data for number in item.embedding)
    assert answer.usage.prompt_tokens == (usage["input"] if usage else 0)


def test_models(client, world):
    world.allow(regex=f"{world.model}-[ab]")
    world.provider(*(f"{world.model}-{letter}" for letter in "abc"))
    world.settle()
    names = [f"{world.model}-a", f"{world.model}-b"]
    assert [model.id for model in client.models.list()] == names
    assert client.models.retrieve(names[0]).id == names[0]
    with pytest.raises(sdks.openai.NotFoundError):
        client.models.retrieve(f"{world.model}-c")
