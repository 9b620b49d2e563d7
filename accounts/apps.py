"""Sees to it that the built-in features and roles exist after every migrate."""

from functools import partial

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from accounts.builtin import write_builtin


class AccountsConfig(AppConfig):
    name = "accounts"
    verbose_name = "Access"  # where it stands in the console

    def ready(self) -> None:
        from accounts.managing.groups import administered_groups
        from accounts.second_factor.models import AuthenticatorApp
        from accounts.sso.models import IdentityProvider
        from gateway_project.api import access
        from providers.sealing import OTHER_TABLES

        access.administered_groups.provide(administered_groups)
        OTHER_TABLES.extend((IdentityProvider, AuthenticatorApp))
        # Not a data migration: flush empties these tables too; it sends this signal and runs no migration.
        post_migrate.connect(write_builtin, sender=self, dispatch_uid="accounts.builtin")

    def load_console(self) -> None:
        from accounts import console
        from accounts.managing import role_admin  # noqa: F401  these four add their pages to the site
        from accounts.second_factor import admin as second_factor  # noqa: F401
        from accounts.second_factor.login_step import second_step
        from accounts.second_factor.sites import CONSOLE
        from accounts.sso import admin  # noqa: F401
        from accounts.sso.login_providers import login_choices
        from accounts.sso.logout import leave_provider
        from accounts.trusted_issuers import admin as trusted_issuers  # noqa: F401
        from gateway_project.console import site

        site.has_live_login.provide(console.is_alive)
        site.sign_on_choices.provide(login_choices)
        site.leave_provider.provide(leave_provider)
        site.second_step.provide(partial(second_step, CONSOLE))
