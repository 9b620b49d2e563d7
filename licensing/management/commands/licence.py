"""manage.py licence"""

import json
import os
import re
import sys
import time
from argparse import ArgumentTypeError
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from uuid import uuid4

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from gateway_project.api.audit import record_command
from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from licensing import services, signing
from licensing.serializers import status_document
from licensing.signing import Claims, KeyRefused
from licensing.viewsets import install_key


class Command(BaseCommand):
    """The licence: `keygen` and `issue` are the vendor's, `install` and `status` the operator's."""

    help = "Creates the vendor's keys and licences; installs a licence and shows what the installed one allows."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        keygen = actions.add_parser("keygen", help="create the vendor's key pair")
        keygen.add_argument("--json", action="store_true", help="print both keys as JSON instead of writing a file")
        default = settings.VAR_DIR / "secrets" / "licence_private_key"
        keygen.add_argument("--private-key", type=Path, default=default, help="the new file for the private key")
        _issue_arguments(actions.add_parser("issue", help="print a licence key"))
        install = actions.add_parser("install", help="install a licence key, replacing the current one")
        install.add_argument("key", nargs="?", default="-", help="the key, its file, or - for standard input")
        status = actions.add_parser("status", help="show the installed licence")
        status.add_argument("--json", action="store_true", help="print JSON, like GET /licence/")

    def handle(self, *args: object, **options: object) -> None:
        try:
            getattr(self, str(options["action"]))(options)
        except KeyRefused as refused:
            raise CommandError(_with_option(refused)) from None
        except ValidationError as refused:
            raise CommandError(refused.sentence_with({"licence_key": "key"})) from None

    def keygen(self, options: JsonObject) -> None:
        private, public = signing.new_key_pair()
        if options["json"]:
            self.stdout.write(json.dumps({"privateKey": private, "publicKey": public}))
            return
        _write_secret(options["private_key"], private)
        self.stdout.write(f"The private key is in {options['private_key']}. Move it to a machine that runs no gateway.")
        self.stdout.write(f"GATEWAY_LICENCE_PUBLIC_KEY={public}")

    def issue(self, options: JsonObject) -> None:
        claims = Claims(
            type=options["type"],
            licensee=options["licensee"],
            expiry=options["expiry"],
            max_active_uses=options["max_active_uses"],
            active_use_life_time=options["active_use_life_time"],
            id=uuid4().hex,
            issued=datetime.now(UTC).date(),
        )
        self.stdout.write(signing.sign_licence(claims, _read(options["private_key"])))

    def install(self, options: JsonObject) -> None:
        record = partial(record_command, "create", "licence", attributes=("licenceKey",))
        self.stdout.write(install_key(_key(options["key"]), record))

    def status(self, options: JsonObject) -> None:
        terms, now = services.current_terms(), time.time()
        if options["json"]:
            self.stdout.write(json.dumps(status_document(terms, now)))
            return
        self.stdout.write(terms.sentence(now))
        if warning := terms.warning(now):
            self.stderr.write(f"Warning: {warning}")
        uses = terms.max_active_uses or "unlimited"
        self.stdout.write(f"Active uses: {uses}. Each ends {terms.active_use_life_time} s after its last request.")


def _issue_arguments(parser: CommandParser) -> None:
    parser.add_argument("--private-key", type=Path, required=True, help="the file with the private key")
    parser.add_argument("--type", required=True, help="the type of licence, in one word")
    parser.add_argument("--licensee", required=True, help="the licensee")
    parser.add_argument("--expiry", type=_day, required=True, help="the last valid day (UTC), such as 2030-12-31")
    parser.add_argument("--max-active-uses", type=int, required=True, help="the number of active uses; 0: unlimited")
    parser.add_argument(
        "--active-use-life-time",
        type=int,
        required=True,
        help="seconds after its last request at which an active use ends",
    )


def _with_option(refused: KeyRefused) -> str:
    """The reason with the option that sets the claim that it is about."""
    option = "-".join(re.findall("[A-Z]?[a-z]+", refused.claim)).lower()
    return f"--{option}: {refused.reason}" if option else refused.reason


def _day(text: str) -> date:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date()
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a date such as 2030-12-31") from None


def _key(argument: str) -> str:
    """The key of the argument: a key is longer than any file name."""
    if not argument.strip():
        raise CommandError("The licence key is empty: give the key, the file with the key, or - for standard input.")
    if argument == "-":
        return sys.stdin.read(signing.MAX_SENT_LENGTH)
    return argument if signing.JWS_PARTS.match(argument) and len(argument) > 255 else _read(Path(argument))


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CommandError(f"{path} cannot be read: it is not text.") from None


def _write_secret(path: Path, text: str) -> None:
    """Write a new file that nobody else may read; an existing one may hold a key in use."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{text}\n")
    except FileExistsError:
        raise CommandError(f"{path} exists and was not changed. Choose another file with --private-key.") from None
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from None
