"""llm-rosetta translates the same answers; wherever it says something else, it is explained here."""

import json
import warnings
from functools import cache

import llm_rosetta
import pytest

from tests.support.formats.second_opinion import HELLO, ROSETTA, answers, explained

pytestmark = pytest.mark.embedded


def message_of(answer):
    return answer["choices"][0]["message"]


def reason_of(answer):
    return answer["choices"][0]["finish_reason"]


def no_annotations(theirs, ours):
    """It adds an empty list of annotations."""
    assert message_of(theirs).pop("annotations") == []
    return theirs


def citations_are_lost(theirs, ours):
    """It leaves out what an answer cites, for which OpenAI has a field."""
    if annotations := message_of(ours).get("annotations"):
        message_of(theirs)["annotations"] = annotations
    return theirs


def searches_are_calls(theirs, ours):
    """What Anthropic searched for itself is a call to it, which the client is to make once more."""
    message = message_of(theirs)
    if all(call["id"].startswith("srvtoolu_") for call in message.get("tool_calls", ())):
        message.pop("tool_calls", None)
    return theirs


def spaces_between_blocks(theirs, ours):
    """It puts spaces between the blocks of an answer, which are cut wherever something is cited."""
    said, told = message_of(theirs)["content"], message_of(ours)["content"]
    if said and told and said.replace(" ", "") == told.replace(" ", ""):
        message_of(theirs)["content"] = told
    return theirs


def spaces_in_arguments(theirs, ours):
    """It writes the arguments of calls anew, with spaces."""
    for call in message_of(theirs).get("tool_calls", ()):
        arguments = json.loads(call["function"]["arguments"])
        call["function"]["arguments"] = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    return theirs


def calls_stop(theirs, ours):
    """Gemini says STOP where its model called: it passes that on, and clients do not make the calls."""
    if message_of(ours).get("tool_calls") and reason_of(theirs) == "stop":
        theirs["choices"][0]["finish_reason"] = "tool_calls"
    return theirs


def every_end_is_a_stop(theirs, ours):
    """A pause, an error, a context that is used up, and reasons that nobody knows are all `stop` to it."""
    if reason_of(theirs) == "stop" and reason_of(ours) not in ("stop", "tool_calls", "content_filter"):
        theirs["choices"][0]["finish_reason"] = reason_of(ours)
    return theirs


def words_nobody_said(theirs, ours):
    """Where a model refused without a word, it makes up one, and says that it stopped."""
    if message_of(theirs)["refusal"] == "Request refused by model.":
        message_of(theirs)["refusal"] = None
        theirs["choices"][0]["finish_reason"] = "content_filter"
    return theirs


def stops_where_it_refused(theirs, ours):
    """It tells why a model was kept from answering, as we do, and says that it stopped with an answer of no words."""
    message = message_of(theirs)
    if message["refusal"] and message["refusal"] == message_of(ours)["refusal"]:
        message["content"] = message["content"] or None
        theirs["choices"][0]["finish_reason"] = reason_of(ours)
    return theirs


def cached_input_is_not_counted(theirs, ours):
    """Anthropic's input is what no cache had a part in, OpenAI's is all of it: a bill by its count is too low."""
    usage, told = theirs.get("usage"), ours.get("usage")
    if usage and told and usage["prompt_tokens"] < told["prompt_tokens"]:
        theirs["usage"] = told
    return theirs


def thoughts_are_not_counted(theirs, ours):
    """Gemini counts thoughts beside the answer, OpenAI inside it: its parts do not add up to its total."""
    usage, told = theirs.get("usage") or {}, ours.get("usage") or {}
    thought = told.get("completion_tokens_details", {}).get("reasoning_tokens", 0)
    if thought and usage["completion_tokens"] + thought == told["completion_tokens"]:
        assert usage["total_tokens"] == told["total_tokens"]
        usage["completion_tokens"] = told["completion_tokens"]
    return theirs


def input_of_tools_is_not_counted(theirs, ours):
    """Gemini counts what its tools brought in beside the prompt: it leaves that out, too."""
    usage, told = theirs.get("usage") or {}, ours.get("usage") or {}
    if told and usage["prompt_tokens"] < told["prompt_tokens"]:
        assert usage["total_tokens"] == told["total_tokens"]
        usage["prompt_tokens"] = told["prompt_tokens"]
    return theirs


