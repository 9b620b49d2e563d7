"""A vendor for tests: a pair of keys, and the licences it signs."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

from licensing.signing import Claims, new_key_pair, sign_licence


def in_days(days: int) -> date:
    """The date (UTC) so many days from today."""
    return datetime.now(UTC).date() + timedelta(days=days)


class Vendor:
    """Signs licences that `public_key` verifies; a good one for 100 users unless told."""

    def __init__(self) -> None:
        self.private_key, self.public_key = new_key_pair()

    def licence(self, **claims) -> str:
        usual = Claims("enterprise", "Example Ltd", in_days(400), 100, 60, id="l-1", issued=in_days(0))
        return sign_licence(replace(usual, **claims), self.private_key)
