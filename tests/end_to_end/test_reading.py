"""Stage 2: the request is read: media type, body, fields and the X-Svc- headers."""

import gzip
import json

import pytest

from tests.support.management import refused
from tests.support.world import response_on

pytestmark = pytest.mark.embedded


def invalid(response, *words):
    """The response is a ValidationError whose message holds these words; the message."""
    assert (response.status_code, response.json()["exception"]) == (400, "ValidationError"), response.text
    message = response.json()["message"]
    for word in words:
        assert word in message
    return message


def chunked(*pieces):
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


class TestBodies:
    @pytest.mark.parametrize(
        ("body", "word"),
        [
            (b"", "not JSON"),
            (b"{", "not JSON"),
            (b"model=x", "not JSON"),
            (b"{'model': 'x'}", "not JSON"),
            (b'{"model": "x",}', "not JSON"),
            (b'{"model": "x"} {}', "not JSON"),
            (b'{"model": "x"}//', "not JSON"),
            (b'{"model": "a\x00b"}', "not JSON"),
            (b'{"model": "x", "n": 01}', "not JSON"),
            (b'\xef\xbb\xbf{"model": "x"}', "not JSON"),
            (b"[]", "must be a JSON object"),
            (b'[{"model": "x"}]', "must be a JSON object"),
            (b'"x"', "must be a JSON object"),
            (b"null", "must be a JSON object"),
            (b"1", "must be a JSON object"),
            (b'{"model": "x", "n": NaN}', "NaN is not a JSON value"),
            (b'{"model": "x", "n": Infinity}', "Infinity is not a JSON value"),
            (b'{"model": "x", "n": [-Infinity]}', "-Infinity is not a JSON value"),
            (b'{"model": "x", "n": 1e999}', "too large"),
            (b'{"model": "x", "n": -1e999}', "too large"),
            (b'{"model": "x", "n": ' + b"9" * 5000 + b"}", "too many digits"),
            (b'{"model": "x", "model": "y"}', "twice"),
            (b'{"model": "x", "\\u006dodel": "y"}', "twice"),
            (b'{"model": "x", "a": [{"b": 1, "b": 1}]}', "twice"),
            (b'{"model": "x", "a": "\\ud800"}', "surrogate"),
            (b'{"model": "x", "\\udfff": 1}', "surrogate"),
            (b'{"model": "x", "a": "\xff"}', "UTF-8"),
            (b'{"model": "x", "a": "\xed\xa0\x80"}', "UTF-8"),
            (b'{"model": "x", "a": "\xc0\xaf"}', "UTF-8"),
            ('{"model": "x"}'.encode("utf-16"), "UTF-8"),
            (b'{"model": "x", "a": ' + b"[" * 64 + b"]" * 64 + b"}", "levels deep"),
            (b'{"model": "x", "a": ' + b"[" * 90_000 + b"]" * 90_000 + b"}", "levels deep"),
            (b'{"a":' * 90_000 + b"1" + b"}" * 90_000, "levels deep"),
        ],
    )
    def test_what_is_no_usable_json_is_refused_and_reaches_nobody(self, world, provider, body, word):
        response = world.post(body)
        invalid(response, word)
        assert provider.seen == []
        entry = world.entry(response)
        assert (entry.status, entry.outcome, entry.entry_source) == (400, "failed", "Not Set")

    @pytest.mark.parametrize(
        "text",
        [
            "[" * 63 + "]" * 63,
            "12345678901234567890123",
            "1E400".replace("E400", "e-400"),
            '"\\ud83d\\ude00"',
            '"😀\\u0000"',
        ],
    )
    def test_odd_but_good_json_passes_as_it_came(self, world, provider, text):
        body = f'{{"model": "{world.model}", "messages": [{{"role": "user", "content": "x"}}], "a": {text}}}'.encode()
        response = world.post(body)
        assert response.status_code == 200
        assert provider.seen[0].body == body
        world.entry(response)

    def test_a_huge_integer_survives_a_request_that_has_to_be_rewritten(self, world, provider):
        response = world.ask(body={"seed": 2**70, "model": f"{world.row(provider).name}/{world.model}"})
        assert response.status_code == 200
        assert (provider.seen[0].json["seed"], provider.seen[0].json["model"]) == (2**70, world.model)

    def test_a_body_of_three_megabytes_passes(self, world, provider):
        prompt = "x" * 3_000_000
        assert world.ask(prompt).status_code == 200
        assert provider.seen[0].json["messages"][0]["content"] == prompt