def impossible_parts(theirs, ours):
    """Where more was read from a cache than was sent it says so; we believe the whole and tell no parts."""
    usage = theirs.get("usage") or {}
    if usage.get("prompt_tokens_details", {}).get("cached_tokens", 0) > usage.get("prompt_tokens", 0):
        theirs["usage"] = ours["usage"]
    return theirs


def kinds_of_tokens(theirs, ours):
    """It tells how many of the tokens were text, for which OpenAI has no field."""
    details = (theirs.get("usage") or {}).get("prompt_tokens_details", {})
    details.pop("text_tokens", None)
    if not details:
        (theirs.get("usage") or {}).pop("prompt_tokens_details", None)
    return theirs


def nothing_is_zero(theirs, ours):
    """Where a provider counted nothing it says that there was nothing."""
    if "usage" not in ours:
        assert not any((theirs.pop("usage", None) or {}).values())
    return theirs


def proofs_are_lost(theirs, ours):
    """It leaves out what proves a thought, without which Anthropic and Gemini do not take the next turn."""
    if details := message_of(ours).get("reasoning_details"):
        message_of(theirs)["reasoning_details"] = details
    return theirs


def signatures_elsewhere(theirs, ours):
    """It puts a call's signature into a field of its own; Google's OpenAI face has it in `extra_content`."""
    for call in message_of(theirs).get("tool_calls", ()):
        if metadata := call.pop("_provider_metadata", None):
            call["extra_content"] = metadata
    return theirs


def ids_by_chance(theirs, ours):
    """Where Gemini gives calls no ids it draws new ones each time; ours stay the same for the same answer."""
    mine = message_of(ours).get("tool_calls", ())
    for call, own in zip(message_of(theirs).get("tool_calls", ()), mine, strict=True):
        if own["id"].startswith("call_") and call["id"].startswith("call_"):
            call["id"] = own["id"]
    return theirs


ANSWERS = {
    "anthropic": (
        no_annotations, citations_are_lost, searches_are_calls, spaces_between_blocks, spaces_in_arguments,
        every_end_is_a_stop, words_nobody_said, stops_where_it_refused, cached_input_is_not_counted, nothing_is_zero,
        proofs_are_lost,
    ),
    "gemini": (
        no_annotations, citations_are_lost, spaces_in_arguments, calls_stop, every_end_is_a_stop,
        thoughts_are_not_counted, input_of_tools_is_not_counted, impossible_parts, kinds_of_tokens, proofs_are_lost,
        signatures_elsewhere, ids_by_chance,
    ),
}  # fmt: skip
# Answers that it cannot read at all.
UNREADABLE = {
    "impossible_counts": "a count that is no number",
    "image_out": "a picture that a model made",
    "image_tried_while_thinking": "the same",
    "spoken": "a sound that a model made",
}


@cache
def rosetta_answer(format_name, name):
    sample = next(sample for sample in answers(format_name) if sample.name == name)
    asked = {"model": "some-model", "max_tokens": 9, "messages": [HELLO]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return llm_rosetta.convert_response(json.loads(sample.body), asked, "openai_chat", ROSETTA[format_name])


def our_answer(sample):
    answer = json.loads(sample.format.answer(sample.work_at_a_door, sample.body).body)
    return {name: answer[name] for name in ("choices", "usage") if name in answer}


def their_answer(sample):
    answer = rosetta_answer(sample.format.name, sample.name)
    return {name: answer[name] for name in ("choices", "usage") if name in answer}


READ = [sample for name in ROSETTA for sample in answers(name)]


@pytest.mark.parametrize("sample", READ, ids=[f"{sample.format.name}-{sample.name}" for sample in READ])
def test_answers(sample):
    if sample.name in UNREADABLE:
        with pytest.raises(llm_rosetta.ConversionError):
            their_answer(sample)
        return
    ours = our_answer(sample)
    theirs, _ = explained(their_answer(sample), ours, ANSWERS[sample.format.name])
    assert theirs == ours


@pytest.mark.parametrize("format_name", ROSETTA)
def test_every_difference_of_answers_is_still_there(format_name):
    found = set()
    for sample in answers(format_name):
        if sample.name not in UNREADABLE:
            found |= explained(their_answer(sample), our_answer(sample), ANSWERS[format_name])[1]
    assert found == set(ANSWERS[format_name])
