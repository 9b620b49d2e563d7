"""Ties the product's own checks and its change feed to Django."""

from django.apps import AppConfig
from django.core import checks as framework
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate, pre_migrate


class GatewayConfig(AppConfig):
    name = "gateway_project"
    verbose_name = "Gateway"

    def ready(self) -> None:
        # now settings and models are complete
        from gateway_project import checks
        from gateway_project.api import routes
        from gateway_project.change_feed import triggers
        from gateway_project.database import names
        from gateway_project.work import hooks

        hooks.provide_hooks()
        framework.register(checks.check_configuration, "gateway")
        framework.register(routes.check_routes, "urls")
        connection_created.connect(names.add_to_sqlite, dispatch_uid="gateway.names")
        pre_migrate.connect(triggers.drop_before_migrations, sender=self, dispatch_uid="gateway.triggers")
        post_migrate.connect(triggers.install, sender=self, dispatch_uid="gateway.triggers")

    def load_console(self) -> None:
        from gateway_project.access_requests import console  # noqa: F401  it adds its pages to the site
