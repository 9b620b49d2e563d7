"""What a provider keeps under the gateway's account is its user's: nobody else reads it through the model."""

import json
import threading

import pytest
import requests

from gateway_project.work.ownership.owners import digest_of
from telemetry.models import KeptState
from tests.support.promises import promise
from tests.support.stored_responses import (
    PATH,
    Party,
    events_of,
    interpreter,
    message,
    response_with,
    said,
    variable,
)

pytestmark = pytest.mark.embedded

MESSAGES = "/v1/messages"


@pytest.fixture
def party(world):
    return Party(world)


def assert_not_found(response, identifier, code, field):
    """A refusal as OpenAI words it."""
    assert response.status_code == 404, response.text
    body = response.json()["error"]
    assert (body["type"], body["param"], body["code"]) == ("invalid_request_error", field, code)
    assert identifier in body["message"]


class TestResponses:
    @promise("Nobody reads through a provider what is another user's", target="404", suite="attack")
    def test_only_its_user_goes_on_with_a_response(self, party):
        name = party.world.name
        first, second = name("resp"), name("resp")
        party.provider.answers(body=response_with(first)).answers(body=response_with(second))
        assert party.ask(party.ann).status_code == 200
        refused = party.ask(party.bob, previous_response_id=first)
        assert_not_found(refused, first, "previous_response_not_found", "previous_response_id")
        assert refused.json()["error"]["message"] == f"Previous response with id '{first}' not found."
        assert len(party.provider.seen) == 1
        assert party.ask(party.ann, previous_response_id=first).json()["id"] == second
        assert party.provider.seen[1].json["previous_response_id"] == first

    @promise("Nobody reads through a provider what is another user's", target="404", suite="attack")
    @pytest.mark.parametrize("method", ["GET", "DELETE", "POST", "PATCH", "HEAD"])
    @pytest.mark.parametrize("path", ["{}", "{}/", "{}/input_items", "{}/cancel", "{}?stream=true", "../responses/{}"])
    def test_no_path_leads_to_a_stored_response(self, party, method, path):
        """The gateway has no such route, neither for another user nor for its own."""
        identifier = party.world.name("resp")
        party.provider.answers(body=response_with(identifier))
        assert party.ask(party.ann).status_code == 200
        for who in (party.bob, party.ann):
            headers = {"Authorization": f"Bearer {who.text}"}
            url = f"{party.world.gateway.url}{PATH}/{path.format(identifier)}"
            response = requests.request(method, url, headers=headers, timeout=30)
            assert response.status_code == 404
            assert "Lisbon" not in response.text
        assert len(party.provider.seen) == 1

    def test_an_id_that_nobody_made_here_is_nobodys(self, party):
        refused = party.ask(party.ann, previous_response_id="resp_of_another_application")
        assert_not_found(refused, "resp_of_another", "previous_response_not_found", "previous_response_id")
        assert party.provider.seen == []

    def test_a_refusal_is_logged_and_counted(self, party):
        response = party.ask(party.bob, previous_response_id="resp_x")
        entry = party.world.entry(response)
        assert (entry.status, entry.outcome, entry.exception, entry.attempts) == (404, "failed", "NotFound", 0)

    def test_a_response_that_is_not_stored_has_no_owner(self, party):
        identifier = party.world.name("resp")
        party.provider.answers(body=response_with(identifier))
        assert party.ask(party.ann, store=False).status_code == 200
        assert party.ask(party.ann, previous_response_id=identifier).status_code == 404
        assert len(party.provider.seen) == 1

    @pytest.mark.parametrize("stored", [{}, {"store": True}, {"store": None}])
    def test_a_response_is_stored_unless_the_request_says_otherwise(self, party, stored):
        identifier = party.world.name("resp")
        party.provider.answers(body=response_with(identifier)).answers(body=response_with("resp_next"))
        party.ask(party.ann, **stored)
        assert party.ask(party.ann, previous_response_id=identifier).status_code == 200

    def test_the_first_event_of_a_stream_is_enough(self, party):
        identifier = party.world.name("resp")
        party.provider.answers(stream=events_of(response_with(identifier)))
        party.provider.answers(body=response_with("resp_next"))
        assert identifier in party.ask(party.ann, stream=True).text
        assert party.ask(party.bob, previous_response_id=identifier).status_code == 404
        assert party.ask(party.ann, previous_response_id=identifier).status_code == 200

    def test_a_name_in_other_letters_does_not_get_around_the_check(self, party):
        refused = party.ask(party.bob, Previous_Response_ID="resp_x")
        assert refused.status_code == 400
        assert party.provider.seen == []

    @pytest.mark.parametrize("value", [["resp_x"], {"id": "resp_x"}, 7, ""])
    def test_an_id_that_is_none_is_refused(self, party, value):
        assert party.ask(party.bob, previous_response_id=value).status_code == 400
        assert party.provider.seen == []

    def test_an_answer_that_is_stored_is_cached_for_its_user_alone(self, party):
        party.provider.default.body = response_with(party.world.name("resp"))
        answers = [party.ask(who, input="Once?") for who in (party.ann, party.ann, party.bob)]
        assert [answer.headers["X-Svc-Cache"] for answer in answers] == ["MISS", "HIT", "MISS"]
        shared = [party.ask(who, input="Once?", store=False) for who in (party.ann, party.bob)]
        assert [answer.headers["X-Svc-Cache"] for answer in shared] == ["MISS", "HIT"]

    def test_the_database_knows_the_owner_for_later(self, party):
        identifier = party.world.name("resp")
        party.provider.answers(body=response_with(identifier))
        party.ask(party.ann)
        party.world.until(lambda: KeptState.objects.filter(digest=digest_of(identifier)).exists())
        row = KeptState.objects.get(digest=digest_of(identifier))
        assert (row.user_id, row.is_lasting) == (party.ann.key.owner_id, False)


