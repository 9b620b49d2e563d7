"""What the tests against llm-rosetta share: the formats that it knows, and differences explained away.

Each difference is a function that changes what it wrote into what we write, with the reason as its docstring. One that
no longer finds anything to change is out of date.
"""

import copy

from tests.support.formats.samples import whole

ROSETTA = {"anthropic": "anthropic", "gemini": "google"}
HELLO = {"role": "user", "content": "Hello!"}


def explained(theirs, ours, differences):
    """Their version with every difference explained away, and which of them there were."""
    theirs, found = copy.deepcopy(theirs), set()
    for difference in differences:
        before = copy.deepcopy(theirs)
        theirs = difference(theirs, ours)
        if theirs != before:
            found.add(difference)
    return theirs, found


def answers(format_name):
    return [
        sample
        for sample in whole(format_name)
        if "refused" not in sample.about and "exception" not in sample.expect and sample.operation == "chat"
    ]
