"""Which of a provider's credentials a request is sent with."""

from collections.abc import Iterator, Sequence

from gateway_project.work.exchange import Exchange
from gateway_project.work.routing.strategies import rendezvous_hash
from gateway_project.work.snapshot.records import ProviderSnapshot, Target


def with_credentials(targets: Sequence[Target], seed: bytes) -> list[Target]:
    """The targets, each with a credential drawn by weight, and with its other ones directly behind.

    The seed decides: requests with the same one go to the same credential, whose account has their prompt cached.
    """
    if not any(target.provider.siblings for target in targets):
        return list(targets)
    return [with_credential for target in targets for with_credential in _by_credential(target, seed)]


def account_seed(exchange: Exchange, targets: Sequence[Target], seed: bytes) -> bytes:
    """The seed for with_credentials(): the user, where a provider keeps something for them, else the given one.

    A stored response is known to the account that made it alone.
    """
    request, caller = exchange.request, exchange.identity.caller
    assert request is not None
    assert caller is not None
    formats = (target.provider.format for target in targets if target.provider.siblings)
    if request.stateful_parameter or any(format is not None and format.is_kept(request) for format in formats):
        return caller.id.to_bytes(8, "big")
    return seed


def _by_credential(target: Target, seed: bytes) -> Iterator[Target]:
    if not target.provider.siblings:
        return iter((target,))
    ordered = sorted(target.provider.siblings, key=lambda account: _draw(account, seed))
    return (Target(account, target.model) for account in ordered)


def _draw(account: ProviderSnapshot, seed: bytes) -> float:
    name = b"".join(number.to_bytes(8, "big") for number in account.account)
    return rendezvous_hash(name, seed, account.credential_weight)
