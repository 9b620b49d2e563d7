"""The callers who share a cached answer."""

from gateway_project.work.exchange import Exchange
from gateway_project.work.snapshot.records import ProviderSnapshot
from providers.formats import WorkRequest


def scope_at(request: WorkRequest, provider: ProviderSnapshot) -> str:
    """The provider's scope, but at most the user where the answer names what is kept for its user alone."""
    is_kept = provider.format is not None and provider.format.is_kept(request)
    return "user" if is_kept and provider.cache_scope != "key" else provider.cache_scope


def cache_scope_of(exchange: Exchange, scope: str) -> str:
    """The callers whom a cached answer is shared with, as a part of its key; empty for everybody."""
    caller = exchange.identity.caller
    if scope == "key" and exchange.identity.key is not None:
        return f"key {exchange.identity.key.id}"
    assert caller is not None
    if scope in ("user", "key"):
        return f"user {caller.id}"
    if scope == "group":
        return f"groups {sorted(caller.group_ids)}" if caller.group_ids else f"user {caller.id}"
    return ""
