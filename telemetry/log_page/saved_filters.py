"""Filters of the log that users save for themselves: links above the list, and the views that save and delete them.

A saved filter has no period: its link keeps the one that the list shows.
"""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlencode

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.models import User
from gateway_project.console.period import MOMENT_NAMES
from gateway_project.console.site import console_site
from gateway_project.database.ids import id_in
from gateway_project.database.names import is_clear
from gateway_project.database.saving import lock_row_for_change, save_or_refuse
from gateway_project.errors import GatewayError, ValidationError
from telemetry.log_page.models import SavedFilter
from telemetry.log_page.periods import NOT_KEPT

MAX_FILTERS = 20  # of one user
MAX_NAME, MAX_QUERY = 64, 2000  # characters


class FilterLink(NamedTuple):
    """A saved filter above the list."""

    id: int
    name: str
    address: str
    is_current: bool


def filter_links(owner: User, query: Mapping[str, str]) -> list[FilterLink]:
    """The user's saved filters, each with the period of the list that `query` shows."""
    period = {name: value for name, value in query.items() if name in MOMENT_NAMES}
    current = _without_period(query)
    return [_link(saved, period, current) for saved in SavedFilter.objects.filter(owner=owner)]


def _link(saved: SavedFilter, period: Mapping[str, str], current: Mapping[str, str]) -> FilterLink:
    query = QueryDict(saved.query).dict()
    return FilterLink(saved.pk, saved.name, f"?{urlencode(query | dict(period))}", query == dict(current))


def _without_period(query: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in query.items() if value and name not in NOT_KEPT}


@transaction.atomic
def save_filter(owner: User, *, name: str, query: Mapping[str, str]) -> SavedFilter:
    """Save the filter under a name of the user's; one of the same name is replaced. Raises ValidationError."""
    lock_row_for_change(owner, User.objects.all())  # so that two requests do not exceed the limit together
    name, text = name.strip(), urlencode(_without_period(query))
    _check(name, text)
    filters = SavedFilter.objects.filter(owner=owner)
    saved = filters.filter(name=name).first() or SavedFilter(owner=owner, name=name)
    if saved.pk is None and filters.count() >= MAX_FILTERS:
        raise ValidationError(f"You have {MAX_FILTERS} saved filters. Delete one before you save another.")
    saved.query = text
    save_or_refuse(saved, conflict="This filter was saved at the same time. Try again.")
    return saved


def _check(name: str, query: str) -> None:
    if not (0 < len(name) <= MAX_NAME and is_clear(name)):
        raise ValidationError(f"The name of a filter must have 1 to {MAX_NAME} visible characters.")
    if not query:
        raise ValidationError("Choose a filter above the list before you save it.")
    if len(query) > MAX_QUERY:
        raise ValidationError(f"A filter that is saved must have at most {MAX_QUERY:,} characters.")


@console_site().page("telemetry/logentry/filters/save/", name="log-filter-save", part=True)
@require_POST
def save(request: HttpRequest) -> HttpResponse:
    """Save the filter of the list that the form stands above."""
    query = QueryDict(request.POST.get("query", ""))
    try:
        save_filter(_owner(request), name=request.POST.get("name", ""), query=query.dict())
    except GatewayError as error:
        messages.error(request, error.sentence)
    return _redirect_to_list(query)


@console_site().page("telemetry/logentry/filters/delete/", name="log-filter-delete", part=True)
@require_POST
def delete(request: HttpRequest) -> HttpResponse:
    """Delete one of the user's own filters."""
    SavedFilter.objects.filter(owner=_owner(request), pk=id_in(request.POST.get("id", ""))).delete()
    return _redirect_to_list(QueryDict(request.POST.get("query", "")))


def _owner(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # the console's pages are for users
    return request.user


def _redirect_to_list(query: QueryDict) -> HttpResponse:
    return HttpResponseRedirect(f"{reverse('admin:telemetry_logentry_changelist')}?{query.urlencode()}")
