"""The versions of a rule in the console: compared with each other, and restored; also those of deleted rules."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from accounts.models import Group, User
from gateway_project.console.audit import record_change
from gateway_project.console.links import link_to
from gateway_project.console.site import console_site
from gateway_project.database.saving import races_as_conflicts
from gateway_project.errors import AccessTestFailed, GatewayError
from providers.models import Provider
from rules.models import Effect, Rule, RuleVersion
from rules.services import restore_rule
from rules.versions.recording import Value
from rules.viewsets import RuleViewSet

MAX_SHOWN = 200
LABELS = {
    "name": "Name",
    "description": "Description",
    "effect": "Effect",
    "position": "Position",
    "enabled": "Enabled",
    "user_id": "For the user",
    "group_id": "For the group",
    "regex": "Models",
    "provider_id": "Provider",
}
OWNERS = {"user_id": User, "group_id": Group, "provider_id": Provider}
ANY = {"user_id": "everyone", "group_id": "everyone", "provider_id": "any provider"}
RESTORED = (
    "The rule becomes what it was in this version, in every process within a second. Later versions stay in the list."
)

Names = dict[str, dict[int, str]]


class ComparedAttribute(NamedTuple):
    """An attribute of two versions, in words."""

    label: str
    before: str
    after: str

    @property
    def differs(self) -> bool:
        return self.before != self.after


@console_site().page("rules/rule/<int:rule_id>/versions/", name="rule-versions")
def show_versions(request: HttpRequest, rule_id: int) -> HttpResponse:
    """The versions of a rule, two of which are compared: by default the last two."""
    versions = list(RuleVersion.objects.of(rule_id)[:MAX_SHOWN])
    rule = Rule.objects.filter(pk=rule_id).first()
    if not versions and rule is None:
        raise Http404
    names = _names(versions)
    before, after = _chosen_versions(request, versions)
    context = {
        "versions": [(version, list(_changes(version, names))) for version in versions],
        "before": before,
        "after": after,
        "comparison": list(_compare(before, after, names)) if before and after else [],
        "rule": rule,
        "rule_id": rule_id,
        "is_current": rule is not None,
    }
    title = f"Versions of the rule {rule or versions[0].attributes['name']}"
    return TemplateResponse(request, "console/rule_versions.html", console_site().context(request, title, **context))


@console_site().page("rules/rule/<int:rule_id>/versions/<int:number>/restore/", name="rule-versions-restore")
def restore_version(request: HttpRequest, rule_id: int, number: int) -> HttpResponse:
    """Ask, and then make the rule what it was in the version."""
    version = RuleVersion.objects.of(rule_id).filter(number=number).first()
    if version is None:
        raise Http404
    back = reverse("admin:rule-versions", args=[rule_id])
    if request.method == "POST":
        return _restore(request, version, back)
    context = console_site().context(request, "Restore", row=version, effect=RESTORED, back=back)
    return TemplateResponse(request, "console/confirm.html", context)


@console_site().page("rules/rule/deleted/", name="deleted-rules")
def show_deleted_rules(request: HttpRequest) -> HttpResponse:
    """The rules that were deleted, the last one first."""
    context = {"versions": RuleVersion.objects.of_deleted_rules()[:MAX_SHOWN]}
    page = console_site().context(request, "Deleted rules", **context)
    return TemplateResponse(request, "console/deleted_rules.html", page)


def _restore(request: HttpRequest, version: RuleVersion, back: str) -> HttpResponse:
    try:
        with races_as_conflicts(), transaction.atomic():
            before = RuleViewSet.serialize_row(Rule(pk=version.rule_id))
            rule = restore_rule(rule_id=version.rule_id, version=version.number)
            after = RuleViewSet.serialize_row(rule)
            record_change(request, "restore", RuleViewSet.resource_name, rule.pk, before=before, after=after)
    except AccessTestFailed:
        raise  # the site asks for a reason
    except GatewayError as error:
        messages.error(request, error.sentence)
        return HttpResponseRedirect(back)
    messages.success(request, f"The rule is restored to version {version.number}.")
    return HttpResponseRedirect(reverse("admin:rules_rule_change", args=[rule.pk]))


def _chosen_versions(
    request: HttpRequest, versions: list[RuleVersion]
) -> tuple[RuleVersion | None, RuleVersion | None]:
    """The versions that the query names, the older one first; by default the last two."""
    by_number = {str(version.number): version for version in versions}
    before = by_number.get(request.GET.get("from", ""), next(iter(versions[1:]), None))
    after = by_number.get(request.GET.get("to", ""), next(iter(versions), None))
    if before and after and before.number > after.number:
        return after, before
    return before, after


def _compare(before: RuleVersion, after: RuleVersion, names: Names) -> Iterator[ComparedAttribute]:
    for name, label in LABELS.items():
        values = (_words(name, version.attributes.get(name), names) for version in (before, after))
        yield ComparedAttribute(label, *values)


def _changes(version: RuleVersion, names: Names) -> Iterator[ComparedAttribute]:
    for name, (before, after) in version.changes.items():
        yield ComparedAttribute(LABELS.get(name, name), _words(name, before, names), _words(name, after, names))


def _names(versions: Iterable[RuleVersion]) -> Names:
    """The names of the users, groups and providers that the versions refer to, by attribute and id."""
    names: Names = {}
    for attribute, model in OWNERS.items():
        ids = {value for version in versions for value in _values(version, attribute) if value}
        names[attribute] = {pk: link_to(row) for pk, row in model._default_manager.in_bulk(ids).items()}
    return names


def _values(version: RuleVersion, attribute: str) -> list[Value]:
    return [version.attributes.get(attribute), *version.changes.get(attribute, ())]


def _words(attribute: str, value: Value, names: Names) -> str:
    if attribute in OWNERS:
        if value is None and attribute != "provider_id":
            return "none"
        return names[attribute].get(int(value), f"id {value} (deleted)") if value else ANY[attribute]
    if attribute == "effect":
        return str(Effect(str(value)).label)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) or ("every model" if attribute == "regex" else "empty")
