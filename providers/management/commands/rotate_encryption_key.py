"""manage.py rotate_encryption_key"""

from contextlib import nullcontext

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from gateway_project.api.audit import operator, record_command
from gateway_project.key_file import KeyFile, new_key
from gateway_project.progress import Progress
from providers.sealing import reseal_credentials

FROM_ENVIRONMENT = (
    "The keys are in GATEWAY_ENCRYPTION_KEYS, which this command cannot change. docs/operations.md lists the steps."
)


class Command(BaseCommand):
    """Encrypts every stored secret under the first key, while the gateway serves."""

    help = "Re-encrypts all stored secrets, such as credentials of providers, under the first of the encryption keys."

    def add_arguments(self, parser: CommandParser) -> None:
        local = parser.add_mutually_exclusive_group()
        local.add_argument(
            "--new-key", action="store_true", help="create a new key first (only if the keys are under GATEWAY_VAR_DIR)"
        )
        local.add_argument(
            "--drop-old-keys",
            action="store_true",
            help="delete the old keys afterwards (only if the keys are under GATEWAY_VAR_DIR)",
        )

    def handle(self, *args: object, **options: object) -> None:
        keys = settings.GATEWAY_ENCRYPTION_KEYS
        key_file = keys if isinstance(keys, KeyFile) else None
        if (options["new_key"] or options["drop_old_keys"]) and key_file is None:
            raise CommandError(FROM_ENVIRONMENT)
        with key_file.lock_file() if key_file else nullcontext():
            if key_file and options["new_key"]:
                key_file.prepend(new_key())
                self._record("created a new encryption key")
            self._reseal()
            if key_file and options["drop_old_keys"]:
                self._drop(key_file)

    def _reseal(self) -> None:
        progress = Progress(self.stderr)
        result = reseal_credentials(lambda rows: progress.count_items(rows, "Encrypting credentials"))
        self.stdout.write(f"Credentials re-encrypted: {result.rewritten}; already under this key: {result.current}.")
        if result.rewritten:
            self._record(f"re-encrypted the credentials of providers: {result.rewritten}")
        if result.unreadable:
            raise CommandError(
                f"{len(result.unreadable)} could not be decrypted and stay as they were: "
                f"{', '.join(result.unreadable)}. "
                "Enter their credentials again, or restore the key that they were encrypted with."
            )

    def _drop(self, keys: KeyFile) -> None:
        dropped = keys.remove_old_keys()
        self.stdout.write(f"Old keys dropped: {dropped}.")
        if dropped:
            self._record(f"dropped old encryption keys: {dropped}")

    def _record(self, action: str) -> None:
        record_command("rotate", "providers", message=f"{operator()} {action}, by manage.py.")
