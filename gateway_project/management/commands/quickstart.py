"""manage.py quickstart"""

import json
import logging
from dataclasses import asdict

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser

from gateway_project.management.demo_port import demo_port
from gateway_project.management.ports import require_free_port
from gateway_project.management.quickstart import Prepared, prepare_installation

READY = """\
The gateway is ready at {baseUrl}
Its console is at {baseUrl}/admin/ (administrator: {adminUser}, password: {password}).
"""
EXPORTS = """\
Paste this into the shell in which you follow the README and the docs:

  export GATEWAY={baseUrl}
"""
KEY = "  export GATEWAY_KEY={apiKey}\n"
PASSWORD = "  export ADMIN_PASSWORD={adminPassword}\n"
EXAMPLE = """\

Ask it something:

  curl {baseUrl}/work \\
    -H "Authorization: Bearer {key}" \\
    -H "Content-Type: application/json" \\
    -d '{{"model": "{model}", "messages": [{{"role": "user", "content": "Hello!"}}]}}'
"""
NO_PROVIDER = """\

It has no provider yet. Start it with `python manage.py serve`, create a provider in the console (Providers, with its
URL, its format and its credential), and ask for one of its models at {baseUrl}/work.
"""


class Command(BaseCommand):
    """Prepares an instance without asking questions; run again it changes nothing that exists."""

    help = (
        "Creates the database, an administrator, an API key, a rule and (not in production) a demonstration provider."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print what was created as one JSON object")
        parser.add_argument(
            "--before-serving", action="store_true", help="stop if the gateway's port is already in use"
        )

    def handle(self, *args: object, **options: object) -> None:
        if options["before_serving"]:
            require_free_port(settings.HOST, settings.PORT, variable="PORT", command="make run")
        # Who reads this wants the address and the key; the gateway logs the audit's head with its next entry.
        logging.getLogger("gateway.audit").setLevel(logging.WARNING)
        call_command("migrate", verbosity=0, interactive=False)
        prepared = prepare_installation(tell=self.tell)
        if options["before_serving"] and (port := demo_port()) and settings.GATEWAY_MODE != "production":
            require_free_port("127.0.0.1", port, variable="GATEWAY_DEMO_PORT", command="make run")
        self.stdout.write(json.dumps(asdict(prepared)) if options["json"] else _sentences(prepared))

    def tell(self, line: str) -> None:
        """Write to standard error, so that standard output can be read as JSON."""
        self.stderr.write(line, style_func=str)


def _sentences(prepared: Prepared) -> str:
    exports = [EXPORTS, KEY if prepared.apiKey else "", PASSWORD if prepared.adminPassword else ""]
    parts = [READY, *exports, EXAMPLE if prepared.model else NO_PROVIDER]
    texts = {"key": prepared.apiKey or "YOUR_KEY", "password": prepared.adminPassword or "as you set it"}
    return "".join(parts).format(**asdict(prepared), **texts)
