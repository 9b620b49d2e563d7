"""What a provider keeps under the gateway's account: how requests refer to it, and who may."""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NamedTuple


class Access(Enum):
    """Who may refer to an id."""

    OWNER = "owner"  # only the user whose request made it
    NOT_OTHERS = "not others"  # its user; anybody, as long as its user is not known
    FIRST = "first"  # its user; if not known, the first who refers to it: it was created outside of the gateway
    ACCOUNT = "account"  # the same, unless GATEWAY_SHARED_PROVIDER_FILES makes them everybody's


class Kind(Enum):
    """What an id refers to: its noun and error code in OpenAI's words, and who may refer to it."""

    RESPONSE = "Previous response", "previous_response_not_found", Access.OWNER
    ITEM = "Item", "item_not_found", Access.OWNER
    RESENT_ITEM = "An item", "item_not_found", Access.NOT_OTHERS  # sent whole; the provider may keep it too
    CONVERSATION = "Conversation", "conversation_not_found", Access.FIRST
    CONTAINER = "Container", "container_not_found", Access.FIRST
    THREAD = "A thread", "thread_not_found", Access.OWNER
    AUDIO = "An audio response", "audio_not_found", Access.FIRST
    FILE = "File", "file_not_found", Access.ACCOUNT
    VECTOR_STORE = "Vector store", "vector_store_not_found", Access.ACCOUNT
    PROMPT = "Prompt", "prompt_not_found", Access.ACCOUNT
    CACHED_CONTENT = "Cached content", "cached_content_not_found", Access.ACCOUNT

    @property
    def noun(self) -> str:
        return self.value[0]

    @property
    def reason(self) -> str:
        return self.value[1]

    @property
    def access(self) -> Access:
        return self.value[2]


class Reference(NamedTuple):
    """An id in a request, and the name of its field."""

    kind: Kind
    id: str
    field: str


NO_REFERENCES: tuple[Reference, ...] = ()

# The names that fields for ids have in the shapes of all providers that are known here.
FILES: Mapping[str, Kind] = {
    "file_id": Kind.FILE,
    "file_ids": Kind.FILE,
    "vector_store_ids": Kind.VECTOR_STORE,
    "cachedContent": Kind.CACHED_CONTENT,
    "audio": Kind.AUDIO,
}
OBJECTS = frozenset({Kind.AUDIO, Kind.PROMPT})  # text in a field of such a name is no id
# Objects in which users choose the names: schemas, arguments of tools, notes of their own.
FREE = frozenset({"parameters", "input_schema", "schema", "metadata", "arguments"})
CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})  # Anthropic's, whose `input` is such an object
ESCAPE = b"\\u00"  # by which a name could be spelled otherwise


def spellings_of(kinds: Mapping[str, Kind]) -> tuple[bytes, ...]:
    """What the bytes of a body have at least one of if it has a field of one of these names."""
    return ESCAPE, *(name.encode() for name in kinds if not any(other in name for other in kinds if other != name))


FILE_SPELLINGS = spellings_of(FILES)


def files_in(
    raw: bytes, body: object, kinds: Mapping[str, Kind] = FILES, texts: tuple[bytes, ...] = FILE_SPELLINGS
) -> tuple[Reference, ...]:
    """The ids of files and the like that a request names; `raw` is the body as bytes, `texts` are the spellings."""
    return tuple(named_in(body, kinds)) if any(map(raw.__contains__, texts)) else NO_REFERENCES


def named_in(value: object, kinds: Mapping[str, Kind], where: str = "") -> Iterator[Reference]:
    """The ids in fields of these names, at any depth."""
    if isinstance(value, list):
        for number, element in enumerate(value):
            yield from named_in(element, kinds, f"{where}[{number}]")
    elif isinstance(value, dict):
        for name, field in value.items():
            path = f"{where}.{name}" if where else name
            if name in kinds:
                yield from _ids(field, kinds[name], path)
            if not is_free(name, value):
                yield from named_in(field, kinds, path)


def is_free(name: str, value: dict[str, object]) -> bool:
    """Whether users choose the names in this field of an object."""
    return name in FREE or (name == "input" and value.get("type") in CALLS)


def _ids(value: object, kind: Kind, path: str) -> Iterator[Reference]:
    """The id, or those of a list or of an object that wraps one."""
    if isinstance(value, dict) or kind in OBJECTS:
        value = value.get("id") if isinstance(value, dict) else None
    for identifier in value if isinstance(value, list) else [value]:
        if isinstance(identifier, str) and identifier:
            yield Reference(kind, identifier, path)
