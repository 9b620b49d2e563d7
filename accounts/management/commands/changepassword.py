"""manage.py changepassword, which replaces Django's own: that ends no session and writes no log entry."""

from getpass import getuser

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from accounts import services
from accounts.management.passwords import typed_password
from accounts.models import User
from accounts.viewsets import UserViewSet
from gateway_project.api.audit import record_command
from gateway_project.errors import GatewayError


class Command(BaseCommand):
    """Sets a new password for a user who has lost it, or whose password somebody else knows."""

    help = "Sets a user's password, which ends all of the user's sessions."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", nargs="?", help="the user; defaults to the name of the current system user")

    def handle(self, *args: object, username: str | None, **options: object) -> None:
        username = username or getuser()
        user = User.objects.with_username(username).first()
        if user is None:
            raise CommandError(f"There is no user named {username!r}.")
        try:
            self._change(user, typed_password())
        except GatewayError as refused:
            raise CommandError(refused.sentence_with({"new_password": "password"})) from None
        self.stdout.write(f"{user.username} has a new password. All their sessions have ended.")

    @transaction.atomic
    def _change(self, user: User, password: str) -> None:
        before = UserViewSet.serialize_row(user)
        services.update_user(user, password=password)
        after = UserViewSet.serialize_row(user)
        record_command("update", "users", user.pk, before=before, after=after, attributes=("newPassword",))