class TestItems:
    @pytest.mark.parametrize(
        "reference",
        [
            {"type": "item_reference"},
            {},
            {"type": "reasoning", "summary": []},
            {"type": "image_generation_call"},
            {"type": "web_search_call", "status": "completed"},
            {"type": "reasoning", "summary": [], "encrypted_content": "of bob"},
        ],
    )
    @promise("Nobody reads through a provider what is another user's", target="404", suite="attack")
    def test_nobody_else_refers_to_an_item(self, party, reference):
        item = party.world.name("msg")
        party.provider.answers(body=response_with(party.world.name("resp"), message(item)))
        party.provider.answers(body=response_with("resp_next"))
        assert party.ask(party.ann).status_code == 200
        requests = [{"role": "user", "content": "Go on."}, {**reference, "id": item}]
        assert_not_found(party.ask(party.bob, input=requests), item, "item_not_found", "input[1].id")
        assert len(party.provider.seen) == 1
        assert party.ask(party.ann, input=requests).status_code == 200

    def test_items_of_a_stream_are_known_once_it_has_ended(self, party):
        item = party.world.name("msg")
        stream = events_of(response_with(party.world.name("resp"), message(item)))
        party.provider.answers(stream=stream).answers(body=response_with("resp_next"))
        assert party.ask(party.ann, stream=True).status_code == 200
        requests = [{"type": "item_reference", "id": item}]
        assert party.ask(party.ann, input=requests).status_code == 200
        assert party.ask(party.bob, input=requests).status_code == 404
        assert len(party.provider.seen) == 2

    def test_items_that_are_sent_as_a_whole_need_no_owner(self, party):
        party.provider.answers(body=response_with("resp_next"))
        call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}
        thought = {"type": "reasoning", "id": "rs_of_store_false", "summary": [], "encrypted_content": "x"}
        search = {"type": "web_search_call", "id": "ws_of_store_false", "status": "completed"}
        assert party.ask(party.ann, input=[message("msg_1"), call, thought, search]).status_code == 200

    def test_there_is_a_most_of_references(self, party):
        many = [{"type": "item_reference", "id": f"msg_{number}"} for number in range(2001)]
        assert party.ask(party.bob, input=many).status_code == 400


