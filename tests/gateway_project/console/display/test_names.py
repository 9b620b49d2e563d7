"""Names in sentences are links where the words beside them say what they are."""

import re

import pytest

from gateway_project.console.display.names import Name, link_names

NAMES = [
    Name("user", "ann", "/user"),
    Name("key", "ann's key", "/key"),
    Name("rule", "All", "/rule"),
    Name("rules", "rules", "#rules"),
    Name("provider", "p.1", "/p1"),
    Name("provider", "p2", "/p2"),
    Name("model", "gpt-5", "/gpt-5"),
    Name("model", "gpt-5.1", "/gpt-5.1"),
    Name("limit", "daily cost limit of user ann", "/limit"),
    Name("guardrail", "", "/nothing"),
    Name("group", "without a page", ""),
]


def links_in(text: str) -> list[tuple[str, str]]:
    return [(page, name) for page, name in re.findall(r'href="([^"]*)"[^>]*>([^<]*)<', text)]


@pytest.mark.parametrize(
    ("sentence", "links"),
    [
        ("User ann sent it with key ann's key.", [("/user", "ann"), ("/key", "ann&#x27;s key")]),
        ("No rule allows ann to use the model gpt-5.1.", [("/user", "ann"), ("/gpt-5.1", "gpt-5.1")]),
        ("Provider p.1 was asked for gpt-5 and failed.", [("/p1", "p.1"), ("/gpt-5", "gpt-5")]),
        ("It failed with 502 ProviderError: p2: no answer", [("/p2", "p2")]),
        ("If it fails, the next would be p2 (a), p.1 (b).", [("/p2", "p2"), ("/p1", "p.1")]),
        ("None of 4 rules allowed it.", [("#rules", "4 rules")]),
        (
            "The provider p2 fails. Its last error: Error of gpt-5, 08:00 UTC.",
            [("/p2", "p2"), ("/gpt-5", "gpt-5")],
        ),
        ("gpt-5 answered by p.1.", [("/gpt-5", "gpt-5"), ("/p1", "p.1")]),
        ("Rule All allows it.", [("/rule", "All")]),
        ("The daily cost limit of user ann (1 USD) is used up.", [("/limit", "daily cost limit of user ann")]),
        ("User anna, user ann-b and user ann.b use model gpt-5.2.", []),
        ("Ann wrote: All models of group without a page", []),
    ],
)
def test_what_a_sentence_names_is_a_link(sentence, links):
    assert links_in(link_names(sentence, NAMES)) == links


def test_a_refusing_limit_is_linked_whosever_it_is():
    sentence = "This costs more than the monthly cost limit of group x (1 USD) allows."
    text = link_names(sentence, [Name("refusing limit", "limit", "/limit")])
    assert links_in(text) == [("/limit", "monthly cost limit")]


def test_the_rest_of_a_sentence_is_escaped():
    names = [Name("user", "<b>", '/"')]
    assert links_in(link_names("<i> user <b> <script>", names)) == [("/&quot;", "&lt;b&gt;")]
    assert "<script>" not in link_names("<i> user <b> <script>", names)
    assert link_names("x < y", []) == "x &lt; y"
