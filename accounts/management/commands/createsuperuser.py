"""manage.py createsuperuser, which replaces Django's own: that checks no password and writes no log entry."""

import os

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from accounts import services
from accounts.builtin import ADMIN_ROLE, USER_ROLE
from accounts.management.passwords import typed_password
from accounts.viewsets import UserViewSet
from gateway_project.api.audit import record_command
from gateway_project.errors import GatewayError

NAME, PASSWORD = "DJANGO_SUPERUSER_USERNAME", "DJANGO_SUPERUSER_PASSWORD"
OPTIONS = {"username": "--username", "email": "--email"}


class Command(BaseCommand):
    """Makes a user with the roles admin and user."""

    help = "Creates an administrator."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--username", default=os.environ.get(NAME), help=f"the user name (default: {NAME}, or a prompt)"
        )
        parser.add_argument("--email", default="")
        parser.add_argument(
            "--noinput",
            "--no-input",
            action="store_false",
            dest="interactive",
            help=f"do not prompt; read the password from {PASSWORD}",
        )

    def handle(self, *args: object, username: str | None, email: str, interactive: bool, **options: object) -> None:
        if not interactive and (not username or PASSWORD not in os.environ):
            raise CommandError(f"--noinput needs --username (or {NAME}) and {PASSWORD}.")
        username = username or input("User name: ")
        password = typed_password() if interactive else os.environ[PASSWORD]
        try:
            with transaction.atomic():
                user = services.create_user(
                    username=username, password=password, email=email, roles=[ADMIN_ROLE, USER_ROLE]
                )
                record_command("create", "users", user.pk, after=UserViewSet.serialize_row(user))
        except GatewayError as refused:
            raise CommandError(refused.sentence_with(OPTIONS)) from None
        self.stdout.write(f"{user.username} is an administrator.")
