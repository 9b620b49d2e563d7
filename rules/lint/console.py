"""The problems of the rule book in the console, each with a button that does something about it."""

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from gateway_project.api.audit import ChangeDetails
from gateway_project.change_feed.caching import ConfigurationCache
from gateway_project.console.audit import record
from gateway_project.console.site import console_site
from gateway_project.database.ids import id_in
from gateway_project.database.saving import races_as_conflicts
from gateway_project.errors import AccessTestFailed, GatewayError
from rules.lint.findings import Finding, find_problems
from rules.lint.fixes import Action, Fix, Fixed, apply_fix

MAX_SHOWN = 200
# By the operation of a fix that prepares a rule: without one, the rule was there.
PREPARED = {"create": "is prepared", "": "was prepared before"}
REMAINS = (
    "It is not enabled, and the problem stays until it is: check whom it is for and what it allows, and enable it."
)


def _first_problems() -> tuple[list[Finding], int]:
    """The first MAX_SHOWN of them, and how many more there are."""
    findings = find_problems()
    return findings[:MAX_SHOWN], max(0, len(findings) - MAX_SHOWN)


FIRST_PROBLEMS = ConfigurationCache(_first_problems, ("rule", "user", "group", "key", "provider", "alias"))


@console_site().page("rules/rule/lint/", name="rule-lint")
def show_problems(request: HttpRequest) -> HttpResponse:
    """All problems, the first MAX_SHOWN of them."""
    findings, more = FIRST_PROBLEMS.get()
    context = {"findings": findings, "more": more}
    page = console_site().context(request, "Problems of the rules", **context)
    return TemplateResponse(request, "console/rule_lint.html", page)


@console_site().page("rules/rule/lint/fix/", name="rule-lint-fix", part=True)
@require_POST
def fix_problem(request: HttpRequest) -> HttpResponse:
    """Do what the button says."""
    fix = _read_fix(request)
    try:
        with races_as_conflicts(), transaction.atomic():
            fixed = apply_fix(fix)
            if fixed.operation:
                _record(request, fixed)
    except AccessTestFailed:
        raise  # the site asks for a reason
    except GatewayError as error:
        messages.error(request, error.sentence)
        return HttpResponseRedirect(reverse("admin:rule-lint"))
    if fixed.operation == "update":
        messages.success(request, f"Done: {fix.action.label}.")
        return HttpResponseRedirect(reverse("admin:rule-lint"))
    if fix.action != Action.OPEN_RULE:
        messages.info(request, f"The rule {fixed.row} {PREPARED[fixed.operation]}. {REMAINS}")
    return HttpResponseRedirect(reverse("admin:rules_rule_change", args=[fixed.row.pk]))


def _record(request: HttpRequest, fixed: Fixed) -> None:
    after = fixed.viewset.serialize_row(fixed.row)
    details = ChangeDetails(before=fixed.before, after=after, attributes=fixed.attributes)
    record(request, fixed.operation, fixed.viewset.resource_name, fixed.row.pk, **details)


def _read_fix(request: HttpRequest) -> Fix:
    row_id = id_in(request.POST.get("id", ""))
    try:
        action = Action(request.POST.get("action", ""))
    except ValueError:
        raise Http404 from None
    if not row_id:
        raise Http404
    return Fix(action, row_id)
