"""The app's name, and what other apps ask of keys."""

from django.apps import AppConfig


class KeysConfig(AppConfig):
    name = "keys"
    verbose_name = "Access"  # where it stands in the console

    def ready(self) -> None:
        from accounts.scim.services import delete_keys_of
        from keys.services import delete_keys

        delete_keys_of.provide(lambda user: delete_keys(user.api_keys.all()))
