"""One-time codes: those that authenticator apps show, and recovery codes. Calculations only."""

import hashlib
import secrets

import pyotp
from pyotp.utils import strings_equal

STEP_SECONDS, DIGITS = 30, 6
SKEW = 1  # steps that the clocks of app and gateway may differ by
RECOVERY_CODES = 10
GROUPS, GROUP_LENGTH = 4, 4
LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none looks like another; 79 bits a code, so that a digest is enough


def new_secret() -> str:
    """The secret of a new app: 160 bits in base32."""
    return pyotp.random_base32()


def provisioning_uri(secret: str, *, username: str, host: str) -> str:
    """The otpauth address of a secret, which apps read from a QR code."""
    return pyotp.TOTP(secret).provisioning_uri(name=username, issuer_name=f"Gateway {host}")


def normalize_code(code: str) -> str:
    """A code as it is compared: people group and capitalise what they type."""
    return "".join(code.split()).replace("-", "").lower()


def is_app_code(code: str) -> bool:
    """Whether a normalised code has the form of an app's."""
    return len(code) == DIGITS and code.isascii() and code.isdigit()


def matching_step(secret: str, code: str, *, at: float) -> int | None:
    """The time step that a normalised code belongs to, near the moment `at` (seconds since 1970); None for no step."""
    app, current = pyotp.TOTP(secret), int(at) // STEP_SECONDS
    steps = range(current - SKEW, current + SKEW + 1)
    return max((step for step in steps if strings_equal(app.generate_otp(step), code)), default=None)


def new_recovery_codes() -> list[str]:
    """The recovery codes that a user gets at once."""
    return [_recovery_code() for _ in range(RECOVERY_CODES)]


def _recovery_code() -> str:
    groups = ("".join(secrets.choice(LETTERS) for _ in range(GROUP_LENGTH)) for _ in range(GROUPS))
    return "-".join(groups)


def digest_of(code: str, user_id: int) -> str:
    """What is stored of a recovery code."""
    return hashlib.sha256(f"{user_id}:{normalize_code(code)}".encode("utf-8", "replace")).hexdigest()
