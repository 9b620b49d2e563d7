"""OpenAI's shapes of completions and embeddings."""

import json

import pytest

from gateway_project.errors import ValidationError
from gateway_project.work.doors import DIALECTS
from providers.formats import Usage
from providers.formats.json_values import read_json
from providers.formats.neutral.deltas import AnswerEnd, AnswerStart, TextDelta
from providers.formats.neutral.messages import Message, Text
from providers.formats.neutral.reply import Reply, Vectors
from providers.formats.sse import data_of, events_in
from tests.support.formats.samples import request

pytestmark = pytest.mark.embedded

COMPLETION, EMBEDDING = DIALECTS["completion"], DIALECTS["embedding"]


class TestCompletion:
    @pytest.mark.parametrize("prompt", ["Once", ["Once"]])
    def test_a_prompt_is_a_chat_with_one_message(self, prompt):
        chat = COMPLETION.read_chat({"model": "m", "prompt": prompt, "max_tokens": 5, "stop": "END", "echo": True})
        assert chat.messages == [Message("user", [Text("Once")])]
        assert (chat.max_tokens, chat.stop, chat.extra) == (5, ["END"], {"echo": True})

    @pytest.mark.parametrize("prompt", [None, 5, [], ["a", "b"], [1, 2], [[1]]])
    def test_other_prompts_are_refused(self, prompt):
        with pytest.raises(ValidationError, match="prompt must be one string"):
            COMPLETION.read_chat({"model": "m", "prompt": prompt})

    def test_an_answer(self):
        work = request({"model": "m", "prompt": "Once"}, "completion", door=True)
        answer = json.loads(COMPLETION.write_reply(work, Reply([Text("upon")], "stop", usage=Usage(1, output=2))))
        assert (answer["object"], answer["id"], answer["model"]) == ("text_completion", "cmpl-request-1", "m")
        assert answer["choices"] == [{"text": "upon", "index": 0, "logprobs": None, "finish_reason": "stop"}]
        assert answer["usage"] == {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}

    @pytest.mark.parametrize("question", [False, True])
    def test_a_stream(self, question):
        body = {"model": "m", "prompt": "Once", "stream": True, "stream_options": {"include_usage": question}}
        writer = COMPLETION.writer(request(body, "completion", door=True))
        written = writer.write([AnswerStart("c", "m-2"), TextDelta("up"), TextDelta("on"), AnswerEnd("length")])
        written += writer.end(Usage(1, output=2))
        *events, result = [data_of(event) for event in events_in(written)]
        assert result == b"[DONE]"
        values = [read_json(event) for event in events]
        assert "".join(choice["text"] for value in values for choice in value["choices"]) == "upon"
        assert {(value["id"], value["model"]) for value in values} == {("c", "m-2")}
        assert values[2]["choices"][0]["finish_reason"] == "length"
        assert [value.get("usage", {}) for value in values[3:]] == [
            {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
        ][: int(question)]
        assert COMPLETION.text(written) == "upon"


class TestEmbedding:
    @pytest.mark.parametrize(
        ("value", "read"), [("a", ["a"]), (["a", "b"], ["a", "b"]), ([1, 2], [[1, 2]]), ([[1], [2]], [[1], [2]])]
    )
    def test_inputs(self, value, read):
        assert EMBEDDING.read_embedding({"model": "m", "input": value}).inputs == read

    @pytest.mark.parametrize("value", [None, 5, [], ["a", 1], [[]], [["a"]], {"a": 1}, [True]])
    def test_inputs_that_are_none(self, value):
        with pytest.raises(ValidationError, match="input must be"):
            EMBEDDING.read_embedding({"model": "m", "input": value})

    def test_parameters(self):
        body = {"model": "m", "input": "a", "dimensions": 3, "encoding_format": "base64", "user": "u", "x": 1}
        embedding = EMBEDDING.read_embedding(body)
        assert (embedding.dimensions, embedding.base64, embedding.user) == (3, True, "u")
        assert embedding.extra == {"x": 1}

    @pytest.mark.parametrize("wrong", [{"dimensions": 0}, {"encoding_format": "int8"}, {"user": 5}])
    def test_parameters_that_are_wrong(self, wrong):
        with pytest.raises(ValidationError) as caught:
            EMBEDDING.read_embedding({"model": "m", "input": "a", **wrong})
        assert caught.value.field == next(iter(wrong))

    @pytest.mark.parametrize(("encoding", "expected"), [("float", [0.5, -2.0]), ("base64", "AAAAPwAAAMA=")])
    def test_vectors_are_written_as_asked(self, encoding, expected):
        body = {"model": "m", "input": "a", "encoding_format": encoding}
        work = request(body, "embedding", door=True)
        answer = json.loads(EMBEDDING.write_vectors(work, Vectors([[0.5, -2.0]], Usage(3), "m-2")))
        assert answer == {
            "object": "list",
            "data": [{"object": "embedding", "index": 0, "embedding": expected}],
            "model": "m-2",
            "usage": {"prompt_tokens": 3, "total_tokens": 3},
        }