class TestConversations:
    @pytest.mark.parametrize("wrap", [str, lambda name: {"id": name}])
    @promise("Nobody reads through a provider what is another user's", target="404", suite="attack")
    def test_a_conversation_is_the_first_ones_who_names_it(self, party, wrap):
        conversation = party.world.name("conv")
        party.provider.default.body = response_with(party.world.name("resp"))
        assert party.ask(party.ann, conversation=wrap(conversation)).status_code == 200
        refused = party.ask(party.bob, conversation=wrap(conversation))
        assert_not_found(refused, conversation, "conversation_not_found", "conversation")
        assert party.ask(party.ann, conversation=wrap(conversation)).status_code == 200
        assert len(party.provider.seen) == 2

    def test_of_two_who_name_one_at_the_same_moment_one_gets_it(self, party):
        conversation, statuses = party.world.name("conv"), []
        party.provider.default.body = response_with(party.world.name("resp"))
        party.world.settle()
        start = threading.Barrier(2)

        def ask(who):
            start.wait()
            statuses.append(party.ask(who, conversation=conversation).status_code)

        threads = [threading.Thread(target=ask, args=(who,)) for who in (party.ann, party.bob)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [200, 404]

    def test_a_container_of_a_response_is_its_users(self, party):
        container = party.world.name("cntr")
        call = {"type": "code_interpreter_call", "id": party.world.name("ci"), "container_id": container, "code": "1"}
        party.provider.answers(body=response_with(party.world.name("resp"), call))
        party.provider.answers(body=response_with("resp_next"))
        assert party.ask(party.ann).status_code == 200
        tools = [{"type": "code_interpreter", "container": container}]
        refused = party.ask(party.bob, tools=tools)
        assert_not_found(refused, container, "container_not_found", "tools[0].container")
        assert party.ask(party.ann, tools=tools).status_code == 200


class TestAnthropic:
    @pytest.fixture
    def party(self, world):
        return Party(world, "anthropic", MESSAGES)

    def ask(self, party, who, **body):
        request = {"max_tokens": 9, "messages": [{"role": "user", "content": "Hello!"}]} | body
        return party.world.post({"model": party.world.model} | request, key=who.text, path=MESSAGES)

    def answer(self, identifier, **more):
        content = [{"type": "text", "text": "Lisbon"}]
        return {
            "id": identifier,
            "type": "message",
            "role": "assistant",
            "content": content,
            "stop_reason": "end_turn",
        } | more

    def test_only_its_user_goes_on_with_a_thread(self, party):
        identifier = party.world.name("msg")
        party.provider.answers(body=self.answer(identifier)).answers(body=self.answer("msg_next"))
        assert self.ask(party, party.ann, thread={"type": "create"}).status_code == 200
        on = {"type": "continue", "previous_message_id": identifier}
        refused = self.ask(party, party.bob, thread=on)
        assert refused.status_code == 404
        body = refused.json()["error"]
        assert (body["type"], body["details"]["error_code"]) == ("not_found_error", "thread_not_found")
        assert len(party.provider.seen) == 1
        assert self.ask(party, party.ann, thread=on).status_code == 200

    @pytest.mark.parametrize("wrap", [str, lambda name: {"id": name, "skills": []}])
    def test_a_container_is_its_users(self, party, wrap):
        container = party.world.name("container")
        about = {"id": container, "expires_at": "2026-12-01T00:00:00Z"}
        party.provider.answers(body=self.answer("msg_1", container=about)).answers(body=self.answer("msg_next"))
        assert self.ask(party, party.ann).status_code == 200
        assert self.ask(party, party.bob, container=wrap(container)).status_code == 404
        assert len(party.provider.seen) == 1
        assert self.ask(party, party.ann, container=wrap(container)).status_code == 200


class TestFiles:
    """Files, vector stores and stored prompts are made elsewhere: each is the first one's who names it."""

    @pytest.mark.parametrize(
        ("field", "wrap"),
        [
            ("input[0].content[0].file_id", lambda name: {"input": [said({"type": "input_file", "file_id": name})]}),
            ("input[0].content[0].file_id", lambda name: {"input": [said({"type": "input_image", "file_id": name})]}),
            (
                "tools[0].vector_store_ids",
                lambda name: {"tools": [{"type": "file_search", "vector_store_ids": [name]}]},
            ),
            (
                "tools[0].container.file_ids",
                lambda name: {"tools": [interpreter(type="auto", file_ids=[name])]},
            ),
            ("prompt.id", lambda name: {"prompt": {"id": name, "version": "2"}}),
            ("prompt.variables.x.file_id", lambda name: {"prompt": {"id": name + "_p", "variables": variable(name)}}),
        ],
    )
    @promise("Nobody reads through a provider what is another user's", target="404", suite="attack")
    def test_nobody_else_names_it(self, party, field, wrap):
        name = party.world.name("file")
        party.provider.default.body = response_with(party.world.name("resp"))
        assert party.ask(party.ann, **wrap(name)).status_code == 200
        refused = party.ask(party.bob, **wrap(name))
        assert refused.status_code == 404
        assert refused.json()["error"]["code"] in ("file_not_found", "vector_store_not_found", "prompt_not_found")
        assert party.ask(party.ann, **wrap(name)).status_code == 200
        if "variables" not in field:
            assert refused.json()["error"]["param"] == field
        assert len(party.provider.seen) == 2 or party.ask(party.ann, **wrap(name)).headers["X-Svc-Cache"] == "HIT"

    def test_an_escaped_name_is_the_same_name(self, party):
        name = party.world.name("file")
        party.provider.default.body = response_with(party.world.name("resp"))
        body = {"model": party.world.model, "input": [said({"type": "input_file", "file_id": name})]}
        escaped = json.dumps(body).replace("file_id", "file\\u005fid").encode()
        assert party.ask(party.ann, **body).status_code == 200
        headers = {"Content-Type": "application/json"}
        assert party.world.post(escaped, key=party.bob.text, path=PATH, headers=headers).status_code == 404

    def test_names_that_users_choose_are_no_files(self, party):
        party.provider.default.body = response_with(party.world.name("resp"))
        schema = {"type": "object", "properties": {"file_id": {"type": "string"}}, "default": {"file_id": "readme"}}
        body = {
            "tools": [{"type": "function", "name": "f", "parameters": schema}],
            "metadata": {"file_id": "readme"},
            "store": False,
        }
        assert [party.ask(who, **body).status_code for who in (party.ann, party.bob)] == [200, 200]

    def test_a_setting_makes_them_everybodys(self, own_gateway):
        party = Party(own_gateway(GATEWAY_SHARED_PROVIDER_FILES="true"))
        party.provider.default.body = response_with(party.world.name("resp"))
        tools = [{"type": "file_search", "vector_store_ids": ["vs_of_the_company"]}]
        assert [party.ask(who, tools=tools).status_code for who in (party.ann, party.bob)] == [200, 200]
        assert party.ask(party.bob, previous_response_id="resp_x").status_code == 404

    def test_a_chat_names_files_and_audio(self, world):
        party = Party(world, "openai", "/v1/chat/completions")
        file, audio = world.name("file"), world.name("audio")
        messages = [
            {"role": "user", "content": [{"type": "file", "file": {"file_id": file}}]},
            {"role": "assistant", "audio": {"id": audio}},
            {"role": "user", "content": "Go on."},
        ]

        def ask(who, *chosen):
            return world.post({"model": world.model, "messages": [*chosen]}, key=who.text, path=party.path).status_code

        assert ask(party.ann, *messages) == 200
        assert ask(party.bob, messages[0]) == 404
        assert ask(party.bob, *messages[1:]) == 404

    def test_anthropic_names_files(self, world):
        party = Party(world, "anthropic", MESSAGES)
        file = world.name("file")
        content = [{"type": "document", "source": {"type": "file", "file_id": file}}]
        call = {"type": "tool_use", "id": "t", "name": "f", "input": {"file_id": "readme"}}
        party.provider.default.body = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": "Lisbon"}],
            "stop_reason": "end_turn",
        }

        def ask(who, *messages):
            body = {"model": world.model, "max_tokens": 9, "messages": [*messages]}
            return world.post(body, key=who.text, path=MESSAGES).status_code

        turn = {"role": "user", "content": "Hello!"}
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}
        called = (turn, {"role": "assistant", "content": [call]}, result)
        assert [ask(who, *called) for who in (party.ann, party.bob)] == [200, 200]
        assert [ask(who, {"role": "user", "content": content}) for who in (party.ann, party.bob)] == [200, 404]