class TestFields:
    @pytest.mark.parametrize(
        ("body", "word"),
        [
            ({}, "model is missing"),
            ({"model": None}, "model is missing"),
            ({"model": ""}, "non-empty string"),
            ({"model": "  "}, "non-empty string"),
            ({"model": 5}, "non-empty string"),
            ({"model": ["x"]}, "non-empty string"),
            ({"model": True}, "non-empty string"),
            ({"model": {"name": "x"}}, "non-empty string"),
            ({"model": "x" * 201}, "200 printable"),
            ({"model": "a\x00b"}, "200 printable"),
            ({"model": "a\r\nb"}, "200 printable"),
            ({"model": "x", "stream": "yes"}, "stream must be true or false"),
            ({"model": "x", "stream": 1}, "stream must be true or false"),
            ({"model": "x", "stream": {}}, "stream must be true or false"),
            ({"model": "x", "Stream": True}, "differs from stream only in upper and lower case"),
            (
                {"model": "x", "\u017ftream": True},
                "differs from stream only in upper and lower case",
            ),  # which Go's decoder folds
        ],
    )
    def test_a_field_that_is_missing_or_wrong_is_named(self, world, provider, body, word):
        invalid(world.post(body), word)
        assert provider.seen == []

    def test_the_fields_that_the_configuration_requires_have_to_be_there(self, own_gateway):
        world = own_gateway(GATEWAY_REQUIRED_FIELDS="model,user", GATEWAY_MAX_BODY_BYTES="2000")
        world.allow()
        provider = world.provider()
        invalid(world.ask(), "user is missing")
        invalid(world.ask(body={"user": None}), "user is missing")
        assert provider.seen == []
        assert world.ask(body={"user": "u"}).status_code == 200
        self.bodies_over_the_limit_are_refused(world)

    def bodies_over_the_limit_are_refused(self, world):
        """In the same gateway, since its limit is small."""
        body = json.dumps({"model": world.model, "user": "u", "messages": []}).encode()
        at_limit, over = body.ljust(2000), body.ljust(2001)
        assert world.post(at_limit).status_code == 200
        response = world.post(over)
        assert (response.status_code, response.json()["exception"]) == (413, "PayloadTooLarge")
        assert "2000 bytes" in response.json()["message"]
        assert world.entry(response).exception == "PayloadTooLarge"
        head = "Content-Type: application/json\r\nTransfer-Encoding: chunked"
        assert response_on(world.connect(head, chunked(at_limit[:1000], at_limit[1000:]))).status == 200
        assert response_on(world.connect(head, chunked(over[:1000], over[1000:]))).status == 413
        unread = response_on(world.connect("Content-Type: application/json\r\nContent-Length: 99999999999"))
        assert unread.status == 413
        assert world.ask(body={"user": "u"}).status_code == 200


class TestTransfer:
    def test_a_chunked_body_is_read_like_any_other(self, world, provider):
        body = json.dumps({"model": world.model, "messages": [{"role": "user", "content": "é" * 50}]}).encode()
        head = "Content-Type: application/json\r\nTransfer-Encoding: chunked"
        response = response_on(world.connect(head, chunked(*(bytes([byte]) for byte in body))))
        assert response.status == 200
        assert provider.seen[0].body == body

    def test_a_body_that_ends_early_is_refused(self, world, provider):
        sock = world.connect("Content-Type: application/json\r\nContent-Length: 500", b'{"model": "x"}')
        sock.shutdown(1)
        assert response_on(sock).status == 400
        assert provider.seen == []

    def test_a_body_that_never_arrives_is_given_up(self, world, provider):
        sock = world.connect("Content-Type: application/json\r\nContent-Length: 500", b'{"model": ')
        response = response_on(sock)
        assert (response.status, json.loads(response.text)["exception"]) == (400, "ValidationError")

    @pytest.mark.parametrize(
        "head", ["Content-Length: -1", "Content-Length: 1, 2", "Content-Length: 5\r\nContent-Length: 6"]
    )
    def test_a_length_that_is_none_is_refused(self, world, provider, head):
        response = response_on(world.connect(f"Content-Type: application/json\r\n{head}", b'{"model": "x"}'))
        assert (response.status, json.loads(response.text)["code"]) == (400, 400)

    def test_two_framings_at_once_are_refused(self, world, provider):
        head = "Content-Type: application/json\r\nContent-Length: 5\r\nTransfer-Encoding: chunked"
        assert response_on(world.connect(head, chunked(b"{}"))).status == 400
        assert provider.seen == []


