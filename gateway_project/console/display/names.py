"""Sentences in which names are links: the words beside a name say what kind of row it is."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from gateway_project.console.links import link

# Where a sentence names a row of each kind; {} stands for the name, and group 1 becomes the link.
PLACES = {
    "user": (r"\buser ({})", r"\ballows ({})(?= to use )"),
    "key": (r"\bkey ({})",),
    "group": (r"\bgroup ({})",),
    "rule": (r"\brule ({})",),
    "rules": (r"\bnone of (\d[\d,]* {})",),
    "provider": (r"\bprovider ({})", r"(?:^|: )({})(?=: )", r"(?:would be|\),) ({})(?= \()", r"\banswered by ({})"),
    "model": (r"\bmodel ({})", r"\basked for ({})", r"\bof ({})(?=, )", r"^({})(?= answered by )"),
    "guardrail": (r"\bguardrail ({})",),
    "limit": (r"\b({})",),  # with its owner: daily cost limit of user bob
    "refusing limit": (r"(?<=\bthe )((?:\w+ ){{0,2}}{})(?= of (?:user|key|group|provider) )",),
}
END = r"(?![\w-]|[.@:/]\w)"  # "gpt-5" is not named by "gpt-5.1"


class Name(NamedTuple):
    """A name of a kind of PLACES, and the page of its row; '' for none."""

    kind: str
    text: str
    page: str


class Place(NamedTuple):
    start: int
    end: int
    page: str


def link_names(sentence: str, names: Iterable[Name]) -> SafeString:
    """The sentence, escaped, with each of these names that it contains as a link."""
    parts, position = [], 0
    for place in sorted(_places(sentence, names), key=lambda place: (place.start, -place.end)):
        if place.start >= position:
            parts += [sentence[position : place.start], link(sentence[place.start : place.end], place.page)]
            position = place.end
    return format_html_join("", "{}", ((part,) for part in (*parts, sentence[position:])))


def _places(sentence: str, names: Iterable[Name]) -> Iterator[Place]:
    for kind, text, page in names:
        if not text or not page or text not in sentence:
            continue
        for template in PLACES[kind]:
            pattern = template.format(re.escape(text)) + END
            for match in re.finditer(pattern, sentence, re.IGNORECASE):
                yield Place(*match.span(1), page)
