"""What an answer cites, as OpenAI's annotations tell it: in chats one field deeper than in Responses.

OpenRouter adds to those of a chat, as `content`, what the page says.
"""

from gateway_project.json_types import JsonObject
from providers.formats.json_values import as_dict, as_list, as_text
from providers.formats.neutral import Citation
from providers.formats.usage import count

URL = "url_citation"


def citations_in(annotations: object) -> list[Citation]:
    """The citations among the annotations of a chat's message, or of a piece of one."""
    cited = (as_dict(as_dict(annotation).get(URL)) for annotation in as_list(annotations))
    return [_citation(value) for value in cited if as_text(value.get("url"))]


def _citation(value: JsonObject) -> Citation:
    place = count(value.get("start_index")) or 0, count(value.get("end_index")) or 0
    return Citation(value["url"], as_text(value.get("title")), as_text(value.get("content")), *place)


def annotation(citation: Citation) -> JsonObject:
    """One as Responses have it."""
    return {"type": URL, **_fields(citation)}


def chat_annotation(citation: Citation) -> JsonObject:
    """One as chats have it."""
    quoted = {"content": citation.quote} if citation.quote else {}
    return {"type": URL, URL: _fields(citation) | quoted}


def _fields(citation: Citation) -> JsonObject:
    place = {"start_index": citation.start, "end_index": citation.end}
    return place | {"title": citation.title, "url": citation.url}
