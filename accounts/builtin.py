"""The features and roles that every instance has, written after each migrate where they are missing."""

from typing import TypeVar

from django.apps import apps as current
from django.apps.registry import Apps
from django.db import router, transaction
from django.db.models import Model, QuerySet

Row = TypeVar("Row", bound=Model)

ADMIN_ROLE = "admin"
USER_ROLE = "user"
# What whoever grants a feature should know, as the console shows it.
RISKS = {
    "work": "Sends requests to models, as far as rules and limits allow. Each may cost money.",
    "models.create": "Adds model names to any provider and renames those, but takes no name that is offered already. "
    "A name that somebody else adds later shares its requests.",
    "providers.modify": "Creates, changes and deletes providers. Renames every model, gives one name to several "
    "providers, and changes aliases. Adds credentials to providers, whose owners see what is sent with them. This "
    "decides where everybody's requests go: prompts may reach another provider, and requests may fail.",
    "groups.view": "Shows all groups and who is in them.",
    "groups.create": "Creates groups. Rules and limits apply to one only once somebody refers to it.",
    "groups.modify": "Adds anybody to any group, oneself included: that grants all that the rules of the group allow, "
    "and removes people from its limits.",
    "rules.view": "Shows all rules: who may use which model.",
    "rules.modify": "Decides who may use which model of which provider, for everybody and oneself.",
    "guardrails.modify": "Decides what everybody's requests and answers are searched for, and what happens to it; and "
    "takes such protection away.",
    "logs.view_all": "Shows everybody's log entries, with prompts and answers where the settings keep them.",
    "audit.view": "Shows who changed what, with the values before and after, and everybody's logins.",
    "cache.view_all": "Shows everybody's cached answers.",
    "keys.view_all": "Shows everybody's API keys with names, owners and permissions, without their secrets.",
    "stats.view": "Shows everybody's usage and cost, and the licence's uses.",
    "users.manage": "Shows all users. Creates, changes and deletes those who may do no more than whoever has it, and "
    "sets their passwords: whoever knows a password can log in and see what that user sees. Makes no admins, and "
    "nobody who manages users.",
    "licence.manage": "Replaces the licence. One for fewer users, or with an early expiry, stops work.",
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
    with transaction.atomic(using=using):
        for name in FEATURES:
            _get_or_create(Feature.objects.using(using), name)
        for name, features in ROLES.items():
            role, created = _get_or_create(Role.objects.using(using), name)
            if created:
                role.features.set(Feature.objects.using(using).filter(name__in=features))


def _get_or_create(rows: QuerySet[Row], name: str) -> tuple[Row, bool]:
    """The row of this name, and whether it is new; one that somebody named so in another case gets this spelling."""
    if not rows.filter(name=name).exists():
        rows.filter(name__iexact=name).update(name=name)
    return rows.get_or_create(name=name)
