"""Run the demonstration provider in the foreground."""

import errno
import os
import signal
import threading
from argparse import ArgumentTypeError
from contextlib import suppress
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from gateway_project.json_types import JsonObject
from providers.demo import DemoServer


class Command(BaseCommand):
    """Serves a local OpenAI-compatible model until it is told to stop."""

    help = "Runs a local OpenAI-compatible provider with one model, `demo`."
    # The provider needs neither database nor settings.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
        parser.add_argument("--port", type=port_number, default=8001, help="port to listen on; 0: any free port")
        parser.add_argument("--pace", type=seconds, default=0.03, help="seconds between the chunks of a stream")
        parser.add_argument("--delay", type=seconds, default=0.0, help="seconds before an answer begins")
        parser.add_argument("--until-stdin-closes", action="store_true", help="stop when standard input ends")

    def handle(self, *args: object, **options: Any) -> None:
        signal.signal(signal.SIGTERM, interrupt)
        with suppress(KeyboardInterrupt), open_server(options) as server:
            if options["until_stdin_closes"]:
                threading.Thread(target=stop_with_stdin, args=[server], daemon=True).start()
            self.stdout.write(f"The demonstration provider listens on {server.url}")
            self.stdout.flush()
            server.serve_forever()


def port_number(value: str) -> int:
    """A TCP port, or argparse's complaint."""
    if not value.isdigit() or int(value) > 65535:
        raise ArgumentTypeError(f"{value!r} is not a port")
    return int(value)


def seconds(value: str) -> float:
    """A length of time that can be slept, or argparse's complaint."""
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 3600:
        raise ArgumentTypeError(f"{value!r} is not a number of seconds from 0 to 3600")
    return number


def open_server(options: JsonObject) -> DemoServer:
    """The listening server; raises CommandError if the address cannot be had."""
    host, port = options["host"], options["port"]
    try:
        return DemoServer(host, port, pace=options["pace"], delay=options["delay"])
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            another = "another with --port, or with GATEWAY_DEMO_PORT where `make run` starts it"
            raise CommandError(f"Port {port} of {host} is already in use; choose {another}.") from None
        raise CommandError(f"Cannot listen on port {port} of {host}: {problem.strerror}.") from None


def stop_with_stdin(server: DemoServer) -> None:
    """Stop the server once standard input ends, as it does when the parent dies."""
    # The bare descriptor, because a thread that holds sys.stdin's lock would spoil the interpreter's exit.
    with suppress(OSError):
        while os.read(0, 4096):
            pass
    server.shutdown()


def interrupt(signum: int, frame: object) -> None:
    """Let SIGTERM end the command as Ctrl-C does; a second one finds nothing left to interrupt."""
    signal.signal(signum, signal.SIG_IGN)
    raise KeyboardInterrupt
