"""Requests to a provider, as its tests send them."""

from providers.transport.calls import Call
from providers.transport.transport import ProviderRequest, TransportLimits

PATIENCE = TransportLimits(connect=1, first_byte=2, idle=2, response_bytes=100_000)


def new_call(seconds=5):
    return Call(client=None, total_seconds=seconds)


def ask(transport, url, call=None, **headers):
    """One request and its whole answer."""
    request = ProviderRequest(url, b'{"model": "m"}', headers)
    return transport.send(request, PATIENCE, call or new_call()).read()
