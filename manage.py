#!/usr/bin/env python
"""The operators' entry point: every command of the gateway."""

import os
import signal
import sys

try:
    from django.core.management import BaseCommand, execute_from_command_line
    from django.db.utils import DatabaseError, OperationalError, ProgrammingError
except ModuleNotFoundError as missing:
    sys.exit(f"{sys.executable} lacks {missing.name}: use the Python in which requirements.lock is installed.")

from gateway_project.env import InvalidSetting

# Commands that write source code, which others may read.
WRITE_CODE = ("makemigrations", "bundle_prices")


def main() -> None:
    """Run the command; what operators can mend is said in a line, and not by the stack that noticed it."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
    if not set(sys.argv[1:2]) & set(WRITE_CODE):
        os.umask(0o077)  # databases, journals, secrets and backups are this user's alone
    # `check` looks at all of it: loading every URL takes longer than most commands do.
    BaseCommand.requires_system_checks = ["gateway"]
    try:
        execute_from_command_line(sys.argv)
    except InvalidSetting as refused:
        sys.exit(str(refused))
    except EOFError:
        sys.exit("The command asked a question, but its input has ended.")
    except KeyboardInterrupt:  # with the status that shells have for it
        sys.exit(128 + signal.SIGINT)
    except DatabaseError as error:
        if reason := database_problem(error):
            sys.exit(reason)
        raise


def database_problem(error: DatabaseError) -> str:
    """What operators can mend, or '': a missing permission, an unreachable server, missing migrations."""
    from gateway_project.database import problems  # imported here: it reads the settings

    if reason := problems.permission_problem(error):
        return reason
    if isinstance(error, OperationalError) and (reason := problems.connection_problem()):
        return reason
    return problems.migration_problem() if isinstance(error, OperationalError | ProgrammingError) else ""


if __name__ == "__main__":
    main()
