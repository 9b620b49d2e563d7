"""The pages of what-ifs: those of an administrator with a form for a new one, and one with its result."""

import json
from datetime import datetime

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.text import capfirst
from django.views.decorators.http import require_POST

from gateway_project.console.audit import record_change
from gateway_project.console.site import console_site
from gateway_project.console.what_if.drafting import DRAFTINGS, draft_of
from gateway_project.console.what_if.form import WhatIfForm, last_days
from gateway_project.console.what_if.tables import template_values
from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from gateway_project.work.what_if.beginning import begin_comparison
from gateway_project.work.what_if.viewsets import WhatIfViewSet
from rules.models import WhatIf
from rules.what_if.services import cancel_what_if

site = console_site()
MAX_SHOWN = 50


@site.page("what-if/", name="what-if")
def what_if(request: HttpRequest) -> HttpResponse:
    """The form, and the latest what-ifs; POST begins one and leads to its page."""
    if request.method != "POST":
        return _form_page(request, WhatIfForm.for_last_days())
    form = WhatIfForm(request.POST)
    if form.is_valid():
        try:
            row = _begin(request, form.cleaned_data["draft"], *form.period())
        except GatewayError as error:
            form.add_error(None, capfirst(error.sentence))
        else:
            return _to_page_of(row)
    return _form_page(request, form)


@site.page("what-if/draft/<str:table>/", name="what-if-draft", part=True)
@require_POST
def try_form(request: HttpRequest, table: str) -> HttpResponse:
    """Try what stands in the form of a rule, alias, limit or price on the last days."""
    row_id = request.GET.get("id", "")
    if table not in DRAFTINGS or not (row_id.isdecimal() or not row_id) or len(row_id) > 18:
        raise Http404
    draft, problem = draft_of(table, request.POST, int(row_id) if row_id else None)
    if not problem:
        try:
            return _to_page_of(_begin(request, draft, *last_days()))
        except GatewayError as error:
            problem = capfirst(error.sentence)
    messages.error(request, problem)
    form = (
        WhatIfForm.for_last_days(json.dumps(draft, indent=2, ensure_ascii=False))
        if draft
        else WhatIfForm.for_last_days()
    )
    return _form_page(request, form)


@site.page("what-if/<int:number>/", name="what-if-result")
def show_result(request: HttpRequest, number: int) -> HttpResponse:
    """The progress of a what-if, or its result; the page asks again while it runs."""
    row = _row(number)
    is_part = request.headers.get("Accept-Part") == "rows"
    template = "console/what_if_state.html" if is_part else "console/what_if_result.html"
    context = {
        "what_if": row,
        "percent": round(row.progress * 100),
        "result": template_values(row),
        "draft": _format_draft(row.draft),
    }
    return TemplateResponse(request, template, site.context(request, f"What if {row.pk}", **context))


@site.page("what-if/<int:number>/cancel/", name="what-if-cancel", part=True)
@require_POST
def cancel(request: HttpRequest, number: int) -> HttpResponse:
    """Cancel one that is running."""
    row = _row(number)
    with transaction.atomic():
        before = WhatIfViewSet.serialize_row(row)
        cancel_what_if(row)
        after = WhatIfViewSet.serialize_row(row)
        record_change(request, "destroy", WhatIfViewSet.resource_name, row.pk, before=before, after=after)
    return _to_page_of(row)


def _begin(request: HttpRequest, draft: JsonObject, start: datetime, end: datetime) -> WhatIf:
    assert request.user.pk is not None, "the console admits nobody without a login"
    with transaction.atomic():
        row = begin_comparison(draft, start, end, user_id=request.user.pk, user_name=request.user.get_username())
        after = WhatIfViewSet.serialize_row(row)
        record_change(request, "create", WhatIfViewSet.resource_name, row.pk, after=after, attributes=draft)
    return row


def _form_page(request: HttpRequest, form: WhatIfForm) -> HttpResponse:
    rows = WhatIf.objects.defer("draft", "result").order_by("-id")[:MAX_SHOWN]
    context = site.context(request, "What if", form=form, rows=rows)
    return TemplateResponse(request, "console/what_if.html", context)


def _row(number: int) -> WhatIf:
    row = WhatIf.objects.filter(pk=number).first()
    if row is None:
        raise Http404
    return row


def _to_page_of(row: WhatIf) -> HttpResponse:
    return HttpResponseRedirect(reverse("admin:what-if-result", args=[row.pk]))


def _format_draft(draft: JsonObject) -> str:
    return json.dumps(draft, indent=2, ensure_ascii=False)
