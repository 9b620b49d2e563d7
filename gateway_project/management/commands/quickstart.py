"""manage.py quickstart"""

import json
from dataclasses import asdict
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser

from gateway_project.quickstart import Prepared, prepare

EXAMPLE = """\
The gateway is ready at {baseUrl}
Its console is at {baseUrl}/admin/ (administrator: {adminUser}, password: {password}).
Ask it something:

  curl {baseUrl}/work \\
    -H "Authorization: Bearer {apiKey}" \\
    -H "Content-Type: application/json" \\
    -d '{{"model": "{model}", "messages": [{{"role": "user", "content": "Hello!"}}]}}'
"""


class Command(BaseCommand):
    """Prepares an instance without asking questions; run again it changes nothing that exists."""

    help = "Makes the database, an administrator, an API key, a rule and a demonstration provider."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print what was made as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", verbosity=0, interactive=False)
        prepared = prepare()
        self.stdout.write(json.dumps(asdict(prepared)) if options["json"] else _told(prepared))


def _told(prepared: Prepared) -> str:
    known = asdict(prepared) | {"apiKey": prepared.apiKey or "YOUR_KEY"}
    return EXAMPLE.format(**known, password=prepared.adminPassword or "as you set it")
