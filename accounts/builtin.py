"""The features and roles that every instance has, written after each migrate where they are missing."""

from typing import TypeVar

from django.apps import apps as current
from django.apps.registry import Apps
from django.db import router, transaction
from django.db.models import Model, QuerySet

from gateway_project.database.names import missing_names

Row = TypeVar("Row", bound=Model)

ADMIN_ROLE = "admin"
USER_ROLE = "user"
# What whoever grants a feature should know, as the console shows it.
RISKS = {
    "work": "Sends requests to models, as far as rules and limits allow. Each may cost money.",
    "models.create": "Adds models to any provider under names that no provider offers yet, and renames them. If "
    "somebody else adds the same name later, both share its requests.",
    "providers.modify": "Creates, changes and deletes providers. Renames every model, gives one name to several "
    "providers, and changes aliases. Adds credentials to providers: whoever owns such a credential sees what is sent "
    "with it. This decides where everybody's requests go: prompts may reach another provider, and requests may fail.",
    "groups.view": "Shows all groups and who is in them.",
    "groups.create": "Creates groups. Rules and limits apply to one only once somebody refers to it.",
    "groups.modify": "Adds anybody, including oneself, to any group, and removes anybody. New members get all that "
    "the group's rules allow; removed members escape its limits.",
    "rules.view": "Shows all rules: who may use which model.",
    "rules.modify": "Decides who may use which model of which provider, for everybody and oneself.",
    "guardrails.modify": "Decides what guardrails search for in everybody's requests and answers, and what happens "
    "then. Can remove this protection, and can make guardrails that send everybody's requests and answers to a "
    "service.",
    "logs.view_all": "Shows everybody's log entries, with prompts and answers where the settings keep them.",
    "audit.view": "Shows who changed what, with the values before and after, and when everybody logged in.",
    "cache.view_all": "Shows everybody's cached answers.",
    "keys.view_all": "Shows everybody's API keys with names, owners and permissions, without their secrets.",
    "stats.view": "Shows everybody's usage and cost, and the active uses of the licence.",
    "users.manage": "Shows all users. Creates, changes and deletes users who have no other permissions than the "
    "holder, and sets their passwords: whoever knows a password can log in and see what that user sees. Cannot make "
    "admins or users with this permission.",
    "licence.manage": "Replaces the licence. A licence for fewer users, or with an early expiry, stops work.",
}
FEATURES = tuple(RISKS)
ROLES = {ADMIN_ROLE: FEATURES, USER_ROLE: ("work", "models.create")}


def write_builtin(using: str, apps: Apps = current, **signal: object) -> None:
    """Create missing built-in features and roles; a role that exists keeps the features it has."""
    try:
        Feature, Role = apps.get_model("accounts", "Feature"), apps.get_model("accounts", "Role")
    except LookupError:  # the app was migrated back to nothing
        return
    if not router.allow_migrate_model(using, Feature):
        return
    features, roles = Feature.objects.using(using), Role.objects.using(using)
    with transaction.atomic(using=using):
        for name in missing_names(features, FEATURES):
            _get_or_create(features, name)
        for name in missing_names(roles, ROLES):
            role, created = _get_or_create(roles, name)
            if created:
                role.features.set(features.filter(name__in=ROLES[name]))


def _get_or_create(rows: QuerySet[Row], name: str) -> tuple[Row, bool]:
    """The row of this name, and whether it is new; one that somebody named so in another case gets this spelling."""
    rows.filter(name__iexact=name).update(name=name)
    return rows.get_or_create(name=name)
