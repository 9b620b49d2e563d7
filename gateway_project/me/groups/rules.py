"""Rules of a group that its admins write: they deny."""

from functools import partial

from django.core.paginator import Paginator
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from gateway_project.api import audit
from gateway_project.api.access import Caller
from gateway_project.database.saving import races_as_conflicts
from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from gateway_project.me.forms import add_errors
from gateway_project.me.groups.forms import RuleForm
from gateway_project.me.groups.pages import PAGE_ROWS, administered_group, ask_to_delete, show_form, show_tab
from gateway_project.me.site import actor, caller, featured_caller, page
from rules import services
from rules.delegation import check_group_rule, check_own_rule
from rules.models import Effect, Rule
from rules.viewsets import RuleViewSet

FIELDS = {"regex": "models", "providerId": "provider"}  # the form's names by those of the API


@page
def rule_list(request: HttpRequest, group_id: int) -> HttpResponse:
    """The rules for the group itself; those that its admins wrote can be changed."""
    group = administered_group(caller(request), group_id)
    rules = Paginator(Rule.objects.shown().filter(group=group).in_order_of_judging(), PAGE_ROWS)
    return show_tab(request, "rules", group, {"rules": rules.get_page(request.GET.get("rules"))})


@page
def create(request: HttpRequest, group_id: int) -> HttpResponse:
    """A form for a new rule."""
    group = administered_group(caller(request), group_id)
    form = RuleForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            _create(request, form.values() | {"group_id": group.pk, "effect": Effect.DENY})
            return _to_rules(group.pk)
        except GatewayError as error:
            add_errors(form, error, FIELDS)
    return show_form(request, f"New rule of {group.name}", form, _rules_of(group.pk))


def _create(request: HttpRequest, values: JsonObject) -> None:
    with races_as_conflicts(), transaction.atomic():
        check_group_rule(featured_caller(request), group_id=values["group_id"], effect=values["effect"])
        rule = services.create_rule(**values, is_delegated=True)
        audit.record(actor(request), "create", "rules", rule.pk, after=RuleViewSet.serialize_row(rule))


@page
def change(request: HttpRequest, rule_id: int) -> HttpResponse:
    """The form of a rule that an admin of the group has written."""
    rule = _rule(request, rule_id)
    form = RuleForm(request.POST or None, initial=RuleForm.initial_of(rule))
    assert rule.group_id is not None, "it is a rule of a group"
    if request.method == "POST" and form.is_valid():
        try:
            _change(request, rule, form)
            return _to_rules(rule.group_id)
        except GatewayError as error:
            add_errors(form, error, FIELDS)
    return show_form(request, f"Rule {rule.name}", form, _rules_of(rule.group_id))


def _change(request: HttpRequest, rule: Rule, form: RuleForm) -> None:
    check = partial(_check, featured_caller(request), form)
    with races_as_conflicts(), transaction.atomic():
        before = RuleViewSet.serialize_row(rule)
        services.update_rule(rule, check=check, **form.values(), is_delegated=True)
        after = RuleViewSet.serialize_row(rule)
        audit.record(actor(request), "update", "rules", rule.pk, before=before, after=after)


def _check(caller: Caller, form: RuleForm, rule: Rule) -> None:
    form.check_unchanged(RuleForm.initial_of(rule))
    check_own_rule(caller, rule)
    check_group_rule(caller, group_id=rule.group_id, effect=rule.effect)


@page
def delete(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Ask, then delete the rule."""
    rule = _rule(request, rule_id)
    if request.method != "POST":
        effect = "From now on the other rules decide about requests that only this rule denied."
        return ask_to_delete(request, rule.name, effect, _rules_of(rule.group_id))
    group_id, row_id = rule.group_id, rule.pk
    with races_as_conflicts(), transaction.atomic():
        before = RuleViewSet.serialize_row(rule)
        services.delete_rule(rule, check=partial(check_own_rule, featured_caller(request)))
        audit.record(actor(request), "destroy", "rules", row_id, before=before)
    return _to_rules(group_id)


def _rule(request: HttpRequest, rule_id: int) -> Rule:
    """A rule that an admin of one of the user's groups has written; raises Http404."""
    rule = Rule.objects.filter(is_delegated=True, pk=rule_id).first()
    if rule is None or rule.group_id is None:
        raise Http404
    administered_group(caller(request), rule.group_id)
    return rule


def _rules_of(group_id: int | None) -> str:
    return reverse("me:group-rules", args=[group_id])


def _to_rules(group_id: int | None) -> HttpResponse:
    return HttpResponseRedirect(_rules_of(group_id))