class TestMediaType:
    @pytest.mark.parametrize(
        "value", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "json", ""]
    )
    def test_another_media_type_is_refused(self, world, provider, value):
        response = world.post(b'{"model": "x"}', headers={"Content-Type": value})
        assert (response.status_code, response.json()["exception"]) == (415, "UnsupportedMediaType")
        assert "application/json" in response.json()["message"]
        assert provider.seen == []
        assert world.entry(response).status == 415

    def test_a_compressed_body_is_refused_by_its_name(self, world, provider):
        raw = gzip.compress(json.dumps({"model": world.model}).encode())
        response = world.post(raw, headers={"Content-Encoding": "gzip"})
        assert (response.status_code, response.json()["exception"]) == (415, "UnsupportedMediaType")
        assert "Content-Encoding" in response.json()["message"]
        assert provider.seen == []

    def test_a_body_without_a_media_type_is_refused(self, world, provider):
        response = response_on(world.connect("Content-Length: 14", b'{"model": "x"}'))
        assert (response.status, json.loads(response.text)["exception"]) == (415, "UnsupportedMediaType")

    @pytest.mark.parametrize("value", ["application/json; charset=utf-8", "Application/JSON", "application/json ;x=y"])
    def test_json_in_any_spelling_is_taken(self, world, provider, value):
        body = json.dumps({"model": world.model, "messages": []}).encode()
        assert world.post(body, headers={"Content-Type": value}).status_code == 200


class TestHeaders:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("X-Svc-Cache", "yes"),
            ("X-Svc-Cache", "BYPASS"),
            ("X-Svc-Cache-TTL", "soon"),
            ("X-Svc-Cache-TTL", "-1"),
            ("X-Svc-Cache-TTL", "1.5"),
            ("X-Svc-Cache-TTL", "9" * 30),
            ("X-Svc-Timeout", "soon"),
            ("X-Svc-Timeout", "0"),
            ("X-Svc-Timeout", "0.000"),
            ("X-Svc-Timeout", "-5"),
            ("X-Svc-Timeout", "inf"),
            ("X-Svc-Timeout", "nan"),
            ("X-Svc-Timeout", "1e3"),
            ("X-Svc-Operation", "speech"),
            ("X-Svc-Tags", "nothing"),
            ("X-Svc-Tags", "=x"),
            ("X-Svc-Tags", "a b=x"),
            ("X-Svc-Tags", "a=1,,b=2"),
            ("X-Svc-Tags", "a=" + "x" * 257),
            ("X-Svc-Tags", ",".join(f"t{n}=1" for n in range(21))),
        ],
    )
    def test_a_bad_value_is_refused_by_the_headers_name(self, world, provider, name, value):
        invalid(world.ask(headers={name: value}), name)
        assert provider.seen == []

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("X-Svc-Cache", "bypass"),
            ("X-Svc-Cache", "refresh"),
            ("X-Svc-Cache-TTL", "0"),
            ("X-Svc-Cache-TTL", "60"),
            ("X-Svc-Timeout", "5"),
            ("X-Svc-Timeout", "2.5"),
            ("X-Svc-Operation", "chat"),
            ("X-Svc-Tags", "team=search, cost.centre=A 12, empty="),
            ("X-Svc-Unknown", "anything"),
        ],
    )
    def test_a_good_value_is_taken(self, world, provider, name, value):
        assert world.ask(headers={name: value}).status_code == 200

    def test_tags_are_kept_in_the_log(self, world, provider):
        response = world.ask(headers={"X-Svc-Tags": "team=search, cost.centre=A 12 = B"})
        assert world.entry(response).tags == {"team": "search", "cost.centre": "A 12 = B"}

    def test_tags_are_utf_8(self, world, provider):
        response = world.ask(headers={"X-Svc-Tags": "team=Größe 東".encode()})
        assert world.entry(response).tags == {"team": "Größe 東"}

    def test_a_provider_is_named_in_utf_8_or_as_answers_name_it(self, world):
        world.allow()
        name = f"Zürich 東 {world.number}"
        provider = world.provider(name=name)
        first = world.ask(headers={"X-Svc-Provider": name.encode()})
        again = world.ask(headers={"X-Svc-Provider": first.headers["X-Svc-Provider"]})
        assert (first.status_code, again.status_code) == (200, 200)
        assert len(provider.seen) == 1

    def test_two_blanks_before_a_key_are_one(self, world, provider):
        assert world.ask(headers={"Authorization": f"Bearer  {world.key}"}).status_code == 200

    def test_the_clients_request_id_is_taken_over(self, world, provider):
        expected = f"Trace_{world.number}.a-Z9"
        response = world.ask(headers={"X-Svc-Request-ID": expected})
        assert response.headers["X-Svc-Request-ID"] == expected
        assert world.entry(expected).status == 200

    @pytest.mark.parametrize("expected", ["", "a b", "a/b", "x" * 129, "é".encode("latin-1"), "<script>"])
    def test_a_bad_request_id_is_replaced_by_a_new_one(self, world, provider, expected):
        response = world.ask(headers={"X-Svc-Request-ID": expected})
        headers = response.headers["X-Svc-Request-ID"]
        assert response.status_code == 200
        assert (len(headers), headers != expected, headers.isalnum()) == (32, True, True)

    def test_every_request_has_an_id_of_its_own(self, world, provider):
        assert len({world.ask().headers["X-Svc-Request-ID"] for _ in range(5)}) == 5

    def test_a_response_id_of_full_length_is_taken_over(self, world, provider):
        expected = f"{world.number}-".ljust(128, "x")
        assert world.ask(headers={"X-Svc-Request-ID": expected}).headers["X-Svc-Request-ID"] == expected


