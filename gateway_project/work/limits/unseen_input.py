"""Input that a provider reads and bills although the body does not contain it as text: limits cannot see its size.

Recognised by the names that fields have in the shapes of all providers known here, whatever their case.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from providers.formats import Format, WorkRequest
from providers.formats.json_values import as_dict, as_text
from providers.formats.kept_state import Kind, is_free

# Pictures, films, sound and documents: their tokens follow from their size, length and pages, not from their bytes.
MEDIA = frozenset(
    {
        *("image", "images", "imageurl", "imageembeds", "video", "videos", "videourl", "audiourl", "inputaudio"),
        *("file", "fileurl", "filedata", "fileuri", "documenturl", "inlinedata", "s3location"),
    }
)
MEDIA_TYPES = frozenset({"image", "audio", "video", "image_generation_call", "computer_screenshot"})
TEXT_SOURCES = frozenset({"text", "content"})  # of Anthropic's and Bedrock's documents
# Parameters with which a provider searches or calls tools itself: it reads the conversation again after each step.
STEPS = frozenset(
    {
        *("websearchoptions", "searchparameters", "enablesearch", "plugins", "connectors"),
        *("datasources", "mcpservers"),
    }
)
NOTHING: tuple[object, ...] = (None, False, "", [])  # but an empty object asks for something with its defaults
SUMMARY = "compact"  # in the names of strategies by which another answer of the model replaces old messages
CLIENT_TOOLS = frozenset({"function", "custom", "namespace"})  # types of tools that the client runs
# Prefixes of the types of tools that the client runs, and that the provider describes to the model.
DESCRIBED_TOOLS = ("bash_", "text_editor_", "memory_", "computer", "local_shell", "apply_patch")
# Fields that a tool without a type has, if the client runs it.
TOOL_FIELDS = frozenset({"name", "function", "toolspec"})
LISTS_OF_TOOLS = frozenset({"functiondeclarations", "cachepoint"})
# Kinds of what a provider stores that may contain its own tools, or that such tools read.
WITH_STEPS = frozenset({Kind.PROMPT, Kind.CONTAINER, Kind.VECTOR_STORE, Kind.CACHED_CONTENT})


class UnseenInput(NamedTuple):
    """The path of a field with such input; `fits_context` if all of it is in the model's context at once."""

    field: str
    fits_context: bool


def unseen_input(work: WorkRequest, formats: Iterable[Format | None]) -> UnseenInput | None:
    """A field with such input, preferably one that need not fit into the context; None if there is none."""
    fields = [*_fields(work.body, ""), *_references(work, formats)]
    return min(fields, key=lambda field: field.fits_context, default=None)


def _references(work: WorkRequest, formats: Iterable[Format | None]) -> Iterator[UnseenInput]:
    """The references in the body to what providers store."""
    for format in dict.fromkeys(formats):
        for reference in format.references(work) if format is not None else ():
            if reference.kind is not Kind.RESENT_ITEM:
                yield UnseenInput(reference.field, reference.kind not in WITH_STEPS)


def _fields(value: object, where: str) -> Iterator[UnseenInput]:
    if isinstance(value, list):
        for number, element in enumerate(value):
            yield from _fields(element, f"{where}[{number}]")
    elif isinstance(value, dict):
        if as_text(value.get("type")) in MEDIA_TYPES:
            yield UnseenInput(where, True)
        for name, field in value.items():
            path = f"{where}.{name}" if where else name
            if field not in NOTHING and not is_free(name, value):
                yield from _of_field(_plain_name(name), field, path)
                yield from _fields(field, path)


def _of_field(name: str, value: object, path: str) -> Iterator[UnseenInput]:
    if name == "tools":
        for number, tool in enumerate(value) if isinstance(value, list) else [(0, value)]:
            yield from _of_tool(as_dict(tool), f"{path}[{number}]")
    elif name in STEPS or (name == "contextmanagement" and SUMMARY in str(value)):
        yield UnseenInput(path, False)
    elif name in MEDIA or (name == "source" and isinstance(value, dict) and not _is_text(value)):
        yield UnseenInput(path, True)


def _is_text(source: dict[str, object]) -> bool:
    return as_text(source.get("type")) in TEXT_SOURCES or source.keys() <= TEXT_SOURCES


def _of_tool(tool: dict[str, object], path: str) -> Iterator[UnseenInput]:
    kind, names = as_text(tool.get("type")), {_plain_name(name) for name in tool}
    is_plain = bool(names & TOOL_FIELDS) or (bool(names) and names <= LISTS_OF_TOOLS)
    if kind not in CLIENT_TOOLS and (kind or not is_plain):
        yield UnseenInput(path, kind.startswith(DESCRIBED_TOOLS))


def _plain_name(name: str) -> str:
    return name.replace("_", "").casefold()
