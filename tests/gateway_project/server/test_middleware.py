"""Pages are compressed for browsers that can read it; data and streams are not."""

import gzip

import pytest
from django.http import HttpResponse, StreamingHttpResponse
from django.test import RequestFactory

from gateway_project.server.middleware import PageCompression

TEXT = "<p>a long page of the console</p>" * 100


def answer(response, **headers):
    return PageCompression(lambda request: response)(RequestFactory().get("/admin/", headers=headers))


def test_a_page_is_compressed_and_its_length_says_little():
    answers = [answer(HttpResponse(TEXT), **{"accept-encoding": "gzip, br"}) for _ in range(20)]
    assert {one.headers["Content-Encoding"] for one in answers} == {"gzip"}
    assert gzip.decompress(answers[0].content).decode() == TEXT
    assert len({len(one.content) for one in answers}) > 3
    assert "Accept-Encoding" in answers[0].headers["Vary"]


@pytest.mark.parametrize(
    "response",
    [HttpResponse(TEXT, content_type="application/json"), StreamingHttpResponse([TEXT], content_type="text/html")],
    ids=["data", "stream"],
)
def test_data_and_streams_stay_as_they_are(response):
    assert "Content-Encoding" not in answer(response, **{"accept-encoding": "gzip"}).headers


def test_who_cannot_read_it_gets_the_page_plain():
    assert answer(HttpResponse(TEXT)).content.decode() == TEXT
