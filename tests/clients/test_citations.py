"""What an answer cites, as the SDKs of both ecosystems show it, over providers of the formats that cite pages."""

import pytest

from tests.support.clients import sdks
from tests.support.clients.recorded import recorded, script
from tests.support.formats.samples import streams

pytestmark = pytest.mark.embedded

SAMPLES = {"openai": "citations", "anthropic": "citations", "gemini": "grounded", "bedrock": "citations"}
QUESTION = "Who painted the Young Hare?"
ASKED = {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 4096}

citing = pytest.mark.parametrize("format_name", SAMPLES)


@pytest.fixture
def chats(world):
    with sdks.openai.OpenAI(base_url=f"{world.gateway.url}/v1", api_key=world.key, max_retries=0) as client:
        yield client


@pytest.fixture
def messages(world):
    with sdks.anthropic.Anthropic(base_url=world.gateway.url, api_key=world.key, max_retries=0) as client:
        yield client.messages


@pytest.fixture
def answered(world, speaking):
    """Lets a provider of a format answer, whole or in a stream; gives the sample, and the provider."""

    def make(format_name, *kind):
        sample, provider = recorded(format_name, SAMPLES[format_name], *kind), speaking(format_name)
        if kind:
            script(provider, sample)
        else:
            provider.answers(body=sample.body)
        world.settle()
        return sample, provider

    return make


def annotated(text, annotations):
    return [[one.url, one.title, text[one.start_index : one.end_index]] for one in annotations]


def in_blocks(message):
    """Address, title and words of what each block cites."""
    blocks = [block for block in message.content if block.type == "text"]
    return [[one.url, one.title or "", block.text] for block in blocks for one in block.citations or () if is_page(one)]


def is_page(citation):
    return citation.type == "web_search_result_location"


@citing
class TestChat:
    def test_an_answer(self, world, chats, answered, format_name):
        sample, _ = answered(format_name)
        reply = chats.chat.completions.create(model=world.model, **ASKED).choices[0].message
        results = [annotation.url_citation for annotation in reply.annotations]
        assert annotated(reply.content, results) == sample.expect["citations"]

    def test_a_stream(self, world, chats, answered, format_name):
        sample, _ = answered(format_name, streams)
        with chats.chat.completions.stream(model=world.model, **ASKED) as events:
            text = events.get_final_completion().choices[0].message
        results = [annotation.url_citation for annotation in text.annotations]
        assert annotated(text.content, results) == sample.expect["citations"]


@citing
class TestResponses:
    def test_an_answer(self, world, chats, answered, format_name):
        sample, _ = answered(format_name)
        answer = chats.responses.create(model=world.model, input=QUESTION, max_output_tokens=4096)
        parts = [part for item in answer.output for part in item.content]
        assert [one for part in parts for one in annotated(part.text, part.annotations)] == sample.expect["citations"]

    def test_a_stream(self, world, chats, answered, format_name):
        sample, _ = answered(format_name, streams)
        with chats.responses.stream(model=world.model, input=QUESTION, max_output_tokens=4096) as events:
            added = [event.annotation for event in events if event.type == "response.output_text.annotation.added"]
            (part,) = events.get_final_response().output[0].content
        assert annotated(part.text, part.annotations) == sample.expect["citations"]
        results = [one if isinstance(one, dict) else one.model_dump() for one in added]
        assert results == [one.model_dump() for one in part.annotations]


@citing
class TestMessages:
    def test_an_answer(self, world, messages, answered, format_name):
        sample, _ = answered(format_name)
        message = messages.create(model=world.model, **ASKED)
        assert in_blocks(message) == sample.expect["citations"]
        assert "".join(block.text for block in message.content if block.type == "text") == sample.expect["text"]

    def test_a_stream(self, world, messages, answered, format_name):
        sample, _ = answered(format_name, streams)
        with messages.stream(model=world.model, **ASKED) as events:
            text = events.get_final_message()
        assert [one[:2] for one in in_blocks(text)] == [one[:2] for one in sample.expect["citations"]]
        assert "".join(block.text for block in text.content if block.type == "text") == sample.expect["text"]


def test_what_another_provider_cited_does_not_go_to_anthropic(world, messages, answered, speaking):
    sample, first = answered("gemini")
    message = messages.create(model=world.model, **ASKED).content
    world.row(first).delete()
    answer, second = recorded("anthropic", "plain"), speaking("anthropic")
    second.answers(body=answer.body)
    world.settle()
    turns = [*ASKED["messages"], {"role": "assistant", "content": message}, {"role": "user", "content": "And now?"}]
    messages.create(model=world.model, messages=turns, max_tokens=9)
    request = second.seen[0].json["messages"][1]["content"]
    assert "".join(block["text"] for block in request) == sample.expect["text"]
    assert not any(block.get("citations") for block in request)


class TestWhatHasNoPlace:
    """A stream's headers were sent before anything was lost: it is told in a comment at its end."""

    def test_it_is_told_and_told_again_with_the_stored_answer(self, world, answered):
        sample, _ = answered("anthropic")
        for expected in ("MISS", "HIT"):
            response = world.ask(path="/v1/chat/completions", body=ASKED | {"store": True})
            assert response.headers["X-Svc-Cache"] == expected
            assert response.headers["X-Svc-Dropped"] == ", ".join(["store", *sample.expect["dropped"]])

    def test_in_a_stream(self, world, answered):
        sample, _ = answered("anthropic", streams)
        for expected in ("MISS", "HIT"):
            response = world.stream(path="/v1/chat/completions", body=ASKED)
            assert response.headers["X-Svc-Cache"] == expected
            assert f"\n\n: X-Svc-Dropped: {', '.join(sample.expect['dropped'])}\n\n".encode() in response.content

    def test_nothing_is_left_out_of_a_providers_own_answer(self, world, answered):
        sample, _ = answered("anthropic")
        response = world.ask(path="/v1/messages", body=ASKED)
        assert response.content == sample.body
        assert "X-Svc-Dropped" not in response.headers
