"""Vectors of formats that have a shape of their own, for clients of OpenAI's."""

import json

import pytest

from gateway_project.errors import ProviderError
from providers.formats import FORMATS
from tests.support.formats.samples import request

pytestmark = pytest.mark.embedded

WORK = request({"model": "m", "input": ["a", "b"]}, "embedding", door=True)


def vectors(format_name, reply):
    answer = FORMATS[format_name].answer(WORK, json.dumps(reply).encode())
    return [item["embedding"] for item in json.loads(answer.body)["data"]]


def test_mistral_says_whose_each_is():
    data = [{"index": 1, "embedding": [2]}, {"index": 0, "embedding": [1]}]
    assert vectors("mistral", {"data": data}) == [[1], [2]]
    assert vectors("mistral", {"data": [{"embedding": [2]}, {"embedding": [1]}]}) == [[2], [1]]


@pytest.mark.parametrize(
    ("format_name", "reply"),
    [
        ("mistral", {"data": [{"index": 0, "embedding": [1]}]}),
        ("mistral", {"data": [{"index": 0, "embedding": "abcd"}, {"index": 1, "embedding": [1]}]}),
        ("cohere", {"embeddings": {"float": [[1]]}}),
        ("cohere", {"embeddings": {"float": [[1], [2], [3]]}}),
        ("cohere", {"embeddings": {"float": ["abcd", [1]]}}),
        ("gemini", {"embeddings": [{"values": [1]}]}),
        ("ollama", {"embeddings": [[1]]}),
    ],
)
def test_each_input_has_one_made_of_numbers(format_name, reply):
    with pytest.raises(ProviderError, match="2 vectors"):
        vectors(format_name, reply)
