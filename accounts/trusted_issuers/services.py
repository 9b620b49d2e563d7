"""Every change to trusted issuers, and the keys that processes fetch from them."""

from collections.abc import Iterable, Mapping
from copy import copy
from datetime import datetime
from typing import Any, TypedDict, Unpack

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.trusted_issuers.models import TrustedIssuer
from accounts.trusted_issuers.values import NEEDS_HTTPS, is_fetchable, read_algorithms, read_jwks, read_subjects
from gateway_project.database.saving import lock_row, save_or_refuse
from gateway_project.errors import Conflict, ValidationError
from gateway_project.json_types import JsonObject
from providers.transport.addresses import url_refusal

MAX_ISSUERS = 50
MAX_PROBLEM_LENGTH = 500
MAX_STALE_SECONDS = 24 * 3600.0  # how long keys count that cannot be fetched again, as for single sign-on
READERS = {"algorithms": read_algorithms, "subjects": read_subjects, "jwks": read_jwks}
SOURCE = ("issuer", "jwks_url", "jwks")  # a change of these makes what was fetched worthless


class IssuerChanges(TypedDict, total=False):
    """The parameters of create_trusted_issuer(), each of which an update may leave out."""

    name: str
    enabled: bool
    issuer: str
    audience: str
    algorithms: list[str]
    jwks_url: str
    jwks: JsonObject | None
    user_claim: str
    user_prefix: str
    subjects: dict[str, str]
    leeway_seconds: int
    max_age_seconds: int


@transaction.atomic
def create_trusted_issuer(**values: Unpack[IssuerChanges]) -> TrustedIssuer:
    """Accept the tokens of an issuer for work; it needs a name, an issuer and an audience.

    Raises Conflict if there is one of this name, or for this issuer and audience, and ValidationError.
    """
    if TrustedIssuer.objects.count() >= MAX_ISSUERS:
        raise Conflict(f"There are {MAX_ISSUERS} trusted issuers, the maximum. Delete some first.")
    row = TrustedIssuer()
    _write(row, values)
    return row


@transaction.atomic
def update_trusted_issuer(row: TrustedIssuer, **changes: Unpack[IssuerChanges]) -> None:
    """Store changes with the names of create_trusted_issuer(). Raises as above, and NotFound if the row is gone."""
    lock_row(row, TrustedIssuer.objects.all())
    _write(row, changes)


def delete_trusted_issuer(row: TrustedIssuer) -> None:
    """Accept no token of the issuer from now on."""
    row.delete()


def claim_fetch(issuer_id: int, *, every: float, now: datetime) -> bool:
    """Whether the caller is to fetch the issuer's keys now: of all processes one, and once in so many seconds."""
    rows = TrustedIssuer.objects.enabled().filter(pk=issuer_id).not_fetched_since(now, every)
    return rows.update(fetch_begun_at=now) == 1


def store_fetched_keys(issuer_id: int, *, issuer: str, jwks_url: str, jwks: JsonObject, problem: str) -> None:
    """Keep the keys that were fetched from this issuer and URL; not if the row has others by now."""
    rows = TrustedIssuer.objects.filter(pk=issuer_id, issuer=issuer, jwks_url=jwks_url, jwks__isnull=True)
    row = rows.first()
    if row is None:
        return
    if row.fetched_jwks != jwks:  # processes load a row only when it changes
        rows.update(fetched_jwks=jwks)
    rows.update(fetched_at=timezone.now(), fetch_problem=_as_stored(problem))


def store_fetch_problem(issuer_id: int, problem: str) -> bool:
    """Store why the keys could not be fetched, and keep the former ones; returns whether the problem is new."""
    rows = TrustedIssuer.objects.filter(pk=issuer_id)
    is_new = not rows.filter(fetch_problem=_as_stored(problem)).exists()
    rows.update(fetch_problem=_as_stored(problem))
    return is_new


def drop_stale_keys(issuer_id: int) -> bool:
    """Forget the keys of an issuer that could not be fetched for MAX_STALE_SECONDS; whether it had any.

    The feed tells all processes: a key that its issuer has withdrawn must not count for ever because nobody can ask.
    """
    rows = TrustedIssuer.objects.filter(pk=issuer_id).with_stale_keys(timezone.now(), MAX_STALE_SECONDS)
    return bool(rows.update(fetched_jwks=None))


def _as_stored(problem: str) -> str:
    """A text that may repeat what a server said, as a database takes it."""
    return "".join(letter if letter.isprintable() else "?" for letter in problem[:MAX_PROBLEM_LENGTH])


def _write(row: TrustedIssuer, changes: IssuerChanges) -> None:
    before, values = copy(row), _read(changes)
    for name, value in values.items():
        setattr(row, name, value)
    if values.get("subjects"):
        row.subjects = _with_exact_names(row.subjects, before.subjects if before.pk else {})
    _check_source(row)
    if any(getattr(row, name) != getattr(before, name) for name in SOURCE):
        row.fetched_jwks, row.fetched_at, row.fetch_begun_at, row.fetch_problem = None, None, None, ""
    conflict = f"A trusted issuer named {row.name!r}, or with this issuer and audience, exists already."
    save_or_refuse(row, conflict=conflict)


def _read(changes: IssuerChanges) -> dict[str, Any]:
    values: Mapping[str, object] = changes
    return {name: READERS[name](value, name) if name in READERS else value for name, value in values.items()}


def _check_source(row: TrustedIssuer) -> None:
    """Raise ValidationError unless it is clear where the keys come from."""
    if row.jwks is not None:
        if row.jwks_url:
            raise ValidationError("must be empty if jwks is set: stored keys are not fetched.", field="jwks_url")
    elif row.jwks_url:
        if not is_fetchable(row.jwks_url):
            raise ValidationError(NEEDS_HTTPS, field="jwks_url")
    elif row.issuer and not is_fetchable(row.issuer):
        problem = "must be an https URL unless jwksUrl or jwks is set: the gateway finds the keys there."
        raise ValidationError(problem, field="issuer")
    if row.jwks is None:
        for field in ("jwks_url", "issuer"):
            if problem := url_refusal(getattr(row, field)):
                raise ValidationError(problem, field=field)


def _with_exact_names(subjects: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """The subjects with names as users have them. Raises ValidationError for users who do not exist, if new."""
    exact = _names_of(set(subjects.values()) - set(before.values()))
    return {subject: exact.get(username, username) for subject, username in subjects.items()}


def _names_of(usernames: Iterable[str]) -> dict[str, str]:
    names = {}
    for username in usernames:
        user = User.objects.live().with_username(username).first()
        if user is None:
            raise ValidationError(f"there is no user named {username!r}.", field="subjects")
        names[username] = user.username
    return names
