"""OpenAI's own SDK: how it understands errors, tries again and stops to wait."""

import pytest

from tests.support.clients import sdks
from tests.support.clients.openai_calls import ask, sdk
from tests.support.clients.recorded import each_format, recorded, script
from tests.support.formats.samples import streams

pytestmark = pytest.mark.embedded


class TestErrors:
    def test_no_key(self, world):
        client = sdks.openai.OpenAI(base_url=f"{world.gateway.url}/v1", api_key="nonsense", max_retries=0)
        with client, pytest.raises(sdks.openai.AuthenticationError) as caught:
            ask(client, world)
        assert (caught.value.code, caught.value.request_id is not None) == ("invalid_api_key", True)

    def test_no_rule(self, client, world):
        world.provider()
        with pytest.raises(sdks.openai.PermissionDeniedError, match="No rule allows") as caught:
            ask(client, world)
        assert caught.value.code == "rule_denied"

    def test_a_request_that_is_wrong(self, client, world, speaking):
        speaking("anthropic")
        with pytest.raises(sdks.openai.BadRequestError) as caught:
            ask(client, world, messages=[{"role": "nobody", "content": "?"}])
        assert caught.value.param == "messages[0].role"

    def test_a_path_that_does_not_exist(self, client, world):
        with pytest.raises(sdks.openai.NotFoundError):
            client.files.list()

    @each_format
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("bad_parameter", ["BadRequestError", "UnprocessableEntityError"]),
            ("bad_credential", ["InternalServerError"]),
            ("limited", ["RateLimitError"]),
            ("failed", ["InternalServerError"]),
            ("overloaded", ["InternalServerError"]),
        ],
    )
    def test_what_a_provider_refuses(self, client, world, speaking, format_name, name, expected):
        sample = recorded(format_name, name)
        refusal = {"status": sample.about["status"], "headers": sample.about["headers"]}
        speaking(format_name).answers(body=sample.body, **refusal)
        with pytest.raises(tuple(getattr(sdks.openai, kind) for kind in expected)) as caught:
            ask(client, world)
        assert sample.expect["says"] in caught.value.message

    @each_format
    def test_a_stream_that_fails_midway(self, client, world, speaking, format_name):
        script(speaking(format_name), recorded(format_name, "error_midway", streams))
        with pytest.raises(sdks.openai.APIError) as caught:
            list(ask(client, world, stream=True))
        assert "The provider failed in the middle of its answer" in caught.value.message

    def test_the_gateways_own_limit(self, own_gateway):
        world = own_gateway(GATEWAY_KEY_REQUESTS_PER_MINUTE="1")
        world.allow()
        world.provider()
        with sdk(world, max_retries=0) as client:
            ask(client, world)
            with pytest.raises(sdks.openai.RateLimitError) as caught:
                ask(client, world)
        assert caught.value.code == "rate_limit_exceeded"
        assert int(caught.value.response.headers["retry-after"]) >= 1


class TestRetries:
    def test_it_tries_again_by_itself(self, world, speaking):
        provider = speaking("openai").answers(status=503).answers(text="Lisbon")
        with sdk(world, max_retries=1) as client:
            assert ask(client, world).choices[0].message.content == "Lisbon"
        assert len(provider.seen) == 2

    def test_what_the_gateway_tried_with_every_provider_is_not_tried_again(self, world, speaking):
        first, second = speaking("openai"), speaking("openai")
        for provider in (first, second):
            provider.default.status = 500
        with sdk(world, max_retries=2) as client, pytest.raises(sdks.openai.InternalServerError):
            ask(client, world)
        assert (len(first.seen), len(second.seen)) == (1, 1)


class TestTimeouts:
    def test_the_clients_own(self, client, world, speaking):
        provider = speaking("openai").answers(silent=True)
        with pytest.raises(sdks.openai.APITimeoutError):
            ask(client, world, timeout=0.5)
        provider.seen[0].wait_closed()

    def test_the_one_that_it_gives_the_gateway(self, client, world, speaking):
        speaking("openai").answers(silent=True)
        with pytest.raises(sdks.openai.InternalServerError) as caught:
            ask(client, world, extra_headers={"X-Svc-Timeout": "0.5"})
        assert (caught.value.status_code, caught.value.code) == (504, "provider_timeout")

    def test_a_silence_in_the_middle_of_a_stream(self, client, world, speaking):
        speaking("openai").answers(text="one two", silent_after=1)
        with pytest.raises(sdks.openai.APIError, match="stopped sending"):
            list(ask(client, world, stream=True))
