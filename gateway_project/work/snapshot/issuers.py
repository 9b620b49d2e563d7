"""Loads the enabled trusted issuers, with the keys that their tokens are verified with."""

import logging

from accounts.trusted_issuers.book import IssuerBook
from accounts.trusted_issuers.jwks import PublicKey, public_keys, read_key_set
from accounts.trusted_issuers.models import TrustedIssuer
from accounts.trusted_issuers.values import read_algorithms, read_subjects
from accounts.trusted_issuers.verification import IssuerSnapshot
from gateway_project.work.snapshot.records import Snapshot

log = logging.getLogger("gateway.snapshot")


def load_issuers(snapshot: Snapshot) -> None:
    """Make a new book of all enabled issuers, or none if there are none."""
    rows = list(TrustedIssuer.objects.enabled().order_by("id"))
    if not rows:
        snapshot.issuers = None
        return
    user_ids = {caller.name: caller.id for caller in snapshot.callers.values()}
    issuers = [issuer for row in rows if (issuer := _issuer(row)) is not None]
    snapshot.issuers = IssuerBook(issuers, user_ids)


def _issuer(row: TrustedIssuer) -> IssuerSnapshot | None:
    try:
        return IssuerSnapshot(
            id=row.pk,
            name=row.name,
            issuer=row.issuer,
            audience=row.audience,
            leeway_seconds=row.leeway_seconds,
            max_age_seconds=row.max_age_seconds,
            user_claim=row.user_claim,
            user_prefix=row.user_prefix,
            subjects=read_subjects(row.subjects),
            keys=_keys(row),
            jwks_url=row.jwks_url,
            has_own_keys=row.has_own_keys,
        )
    except Exception:  # rows that something else has written: they must not keep the others from being loaded
        log.exception("The trusted issuer %s cannot be used: its tokens are refused.", row.name)
        return None


def _keys(row: TrustedIssuer) -> dict[str, PublicKey]:
    document = row.jwks if row.has_own_keys else row.fetched_jwks
    return public_keys(read_key_set(document).keys, read_algorithms(row.algorithms)) if document is not None else {}
