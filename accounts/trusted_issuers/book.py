"""The trusted issuers of a process, and the tokens that it has verified: a token in use costs one look into a table."""

import threading
from collections import defaultdict
from collections.abc import Iterable
from hashlib import sha256
from itertools import islice

from accounts.trusted_issuers.verification import (
    IS_FETCHED,
    MAX_TOKEN_LENGTH,
    UNKNOWN_KEY,
    IssuerSnapshot,
    UnverifiedToken,
    VerifiedToken,
    read_unverified,
    require_time,
    verify_token,
)
from gateway_project.errors import AuthenticationFailed

MAX_VERIFIED = 20_000  # tokens that are remembered
RETRY_SECONDS = 5


class IssuerBook:
    """The enabled issuers. A change of one of them makes a new book, which remembers no token."""

    def __init__(self, issuers: Iterable[IssuerSnapshot], user_ids: dict[str, int]) -> None:
        self.issuers = tuple(issuers)
        self.user_ids = user_ids  # by name; the follower adds new users
        self.wanted_keys: dict[int, float] = {}  # by issuer: when a token last named a key that is not here
        self._by_issuer: dict[str, list[IssuerSnapshot]] = defaultdict(list)
        for issuer in self.issuers:
            self._by_issuer[issuer.issuer].append(issuer)
        self._verified: dict[bytes, VerifiedToken] = {}
        self._lock = threading.Lock()

    def verify(self, token: str, now: float) -> VerifiedToken | None:
        """The token of a trusted issuer; None for any other text. Raises AuthenticationFailed.

        Whether its user still exists and is active is for the caller to check, each time.
        """
        if len(token) > MAX_TOKEN_LENGTH:
            raise AuthenticationFailed
        digest = sha256(token.encode("utf-8", "surrogatepass")).digest()
        verified = self._verified.get(digest)
        if verified is None:
            parts = read_unverified(token)
            issuers = self._by_issuer.get(parts.issuer) if parts and isinstance(parts.issuer, str) else None
            if parts is None or not issuers:
                return None
            verified = self._verify(token, parts, issuers, now)
            self._remember(digest, verified)
        require_time(verified, now)
        return verified

    def _verify(self, token: str, parts: UnverifiedToken, issuers: list[IssuerSnapshot], now: float) -> VerifiedToken:
        if not isinstance(parts.key_id, str) or parts.has_extensions:
            raise AuthenticationFailed
        issuer = _choose(issuers, parts)
        key = issuer.keys.get(parts.key_id)
        if key is None:
            raise self._unknown_key(issuer, now)
        return verify_token(token, parts.algorithm, key, issuer)

    def _unknown_key(self, issuer: IssuerSnapshot, now: float) -> AuthenticationFailed:
        if issuer.has_own_keys:
            return AuthenticationFailed(UNKNOWN_KEY)
        self.wanted_keys[issuer.id] = now
        return AuthenticationFailed(IS_FETCHED, retry_after=RETRY_SECONDS)

    def _remember(self, digest: bytes, token: VerifiedToken) -> None:
        with self._lock:
            if len(self._verified) >= MAX_VERIFIED:  # the oldest tenth; they are verified again if they come again
                for oldest in list(islice(self._verified, MAX_VERIFIED // 10)):
                    del self._verified[oldest]
            self._verified[digest] = token


def _choose(issuers: list[IssuerSnapshot], parts: UnverifiedToken) -> IssuerSnapshot:
    """Of several clusters with the same `iss` the one with the token's audience and key."""
    audiences = parts.audience if isinstance(parts.audience, list) else [parts.audience]
    return max(issuers, key=lambda issuer: (issuer.audience in audiences, parts.key_id in issuer.keys))
