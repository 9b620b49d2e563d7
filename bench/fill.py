"""python -m bench.fill KEYS RULES STANDIN: migrates and fills the database, and prints what callers send, as JSON."""

import json
import os
import sys
import time
from typing import TYPE_CHECKING

import django

from bench.standin import KINDS

if TYPE_CHECKING:
    from accounts.models import User

ISSUER, AUDIENCE, SUBJECT = "https://issuer.example", "bench", "system:serviceaccount:bench:load"
GROUPS_ABOVE = 4  # of the group that the caller `group` is a member of


def main(keys: int, rules: int, standin: str) -> None:
    """Write the rows; the one rule that allows anything comes last."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    from accounts.services import create_user
    from keys.models import ApiKey
    from keys.secrets import generate_key
    from providers.models import Provider
    from providers.services import create_provider
    from rules.aliases.drafts import TargetDraft
    from rules.aliases.services import create_alias
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
    credentials = credentials_of_callers(owner)  # before the others: a user who has so many keys gets no more
    others = (generate_key() for _ in range(keys - 1))
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
    create_rule(name="last", regex="|".join([*KINDS, "alias"]), user_id=0)
    ids = {name: Provider.objects.get(name=name).pk for name in ("fast", "slow")}
    create_alias(name="alias", targets=[TargetDraft(ids["fast"], "fast"), TargetDraft(ids["slow"], "slow", tier=1)])
    sys.stdout.write(json.dumps(credentials))


def credentials_of_callers(owner: "User") -> dict[str, str]:
    """What the callers of the scenarios send, by name."""
    from keys.services import issue_key

    return {
        "plain": issue_key(owner=owner, name="bench").text,
        "restricted": restricted_key(owner),
        "group": key_of_member(),
        "issuer": token_of_issuer(owner),
    }


def restricted_key(owner: "User") -> str:
    """A key with each restriction that a request is checked against."""
    from keys.services import issue_key

    return issue_key(
        owner=owner,
        name="restricted",
        models=["team-*", *KINDS],
        networks=["10.0.0.0/8", "127.0.0.0/8"],
        tags={"team": "search"},
        max_tokens_per_request=4_000,
    ).text


def key_of_member() -> str:
    """A key of a user whose group is the last of a tree."""
    from accounts.services import create_group, create_user
    from keys.services import issue_key

    member = create_user(username="member", password=os.urandom(16).hex())
    parent_id = None
    for level in range(GROUPS_ABOVE):
        parent_id = create_group(name=f"level {level}", parent_id=parent_id).pk
    create_group(name="team", parent_id=parent_id, member_ids=[member.pk])
    return issue_key(owner=member, name="member").text


def token_of_issuer(user: "User") -> str:
    """A token that stands for the user, of an issuer whose keys are stored."""
    import jwt
    from cryptography.hazmat.primitives.asymmetric import ec
    from jwt.algorithms import ECAlgorithm

    from accounts.trusted_issuers.services import create_trusted_issuer

    private_key = ec.generate_private_key(ec.SECP256R1())
    public_key = json.loads(ECAlgorithm.to_jwk(private_key.public_key())) | {"kid": "bench", "alg": "ES256"}
    create_trusted_issuer(
        name="bench",
        issuer=ISSUER,
        audience=AUDIENCE,
        jwks={"keys": [public_key]},
        subjects={SUBJECT: user.username},
    )
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": SUBJECT, "iat": now, "exp": now + 12 * 3600}
    return jwt.encode(claims, private_key, "ES256", headers={"kid": "bench"})


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
