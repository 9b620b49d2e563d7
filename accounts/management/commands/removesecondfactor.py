"""manage.py removesecondfactor, the way back where nobody can log in to the console."""

from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounts.models import User
from accounts.second_factor.services import remove_second_factor
from gateway_project.api.audit import Actor, operator


class Command(BaseCommand):
    """For an admin who has lost the authenticator app, the passkeys and the recovery codes."""

    help = "Removes a user's second factor and recovery codes, which ends all of the user's sessions."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", help="the user")

    def handle(self, *args: object, username: str, **options: object) -> None:
        user = User.objects.with_username(username).first()
        if user is None:
            raise CommandError(f"There is no user named {username!r}.")
        if not remove_second_factor(user, actor=Actor(operator=operator())):
            raise CommandError(f"{user.username} has no second factor.")
        self.stdout.write(f"{user.username} has no second factor any more. All their sessions have ended.")
