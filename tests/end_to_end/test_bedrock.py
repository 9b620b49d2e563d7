"""Bedrock through the running gateway: signed requests, and streams of binary frames."""

import pytest
from botocore import auth as aws
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.eventstream import EventStreamBuffer

from providers.formats.bedrock.event_stream import MEDIA_TYPE
from tests.support.formats.samples import streams, whole

pytestmark = pytest.mark.embedded

SECRET, TOKEN = "wJalrXUtnFEMI/K7MDENG+bPxRfiCY", "FwoGZXIvYXdzEBYaD"
MODEL = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
ASKED = {"model": MODEL, "messages": [{"role": "user", "content": "Capital of Portugal?"}]}
STREAM = {"Content-Type": MEDIA_TYPE}


def recorded(name, kind=whole):
    return next(sample for sample in kind("bedrock") if sample.name == name)


@pytest.fixture
def bedrock(world):
    world.allow()
    signed = {"auth_method": "aws-sigv4", "credential": f"AKIDEXAMPLE:{SECRET}:{TOKEN}:eu-west-1"}
    return world.provider(MODEL, format_name="bedrock", **signed)


def ask(world, provider, **options):
    body = ASKED | options.pop("body", {})
    return world.post(body, headers={"X-Svc-Provider": world.row(provider).name}, **options)


def frames(raw):
    """Headers and payloads of all frames, as botocore reads them."""
    buffer = EventStreamBuffer()
    buffer.add_data(raw)
    return [(message.headers, message.payload) for message in buffer]


def test_each_request_is_signed(world, bedrock):
    for prompt in ("one", "two"):
        bedrock.answers(body=recorded("plain").body)
        assert ask(world, bedrock, body={"messages": [{"role": "user", "content": prompt}]}).status_code == 200
    for observations in bedrock.seen:
        request = AWSRequest(
            "POST", f"http://{observations.headers['host']}{observations.path}", data=observations.body
        )
        request.headers["X-Amz-Date"] = request.context["timestamp"] = observations.headers["x-amz-date"]
        request.headers["X-Amz-Security-Token"] = TOKEN
        signer = aws.SigV4Auth(Credentials("AKIDEXAMPLE", SECRET, TOKEN), "bedrock", "eu-west-1")
        signature = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
        assert observations.headers["authorization"].endswith(signature)
        assert observations.path == f"/v1/model/{MODEL.replace(':', '%3A')}/converse"
    assert bedrock.seen[0].headers["authorization"] != bedrock.seen[1].headers["authorization"]


def test_nothing_of_the_credential_is_told(world, bedrock):
    bedrock.answers(status=400, body={"message": f"AKIDEXAMPLE, {SECRET} and {TOKEN} are wrong"})
    response = ask(world, bedrock)
    assert response.json()["message"] == "…, … and … are wrong"
    assert SECRET not in world.entry(response).payload + world.gateway.log()


def test_a_credential_of_another_form_is_refused(world):
    with pytest.raises(Exception, match="ACCESS_KEY:SECRET_KEY"):
        world.provider(format_name="bedrock", auth_method="aws-sigv4", credential="AKIDEXAMPLE")


def test_on_work_a_stream_comes_as_the_provider_sends_it(world, bedrock):
    sample = recorded("plain", streams)
    bedrock.answers(stream=[sample.body[at : at + 50] for at in range(0, len(sample.body), 50)], headers=STREAM)
    response = ask(world, bedrock, body={"stream": True}, stream=True)
    assert response.content == sample.body
    assert response.headers["Content-Type"] == MEDIA_TYPE
    assert bedrock.seen[0].path.endswith("/converse-stream")
    entry = world.entry(response)
    assert (entry.outcome, entry.input_tokens, entry.output_tokens) == ("completed", 10, 8)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("error_midway", "throttlingException"),
        ("failed_midway", "internalServerException"),
        ("cut_off_inside_a_frame", "internalServerException"),
    ],
)
def test_on_work_an_error_in_a_stream_is_an_exception_frame(world, bedrock, name, kind):
    body = recorded(name, streams).body
    bedrock.answers(stream=[body[:200], body[200:]], pace=0.3, headers=STREAM)
    response = ask(world, bedrock, body={"stream": True}, stream=True)
    *_, (headers, payload) = frames(response.content)
    assert (headers[":message-type"], headers[":exception-type"]) == ("exception", kind)
    assert b'"exception":"Provider' in payload
    assert world.entry(response).outcome in ("failed", "truncated")


def test_an_openai_client_is_streamed_events(world, bedrock):
    sample = recorded("plain", streams)
    bedrock.answers(stream=[sample.body], headers=STREAM)
    response = ask(world, bedrock, body={"stream": True}, path="/v1/chat/completions", stream=True)
    assert response.headers["Content-Type"].startswith("text/event-stream")
    assert response.content.endswith(b"data: [DONE]\n\n")
    assert b'"content":"The capital"' in response.content
