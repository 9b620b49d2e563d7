"""Tells a method that forgot its lock, in one thread: races show too seldom for a test to wait for them."""

from typing import Any


def guarded(thing: Any, lock: Any, *names: str, reads: bool = True) -> Any:
    """The same object, whose attributes of these names fail where nobody holds the lock.

    Without `reads` they may be read at any time, and only setting them fails.
    """
    assert all(hasattr(thing, name) for name in names), f"one of {names} is no attribute: nothing would be guarded"

    def check(name: str) -> None:
        assert name not in names or lock.locked(), f"{name} is used without the lock"

    class Guarded(type(thing)):
        __slots__ = ()

        def __setattr__(self, name: str, value: Any) -> None:
            check(name)
            super().__setattr__(name, value)

        def __getattribute__(self, name: str) -> Any:
            if reads:
                check(name)
            return super().__getattribute__(name)

    thing.__class__ = Guarded
    return thing
