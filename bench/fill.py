"""python -m bench.fill KEYS RULES STANDIN: migrates and fills the database, and prints the key to send."""

import os
import sys

import django

from bench.standin import KINDS


def main(keys: int, rules: int, standin: str) -> None:
    """Write the rows; the one rule that allows anything comes last."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    from accounts.services import create_user
    from keys.models import ApiKey
    from keys.secrets import generate
    from keys.services import issue_key
    from providers.services import create_provider
    from rules.models import Rule
    from rules.services import create_rule

    owner = create_user(username="bench", password=os.urandom(16).hex())
    for kind in KINDS:
        create_provider(
            name=kind,
            url=f"{standin}/{kind}/v1",
            format_name="openai",
            auth_method="bearer",
            credential="sk-bench-0123456789",
            models=[kind],
        )
    others = (generate() for _ in range(keys - 1))
    ApiKey.objects.bulk_create(
        (
            ApiKey(name=f"key {number}", owner=owner, public_id=key.public_id, digest=key.digest)
            for number, key in enumerate(others)
        ),
        batch_size=5000,
    )
    Rule.objects.bulk_create(
        (Rule(name=f"rule {number}", regex=f"team-{number}/.*", everyone="user") for number in range(rules - 1)),
        batch_size=5000,
    )
    create_rule(name="last", regex="|".join(KINDS), user_id=0)
    sys.stdout.write(issue_key(owner=owner, name="bench").text)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
