"""The problems of the rule book in the console, each with a button that does something about it."""

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from gateway_project.api.audit import ChangeDetails
from gateway_project.change_feed.caching import ConfigurationCache
from gateway_project.console.audit import record_change
from gateway_project.console.links import link
from gateway_project.console.period import ANY_TIME, row_page
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
    "The rule is not enabled yet, and until then the problem stays. Check whom it is for and what it allows, then "
    "enable it."
)


def _first_problems() -> tuple[list[Finding], int]:
    """The first MAX_SHOWN of them, and how many more there are."""
    findings = find_problems()
    return findings[:MAX_SHOWN], max(0, len(findings) - MAX_SHOWN)


# What the row of a fix is, and its table.
SUBJECTS = {
    Action.DISABLE_RULE: ("rule", "rules_rule"),
    Action.OPEN_RULE: ("rule", "rules_rule"),
    Action.CREATE_GROUP_RULE: ("group", "accounts_group"),
    Action.CREATE_MODEL_RULE: ("model", "providers_model"),
    Action.CREATE_ALIAS_RULE: ("alias", "rules_alias"),
    Action.LOCK_KEY: ("key", "keys_apikey"),
    Action.DISABLE_ALIAS: ("alias", "rules_alias"),
}


def _subject_link(fix: Fix) -> SafeString | str:
    """To the page of the row that a finding is about."""
    kind, table = SUBJECTS[fix.action]
    return link(f"Open {kind} {fix.id}", row_page(table, fix.id, ANY_TIME))


FIRST_PROBLEMS = ConfigurationCache(_first_problems, ("rule", "user", "group", "key", "provider", "alias"))


@console_site().page("rules/rule/lint/", name="rule-lint")
def show_problems(request: HttpRequest) -> HttpResponse:
    """All problems, the first MAX_SHOWN of them."""
    findings, more = FIRST_PROBLEMS.get()
    context = {"findings": [(finding, _subject_link(finding.fix)) for finding in findings], "more": more}
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
    record_change(request, fixed.operation, fixed.viewset.resource_name, fixed.row.pk, **details)


def _read_fix(request: HttpRequest) -> Fix:
    row_id = id_in(request.POST.get("id", ""))
    try:
        action = Action(request.POST.get("action", ""))
    except ValueError:
        raise Http404 from None
    if not row_id:
        raise Http404
    return Fix(action, row_id)
