"""How commands are told a password."""

import sys
from getpass import getpass

from django.core.management.base import CommandError


def typed_password() -> str:
    """Typed twice at a terminal, where nobody sees it; else the first line of standard input."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    password = getpass("Password: ")
    if getpass("Password (again): ") != password:
        raise CommandError("The two passwords differ. Nothing was changed.")
    return password
