"""The state of an object as every page shows it: a label, and beside it why, if that does not follow from the word."""

from functools import lru_cache
from typing import NamedTuple

from django.template.loader import render_to_string
from django.utils.safestring import SafeString


class Badge(NamedTuple):
    """`kind` is the colour of the label: success, warning, danger, info, or '' for grey."""

    text: str
    kind: str
    note: str = ""

    @property
    def html(self) -> SafeString:
        return _html(self)


@lru_cache(maxsize=1000)
def _html(badge: Badge) -> SafeString:
    """Rendered once: most rows of a list have the same."""
    return render_to_string("console/badge.html", {"badge": badge})
