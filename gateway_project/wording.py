"""Words that sentences of all parts share."""

CHANGED_MEANWHILE = "Somebody else changed this row after you opened the page. Nothing was saved. Open the page again."


def plural(number: int, singular: str, several: str = "") -> str:
    """A number and what it counts: 0 requests, 1 request, 1,200 requests; `several` is a plural that is more than an s.

    Both may go on with what else depends on the number: "row is", "rows are".
    """
    return f"{number:,} {singular if number == 1 else several or f'{singular}s'}"