class TestPassthrough:
    @pytest.fixture
    def party(self, world):
        return Party(world, "passthrough", "/work")

    @pytest.mark.parametrize(
        "body",
        [
            {"previous_response_id": "resp_x"},
            {"thread": {"type": "continue", "previous_message_id": "msg_x"}},
            {"input": [{"type": "item_reference", "id": "msg_x"}]},
            {"input": [{"id": "msg_x"}]},
            {"input": [{"type": "reasoning", "id": "rs_x", "summary": []}]},
        ],
    )
    @promise("Nobody reads through a provider what is another user's", target="404", suite="attack")
    def test_whose_answer_is_meant_is_not_known_and_so_it_is_refused(self, party, body):
        assert party.ask(party.ann, **body).status_code == 404
        assert party.provider.seen == []

    @pytest.mark.parametrize(
        "wrap",
        [
            lambda name: {"conversation": name},
            lambda name: {"conversation": {"id": name}},
            lambda name: {"prompt": {"id": name}},
            lambda name: {"options": {"deep": [{"file_id": name}]}},
        ],
    )
    @promise("Nobody reads through a provider what is another user's", target="404", suite="attack")
    def test_what_is_made_elsewhere_is_the_first_ones_who_names_it(self, party, wrap):
        name = party.world.name("conv")
        assert party.ask(party.ann, **wrap(name)).status_code == 200
        assert party.ask(party.bob, **wrap(name)).status_code == 404

    def test_other_words_mean_nothing(self, party):
        body = {"prompt": "Hello!", "input": [{"id": "7", "text": "one row"}], "audio": "UklGRg=="}
        assert [party.ask(who, **body).status_code for who in (party.ann, party.bob)] == [200, 200]
