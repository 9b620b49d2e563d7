"""The app's name; aliases and guardrails have packages of their own, with their parts of the console."""

from django.apps import AppConfig
from django.db.models.signals import pre_delete


class RulesConfig(AppConfig):
    name = "rules"
    verbose_name = "Access"  # where it stands in the console

    def ready(self) -> None:
        from accounts.models import Group, User
        from gateway_project.database.guarding import watch_access
        from providers.sealing import OTHER_TABLES
        from providers.services import is_name_of_alias
        from rules.access_tests import watching
        from rules.aliases.models import Alias
        from rules.guardrails.models import Guardrail
        from rules.versions.recording import record_loss_of_audience

        OTHER_TABLES.append(Guardrail)
        watch_access.provide(watching.watch_tests)
        is_name_of_alias.provide(Alias.objects.stands_for)
        for owner in (User, Group):
            pre_delete.connect(record_loss_of_audience, sender=owner)

    def load_console(self) -> None:
        from providers.console import listed_models
        from rules.access_tests import admin as access_tests  # noqa: F401  they add their pages to the site
        from rules.access_tests import console as pages_of_tests  # noqa: F401
        from rules.aliases import admin as aliases  # noqa: F401
        from rules.guardrails import admin as guardrails  # noqa: F401
        from rules.lint import console as lint  # noqa: F401
        from rules.order import console as order  # noqa: F401
        from rules.snapshots import count_judging
        from rules.versions import console as versions  # noqa: F401

        listed_models.count_rules_of_model.provide(count_judging)
