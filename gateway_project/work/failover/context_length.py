"""After a conversation was too long for a model: the other targets that may have room for it."""

from gateway_project.work.exchange import Exchange
from gateway_project.work.snapshot.records import Target


def keep_larger(exchange: Exchange) -> None:
    """Keep of the remaining candidates those with a larger context, the largest first; then those of unknown size.

    Another credential of the same model has no more room.
    """
    begin = exchange.attempts.position + 1
    current = exchange.candidates[begin - 1]
    others = [target for target in exchange.candidates[begin:] if target.key != current.key]
    size = _size(current) or 0
    larger = sorted(
        (target for target in others if (_size(target) or 0) > size), key=lambda target: -(_size(target) or 0)
    )
    unknown = [target for target in others if _size(target) is None]
    exchange.attempts.targets = (*exchange.candidates[:begin], *larger, *unknown)


def _size(target: Target) -> int | None:
    """How many tokens the model reads and writes at most; None if nobody knows."""
    facts = target.provider.facts.get(target.model)
    return facts.context_length if facts is not None else None
