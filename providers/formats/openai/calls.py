"""Assigns the pieces of streamed tool calls to their calls: some OpenAI-compatible servers omit or repeat `index`."""

from dataclasses import dataclass, field

from gateway_project.json_types import JsonObject
from providers.formats.json_values import as_dict, as_list, as_text
from providers.formats.parts import derived_call_id


@dataclass(slots=True)
class OpenCall:
    """A call whose pieces are arriving."""

    number: int  # its position among the calls of the answer
    id: str
    index: int  # the provider's, unless it is missing or belongs to another call
    is_named: bool = False
    is_announced: bool = False  # whether its beginning was passed on
    waiting: list[str] = field(default_factory=list)  # arguments that arrived before the name


class OpenCalls:
    """The calls of one choice."""

    def __init__(self) -> None:
        self._calls: list[OpenCall] = []
        self._by_id: dict[str, OpenCall] = {}
        self._by_index: dict[int, OpenCall] = {}
        self._indexes: set[int] = set()
        self._next_index = 0  # above all of them

    def __bool__(self) -> bool:
        return bool(self._calls)

    def call_of(self, piece: JsonObject, reply_id: str = "") -> OpenCall:
        """The call that a piece belongs to; a new one if the piece begins it."""
        call_id, index = as_text(piece.get("id")), index_of(piece)
        name = as_text(as_dict(piece.get("function")).get("name"))
        call = self._by_id.get(call_id) if call_id else self._continued_call(index, name)
        if call is None:
            call = self._begin(call_id, index, reply_id)
        if index is not None:
            self._by_index[index] = call
        call.is_named = call.is_named or bool(name)
        return call

    def _continued_call(self, index: int | None, name: str) -> OpenCall | None:
        """The call that a piece without an id continues: by index, else the last one; None if a new name begins."""
        if index is not None:
            return self._by_index.get(index)
        last = self._calls[-1] if self._calls else None
        return None if last is None or (name and last.is_named) else last

    def _begin(self, call_id: str, index: int | None, reply_id: str) -> OpenCall:
        number = len(self._calls)
        place = index if index is not None and index not in self._indexes else self._next_index
        call = OpenCall(number, call_id or derived_call_id(reply_id, str(number)), place)
        self._calls.append(call)
        self._by_id.setdefault(call.id, call)
        self._indexes.add(place)
        self._next_index = max(self._next_index, place + 1)
        return call


class CallIndexes:
    """Corrects `index` in the pieces of calls, by which OpenAI's clients put the pieces together."""

    def __init__(self) -> None:
        self._choices: dict[int, OpenCalls] = {}
        self.has_changed = False  # whether a piece was corrected: later ones may have the provider's index

    def complete(self, chunk: JsonObject) -> bool:
        """Correct the chunk; returns whether anything was wrong."""
        is_changed = False
        for choice in map(as_dict, as_list(chunk.get("choices"))):
            for piece in as_list(as_dict(choice.get("delta")).get("tool_calls")):
                if isinstance(piece, dict):
                    is_changed |= self._complete(piece, index_of(choice) or 0)
        self.has_changed = self.has_changed or is_changed
        return is_changed

    def _complete(self, piece: JsonObject, choice: int) -> bool:
        index = self._choices.setdefault(choice, OpenCalls()).call_of(piece).index
        if index_of(piece) == index:
            return False
        piece["index"] = index
        return True


def index_of(value: JsonObject) -> int | None:
    """The index of a piece or choice; None if it is not a number."""
    index = value.get("index")
    return index if type(index) is int else None
