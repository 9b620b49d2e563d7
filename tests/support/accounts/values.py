"""What the tests of users and groups send."""

from accounts.models import Role

WRONG = [None, 5, True, 1.5, 10**30, "", " ", " x", "x" * 5000, "a\0b", "a\nb", [], [5], [[]], {}, {"id": 1}, [None]]
WRONG += [[{"id": None}], [{"id": "x"}], [{"id": -1}], [{"id": 10**30}], [{"id": 987654}], [{}], [{"id": {}}]]


def role(name: str) -> dict[str, int]:
    """A role as a body refers to it."""
    return {"id": Role.objects.get(name=name).pk}
