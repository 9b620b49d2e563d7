"""What looking costs, in CPU time of the process."""

import json
import time
from statistics import median

import pytest

from gateway_project.work.guardrails.book import Applicable, Audience, GuardrailSnapshot
from gateway_project.work.guardrails.detectors import compile_detector
from gateway_project.work.guardrails.searching import Search
from gateway_project.work.guardrails.streams import StreamGuard
from tests.support.pace import slowness
from tests.support.thoroughness import quarter_of

pytestmark = [pytest.mark.embedded, pytest.mark.long]

PLAIN = (
    "The quick brown fox jumps over the lazy dog in 2026, at 10:30, near item 4711. Call me when you have read the "
    "report (page 12), please. def f(x): return x[1:2] + 3.14 # a comment\n"
)
PROSE = f"{PLAIN}Write to bob@example.com about it.\n"
DETECTORS = [
    compile_detector("pattern", {"patterns": ["project (?:alpha|omega)", r"\bconfidential\b", r"ticket-\d{6}"]}),
    compile_detector("secrets", {}),
    compile_detector("pii", {}),
]
NEAR_MATCHES = {
    "digits": "4111 1111 ",
    "email": "a.b-c@x.",
    "token": "ghp_aaaaaaaaaaaa ",
    "jwt": "eyJaaaaaaaaaa.eyJ",
    "key": "-----BEGIN PRIVATE ",
    "url": "postgres://a:b",
    "image": "![a](",
    "order": "ignore all the ",
    "spaces": "password:   ",
    "letters": "a",
    "letters with accents": "e\u0323\u0301\u0302",
    "accents": "\u0323\u0301",
}


def seconds(text, detectors, least=0.05):
    """CPU seconds of one scan on a machine of the usual speed: the best of three measurements."""
    return min(_once(text, detectors, least) for _ in range(3)) / slowness()


def _once(text, detectors, least):
    start, rounds = time.process_time(), 0
    while time.process_time() - start < least:
        for detector in detectors:
            detector.scan(text)
        rounds += 1
    return (time.process_time() - start) / rounds


def text_of(size, part=PROSE):
    return (part * (size // len(part) + 1))[:size]


def test_text_without_findings_keeps_to_the_budget():
    assert 2 * seconds(text_of(4000, PLAIN), DETECTORS) < 0.00015
    assert seconds(text_of(100_000, PLAIN), DETECTORS) < 0.003


def test_a_finding_in_each_line_costs_little_more():
    """An address every 200 characters: about 0.06 ms for 4 kB, 1.4 ms for 100 kB; twice that is allowed."""
    assert seconds(text_of(4000), DETECTORS) < 0.00012
    assert seconds(text_of(100_000), DETECTORS) < 0.003


def test_what_only_begins_like_something_costs_nothing_more():
    for name in ("email", "token", "jwt", "key", "url", "letters"):
        assert seconds(text_of(200_000, NEAR_MATCHES[name]), DETECTORS, 0.01) < 0.01, name


def test_a_hundred_thousand_terms_cost_little_more_than_one():
    """About 1 ms for 100 kB, whatever their number."""
    words = [f"{number:05d}{'abcdefghij'[number % 10]}" for number in range(100_000)]
    detector = compile_detector("words", {"words": words})
    text = text_of(100_000)
    assert [match.category for match in detector.scan(f"{text} 99999j")] == ["words"]
    assert seconds(text, [detector]) < 0.005
    assert seconds(text * 2, [detector]) < 3 * seconds(text, [detector])


def test_twice_the_text_costs_twice_the_time():
    assert seconds(text_of(400_000), DETECTORS) < 3 * seconds(text_of(200_000), DETECTORS)


@pytest.mark.parametrize("kind", quarter_of(*NEAR_MATCHES))
def test_near_matches_take_linear_time(kind):
    part = NEAR_MATCHES[kind]
    languages = compile_detector("topic", {"allowedLanguages": ["de"]}).prose
    topics = compile_detector("topic", {"images": False})
    detectors = [*DETECTORS, compile_detector("injection", {}), topics, languages]
    half, whole = (seconds(text_of(size, part), detectors, 0.01) for size in (200_000, 400_000))
    assert whole < 3 * half + 0.002
    assert whole < 1.8


def stream_seconds(pieces):
    """The median time that a chunk of a stream takes, with all of DETECTORS."""
    guardrails = [
        GuardrailSnapshot(number, f"g{number}", number, "redact", "", detector, Audience(everyone=True))
        for number, detector in enumerate(DETECTORS)
    ]
    guard = StreamGuard(Search(Applicable(guardrails).answers), None, "text/event-stream", str, is_changed=True)
    took = []
    for piece in pieces:
        chunk = f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': piece}}]})}\n\n".encode()
        begun = time.perf_counter()
        guard.feed(chunk)
        took.append(time.perf_counter() - begun)
    return median(took)


def test_the_next_chunk_of_a_stream_is_hardly_delayed():
    pieces = [f"{word} " for word in text_of(20_000).split()]
    assert min(stream_seconds(pieces) for _ in range(3)) / slowness() < 0.00015  # 0.08 to 0.11 ms, by the machine
