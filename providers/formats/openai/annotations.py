"""Citations as OpenAI's annotations: in chat completions one field deeper than in Responses.

In chat completions OpenRouter adds the text of the page as `content`.
"""

from gateway_project.json_types import JsonObject
from providers.formats.json_values import as_dict, as_list, as_text
from providers.formats.neutral.reply import Citation
from providers.formats.usage import read_count

URL = "url_citation"


def citations_in(annotations: object) -> list[Citation]:
    """The citations among the annotations of a message of chat completions, or of a piece of one."""
    cited = (as_dict(as_dict(annotation).get(URL)) for annotation in as_list(annotations))
    return [_citation(value) for value in cited if as_text(value.get("url"))]


def _citation(value: JsonObject) -> Citation:
    place = read_count(value.get("start_index")) or 0, read_count(value.get("end_index")) or 0
    return Citation(value["url"], as_text(value.get("title")), as_text(value.get("content")), *place)


def annotation(citation: Citation) -> JsonObject:
    """A citation in the shape of Responses."""
    return {"type": URL, **_fields(citation)}


def chat_annotation(citation: Citation) -> JsonObject:
    """A citation in the shape of chat completions."""
    quoted = {"content": citation.quote} if citation.quote else {}
    return {"type": URL, URL: _fields(citation) | quoted}


def _fields(citation: Citation) -> JsonObject:
    place = {"start_index": citation.start, "end_index": citation.end}
    return place | {"title": citation.title, "url": citation.url}
