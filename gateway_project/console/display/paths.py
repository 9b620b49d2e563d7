"""Paths of pages below admin, built once: a list has hundreds of links, and reverse() builds each from its route."""

from functools import lru_cache
from uuid import UUID

from django.urls import get_script_prefix, reverse

ANY_ID = 1234567890


def row_path(page: str, row_id: int | UUID) -> str:
    """The path of a row's page: `row_path("keys_apikey", 7)`."""
    before, after = _path_around_id(f"admin:{page}_change", get_script_prefix())
    return f"{before}{row_id}{after}"


def page_path(name: str) -> str:
    """The path of a page without parameters: `page_path("model-by-name")`."""
    return _path(f"admin:{name}", get_script_prefix())


# A request says which prefix all paths have, so that it is a part of what is kept.
@lru_cache(maxsize=256)
def _path(name: str, _prefix: str) -> str:
    return reverse(name)


@lru_cache(maxsize=256)
def _path_around_id(name: str, _prefix: str) -> tuple[str, str]:
    before, _, after = reverse(name, args=[ANY_ID]).rpartition(str(ANY_ID))
    return before, after
