"""Which requests belong to one session."""

import pytest

from gateway_project.work.routing.sessions import session_seed

pytestmark = pytest.mark.embedded

SYSTEM = {"role": "system", "content": "Be short."}
FIRST = {"role": "user", "content": "Capital of Portugal?"}
LATER = [{"role": "assistant", "content": "Lisbon."}, {"role": "user", "content": "And of Spain?"}]


def chat(*messages, **fields):
    return session_seed("", {"messages": list(messages), **fields})


def test_the_header_comes_first_then_the_user_then_the_cache_key():
    body = {"user": "ann", "prompt_cache_key": "chat-1", "messages": [FIRST]}
    assert session_seed("s", body) == session_seed("s", {"messages": []})
    assert session_seed("", body) == session_seed("", {"user": "ann", "messages": []})
    assert chat(FIRST, prompt_cache_key="chat-1") == chat(SYSTEM, prompt_cache_key="chat-1")
    assert len({session_seed("s", body), session_seed("", body), chat(FIRST, prompt_cache_key="chat-1")}) == 3


def test_a_conversation_is_known_by_its_beginning():
    assert chat(SYSTEM, FIRST) == chat(SYSTEM, FIRST, *LATER) == chat(SYSTEM, FIRST, *LATER, temperature=0.5)
    assert chat(SYSTEM, FIRST) != chat(FIRST)
    assert chat(FIRST) != chat({"role": "user", "content": "Capital of Spain?"})


def test_in_other_dialects_too():
    assert session_seed("", {"system": "Be short.", "messages": [FIRST]}) != chat(FIRST)
    assert session_seed("", {"input": [FIRST], "instructions": "a"}) == session_seed(
        "", {"input": [FIRST, *LATER], "instructions": "a"}
    )
    assert session_seed("", {"input": "one"}) != session_seed("", {"input": "two"})


@pytest.mark.parametrize(
    "body", [{}, {"messages": None}, {"messages": [1, "x"]}, {"user": 7, "messages": []}, {"user": ""}]
)
def test_whatever_clients_send_has_a_seed(body):
    assert session_seed("", body)
