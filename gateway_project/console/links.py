"""Names of rows as links to their pages."""

from collections.abc import Callable, Iterable

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.decorators import display

from gateway_project.console.display.paths import row_path
from gateway_project.console.period import ANY_TIME, PAGE_PERIOD, Period, with_query
from gateway_project.errors import Conflict, GatewayError

LINK = '<a class="text-primary-700 underline dark:text-primary-400" href="{}" title="{}">{}</a>'


def page_of(row: Model) -> str:
    """The address of a row's page."""
    return row_path(f"{row._meta.app_label}_{row._meta.model_name}", row.pk)


def link(text: str, page: str) -> SafeString | str:
    """The text as a link to a page, if there is one."""
    return format_html(LINK, page, text, text) if text and page else text


def link_to(row: Model | None, text: str = "") -> SafeString | str:
    """The row's name, or another text, as a link to its page; '' without a row."""
    return "" if row is None else link(text or str(row), page_of(row))


def links_to(rows: Iterable[Model], period: Period = ANY_TIME) -> SafeString:
    """The names of rows, with commas between them; '' without rows. Their pages get the period."""
    names = ((link(str(row), with_query(page_of(row), period.moments())),) for row in rows)
    return format_html_join(", ", "{}", names)


def with_link(text: str, error: GatewayError, request: HttpRequest) -> SafeString | str:
    """An error's text, with a link to the row that is in the way if the reader may see it."""
    row = error.row if isinstance(error, Conflict) else None
    if not isinstance(row, Model) or not (table := admin.site._registry.get(type(row))):
        return text
    if not table.has_view_permission(request, row) or not table.get_queryset(request).contains(row):
        return text
    return format_html("{} {}", text, link(f"Show {row}", page_of(row)))


def period_of_page(row: Model) -> Period:
    """The period of the page that shows the row."""
    return getattr(row, PAGE_PERIOD, ANY_TIME)


def link_column(field: str) -> Callable[[object], SafeString | str | None]:
    """A column of a list: the row in a field of each row, as a link. The list selects it with its own rows."""

    @display(description=field.replace("_", " ").capitalize(), ordering=field)
    def shown(row: object) -> SafeString | str | None:
        return link_to(getattr(row, field)) or None

    shown.__name__ = field
    return shown
