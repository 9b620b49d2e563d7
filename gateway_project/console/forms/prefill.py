"""Links to a form for a new row that fill it in.

They are signed: otherwise whoever makes a link could fill in the form of an admin who follows it.
"""

from collections.abc import Mapping

from django.core import signing

from gateway_project.console.display.paths import page_path
from gateway_project.console.period import with_query

PARAMETER, MAX_AGE_SECONDS = "prefill", 24 * 3600


def prefilled_form(table: str, values: Mapping[str, str]) -> str:
    """The address of the form for a new row of a table, with these values of its fields."""
    return with_query(page_path(f"{table}_add"), {PARAMETER: signing.dumps(dict(values), salt=_salt(table))})


def prefilled_values(table: str, query: Mapping[str, str]) -> dict[str, str | list[str]]:
    """The values in such an address; none from any other address, or from an old one."""
    try:
        return dict(signing.loads(query.get(PARAMETER, ""), salt=_salt(table), max_age=MAX_AGE_SECONDS))
    except signing.BadSignature:
        return {}


def _salt(table: str) -> str:
    return f"prefill {table}"