class TestOperations:
    @pytest.mark.parametrize(
        ("body", "path", "operation"),
        [
            ({"messages": [{"role": "user", "content": "x"}]}, "/v1/chat/completions", "chat"),
            ({"prompt": "x"}, "/v1/completions", "completion"),
            ({"input": "x"}, "/v1/embeddings", "embedding"),
            ({"input": ["x", "y"]}, "/v1/embeddings", "embedding"),
        ],
    )
    def test_the_operation_follows_from_the_body(self, world, provider, body, path, operation):
        response = world.post({"model": world.model, **body})
        assert response.status_code == 200
        assert provider.seen[0].path == path
        assert world.entry(response).operation == operation

    def test_the_header_says_otherwise(self, world, provider):
        response = world.post({"model": world.model, "input": "x"}, headers={"X-Svc-Operation": "chat"})
        assert provider.seen[0].path == "/v1/chat/completions"
        assert world.entry(response).operation == "chat"


class TestOrder:
    BAD = b"{"

    def test_a_bad_credential_comes_before_all_else(self, world, provider):
        response = world.post(self.BAD, key="svc_wrong", headers={"Content-Type": "text/plain", "X-Svc-Cache": "no"})
        assert response.status_code == 401

    def test_a_missing_permission_comes_before_media_type_and_body(self, world, provider):
        key = world.new_key(permissions=[]).text
        assert world.post(self.BAD, key=key, headers={"Content-Type": "text/plain"}).status_code == 403

    def test_the_media_type_comes_before_the_body(self, world, provider):
        assert world.post(self.BAD, headers={"Content-Type": "text/plain"}).status_code == 415

    def test_the_body_comes_before_rules_and_providers(self, world):
        assert world.post(self.BAD).status_code == 400
        assert world.post({"model": ""}).status_code == 400
        assert world.post({"model": "nobody-offers-it"}).status_code == 403


class TestPaths:
    @pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"])
    def test_other_methods_are_not_allowed(self, world, method):
        response = world.session.request(method, f"{world.gateway.url}/work")
        assert (response.status_code, response.headers["Allow"]) == (405, "POST")
        assert response.json()["exception"] == "MethodNotAllowed"
        assert response.headers["X-Svc-Request-ID"]

    def test_a_head_request_gets_no_body(self, world):
        response = world.session.head(f"{world.gateway.url}/work")
        assert (response.status_code, response.content) == (405, b"")

    def test_a_trailing_slash_makes_no_difference(self, world, provider):
        response = world.session.post(
            f"{world.gateway.url}/work/",
            json={"model": world.model, "messages": []},
            headers={"Authorization": f"Bearer {world.key}"},
            allow_redirects=False,
        )
        assert response.status_code == 200

    @pytest.mark.parametrize("path", ["/", "/works", "/work/x", "/work//", "/%00", "/v2", "/work.json"])
    def test_an_unknown_path_is_an_error_like_any_other(self, world, path):
        response = world.session.post(f"{world.gateway.url}{path}", json={})
        assert response.status_code == 404, response.text
        refused(response, 404, "NotFound")
