"""manage.py explain"""

import json
import sys
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounts.models import User
from gateway_project.api.audit import Actor, operator
from gateway_project.api.strict_json import parse_object
from gateway_project.env import is_utf8
from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from gateway_project.work import runtime
from gateway_project.work.doors import endpoint_at
from gateway_project.work.explain.options import read_address
from gateway_project.work.explain.questions import Question, explain_question, sample_body
from gateway_project.work.explain.subjects import find_subject


class Command(BaseCommand):
    """Says what would happen to a request of a user, and why."""

    help = "Explains how the gateway would decide about a request, without sending it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="the name of the user whose request it is")
        parser.add_argument(
            "model", type=_utf8, nargs="?", help="the model to ask for (default: the model in the body)"
        )
        parser.add_argument("--key", type=_utf8, default="", help="the name of the user's key (default: a login)")
        parser.add_argument(
            "--address",
            type=_address,
            default="",
            help="the client's IP address, for keys that are restricted to networks",
        )
        parser.add_argument("--path", default="/work", help="the path, such as /v1/messages (default: /work)")
        parser.add_argument(
            "--body", help="a file with the body as JSON, or - for standard input (default: a short chat)"
        )
        parser.add_argument("--json", action="store_true", help="print the whole explanation as JSON")

    def handle(self, *args: object, **options: Any) -> None:
        path = options["path"].removesuffix("/")
        if endpoint_at(path) is None:
            raise CommandError(f"No requests are served at {options['path']}.")
        user = User.objects.with_username(options["user"]).first()
        if user is None:
            raise CommandError(f"No user named {options['user']}.")
        body = _body(options["body"], path) | ({"model": options["model"]} if options["model"] else {})
        try:
            subject = find_subject(user.pk, options["key"], runtime.gateway())
            question = Question(subject, path, body, address=options["address"])
            document = explain_question(question, runtime.gateway(), Actor(None, operator=operator()), operator())
        except GatewayError as error:
            raise CommandError(error.message) from error
        finally:
            runtime.stop_gateway()
        for line in [json.dumps(document, indent=2)] if options["json"] else document["sentences"]:
            self.stdout.write(line)


def _body(file: str | None, path: str) -> JsonObject:
    """The body of the request. Raises CommandError."""
    if file is None:
        return sample_body(path)
    try:
        return parse_object(sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes())
    except OSError as error:
        raise CommandError(f"The body cannot be read: {error}") from error
    except GatewayError as error:
        raise CommandError(error.message) from error


def _address(text: str) -> str:
    try:
        return read_address(text) if text else ""
    except GatewayError:
        raise ArgumentTypeError(f"{text!r} is not an IP address") from None


def _utf8(text: str) -> str:
    if not is_utf8(text):
        raise ArgumentTypeError(f"{text!r} is not UTF-8")
    return text
