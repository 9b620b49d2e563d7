"""Searching without RE2's own objects for matches, and what stands in for it where the library has changed."""

import re2

from gateway_project.work.guardrails.detectors.kinds.direct_matching import IS_DIRECT, matcher, public_matcher

PATTERN = re2.compile(rb"(b+)c")
TEXT = b"abbc bc b"


def test_the_library_still_has_the_function_that_makes_searching_fast():
    assert IS_DIRECT, (
        "re2._re2.RE2.Match is gone or says something else: searching takes twice as long (see the module)"
    )


def test_public_functions_say_the_same():
    for at_start in (False, True):
        direct, public = matcher(PATTERN, at_start=at_start), public_matcher(PATTERN, at_start=at_start)
        for start in range(len(TEXT) + 1):
            for end in range(start, len(TEXT) + 1):
                assert direct(TEXT, start, end) == public(TEXT, start, end), (start, end)
