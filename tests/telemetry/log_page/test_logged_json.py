"""Logged bodies as objects, whole or cut."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.log_page.logged_json import logged_object
from tests.support.promises import parses

MESSAGES = [{"role": "user", "content": 'a "[{," b\\'}, {"role": "user", "content": "é"}]
BODY = {"model": "m", "messages": MESSAGES, "n": 1}


@pytest.mark.parametrize("body", [BODY, json.dumps(BODY), json.dumps(BODY, ensure_ascii=False)])
def test_a_whole_body_is_itself(body):
    assert logged_object(body) == (BODY, True)


@pytest.mark.parametrize("body", ["", "data: {}", "[1]", None, 3, ["a"]])
def test_what_is_no_object_is_none(body):
    assert logged_object(body) == (None, True)


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ('{"model": "m", "mess', {"model": "m"}),
        ("é", {"model": "m", "messages": BODY["messages"][:1]}),
        ('"é"}', {"model": "m", "messages": BODY["messages"]}),
        (', "n"', {"model": "m", "messages": BODY["messages"]}),
        ('{"mod', {}),
    ],
)
def test_a_cut_body_has_its_whole_members_and_messages(end, expected):
    text = json.dumps(BODY, ensure_ascii=False)
    cut = text[: text.index(end) + len(end)] + "… (99 bytes)"
    assert logged_object(cut) == (expected, False)


@parses
@given(st.text(alphabet='{}[]",:\\a1 ', max_size=30))
def test_any_text_is_read_without_an_error(text):
    value, _ = logged_object("{" + text)
    assert value is None or isinstance(value, dict)
