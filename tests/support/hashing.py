"""Passwords that cost nothing to hash: tests make users by the thousand."""

from django.contrib.auth.hashers import Argon2PasswordHasher


class QuickHasher(Argon2PasswordHasher):
    """Hashes that every Argon2 hasher verifies, a gateway's own, too, without their price."""

    time_cost = parallelism = 1
    memory_cost = 8


QUICK_HASHERS = [f"{QuickHasher.__module__}.{QuickHasher.__name__}"]
